//! Tar archives (POSIX pax): headers for the entries of a directory object. The command `dump`
//! calls this, writes the contents and pads them with [`padding`].
//!
//! Invariant: GNU tar and bsdtar restore names of any bytes, times in ns, large sizes and ids,
//! attributes and hard links. Sockets cannot be archived.

use format::snapshot::OwnerNames;
use format::tree::{Entry, EntryKind, Timestamp};

/// Block size of an archive.
pub const BLOCK_BYTES: u64 = 512;
/// Width of a name of a user or group in a plain header, with a NUL.
const NAME_BYTES: usize = 32;
/// Largest numbers in a plain header: octal digits with a NUL.
const SEVEN_DIGITS_MAX: u64 = 0o7_777_777;
const ELEVEN_DIGITS_MAX: u64 = 0o77_777_777_777;

/// Fields of a member's header, besides the entry's.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Path in the archive, without a leading `/`.
    pub path: &'a [u8],
    /// Metadata.
    pub entry: &'a Entry,
    /// Path of an earlier member that is the same file: no content follows.
    pub hard_link_to: Option<&'a [u8]>,
    /// Names of owners.
    pub owners: &'a OwnerNames,
}

impl Member<'_> {
    /// Bytes of content that follow the header.
    pub fn content_len(&self) -> u64 {
        match (&self.entry.kind, self.hard_link_to) {
            (EntryKind::File { content, .. }, None) => content.len,
            _ => 0,
        }
    }

    /// Returns the header blocks, or `None` for sockets.
    pub fn header(&self) -> Option<Vec<u8>> {
        let kind = match (&self.entry.kind, self.hard_link_to) {
            (_, Some(_)) => b'1',
            (EntryKind::File { .. }, _) => b'0',
            (EntryKind::Symlink { .. }, _) => b'2',
            (EntryKind::CharDevice { .. }, _) => b'3',
            (EntryKind::BlockDevice { .. }, _) => b'4',
            (EntryKind::Directory { .. }, _) => b'5',
            (EntryKind::Fifo, _) => b'6',
            (EntryKind::Socket, _) => return None,
        };
        let mut path = self.path.to_vec();
        if kind == b'5' {
            path.push(b'/');
        }
        let link: &[u8] = match (&self.entry.kind, self.hard_link_to) {
            (_, Some(earlier)) => earlier,
            (EntryKind::Symlink { target }, None) => target,
            _ => b"",
        };
        let records = self.records(&path, link);
        let mut out = Vec::new();
        if !records.is_empty() {
            let mut extended = Header::new(b"PaxHeaders/entry", b'x');
            extended.octal(124, 12, records.len() as u64);
            out.extend(extended.finish());
            let padding = padding(records.len() as u64);
            out.extend(records);
            out.extend(vec![0; padding]);
        }
        let Entry {
            mode,
            uid,
            gid,
            modified,
            ..
        } = self.entry;
        let mut header = Header::new(&path, kind);
        header.octal(100, 8, (*mode).into());
        header.octal(108, 8, (*uid).into());
        header.octal(116, 8, (*gid).into());
        header.octal(124, 12, self.content_len());
        header.octal(136, 12, modified.seconds.max(0).unsigned_abs());
        header.bytes(157, 100, link);
        header.bytes(265, NAME_BYTES, self.user().as_bytes());
        header.bytes(297, NAME_BYTES, self.group().as_bytes());
        if let EntryKind::BlockDevice { device } | EntryKind::CharDevice { device } =
            self.entry.kind
        {
            header.octal(329, 8, rustix::fs::major(device).into());
            header.octal(337, 8, rustix::fs::minor(device).into());
        }
        out.extend(header.finish());
        Some(out)
    }

    /// Returns the owner's name, empty if it is unknown.
    fn user(&self) -> &str {
        self.owners.user(self.entry.uid).unwrap_or_default()
    }

    fn group(&self) -> &str {
        self.owners.group(self.entry.gid).unwrap_or_default()
    }

    /// Returns the records for values that do not fit into a plain header.
    fn records(&self, path: &[u8], link: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let plain = |text: &[u8]| text.len() <= 100 && text.is_ascii();
        if std::str::from_utf8(path).is_err() || std::str::from_utf8(link).is_err() {
            record(&mut out, b"hdrcharset", b"BINARY");
        }
        if !plain(path) {
            record(&mut out, b"path", path);
        }
        if !plain(link) {
            record(&mut out, b"linkpath", link);
        }
        let Timestamp { seconds, nanos } = self.entry.modified;
        if nanos != 0 || seconds < 0 || seconds.unsigned_abs() > ELEVEN_DIGITS_MAX {
            record(&mut out, b"mtime", decimal(self.entry.modified).as_bytes());
        }
        for (name, value, limit) in [
            (&b"size"[..], self.content_len(), ELEVEN_DIGITS_MAX),
            (b"uid", self.entry.uid.into(), SEVEN_DIGITS_MAX),
            (b"gid", self.entry.gid.into(), SEVEN_DIGITS_MAX),
        ] {
            if value > limit {
                record(&mut out, name, value.to_string().as_bytes());
            }
        }
        for (record_name, name) in [(&b"uname"[..], self.user()), (b"gname", self.group())] {
            if name.len() >= NAME_BYTES || !name.is_ascii() {
                record(&mut out, record_name, name.as_bytes());
            }
        }
        for (name, value) in &self.entry.xattrs {
            record(
                &mut out,
                &[b"SCHILY.xattr.", name.as_slice()].concat(),
                value,
            );
        }
        out
    }
}

/// Number of zero bytes that follow `len` bytes of content.
pub fn padding(len: u64) -> usize {
    (len.next_multiple_of(BLOCK_BYTES) - len) as usize
}

/// The two empty blocks that end an archive.
pub fn end() -> Vec<u8> {
    vec![0; 2 * BLOCK_BYTES as usize]
}

/// Seconds with their fraction; before 1970 the fraction counts away from zero.
fn decimal(time: Timestamp) -> String {
    let Timestamp { seconds, nanos } = time;
    if seconds < 0 && nanos > 0 {
        let whole = (seconds + 1).unsigned_abs();
        return format!("-{whole}.{:09}", 1_000_000_000 - nanos);
    }
    format!("{seconds}.{nanos:09}")
}

/// `<length> <name>=<value>\n`, where the length counts itself.
fn record(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let rest = name.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    out.extend_from_slice(format!("{len} ").as_bytes());
    out.extend_from_slice(name);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// One block. A value that does not fit its field is cut; a record before it has the whole value.
struct Header([u8; BLOCK_BYTES as usize]);

impl Header {
    fn new(path: &[u8], kind: u8) -> Self {
        let mut header = Self([0; BLOCK_BYTES as usize]);
        header.bytes(0, 100, path);
        header.bytes(156, 1, &[kind]);
        header.bytes(257, 8, b"ustar\x0000");
        header
    }

    fn bytes(&mut self, at: usize, width: usize, value: &[u8]) {
        let len = value.len().min(width);
        if let (Some(field), Some(value)) = (self.0.get_mut(at..at + len), value.get(..len)) {
            field.copy_from_slice(value);
        }
    }

    fn octal(&mut self, at: usize, width: usize, value: u64) {
        let digits = width - 1;
        let most = (1u64 << (3 * digits)) - 1;
        self.bytes(
            at,
            digits,
            format!("{:0digits$o}", value.min(most)).as_bytes(),
        );
    }

    fn finish(mut self) -> [u8; BLOCK_BYTES as usize] {
        self.bytes(148, 8, b"        ");
        let sum: u64 = self.0.iter().map(|byte| u64::from(*byte)).sum();
        self.bytes(148, 8, format!("{sum:06o}\0 ").as_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests;
