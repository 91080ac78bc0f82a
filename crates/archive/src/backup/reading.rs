//! How a backup reads a file: what is in memory first, dropping what it brought in, and when others
//! leave it the device. Lanes and [`super::handing`] read through it.
//!
//! Invariant: the bytes are those of [`OpenFile::read_at`].

use super::frozen::Frozen;
use crate::filesystem::PathError;
use crate::filesystem::cached_first::CachedFirst;
use crate::filesystem::capture::Captured;
use crate::filesystem::in_memory::{InMemory, SourceMemory};
use crate::filesystem::open_file::OpenFile;
use crate::ingest::Source;
use linux_host::Run;

/// Delays reads so that others have the device first. `backup --background` implements it.
pub trait Pacer: Sync {
    /// Calls `read` once when the device is idle, or at the latest after a bounded time. `read`
    /// reads at most a few MiB and returns the number of bytes. `device`: the source's device
    /// number.
    fn run(&self, device: u64, read: &mut dyn FnMut() -> u64);
}

/// State that all reads of a backup share.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub memory: &'a SourceMemory,
    pub pacer: Option<&'a dyn Pacer>,
    /// `None`: files are read as they are.
    pub frozen: Option<&'a Frozen>,
}

impl<'a> Reading<'a> {
    /// Returns the bytes of an open file. `runs`: its pages before the kernel read it ahead.
    pub fn source<'f>(
        &self,
        opened: &'f OpenFile,
        captured: &Captured,
        in_memory: InMemory,
        runs: Option<Vec<Run>>,
    ) -> FileSource<'f>
    where
        'a: 'f,
    {
        let careful = match in_memory {
            InMemory::Part(_) => {
                let careful = self.careful(opened, captured);
                Some(match runs {
                    Some(runs) => careful.knowing(runs),
                    None => careful,
                })
            }
            InMemory::All | InMemory::Unknown => None,
        };
        let needs_no_device = in_memory == InMemory::All;
        if needs_no_device {
            self.memory.add_found(captured.len);
        }
        FileSource {
            opened,
            careful,
            pacer: self.pacer.filter(|_| !needs_no_device),
            device: captured.entry.device,
        }
    }

    /// Like [`Reading::source`], for a file that takes so long that the pages in memory change
    /// meanwhile.
    pub fn long_source<'f>(
        &self,
        opened: &'f OpenFile,
        captured: &Captured,
        in_memory: InMemory,
    ) -> FileSource<'f>
    where
        'a: 'f,
    {
        let is_known = in_memory != InMemory::Unknown;
        FileSource {
            opened,
            careful: is_known.then(|| self.careful(opened, captured)),
            pacer: self.pacer,
            device: captured.entry.device,
        }
    }

    fn careful<'f>(&self, opened: &'f OpenFile, captured: &Captured) -> CachedFirst<'f>
    where
        'a: 'f,
    {
        // The other names of the file are read from memory.
        let has_one_name = captured.entry.links <= 1;
        CachedFirst::new(opened, self.memory, has_one_name)
    }
}

/// The bytes of an open file.
pub(super) struct FileSource<'f> {
    opened: &'f OpenFile,
    /// `None`: nothing is to be dropped, or nothing is known.
    careful: Option<CachedFirst<'f>>,
    pacer: Option<&'f dyn Pacer>,
    device: u64,
}

impl FileSource<'_> {
    /// Drops what was brought into memory.
    pub fn finish(self) {
        if let Some(careful) = self.careful {
            careful.finish();
        }
    }
}

impl Source for FileSource<'_> {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        let (opened, careful) = (self.opened, &mut self.careful);
        let mut read = || match careful {
            Some(careful) => careful.read(offset, into),
            None => opened.read_at(offset, into),
        };
        let Some(pacer) = self.pacer else {
            return read();
        };
        let mut result = Ok(0);
        pacer.run(self.device, &mut || {
            result = read();
            result.as_ref().map_or(0, |count| *count as u64)
        });
        result
    }
}
