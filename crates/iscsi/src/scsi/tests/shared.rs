//! Tests the state of a unit that its sessions share: reservations of all registrants.

use super::{cdb, execute, sixteen, unit};
use crate::scsi::action::Refusal;
use crate::scsi::cdb::Cdb;
use crate::scsi::opcodes::code;
use crate::scsi::reservations::Nexus;
use crate::scsi::unit::Unit;

fn persistent_out(action: u8, kind: u8) -> Cdb {
    cdb(&[code::PERSISTENT_OUT, action, kind, 0, 0, 0, 0, 0, 24, 0])
}

fn keys(current: u64, service: u64) -> Vec<u8> {
    let mut list = [current.to_be_bytes(), service.to_be_bytes()].concat();
    list.resize(24, 0);
    list
}

fn write(unit: &Unit, nexus: &Nexus) -> Result<Vec<u8>, Refusal> {
    let write = || execute(unit, nexus, sixteen(code::WRITE_16, 0, 0, 1, 0), &[1; 512]);
    // The first may report a unit attention.
    write().or_else(|_| write())
}

#[test]
fn who_reserved_for_all_registrants_and_is_registered_no_more_is_shut_out() {
    // The action that ends the registration, and whether the registered port itself does it.
    let ways = [(4, false), (5, false), (0, true)];
    let of_type = |kind| ways.map(|(action, is_own)| (kind, action, is_own));
    for (kind, action, is_own) in [of_type(7), of_type(8)].concat() {
        let (unit, one, two) = unit();
        execute(&unit, &one, persistent_out(0, 0), &keys(0, 1)).unwrap();
        execute(&unit, &two, persistent_out(0, 0), &keys(0, 2)).unwrap();
        execute(&unit, &one, persistent_out(1, kind), &keys(1, 0)).unwrap();
        assert!(write(&unit, &one).is_ok() && write(&unit, &two).is_ok());
        match is_own {
            true => execute(&unit, &one, persistent_out(action, 0), &keys(1, 0)),
            false => execute(&unit, &two, persistent_out(action, kind), &keys(2, 1)),
        }
        .unwrap();
        let name = format!("type {kind}, action {action}");
        assert_eq!(write(&unit, &one), Err(Refusal::Conflict), "{name}");
        assert!(write(&unit, &two).is_ok(), "{name}");
        let release = execute(&unit, &one, persistent_out(2, kind), &keys(0, 0));
        assert_eq!(release, Err(Refusal::Conflict), "{name}");
        assert_eq!(write(&unit, &one), Err(Refusal::Conflict), "{name}");
    }
}
