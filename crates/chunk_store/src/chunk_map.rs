//! From fingerprint to place: chunks of this session, cached directories, then the fingerprint
//! index (DDFS, ATC'18: locality first, index second).
//!
//! Invariant: a place is told only after the full fingerprint was seen in a container's directory
//! (or was stored by this process); what the index says is a hint. A chunk that the index does not
//! know although it should makes all directories be read: index and directories together are
//! complete. A region that is set aside (`quarantine`) holds nothing for who writes, and is the
//! last resort of who reads. Called by read path, write path, recovery and check.

mod claims;
mod directories;
mod directory;
mod keeper;
mod moved;
mod quarantine;
mod retired;
mod search;

pub use claims::Claims;
use directories::Directories;

pub use directory::{ChunkPlace, LoadedDirectory, Near};
pub use keeper::{Indexed, Kept};
pub use moved::{FORWARD_WRITERS, Moved};
pub use quarantine::Quarantine;
pub use retired::Retired;

use crate::container::{ContainerReader, RegionPlace, visit_containers};
use crate::error::Result;
use crate::index::{FingerprintIndex, Location};
use format::container::{Directory, SECTOR_BYTES};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{ContainerId, Fingerprint, WriterId};

/// Of a cache's budget, one part in so many is maintenance's whatever others need.
pub const PASSING_SHARE: usize = 4;

/// Fingerprints are uniform already: their first bytes are the hash.
#[derive(Default)]
pub struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        // Called with the length prefix and with the 32 bytes; the latter decide.
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    #[inline]
    fn write_usize(&mut self, _: usize) {}
}

/// A map whose keys need no hashing.
pub type FingerprintMap<V> = HashMap<Fingerprint, V, BuildHasherDefault<FingerprintHasher>>;
/// A set of the same kind.
pub type FingerprintSet = HashSet<Fingerprint, BuildHasherDefault<FingerprintHasher>>;

/// What was asked and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Answered by chunks of this session.
    pub recent_hits: u64,
    /// Answered by a directory in memory.
    pub directory_hits: u64,
    /// Asked of the fingerprint index.
    pub index_probes: u64,
    /// Index hints that the directory confirmed.
    pub index_hits: u64,
    /// Index hints that the directory denied.
    pub false_positives: u64,
    /// Directories read from the device.
    pub directory_reads: u64,
}

#[derive(Default)]
struct Counters {
    recent_hits: AtomicU64,
    directory_hits: AtomicU64,
    index_probes: AtomicU64,
    index_hits: AtomicU64,
    false_positives: AtomicU64,
    directory_reads: AtomicU64,
}

/// All ways from a fingerprint to a place.
pub struct ChunkMap {
    /// Hints at places.
    pub index: FingerprintIndex,
    /// What is set aside, and what is retired.
    pub quarantine: Quarantine,
    /// Chunks that have newer copies.
    pub moved: Moved,
    containers: Arc<ContainerReader>,
    cache: Mutex<Directories>,
    /// Signalled when a directory was read, or could not be.
    loaded: Condvar,
    /// What the claims of one session may take.
    claims_bytes_max: usize,
    /// Chunks whose index candidates were all others: they go to the overflow table.
    colliding: Mutex<FingerprintSet>,
    /// All directories were entered because the index had missed a chunk, when so many times containers
    /// had been retired and so many buckets of the index lost.
    rescued: Mutex<Option<(u64, u64)>>,
    counters: Counters,
    /// Who is told of what is set aside.
    noticed: OnceLock<Noticed>,
}

/// Told of a place that was found damaged.
type Noticed = Box<dyn Fn(RegionPlace) + Send + Sync>;

impl ChunkMap {
    /// A map over an open index. Budgets in bytes: of directories in memory, and of the claims of one
    /// session.
    pub fn new(
        index: FingerprintIndex,
        containers: Arc<ContainerReader>,
        cache_bytes_max: usize,
        claims_bytes_max: usize,
    ) -> Self {
        Self {
            index,
            quarantine: Quarantine::default(),
            moved: Moved::default(),
            containers,
            cache: Mutex::new(Directories::new(cache_bytes_max)),
            loaded: Condvar::new(),
            claims_bytes_max,
            colliding: Mutex::default(),
            rescued: Mutex::default(),
            counters: Counters::default(),
            noticed: OnceLock::new(),
        }
    }

    /// Forgets what directories were read, as if there were many.
    #[cfg(feature = "testing")]
    pub fn forget_directories(&self) {
        self.cache.lock().clear();
    }

    /// How fingerprints were found.
    pub fn counts(&self) -> LookupCounts {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        LookupCounts {
            recent_hits: read(&self.counters.recent_hits),
            directory_hits: read(&self.counters.directory_hits),
            index_probes: read(&self.counters.index_probes),
            index_hits: read(&self.counters.index_hits),
            false_positives: read(&self.counters.false_positives),
            directory_reads: read(&self.counters.directory_reads),
        }
    }

    /// True when the chunk is stored, or is being stored by the session of these claims. Claims
    /// nothing.
    pub fn holds(
        &self,
        claims: &Claims,
        fingerprint: &Fingerprint,
        near: &mut Near,
    ) -> Result<bool> {
        Ok(self.is_claimed(claims, fingerprint) || self.place(fingerprint, near)?.is_some())
    }

    /// True when the session of these claims has stored the chunk, or is storing it, and its region was
    /// not set aside since.
    fn is_claimed(&self, claims: &Claims, fingerprint: &Fingerprint) -> bool {
        claims.renew(&self.quarantine);
        claims.holds(fingerprint)
    }

    /// Memory of the directories.
    pub fn directory_bytes(&self) -> usize {
        self.cache.lock().bytes()
    }

    /// Of a session that begins.
    pub fn claims(&self) -> Claims {
        Claims::new(self.claims_bytes_max)
    }

    /// True when the chunk is stored, or is being stored by the session of these claims. When
    /// false, the caller stores it now: nobody else of the session is told so.
    pub fn claim(
        &self,
        claims: &Claims,
        fingerprint: &Fingerprint,
        near: &mut Near,
    ) -> Result<bool> {
        if self.is_claimed(claims, fingerprint) {
            count(&self.counters.recent_hits);
            return Ok(true);
        }
        if self.place(fingerprint, near)?.is_some() {
            return Ok(true);
        }
        // Another lane may have come first since the look above.
        Ok(!claims.add(fingerprint))
    }

    /// The session of these claims has stored these chunks, whoever else has.
    pub fn claim_stored(&self, claims: &Claims, chunks: &[(Fingerprint, u32)]) {
        claims.renew(&self.quarantine);
        for (fingerprint, _) in chunks {
            claims.add(fingerprint);
        }
    }

    /// The same without asking the index: for random writes, whose probes would mostly miss (DDFS,
    /// ATC'18). The collector removes the duplicates that this leaves.
    pub fn claim_near(&self, claims: &Claims, fingerprint: &Fingerprint, near: &mut Near) -> bool {
        if self.is_claimed(claims, fingerprint) {
            count(&self.counters.recent_hits);
            return true;
        }
        if near.find(fingerprint, &self.quarantine).is_some() {
            count(&self.counters.directory_hits);
            return true;
        }
        !claims.add(fingerprint)
    }

    /// The region was found damaged: new data are stored anew instead of being deduplicated
    /// against it. A container that is retired may be gone, which is no damage.
    pub fn set_aside(&self, place: RegionPlace) {
        if !self.quarantine.retired.holds(place.container)
            && self.quarantine.add(place)
            && let Some(noticed) = self.noticed.get()
        {
            noticed(place);
        }
    }

    /// Tells this of every place that is set aside from now on. The first one stays.
    pub fn tell_of_damage(&self, noticed: impl Fn(RegionPlace) + Send + Sync + 'static) {
        let _ = self.noticed.set(Box::new(noticed));
    }

    /// Where the chunk lies, by directories and index, in a region that is not set aside; without
    /// the rescue of [`Self::locate`].
    pub fn place(&self, fingerprint: &Fingerprint, near: &mut Near) -> Result<Option<ChunkPlace>> {
        let near_by = near.find(fingerprint, &self.quarantine);
        if let Some(place) = near_by
            && !self.moved.is_elsewhere(place.region.container, fingerprint)
        {
            count(&self.counters.directory_hits);
            return Ok(Some(place));
        }
        count(&self.counters.index_probes);
        let mut found = None;
        let mut denied = false;
        let mut candidates = Vec::new();
        self.index.lookup(fingerprint, &mut candidates)?;
        moved::forward_first(&mut candidates);
        for candidate in candidates {
            if self.quarantine.retired.holds(candidate.container) {
                continue;
            }
            let directory = match self.directory(candidate.container) {
                Ok(directory) => directory,
                // Gone or damaged: another candidate may still do, check names the damage.
                Err(e) if e.is_corruption() => continue,
                Err(e) => return Err(e),
            };
            match directory.find(fingerprint) {
                Some(place) if self.quarantine.holds(place.region) => {}
                Some(place) => {
                    count(&self.counters.index_hits);
                    near.keep(directory);
                    found = Some(place);
                    break;
                }
                None => {
                    count(&self.counters.false_positives);
                    self.index.note_false_positive();
                    denied = true;
                }
            }
        }
        let found = found.or(near_by);
        if denied && found.is_none() {
            self.colliding.lock().insert(*fingerprint);
        }
        Ok(found)
    }

    /// Where a chunk may lie, by the index alone: what no directory has confirmed, in regions that
    /// are not set aside. For who reads the region and sees for himself.
    pub fn hints(&self, fingerprint: &Fingerprint, hints: &mut Vec<Location>) -> Result<()> {
        count(&self.counters.index_probes);
        self.index.lookup(fingerprint, hints)?;
        let place = |hint: &Location| RegionPlace {
            container: hint.container,
            sector: hint.sector,
        };
        hints.retain(|hint| {
            !self.quarantine.retired.holds(hint.container) && !self.quarantine.holds(place(hint))
        });
        moved::forward_first(hints);
        Ok(())
    }

    /// Region and its stored bytes where the chunk lies by the directories that were used last, else by the index alone:
    /// for who reads the region and sees for himself. Reads no directory.
    pub fn expected(
        &self,
        fingerprint: &Fingerprint,
        near: &mut Near,
    ) -> Result<Option<(RegionPlace, u64)>> {
        if let Some(place) = near.find(fingerprint, &self.quarantine)
            && !self.moved.is_elsewhere(place.region.container, fingerprint)
        {
            return Ok(Some((place.region, place.stored_bytes.into())));
        }
        let mut hints = Vec::new();
        self.hints(fingerprint, &mut hints)?;
        // Of a chunk that was moved the index may still know places that have gone.
        let there = |hint: &&Location| self.containers.is_there(hint.container);
        Ok(hints.iter().find(there).map(|hint| {
            let place = RegionPlace {
                container: hint.container,
                sector: hint.sector,
            };
            let bytes = u64::from(hint.sectors) * u64::from(SECTOR_BYTES);
            (place, bytes)
        }))
    }

    /// A hint of [`Self::hints`] led to a region that does not hold the chunk.
    pub fn deny_hint(&self) {
        count(&self.counters.false_positives);
        self.index.note_false_positive();
    }

    /// Where a chunk lies that must exist. What the index does not know is looked for in all
    /// directories: entered anew first, since one reading of them serves all chunks; then, for a chunk
    /// of which the index lets places go, one after the other. A chunk that is nowhere else is told
    /// in a container that is retired, or in a region that is set aside.
    ///
    /// Containers come and go while this looks: one that was not there when they were listed may have
    /// taken the chunk from one that was gone when its turn came. Then it looks again.
    pub fn locate(&self, fingerprint: &Fingerprint, near: &mut Near) -> Result<Option<ChunkPlace>> {
        loop {
            let gone = self.quarantine.retired.times_gone();
            let found = self.locate_among_these(fingerprint, near)?;
            if found.is_some() || self.quarantine.retired.times_gone() == gone {
                return Ok(found);
            }
        }
    }

    fn locate_among_these(
        &self,
        fingerprint: &Fingerprint,
        near: &mut Near,
    ) -> Result<Option<ChunkPlace>> {
        if let Some(place) = self.place(fingerprint, near)? {
            return Ok(Some(place));
        }
        let (known, is_all) = self.known_places(fingerprint)?;
        if let Some(first) = known.first()
            && (is_all || !self.quarantine.is_damaged(first.region))
        {
            return Ok(Some(*first));
        }
        self.enter_all()?;
        if let Some(place) = self.place(fingerprint, near)? {
            return Ok(Some(place));
        }
        Ok(self.all_places(fingerprint)?.first().copied())
    }

    /// Enters every container that exists into the index, unless nothing happened since the last time
    /// by which the index may have come to miss one. It is not emptied for it: others insert places
    /// in containers that do not exist yet.
    fn enter_all(&self) -> Result<()> {
        let mut rescued = self.rescued.lock();
        let counters = self.index.counters();
        // Of a chunk that moved often the index may know places that are gone, and no other.
        let occasion = (self.quarantine.retired.times_added(), counters.bad_buckets);
        if *rescued != Some(occasion) {
            self.enter_from(&BTreeMap::new())?;
            *rescued = Some(occasion);
        }
        Ok(())
    }

    /// Enters the containers from these numbers on. Damaged ones are left to check.
    pub fn enter_from(&self, from: &BTreeMap<WriterId, u64>) -> Result<()> {
        visit_containers(self.containers.blobs(), from, &mut |id| {
            match self.containers.contents(id) {
                Ok(contents) => self.enter(id, &contents.directory)?,
                Err(e) if e.is_corruption() => {}
                Err(e) => return Err(e),
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Every place that holds the chunk, what is retired and what is damaged last.
    pub fn all_places(&self, fingerprint: &Fingerprint) -> Result<Vec<ChunkPlace>> {
        let (known, is_all) = self.known_places(fingerprint)?;
        match is_all {
            true => Ok(known),
            false => self.search(fingerprint),
        }
    }

    /// The places that index and directories agree about, in the same order, and whether there can
    /// be no other.
    fn known_places(&self, fingerprint: &Fingerprint) -> Result<(Vec<ChunkPlace>, bool)> {
        let mut candidates = Vec::new();
        self.index.lookup(fingerprint, &mut candidates)?;
        let is_all = self.index.knows_all(&candidates);
        let retired = &self.quarantine.retired;
        let directories = candidates
            .iter()
            .filter(|c| !retired.is_gone(c.container))
            .filter_map(|c| self.directory(c.container).ok());
        let mut places: Vec<_> = directories.filter_map(|d| d.find(fingerprint)).collect();
        places.sort_by_key(|place| self.last_resort(place));
        Ok((places, is_all))
    }

    /// The order in which copies are read: damaged ones last, before them those that may go soon.
    fn last_resort(&self, place: &ChunkPlace) -> (bool, bool) {
        let retired = &self.quarantine.retired;
        (
            self.quarantine.is_damaged(place.region),
            retired.holds(place.region.container),
        )
    }

    /// The directory of a container, from memory or read and verified. Who needs one that
    /// somebody reads right now waits for it.
    pub fn directory(&self, id: ContainerId) -> Result<Arc<LoadedDirectory>> {
        let mut cache = self.cache.lock();
        loop {
            if let Some(directory) = cache.get(id) {
                return Ok(directory);
            }
            if cache.loading.insert(id) {
                break;
            }
            self.loaded.wait(&mut cache);
        }
        drop(cache);
        let _loading = Loading { map: self, id };
        count(&self.counters.directory_reads);
        let contents = self.containers.contents(id)?;
        let directory = Arc::new(LoadedDirectory::new(
            id,
            contents.class,
            &contents.directory,
        ));
        self.cache.lock().keep(Arc::clone(&directory));
        Ok(directory)
    }

    /// Enters all chunks of a container into the index.
    pub fn enter(&self, id: ContainerId, directory: &Directory) -> Result<()> {
        for region in &directory.regions {
            let sectors = format::container::region_sectors(region.stored_bytes);
            let location = Location {
                container: id,
                sector: region.sector,
                sectors,
            };
            self.remember(&region.chunks, location)?;
        }
        Ok(())
    }

    /// Tells the index where the chunks of one region lie.
    pub fn remember(&self, chunks: &[(Fingerprint, u32)], location: Location) -> Result<()> {
        for (fingerprint, _) in chunks {
            let colliding = {
                let mut colliding = self.colliding.lock();
                !colliding.is_empty() && colliding.remove(fingerprint)
            };
            match colliding {
                true => self.index.insert_colliding(fingerprint, location)?,
                false => self.index.insert(fingerprint, location)?,
            }
        }
        Ok(())
    }
}

/// A directory is being read; however that ends, those who wait look again.
struct Loading<'a> {
    map: &'a ChunkMap,
    id: ContainerId,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.map.cache.lock().loading.remove(&self.id);
        self.map.loaded.notify_all();
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
