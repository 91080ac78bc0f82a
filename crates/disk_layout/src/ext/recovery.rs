//! Reads a log that was not yet applied in place, when a file system in use is attached. `steps`
//! calls this.
//!
//! Invariant: reads only the journal's own blocks, and each position once.

use super::log::{Journal, Record};
use super::state::{Ext, Phase};
use crate::source::Meter;

impl Ext {
    pub fn read_log_head(&mut self, meter: &mut Meter<'_>) -> Phase {
        let block_bytes = self.geometry.block_bytes;
        let head = self
            .log_block(0)
            .and_then(|block| meter.read(block * u64::from(block_bytes), block_bytes as usize));
        let log = head.and_then(|head| Journal::decode(&head));
        self.log = log.filter(|log| log.block_bytes == block_bytes);
        match &self.log {
            Some(log) if log.start != 0 => Phase::Log(log.start, log.sequence, log.end - log.first),
            _ => Phase::Bitmaps(0),
        }
    }

    /// Reads one block of a log that was not yet applied in place.
    pub fn read_log(&mut self, meter: &mut Meter<'_>, at: u32, sequence: u32, left: u32) -> Phase {
        let next = Phase::Bitmaps(0);
        let block_bytes = self.geometry.block_bytes;
        let bytes = self
            .log_block(at)
            .and_then(|block| meter.read(block * u64::from(block_bytes), block_bytes as usize));
        let (Some(bytes), Some(log)) = (bytes, self.log.clone()) else {
            return next;
        };
        let mut sequence = sequence;
        let len = match log.record(&bytes) {
            Some(Record::Descriptor(of, tags)) if of == sequence => {
                let len = tags.len() as u32 + 1;
                let copies = (1..).zip(tags).map(|(n, tag)| (tag, log.after(at, n)));
                self.committed.copied(sequence, copies);
                len
            }
            Some(Record::Revocation(of, blocks)) if of == sequence => {
                self.committed.revoked(sequence, blocks);
                1
            }
            Some(Record::Commit(of)) if of == sequence => {
                self.commit(sequence);
                sequence = sequence.wrapping_add(1);
                1
            }
            _ => return next,
        };
        match left.checked_sub(len) {
            Some(left) if left > 0 => Phase::Log(log.after(at, len), sequence, left),
            _ => next,
        }
    }
}
