//! The trash: forgotten snapshots, and containers that garbage collection retired, until they are
//! deleted. The pool and garbage collection call this.
//!
//! Invariant: each entry has the generation that put it here. Generations decide what may still be
//! referenced; times decide only how long users want to wait. A program that does not know these
//! keys preserves them.

use super::inventory::InventoryEntry;
use super::map::{Edit, visit};
use crate::error::{Result, StoreError};
use format::bytes::{FormatError, Reader, Writer};
use format::container::ContainerClass;
use format::map_node::MapNode;
use format::snapshot::{SNAPSHOT_KEY_TAG, Snapshot};
use std::ops::ControlFlow;
use units::{ContainerId, Fingerprint, Generation, UnixNanos};

const FORGOTTEN_TAG: u8 = b'f';
const CONTAINER_TAG: u8 = b'g';

/// Moment at which an entry came into the trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discarded {
    /// Generation of the commit.
    pub by: Generation,
    /// Time of the commit.
    pub at: UnixNanos,
}

impl Discarded {
    /// Returns since when the entry counts as trash, by a clock that shows `now`. If its time is in
    /// the future, one of the clocks was wrong: the result is then the time of the sighting `seen`,
    /// if that was of this entry's commit or a later one and is not in the future too. Returns
    /// `None` if the period must begin now.
    pub fn reckoned(&self, now: UnixNanos, seen: Option<Self>) -> Option<UnixNanos> {
        let seen = seen.filter(|seen| self.by <= seen.by && seen.at <= now);
        match self.at <= now {
            true => Some(self.at),
            false => seen.map(|seen| seen.at),
        }
    }
}

/// A forgotten snapshot that can be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The snapshot, unchanged.
    pub snapshot: Snapshot,
    /// Moment at which it was forgotten.
    pub since: Discarded,
}

/// A container that nothing new may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrashedContainer {
    /// Its number, class and length.
    pub entry: InventoryEntry,
    /// Moment at which it was retired.
    pub since: Discarded,
}

/// An entry of the trash.
pub enum Trash {
    /// A forgotten snapshot.
    Snapshot(Box<Forgotten>),
    /// A container that nothing new may refer to.
    Container(TrashedContainer),
}

/// Returns the catalog key of a forgotten snapshot.
pub fn forgotten_key(snapshot: &Snapshot) -> Vec<u8> {
    forgotten_tag_of(snapshot.key())
}

/// Returns the catalog key of a forgotten snapshot, from its key while it is listed.
pub fn forgotten_tag_of(mut key: Vec<u8>) -> Vec<u8> {
    if let Some(tag) = key.first_mut() {
        *tag = FORGOTTEN_TAG;
    }
    key
}

/// Returns the catalog key of a container in the trash.
pub fn trash_key(id: ContainerId) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(CONTAINER_TAG).bytes(&id.0.to_be_bytes());
    w.0
}

impl Discarded {
    fn encode(&self, w: &mut Writer) {
        w.u8(1).varint(self.by.0).bytes(&self.at.0.to_le_bytes());
    }

    fn decode(r: &mut Reader<'_>) -> std::result::Result<Self, FormatError> {
        if r.u8()? != 1 {
            return r.invalid("version");
        }
        Ok(Self {
            by: Generation(r.varint()?),
            at: UnixNanos(i64::from_le_bytes(r.array()?)),
        })
    }
}

impl Forgotten {
    /// Returns the edit that puts it into the trash.
    pub fn edit(&self) -> Edit {
        let mut w = Writer::new();
        self.since.encode(&mut w);
        w.bytes(&self.snapshot.encode());
        Edit {
            key: forgotten_key(&self.snapshot),
            value: Some(w.0),
        }
    }
}

impl TrashedContainer {
    /// Returns the edit that puts it into the trash.
    pub fn edit(&self) -> Edit {
        let mut w = Writer::new();
        self.since.encode(&mut w);
        w.u8(self.entry.class as u8).varint(self.entry.blob_bytes);
        Edit {
            key: trash_key(self.entry.id),
            value: Some(w.0),
        }
    }
}

/// Decodes an entry. Returns `None` for keys of other kinds.
pub fn parse_trash(key: &[u8], value: &[u8]) -> Result<Option<Trash>> {
    let decode = || -> std::result::Result<Option<Trash>, FormatError> {
        let mut r = Reader::new("trash", value);
        match key.split_first() {
            Some((&FORGOTTEN_TAG, rest)) => {
                let since = Discarded::decode(&mut r)?;
                let key = [&[SNAPSHOT_KEY_TAG], rest].concat();
                let snapshot = Snapshot::decode(&key, r.rest())?;
                Ok(Some(Trash::Snapshot(Box::new(Forgotten {
                    snapshot,
                    since,
                }))))
            }
            Some((&CONTAINER_TAG, rest)) => {
                let mut k = Reader::new("trash", rest);
                let id = ContainerId(u64::from_be_bytes(k.array()?));
                k.finish()?;
                let since = Discarded::decode(&mut r)?;
                let class = ContainerClass::decode(&mut r)?;
                let blob_bytes = r.varint()?;
                r.finish()?;
                let entry = InventoryEntry {
                    id,
                    class,
                    blob_bytes,
                };
                Ok(Some(Trash::Container(TrashedContainer { entry, since })))
            }
            _ => Ok(None),
        }
    };
    decode().map_err(|e| StoreError::corruption(e.what, "catalog", e))
}

/// Reads the trash: snapshots, oldest first, then containers.
pub fn read_trash(
    catalog: Option<Fingerprint>,
    load: &mut dyn FnMut(&Fingerprint) -> Result<MapNode>,
) -> Result<(Vec<Forgotten>, Vec<TrashedContainer>)> {
    let (mut snapshots, mut containers) = (Vec::new(), Vec::new());
    let _ = visit(catalog, &[FORGOTTEN_TAG], load, &mut |key, value| {
        match parse_trash(key, value)? {
            Some(Trash::Snapshot(forgotten)) => snapshots.push(*forgotten),
            Some(Trash::Container(container)) => containers.push(container),
            None => return Ok(ControlFlow::Break(())),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((snapshots, containers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::WriterId;

    const SINCE: Discarded = Discarded {
        by: Generation(300),
        at: UnixNanos(-7),
    };

    #[test]
    fn containers_come_back_and_sort_before_snapshots() {
        let container = TrashedContainer {
            entry: InventoryEntry {
                id: ContainerId::new(WriterId(4), 77),
                class: ContainerClass::Recipe,
                blob_bytes: 12_345,
            },
            since: SINCE,
        };
        let Edit { key, value } = container.edit();
        let value = value.unwrap();
        assert!(key[..] > b"d"[..] && key[..] < b"s"[..]);
        match parse_trash(&key, &value).unwrap() {
            Some(Trash::Container(found)) => assert_eq!(found, container),
            _ => panic!("not a container"),
        }
        for cut in 0..value.len() {
            assert!(parse_trash(&key, &value[..cut]).is_err(), "{cut}");
        }
        assert!(parse_trash(&key[..5], &value).is_err());
        assert!(parse_trash(b"s123", &value).unwrap().is_none());
    }
}
