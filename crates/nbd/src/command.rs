//! Executes the commands of the transmission phase on a volume and writes their replies.
//! Connections and their workers call this.
//!
//! Invariant: every request gets exactly one complete reply in `out`, even in case of an error.
//! Nothing of a failed reply remains before the error.

mod read;
mod status;
#[cfg(test)]
mod status_tests;
#[cfg(test)]
mod tests;

use crate::REQUEST_BYTES_MAX;
use crate::errno::{errno, words};
use crate::negotiation::{Agreed, MetaContext};
use crate::wire::constants::{chunk, command_flag as flag};
use crate::wire::replies::{ChunkHeader, Errno, Style, chunk_header, simple};
use crate::wire::requests::{Command, NbdRequest};
use connections::{KINDS_MAX, Output, RequestKind, Tally};
use std::sync::Arc;
use volume::{Checked, Durability, RequestContext, Volume, VolumeError};

/// Maximum memory of a request, payload and reply together, bytes.
pub(crate) const COST_BYTES_MAX: u64 = REQUEST_BYTES_MAX as u64 + status::REPLY_BYTES_MAX;

const _: () = assert!(Command::ALL.len() <= KINDS_MAX);

impl RequestKind for Command {
    fn index(self) -> usize {
        self as usize
    }

    fn reads(self) -> bool {
        self == Self::Read
    }

    fn writes(self) -> bool {
        self == Self::Write
    }
}

/// A volume with the options that one client agreed on.
pub(crate) struct Export {
    volume: Checked<Arc<dyn Volume>>,
    style: Style,
    contexts: Vec<MetaContext>,
    read_only: bool,
    context: RequestContext,
}

/// Reason why a command failed.
enum Failure {
    /// The request was invalid.
    Refused(Errno),
    /// The volume failed.
    Volume(VolumeError),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        Self::Volume(error)
    }
}

impl Export {
    pub(crate) fn new(agreed: Agreed) -> Self {
        let read_only = agreed.volume.info().read_only;
        Self {
            volume: Checked::new(agreed.volume),
            style: agreed.style,
            contexts: agreed.contexts,
            read_only,
            context: RequestContext::default(),
        }
    }

    /// Returns true if requests have extended headers.
    pub(crate) fn extended(&self) -> bool {
        self.style == Style::Extended
    }

    /// Returns the maximum size of the reply to a request, bytes.
    pub(crate) fn reply_bytes(&self, request: &NbdRequest) -> u64 {
        match Command::from_number(request.command) {
            Some(Command::Read) if request.len_bytes <= u64::from(REQUEST_BYTES_MAX) => {
                request.len_bytes
            }
            Some(Command::BlockStatus) => status::REPLY_BYTES_MAX,
            _ => 0,
        }
    }

    /// Makes the device begin with a read that [`Export::execute`] has refused to wait for. Returns
    /// true if it did, and the read costs little more than waiting for that.
    pub(crate) fn announce(&self, request: &NbdRequest) -> bool {
        let (offset, len) = (request.offset_bytes, request.len_bytes);
        Command::from_number(request.command) == Some(Command::Read)
            && self
                .volume
                .capabilities()
                .announce(self.context, offset, len)
    }

    /// Executes a request and appends its reply. Returns false, with nothing done, if it would have
    /// to wait although `may_wait` is false.
    pub(crate) fn execute(
        &self,
        request: &NbdRequest,
        payload: &[u8],
        may_wait: bool,
        out: &mut Output,
        tally: &mut Tally,
    ) -> bool {
        let Some(command) = Command::from_number(request.command) else {
            tally.failed_unknown();
            self.refuse(request, Errno::Invalid, out);
            return true;
        };
        let before = out.len();
        let failure = match self.run(command, request, payload, may_wait, out) {
            Ok(false) => return false,
            Ok(true) => {
                tally.done(command, request.len_bytes);
                return true;
            }
            Err(failure) => failure,
        };
        let errno = match failure {
            Failure::Refused(errno) => errno,
            Failure::Volume(error) => errno(command, error.kind),
        };
        out.truncate(before);
        tally.failed(command);
        self.refuse(request, errno, out);
        true
    }

    fn run(
        &self,
        command: Command,
        request: &NbdRequest,
        payload: &[u8],
        may_wait: bool,
        out: &mut Output,
    ) -> Result<bool, Failure> {
        if request.flags & !allowed_flags(command, self.style) != 0 {
            return Err(Errno::Invalid.into());
        }
        let (offset, len) = (request.offset_bytes, request.len_bytes);
        let (context, volume) = (self.context, &self.volume);
        let durability = match request.flags & flag::FUA != 0 {
            true => Durability::Durable,
            false => Durability::Volatile,
        };
        match command {
            Command::Read => {
                if !may_wait && !volume.capabilities().is_cached(context, offset, len) {
                    return Ok(false);
                }
                self.read(request, out)?;
                return Ok(true);
            }
            Command::BlockStatus => return self.block_status(request, payload, may_wait, out),
            Command::Write => {
                if may_wait {
                    volume.write(context, offset, payload, durability)?;
                } else if durability == Durability::Durable && !self.read_only
                    || !volume.capabilities().write_now(context, offset, payload)?
                {
                    return Ok(false);
                }
            }
            Command::Flush | Command::Trim | Command::WriteZeroes
                if !may_wait && !self.read_only =>
            {
                return Ok(false);
            }
            Command::Flush => volume.flush(context)?,
            Command::Trim => {
                volume.discard(context, offset, len)?;
                if durability == Durability::Durable {
                    volume.flush(context)?;
                }
            }
            Command::Cache => {
                self.check_range(offset, len)?;
                volume.capabilities().prefetch(context, offset, len);
            }
            Command::WriteZeroes => {
                let may_free = request.flags & flag::NO_HOLE == 0;
                if request.flags & flag::FAST_ZERO != 0 && !may_free {
                    // Zeroes that keep their space may be as slow as writing them.
                    return Err(Errno::NotSupported.into());
                }
                volume.write_zeroes(context, offset, len, may_free, durability)?;
            }
            // Sessions end on this command. As a request it has no reply, so none would be right.
            Command::Disconnect => return Err(Errno::Invalid.into()),
        }
        self.done(request, out);
        Ok(true)
    }

    fn check_range(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), Failure> {
        match offset_bytes.checked_add(len_bytes) {
            Some(end) if end <= self.volume.size_bytes() => Ok(()),
            _ => Err(Errno::Invalid.into()),
        }
    }

    /// Appends the header of a chunk.
    fn chunk(&self, request: &NbdRequest, kind: u16, done: bool, payload: u32, out: &mut Output) {
        let header = ChunkHeader {
            kind,
            done,
            cookie: request.cookie,
            offset_bytes: request.offset_bytes,
            payload_bytes: payload,
        };
        out.push(chunk_header(self.style, header).as_bytes());
    }

    /// Appends a reply that reports only success.
    fn done(&self, request: &NbdRequest, out: &mut Output) {
        match self.style {
            Style::Simple | Style::Structured => {
                out.push(simple(request.cookie, None).as_bytes());
            }
            Style::Extended => self.chunk(request, chunk::NONE, true, 0, out),
        }
    }

    /// Appends a reply that reports only an error.
    fn refuse(&self, request: &NbdRequest, errno: Errno, out: &mut Output) {
        if self.style == Style::Simple {
            return out.push(simple(request.cookie, Some(errno)).as_bytes());
        }
        let words = words(errno).as_bytes();
        let len = words.len() as u16;
        self.chunk(request, chunk::ERROR, true, 6 + u32::from(len), out);
        out.push(&(errno as u32).to_be_bytes());
        out.push(&len.to_be_bytes());
        out.push(words);
    }
}

/// Returns the flags that `command` accepts. FUA is allowed with all commands.
fn allowed_flags(command: Command, style: Style) -> u16 {
    let own = match command {
        Command::Read if style != Style::Simple => flag::DF,
        Command::Write if style == Style::Extended => flag::PAYLOAD_LEN,
        Command::WriteZeroes => flag::NO_HOLE | flag::FAST_ZERO,
        Command::BlockStatus if style == Style::Extended => flag::REQ_ONE | flag::PAYLOAD_LEN,
        Command::BlockStatus => flag::REQ_ONE,
        _ => 0,
    };
    flag::FUA | own
}

/// Returns the length of a read, or an error if it is larger than served.
fn read_len(request: &NbdRequest) -> Result<usize, Failure> {
    if request.len_bytes > u64::from(REQUEST_BYTES_MAX) {
        return Err(Errno::Invalid.into());
    }
    Ok(request.len_bytes as usize)
}
