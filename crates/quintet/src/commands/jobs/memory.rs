//! The memory of runs, from one to the next, in the user's cache directory. The check's rotation
//! and the watch call this.
//!
//! Invariant: it may be lost. Then something is done again or reported again, and never less.

use crate::commands::invocation::Invocation;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use unlocking::CacheFile;

const BYTES_MAX: u64 = 1 << 20;

/// A memory about one pool.
pub(super) struct Memory(Option<CacheFile>);

impl Memory {
    /// Returns the memory called `topic`.
    pub fn of(invocation: &Invocation, topic: &str, pool: &Path) -> anyhow::Result<Self> {
        let place = pool.canonicalize().unwrap_or_else(|_| pool.to_owned());
        let name = blake3::hash(place.as_os_str().as_bytes()).to_hex();
        let environment = &invocation.context.environment;
        Ok(Self(CacheFile::of(topic, name.as_str(), environment)?))
    }

    /// Returns what is remembered. `None`: nothing, or it cannot be read.
    pub fn recall(&self) -> Option<String> {
        String::from_utf8(self.0.as_ref()?.read(BYTES_MAX)?).ok()
    }

    /// Remembers a text. Warns if that is impossible, with its `effect`.
    pub fn remember(&self, invocation: &Invocation, text: &str, effect: &str) {
        let why = match &self.0 {
            Some(file) => file.write(text.as_bytes()).err().map(|e| units::reason(&e)),
            None => Some("neither QUINTET_CACHE_DIR nor HOME is set".to_owned()),
        };
        if let Some(why) = why {
            invocation
                .console
                .warn(format_args!("cannot remember this run: {why}; {effect}"));
        }
    }
}
