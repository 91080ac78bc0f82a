//! Power losses while persistent reservations of a volume are kept, changed and removed.
//!
//! Invariant: after a crash there are those of the last acknowledged change, or of the one that was
//! being made. A pool that has some says so in its features. A volume that was deleted leaves none.

use format::reservations::{RegistrationRecord, ReservationRecord, ReservationsRecord};
use media::Barrier;
use sim::volume_histories::{init, open_placed};
use sim::{CrashPoint, Seed, SimDisk, Walker};
use std::sync::Arc;
use store::StoreError;
use units::VolumeId;
use volumes::{JournalPlacement, Volumes, kept_reservations};

const SEED: u64 = 7;

/// Ports with these keys; the first holds the reservation.
fn record(keys: &[u64]) -> Option<ReservationsRecord> {
    let registration = |key: &u64| RegistrationRecord {
        initiator: format!("iqn.x:{key}"),
        isid: [1; 6],
        key: *key,
    };
    Some(ReservationsRecord {
        registrations: keys.iter().map(registration).collect(),
        held: Some(ReservationRecord { kind: 5, holder: 0 }),
    })
}

fn open(disk: &Arc<SimDisk>, salt: u64) -> Result<Volumes, StoreError> {
    open_placed(disk, SEED, salt, &JournalPlacement::default())
}

fn kept(volumes: &Volumes, id: VolumeId) -> Result<Option<ReservationsRecord>, StoreError> {
    kept_reservations(volumes.pool(), id)
}

/// Changes reservations, and looks at every crash on the way. Returns their number.
fn through_crashes(without: Option<Barrier>) -> Result<usize, String> {
    let disk = SimDisk::new();
    init(&disk, SEED).expect("init");
    let volumes = open(&disk, 2).expect("open");
    let id = volumes.create("web", 1 << 20, 12).expect("create").id();
    if let Some(barrier) = without {
        let _ = Arc::clone(&disk).without(barrier);
    }
    let from = disk.position();
    // Each state, and the position from which on it or a later one is there.
    let mut states = vec![(from, None)];
    for next in [
        record(&[7]),
        record(&[7, 9]),
        record(&[9]),
        None,
        record(&[3]),
    ] {
        volumes.keep_reservations(id, next.as_ref()).expect("keep");
        assert_eq!(kept(&volumes, id).expect("readable"), next);
        let written = disk.position();
        volumes.keep_reservations(id, next.as_ref()).expect("keep");
        assert_eq!(disk.position(), written, "the same costs nothing");
        states.push((written, next));
        if states.len() == 3 {
            volumes.rename("web", "other").expect("rename");
        }
    }
    volumes.delete("other").expect("delete");
    states.push((disk.position(), None));
    volumes
        .keep_reservations(id, record(&[5]).as_ref())
        .expect_err("of a deleted volume");
    drop(volumes);
    let mut seed = Seed::new(5);
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    let mut count = 0;
    for position in from..=recording.log.len() {
        walker.advance(position);
        let known = states.iter().rposition(|(at, _)| *at <= position);
        let known = known.expect("the first");
        let allowed = [known, (known + 1).min(states.len() - 1)];
        let point = CrashPoint::new(&walker);
        for plan in point.plans(12, &mut seed) {
            count += 1;
            let failed = |what: &str| format!("{what} after {position}, {plan:?}");
            let disk = SimDisk::unrecorded(point.state(plan));
            let volumes = open(&disk, 4).map_err(|e| failed(&e.to_string()))?;
            let found = kept(&volumes, id).map_err(|e| failed(&e.to_string()))?;
            if !allowed.iter().any(|n| states[*n].1 == found) {
                return Err(failed(&format!("{found:?}, not as state {known}")));
            }
            if found.is_some() && !volumes.pool().has_reservations() {
                return Err(failed("reservations without the feature"));
            }
        }
    }
    Ok(count)
}

#[test]
fn kept_reservations_survive_and_miss_their_barriers() {
    let count = through_crashes(None).expect("whole");
    assert!(count > 100, "{count}");
    for barrier in [Barrier::RootBeforeAck, Barrier::ConfigBeforeAck] {
        let missed = through_crashes(Some(barrier));
        missed.expect_err(&format!("{barrier:?}, which nothing misses"));
    }
}
