//! The volume of the examples that serve one (`nbd_memory`, `iscsi_memory`), as their options
//! describe it. The scripts of `tests` use the examples.
//!
//! Invariant: both examples know the same options.

use super::FileVolume;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use volume::{
    Durability, MemoryVolume, Operation, ReadOnly, RequestContext, Slow, Volume, VolumeError,
};

/// Error of an example.
pub type Failed = Box<dyn std::error::Error>;

/// The options of the volume.
pub struct ServedDisk {
    size_bytes: u64,
    has_pattern: bool,
    is_read_only: bool,
    file: Option<String>,
    read_us: u64,
    write_us: u64,
}

impl Default for ServedDisk {
    fn default() -> Self {
        Self {
            size_bytes: 64 << 20,
            has_pattern: false,
            is_read_only: false,
            file: None,
            read_us: 0,
            write_us: 0,
        }
    }
}

impl ServedDisk {
    /// Takes `[--size BYTES] [--pattern] [--read-only] [--file PATH] [--slow-us N]
    /// [--slow-write-us N]`. Returns false if the argument is another one.
    pub fn take(
        &mut self,
        argument: &str,
        value: impl FnOnce() -> Result<String, &'static str>,
    ) -> Result<bool, Failed> {
        match argument {
            "--size" => self.size_bytes = value()?.parse()?,
            "--pattern" => self.has_pattern = true,
            "--read-only" => self.is_read_only = true,
            "--file" => self.file = Some(value()?),
            "--slow-us" => self.read_us = value()?.parse()?,
            "--slow-write-us" => self.write_us = value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the volume, and its memory if it is in memory.
    pub fn open(&self) -> Result<(Arc<dyn Volume>, Option<MemoryVolume>), Failed> {
        let memory = self.file.is_none();
        let memory = memory.then(|| MemoryVolume::new(self.size_bytes));
        let mut volume: Arc<dyn Volume> = match (&self.file, &memory) {
            (Some(path), _) => Arc::new(FileVolume::open(path, self.is_read_only)?),
            (None, Some(memory)) => Arc::new(memory.clone()),
            (None, None) => Arc::new(MemoryVolume::new(0)),
        };
        if self.has_pattern {
            fill(&*volume)?;
        }
        if self.read_us > 0 || self.write_us > 0 {
            volume = Arc::new(slow(volume, self.read_us, self.write_us));
        }
        if self.is_read_only {
            volume = Arc::new(ReadOnly::new(volume));
        }
        Ok((volume, memory))
    }
}

/// Delays requests of a volume. 0 means that reads count as cached, or that writes need not wait.
fn slow(volume: Arc<dyn Volume>, read_us: u64, write_us: u64) -> impl Volume {
    let takes_us = move |operation| match operation {
        Operation::Read | Operation::Flush => read_us,
        Operation::Write => write_us,
        Operation::Discard | Operation::WriteZeroes | Operation::Extents => 0,
    };
    Slow::new(volume, move |request| {
        thread::sleep(Duration::from_micros(takes_us(request.operation)));
    })
    .except(move |request| takes_us(request.operation) == 0)
}

/// Fills a volume with a pattern: every eight bytes contain their offset, as in nbdkit's pattern
/// plugin.
fn fill(volume: &dyn Volume) -> Result<(), VolumeError> {
    let size = volume.size_bytes();
    let mut at = 0;
    while at < size {
        let len = (size - at).min(1 << 20);
        let words = (0..len.div_ceil(8)).flat_map(|word| (at + word * 8).to_be_bytes());
        let bytes: Vec<u8> = words.take(len as usize).collect();
        volume.write(RequestContext::default(), at, &bytes, Durability::Volatile)?;
        at += len;
    }
    Ok(())
}
