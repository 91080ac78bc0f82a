//! Turns a decoded request into a reply with one call of the file system. Sessions and fuzzers call
//! this.
//!
//! Invariant: every request that wants a reply gets exactly one, even when the file system panics.
//! No reply is longer than the kernel's buffer.

use crate::file_system::{FileSystem, SeekTarget, Zeroing};
use crate::listing::Listing;
use crate::negotiation::REQUEST_BYTES_MAX;
use crate::wire::constants::{NAME_BYTES_MAX, allocate, opcode, open, seek, set_attribute};
use crate::wire::replies;
use crate::wire::requests::{Operation, Range, RequestHeader};
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use volume::RequestContext;

/// Flags of open(2) that request write access.
const WRITING: u32 = 0o3;

/// The body of a reply. It keeps its memory from one reply to the next.
#[derive(Default)]
pub(crate) struct Body {
    small: Vec<u8>,
    /// Bytes that were read; only the first `data_bytes` are valid.
    data: Vec<u8>,
    data_bytes: usize,
}

impl Body {
    /// Returns all bytes after the header of the reply.
    pub fn as_bytes(&self) -> &[u8] {
        match self.data_bytes {
            0 => &self.small,
            len => self.data.get(..len).unwrap_or_default(),
        }
    }

    fn clear(&mut self) {
        self.small.clear();
        self.data_bytes = 0;
    }

    /// Returns a buffer of `len` bytes with undefined contents.
    fn room(&mut self, len: usize) -> &mut [u8] {
        if self.data.len() < len {
            self.data.resize(len, 0);
        }
        self.data.get_mut(..len).unwrap_or_default()
    }
}

/// Longest read or write that is served at once, bytes. Longer ones are worth their own thread.
const QUICK_BYTES_MAX: u32 = 128 << 10;

/// Executes one request if that is quick and needs no device. `None` if it may wait; then nothing
/// was done.
pub(crate) fn dispatch_now(
    files: &dyn FileSystem,
    header: &RequestHeader,
    operation: &Operation<'_>,
    body: &mut Body,
) -> Option<Outcome> {
    let Operation::Write {
        range,
        data,
        is_synchronous,
    } = *operation
    else {
        return is_quick(files, header, operation)
            .then(|| dispatch(files, header, operation, body));
    };
    if range.len > QUICK_BYTES_MAX || is_synchronous {
        return None;
    }
    body.clear();
    let (node, handle, offset) = (header.node, range.handle, range.offset);
    let context = context_of(&range);
    let attempt = AssertUnwindSafe(|| files.write_now(context, node, handle, offset, data));
    match catch_unwind(attempt).unwrap_or(Err(Errno::IO)) {
        Ok(false) => None,
        Ok(true) => {
            replies::length(&mut body.small, range.len);
            Some(Outcome::Reply(Ok(())))
        }
        Err(error) => Some(Outcome::Reply(Err(error))),
    }
}

/// Returns what is known of a read or write besides its range.
fn context_of(range: &Range) -> RequestContext {
    RequestContext {
        is_direct: range.is_direct,
        ..RequestContext::default()
    }
}

/// Returns true if the request is likely served soon and without waiting for a device.
fn is_quick(files: &dyn FileSystem, header: &RequestHeader, operation: &Operation<'_>) -> bool {
    let node = header.node;
    match *operation {
        Operation::Read(range) => {
            let (context, len) = (context_of(&range), u64::from(range.len));
            range.len <= QUICK_BYTES_MAX
                && files.is_cached(context, node, range.handle, range.offset, len)
        }
        Operation::Sync { directory, .. } => directory,
        Operation::Write { .. } | Operation::Allocate { .. } | Operation::Seek { .. } => false,
        Operation::Lookup { .. }
        | Operation::GetAttributes
        | Operation::SetAttributes { .. }
        | Operation::ReadLink
        | Operation::Open { .. }
        | Operation::Release { .. }
        | Operation::ReadDirectory { .. }
        | Operation::GetXattr { .. }
        | Operation::ListXattrs { .. } => files.is_quick(node),
        Operation::Init(_)
        | Operation::Destroy
        | Operation::Forget { .. }
        | Operation::BatchForget(_)
        | Operation::Statistics
        | Operation::Other => true,
    }
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A reply with this error, or with the body.
    Reply(Result<(), Errno>),
    /// The kernel wants no reply.
    Silence,
}

/// Executes one request and puts the reply's body into `body`.
pub(crate) fn dispatch(
    files: &dyn FileSystem,
    header: &RequestHeader,
    operation: &Operation<'_>,
    body: &mut Body,
) -> Outcome {
    body.clear();
    let silent = matches!(
        operation,
        Operation::Forget { .. } | Operation::BatchForget(_)
    );
    let attempt = AssertUnwindSafe(|| answer(files, header, operation, body));
    // A panic in the file system fails one request; the process must not wait for ever.
    let result = catch_unwind(attempt).unwrap_or(Err(Errno::IO));
    match silent {
        true => Outcome::Silence,
        false => Outcome::Reply(result),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each request")]
fn answer(
    files: &dyn FileSystem,
    header: &RequestHeader,
    operation: &Operation<'_>,
    body: &mut Body,
) -> Result<(), Errno> {
    let node = header.node;
    let context = RequestContext::default();
    match *operation {
        Operation::Lookup { name } => {
            let found = files.lookup(node, checked_name(name)?)?;
            replies::node(&mut body.small, &found);
        }
        Operation::GetAttributes => {
            let (attributes, valid) = files.attributes(node)?;
            replies::attributes(&mut body.small, &attributes, valid);
        }
        Operation::SetAttributes { valid, size } => {
            if valid & set_attribute::SIZE == 0 {
                return Err(Errno::PERM);
            }
            files.set_size(node, size)?;
            let (attributes, valid) = files.attributes(node)?;
            replies::attributes(&mut body.small, &attributes, valid);
        }
        Operation::ReadLink => body.small = files.read_link(node)?,
        Operation::Open { flags, directory } => {
            let opened = match directory {
                true => files.open_directory(node)?,
                false => files.open(node, flags & WRITING != 0)?,
            };
            let flags = match (directory, opened.keep_cache) {
                (true, true) => open::KEEP_CACHE | open::CACHE_DIR,
                (true, false) => 0,
                (false, true) => open::KEEP_CACHE,
                (false, false) => open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES,
            };
            replies::opened(&mut body.small, opened.handle, flags);
        }
        Operation::Release { handle, directory } => match directory {
            true => files.release_directory(node, handle),
            false => files.release(node, handle),
        },
        Operation::Read(range) => {
            let context = context_of(&range);
            let into = body.room(range.len.min(REQUEST_BYTES_MAX) as usize);
            body.data_bytes = files.read(context, node, range.handle, range.offset, into)?;
        }
        Operation::Write {
            range,
            data,
            is_synchronous,
        } => {
            let context = context_of(&range);
            let written = files.write(context, node, range.handle, range.offset, data)?;
            if is_synchronous {
                files.sync(context, node, range.handle)?;
            }
            replies::length(&mut body.small, written as u32);
        }
        Operation::ReadDirectory { range, plus } => {
            let room = range.len.min(REQUEST_BYTES_MAX) as usize;
            let mut listing = Listing::new(&mut body.small, room, plus);
            files.list(node, range.handle, range.offset, &mut listing)?;
        }
        Operation::Sync { handle, directory } => {
            if !directory {
                files.sync(context, node, handle)?;
            }
        }
        Operation::GetXattr { name, room } => {
            let value = files.xattr(node, name)?;
            put_xattr(value, room, body)?;
        }
        Operation::ListXattrs { room } => {
            let mut list = Vec::new();
            for name in files.xattr_names(node)? {
                list.extend_from_slice(&name);
                list.push(0);
            }
            put_xattr(list, room, body)?;
        }
        Operation::Statistics => {
            replies::statistics(&mut body.small, &files.statistics());
        }
        Operation::Allocate {
            handle,
            offset,
            len,
            mode,
        } => files.zero(context, node, handle, zeroing(mode)?, offset, len)?,
        Operation::Seek {
            handle,
            offset,
            whence,
        } => {
            let target = match whence {
                seek::DATA => SeekTarget::Data,
                seek::HOLE => SeekTarget::Hole,
                _ => return Err(Errno::INVAL),
            };
            let found = files.seek(context, node, handle, offset, target)?;
            replies::position(&mut body.small, found);
        }
        Operation::Destroy => {}
        Operation::Other => return Err(refusal(header.opcode)),
        // Init comes only once, and is handled elsewhere.
        Operation::Init(_) => return Err(Errno::IO),
        Operation::Forget { lookups } => files.forget(node, lookups),
        Operation::BatchForget(forgets) => {
            for (node, lookups) in forgets.iter() {
                files.forget(node, lookups);
            }
        }
    }
    Ok(())
}

fn checked_name(name: &[u8]) -> Result<&[u8], Errno> {
    match name {
        [] => Err(Errno::INVAL),
        name if name.len() > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
        name if name.contains(&b'/') => Err(Errno::INVAL),
        name => Ok(name),
    }
}

/// Puts the value, or only its length if the caller asked for that.
fn put_xattr(value: Vec<u8>, room: u32, body: &mut Body) -> Result<(), Errno> {
    match room as usize {
        0 => replies::length(&mut body.small, value.len() as u32),
        room if value.len() > room => return Err(Errno::RANGE),
        _ => body.small = value,
    }
    Ok(())
}

fn zeroing(mode: u32) -> Result<Zeroing, Errno> {
    const HOLE: u32 = allocate::PUNCH_HOLE | allocate::KEEP_SIZE;
    const RANGE_KEEPING_SIZE: u32 = allocate::ZERO_RANGE | allocate::KEEP_SIZE;
    match mode {
        HOLE => Ok(Zeroing::Hole),
        allocate::ZERO_RANGE | RANGE_KEEPING_SIZE => Ok(Zeroing::Range),
        // Refuse: space cannot be guaranteed before it is written.
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Returns the error for a request that is not supported. Names cannot be made or removed here. The
/// kernel handles unknown requests by itself.
fn refusal(code: u32) -> Errno {
    match code {
        opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::RENAME2
        | opcode::LINK
        | opcode::CREATE
        | opcode::TMPFILE => Errno::PERM,
        _ => Errno::NOSYS,
    }
}
