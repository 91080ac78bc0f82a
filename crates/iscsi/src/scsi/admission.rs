//! Decides what a command needs: checks it against the state and the size of a unit. Sessions call
//! this for every command.
//!
//! Invariant: attentions come first, then reservations, then the command itself. A read or a write
//! of a quiet unit takes no lock.

use super::action::{Action, Job, Refusal, Span, Work};
use super::cdb::{Cdb, Command, Compare, Range};
use super::inquiry::{self, COMPARE_BLOCKS_MAX, TRANSFER_BYTES_MAX, WRITE_SAME_BYTES_MAX};
use super::mode::{self, Asked, Mode};
use super::opcodes;
use super::parameters::RANGES_MAX;
use super::reservations::{Nexus, Notices, Use};
use super::sense::Sense;
use super::unit::Unit;
use units::IoClass;
use volume::{RequestContext, Volume};

/// Largest parameter list of UNMAP, bytes.
const UNMAP_LIST_BYTES_MAX: u64 = 8 + 16 * RANGES_MAX as u64;
/// Largest list of MODE SELECT, bytes.
const MODE_LIST_BYTES_MAX: u64 = 4096;

impl Unit {
    /// Checks a command and returns how it is carried out. `numbers` lists the units of the target.
    pub(crate) fn admit(
        &self,
        nexus: &Nexus,
        cdb: &Cdb,
        numbers: &[u8],
    ) -> Result<Action, Refusal> {
        let blocks = self.blocks();
        let command = Command::decode(cdb);
        let what = command.as_ref().map_or(Use::Status, use_of);
        let mode = self.check(nexus, what)?;
        let command = command?;
        if changes(&command) {
            if self.is_read_only {
                return Err(Sense::WRITE_PROTECTED.into());
            }
            if mode.write_protected {
                return Err(Sense::SOFTWARE_WRITE_PROTECTED.into());
            }
        }
        match command {
            Command::Read(range) => Ok(Action::Read(self.span(range, blocks)?)),
            Command::Write(range) => self.write(range, None, mode, blocks),
            Command::WriteVerify(range, Compare::One) => {
                let _ = range;
                Err(Sense::INVALID_FIELD_IN_CDB.into())
            }
            Command::WriteVerify(range, compare) => self.write(range, Some(compare), mode, blocks),
            Command::OrWrite(range) => {
                let span = self.span(range, blocks)?;
                let fua = range.fua || !mode.write_cache;
                Ok(job(Work::OrWrite { span, fua }, span.len_bytes))
            }
            Command::Verify(range, compare) => {
                let span = self.span(range, blocks)?;
                let data_bytes = match compare {
                    Compare::Medium => 0,
                    Compare::All => span.len_bytes,
                    Compare::One => self.block_bytes().min(span.len_bytes),
                };
                Ok(job(Work::Verify { span, compare }, data_bytes))
            }
            Command::SynchronizeCache(range) => {
                in_range(range.lba, range.blocks, blocks)?;
                let class = IoClass(range.group);
                Ok(job(Work::Flush { class }, 0))
            }
            Command::Prefetch(range) => {
                in_range(range.lba, range.blocks, blocks)?;
                let len = if range.blocks == 0 {
                    blocks - range.lba
                } else {
                    range.blocks
                };
                let (offset, len) = (range.lba * self.block_bytes(), len * self.block_bytes());
                let context = context(range.group);
                self.volume.capabilities().prefetch(context, offset, len);
                Ok(Action::Good)
            }
            Command::Unmap { list, group } => match list {
                0 => Ok(Action::Good),
                8..=UNMAP_LIST_BYTES_MAX => {
                    let class = IoClass(group);
                    Ok(job(Work::Unmap { class }, list))
                }
                _ => Err(Sense::PARAMETER_LIST_LENGTH.into()),
            },
            Command::WriteSame {
                range,
                unmap,
                no_data,
            } => {
                let span = self.same_span(range, blocks)?;
                let data_bytes = if no_data { 0 } else { self.block_bytes() };
                Ok(job(
                    Work::WriteSame {
                        span,
                        unmap,
                        no_data,
                    },
                    data_bytes,
                ))
            }
            Command::CompareAndWrite(range) => {
                let span = self.span(range, blocks)?;
                if range.blocks > COMPARE_BLOCKS_MAX {
                    return Err(Sense::INVALID_FIELD_IN_CDB.into());
                }
                let fua = range.fua || !mode.write_cache;
                Ok(job(Work::CompareAndWrite { span, fua }, span.len_bytes * 2))
            }
            _ => self.admit_other(nexus, command, mode, numbers),
        }
    }

    /// Carries out commands that do not address blocks.
    #[expect(clippy::too_many_lines, reason = "one arm for each command")]
    fn admit_other(
        &self,
        nexus: &Nexus,
        command: Command,
        mode: Mode,
        numbers: &[u8],
    ) -> Result<Action, Refusal> {
        Ok(match command {
            Command::RequestSense {
                descriptor,
                allocation,
            } => {
                let sense = self.take_attention(nexus).unwrap_or(Sense::NONE);
                data(sense.encode(descriptor), allocation)
            }
            Command::Inquiry {
                page: None,
                allocation,
            } => data(inquiry::standard(true), allocation),
            Command::Inquiry {
                page: Some(code),
                allocation,
            } => {
                let page = inquiry::page(code, &self.identity, &self.geometry())?;
                data(page, allocation)
            }
            Command::ReportLuns { select, allocation } => {
                data(inquiry::luns(select, numbers.iter().copied())?, allocation)
            }
            Command::ModeSense {
                long,
                no_descriptor,
                llbaa,
                control,
                page,
                subpage,
                allocation,
            } => {
                let asked = Asked {
                    long,
                    no_descriptor,
                    llbaa,
                    control,
                    page,
                    subpage,
                };
                let (modes, sizes) = ((mode, self.default_mode), self.geometry().sizes());
                let sensed = mode::sense(modes, asked, self.is_read_only, sizes)?;
                data(sensed, allocation)
            }
            Command::ModeSelect { list: 0, .. } => Action::Good,
            Command::ModeSelect { list, .. } if list > MODE_LIST_BYTES_MAX => {
                return Err(Sense::PARAMETER_LIST_LENGTH.into());
            }
            Command::ModeSelect { long, list } => job(Work::ModeSelect { long }, list),
            Command::ReadCapacity10 => Action::Data(inquiry::capacity_10(&self.geometry())),
            Command::ReadCapacity16 { allocation } => {
                data(inquiry::capacity_16(&self.geometry()), allocation)
            }
            Command::GetLbaStatus { lba, allocation } => {
                in_range(lba, 1, self.blocks())?;
                job(Work::LbaStatus { lba, allocation }, 0)
            }
            Command::PersistentIn { action, allocation } => {
                let report = self.reservations(|r| {
                    let report = r.report(action, self.keeps_reservations());
                    (report, Notices::new())
                })?;
                data(report, allocation)
            }
            Command::PersistentOut {
                action,
                scope,
                kind,
                list,
            } => {
                if action > 6 {
                    return Err(Sense::INVALID_FIELD_IN_CDB.into());
                }
                if list != 24 {
                    return Err(Sense::PARAMETER_LIST_LENGTH.into());
                }
                job(
                    Work::PersistentOut {
                        action,
                        scope,
                        kind,
                    },
                    list,
                )
            }
            Command::Reserve => {
                self.reservations(|r| (r.reserve(nexus), Notices::new()))?;
                Action::Good
            }
            Command::Release => {
                self.reservations(|r| (r.release(nexus), Notices::new()));
                Action::Good
            }
            Command::ReportOpcodes {
                options,
                operation,
                action,
                timeouts,
                allocation,
            } => data(
                opcodes::report(options, operation, action, timeouts)?,
                allocation,
            ),
            // A stopped unit would be stopped for all initiators, so it only becomes durable.
            Command::StartStop {
                start: false,
                eject: false,
                condition: 0,
            } if !self.is_read_only => job(Work::Flush { class: IoClass(0) }, 0),
            _ => Action::Good,
        })
    }

    fn write(
        &self,
        range: Range,
        verify: Option<Compare>,
        mode: Mode,
        blocks: u64,
    ) -> Result<Action, Refusal> {
        let span = self.span(range, blocks)?;
        // In WRITE AND VERIFY the bit of FUA is not defined.
        let fua = (range.fua && verify.is_none()) || !mode.write_cache;
        Ok(job(Work::Write { span, fua, verify }, span.len_bytes))
    }

    /// Returns the bytes of a range that is transferred.
    fn span(&self, range: Range, blocks: u64) -> Result<Span, Sense> {
        in_range(range.lba, range.blocks, blocks)?;
        let len_bytes = range.blocks * self.block_bytes();
        if len_bytes > TRANSFER_BYTES_MAX {
            return Err(Sense::INVALID_FIELD_IN_CDB);
        }
        Ok(self.bytes(range))
    }

    /// Returns the bytes of a range of WRITE SAME.
    fn same_span(&self, range: Range, blocks: u64) -> Result<Span, Sense> {
        in_range(range.lba, range.blocks, blocks)?;
        // WSNZ: no blocks do not mean all up to the end.
        if range.blocks == 0 || range.blocks * self.block_bytes() > WRITE_SAME_BYTES_MAX {
            return Err(Sense::INVALID_FIELD_IN_CDB);
        }
        Ok(self.bytes(range))
    }

    fn bytes(&self, range: Range) -> Span {
        Span {
            offset_bytes: range.lba * self.block_bytes(),
            len_bytes: range.blocks * self.block_bytes(),
            context: context(range.group),
        }
    }
}

/// Returns the context of a request with this GROUP NUMBER.
pub(super) fn context(group: u8) -> RequestContext {
    RequestContext {
        class: IoClass(group),
        ..RequestContext::default()
    }
}

fn job(work: Work, data_bytes: u64) -> Action {
    Action::Job(Job { work, data_bytes })
}

fn data(mut bytes: Vec<u8>, allocation: u64) -> Action {
    bytes.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
    Action::Data(bytes)
}

/// Fails unless the range ends inside a unit of `size` blocks.
pub(super) fn in_range(lba: u64, blocks: u64, size: u64) -> Result<(), Sense> {
    match lba.checked_add(blocks) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Sense::OUT_OF_RANGE),
    }
}

/// Returns true if the command changes blocks.
fn changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::WriteVerify(..)
            | Command::OrWrite(_)
            | Command::Unmap { .. }
            | Command::WriteSame { .. }
            | Command::CompareAndWrite(_)
    )
}

fn use_of(command: &Command) -> Use {
    match command {
        // RELEASE of a unit that another session has reserved does nothing.
        Command::Inquiry { .. }
        | Command::ReportLuns { .. }
        | Command::RequestSense { .. }
        | Command::Release => Use::Always,
        Command::TestUnitReady
        | Command::Reserve
        | Command::ReadCapacity10
        | Command::ReadCapacity16 { .. }
        | Command::PersistentIn { .. }
        | Command::PersistentOut { .. }
        | Command::PreventRemoval
        | Command::ReportOpcodes { .. } => Use::Status,
        Command::Read(_)
        | Command::Verify(..)
        | Command::Prefetch(_)
        | Command::ModeSense { .. }
        | Command::GetLbaStatus { .. } => Use::Read,
        Command::StartStop { start: true, .. } => Use::Status,
        Command::StartStop { .. }
        | Command::SynchronizeCache(_)
        | Command::ModeSelect { .. }
        | Command::Write(_)
        | Command::WriteVerify(..)
        | Command::OrWrite(_)
        | Command::Unmap { .. }
        | Command::WriteSame { .. }
        | Command::CompareAndWrite(_) => Use::Write,
    }
}
