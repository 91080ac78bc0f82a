//! Encodes the root record: one commit of a pool. Blobs `roots/<generation>`, kept twice (see
//! `mirrored`). The store calls this.
//!
//! Invariant: a root is put only after everything it reaches is durable. The body is sealed in
//! encrypted pools; generation and pool id are readable without a key.

use crate::bytes::{Reader, Result, Writer};
use crate::config::Seal;
use crate::mirrored;
use crate::preamble::BlobKind;
use std::collections::BTreeMap;
use units::{Fingerprint, Generation, PoolId, UnixNanos, WriterId};

const WHAT: &str = "root";
/// Version of this layout. 1: 2026-11, first.
pub const ROOT_VERSION: u16 = 1;
const WRITERS_MAX: u32 = 1 << 16;

/// Contents of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RootRecord {
    /// Time of the commit.
    pub committed: UnixNanos,
    /// Root node of the catalog map; `None` while the catalog is empty.
    pub catalog: Option<Fingerprint>,
    /// Number of entries in the catalog.
    pub catalog_entries: u64,
    /// For each writer: the number below which all its containers are that this root may reach.
    pub next_sequence: BTreeMap<WriterId, u64>,
    /// Stored bytes of all containers.
    pub stored_bytes: u64,
    /// Number of containers.
    pub containers: u64,
    /// Journal position; 0 while there is no journal.
    pub journal_position: u64,
}

impl RootRecord {
    /// Encodes the body, which is sealed later.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.i64(self.committed.0)
            .u8(u8::from(self.catalog.is_some()))
            .bytes(&self.catalog.unwrap_or_default().0)
            .u64(self.catalog_entries)
            .u64(self.stored_bytes)
            .u64(self.containers)
            .u64(self.journal_position)
            .u32(self.next_sequence.len() as u32);
        for (writer, next) in &self.next_sequence {
            w.u16(writer.0).u64(*next);
        }
        w.0
    }

    /// Decodes an opened body.
    pub fn decode(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, body);
        let committed = UnixNanos(r.i64()?);
        let (present, catalog) = (r.u8()?, Fingerprint(r.array()?));
        let mut record = Self {
            committed,
            catalog: (present == 1).then_some(catalog),
            catalog_entries: r.u64()?,
            stored_bytes: r.u64()?,
            containers: r.u64()?,
            journal_position: r.u64()?,
            next_sequence: BTreeMap::new(),
        };
        let writers = r.u32()?;
        if present > 1 || writers > WRITERS_MAX {
            return r.invalid("catalog");
        }
        for _ in 0..writers {
            let (writer, next) = (r.u16()?, r.u64()?);
            record.next_sequence.insert(WriterId(writer), next);
        }
        r.finish()?;
        Ok(record)
    }
}

/// A root as stored. Everything but the sealed body is readable without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRoot {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Its number.
    pub generation: Generation,
    /// Encryption of the body.
    pub seal: Seal,
    /// Nonce of the seal, random.
    pub nonce: [u8; 12],
    /// The body: plain, or ciphertext and tag.
    pub body: Vec<u8>,
}

impl StoredRoot {
    /// Returns the bytes that the seal binds.
    pub fn associated_data(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(b"root")
            .bytes(&self.pool.0)
            .u64(self.generation.0)
            .u8(self.seal as u8);
        w.0
    }

    /// Encodes the blob.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(self.seal as u8).bytes(&self.nonce).bytes(&self.body);
        mirrored::encode(
            BlobKind::Root,
            ROOT_VERSION,
            self.pool,
            self.generation.0,
            &w.0,
        )
    }

    /// Decodes the root, and reports whether one copy inside the blob is damaged.
    pub fn decode(bytes: &[u8]) -> Result<(Self, bool)> {
        let copy = mirrored::decode(WHAT, BlobKind::Root, ROOT_VERSION, bytes)?;
        let mut r = Reader::new(WHAT, &copy.payload);
        let root = Self {
            pool: copy.pool,
            generation: Generation(copy.slot),
            seal: Seal::decode(&mut r)?,
            nonce: r.array()?,
            body: r.rest().to_vec(),
        };
        Ok((root, copy.damaged))
    }
}
