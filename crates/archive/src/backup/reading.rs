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
use crate::filesystem::paced::{Pace, Pacer};
use crate::ingest::ByteSource;
use machine::PageRun;

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
        runs: Option<Vec<PageRun>>,
    ) -> FileSource<'f>
    where
        'a: 'f,
    {
        let pace = match in_memory {
            InMemory::All => Pace::NONE,
            _ => Pace::new(self.pacer, captured.entry.device, opened),
        };
        let careful = match in_memory {
            InMemory::Part(_) => {
                let careful = self.careful(opened, captured, pace);
                Some(match runs {
                    Some(runs) => careful.knowing(runs),
                    None => careful,
                })
            }
            InMemory::All | InMemory::Unknown => None,
        };
        if in_memory == InMemory::All {
            self.memory.add_found(captured.len);
        }
        FileSource {
            opened,
            careful,
            pace,
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
        let pace = Pace::new(self.pacer, captured.entry.device, opened);
        FileSource {
            opened,
            careful: is_known.then(|| self.careful(opened, captured, pace)),
            pace,
        }
    }

    fn careful<'f>(
        &self,
        opened: &'f OpenFile,
        captured: &Captured,
        pace: Pace<'f>,
    ) -> CachedFirst<'f>
    where
        'a: 'f,
    {
        // The other names of the file are read from memory.
        let has_one_name = captured.entry.links <= 1;
        CachedFirst::new(opened, pace, self.memory, has_one_name)
    }
}

/// The bytes of an open file.
pub(super) struct FileSource<'f> {
    opened: &'f OpenFile,
    /// `None`: nothing is to be dropped, or nothing is known.
    careful: Option<CachedFirst<'f>>,
    pace: Pace<'f>,
}

impl FileSource<'_> {
    /// Drops what was brought into memory.
    pub fn finish(self) {
        if let Some(careful) = self.careful {
            careful.finish();
        }
    }
}

impl ByteSource for FileSource<'_> {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, PathError> {
        match &mut self.careful {
            Some(careful) => careful.read(offset, into),
            None => self.pace.read(self.opened, offset, into),
        }
    }
}
