//! Finds the place of a chunk by its fingerprint (DDFS, ATC'18: locality first, index second). The
//! read path, the write path, recovery and check call this.
//!
//! ```text
//! fingerprint -> claims of the session -> near directories -> index -> directory confirms
//!                                         (missed: all directories, see `locate`)
//! ```
//!
//! Invariant: a returned place was confirmed by a container's verified directory. The index is a
//! hint, and [`ChunkMap::hints`] and [`ChunkMap::expected`] return hints too. If the index misses a
//! chunk that must exist, all directories are read: index and directories together are complete. A
//! region in quarantine is never deduplicated against, and readers use it last.

mod claims;
mod directories;
mod directory;
mod keeper;
mod loading;
mod moved;
mod quarantine;
mod retired;
mod search;

pub use claims::Claims;
use directories::Directories;

pub use directory::{ChunkPlace, LoadedDirectory, Near};
pub use keeper::{Indexed, KeptCopy};
pub use loading::DirectoryCopies;
pub use moved::{FORWARD_WRITERS, Moved};
pub use quarantine::Quarantine;
pub use retired::Retired;

use crate::container::{ContainerReader, RegionPlace, visit_containers};
use crate::error::Result;
use crate::index::{FingerprintIndex, Location};
use format::container::{Directory, REGION_STORED_BYTES_MAX, SECTOR_BYTES, sectors_max};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{ContainerId, Fingerprint, WriterId};

/// Maintenance may always use one part in this many of a cache's budget.
pub const PASSING_SHARE: usize = 4;

/// Hasher for fingerprints: they are uniform, so their first bytes are the hash.
#[derive(Default)]
pub struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        // The hasher gets the length prefix and the 32 bytes. Only the bytes count.
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    #[inline]
    fn write_usize(&mut self, _: usize) {}
}

/// A map whose keys need no hashing.
pub type FingerprintMap<V> = HashMap<Fingerprint, V, BuildHasherDefault<FingerprintHasher>>;
/// A set whose keys need no hashing.
pub type FingerprintSet = HashSet<Fingerprint, BuildHasherDefault<FingerprintHasher>>;

/// Counts of lookups and of their costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Answered by the session's claims.
    pub recent_hits: u64,
    /// Answered by a directory in memory.
    pub directory_hits: u64,
    /// Lookups in the fingerprint index.
    pub index_probes: u64,
    /// Index hints that the directory confirmed.
    pub index_hits: u64,
    /// Index hints that the directory denied.
    pub false_positives: u64,
    /// Directories read from the device.
    pub directory_reads: u64,
    /// Directories taken from copies on a faster device.
    pub directory_copies: u64,
    /// Copies of directories that were damaged or out of date.
    pub bad_directory_copies: u64,
}

#[derive(Default)]
struct Counters {
    recent_hits: AtomicU64,
    directory_hits: AtomicU64,
    index_probes: AtomicU64,
    index_hits: AtomicU64,
    false_positives: AtomicU64,
    directory_reads: AtomicU64,
    directory_copies: AtomicU64,
    bad_directory_copies: AtomicU64,
}

/// Finds places of chunks.
pub struct ChunkMap {
    /// Hints of places.
    pub index: FingerprintIndex,
    /// Regions in quarantine, and retired containers.
    pub quarantine: Quarantine,
    /// Chunks that have newer copies.
    pub moved: Moved,
    containers: Arc<ContainerReader>,
    cache: Mutex<Directories>,
    /// Notified after each read of a directory, successful or not.
    loaded: Condvar,
    /// Copies of directories on a faster device.
    copies: OnceLock<Box<dyn DirectoryCopies>>,
    /// Memory budget for the claims of one session, bytes.
    claims_bytes_max: usize,
    /// Chunks whose index candidates were all other chunks: they go to the overflow table.
    colliding: Mutex<FingerprintSet>,
    /// Counts of retirements and of lost index buckets when all directories were last entered
    /// because the index had missed a chunk.
    rescued: Mutex<Option<(u64, u64)>>,
    counters: Counters,
    /// Called for each new place in quarantine.
    noticed: OnceLock<Noticed>,
}

/// Called with a place that was found damaged.
type Noticed = Box<dyn Fn(RegionPlace) + Send + Sync>;

impl ChunkMap {
    /// Creates a map over an open index. Budgets in bytes: for directories in memory, and for the
    /// claims of one session.
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
            copies: OnceLock::new(),
            claims_bytes_max,
            colliding: Mutex::default(),
            rescued: Mutex::default(),
            counters: Counters::default(),
            noticed: OnceLock::new(),
        }
    }

    /// Drops all directories in memory, as if many others had been read.
    #[cfg(feature = "testing")]
    pub fn forget_directories(&self) {
        self.cache.lock().clear();
    }

    /// Returns the counts of lookups.
    pub fn counts(&self) -> LookupCounts {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        LookupCounts {
            recent_hits: read(&self.counters.recent_hits),
            directory_hits: read(&self.counters.directory_hits),
            index_probes: read(&self.counters.index_probes),
            index_hits: read(&self.counters.index_hits),
            false_positives: read(&self.counters.false_positives),
            directory_reads: read(&self.counters.directory_reads),
            directory_copies: read(&self.counters.directory_copies),
            bad_directory_copies: read(&self.counters.bad_directory_copies),
        }
    }

    /// Returns true if the chunk is stored, or is being stored by the session of these claims. Does
    /// not claim it.
    pub fn holds(
        &self,
        claims: &Claims,
        fingerprint: &Fingerprint,
        near: &mut Near,
    ) -> Result<bool> {
        Ok(self.is_claimed(claims, fingerprint) || self.place(fingerprint, near)?.is_some())
    }

    /// Returns true if the session of these claims has stored the chunk or is storing it, and
    /// nothing was put into quarantine or retired since.
    fn is_claimed(&self, claims: &Claims, fingerprint: &Fingerprint) -> bool {
        claims.renew(&self.quarantine);
        claims.holds(fingerprint)
    }

    /// Returns the memory of the directories, bytes.
    pub fn directory_bytes(&self) -> usize {
        self.cache.lock().bytes()
    }

    /// Creates the claims of a new session.
    pub fn claims(&self) -> Claims {
        Claims::new(self.claims_bytes_max)
    }

    /// Returns true if the chunk is stored, or is being stored by the session of these claims. If
    /// it returns false, the caller must store the chunk now: other lanes of the session will get
    /// true.
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
        // Another lane may have claimed it since the lookup above.
        Ok(!claims.add(fingerprint))
    }

    /// Records that the session of these claims has stored these chunks, even if others have too.
    pub fn claim_stored(&self, claims: &Claims, chunks: &[(Fingerprint, u32)]) {
        claims.renew(&self.quarantine);
        for (fingerprint, _) in chunks {
            claims.add(fingerprint);
        }
    }

    /// Like [`Self::claim`], without asking the index: for random writes, whose lookups would
    /// mostly miss (DDFS, ATC'18). Garbage collection removes the duplicates that this causes.
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

    /// Puts a damaged region into quarantine: its chunks will be stored again instead of being
    /// deduplicated against it. Ignores retired containers: they may be deleted, which is no
    /// damage.
    pub fn put_in_quarantine(&self, place: RegionPlace) {
        if !self.quarantine.retired.holds(place.container)
            && self.quarantine.add(place)
            && let Some(noticed) = self.noticed.get()
        {
            noticed(place);
        }
    }

    /// Sets a function that is called for each place put into quarantine from now on. Only the
    /// first call has an effect.
    pub fn tell_of_damage(&self, noticed: impl Fn(RegionPlace) + Send + Sync + 'static) {
        let _ = self.noticed.set(Box::new(noticed));
    }

    /// Returns the place of a chunk by directories and index. Skips quarantine and retired
    /// containers. Does not search all directories as [`Self::locate`] does.
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
                // Missing or damaged. Another candidate may be good; check reports the damage.
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

    /// Returns possible places of a chunk by the index alone: not confirmed by a directory, and
    /// outside of quarantine and retired containers. The caller must read the region and verify.
    pub fn hints(&self, fingerprint: &Fingerprint, hints: &mut Vec<Location>) -> Result<()> {
        count(&self.counters.index_probes);
        self.index.lookup(fingerprint, hints)?;
        self.likeliest_first(hints);
        Ok(())
    }

    /// Returns the place that [`Self::hints`] would return first, if the index has it in memory.
    pub fn hint_in_memory(&self, fingerprint: &Fingerprint) -> Option<Location> {
        let mut hints = Vec::new();
        self.index.lookup_in_memory(fingerprint, &mut hints).ok()?;
        self.likeliest_first(&mut hints);
        hints.first().copied()
    }

    fn likeliest_first(&self, hints: &mut Vec<Location>) {
        hints.retain(|hint| {
            !self.quarantine.retired.holds(hint.container) && !self.quarantine.holds(hint.region())
        });
        moved::forward_first(hints);
    }

    /// Returns the expected region of a chunk and its stored bytes: by the most recently used
    /// directories, or else by the index alone. The caller must read the region and verify. Reads
    /// no directory.
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
        // If the chunk was moved, the index may still have places in deleted containers.
        let there = |hint: &&Location| self.containers.is_there(hint.container);
        Ok(hints.iter().find(there).map(|hint| {
            let bytes = u64::from(hint.sectors) * u64::from(SECTOR_BYTES);
            (hint.region(), bytes)
        }))
    }

    /// Counts a hint of [`Self::hints`] whose region does not have the chunk.
    pub fn deny_hint(&self) {
        count(&self.counters.false_positives);
        self.index.note_false_positive();
    }

    /// Returns the place of a chunk that must exist. If the index does not know it, all directories
    /// are entered into the index first: one reading of them serves all chunks. If that does not
    /// help, because the index may have dropped places, every directory is searched for this chunk.
    /// A chunk that exists only in a retired container or in quarantine is found there.
    ///
    /// Containers are created and deleted meanwhile: the chunk may be copied from a container that
    /// is deleted before its turn into one that was not listed. Then the search is repeated.
    pub fn locate(&self, fingerprint: &Fingerprint, near: &mut Near) -> Result<Option<ChunkPlace>> {
        loop {
            let deleted = self.quarantine.retired.times_deleted();
            let found = self.locate_among_these(fingerprint, near)?;
            if found.is_some() || self.quarantine.retired.times_deleted() == deleted {
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

    /// Enters every existing container into the index, unless nothing happened since the last time
    /// that could make the index miss one. The index is not emptied first: other threads insert
    /// places in containers that do not exist yet.
    fn enter_all(&self) -> Result<()> {
        let mut rescued = self.rescued.lock();
        let counters = self.index.counters();
        // If a chunk was moved often, the index may know only places that are deleted.
        let occasion = (self.quarantine.retired.times_added(), counters.bad_buckets);
        if *rescued != Some(occasion) {
            self.enter_from(&BTreeMap::new())?;
            *rescued = Some(occasion);
        }
        Ok(())
    }

    /// Enters the containers starting at these numbers. Skips damaged ones: check reports them.
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

    /// Returns every place of a chunk. Retired ones come late, damaged ones last.
    pub fn all_places(&self, fingerprint: &Fingerprint) -> Result<Vec<ChunkPlace>> {
        let (known, is_all) = self.known_places(fingerprint)?;
        match is_all {
            true => Ok(known),
            false => self.search(fingerprint),
        }
    }

    /// Returns the places that index and directories agree about, in the order of
    /// [`Self::all_places`], and true if there can be no others.
    fn known_places(&self, fingerprint: &Fingerprint) -> Result<(Vec<ChunkPlace>, bool)> {
        let mut candidates = Vec::new();
        self.index.lookup(fingerprint, &mut candidates)?;
        let is_all = self.index.knows_all(&candidates);
        let retired = &self.quarantine.retired;
        let directories = candidates
            .iter()
            .filter(|c| !retired.is_deleted(c.container))
            .filter_map(|c| self.directory(c.container).ok());
        let mut places: Vec<_> = directories.filter_map(|d| d.find(fingerprint)).collect();
        places.sort_by_key(|place| self.last_resort(place));
        Ok((places, is_all))
    }

    /// Returns a sort key for reading copies: damaged ones last, before them those in retired
    /// containers, which may be deleted soon.
    fn last_resort(&self, place: &ChunkPlace) -> (bool, bool) {
        let retired = &self.quarantine.retired;
        (
            self.quarantine.is_damaged(place.region),
            retired.holds(place.region.container),
        )
    }

    /// Enters all chunks of a container into the index.
    pub fn enter(&self, id: ContainerId, directory: &Directory) -> Result<()> {
        for region in &directory.regions {
            let sectors = sectors_to_read(region.stored_bytes);
            let location = Location {
                container: id,
                sector: region.sector,
                sectors,
            };
            self.remember(&region.chunks, location)?;
        }
        Ok(())
    }

    /// Inserts the chunks of one region into the index.
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

/// Returns how many sectors an index entry names for a region of which only the directory was read:
/// enough wherever in its first sector it begins.
fn sectors_to_read(stored_bytes: u32) -> u32 {
    sectors_max(stored_bytes).min(REGION_STORED_BYTES_MAX / SECTOR_BYTES)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
