//! Encodes the hold of a process that reads a pool: one small file for each, while the process
//! lives. The store calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 8 | the commit that it reads; 0: unknown yet, so every commit is held |
//! | 40 | 8 | start of the hold |
//! | 48 | 1 | length of the label |
//! | 49 | 7 | zero |
//! | 56 | 96 | label, text without control characters; zero behind it |
//! | 152 | 8 | checksum of everything before |
//!
//! Invariant: the lock on the file tells whether its process lives, not these bytes. A process that
//! cannot read them must assume that every commit is held.

use crate::bytes::{Result, Writer};
use crate::preamble::BlobKind;
use crate::record::Frame;
use units::{Generation, PoolId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Size of a record, bytes.
pub const READER_HOLD_BYTES: usize = 160;
/// Longest label, bytes.
pub const LABEL_BYTES_MAX: usize = 96;

const FRAME: Frame = Frame {
    what: "hold of a reader",
    kind: BlobKind::ReaderHold,
    version: VERSION,
};

/// The record of a reader's hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReaderHold {
    /// The commit that is read; 0: unknown yet.
    pub generation: Generation,
    /// Start of the hold.
    pub since: UnixNanos,
    /// Description of the reader, for people.
    pub label: String,
}

impl ReaderHold {
    /// Encodes this record. A label that is too long is cut; control characters become `?`.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        let mut label = String::new();
        for c in self.label.chars() {
            let c = if c.is_control() { '?' } else { c };
            if label.len() + c.len_utf8() > LABEL_BYTES_MAX {
                break;
            }
            label.push(c);
        }
        let fill = |w: &mut Writer| {
            w.u64(self.generation.0)
                .u64(self.since.0 as u64)
                .u8(label.len() as u8)
                .bytes(&[0; 7])
                .bytes(label.as_bytes());
            for _ in label.len()..LABEL_BYTES_MAX {
                w.u8(0);
            }
        };
        FRAME.seal(pool, fill)
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let (generation, since) = (Generation(r.u64()?), UnixNanos(r.i64()?));
        let len = usize::from(r.u8()?);
        if r.array::<7>()? != [0; 7] {
            return r.invalid("field");
        }
        let field: [u8; LABEL_BYTES_MAX] = r.array()?;
        let (Some(label), Some(behind)) = (field.get(..len), field.get(len..)) else {
            return r.invalid("length of the label");
        };
        let label = match std::str::from_utf8(label) {
            Ok(label) if !label.chars().any(char::is_control) => label.to_owned(),
            _ => return r.invalid("label"),
        };
        if !r.rest().is_empty() || behind.iter().any(|byte| *byte != 0) {
            return r.invalid("length");
        }
        Ok(Self {
            generation,
            since,
            label,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::is_read_whole_only;

    #[test]
    fn comes_back_whole_only() {
        let hold = ReaderHold {
            generation: Generation(17),
            since: UnixNanos(1_790_000_000_000_000_000),
            label: "restore, process 12 on höst".to_owned(),
        };
        let pool = PoolId([3; 16]);
        let bytes = hold.encode(pool);
        assert_eq!(bytes.len(), READER_HOLD_BYTES);
        assert_eq!(ReaderHold::decode(&bytes, pool).unwrap(), hold);
        is_read_whole_only(&bytes, ReaderHold::decode);
    }

    #[test]
    fn labels_are_cut_and_cleaned() {
        let label = "\x1b[2J".to_owned() + &"ö".repeat(100);
        let hold = ReaderHold {
            label,
            ..ReaderHold::default()
        };
        let pool = PoolId([3; 16]);
        let read = ReaderHold::decode(&hold.encode(pool), pool).unwrap();
        assert_eq!(read.label, "?[2J".to_owned() + &"ö".repeat(46));
    }
}
