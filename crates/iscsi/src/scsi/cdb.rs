//! Decodes command descriptor blocks. Units call this.
//!
//! Invariant: decoding checks fields, not the state of a unit. A block that decodes has no field
//! that would have to be ignored: protection information and unknown bits of meaning are refused.

use super::opcodes::{self, code};
use super::sense::Sense;

/// A command descriptor block; short ones end with zeroes.
#[derive(Clone, Copy)]
pub(crate) struct Cdb(pub(crate) [u8; 16]);

impl Cdb {
    fn u8<const AT: usize>(&self) -> u8 {
        const { assert!(AT < 16) };
        self.0[AT]
    }

    fn bit<const AT: usize>(&self, mask: u8) -> bool {
        self.u8::<AT>() & mask != 0
    }

    fn u16<const AT: usize>(&self) -> u16 {
        const { assert!(AT + 2 <= 16) };
        u16::from_be_bytes([self.0[AT], self.0[AT + 1]])
    }

    fn u32<const AT: usize>(&self) -> u32 {
        u32::from(self.u16::<AT>()) << 16 | u32::from(self.u16_after::<AT>())
    }

    fn u16_after<const AT: usize>(&self) -> u16 {
        const { assert!(AT + 4 <= 16) };
        u16::from_be_bytes([self.0[AT + 2], self.0[AT + 3]])
    }

    fn u64<const AT: usize>(&self) -> u64 {
        const { assert!(AT + 8 <= 16) };
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[AT..AT + 8]);
        u64::from_be_bytes(bytes)
    }
}

/// A range of blocks and how to treat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    /// The data must be on the medium.
    pub(crate) fua: bool,
    /// GROUP NUMBER: the class of the request.
    pub(crate) group: u8,
}

/// The part of VERIFY and WRITE AND VERIFY that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// Nothing: the medium is only read.
    Medium,
    /// All blocks with the data.
    All,
    /// All blocks with one block of data.
    One,
}

/// A decoded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    TestUnitReady,
    RequestSense {
        descriptor: bool,
        allocation: u64,
    },
    Inquiry {
        page: Option<u8>,
        allocation: u64,
    },
    ReportLuns {
        select: u8,
        allocation: u64,
    },
    ModeSense {
        long: bool,
        no_descriptor: bool,
        llbaa: bool,
        control: u8,
        page: u8,
        subpage: u8,
        allocation: u64,
    },
    ModeSelect {
        long: bool,
        list: u64,
    },
    ReadCapacity10,
    ReadCapacity16 {
        allocation: u64,
    },
    Read(Range),
    Write(Range),
    WriteVerify(Range, Compare),
    OrWrite(Range),
    Verify(Range, Compare),
    SynchronizeCache(Range),
    Prefetch(Range),
    Unmap {
        list: u64,
        group: u8,
    },
    WriteSame {
        range: Range,
        unmap: bool,
        no_data: bool,
    },
    CompareAndWrite(Range),
    GetLbaStatus {
        lba: u64,
        allocation: u64,
    },
    PersistentIn {
        action: u8,
        allocation: u64,
    },
    PersistentOut {
        action: u8,
        scope: u8,
        kind: u8,
        list: u64,
    },
    Reserve,
    Release,
    ReportOpcodes {
        options: u8,
        operation: u8,
        action: u16,
        timeouts: bool,
        allocation: u64,
    },
    StartStop {
        start: bool,
        eject: bool,
        condition: u8,
    },
    PreventRemoval,
}

impl Command {
    /// Decodes a block.
    pub(crate) fn decode(cdb: &Cdb) -> Result<Self, Sense> {
        let operation = cdb.u8::<0>();
        Ok(match operation {
            code::READ_10 => Self::Read(ten(cdb)?),
            code::WRITE_10 => Self::Write(ten(cdb)?),
            code::READ_16 => Self::Read(sixteen(cdb)?),
            code::WRITE_16 => Self::Write(sixteen(cdb)?),
            code::READ_6 => Self::Read(six(cdb)),
            code::WRITE_6 => Self::Write(six(cdb)),
            code::READ_12 => Self::Read(twelve(cdb)?),
            code::WRITE_12 => Self::Write(twelve(cdb)?),
            code::WRITE_VERIFY_10 => Self::WriteVerify(ten(cdb)?, compare(cdb)?),
            code::WRITE_VERIFY_12 => Self::WriteVerify(twelve(cdb)?, compare(cdb)?),
            code::WRITE_VERIFY_16 => Self::WriteVerify(sixteen(cdb)?, compare(cdb)?),
            code::ORWRITE => Self::OrWrite(sixteen(cdb)?),
            code::VERIFY_10 => Self::Verify(ten(cdb)?, compare(cdb)?),
            code::VERIFY_12 => Self::Verify(twelve(cdb)?, compare(cdb)?),
            code::VERIFY_16 => Self::Verify(sixteen(cdb)?, compare(cdb)?),
            code::SYNCHRONIZE_10 => Self::SynchronizeCache(ten_unprotected(cdb)),
            code::SYNCHRONIZE_16 => Self::SynchronizeCache(sixteen_unprotected(cdb)),
            code::PREFETCH_10 => Self::Prefetch(ten_unprotected(cdb)),
            code::PREFETCH_16 => Self::Prefetch(sixteen_unprotected(cdb)),
            // ANCHOR: anchored blocks do not exist here.
            code::UNMAP if cdb.bit::<1>(1) => return Err(Sense::INVALID_FIELD_IN_CDB),
            code::UNMAP => Self::Unmap {
                list: cdb.u16::<7>().into(),
                group: cdb.u8::<6>() & GROUP,
            },
            code::WRITE_SAME_10 => write_same(cdb, ten(cdb)?, false)?,
            code::WRITE_SAME_16 => write_same(cdb, sixteen(cdb)?, cdb.bit::<1>(1))?,
            code::COMPARE_AND_WRITE => {
                unprotected(cdb)?;
                Self::CompareAndWrite(Range {
                    lba: cdb.u64::<2>(),
                    blocks: cdb.u8::<13>().into(),
                    fua: cdb.bit::<1>(FUA),
                    group: cdb.u8::<14>() & GROUP,
                })
            }
            _ => return Self::decode_other(operation, cdb),
        })
    }

    /// Decodes a block of a command that does not address blocks.
    fn decode_other(operation: u8, cdb: &Cdb) -> Result<Self, Sense> {
        Ok(match (operation, cdb.u8::<1>() & 0x1f) {
            (code::TEST_UNIT_READY, _) => Self::TestUnitReady,
            (code::REQUEST_SENSE, _) => Self::RequestSense {
                descriptor: cdb.bit::<1>(1),
                allocation: cdb.u8::<4>().into(),
            },
            (code::INQUIRY, _) => {
                let (evpd, page) = (cdb.bit::<1>(1), cdb.u8::<2>());
                // CMDDT is obsolete, and a page without EVPD is an error.
                if cdb.bit::<1>(2) || (!evpd && page != 0) {
                    return Err(Sense::INVALID_FIELD_IN_CDB);
                }
                Self::Inquiry {
                    page: evpd.then_some(page),
                    allocation: cdb.u16::<3>().into(),
                }
            }
            (code::REPORT_LUNS, _) => Self::ReportLuns {
                select: cdb.u8::<2>(),
                allocation: cdb.u32::<6>().into(),
            },
            (code::MODE_SENSE_6, _) => mode_sense(cdb, false, cdb.u8::<4>().into()),
            (code::MODE_SENSE_10, _) => mode_sense(cdb, true, cdb.u16::<7>().into()),
            (code::MODE_SELECT_6, _) => mode_select(cdb, false, cdb.u8::<4>().into())?,
            (code::MODE_SELECT_10, _) => mode_select(cdb, true, cdb.u16::<7>().into())?,
            (code::READ_CAPACITY_10, _) => Self::ReadCapacity10,
            (code::SERVICE_IN_16, opcodes::READ_CAPACITY_16) => Self::ReadCapacity16 {
                allocation: cdb.u32::<10>().into(),
            },
            (code::SERVICE_IN_16, opcodes::GET_LBA_STATUS) => Self::GetLbaStatus {
                lba: cdb.u64::<2>(),
                allocation: cdb.u32::<10>().into(),
            },
            (code::PERSISTENT_IN, action) => Self::PersistentIn {
                action,
                allocation: cdb.u16::<7>().into(),
            },
            (code::PERSISTENT_OUT, action) => Self::PersistentOut {
                action,
                scope: cdb.u8::<2>() >> 4,
                kind: cdb.u8::<2>() & 0xf,
                list: cdb.u32::<5>().into(),
            },
            (code::RESERVE_6, _) => Self::Reserve,
            (code::RELEASE_6, _) => Self::Release,
            (code::MAINTENANCE_IN, opcodes::REPORT_OPCODES) => Self::ReportOpcodes {
                options: cdb.u8::<2>() & 7,
                operation: cdb.u8::<3>(),
                action: cdb.u16::<4>(),
                timeouts: cdb.bit::<2>(0x80),
                allocation: cdb.u32::<6>().into(),
            },
            (code::START_STOP, _) => Self::StartStop {
                start: cdb.bit::<4>(1),
                eject: cdb.bit::<4>(2),
                condition: cdb.u8::<4>() >> 4,
            },
            (code::PREVENT_REMOVAL, _) => Self::PreventRemoval,
            // The operation exists, the service action does not.
            (code::SERVICE_IN_16 | code::MAINTENANCE_IN, _) => {
                return Err(Sense::INVALID_FIELD_IN_CDB);
            }
            _ => return Err(Sense::INVALID_OPERATION),
        })
    }
}

/// Bits of GROUP NUMBER.
const GROUP: u8 = 0x3f;
const FUA: u8 = 0x08;

/// Refuses protection information: no unit is formatted with it.
fn unprotected(cdb: &Cdb) -> Result<(), Sense> {
    match cdb.u8::<1>() >> 5 {
        0 => Ok(()),
        _ => Err(Sense::INVALID_FIELD_IN_CDB),
    }
}

fn six(cdb: &Cdb) -> Range {
    let blocks = match cdb.u8::<4>() {
        0 => 256,
        blocks => u64::from(blocks),
    };
    Range {
        lba: u64::from(cdb.u32::<0>() & 0x1f_ffff),
        blocks,
        ..Range::default()
    }
}

fn ten(cdb: &Cdb) -> Result<Range, Sense> {
    unprotected(cdb)?;
    Ok(ten_unprotected(cdb))
}

fn ten_unprotected(cdb: &Cdb) -> Range {
    Range {
        lba: cdb.u32::<2>().into(),
        blocks: cdb.u16::<7>().into(),
        fua: cdb.bit::<1>(FUA),
        group: cdb.u8::<6>() & GROUP,
    }
}

fn twelve(cdb: &Cdb) -> Result<Range, Sense> {
    unprotected(cdb)?;
    Ok(Range {
        lba: cdb.u32::<2>().into(),
        blocks: cdb.u32::<6>().into(),
        fua: cdb.bit::<1>(FUA),
        group: cdb.u8::<10>() & GROUP,
    })
}

fn sixteen(cdb: &Cdb) -> Result<Range, Sense> {
    unprotected(cdb)?;
    Ok(sixteen_unprotected(cdb))
}

fn sixteen_unprotected(cdb: &Cdb) -> Range {
    Range {
        lba: cdb.u64::<2>(),
        blocks: cdb.u32::<10>().into(),
        fua: cdb.bit::<1>(FUA),
        group: cdb.u8::<14>() & GROUP,
    }
}

fn compare(cdb: &Cdb) -> Result<Compare, Sense> {
    match cdb.u8::<1>() >> 1 & 3 {
        0 => Ok(Compare::Medium),
        1 => Ok(Compare::All),
        3 => Ok(Compare::One),
        _ => Err(Sense::INVALID_FIELD_IN_CDB),
    }
}

fn write_same(cdb: &Cdb, range: Range, no_data: bool) -> Result<Command, Sense> {
    let (anchor, unmap) = (cdb.bit::<1>(0x10), cdb.bit::<1>(0x08));
    // PBDATA and LBDATA are obsolete.
    let is_obsolete = cdb.bit::<1>(0x06);
    if anchor || is_obsolete {
        return Err(Sense::INVALID_FIELD_IN_CDB);
    }
    Ok(Command::WriteSame {
        // The bit of FUA is UNMAP here.
        range: Range {
            fua: false,
            ..range
        },
        unmap,
        no_data,
    })
}

fn mode_sense(cdb: &Cdb, long: bool, allocation: u64) -> Command {
    Command::ModeSense {
        long,
        no_descriptor: cdb.bit::<1>(0x08),
        llbaa: long && cdb.bit::<1>(0x10),
        control: cdb.u8::<2>() >> 6,
        page: cdb.u8::<2>() & 0x3f,
        subpage: cdb.u8::<3>(),
        allocation,
    }
}

fn mode_select(cdb: &Cdb, long: bool, list: u64) -> Result<Command, Sense> {
    let (has_format, saves) = (cdb.bit::<1>(0x10), cdb.bit::<1>(0x01));
    match has_format && !saves {
        true => Ok(Command::ModeSelect { long, list }),
        false => Err(Sense::INVALID_FIELD_IN_CDB),
    }
}
