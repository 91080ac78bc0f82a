//! Streams whose last run stored nothing. Backups of streams enter and remove them; `status` shows
//! them.
//!
//! Invariant: losing the record costs a finding, never data. Only the pool's writer changes it.

use super::Pool;
use super::records::{read_record, write_record};
use format::failed_streams::{FAILED_STREAMS_BYTES_MAX, FailedStreams};
use media::MediaError;

const PATH: &str = "cache/failed-streams";

impl Pool {
    /// Returns the record; an empty one if there is none that can be read.
    pub fn failed_streams(&self) -> FailedStreams {
        let bytes = read_record(&*self.storage.media.disk, PATH, FAILED_STREAMS_BYTES_MAX);
        bytes
            .and_then(|bytes| FailedStreams::decode(&bytes, self.storage.id()).ok())
            .unwrap_or_default()
    }

    /// Remembers whether the last run of a stream failed. Writes only if that is new.
    pub fn note_stream(&self, name: &str, has_failed: bool) -> Result<(), MediaError> {
        let mut record = self.failed_streams();
        match record.set(name, has_failed.then(|| self.now())) {
            true => write_record(
                &*self.storage.media.disk,
                PATH,
                &record.encode(self.storage.id()),
            ),
            false => Ok(()),
        }
    }
}
