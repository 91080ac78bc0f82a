//! Which chunks have newer copies: read when a pool is opened, written after each commit of
//! defragmentation.
//!
//! Invariant: a cache; lost or torn, a writer makes it anew from the directories of those containers, and
//! a reader does without. Called by pool and defragmentation.

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
/// Whose containers hold chunks that lie elsewhere too, on purpose.
const WRITER: WriterId = FORWARD_WRITERS[1];

impl Pool {
    /// Brings the filter up to date with the containers that there are.
    pub(super) fn load_moved(&self) -> Result<()> {
        let next = self.moved_sequence();
        if next == 0 {
            return Ok(());
        }
        let from = match self.read_moved() {
            Some(record) => {
                let sequence = record.sequence;
                self.chunks.moved.restore(record);
                sequence
            }
            None if self.lock.is_some() => 0,
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
        MovedRecord::decode(&bytes, self.config.pool).ok()
    }

    /// Enters what the containers from this number on hold. Those that are gone or damaged have nothing
    /// that anybody would read there.
    fn enter_moved(&self, from: u64) -> Result<()> {
        let others = WRITERS.iter().filter(|writer| **writer != WRITER);
        let mut range: BTreeMap<_, _> = others.map(|writer| (*writer, u64::MAX)).collect();
        range.insert(WRITER, from);
        visit_containers(self.containers.blobs(), &range, &mut |id| {
            if id.writer() == WRITER {
                match self.containers.contents(id) {
                    Ok(contents) => {
                        let regions = contents.directory.regions.iter();
                        let chunks = regions.flat_map(|r| r.chunks.iter().map(|(f, _)| f));
                        self.chunks.moved.add(chunks);
                    }
                    Err(e) if e.is_corruption() => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// These chunks were moved by a commit.
    pub(crate) fn note_moved<'f>(
        &self,
        chunks: impl Iterator<Item = &'f Fingerprint>,
    ) -> Result<()> {
        let moved = &self.chunks.moved;
        moved.add(chunks);
        if moved.is_full() {
            moved.reset(2 * moved.entries());
            self.enter_moved(0)?;
        }
        let record = moved.record(self.moved_sequence());
        // What cannot be written costs the next opening some reads.
        let bytes = record.encode(self.config.pool);
        let _ = write_record(self.cache_files(), PATH, &bytes);
        Ok(())
    }
}
