//! Damage hints: places that a process found damaged, left for the next writer. A reader cannot
//! commit them, and a writer may end before it does. The chunk map calls this when a place is put
//! into quarantine, and so does the pool.
//!
//! ```text
//! damage found -> hint file -> next writer reads the place -> damaged: quarantine, commit
//!                                                            sound: hint dropped
//! ```
//!
//! Invariant: a writer trusts a hint only after it has read the place itself. A lost, stale or
//! forged hint costs at most the reads of [`PLACES_MAX`] places, never data. Readers use hinted
//! places last, without reading them first. A writer reads each place before it deduplicates
//! anything, and commits the damaged ones. A container that parity restores has a special hint: a
//! writer stores it again, and readers do not avoid it.

use super::records::RecordSlots;
use chunk_store::container::RegionPlace;
use format::damage_hints::{
    DAMAGE_HINTS_BYTES_MAX, DamageHintsRecord, PLACES_MAX, RESTORABLE_SECTOR,
};
use media::Disk;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use units::{ContainerId, PoolId};

const SLOTS: RecordSlots =
    RecordSlots::new(["cache/damage.0", "cache/damage.1"], DAMAGE_HINTS_BYTES_MAX);
/// Up to this number, each new place is written at once. Beyond it, the places are written whenever
/// their number is a power of two.
const AT_ONCE: usize = 8;

/// The places that wait for a writer.
pub struct DamageHints {
    disk: Arc<dyn Disk>,
    pool: PoolId,
    state: Mutex<HintSet>,
}

#[derive(Default)]
struct HintSet {
    /// Places that this process found or was hinted at; no commit is known to have them.
    places: BTreeSet<RegionPlace>,
    /// Some places are not written yet.
    is_dirty: bool,
    /// Cause of the last failed write.
    failure: Option<String>,
}

impl DamageHints {
    /// Opens the hints that earlier processes left.
    pub(super) fn open(disk: &Arc<dyn Disk>, pool: PoolId) -> Arc<Self> {
        let hints = Self {
            disk: Arc::clone(disk),
            pool,
            state: Mutex::default(),
        };
        let record = hints.newest();
        hints.state.lock().places = places_of(&record).collect();
        Arc::new(hints)
    }

    /// Adds a damaged place.
    pub(crate) fn note(&self, place: RegionPlace) {
        let mut state = self.state.lock();
        if state.places.len() >= PLACES_MAX {
            state.places = as_containers(&state.places);
            if state.places.len() >= PLACES_MAX {
                return;
            }
        }
        if state.places.contains(&RegionPlace::whole(place.container))
            || !state.places.insert(place)
        {
            return;
        }
        state.is_dirty = true;
        let count = state.places.len();
        if count <= AT_ONCE || count.is_power_of_two() {
            self.write(&mut state, &BTreeSet::new());
        }
    }

    /// Writes the places that are not written yet. Returns the cause if that failed: no other
    /// process will know of the damage.
    pub fn flush(&self) -> Option<String> {
        let mut state = self.state.lock();
        if state.is_dirty {
            self.write(&mut state, &BTreeSet::new());
        }
        state.failure.clone()
    }

    /// Returns the places that other processes have added since the last look.
    pub(super) fn news(&self) -> BTreeSet<RegionPlace> {
        let newest = self.newest();
        let mut state = self.state.lock();
        let is_news = |place: &RegionPlace| state.places.insert(*place);
        places_of(&newest).filter(is_news).collect()
    }

    /// Returns the places that wait.
    pub(super) fn places(&self) -> BTreeSet<RegionPlace> {
        self.state.lock().places.clone()
    }

    /// Returns the containers that are known to be damaged and that parity restores.
    pub(super) fn restorable(&self) -> BTreeSet<ContainerId> {
        let state = self.state.lock();
        let places = state.places.iter().filter(|place| is_restorable(place));
        places.map(|place| place.container).collect()
    }

    /// Removes places that wait no longer: a commit has them, or they are sound. Returns false if
    /// none of them waited.
    pub(super) fn settle(&self, settled: &BTreeSet<RegionPlace>) -> bool {
        let mut state = self.state.lock();
        let before = state.places.len();
        state.places.retain(|place| !settled.contains(place));
        let is_less = state.places.len() != before;
        if is_less {
            self.write(&mut state, settled);
        }
        is_less
    }

    /// Writes the places together with those that others wrote meanwhile, without the `settled`
    /// ones.
    fn write(&self, state: &mut HintSet, settled: &BTreeSet<RegionPlace>) {
        let newest = self.newest();
        let mut all: BTreeSet<_> = places_of(&newest)
            .filter(|p| !settled.contains(p))
            .collect();
        all.extend(&state.places);
        if all.len() > PLACES_MAX {
            all = as_containers(&all);
        }
        let record = DamageHintsRecord {
            sequence: newest.sequence.wrapping_add(1),
            places: all.iter().map(|p| (p.container, p.sector)).collect(),
        };
        let written = SLOTS.write(&*self.disk, record.sequence, &record.encode(self.pool));
        state.is_dirty = written.is_err();
        state.failure = written.err().map(|e| e.to_string());
    }

    fn newest(&self) -> DamageHintsRecord {
        let decode = |bytes: &[u8]| {
            let record = DamageHintsRecord::decode(bytes, self.pool).ok()?;
            Some((record.sequence, record))
        };
        SLOTS.newest(&*self.disk, decode).unwrap_or_default()
    }
}

impl Drop for DamageHints {
    fn drop(&mut self) {
        // A caller that needs the result has called `flush` before.
        let _ = self.flush();
    }
}

/// Replaces places by whole containers, which are fewer on a dying disk.
fn as_containers(places: &BTreeSet<RegionPlace>) -> BTreeSet<RegionPlace> {
    let whole = |place: &RegionPlace| match is_restorable(place) {
        true => *place,
        false => RegionPlace::whole(place.container),
    };
    places.iter().map(whole).collect()
}

/// Returns the hint of a damaged container that parity restores.
pub(super) fn restorable(container: ContainerId) -> RegionPlace {
    RegionPlace {
        container,
        sector: RESTORABLE_SECTOR,
    }
}

pub(super) fn is_restorable(place: &RegionPlace) -> bool {
    place.sector == RESTORABLE_SECTOR
}

fn places_of(record: &DamageHintsRecord) -> impl Iterator<Item = RegionPlace> {
    record.places.iter().map(|(container, sector)| RegionPlace {
        container: *container,
        sector: *sector,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Damage, SimDisk};
    use units::{ContainerId, WriterId};

    fn at(sequence: u64, sector: u32) -> RegionPlace {
        RegionPlace {
            container: ContainerId::new(WriterId(1), sequence),
            sector,
        }
    }

    fn open(disk: &Arc<dyn Disk>) -> Arc<DamageHints> {
        DamageHints::open(disk, PoolId([1; 16]))
    }

    #[test]
    fn hints_outlive_their_process_until_they_are_settled() {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = sim.clone();
        let first = open(&disk);
        first.note(at(1, 5));
        // Another process, beside the first.
        let second = open(&disk);
        assert_eq!(second.places(), [at(1, 5)].into());
        second.note(at(2, 6));
        first.note(at(3, 7));
        assert_eq!(first.flush(), None);
        drop((first, second));
        let writer = open(&disk);
        assert_eq!(writer.places(), [at(1, 5), at(2, 6), at(3, 7)].into());
        assert!(writer.news().is_empty());
        // A place that is found meanwhile stays.
        open(&disk).note(at(4, 8));
        writer.settle(&[at(1, 5), at(2, 6), at(3, 7)].into());
        assert_eq!(open(&disk).places(), [at(4, 8)].into());
        // Hints that are torn or of another pool are ignored.
        assert!(
            DamageHints::open(&disk, PoolId([2; 16]))
                .places()
                .is_empty()
        );
        for name in ["cache/damage.0", "cache/damage.1"] {
            sim.damage(name, &Damage::SetLen(30)).unwrap();
        }
        assert!(open(&disk).places().is_empty());
    }

    #[test]
    fn a_dying_disk_fills_no_record() {
        let disk: Arc<dyn Disk> = SimDisk::new();
        let hints = open(&disk);
        for sector in 1..=3000 {
            hints.note(at(u64::from(sector) / 1000, sector));
        }
        drop(hints);
        let found = open(&disk).places();
        assert!(found.len() <= PLACES_MAX, "{}", found.len());
        for sequence in 0..=3 {
            assert!(
                found
                    .iter()
                    .any(|p| p.container == at(sequence, 0).container)
            );
        }
    }
}
