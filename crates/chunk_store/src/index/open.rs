//! Opens the index: decides whether the file on the device can be trusted. Recovery calls this.
//!
//! Invariant: no contents of the file are an error; they only decide whether the index starts
//! empty. An untrusted file is replaced, never repaired.

use super::build::Site;
use super::deleted::Deleted;
use super::meters::Meters;
use super::numbers::Numbers;
use super::shares::Shares;
use super::state::IndexState;
use super::table::{Standing, Table, read_header};
use super::writer_lock::WriterLock;
use super::{Coverage, FingerprintIndex};
use format::bytes::Fault;
use format::index::{IndexRecord, Seed, Tail};
use media::{Disk, DiskFile, MediaErrorKind};
use parking_lot::RwLock;
use std::sync::{Arc, OnceLock};
use units::PoolId;

/// Result of looking at the index's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFound {
    /// A complete index of this pool.
    Loaded,
    /// No file.
    Missing,
    /// An index whose writer was interrupted.
    Unclean,
    /// Another pool's index.
    Foreign,
    /// A version that this program does not know.
    Version,
    /// A file that is torn, short or corrupt, or that is not an index.
    Damaged,
    /// An index with a larger tail than the memory budget allows.
    TooLarge,
}

/// An opened index and its state.
pub struct Opened {
    /// The index.
    pub index: FingerprintIndex,
    /// Coverage of the index; empty if it starts empty.
    pub coverage: Coverage,
    /// Finding on the device.
    pub found: IndexFound,
}

/// A trusted file, opened.
struct Loaded {
    table: Table,
    standing: Standing,
    numbers: Numbers,
    overflow: Vec<IndexRecord>,
}

impl FingerprintIndex {
    /// Opens the index at `path`. If there is no trusted file, creates an empty one; if that fails,
    /// the index lives in memory. The caller holds the pool's lock. Uses about `memory_bytes` at
    /// most, and at least 1 MiB.
    pub fn open(disk: Arc<dyn Disk>, path: &str, pool: PoolId, memory_bytes: usize) -> Opened {
        let mut opened = Self::open_with(disk, path, pool, memory_bytes, true);
        // An interrupted growth may have left this file.
        let _ = opened.index.site.disk.remove(&opened.index.site.new_path());
        if opened.found != IndexFound::Loaded {
            opened.index.reset(0);
        }
        let index = &mut opened.index;
        if index.write_failure().is_some() {
            // Proceed like a reader without a file.
            index.writes = false;
            index.shares = index.shares.without_file();
            index.state = RwLock::new(IndexState::empty(&index.shares));
        }
        opened
    }

    /// Opens the index without the pool's lock and never writes it. Inserted entries stay in
    /// memory, within the budget. Without a trusted file the index starts empty.
    pub fn open_read_only(
        disk: Arc<dyn Disk>,
        path: &str,
        pool: PoolId,
        memory_bytes: usize,
    ) -> Opened {
        Self::open_with(disk, path, pool, memory_bytes, false)
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        path: &str,
        pool: PoolId,
        memory_bytes: usize,
        writes: bool,
    ) -> Opened {
        let mut shares = Shares::of(memory_bytes);
        let site = shares.site(disk, path.to_owned(), pool);
        let loaded = load(&site, writes, shares.tail_bytes_max);
        if loaded.is_err() && !writes {
            shares = shares.without_file();
        }
        let mut state = IndexState::empty(&shares);
        let meters = Meters::default();
        let (standing, found) = match loaded {
            Ok(loaded) => {
                let standing = &loaded.standing;
                meters.stands(standing.entries, standing.bytes());
                state.table = Some(Arc::new(loaded.table));
                state.numbers = loaded.numbers;
                state.overflow.load(loaded.overflow);
                (Some(loaded.standing), IndexFound::Loaded)
            }
            Err(found) => (None, found),
        };
        let coverage = standing
            .as_ref()
            .map_or_else(Coverage::new, |s| s.coverage.clone());
        let index = Self {
            deleted: Deleted::default(),
            site,
            shares,
            state: RwLock::new(state),
            writer_lock: WriterLock::new(standing.filter(|_| writes)),
            writes,
            meters,
            copying: OnceLock::new(),
        };
        Opened {
            index,
            coverage,
            found,
        }
    }
}

/// Opens the file, or returns why it cannot be trusted.
fn load(
    site: &Site,
    writable: bool,
    tail_bytes_max: u64,
) -> std::result::Result<Loaded, IndexFound> {
    let opened = match writable {
        true => site.disk.open(&site.path, false),
        false => site.disk.open_read(&site.path),
    };
    let file: Arc<dyn DiskFile> = opened.map_err(|e| match e.kind {
        MediaErrorKind::NotFound => IndexFound::Missing,
        _ => IndexFound::Damaged,
    })?;
    let header = read_header(&*file).map_err(|e| match e.fault {
        Fault::Version(_) => IndexFound::Version,
        _ => IndexFound::Damaged,
    })?;
    if header.pool != site.pool {
        return Err(IndexFound::Foreign);
    }
    if !header.clean {
        return Err(IndexFound::Unclean);
    }
    if file.len().map_err(|_| IndexFound::Damaged)? < Table::bytes_of(&header) {
        return Err(IndexFound::Damaged);
    }
    let tail_bytes = Tail::bytes_announced(&header);
    if tail_bytes > tail_bytes_max {
        return Err(IndexFound::TooLarge);
    }
    let mut tail = vec![0; usize::try_from(tail_bytes).map_err(|_| IndexFound::TooLarge)?];
    if !tail.is_empty() {
        let offset = header.geometry.tail_offset();
        file.read_at(offset, &mut tail)
            .map_err(|_| IndexFound::Damaged)?;
    }
    let seed = Seed::new(&site.pool, header.geometry);
    let tail = Tail::decode(&tail, &header, seed).map_err(|_| IndexFound::Damaged)?;
    let numbers = Numbers::load(tail.runs).ok_or(IndexFound::Damaged)?;
    let table = Table::new(
        file,
        &site.pool,
        header.geometry,
        site.cache(header.geometry, writable),
    );
    let (coverage, entries) = (tail.coverage, header.entries);
    let standing = Standing {
        header,
        coverage,
        entries,
        failed: false,
    };
    Ok(Loaded {
        table,
        standing,
        numbers,
        overflow: tail.overflow,
    })
}
