//! Encodes Merkle directories: one object per directory, a stream of entries sorted by name.
//! `archive` and mounts call this.
//!
//! Invariant: an entry keeps everything that `tar` and `rsync -aHAXS` keep. An unchanged directory
//! gives the same bytes, so it costs nothing. Names are any bytes but `/` and NUL.
//!
//! | field of an entry | size |
//! |---|---|
//! | length of what follows | varint |
//! | type 1, flags 1 | 2 |
//! | name | sized |
//! | mode, uid, gid | varints |
//! | mtime seconds, ns; ctime seconds, ns | 8 + 4, 8 + 4 |
//! | inode, device, links | varints |
//! | by type: object root (file, directory), target (symlink), device number (devices) | |
//! | xattrs: count, then name and value, sorted by name | varint, sized |

mod directory;

pub use directory::Directory;

use crate::bytes::{Reader, Result, Writer};
use crate::recipe::ObjectRoot;
use crate::stored::{Stored, stored};

const WHAT: &str = "directory entry";
/// First byte of a directory object: the version. 1: 2026-11, first.
pub const DIRECTORY_VERSION: u8 = 1;
/// Largest entry, bytes: a name, a link target and the xattrs that the kernel allows.
pub const ENTRY_BYTES_MAX: u64 = 4 << 20;

const FLAG_SPARSE: u8 = 1;

stored! {
    /// Seconds and nanoseconds since 1970, any sign.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Timestamp {
        /// Whole seconds, negative before 1970.
        pub seconds: i64,
        /// 0 to 999,999,999.
        pub nanos: u32,
    }
}

/// Type of an entry, with the fields of that type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Regular file.
    File {
        /// Its contents.
        content: ObjectRoot,
        /// Zero runs were holes in the source.
        sparse: bool,
    },
    /// Directory.
    Directory {
        /// Its own directory object.
        content: ObjectRoot,
    },
    /// Symbolic link.
    Symlink {
        /// Target, any bytes.
        target: Vec<u8>,
    },
    /// Block device.
    BlockDevice {
        /// As `st_rdev`.
        device: u64,
    },
    /// Character device.
    CharDevice {
        /// As `st_rdev`.
        device: u64,
    },
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
}

impl EntryKind {
    fn tag(&self) -> u8 {
        match self {
            Self::File { .. } => 1,
            Self::Directory { .. } => 2,
            Self::Symlink { .. } => 3,
            Self::BlockDevice { .. } => 4,
            Self::CharDevice { .. } => 5,
            Self::Fifo => 6,
            Self::Socket => 7,
        }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Any bytes but `/` and NUL; not empty, `.` or `..`.
    pub name: Vec<u8>,
    /// Type and contents.
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid, sticky (07777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time.
    pub modified: Timestamp,
    /// Status change time. It serves only to detect unchanged files.
    pub changed: Timestamp,
    /// Inode number. It serves to detect unchanged files, and hard links.
    pub inode: u64,
    /// Device of the inode. Names with equal device and inode are hard links of one file.
    pub device: u64,
    /// Number of links the file had.
    pub links: u64,
    /// Extended attributes (ACLs included), sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Entry {
    /// Appends the entry with its length.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let mut w = Writer(Vec::with_capacity(96 + self.name.len()));
        let sparse = matches!(self.kind, EntryKind::File { sparse: true, .. });
        w.u8(self.kind.tag())
            .u8(if sparse { FLAG_SPARSE } else { 0 })
            .sized(&self.name);
        w.varint(self.mode.into())
            .varint(self.uid.into())
            .varint(self.gid.into());
        self.modified.put(&mut w);
        self.changed.put(&mut w);
        w.varint(self.inode).varint(self.device).varint(self.links);
        match &self.kind {
            EntryKind::File { content, .. } | EntryKind::Directory { content } => {
                content.encode(&mut w);
            }
            EntryKind::Symlink { target } => {
                w.sized(target);
            }
            EntryKind::BlockDevice { device } | EntryKind::CharDevice { device } => {
                w.varint(*device);
            }
            EntryKind::Fifo | EntryKind::Socket => {}
        }
        w.varint(self.xattrs.len() as u64);
        for (name, value) in &self.xattrs {
            w.sized(name).sized(value);
        }
        let mut out = Writer(std::mem::take(to));
        out.sized(&w.0);
        *to = out.0;
    }

    /// Decodes the next entry of a directory object; `None` at its end.
    pub fn decode_next(stream: &mut Reader<'_>) -> Result<Option<Self>> {
        if stream.is_empty() {
            return Ok(None);
        }
        let mut r = Reader::new(WHAT, stream.sized()?);
        let (tag, flags) = (r.u8()?, r.u8()?);
        let name = r.sized()?.to_vec();
        if name.is_empty()
            || name == b"."
            || name == b".."
            || name.contains(&b'/')
            || name.contains(&0)
        {
            return r.invalid("name");
        }
        let (mode, uid, gid) = (r.varint32()?, r.varint32()?, r.varint32()?);
        let (modified, changed) = (Timestamp::take(&mut r)?, Timestamp::take(&mut r)?);
        if mode > 0o7777 || modified.nanos >= 1_000_000_000 || changed.nanos >= 1_000_000_000 {
            return r.invalid("mode or time");
        }
        let (inode, device, links) = (r.varint()?, r.varint()?, r.varint()?);
        let kind = match tag {
            1 => EntryKind::File {
                content: ObjectRoot::decode(&mut r)?,
                sparse: flags & FLAG_SPARSE != 0,
            },
            2 => EntryKind::Directory {
                content: ObjectRoot::decode(&mut r)?,
            },
            3 => EntryKind::Symlink {
                target: r.sized()?.to_vec(),
            },
            4 => EntryKind::BlockDevice {
                device: r.varint()?,
            },
            5 => EntryKind::CharDevice {
                device: r.varint()?,
            },
            6 => EntryKind::Fifo,
            7 => EntryKind::Socket,
            _ => return r.invalid("type"),
        };
        let mut xattrs = Vec::new();
        for _ in 0..r.varint()? {
            xattrs.push((r.sized()?.to_vec(), r.sized()?.to_vec()));
        }
        r.finish()?;
        Ok(Some(Self {
            name,
            kind,
            mode,
            uid,
            gid,
            modified,
            changed,
            inode,
            device,
            links,
            xattrs,
        }))
    }

    /// Decodes all entries of a directory object, in order. Names must ascend strictly.
    pub fn decode_directory(bytes: &[u8]) -> Result<Vec<Self>> {
        let mut r = Reader::new("directory object", bytes);
        let version = r.u8()?;
        if version != DIRECTORY_VERSION {
            return Err(r.error(crate::bytes::Fault::Version(version.into())));
        }
        let mut entries: Vec<Self> = Vec::new();
        while let Some(entry) = Self::decode_next(&mut r)? {
            if entries.last().is_some_and(|last| last.name >= entry.name) {
                return r.invalid("order of names");
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Encodes a directory object. `entries` must ascend by name.
    pub fn encode_directory(entries: &[Self]) -> Vec<u8> {
        let mut out = vec![DIRECTORY_VERSION];
        for entry in entries {
            entry.encode(&mut out);
        }
        out
    }
}
