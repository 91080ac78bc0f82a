//! Stores the filter of moved chunks: reads it when a pool is opened, writes it after each commit
//! of defragmentation. The pool and defragmentation call this.
//!
//! Invariant: a cache. If it is lost or torn, a writer rebuilds it from the directories of
//! defragmentation's containers, and a reader works without it.

use super::Pool;
use super::records::{read_record, write_record};
use crate::recovery::WRITERS;
use chunk_store::Result;
use chunk_store::chunk_map::FORWARD_WRITERS;
use chunk_store::container::visit_containers;
use format::moved::{MOVED_BYTES_MAX, MovedRecord};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use units::{Fingerprint, WriterId};

const PATH: &str = "cache/moved";
/// The writer whose containers are copies on purpose: defragmentation.
const WRITER: WriterId = FORWARD_WRITERS[1];

impl Pool {
    /// Loads the filter and adds the containers that it does not cover.
    pub(super) fn load_moved(&self) -> Result<()> {
        let next = self.moved_sequence();
        if next == 0 {
            return Ok(());
        }
        let from = match self.read_moved() {
            Some(record) => {
                let sequence = record.sequence;
                self.storage.chunks.moved.restore(record);
                sequence
            }
            None if self.storage.is_writable() => 0,
            None => return Ok(()),
        };
        if from < next {
            self.enter_moved(from)?;
        }
        Ok(())
    }

    fn moved_sequence(&self) -> u64 {
        let record = self.record();
        record.next_sequence.get(&WRITER).copied().unwrap_or(0)
    }

    fn read_moved(&self) -> Option<MovedRecord> {
        let bytes = read_record(self.cache_files(), PATH, MOVED_BYTES_MAX)?;
        MovedRecord::decode(&bytes, self.storage.id()).ok()
    }

    /// Adds the chunks of containers with numbers from `from` on. Skips deleted and damaged ones:
    /// readers will not find a chunk there.
    fn enter_moved(&self, from: u64) -> Result<()> {
        let others = WRITERS.iter().filter(|writer| **writer != WRITER);
        let mut range: BTreeMap<_, _> = others.map(|writer| (*writer, u64::MAX)).collect();
        range.insert(WRITER, from);
        visit_containers(self.storage.containers.blobs(), &range, &mut |id| {
            if id.writer() == WRITER {
                match self.storage.containers.contents(id) {
                    Ok(contents) => {
                        let regions = contents.directory.regions.iter();
                        let chunks = regions.flat_map(|r| r.chunks.iter().map(|(f, _)| f));
                        self.storage.chunks.moved.add(chunks);
                    }
                    Err(e) if e.is_corruption() => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Adds the chunks that a commit has moved.
    pub(crate) fn note_moved<'f>(
        &self,
        chunks: impl Iterator<Item = &'f Fingerprint>,
    ) -> Result<()> {
        let moved = &self.storage.chunks.moved;
        moved.add(chunks);
        if moved.is_full() {
            moved.reset(2 * moved.entries());
            self.enter_moved(0)?;
        }
        let record = moved.record(self.moved_sequence());
        // A failed write costs the next open some reads.
        let bytes = record.encode(self.storage.id());
        let _ = write_record(self.cache_files(), PATH, &bytes);
        Ok(())
    }
}
