//! Page events by eBPF: loads `bpf/page_events.bpf.o`, attaches its programs, drains its maps.
//! `watch` calls this; `quintet host doctor` tries it.
//!
//! Invariant: programs write into one of two maps. A drain makes the other one active, waits until
//! every program that may still use the first has ended, and only then takes chunks out of it.

use crate::sys::{self, Bits, Control, Counters, Key};
use aya::maps::{Map, MapData};
use aya::programs::BtfTracePoint;
use aya::{Btf, EbpfLoader};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The programs, compiled from the source beside it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/page_events.bpf.o");

/// A program and the tracepoint of the kernel that it is attached to.
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Name of the program in the object.
    pub program: &'static str,
    /// Tracepoint.
    pub tracepoint: &'static str,
    /// File system that needs it; none: all need it.
    pub only_for: Option<&'static str>,
}

/// All programs.
pub const HOOKS: [Hook; 7] = [
    hook("added", "mm_filemap_add_to_page_cache", None),
    hook("removed", "mm_filemap_delete_from_page_cache", None),
    hook("dirtied", "writeback_dirty_folio", None),
    hook("flushed_by_bio", "block_bio_queue", None),
    hook("flushed_by_iomap", "iomap_writeback_folio", Some("fuse")),
    hook(
        "flushed_compressed",
        "btrfs_ordered_extent_add",
        Some("btrfs"),
    ),
    hook("flushed_by_btrfs", "extent_writepage", Some("btrfs")),
];

pub(crate) const fn hook(
    program: &'static str,
    tracepoint: &'static str,
    only_for: Option<&'static str>,
) -> Hook {
    Hook {
        program,
        tracepoint,
        only_for,
    }
}

/// Events cannot be had here, and why.
#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    /// The kernel says nothing of its own structures.
    #[error("the kernel has no BTF (/sys/kernel/btf/vmlinux): {0}")]
    NoBtf(String),
    /// The process lacks a privilege.
    #[error("eBPF is not permitted; run as root, or with CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// The kernel refused maps or programs.
    #[error("the kernel refuses eBPF: {0}")]
    Refused(String),
    /// A program could not be attached.
    #[error("cannot use the tracepoint {tracepoint}: {why}")]
    Tracepoint {
        /// Which one.
        tracepoint: &'static str,
        /// The kernel's error.
        why: String,
    },
    /// A system call on a map failed.
    #[error("cannot use the maps of page events: {0}")]
    Maps(#[from] io::Error),
}

/// Attached programs and their maps. They are detached when this is dropped.
pub struct Ebpf {
    /// Holds the programs and their links.
    _programs: aya::Ebpf,
    chunks: [MapData; 2],
    control: MapData,
    counters: MapData,
    processors: usize,
    state: Control,
    dropped: u64,
}

impl Ebpf {
    /// Chunks that each of the two maps has room for. Each map takes 32 MiB of the kernel's memory.
    pub const CHUNKS_MAX: u32 = 1 << 18;

    /// Watches the file system with superblock number `device`. `kind` is `ext4`, `xfs`, `btrfs` or
    /// `fuse`: it says which programs are needed.
    pub fn watch(device: u32, kind: &str, chunks_max: u32) -> Result<Self, EbpfError> {
        let needed = |hook: &&Hook| hook.only_for.is_none_or(|only| only == kind);
        let state = Control { active: 0, device };
        Self::attach(state, chunks_max, &mut HOOKS.iter().filter(needed))
    }

    /// Attaches one program, and watches nothing with it: is it possible here?
    pub fn probe(hook: &Hook) -> Result<(), EbpfError> {
        Self::attach(Control::default(), 1, &mut std::iter::once(hook)).map(drop)
    }

    fn attach(
        state: Control,
        chunks_max: u32,
        hooks: &mut dyn Iterator<Item = &Hook>,
    ) -> Result<Self, EbpfError> {
        let btf = Btf::from_sys_fs().map_err(|e| EbpfError::NoBtf(chain(&e)))?;
        let mut programs = loaded(
            EbpfLoader::new()
                .btf(Some(&btf))
                .set_max_entries("chunks_0", chunks_max)
                .set_max_entries("chunks_1", chunks_max),
            OBJECT,
        )?;
        let mut map = |name: &str| match programs.take_map(name) {
            Some(Map::HashMap(map) | Map::Array(map) | Map::PerCpuArray(map)) => Ok(map),
            _ => Err(EbpfError::Refused(format!("the object has no map {name}"))),
        };
        let processors = aya::util::nr_cpus().map_err(|(_, e)| EbpfError::Maps(e))?;
        let chunks = [map("chunks_0")?, map("chunks_1")?];
        let (control, counters) = (map("control")?, map("counters")?);
        sys::set_control(control.fd().as_fd(), &state)?;
        for hook in hooks {
            attach_one(&mut programs, hook, &btf)?;
        }
        Ok(Self {
            _programs: programs,
            chunks,
            control,
            counters,
            processors,
            state,
            dropped: 0,
        })
    }

    /// Takes what changed since the last drain.
    pub(crate) fn drain(&mut self, visit: &mut dyn FnMut(&Key, &Bits)) -> Result<(), EbpfError> {
        let filled = self.state.active;
        self.state.active = 1 - filled;
        sys::set_control(self.control.fd().as_fd(), &self.state)?;
        sys::wait_for_programs()?;
        if let Some(map) = self.chunks.get(filled as usize) {
            sys::take_all(map.fd().as_fd(), visit)?;
        }
        Ok(())
    }

    /// Returns how many chunks were lost since the last call, because a map was full.
    pub(crate) fn newly_dropped(&mut self) -> Result<u64, EbpfError> {
        let all = self.counted()?.dropped;
        let new = all - self.dropped;
        self.dropped = all;
        Ok(new)
    }

    /// Returns how many pages were Added, Removed, Dirtied and Flushed so far.
    pub fn events(&self) -> Result<[u64; 4], EbpfError> {
        Ok(self.counted()?.events)
    }

    fn counted(&self) -> Result<Counters, EbpfError> {
        let map: BorrowedFd<'_> = self.counters.fd().as_fd();
        let mut all = Counters::default();
        for one in sys::counters(map, self.processors)? {
            for (sum, events) in all.events.iter_mut().zip(one.events) {
                *sum += events;
            }
            all.dropped += one.dropped;
        }
        Ok(all)
    }
}

/// Loads maps and programs of an object.
pub(crate) fn loaded(loader: &mut EbpfLoader<'_>, object: &[u8]) -> Result<aya::Ebpf, EbpfError> {
    loader.load(object).map_err(|e| match chain(&e) {
        why if why.contains("not permitted") => EbpfError::NotPermitted,
        why => EbpfError::Refused(why),
    })
}

pub(crate) fn attach_one(
    programs: &mut aya::Ebpf,
    hook: &Hook,
    btf: &Btf,
) -> Result<(), EbpfError> {
    let tracepoint = hook.tracepoint;
    let failed = |why: String| EbpfError::Tracepoint { tracepoint, why };
    let program = programs.program_mut(hook.program);
    let program = program.ok_or_else(|| failed("the object has no such program".to_owned()))?;
    let program: &mut BtfTracePoint = program.try_into().map_err(|e| failed(chain(&e)))?;
    program
        .load(tracepoint, btf)
        .map_err(|e| failed(chain(&e)))?;
    program.attach().map_err(|e| failed(chain(&e)))?;
    Ok(())
}

/// Joins an error with its causes. Of the verifier's log only the first line is kept.
pub(crate) fn chain(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text.lines().next().unwrap_or_default().to_owned()
}
