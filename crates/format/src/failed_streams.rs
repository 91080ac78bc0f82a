//! Encodes the record of streams whose last run stored nothing: a pipe does not tell that its
//! writer failed, so somebody has to remember it. It is a cache. The store calls this.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 32 | preamble |
//! | 32 | 1 | number of streams, up to 32 |
//! | 33 | | of each: time of the failed run 8, length of the name 2, name |
//! | end | 8 | checksum of everything before |
//!
//! Invariant: names are UTF-8 without control characters, each once, ascending.

use crate::bytes::Result;
use crate::preamble::BlobKind;
use crate::record::Frame;
use units::{PoolId, UnixNanos};

/// Version that this program reads and writes.
pub const VERSION: u16 = 1;
/// Maximum number of streams; the ones that failed first are left out.
pub const STREAMS_MAX: usize = 32;
/// Longest name, bytes; a longer one is not remembered.
pub const NAME_BYTES_MAX: usize = 1024;
/// Maximum size of a record, bytes.
pub const FAILED_STREAMS_BYTES_MAX: u64 = (41 + STREAMS_MAX * (10 + NAME_BYTES_MAX)) as u64;

const FRAME: Frame = Frame {
    what: "record of failed streams",
    kind: BlobKind::FailedStreams,
    version: VERSION,
};

/// The record. See the module's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailedStreams {
    /// Names, and times of the failed runs.
    pub streams: Vec<(String, UnixNanos)>,
}

impl FailedStreams {
    /// Enters a stream, or removes it if `at` is `None`. Returns true if that changed anything.
    pub fn set(&mut self, name: &str, at: Option<UnixNanos>) -> bool {
        let before = self.streams.clone();
        self.streams.retain(|(known, _)| known != name);
        let is_fit = name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
        if let Some(at) = at.filter(|_| is_fit) {
            if self.streams.len() >= STREAMS_MAX
                && let Some(oldest) = self.streams.iter().map(|(_, at)| *at).min()
            {
                self.streams.retain(|(_, at)| *at != oldest);
            }
            self.streams.push((name.to_owned(), at));
            self.streams.sort();
        }
        self.streams != before
    }

    /// Encodes this record.
    pub fn encode(&self, pool: PoolId) -> Vec<u8> {
        FRAME.seal(pool, |w| {
            w.u8(self.streams.len() as u8);
            for (name, at) in &self.streams {
                w.u64(at.0 as u64)
                    .u16(name.len() as u16)
                    .bytes(name.as_bytes());
            }
        })
    }

    /// Verifies and decodes a record of this pool.
    pub fn decode(bytes: &[u8], pool: PoolId) -> Result<Self> {
        let mut r = FRAME.open(bytes, pool)?;
        let count = usize::from(r.u8()?);
        if count > STREAMS_MAX {
            return r.invalid("number of streams");
        }
        let mut streams = Vec::with_capacity(count);
        for _ in 0..count {
            let at = UnixNanos(r.i64()?);
            let len = usize::from(r.u16()?);
            let name = r.take(len)?;
            match std::str::from_utf8(name) {
                Ok(name) if len <= NAME_BYTES_MAX && !name.chars().any(char::is_control) => {
                    streams.push((name.to_owned(), at));
                }
                _ => return r.invalid("name"),
            }
        }
        if !streams.is_sorted_by(|a, b| a.0 < b.0) {
            return r.invalid("order of names");
        }
        r.finish()?;
        Ok(Self { streams })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::is_read_whole_only;

    #[test]
    fn comes_back_whole_only() {
        let mut record = FailedStreams::default();
        assert!(record.set("db.sql", Some(UnixNanos(7))));
        assert!(record.set("a/ö", Some(UnixNanos(9))));
        let pool = PoolId([3; 16]);
        let bytes = record.encode(pool);
        assert_eq!(FailedStreams::decode(&bytes, pool).unwrap(), record);
        is_read_whole_only(&bytes, FailedStreams::decode);
    }

    #[test]
    fn a_run_that_stores_something_ends_it_and_the_oldest_go_first() {
        let mut record = FailedStreams::default();
        for n in 0..=STREAMS_MAX as i64 {
            assert!(record.set(&format!("s{n:02}"), Some(UnixNanos(n))));
        }
        assert_eq!(record.streams.len(), STREAMS_MAX);
        assert_eq!(record.streams[0].0, "s01");
        assert!(record.set("s01", None) && !record.set("s01", None));
        assert!(!record.set("a\nb", Some(UnixNanos(1))));
        assert!(!record.set(&"x".repeat(NAME_BYTES_MAX + 1), Some(UnixNanos(1))));
        let pool = PoolId([3; 16]);
        let bytes = record.encode(pool);
        assert!(bytes.len() as u64 <= FAILED_STREAMS_BYTES_MAX);
        assert_eq!(FailedStreams::decode(&bytes, pool).unwrap(), record);
    }
}
