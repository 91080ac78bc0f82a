//! Roots: the commits of a pool. `recovery` reads the newest, sessions commit.
//!
//! Invariant: the newest readable generation is the state of the pool. An unreadable newer one is
//! damage, because a root's name never leads to torn bytes; it is reported and never skipped
//! silently. A root with another seal than the pool's may be forged, so it is damage too.

use super::{BLOB_BYTES_MAX, MasterKey, Notes, mirror_name};
use crate::error::{Result, StoreError, StoreErrorKind};
use format::config::Seal;
use format::root::{RootRecord, StoredRoot};
use media::{Barrier, Blobs, Media, MediaErrorKind, Put};
use units::{Generation, PoolId};

const DIR: &str = "roots";
/// Number of newest roots that stay, so that a pool can be rewound.
const ROOTS_KEPT: usize = 16;

/// The newest state of a pool.
pub struct Newest {
    /// Its number.
    pub generation: Generation,
    /// Its contents.
    pub record: RootRecord,
    /// Highest number in use, readable or not. The next commit must be above it.
    pub generation_highest: Generation,
    /// Roots above `generation` that exist and cannot be read: lost commits.
    pub unreadable: Vec<Generation>,
}

fn base_name(generation: Generation) -> String {
    format!("{:020}", generation.0)
}

fn name_of(generation: Generation) -> String {
    format!("{DIR}/{}", base_name(generation))
}

/// Lists all generations under either name, newest first.
fn generations(blobs: &dyn Blobs) -> Result<Vec<Generation>> {
    let mut names = blobs.list(DIR)?;
    names.extend(blobs.list(&mirror_name(DIR))?);
    // Other files may lie here. Only names in our form count.
    let mut numbers: Vec<_> = names
        .iter()
        .filter_map(|n| {
            n.parse()
                .ok()
                .map(Generation)
                .filter(|g| base_name(*g) == *n)
        })
        .collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.dedup();
    Ok(numbers)
}

/// Returns the pool that most roots name.
pub(super) fn owner_of_roots(blobs: &dyn Blobs) -> Result<Option<PoolId>> {
    let mut claims: Vec<(PoolId, usize)> = Vec::new();
    for generation in generations(blobs)? {
        let name = name_of(generation);
        for name in [mirror_name(&name), name] {
            let bytes = blobs.read(&name, BLOB_BYTES_MAX).unwrap_or_default();
            let Ok((root, _)) = StoredRoot::decode(&bytes) else {
                continue;
            };
            match claims.iter_mut().find(|(pool, _)| *pool == root.pool) {
                Some((_, count)) => *count += 1,
                None => claims.push((root.pool, 1)),
            }
        }
    }
    let most = claims.into_iter().max_by_key(|(_, count)| *count);
    Ok(most.map(|(pool, _)| pool))
}

/// Returns the newest readable root, or the newest below `below`. Returns `None` if there is no
/// root, and fails with `Corruption` if none can be read.
pub fn newest_root(
    media: &Media,
    pool: PoolId,
    (master, seal): (&MasterKey, Seal),
    below: Option<Generation>,
    notes: &mut Notes,
) -> Result<Option<Newest>> {
    let numbers = generations(&*media.blobs)?;
    let mut unreadable = Vec::new();
    let older = |generation: &&Generation| below.is_none_or(|limit| **generation < limit);
    for &generation in numbers.iter().filter(older) {
        match read_root(media, pool, (master, seal), generation, notes)? {
            Some(record) => {
                return Ok(Some(Newest {
                    generation,
                    record,
                    generation_highest: numbers.first().copied().unwrap_or(generation),
                    unreadable,
                }));
            }
            None => unreadable.push(generation),
        }
    }
    match unreadable.first() {
        None => Ok(None),
        Some(newest) => Err(StoreError::corruption(
            "roots",
            name_of(*newest),
            format!("none of {} can be read", unreadable.len()),
        )),
    }
}

fn read_root(
    media: &Media,
    pool: PoolId,
    sealing: (&MasterKey, Seal),
    generation: Generation,
    notes: &mut Notes,
) -> Result<Option<RootRecord>> {
    let mut found = None;
    let mut device = None;
    for name in [name_of(generation), mirror_name(&name_of(generation))] {
        let bytes = match media.blobs.read(&name, BLOB_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.kind == MediaErrorKind::NotFound => {
                notes.unpaired.push(format!("{name}: missing"));
                continue;
            }
            Err(e) if e.kind == MediaErrorKind::Io => {
                notes.push(format!("{name}: {e}"));
                device.get_or_insert(e);
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        match open_root(&bytes, pool, sealing, generation) {
            Ok((record, damaged)) => {
                if damaged {
                    notes.push(format!("{name}: one of two copies is damaged"));
                }
                found.get_or_insert(record);
            }
            Err(why) => notes.push(format!("{name}: {why}")),
        }
    }
    match (found, device) {
        // The device may read this commit again later, so it must not be skipped.
        (None, Some(e)) => Err(e.into()),
        (found, _) => Ok(found),
    }
}

fn open_root(
    bytes: &[u8],
    pool: PoolId,
    (master, seal): (&MasterKey, Seal),
    generation: Generation,
) -> std::result::Result<(RootRecord, bool), String> {
    let (root, damaged) = StoredRoot::decode(bytes).map_err(|e| e.to_string())?;
    if root.pool != pool || root.generation != generation {
        return Err("it belongs to another place".to_owned());
    }
    // Anybody could forge an unsealed root.
    if root.seal != seal {
        return Err("it is encrypted in another way than the pool".to_owned());
    }
    let bound = root.associated_data();
    let mut body = root.body;
    if seal == Seal::Aes256Gcm && !master.root_key().open(root.nonce, &bound, &mut body) {
        return Err("its seal does not verify".to_owned());
    }
    let record = RootRecord::decode(&body).map_err(|e| e.to_string())?;
    Ok((record, damaged))
}

/// Commits `record` as `generation` and returns when it is durable. Fails with `Locked` if another
/// writer took the number: this writer is then fenced out.
pub fn commit_root(
    media: &Media,
    pool: PoolId,
    master: &MasterKey,
    seal: Seal,
    generation: Generation,
    record: &RootRecord,
) -> Result<()> {
    let mut root = StoredRoot {
        pool,
        generation,
        seal,
        nonce: [0; 12],
        body: record.encode(),
    };
    if seal == Seal::Aes256Gcm {
        media.random.fill(&mut root.nonce);
        let bound = root.associated_data();
        master
            .root_key()
            .seal(root.nonce, &bound, &mut root.body, 0);
    }
    let bytes = root.encode();
    let name = name_of(generation);
    media
        .blobs
        .put(&name, bytes.clone(), Put::IfAbsent)
        .map_err(|e| {
            if e.kind == MediaErrorKind::Exists {
                let why = format!("it committed generation {generation}");
                StoreError::new(StoreErrorKind::Locked, why)
            } else {
                e.into()
            }
        })?;
    media.blobs.put(&mirror_name(&name), bytes, Put::Replace)?;
    media.blobs.barrier(Barrier::RootBeforeAck)?;
    forget_old_roots(media)
}

/// Removes the roots below a generation that is stored. Durable on return. Both names of each are
/// removed, or the copy below `mirror/` would bring it back.
pub fn forget_roots_below(media: &Media, limit: Generation) -> Result<()> {
    let old = generations(&*media.blobs)?;
    let old: Vec<_> = old.into_iter().filter(|g| *g < limit).collect();
    if !old.is_empty() {
        media.blobs.barrier(Barrier::RootBeforeOldRoots)?;
    }
    for generation in &old {
        let name = name_of(*generation);
        media.blobs.delete(&name)?;
        media.blobs.delete(&mirror_name(&name))?;
    }
    // Also if none is left here: a killed process may have removed them without this barrier.
    Ok(media.blobs.barrier(Barrier::RootsBeforeContainers)?)
}

/// Removes roots beyond [`ROOTS_KEPT`]. The next call finishes what a crash interrupted.
fn forget_old_roots(media: &Media) -> Result<()> {
    for generation in generations(&*media.blobs)?.into_iter().skip(ROOTS_KEPT) {
        let name = name_of(generation);
        media.blobs.delete(&name)?;
        media.blobs.delete(&mirror_name(&name))?;
    }
    Ok(())
}

/// Repairs the newest root: writes a missing or damaged copy again.
pub fn repair_root(
    media: &Media,
    pool: PoolId,
    sealing: (&MasterKey, Seal),
    generation: Generation,
) -> Result<()> {
    let name = name_of(generation);
    let names = [mirror_name(&name), name];
    let copies = names
        .each_ref()
        .map(|name| media.blobs.read(name, BLOB_BYTES_MAX).ok());
    // A root of another place, or a forged one, decodes well and must not replace this one.
    let good = copies.iter().flatten().find_map(|bytes| {
        open_root(bytes, pool, sealing, generation).ok()?;
        Some(StoredRoot::decode(bytes).ok()?.0.encode())
    });
    let Some(good) = good else {
        return Ok(());
    };
    for (name, copy) in names.iter().zip(&copies) {
        if copy.as_ref() != Some(&good) {
            media.blobs.put(name, good.clone(), Put::Replace)?;
        } else {
            media.blobs.adopt(name);
        }
    }
    Ok(())
}
