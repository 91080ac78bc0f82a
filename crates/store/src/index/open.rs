//! Opening: what of the file on the device can be believed.
//!
//! Invariant: never an error for what the file holds, only a reason to start empty; nothing is
//! written here. Called by [`FingerprintIndex::open`](super::FingerprintIndex::open).

use super::build::Site;
use super::numbers::Numbers;
use super::table::{Standing, Table, read_header};
use format::bytes::Fault;
use format::index::{Record, Seed, Tail};
use media::{DiskFile, MediaErrorKind};
use std::sync::Arc;

/// What was found at the index's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A whole index of this pool.
    Loaded,
    /// Nothing.
    Missing,
    /// An index that was being written when the power or the process went.
    Unclean,
    /// Another pool's index.
    Foreign,
    /// A version that this program does not know.
    Version,
    /// Torn, cut, rotten, or no index at all.
    Damaged,
    /// A tail larger than the memory budget allows.
    TooLarge,
}

/// A believable file, opened.
pub(super) struct Loaded {
    pub(super) table: Table,
    pub(super) standing: Standing,
    pub(super) numbers: Numbers,
    pub(super) overflow: Vec<Record>,
}

/// Opens the file, or says why not.
pub(super) fn load(site: &Site, writable: bool, tail_bytes_max: u64) -> Result<Loaded, Found> {
    let opened = match writable {
        true => site.disk.open(&site.path, false),
        false => site.disk.open_read(&site.path),
    };
    let file: Arc<dyn DiskFile> = opened.map_err(|e| match e.kind {
        MediaErrorKind::NotFound => Found::Missing,
        _ => Found::Damaged,
    })?;
    let header = read_header(&*file).map_err(|e| match e.fault {
        Fault::Version(_) => Found::Version,
        _ => Found::Damaged,
    })?;
    if header.pool != site.pool {
        return Err(Found::Foreign);
    }
    if !header.clean {
        return Err(Found::Unclean);
    }
    if file.len().map_err(|_| Found::Damaged)? < Table::bytes_of(&header) {
        return Err(Found::Damaged);
    }
    let tail_bytes = Tail::bytes_announced(&header);
    if tail_bytes > tail_bytes_max {
        return Err(Found::TooLarge);
    }
    let mut tail = vec![0; usize::try_from(tail_bytes).map_err(|_| Found::TooLarge)?];
    if !tail.is_empty() {
        let offset = header.geometry.tail_offset();
        file.read_at(offset, &mut tail)
            .map_err(|_| Found::Damaged)?;
    }
    let seed = Seed::new(&site.pool, header.geometry);
    let tail = Tail::decode(&tail, &header, seed).map_err(|_| Found::Damaged)?;
    let numbers = Numbers::load(tail.runs).ok_or(Found::Damaged)?;
    let table = Table::new(file, &site.pool, header.geometry, site.cache_bytes);
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
