//! Reads and writes of files by eBPF: loads `bpf/access_events.bpf.o`, attaches its programs,
//! empties its ring buffer. `tracing` calls this.
//!
//! Invariant: an access that finds no room in the buffer is counted, never waited for. Programs are
//! detached when this is dropped.

use crate::ebpf::{EbpfError, Hook, attach_one, hook, loaded};
use crate::sys;
use aya::maps::{Map, MapData, RingBuf};
use aya::{Btf, EbpfLoader};
use std::os::fd::AsFd;

/// The programs, compiled from the source beside them.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/access_events.bpf.o");

/// A program of the default, and the accesses that only it sees.
pub(crate) struct Source {
    hook: Hook,
    /// Accesses that only this program sees.
    sees: &'static str,
}

/// The program for exact records.
const AT_EXIT: Hook = hook("at_exit", "sys_exit", None);

const SOURCES: [Source; 5] = [
    Source {
        hook: hook("got_pages", "mm_filemap_get_pages", None),
        sees: "buffered reads",
    },
    Source {
        hook: hook("direct", "iomap_dio_rw_begin", None),
        sees: "direct reads and writes",
    },
    Source {
        hook: hook("direct_failed", "iomap_dio_complete", None),
        sees: "repetitions of direct requests by the system (they count twice)",
    },
    Source {
        hook: hook("fault", "mm_filemap_fault", None),
        sees: "reads of mapped files",
    },
    Source {
        hook: hook("became_dirty", "writeback_dirty_folio", None),
        sees: "buffered writes and writes to mapped files",
    },
];

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    /// Through the page cache.
    Read,
    /// A folio became dirty, or a buffered write ended.
    Write,
    /// Past the page cache.
    DirectRead,
    /// The same.
    DirectWrite,
    /// A page of a mapping that was not in place.
    Fault,
    /// The direct request at this offset did nothing, and may be made again.
    ComesAgain,
}

/// An access; bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAccess {
    pub inode: u64,
    pub root: u64,
    pub generation: u32,
    pub offset: u64,
    pub bytes: u64,
    pub kind: AccessKind,
    /// Thread that asked, as the kernel numbers it.
    pub thread: u32,
}

impl FileAccess {
    /// Reads what a program sent: the layout of `struct access` in `bpf/access_events.bpf.c`.
    fn parse(sent: &[u8]) -> Option<Self> {
        let long = |nth: usize| {
            let bytes = sent.get(nth * 8..nth * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let short = |nth: usize| {
            let bytes = sent.get(32 + nth * 4..36 + nth * 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Self {
            inode: long(0)?,
            root: long(1)?,
            offset: long(2)?,
            bytes: long(3)?,
            generation: short(0)?,
            thread: short(1)?,
            kind: match short(2)? {
                0 => AccessKind::Read,
                1 => AccessKind::Write,
                2 => AccessKind::DirectRead,
                3 => AccessKind::DirectWrite,
                4 => AccessKind::Fault,
                5 => AccessKind::ComesAgain,
                _ => return None,
            },
        })
    }
}

/// Attached programs and their buffer.
pub(crate) struct Accesses {
    /// Holds the programs and their links.
    _programs: aya::Ebpf,
    ring: RingBuf<MapData>,
    lost: MapData,
    processors: usize,
    /// System calls are recorded to the byte.
    pub is_exact: bool,
    /// Accesses that are not seen, and why.
    pub unseen: Vec<(&'static str, EbpfError)>,
}

impl Accesses {
    /// Watches the file system with superblock number `device`.
    ///
    /// Fails if no access can be seen. Where only the tracepoint of buffered reads is missing,
    /// system calls are recorded instead.
    pub fn watch(device: u32, exact: bool) -> Result<Self, EbpfError> {
        Self::watch_by(&SOURCES, device, exact)
    }

    /// The same with these programs, the first of which sees buffered reads.
    fn watch_by(sources: &[Source], device: u32, exact: bool) -> Result<Self, EbpfError> {
        match Self::attach(sources, device, exact) {
            Ok(found) if !exact && sources.first().is_some_and(|first| found.misses(first)) => {
                Self::attach(sources, device, true)
            }
            other => other,
        }
    }

    fn misses(&self, source: &Source) -> bool {
        self.unseen.iter().any(|(sees, _)| *sees == source.sees)
    }

    fn attach(sources: &[Source], device: u32, exact: bool) -> Result<Self, EbpfError> {
        let btf = Btf::from_sys_fs().map_err(|e| EbpfError::NoBtf(crate::ebpf::chain(&e)))?;
        let flag = u32::from(exact);
        let mut programs = loaded(
            EbpfLoader::new()
                .btf(Some(&btf))
                .set_global("device", &device, true)
                .set_global("exact", &flag, true),
            OBJECT,
        )?;
        let missing = |name: &str| EbpfError::Refused(format!("the object has no map {name}"));
        let ring = programs
            .take_map("accesses")
            .ok_or_else(|| missing("accesses"))?;
        let ring =
            RingBuf::try_from(ring).map_err(|e| EbpfError::Refused(crate::ebpf::chain(&e)))?;
        let Some(Map::PerCpuArray(lost)) = programs.take_map("lost") else {
            return Err(missing("lost"));
        };
        let processors = aya::util::nr_cpus().map_err(|(_, e)| EbpfError::Maps(e))?;
        if exact {
            attach_one(&mut programs, &AT_EXIT, &btf)?;
        }
        let mut unseen = Vec::new();
        for source in sources {
            if let Err(why) = attach_one(&mut programs, &source.hook, &btf) {
                unseen.push((source.sees, why));
            }
        }
        if unseen.len() == sources.len()
            && let Some((_, why)) = unseen.pop()
        {
            return Err(why);
        }
        Ok(Self {
            _programs: programs,
            ring,
            lost,
            processors,
            is_exact: exact,
            unseen,
        })
    }

    /// Takes what was sent since the last call.
    pub fn drain(&mut self, visit: &mut dyn FnMut(FileAccess)) {
        while let Some(sent) = self.ring.next() {
            if let Some(access) = FileAccess::parse(&sent) {
                visit(access);
            }
        }
    }

    /// Returns how many accesses were lost so far, because the buffer was full.
    pub fn lost(&self) -> Result<u64, EbpfError> {
        Ok(sys::sum_of(self.lost.fd().as_fd(), self.processors)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Mount;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// A kernel without the tracepoint of buffered reads: system calls take its place.
    #[test]
    fn without_its_tracepoint_buffered_reads_are_seen_by_system_calls() {
        let path = std::env::current_exe().unwrap();
        let mount = Mount::of(Path::new(&path)).unwrap();
        let mut sources = SOURCES;
        sources[0].hook.tracepoint = "mm_filemap_of_no_kernel";
        let mut found = match Accesses::watch_by(&sources, mount.device, false) {
            Ok(found) => found,
            Err(why) => {
                println!("SKIPPED: no eBPF here: {why}");
                return;
            }
        };
        assert!(found.is_exact);
        assert!(
            found
                .unseen
                .iter()
                .any(|(sees, _)| *sees == "buffered reads")
        );
        let mut file = std::fs::File::open(&path).unwrap();
        let inode = file.metadata().unwrap().ino();
        let mut bytes = [0; 777];
        file.read_exact(&mut bytes).unwrap();
        let mut seen = Vec::new();
        found.drain(&mut |access| {
            if access.inode == inode && access.bytes == 777 {
                seen.push((access.kind, access.offset));
            }
        });
        assert_eq!(seen, [(AccessKind::Read, 0)]);
    }
}
