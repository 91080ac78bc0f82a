//! Tests reservations that survive a restart.

use super::state::keys;
use super::*;
use crate::targets::ReservationKeeper;
use format::reservations::ReservationsRecord;
use parking_lot::Mutex;
use volume::VolumeErrorKind;

/// A place for a record, as a pool is one.
#[derive(Default)]
struct Place {
    record: Mutex<Option<ReservationsRecord>>,
    is_damaged: Mutex<bool>,
    /// The next records cannot be stored.
    is_full: Mutex<bool>,
}

impl ReservationKeeper for Place {
    fn kept(&self) -> Result<Option<ReservationsRecord>, VolumeErrorKind> {
        match *self.is_damaged.lock() {
            true => Err(VolumeErrorKind::Io),
            false => Ok(self.record.lock().clone()),
        }
    }

    fn keep(&self, record: Option<&ReservationsRecord>) -> Result<(), VolumeErrorKind> {
        if *self.is_full.lock() {
            return Err(VolumeErrorKind::NoSpace);
        }
        *self.record.lock() = record.cloned();
        *self.is_damaged.lock() = false;
        Ok(())
    }
}

/// Two ports, of a server that was started again.
fn started(place: &Arc<Place>) -> (Unit, Nexus, Nexus) {
    let unit = TargetUnit {
        number: 0,
        volume: Arc::new(MemoryVolume::new(BLOCKS * 512)),
        identity: None,
        reservations: Some(place.clone()),
    };
    let unit = Unit::new("iqn.x:disk", unit, PROPERTIES);
    unit.restore(place.kept());
    let nexus = |number: u64| Nexus::new(number, "iqn.x:us", [number as u8; 6]);
    let (one, two) = (nexus(1), nexus(2));
    for nexus in [&one, &two] {
        unit.attach(nexus);
        let ready = execute(&unit, nexus, cdb(&[code::TEST_UNIT_READY]), &[]);
        assert_eq!(ready, Err(Sense::POWER_ON.into()));
    }
    (unit, one, two)
}

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const IGNORING: u8 = 6;

/// PERSISTENT RESERVE OUT; the type of a reservation is 5: registrants may write.
fn out(
    unit: &Unit,
    nexus: &Nexus,
    action: u8,
    (current, service): (u64, u64),
    persists: bool,
) -> Result<Vec<u8>, Refusal> {
    let mut list = keys(current, service);
    list[20] = u8::from(persists);
    let command = cdb(&[code::PERSISTENT_OUT, action, 5, 0, 0, 0, 0, 0, 24]);
    execute(unit, nexus, command, &list)
}

fn report(unit: &Unit, nexus: &Nexus, action: u8) -> Result<Vec<u8>, Refusal> {
    let command = cdb(&[code::PERSISTENT_IN, action, 0, 0, 0, 0, 0, 1, 0]);
    execute(unit, nexus, command, &[])
}

/// Registered keys.
fn registered(unit: &Unit, nexus: &Nexus) -> Vec<u64> {
    let data = report(unit, nexus, 0).unwrap();
    let keys = data[8..].chunks(8);
    keys.map(|key| u64::from_be_bytes(key.try_into().unwrap()))
        .collect()
}

fn write(unit: &Unit, nexus: &Nexus) -> Result<Vec<u8>, Refusal> {
    execute(unit, nexus, sixteen(code::WRITE_16, 0, 0, 1, 0), &[7; 512])
}

fn read(unit: &Unit, nexus: &Nexus) -> Result<Vec<u8>, Refusal> {
    execute(unit, nexus, sixteen(code::READ_16, 0, 0, 1, 0), &[])
}

const CONFLICT: Result<Vec<u8>, Refusal> = Err(Refusal::Conflict);

#[test]
fn registrations_and_the_reservation_survive_a_restart_if_that_was_asked_for() {
    let place = Arc::new(Place::default());
    let (unit, one, two) = started(&place);
    assert_eq!(report(&unit, &one, 2).unwrap()[2..4], [0x01, 0x80]);
    out(&unit, &one, REGISTER, (0, 7), true).unwrap();
    out(&unit, &one, RESERVE, (7, 0), false).unwrap();
    assert_eq!(report(&unit, &one, 2).unwrap()[2..4], [0x01, 0x81]);
    assert_eq!(write(&unit, &two), CONFLICT);
    let (unit, one, two) = started(&place);
    assert_eq!(registered(&unit, &two), [7]);
    assert_eq!(report(&unit, &one, 2).unwrap()[2..4], [0x01, 0x81]);
    assert_eq!(
        (write(&unit, &two), write(&unit, &one)),
        (CONFLICT, Ok(Vec::new()))
    );
    // Whatever changes it then is kept too: another registration, and who is preempted.
    out(&unit, &two, REGISTER, (0, 9), true).unwrap();
    let (unit, _, two) = started(&place);
    assert_eq!(registered(&unit, &two), [7, 9]);
    out(&unit, &two, PREEMPT, (9, 7), false).unwrap();
    let (unit, one, two) = started(&place);
    assert_eq!(
        (write(&unit, &one), write(&unit, &two)),
        (CONFLICT, Ok(Vec::new()))
    );
    out(&unit, &two, RELEASE, (9, 0), false).unwrap();
    let (unit, one, two) = started(&place);
    assert_eq!(write(&unit, &one), Ok(Vec::new()));
    assert_eq!(registered(&unit, &two), [9]);
    // The last registration decides: without APTPL nothing survives.
    out(&unit, &two, IGNORING, (0, 10), false).unwrap();
    assert_eq!(*place.record.lock(), None);
    let (unit, one, _) = started(&place);
    assert!(registered(&unit, &one).is_empty());
    out(&unit, &one, REGISTER, (0, 7), true).unwrap();
    out(&unit, &one, CLEAR, (7, 0), false).unwrap();
    assert_eq!(*place.record.lock(), None);
}

#[test]
fn all_types_of_reservations_come_back() {
    for kind in [1, 3, 5, 6, 7, 8] {
        let place = Arc::new(Place::default());
        let (unit, one, two) = started(&place);
        out(&unit, &one, REGISTER, (0, 7), true).unwrap();
        out(&unit, &two, REGISTER, (0, 9), true).unwrap();
        let reserve = cdb(&[code::PERSISTENT_OUT, RESERVE, kind, 0, 0, 0, 0, 0, 24]);
        execute(&unit, &two, reserve, &keys(9, 0)).unwrap();
        let before = report(&unit, &one, 1).unwrap();
        let (unit, one, _) = started(&place);
        let after = report(&unit, &one, 1).unwrap();
        // All but the generation.
        assert_eq!(before[4..], after[4..], "{kind}");
    }
}

#[test]
fn a_change_that_cannot_be_kept_is_not_made() {
    let place = Arc::new(Place::default());
    let (unit, one, two) = started(&place);
    out(&unit, &one, REGISTER, (0, 7), true).unwrap();
    *place.is_full.lock() = true;
    let refused = out(&unit, &one, RESERVE, (7, 0), false);
    assert_eq!(
        refused,
        Err(Sense::of(VolumeErrorKind::NoSpace, true).into())
    );
    let refused = out(&unit, &two, REGISTER, (0, 9), true);
    assert!(matches!(refused, Err(Refusal::Sense(_))));
    assert_eq!(
        (registered(&unit, &one), write(&unit, &two)),
        (vec![7], Ok(Vec::new()))
    );
    *place.is_full.lock() = false;
    out(&unit, &one, RESERVE, (7, 0), false).unwrap();
    assert_eq!(write(&unit, &two), CONFLICT);
}

#[test]
fn of_unknown_reservations_nothing_is_allowed_until_they_are_cleared() {
    let place = Arc::new(Place::default());
    *place.is_damaged.lock() = true;
    let (unit, one, two) = started(&place);
    assert_eq!(
        (write(&unit, &one), read(&unit, &two)),
        (CONFLICT, CONFLICT)
    );
    let unreadable = Err(Sense::READ_ERROR.into());
    assert_eq!(report(&unit, &one, 0), unreadable);
    assert_eq!(execute(&unit, &one, cdb(&[code::RESERVE_6]), &[]), CONFLICT);
    assert_eq!(out(&unit, &one, REGISTER, (0, 7), true), CONFLICT);
    out(&unit, &one, REGISTER, (0, 7), false).unwrap();
    assert_eq!(out(&unit, &one, RESERVE, (7, 0), false), CONFLICT);
    assert_eq!(write(&unit, &one), CONFLICT);
    // Still unknown after a restart.
    let (unit, one, two) = started(&place);
    assert_eq!(write(&unit, &one), CONFLICT);
    assert_eq!(out(&unit, &two, CLEAR, (7, 0), false), CONFLICT);
    out(&unit, &two, IGNORING, (0, 9), false).unwrap();
    out(&unit, &two, CLEAR, (9, 0), false).unwrap();
    assert_eq!(
        (write(&unit, &one), read(&unit, &two).is_ok()),
        (Ok(Vec::new()), true)
    );
    assert!(registered(&unit, &one).is_empty());
    let (unit, one, _) = started(&place);
    assert_eq!(write(&unit, &one), Ok(Vec::new()));
}

#[test]
fn a_unit_that_cannot_keep_them_says_so() {
    let (unit, one, _) = super::unit();
    assert_eq!(report(&unit, &one, 2).unwrap()[2..4], [0x00, 0x80]);
    let refused = out(&unit, &one, REGISTER, (0, 7), true);
    assert_eq!(refused, Err(Sense::INVALID_FIELD_IN_LIST.into()));
    out(&unit, &one, REGISTER, (0, 7), false).unwrap();
}
