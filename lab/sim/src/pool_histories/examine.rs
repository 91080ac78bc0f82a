//! Opens the pool that a crash left, compares it with the allowed models, and uses it. The explorer
//! calls this for every state; fault tests call it too.
//!
//! Invariant: a pool passes if it opens without a manual step, has exactly one of the allowed
//! models, restores every byte of it, checks as sound, stores nothing twice, and accepts another
//! backup.

use super::model::{Model, Truth, is_password, secret};
use super::ops::What;
use super::setup::{
    MEMORY_BYTES, at_once, check_all, finish_gc, init_options, lane_options, media, snapshot,
};
use super::source::Source;
use crate::{Seed, SimDisk};
use format::container::{
    ContainerClass, ContainerHeader, DIRECTORY_INDEX, HEADER_BYTES, REGION_HEADER_BYTES,
    RegionHeader, next_region,
};
use format::snapshot::Snapshot;
use maintenance::Collector;
use media::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, OpenMode, Pool, StoreErrorKind, TrashedContainer};
use units::{SnapshotId, UnixNanos};

/// Name of the snapshots that examining creates: they may exist when recovery is explored.
const LATER: &str = "later";

/// A pool as it was found.
pub struct FoundPool {
    /// The pool, if one opened.
    pub pool: Option<Pool>,
    /// The key that opened it.
    opened_with: Option<u32>,
    /// Labels of its key slots.
    keys: BTreeSet<u32>,
    /// Its snapshots, without those of earlier examinations.
    snapshots: BTreeMap<SnapshotId, Snapshot>,
    /// The snapshots of earlier examinations.
    later: Vec<Snapshot>,
    /// Reason why it does not open.
    refused: Option<String>,
}

impl FoundPool {
    /// Opens the pool with any key of the candidates that works.
    pub fn open(
        disk: &Arc<SimDisk>,
        salt: u64,
        mode: OpenMode,
        candidates: &[&Model],
    ) -> Result<Self, String> {
        let mut found = Self {
            pool: None,
            opened_with: None,
            keys: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            later: Vec::new(),
            refused: None,
        };
        for key in tries(candidates) {
            let secret = key.map(secret);
            let media = media(Arc::clone(disk) as _, salt);
            match Pool::open(media, secret.as_ref(), mode, MEMORY_BYTES) {
                Ok(pool) => {
                    found.pool = Some(pool);
                    found.opened_with = key;
                    break;
                }
                Err(e) => {
                    let expected =
                        matches!(e.kind, StoreErrorKind::NoPool | StoreErrorKind::WrongKey);
                    if !expected {
                        return Err(format!("does not open ({mode:?}): {e}"));
                    }
                    found.refused = Some(e.to_string());
                }
            }
        }
        if let Some(pool) = &found.pool {
            let slots = pool.keys().list().map_err(|e| format!("keys: {e}"))?;
            found.keys = slots
                .iter()
                .filter_map(|s| s.slot.label.parse().ok())
                .collect();
            let snapshots = pool.snapshots().map_err(|e| format!("snapshots: {e}"))?;
            let (later, known) = snapshots.into_iter().partition(|s| s.name == LATER);
            found.later = later;
            found.snapshots = Vec::into_iter(known).map(|s| (s.id, s)).collect();
        }
        Ok(found)
    }

    /// Returns true if the pool equals the model.
    pub fn is(&self, model: &Model) -> bool {
        if !model.exists {
            return self.pool.is_none();
        }
        let records = model
            .snapshots
            .iter()
            .map(|(id, truth)| (id, &truth.snapshot));
        self.pool.is_some() && self.keys == model.keys && self.snapshots.iter().eq(records)
    }

    /// Describes the pool and the candidates.
    pub fn against(&self, candidates: &[&Model]) -> String {
        let mut text = match &self.refused {
            Some(why) if self.pool.is_none() => format!("found no pool ({why})"),
            _ => format!(
                "found keys {:?}, snapshots {:?}",
                self.keys,
                self.snapshots.keys()
            ),
        };
        for model in candidates {
            let (keys, snapshots) = (&model.keys, model.snapshots.keys());
            let _ = match model.exists {
                true => write!(text, "; allowed: keys {keys:?}, snapshots {snapshots:?}"),
                false => write!(text, "; allowed: none"),
            };
        }
        text
    }
}

/// Keys to try: first none, if a candidate is not encrypted; passwords last.
fn tries(candidates: &[&Model]) -> Vec<Option<u32>> {
    let existing = || candidates.iter().filter(|model| model.exists);
    let mut keys: Vec<u32> = existing().flat_map(|model| model.keys.clone()).collect();
    keys.sort_by_key(|key| (is_password(*key), *key));
    keys.dedup();
    let clear = candidates.iter().any(|model| model.keys.is_empty());
    let mut tries: Vec<Option<u32>> = keys.into_iter().map(Some).collect();
    if clear {
        tries.insert(0, None);
    }
    tries
}

/// Returns what is wrong with the pool on `disk`, which must equal one of `models`.
pub fn examine(disk: &Arc<SimDisk>, models: &[Model], seed: u64) -> Result<(), String> {
    match examine_and_weigh(disk, models, seed)? {
        0 => Ok(()),
        twice => Err(format!("{twice} bytes are stored again")),
    }
}

/// The same after an index could not be read for a while. Returns the bytes that are stored twice.
pub fn examine_and_weigh(disk: &Arc<SimDisk>, models: &[Model], seed: u64) -> Result<u64, String> {
    let candidates: Vec<&Model> = models.iter().collect();
    let salt = (seed << 16) + 60_000;
    let found = FoundPool::open(disk, salt, OpenMode::Read, &candidates)?;
    let Some(model) = models.iter().find(|model| found.is(model)) else {
        // A crash after `begin_again`, when recovery is explored.
        let made_again = found.keys.is_empty() && found.snapshots.is_empty();
        return match &found.pool {
            Some(pool) if made_again && models.iter().any(|model| !model.exists) => {
                check(pool, false).map(|()| 0)
            }
            _ => Err(found.against(&candidates)),
        };
    };
    let Some(pool) = &found.pool else {
        return begin_again(disk, salt).map(|()| 0);
    };
    let is_rotten = models
        .iter()
        .any(|model| model.is_rotten && found.is(model));
    restore(pool, model, &found.later).map_err(|e| format!("read only: {e}"))?;
    check(pool, is_rotten).map_err(|e| format!("found by check: {e}"))?;
    let is_collected = models.iter().any(|model| model.is_collected);
    if is_collected {
        in_trash(pool, &candidates)?;
        oldest_commit(disk, salt + 4, &candidates)?;
    }
    try_keys(disk, salt + 1, &found, &candidates)?;
    drop(found);
    let disk = disk.kill();
    let writer = FoundPool::open(&disk, salt + 2, OpenMode::Write, &[model])?;
    let Some(pool) = writer.pool.as_ref().filter(|_| writer.is(model)) else {
        return Err(format!(
            "a writer finds something else: {}",
            writer.against(&[model])
        ));
    };
    // Before other reads: reading a chunk that the index lacks adds it there.
    let later = go_on(pool, model, is_collected, seed)?;
    let mut collected_at = pool.now();
    if is_collected {
        // Whatever was interrupted: two more runs leave no garbage.
        collect(pool)?;
        collected_at = pool.now();
        collect(pool)?;
    }
    check(pool, is_rotten).map_err(|e| format!("found by check after a backup: {e}"))?;
    let files = disk.image().files();
    let stored = disk.image().files_below("containers").len();
    let (stored, entered) = (stored as u64, pool.record().containers);
    let space = pool.space().map_err(|e| format!("space: {e}"))?;
    if stored + deleted_later(pool, collected_at, &files)? != entered {
        return Err(format!("{stored} containers, the inventory has {entered}"));
    }
    drop(writer);
    let last = FoundPool::open(&disk.kill(), salt + 3, OpenMode::Read, &[model])?;
    let Some(pool) = last.pool.as_ref().filter(|_| last.is(model)) else {
        return Err(format!("after a backup: {}", last.against(&[model])));
    };
    if !last.later.contains(&later.snapshot) {
        return Err("the backup made after the crash is not there".to_owned());
    }
    restore(pool, model, &[]).map_err(|e| format!("after a backup: {e}"))?;
    later
        .source
        .compare(pool, &later.snapshot.root)
        .map_err(|e| format!("the backup made after the crash: {e}"))?;
    Ok(space.duplicate_bytes)
}

/// There was never a pool: creating one must work.
fn begin_again(disk: &Arc<SimDisk>, salt: u64) -> Result<(), String> {
    let media = media(Arc::clone(disk) as _, salt);
    Pool::init(&media, &init_options(&[])).map_err(|e| format!("cannot be made again: {e}"))?;
    let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES);
    let pool = pool.map_err(|e| format!("made again: {e}"))?;
    let keys = pool.keys().list().map_err(|e| e.to_string())?;
    if !keys.is_empty() {
        return Err(format!("a new pool has {} old keys", keys.len()));
    }
    check(&pool, false).map_err(|e| format!("made again: {e}"))
}

/// Checks that every slot opens, and removed keys do not. Passwords take too long to try here.
fn try_keys(
    disk: &Arc<SimDisk>,
    salt: u64,
    found: &FoundPool,
    candidates: &[&Model],
) -> Result<(), String> {
    let mut known = found.keys.clone();
    known.extend(candidates.iter().flat_map(|model| &model.keys_removed));
    known.extend(candidates.iter().flat_map(|model| &model.keys));
    for key in known.into_iter().filter(|key| !is_password(*key)) {
        if found.opened_with == Some(key) {
            continue;
        }
        let media = media(Arc::clone(disk) as _, salt);
        let opens = Pool::open(media, Some(&secret(key)), OpenMode::Read, MEMORY_BYTES).is_ok();
        if opens != (found.keys.contains(&key) || found.keys.is_empty()) {
            return Err(format!(
                "key {key} opens: {opens}, slots are {:?}",
                found.keys
            ));
        }
    }
    Ok(())
}

fn restore(pool: &Pool, model: &Model, later: &[Snapshot]) -> Result<(), String> {
    for truth in model.snapshots.values() {
        let Snapshot { name, id, root, .. } = &truth.snapshot;
        let same = truth.source.compare(pool, root);
        same.map_err(|e| format!("{name} {id:?}: {e}"))?;
    }
    for snapshot in later {
        // The original is not known here, only that the backup must be readable.
        let read = pool.reader().read_whole(&snapshot.root, 1 << 20);
        read.map_err(|e| format!("a later backup: {e}"))?;
    }
    Ok(())
}

/// Damage that is not in quarantine yet is damage, but affects no name.
fn check(pool: &Pool, is_rotten: bool) -> Result<(), String> {
    let report = check_all(pool).map_err(|e| e.to_string())?;
    match report.is_sound() || is_rotten && report.affected.is_empty() {
        true => Ok(()),
        false => Err(format!("{:?} {:?}", report.damage, report.affected)),
    }
}

/// Checks that a backup equal to the newest snapshot adds nothing, and a different one works.
fn go_on(pool: &Pool, model: &Model, is_collected: bool, seed: u64) -> Result<Truth, String> {
    let session = pool.begin(lane_options());
    let mut session = session.map_err(|e| format!("no session: {e}"))?;
    let put = |source: &Source, session: &mut _| {
        let root = source.put(session, 0, lane_options());
        root.map_err(|e| format!("a backup after the crash: {e}"))
    };
    if let Some(truth) = model.newest() {
        let root = put(&truth.source, &mut session)?;
        let stored = session.counts().chunks_new;
        // Chunks in the trash are stored again if they come again.
        if root != truth.snapshot.root || stored != 0 && !is_collected {
            return Err(format!("the same again stores {stored} chunks"));
        }
    }
    let source = Source::new(What::Stream, &mut Seed::new(seed).part(2));
    let root = put(&source, &mut session)?;
    let mut record = snapshot(pool, What::Stream, &source, root);
    record.name = LATER.to_owned();
    let committed = pool.commit(session, std::slice::from_ref(&record), &[]);
    committed.map_err(|e| format!("a commit after the crash: {e}"))?;
    Ok(Truth {
        snapshot: record,
        source: Arc::new(source),
    })
}

/// Runs gc once, completely.
fn collect(pool: &Pool) -> Result<(), String> {
    let collector = Collector::new(pool, at_once(), lane_options());
    let mut collector = collector.map_err(|e| format!("no collector: {e}"))?;
    let counts = finish_gc(pool, None, &mut collector, 1 << 20);
    counts.map(drop).map_err(|e| format!("collecting: {e}"))
}

/// Counts containers that were deleted by a run whose clock was ahead of this one's, and whose last
/// commit the crash lost. They are missing on the disk, and in the trash until they expire by this
/// clock too.
fn deleted_later(pool: &Pool, now: UnixNanos, files: &[(String, u64)]) -> Result<u64, String> {
    let (_, trashed) = pool.trash().map_err(|e| format!("no trash: {e}"))?;
    let is_removed = |t: &&TrashedContainer| {
        let id = t.entry.id;
        let writer = format!("containers/{:04x}/", id.writer().0);
        let number = format!("/{:012x}", id.sequence());
        let is_it = |name: &str| name.starts_with(&writer) && name.ends_with(&number);
        t.since.at > now && !files.iter().any(|(name, _)| is_it(name))
    };
    Ok(trashed.iter().filter(is_removed).count() as u64)
}

/// Checks that snapshots in the trash can be restored completely.
fn in_trash(pool: &Pool, candidates: &[&Model]) -> Result<(), String> {
    let (forgotten, _) = pool.trash().map_err(|e| format!("trash: {e}"))?;
    for forgotten in forgotten {
        let id = forgotten.snapshot.id;
        let removed = candidates.iter().find_map(|model| model.removed.get(&id));
        let Some(truth) = removed else {
            return Err(format!(
                "snapshot {id:?} is in the trash and was not forgotten"
            ));
        };
        let same = truth.source.compare(pool, &forgotten.snapshot.root);
        same.map_err(|e| format!("{id:?} in the trash: {e}"))?;
    }
    Ok(())
}

/// Checks that a pool that loses its newer commits equals its oldest one, and is complete.
fn oldest_commit(disk: &Arc<SimDisk>, salt: u64, candidates: &[&Model]) -> Result<(), String> {
    let disk = SimDisk::unrecorded(disk.image());
    let names = |dir: &str| {
        let names = disk.list(dir).unwrap_or_default();
        names
            .into_iter()
            .map(|entry| entry.name)
            .collect::<BTreeSet<_>>()
    };
    let all = [names("roots"), names("mirror/roots")];
    let oldest = all.iter().flatten().min().cloned().unwrap_or_default();
    for (dir, names) in ["roots", "mirror/roots"].iter().zip(&all) {
        for name in names.iter().filter(|name| **name != oldest) {
            let _ = disk.remove(&format!("{dir}/{name}"));
        }
    }
    let _ = disk.remove("cache/fpi");
    let rewound = FoundPool::open(&disk, salt, OpenMode::Read, candidates)?;
    let Some(pool) = &rewound.pool else {
        return Err(format!(
            "rewound to commit {oldest}: {}",
            rewound.against(candidates)
        ));
    };
    let report = pool
        .check(CheckDepth::Structure, &mut |_, _| ControlFlow::Continue(()))
        .map_err(|e| format!("rewound to commit {oldest}: {e}"))?;
    match report.affected.is_empty() && report.damage.is_empty() {
        true => Ok(()),
        false => Err(format!("rewound to commit {oldest}: {:?}", report.damage)),
    }
}

/// Raw sizes of the regions that do not have metadata, container by container.
pub fn data_regions(disk: &SimDisk) -> Vec<Vec<usize>> {
    let files = disk.image().files_below("containers");
    let names = files.iter().map(|(name, _)| name);
    let of_one = |name: &String| {
        let bytes = disk.image().contents(name).expect("bytes");
        let container =
            ContainerHeader::decode(&bytes[..HEADER_BYTES], false).expect("a container");
        let (mut at, mut found) = (HEADER_BYTES, Vec::new());
        while let Some(header) = bytes.get(at..at + REGION_HEADER_BYTES) {
            let Ok(header) = RegionHeader::decode(header) else {
                break;
            };
            if header.index == DIRECTORY_INDEX {
                break;
            }
            // Each chunk has a length field.
            found.push(header.raw_bytes as usize - 4 * header.chunk_count as usize);
            at = next_region(&bytes, header.container, at, at + header.region_bytes());
        }
        (container.class == ContainerClass::Data).then_some(found)
    };
    names.filter_map(of_one).collect()
}
