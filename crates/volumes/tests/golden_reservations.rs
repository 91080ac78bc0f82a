//! The golden pool with persistent reservations of volumes in its catalog.
//! `lab/testkit/tests/golden/README.md` says how golden pools are made and kept.

use crate::golden_volumes::manifest::{keep, planted};
use crate::small_volumes::small;
use format::reservations::{RegistrationRecord, ReservationRecord, ReservationsRecord};
use sim::pool_histories::init_options;
use sim::{Image, SimDisk};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use store::{OpenMode, Pool};
use testkit::specimen::media;
use volumes::{Volumes, kept_reservations};

const NAME: &str = "v5-reservations";

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(NAME)
}

fn open(disk: &Arc<SimDisk>, seed: u64) -> Volumes {
    let pool = testkit::specimen::open(disk, seed, None, OpenMode::Write).expect("open");
    Volumes::open(Arc::new(pool), &small()).expect("volumes")
}

fn seen(volumes: &Volumes) -> String {
    let mut text = String::new();
    for status in volumes.list() {
        let record = status.record;
        let kept = kept_reservations(volumes.pool(), record.id).expect("readable");
        let _ = writeln!(text, "{}: {kept:?}", record.name);
    }
    text
}

#[test]
fn v5_reservations() {
    let expected = std::fs::read_to_string(golden().with_extension("manifest")).expect("manifest");
    let disk = planted(&golden()).0;
    for seed in 21..23 {
        let volumes = open(&disk, seed);
        assert_eq!(seen(&volumes), expected);
        assert!(volumes.pool().has_reservations());
    }
    // A volume leaves nothing behind.
    let volumes = open(&disk, 23);
    let web = volumes.volume("web").expect("a volume").id();
    volumes.delete("web").expect("delete");
    let left = kept_reservations(volumes.pool(), web).expect("readable");
    assert_eq!(left, None);
}

/// Creates the pool if it is missing.
#[test]
#[ignore = "run once for a new version of the format"]
fn make_golden_reservations() {
    if golden().exists() {
        return;
    }
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&media(&disk, 2300), &init_options(&[])).expect("init");
    let volumes = open(&disk, 2301);
    let registration = |n: u8| RegistrationRecord {
        initiator: format!("iqn.2026-11.org.example:{n}"),
        isid: [0x80, 0, 0, 0, 0, n],
        key: u64::from(n) << 40 | 7,
    };
    for (name, ports, held) in [
        ("db", 1, None),
        ("none", 0, None),
        ("web", 3, Some(ReservationRecord { kind: 5, holder: 2 })),
    ] {
        let volume = volumes.create(name, 1 << 20, 12).expect("create");
        let record = ReservationsRecord {
            registrations: (0..ports).map(registration).collect(),
            held,
        };
        let record = Some(&record).filter(|_| ports > 0);
        let kept = volumes.keep_reservations(volume.id(), record);
        kept.expect("keep");
    }
    keep(&golden(), &disk.image(), &seen(&volumes));
}
