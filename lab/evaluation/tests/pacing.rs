//! The product's scheduler in front of modelled disks, and the day of a scaled flash device.

use evaluation::ddfs::load::Outcome;
use evaluation::ddfs::traffic::{by_owner, drive_writes};
use evaluation::disk::{DiskModel, Ns, SECOND};
use evaluation::rooms::array::ArrayModel;
use evaluation::rooms::pacing::Pacing;
use evaluation::rooms::recorder::{Charge, DeviceName, FileUse};
use evaluation::rooms::ssd::SsdModel;
use evaluation::rooms::world::{Owner, OwnerKind, Traffic, World};
use qos::{DeviceKind, Flow, Plan};
use std::collections::BTreeMap;

const DISKS: u64 = 16;

fn world(in_flight_max: Option<u16>) -> World {
    let array = ArrayModel {
        disks: DISKS,
        copies: 1,
        stripe_bytes: 256 << 10,
        disk: DiskModel {
            capacity: 1 << 30,
            ..DiskModel::SERVER
        },
    };
    let mut world = World::new(array, SsdModel::OF_2008);
    if in_flight_max != Some(0) {
        // The guess of the kind is not for arrays of disks.
        let plan = Plan {
            device: in_flight_max.map(|_| DeviceKind::Disk),
            in_flight_max,
            ..Plan::default()
        };
        world.pace(Pacing::new(plan).expect("a plan"));
    }
    world
}

fn read(address: u64, bytes: u64) -> Charge {
    Charge {
        device: DeviceName::Pool,
        of: FileUse::Container,
        address,
        bytes,
        is_write: false,
    }
}

/// Random reads and streams of a mebibyte, each with so many clients that always have a request.
/// Returns the requests of both in four seconds.
fn compete(world: &mut World, randoms: u64, streams: u64) -> (u64, u64) {
    let mut seed = sim::Seed::new(3);
    let mut begin = |world: &mut World, client| {
        let at = seed.below((DISKS << 30) - (2 << 20)) & !4095;
        let (flow, bytes) = match client < randoms {
            true => (Flow::ForegroundNonSequential, 8 << 10),
            false => (Flow::Restore, 1 << 20),
        };
        world.begin_as(Owner::Client(client), flow, vec![read(at, bytes)], 0);
    };
    (0..randoms + streams).for_each(|client| begin(world, client));
    let mut ended = (0, 0);
    while world.now() < 4 * SECOND {
        let chain = world.next_ended().expect("a request");
        let Owner::Client(client) = chain.owner else {
            panic!("{chain:?}");
        };
        match client < randoms {
            true => ended.0 += 1,
            false => ended.1 += 1,
        }
        begin(world, client);
    }
    ended
}

#[test]
fn no_more_requests_are_at_the_disks_than_the_plan_allows() {
    let rate = |in_flight| compete(&mut world(in_flight), 128, 0).0;
    let (one, four) = (rate(Some(2)), rate(Some(8)));
    // The product's number for devices that are no single disk.
    let (ships, all) = (rate(None), rate(Some(0)));
    assert!(four > one * 3, "{one}, {four}");
    assert!(ships > four && all > ships, "{four}, {ships}, {all}");
    // Delays at the edge begin at 20 ms.
    let many = rate(Some(256));
    assert!(many > ships && many * 100 > all * 85, "{many}, {all}");
}

#[test]
fn random_reads_take_their_share_from_streams_and_no_more() {
    let (_, alone) = compete(&mut world(Some(32)), 0, 96);
    let (randoms, beside) = compete(&mut world(Some(32)), 512, 96);
    let (free, unpaced) = compete(&mut world(Some(0)), 512, 96);
    assert!(beside * 100 > alone * 60, "{alone}, {beside}");
    assert!(unpaced * 100 < beside * 90, "{unpaced}, {beside}");
    assert!(randoms > 0 && free > randoms, "{randoms}, {free}");
}

#[test]
fn owners_make_up_all_traffic() {
    let mut world = world(Some(0));
    world.take_traffic();
    for (nth, owner) in [Owner::Client(7), Owner::Background(0), Owner::Client(8)]
        .into_iter()
        .enumerate()
    {
        world.begin(owner, vec![read((nth as u64) << 20, 4096)], 0);
    }
    while world.next_ended().is_some() {}
    let by_owner = world.traffic_by_owner().clone();
    let key = (DeviceName::Pool, FileUse::Container, false);
    let of = |owner| by_owner.get(&(owner, key)).map(|t: &Traffic| t.requests);
    assert_eq!(of(OwnerKind::Clients), Some(2));
    assert_eq!(of(OwnerKind::Background(0)), Some(1));
    let all = world.take_traffic().remove(&key).expect("traffic");
    assert_eq!((all.requests, all.bytes), (3, 3 * 4096));
    assert!(world.traffic_by_owner().is_empty());
}

fn outcome(time: Ns) -> Outcome {
    let traffic = |bytes| Traffic { requests: 1, bytes };
    let key = |of| (DeviceName::Fast, of, true);
    let all = BTreeMap::from([
        (key(FileUse::Tier), traffic(2 << 30)),
        (key(FileUse::Journal), traffic(5 << 30)),
    ]);
    let tier = (
        (OwnerKind::Background(2), key(FileUse::Tier)),
        traffic(2 << 30),
    );
    Outcome {
        requests: 100,
        time,
        traffic: all,
        by_owner: BTreeMap::from([tier]),
        ..Outcome::default()
    }
}

#[test]
fn a_day_is_shorter_by_the_factor_by_which_bytes_are_fewer() {
    // A gibibyte of flash, written twice in 86.4 seconds: a day of a device 1000 times as large.
    let outcome = outcome(86 * SECOND + SECOND * 2 / 5);
    let times = |of| drive_writes(&outcome, of, 1 << 30, 1000);
    assert!((times(FileUse::Tier) - 2.0).abs() < 1e-9);
    assert!((times(FileUse::Journal) - 5.0).abs() < 1e-9);
    assert!(times(FileUse::Index) == 0.0);
    let table = by_owner(&[("a load", &outcome)]);
    assert!(
        table.contains("| a load | the tier | flash | tier |  |  | 10.00 | 2097152 |"),
        "{table}"
    );
}
