//! Tests the state of a unit that its sessions share: reservations of all registrants, and the
//! write cache.

use super::{
    BLOCKS, PROPERTIES, cdb, compare_and_write, execute, sixteen, unit, unit_of, unit_with,
};
use crate::scsi::action::Refusal;
use crate::scsi::cdb::Cdb;
use crate::scsi::opcodes::code;
use crate::scsi::reservations::Nexus;
use crate::scsi::sense::Sense;
use crate::scsi::unit::{Properties, Unit};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use volume::{MemoryVolume, Operation, Slow};

fn persistent_out(action: u8, kind: u8) -> Cdb {
    cdb(&[code::PERSISTENT_OUT, action, kind, 0, 0, 0, 0, 0, 24, 0])
}

pub(super) fn keys(current: u64, service: u64) -> Vec<u8> {
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
fn holders_for_all_registrants_are_shut_out_once_unregistered() {
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

/// MODE SELECT (6) with the caching page.
fn switch_cache(unit: &Unit, nexus: &Nexus, is_on: bool) -> Result<Vec<u8>, Refusal> {
    let mut list = vec![0; 24];
    list[4..6].copy_from_slice(&[0x08, 18]);
    list[6] = u8::from(is_on) << 2;
    let select = cdb(&[code::MODE_SELECT_6, 0x10, 0, 0, 24, 0]);
    execute(unit, nexus, select, &list)
}

/// A list that MODE SENSE returned is accepted; one that would change anything fixed is not.
#[test]
fn mode_select_refuses_what_it_would_not_apply() {
    let (unit, one, _) = unit();
    // Short and long header, without and with a descriptor, of eight or sixteen bytes.
    let sensed = |long: bool, flags: u8| {
        let sense = match long {
            false => cdb(&[code::MODE_SENSE_6, flags, 0x08, 0, 0xff, 0]),
            true => cdb(&[code::MODE_SENSE_10, flags, 0x08, 0, 0, 0, 0, 0, 0xff, 0]),
        };
        let mut list = execute(&unit, &one, sense, &[]).unwrap();
        // Reserved in MODE SELECT: the length of the data.
        list[..if long { 2 } else { 1 }].fill(0);
        list
    };
    let select = |long: bool, list: &[u8]| {
        let len = list.len() as u8;
        let select = match long {
            false => cdb(&[code::MODE_SELECT_6, 0x10, 0, 0, len, 0]),
            true => cdb(&[code::MODE_SELECT_10, 0x10, 0, 0, 0, 0, 0, 0, len, 0]),
        };
        execute(&unit, &one, select, list)
    };
    let wrong = Err(Sense::INVALID_FIELD_IN_LIST.into());
    for (long, flags, header, descriptor) in [
        (false, 0x08, 4, 0),
        (false, 0x00, 4, 8),
        (true, 0x08, 8, 0),
        (true, 0x00, 8, 8),
        (true, 0x10, 8, 16),
    ] {
        let list = sensed(long, flags);
        assert_eq!(list.len(), header + descriptor + 20);
        assert_eq!(select(long, &list), Ok(Vec::new()), "{long} {flags:x}");
        for at in header..header + descriptor {
            let mut changed = list.clone();
            changed[at] ^= 1;
            assert_eq!(select(long, &changed), wrong, "{long} {flags:x} {at}");
        }
        // Zero blocks: the number that there is.
        let mut zero = list.clone();
        let count = if descriptor == 16 { 8 } else { descriptor / 2 };
        zero[header..header + count].fill(0);
        assert_eq!(select(long, &zero), Ok(Vec::new()));
        // Medium types, and descriptors of no known length, or two.
        let mut typed = list.clone();
        typed[header / 4] = 1;
        assert_eq!(select(long, &typed), wrong, "{long} {flags:x} medium type");
        for len in [4, 12, 24, 2 * descriptor] {
            let mut other = vec![0; header + len];
            other[header - 1] = len as u8;
            other.extend_from_slice(&list[header + descriptor..]);
            let expected = if len == 0 {
                Ok(Vec::new())
            } else {
                wrong.clone()
            };
            assert_eq!(select(long, &other), expected, "{long} {flags:x} {len}");
        }
    }
}

#[test]
fn switching_the_write_cache_off_makes_its_writes_durable() {
    for write_cache in [true, false] {
        let flushes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&flushes);
        let volume = Slow::new(MemoryVolume::new(BLOCKS * 512), move |request| {
            counted.fetch_add(u64::from(request.operation == Operation::Flush), SeqCst);
        });
        let properties = Properties {
            write_cache,
            ..PROPERTIES
        };
        let (unit, one, _) = unit_with(volume, properties);
        switch_cache(&unit, &one, true).unwrap();
        write(&unit, &one).unwrap();
        assert_eq!(flushes.load(SeqCst), 0);
        switch_cache(&unit, &one, false).unwrap();
        assert_eq!(flushes.load(SeqCst), 1, "MODE SELECT");
        switch_cache(&unit, &one, false).unwrap();
        switch_cache(&unit, &one, true).unwrap();
        assert_eq!(flushes.load(SeqCst), 1, "nothing was switched off");
        // A reset brings back the default.
        unit.reset_and_settle().unwrap();
        let expected = if write_cache { 1 } else { 2 };
        assert_eq!(flushes.load(SeqCst), expected, "reset");
    }
}

/// A pattern of the largest size is written in pieces. Between them others compare and write: a
/// cluster's lock does not wait for all of it.
#[test]
fn a_long_pattern_keeps_no_other_command_waiting() {
    let gate = Arc::new((Mutex::new((false, false)), Condvar::new()));
    let of_volume = Arc::clone(&gate);
    // Holds the second piece of the pattern.
    let slow = Slow::new(MemoryVolume::new(BLOCKS * 512), move |request| {
        if request.operation == Operation::Write && request.offset_bytes == 256 << 10 {
            let (state, changed) = &*of_volume;
            let mut state = state.lock();
            state.0 = true;
            changed.notify_all();
            changed.wait_while(&mut state, |(_, is_open)| !*is_open);
        }
    });
    let (unit, one, two) = unit_of(slow);
    let (state, changed) = &*gate;
    let same = sixteen(code::WRITE_SAME_16, 0, 0, 1024, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| execute(&unit, &one, cdb(&same.0), &[7; 512]));
        changed.wait_while(&mut state.lock(), |(is_waiting, _)| !*is_waiting);
        let pair = [[7; 512], [8; 512]].concat();
        assert_eq!(
            execute(&unit, &two, compare_and_write(0, 1), &pair),
            Ok(Vec::new())
        );
        let write = sixteen(code::WRITE_16, 0, 2000, 1, 0);
        assert_eq!(execute(&unit, &two, write, &[9; 512]), Ok(Vec::new()));
        state.lock().1 = true;
        changed.notify_all();
        assert_eq!(writer.join().unwrap(), Ok(Vec::new()));
    });
    let read = |lba| execute(&unit, &one, sixteen(code::READ_16, 0, lba, 1, 0), &[]).unwrap();
    assert_eq!((read(0)[0], read(1)[0], read(1023)[0]), (8, 7, 7));
}
