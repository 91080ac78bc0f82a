mod attentions;
mod kept;
mod state;

use super::action::{Action, Job, Refusal, Work};
use super::cdb::{Cdb, Command};
use super::opcodes::{OPERATIONS, code};
use super::reservations::Nexus;
use super::sense::Sense;
use super::task_set::Facts;
use super::unit::{Properties, Unit};
use crate::targets::TargetUnit;
use std::sync::Arc;
use units::IoClass;
use volume::{
    Durability, Failure, Faulty, MemoryVolume, Operation, ReadOnly, RequestContext, Volume,
    VolumeErrorKind,
};

const BLOCKS: u64 = 2048;
const PROPERTIES: Properties = Properties {
    block_bytes: 512,
    write_cache: true,
    portal_group: 1,
};

fn unit_of(volume: impl Volume + 'static) -> (Unit, Nexus, Nexus) {
    unit_with(volume, PROPERTIES)
}

fn unit_with(volume: impl Volume + 'static, properties: Properties) -> (Unit, Nexus, Nexus) {
    let unit = new_unit(volume, properties);
    let nexus = |number: u64| Nexus::new(number, "iqn.x:us", [number as u8; 6]);
    let (one, two) = (nexus(1), nexus(2));
    for nexus in [&one, &two] {
        unit.attach(nexus);
        let ready = execute(&unit, nexus, cdb(&[code::TEST_UNIT_READY]), &[]);
        assert_eq!(ready, Err(Sense::POWER_ON.into()));
    }
    (unit, one, two)
}

/// A unit without sessions.
fn new_unit(volume: impl Volume + 'static, properties: Properties) -> Unit {
    let unit = TargetUnit {
        number: 0,
        volume: Arc::new(volume),
        identity: None,
        reservations: None,
    };
    Unit::new("iqn.x:disk", unit, properties)
}

fn unit() -> (Unit, Nexus, Nexus) {
    unit_of(MemoryVolume::new(BLOCKS * 512))
}

fn cdb(bytes: &[u8]) -> Cdb {
    let mut cdb = [0; 16];
    cdb[..bytes.len()].copy_from_slice(bytes);
    Cdb(cdb)
}

/// A command with sixteen bytes: operation, flags, first block, number of blocks, group.
fn sixteen(operation: u8, flags: u8, lba: u64, blocks: u32, group: u8) -> Cdb {
    let mut bytes = vec![operation, flags];
    bytes.extend_from_slice(&lba.to_be_bytes());
    bytes.extend_from_slice(&blocks.to_be_bytes());
    bytes.extend_from_slice(&[group, 0]);
    cdb(&bytes)
}

fn compare_and_write(lba: u64, blocks: u8) -> Cdb {
    let mut bytes = vec![code::COMPARE_AND_WRITE, 0];
    bytes.extend_from_slice(&lba.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, blocks, 0, 0]);
    cdb(&bytes)
}

/// Executes a command, with data if it needs some.
fn execute(unit: &Unit, nexus: &Nexus, cdb: Cdb, data: &[u8]) -> Result<Vec<u8>, Refusal> {
    Ok(match unit.admit(nexus, &cdb, &[0])? {
        Action::Good => Vec::new(),
        Action::Data(data) => data,
        Action::Read(span) => {
            let mut bytes = vec![0; span.len_bytes as usize];
            let read = unit
                .volume()
                .read(span.context, span.offset_bytes, &mut bytes);
            read.map_err(|error| Sense::of(error.kind, false))?;
            bytes
        }
        Action::Job(job) => {
            assert_eq!(job.data_bytes, data.len() as u64, "{job:?}");
            let ticket = nexus.tasks.enter(Facts::default());
            unit.run(nexus, &job, data, Some(&ticket))?.unwrap()
        }
    })
}

#[test]
fn every_listed_operation_decodes_and_no_other() {
    for operation in 0..=u8::MAX {
        for action in 0..32 {
            // MODE SELECT must say that its list has the format of pages.
            let has_format = [code::MODE_SELECT_6, code::MODE_SELECT_10].contains(&operation);
            let second = if has_format { 0x10 } else { action };
            let decoded = Command::decode(&cdb(&[operation, second]));
            let is_unknown = decoded == Err(Sense::INVALID_OPERATION);
            let of_code = || OPERATIONS.iter().filter(|o| o.code == operation);
            assert_eq!(is_unknown, of_code().next().is_none(), "{operation:x}");
            let wants_action = of_code().any(|o| o.action.is_some());
            if wants_action && decoded.is_ok() && operation >= code::SERVICE_IN_16 {
                assert!(
                    of_code().any(|o| o.action == Some(action)),
                    "{operation:x} {action}"
                );
            }
        }
    }
    let in_order = OPERATIONS
        .windows(2)
        .all(|pair| pair[0].code <= pair[1].code);
    assert!(in_order);
}

#[test]
fn group_numbers_become_classes() {
    let (unit, nexus, _) = unit();
    let class = |cdb: Cdb| match unit.admit(&nexus, &cdb, &[0]) {
        Ok(Action::Read(span)) => span.context.class,
        Ok(Action::Job(Job { work, .. })) => match work {
            Work::Write { span, .. }
            | Work::WriteSame { span, .. }
            | Work::Verify { span, .. }
            | Work::CompareAndWrite { span, .. } => span.context.class,
            Work::Unmap { class } | Work::Flush { class } => class,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let ten = |operation| cdb(&[operation, 0, 0, 0, 0, 0, 0xc0 | 21, 0, 1, 0]);
    let twelve = |operation| cdb(&[operation, 0, 0, 0, 0, 0, 0, 0, 0, 1, 21, 0]);
    for operation in [
        code::READ_10,
        code::WRITE_10,
        code::WRITE_VERIFY_10,
        code::VERIFY_10,
    ] {
        assert_eq!(class(ten(operation)), IoClass(21), "{operation:x}");
    }
    for operation in [code::SYNCHRONIZE_10, code::WRITE_SAME_10] {
        assert_eq!(class(ten(operation)), IoClass(21), "{operation:x}");
    }
    for operation in [code::READ_12, code::WRITE_12, code::VERIFY_12] {
        assert_eq!(class(twelve(operation)), IoClass(21), "{operation:x}");
    }
    for operation in [
        code::READ_16,
        code::WRITE_16,
        code::VERIFY_16,
        code::SYNCHRONIZE_16,
    ] {
        assert_eq!(
            class(sixteen(operation, 0, 0, 1, 63)),
            IoClass(63),
            "{operation:x}"
        );
    }
    assert_eq!(
        class(cdb(&[code::UNMAP, 0, 0, 0, 0, 0, 9, 0, 24, 0])),
        IoClass(9)
    );
    assert_eq!(class(cdb(&[code::READ_6, 0, 0, 0, 1, 0])), IoClass(0));
}

#[test]
fn ranges_past_the_end_are_refused() {
    let (unit, nexus, _) = unit();
    let past = Err(Refusal::Sense(Sense::OUT_OF_RANGE));
    let operations = [
        code::READ_16,
        code::WRITE_16,
        code::WRITE_VERIFY_16,
        code::ORWRITE,
        code::VERIFY_16,
        code::SYNCHRONIZE_16,
        code::PREFETCH_16,
        code::WRITE_SAME_16,
    ];
    for operation in operations {
        for (lba, blocks) in [
            (BLOCKS, 1),
            (BLOCKS - 1, 2),
            (u64::MAX, 1),
            (u64::MAX, u32::MAX),
        ] {
            let admitted = unit.admit(&nexus, &sixteen(operation, 0, lba, blocks, 0), &[0]);
            assert_eq!(admitted, past, "{operation:x} {lba}");
        }
    }
    assert_eq!(
        unit.admit(&nexus, &compare_and_write(BLOCKS, 1), &[0]),
        past
    );
    let mut list = vec![0; 24];
    list[3] = 16;
    list[8..16].copy_from_slice(&(BLOCKS - 1).to_be_bytes());
    list[16..20].copy_from_slice(&2_u32.to_be_bytes());
    let unmap = cdb(&[code::UNMAP, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
    assert_eq!(
        execute(&unit, &nexus, unmap, &list),
        past.map(|_| Vec::new())
    );
}

#[test]
fn comparisons_write_only_what_they_found() {
    let (unit, nexus, _) = unit();
    let zeroes_then = |byte: u8| [[0; 512], [byte; 512]].concat();
    let command = compare_and_write(5, 1);
    assert_eq!(
        execute(&unit, &nexus, command, &zeroes_then(7)),
        Ok(Vec::new())
    );
    let again = execute(&unit, &nexus, command, &zeroes_then(8));
    assert_eq!(again, Err(Sense::miscompare(0).into()));
    let read = execute(&unit, &nexus, sixteen(code::READ_16, 0, 5, 1, 0), &[]);
    assert_eq!(read, Ok(vec![7; 512]));
    // ORWRITE adds bits.
    let or = sixteen(code::ORWRITE, 0, 5, 1, 0);
    execute(&unit, &nexus, or, &[8; 512]).unwrap();
    let mut expected = vec![15; 512];
    let verify = sixteen(code::VERIFY_16, 0x02, 5, 1, 0);
    assert_eq!(execute(&unit, &nexus, verify, &expected), Ok(Vec::new()));
    expected[100] = 0;
    let differs = execute(&unit, &nexus, verify, &expected);
    assert_eq!(differs, Err(Sense::miscompare(100).into()));
    let all_alike = sixteen(code::VERIFY_16, 0x06, 4, 2, 0);
    let differs = execute(&unit, &nexus, all_alike, &[0; 512]);
    assert_eq!(differs, Err(Sense::miscompare(0).into()));
}

#[test]
fn unmapped_blocks_read_as_zeroes_and_are_shown() {
    let (unit, nexus, _) = unit();
    let pattern = [3; 512];
    let same = |flags| sixteen(code::WRITE_SAME_16, flags, 0, 64, 0);
    execute(&unit, &nexus, same(0), &pattern).unwrap();
    let read = || execute(&unit, &nexus, sixteen(code::READ_16, 0, 63, 1, 0), &[]);
    assert_eq!(read(), Ok(vec![3; 512]));
    // UNMAP with another pattern than zeroes still writes it; NDOB means zeroes.
    execute(&unit, &nexus, same(0x08), &pattern).unwrap();
    assert_eq!(read(), Ok(vec![3; 512]));
    let mut list = vec![0; 24];
    list[3] = 16;
    list[15] = 8;
    list[19] = 16;
    let unmap = cdb(&[code::UNMAP, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
    execute(&unit, &nexus, unmap, &list).unwrap();
    let mut status = sixteen(code::SERVICE_IN_16, 0x12, 0, 4096, 0);
    status.0[14] = 0;
    let status = execute(&unit, &nexus, status, &[]).unwrap();
    let runs: Vec<(u64, u32, u8)> = status[8..]
        .chunks(16)
        .map(|d| {
            let lba = u64::from_be_bytes(d[..8].try_into().unwrap());
            let blocks = u32::from_be_bytes(d[8..12].try_into().unwrap());
            (lba, blocks, d[12])
        })
        .collect();
    let rest = BLOCKS as u32 - 64;
    assert_eq!(runs, [(0, 8, 0), (8, 16, 1), (24, 40, 0), (64, rest, 1)]);
    execute(&unit, &nexus, same(0x09), &[]).unwrap();
    assert_eq!(read(), Ok(vec![0; 512]));
}

#[test]
fn reservations_exclude_others_and_survive_their_session() {
    let (unit, one, two) = unit();
    let out =
        |action: u8, kind: u8| cdb(&[code::PERSISTENT_OUT, action, kind, 0, 0, 0, 0, 0, 24, 0]);
    let keys = |current: u64, service: u64| {
        let mut list = [current.to_be_bytes(), service.to_be_bytes()].concat();
        list.resize(24, 0);
        list
    };
    let conflict = Err(Refusal::Conflict);
    let write =
        |nexus: &Nexus| execute(&unit, nexus, sixteen(code::WRITE_16, 0, 0, 1, 0), &[1; 512]);
    let read = |nexus: &Nexus| execute(&unit, nexus, sixteen(code::READ_16, 0, 0, 1, 0), &[]);
    assert_eq!(
        execute(&unit, &one, out(1, 1), &keys(5, 0)),
        conflict,
        "not registered"
    );
    execute(&unit, &one, out(0, 0), &keys(0, 5)).unwrap();
    execute(&unit, &one, out(1, 1), &keys(5, 0)).unwrap();
    assert_eq!(write(&two), conflict);
    assert!(read(&two).is_ok(), "write exclusive");
    // The first session ends and the same port comes back.
    unit.detach(&one);
    assert!(unit.remember().is_some());
    let again = Nexus::new(3, "iqn.x:us", [1; 6]);
    unit.attach(&again);
    assert!(write(&again).is_ok());
    // The second takes over, and the first learns of it.
    execute(&unit, &two, out(6, 0), &keys(0, 6)).unwrap();
    execute(&unit, &two, out(4, 3), &keys(6, 5)).unwrap();
    let preempted = Err(Sense::REGISTRATIONS_PREEMPTED.into());
    assert_eq!(write(&again), preempted);
    assert_eq!(write(&again), conflict);
    assert_eq!(read(&again), conflict, "exclusive access");
    assert!(write(&two).is_ok());
    execute(&unit, &two, out(3, 0), &keys(6, 0)).unwrap();
    assert!(write(&again).is_ok());
    assert_eq!(
        execute(&unit, &two, out(0, 0), &[0; 8][..].repeat(3)),
        Ok(Vec::new())
    );
}

#[test]
fn modes_change_what_may_change() {
    let (unit, one, two) = unit();
    let select = cdb(&[code::MODE_SELECT_6, 0x10, 0, 0, 16, 0]);
    let mut control = vec![
        0, 0, 0, 0, 0x0a, 10, 0x02, 0x10, 0x08, 0x40, 0, 0, 0, 0, 0, 0,
    ];
    execute(&unit, &one, select, &control).unwrap();
    let write = |nexus| execute(&unit, nexus, sixteen(code::WRITE_16, 0, 0, 1, 0), &[1; 512]);
    assert_eq!(write(&one), Err(Sense::SOFTWARE_WRITE_PROTECTED.into()));
    assert_eq!(write(&two), Err(Sense::MODE_CHANGED.into()));
    assert_eq!(write(&two), Err(Sense::SOFTWARE_WRITE_PROTECTED.into()));
    control[7] = 0;
    let refused = execute(&unit, &one, select, &control);
    assert_eq!(refused, Err(Sense::INVALID_FIELD_IN_LIST.into()));
    unit.reset();
    assert_eq!(write(&one), Err(Sense::RESET.into()));
    assert!(write(&one).is_ok());
    // IO advice hints grouping: one descriptor for each of 64 groups.
    let sense = cdb(&[
        code::MODE_SENSE_10,
        0x08,
        0x0a,
        0x05,
        0,
        0,
        0,
        0xff,
        0xff,
        0,
    ]);
    let hints = execute(&unit, &one, sense, &[]).unwrap();
    assert_eq!(hints.len(), 8 + 16 + 64 * 16);
    assert_eq!(hints[8..12], [0x4a, 0x05, 0x04, 0x0c]);
}

#[test]
fn without_a_write_cache_every_write_is_durable() {
    let (unit, nexus, _) = unit();
    let select = cdb(&[code::MODE_SELECT_6, 0x10, 0, 0, 24, 0]);
    let mut caching = vec![0, 0, 0, 0, 0x08, 0x12];
    caching.resize(24, 0);
    let fua = |flags| match unit.admit(&nexus, &sixteen(code::WRITE_16, flags, 0, 1, 0), &[0]) {
        Ok(Action::Job(Job {
            work: Work::Write { fua, .. },
            ..
        })) => fua,
        other => panic!("{other:?}"),
    };
    assert_eq!((fua(0), fua(0x08)), (false, true));
    execute(&unit, &nexus, select, &caching).unwrap();
    assert!(fua(0));
}

#[test]
fn a_server_without_a_write_cache_starts_and_resets_without_one() {
    let properties = Properties {
        write_cache: false,
        ..PROPERTIES
    };
    let failures = vec![Failure::always(Operation::Flush, VolumeErrorKind::Io)];
    let faulty = Faulty::new(MemoryVolume::new(BLOCKS * 512), failures);
    let (unit, nexus, other) = unit_with(faulty, properties);
    let is_durable = || match unit.admit(&nexus, &sixteen(code::WRITE_16, 0, 0, 1, 0), &[0]) {
        Ok(Action::Job(Job {
            work: Work::Write { fua, .. },
            ..
        })) => fua,
        other => panic!("{other:?}"),
    };
    // WCE of the caching page: the present value, the one that can change, the default.
    let write_cache = |control: u8| {
        let sense = cdb(&[code::MODE_SENSE_6, 0x08, control << 6 | 0x08, 0, 0xff, 0]);
        execute(&unit, &nexus, sense, &[]).unwrap()[6] & 4 != 0
    };
    let free = || {
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
        let unmap = cdb(&[code::UNMAP, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
        execute(&unit, &nexus, unmap, &list)
    };
    assert!(is_durable());
    assert_eq!([0, 1, 2].map(write_cache), [false, true, false]);
    // Freed blocks must stay freed: that flush fails here.
    let failed = Sense::of(VolumeErrorKind::Io, true);
    assert_eq!(free(), Err(failed.into()));
    let mut caching = vec![0, 0, 0, 0, 0x08, 0x12, 4];
    caching.resize(24, 0);
    let select = cdb(&[code::MODE_SELECT_6, 0x10, 0, 0, 24, 0]);
    execute(&unit, &nexus, select, &caching).unwrap();
    assert!(!is_durable() && free().is_ok());
    assert_eq!([0, 1, 2].map(write_cache), [true, true, false]);
    unit.reset();
    let reported = execute(&unit, &nexus, cdb(&[0]), &[]);
    assert_eq!(reported, Err(Sense::RESET.into()));
    assert!(is_durable());
    assert_eq!(
        execute(&unit, &other, cdb(&[0]), &[]),
        Err(Sense::MODE_CHANGED.into())
    );
}

#[test]
fn errors_of_the_volume_become_sense() {
    let kinds = [
        (VolumeErrorKind::Io, Sense::of(VolumeErrorKind::Io, true)),
        (
            VolumeErrorKind::NoSpace,
            Sense::of(VolumeErrorKind::NoSpace, true),
        ),
        (
            VolumeErrorKind::Failed,
            Sense::of(VolumeErrorKind::Failed, true),
        ),
    ];
    for (kind, sense) in kinds {
        let failures = vec![Failure::always(Operation::Write, kind)];
        let faulty = Faulty::new(MemoryVolume::new(BLOCKS * 512), failures);
        let (unit, nexus, _) = unit_of(faulty);
        let write = execute(
            &unit,
            &nexus,
            sixteen(code::WRITE_16, 0, 0, 1, 0),
            &[1; 512],
        );
        assert_eq!(write, Err(sense.into()), "{kind:?}");
    }
    let deleted = vec![Failure::always(Operation::Read, VolumeErrorKind::Deleted)];
    let (unit, nexus, _) = unit_of(Faulty::new(MemoryVolume::new(BLOCKS * 512), deleted));
    let read = execute(&unit, &nexus, sixteen(code::READ_16, 0, 0, 1, 0), &[]);
    assert_eq!(read, Err(Sense::NO_SUCH_UNIT.into()));
    let (unit, nexus, _) = unit_of(ReadOnly::new(MemoryVolume::new(BLOCKS * 512)));
    for operation in [code::WRITE_16, code::WRITE_SAME_16, code::ORWRITE] {
        let refused = unit.admit(&nexus, &sixteen(operation, 0, 0, 1, 0), &[0]);
        assert_eq!(refused, Err(Sense::WRITE_PROTECTED.into()));
    }
}

#[test]
fn a_new_size_is_announced_to_everyone_once() {
    let memory = MemoryVolume::new(BLOCKS * 512);
    let (unit, one, two) = unit_of(memory.clone());
    memory.resize(BLOCKS * 1024);
    for nexus in [&one, &two] {
        let changed = execute(&unit, nexus, cdb(&[0]), &[]);
        assert_eq!(changed, Err(Sense::CAPACITY_CHANGED.into()));
        assert!(execute(&unit, nexus, cdb(&[0]), &[]).is_ok());
    }
    let last = sixteen(code::READ_16, 0, BLOCKS * 2 - 1, 1, 0);
    let context = RequestContext::default();
    memory
        .write(
            context,
            BLOCKS * 1024 - 512,
            &[9; 512],
            Durability::Volatile,
        )
        .unwrap();
    assert_eq!(execute(&unit, &one, last, &[]), Ok(vec![9; 512]));
}
