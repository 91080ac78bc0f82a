//! Encodes catalog entries of snapshots. Their key is time and id, so that the catalog lists them
//! oldest first.
//! The store's catalog calls this.
//!
//! | field | size |
//! |---|---|
//! | version, kind | 2 |
//! | object root | |
//! | name, host, user, program | sized text |
//! | paths, tags | count, then sized bytes |
//! | files, directories, logical bytes, added bytes, duration ms | varints |
//! | parent snapshot id (zeroes: none) | 16 |
//! | signature of the source | sized |
//! | version 2: not read, changed while being read, time of the snapshot before | varints, 8 |
//! | version 3: names of owners, original of a rewritten snapshot (zeroes: none) | [`owners`], 16 |
//!
//! Invariant: a snapshot has one encoding: the lowest version whose fields hold all of it.

mod owners;

pub use owners::{ENTRY_BYTES, OWNER_NAMES_BYTES_MAX, OwnerNames};

use crate::bytes::{Fault, Reader, Result, Writer};
use crate::recipe::ObjectRoot;
use crate::stored::stored;
use units::{SnapshotId, UnixNanos};

const WHAT: &str = "snapshot";
/// Version of this layout. 1: 2026-11, first. 2: 2026-11, missed files, and the snapshot before.
/// 3: 2026-11, names of owners, and the original of a rewritten snapshot.
pub const SNAPSHOT_VERSION: u8 = 3;
/// The layout without the fields of version 3.
const SNAPSHOT_VERSION_MISSED: u8 = 2;
/// The layout without the fields of versions 2 and 3.
const SNAPSHOT_VERSION_SHORT: u8 = 1;
/// First byte of a snapshot's catalog key.
pub const SNAPSHOT_KEY_TAG: u8 = b's';

stored! {
    /// Type of a snapshot's source.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SnapshotKind: "kind" {
        /// A file tree; the root is a directory object.
        Tree = 1 => "tree",
        /// A disk image; the root is its bytes, in fixed chunks.
        Image = 2 => "image",
        /// A stream from standard input or a command; the root is its bytes.
        Stream = 3 => "stream",
        /// A state of a volume. The name is `volume@snapshot`, the root is its bytes.
        Volume = 4 => "volume",
    }
}

/// Parts of the source that a snapshot lacks, or has in an inconsistent state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Files, directories and attributes that could not be read.
    pub unread: u64,
    /// Files that changed while they were read: their stored bytes may be of two moments.
    pub changed: u64,
}

impl Missed {
    /// Returns true when nothing was missed.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name, random.
    pub id: SnapshotId,
    /// Time when it was taken.
    pub taken: UnixNanos,
    /// Type of its source.
    pub kind: SnapshotKind,
    /// Its contents.
    pub root: ObjectRoot,
    /// Name of the image or stream; empty for trees.
    pub name: String,
    /// Host it was taken on.
    pub host: String,
    /// User who took it.
    pub user: String,
    /// Program and version.
    pub program: String,
    /// Source paths, any bytes.
    pub paths: Vec<Vec<u8>>,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// Number of regular files, symlinks and other non-directories.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Bytes as counted at the source.
    pub logical_bytes: u64,
    /// Stored bytes that this snapshot added to the pool.
    pub added_bytes: u64,
    /// Duration, ms.
    pub duration_ms: u64,
    /// The snapshot that it was compared with; all zero for none.
    pub parent: SnapshotId,
    /// Metadata of the source file (images). Equal bytes mean an unchanged source. Empty when
    /// unknown.
    pub signature: Vec<u8>,
    /// Parts of the source that it lacks.
    pub missed: Missed,
    /// Time of the previous snapshot of the same source; zero: none, or unknown. It keeps the usual
    /// interval known after that snapshot was forgotten.
    pub previous: UnixNanos,
    /// Names of the users and groups of its files, as the machine knew them that took it.
    pub owners: OwnerNames,
    /// The snapshot that this one was rewritten from; all zero for none.
    pub original: SnapshotId,
}

/// Returns the catalog key of the snapshot `id` that was taken at `taken`.
pub fn snapshot_key(taken: UnixNanos, id: SnapshotId) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(SNAPSHOT_KEY_TAG);
    // Big-endian with the sign flipped, so that byte order is time order.
    w.bytes(&(taken.0 as u64 ^ (1 << 63)).to_be_bytes())
        .bytes(&id.0);
    w.0
}

impl Snapshot {
    /// Makes a record that is empty apart from these fields and the length of the root.
    pub fn new(id: SnapshotId, taken: UnixNanos, kind: SnapshotKind, root: ObjectRoot) -> Self {
        Self {
            id,
            taken,
            kind,
            root,
            name: String::new(),
            host: String::new(),
            user: String::new(),
            program: String::new(),
            paths: Vec::new(),
            tags: Vec::new(),
            files: 0,
            directories: 0,
            logical_bytes: root.len,
            added_bytes: 0,
            duration_ms: 0,
            parent: SnapshotId::default(),
            signature: Vec::new(),
            missed: Missed::default(),
            previous: UnixNanos::default(),
            owners: OwnerNames::default(),
            original: SnapshotId::default(),
        }
    }

    /// Returns the lowest version that holds all fields.
    fn version(&self) -> u8 {
        let has_owners = !self.owners.is_empty() || self.original != SnapshotId::default();
        let has_missed = !self.missed.is_nothing() || self.previous != UnixNanos::default();
        match (has_owners, has_missed) {
            (true, _) => SNAPSHOT_VERSION,
            (false, true) => SNAPSHOT_VERSION_MISSED,
            (false, false) => SNAPSHOT_VERSION_SHORT,
        }
    }

    /// Returns the catalog key.
    pub fn key(&self) -> Vec<u8> {
        snapshot_key(self.taken, self.id)
    }

    /// Encodes the catalog value.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        let version = self.version();
        w.u8(version).u8(self.kind as u8);
        self.root.encode(&mut w);
        for text in [&self.name, &self.host, &self.user, &self.program] {
            w.sized(text.as_bytes());
        }
        w.varint(self.paths.len() as u64);
        self.paths.iter().for_each(|p| {
            w.sized(p);
        });
        w.varint(self.tags.len() as u64);
        self.tags.iter().for_each(|t| {
            w.sized(t.as_bytes());
        });
        w.varint(self.files)
            .varint(self.directories)
            .varint(self.logical_bytes)
            .varint(self.added_bytes)
            .varint(self.duration_ms)
            .bytes(&self.parent.0)
            .sized(&self.signature);
        if version >= SNAPSHOT_VERSION_MISSED {
            w.varint(self.missed.unread)
                .varint(self.missed.changed)
                .bytes(&self.previous.0.to_le_bytes());
        }
        if version >= SNAPSHOT_VERSION {
            self.owners.encode(&mut w);
            w.bytes(&self.original.0);
        }
        w.0
    }

    /// Decodes key and value.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let mut k = Reader::new(WHAT, key);
        if k.u8()? != SNAPSHOT_KEY_TAG {
            return k.invalid("key");
        }
        let taken = UnixNanos((u64::from_be_bytes(k.array()?) ^ (1 << 63)) as i64);
        let id = SnapshotId(k.array()?);
        k.finish()?;
        let mut r = Reader::new(WHAT, value);
        let version = r.u8()?;
        if !(SNAPSHOT_VERSION_SHORT..=SNAPSHOT_VERSION).contains(&version) {
            return Err(r.error(Fault::Version(version.into())));
        }
        let kind = SnapshotKind::decode(&mut r)?;
        let root = ObjectRoot::decode(&mut r)?;
        let (name, host, user, program) = (r.text()?, r.text()?, r.text()?, r.text()?);
        let mut paths = Vec::new();
        for _ in 0..r.varint()? {
            paths.push(r.sized()?.to_vec());
        }
        let mut tags = Vec::new();
        for _ in 0..r.varint()? {
            tags.push(r.text()?);
        }
        let mut snapshot = Self {
            id,
            taken,
            kind,
            root,
            name,
            host,
            user,
            program,
            paths,
            tags,
            files: r.varint()?,
            directories: r.varint()?,
            logical_bytes: r.varint()?,
            added_bytes: r.varint()?,
            duration_ms: r.varint()?,
            parent: SnapshotId(r.array()?),
            signature: r.sized()?.to_vec(),
            missed: Missed::default(),
            previous: UnixNanos::default(),
            owners: OwnerNames::default(),
            original: SnapshotId::default(),
        };
        if version >= SNAPSHOT_VERSION_MISSED {
            snapshot.missed = Missed {
                unread: r.varint()?,
                changed: r.varint()?,
            };
            snapshot.previous = UnixNanos(i64::from_le_bytes(r.array()?));
        }
        if version >= SNAPSHOT_VERSION {
            snapshot.owners = OwnerNames::decode(&mut r)?;
            snapshot.original = SnapshotId(r.array()?);
        }
        if snapshot.version() != version {
            return r.invalid("version");
        }
        r.finish()?;
        Ok(snapshot)
    }
}
