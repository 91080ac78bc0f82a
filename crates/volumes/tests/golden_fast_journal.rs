//! The golden pool whose journal is on a fast device: writes that only the journal there has.
//! `lab/testkit/tests/golden/README.md` says how golden pools are made and kept.

use crate::golden_volumes::manifest::{keep, planted};
use crate::small_volumes::{CONTEXT, read, small, write};
use format::journal_place::JournalPlace;
use sim::pool_histories::init_options;
use sim::{Image, SimDisk, Subdirectory};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use store::{OpenMode, Pool, StoreErrorKind};
use testkit::specimen::{media, noise};
use volume::Volume;
use volumes::{JournalPlacement, Volumes};

const NAME: &str = "v4-fast-journal";
/// Directory of the device, beside the pool's files.
const FAST: &str = "fast";

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(NAME)
}

fn open(disk: &Arc<SimDisk>, seed: u64, placement: &JournalPlacement) -> store::Result<Volumes> {
    let pool = testkit::specimen::open(disk, seed, None, OpenMode::Write)?;
    Volumes::open_placed(&Arc::new(pool), &small(), placement)
}

fn device(disk: &Arc<SimDisk>) -> JournalPlacement {
    JournalPlacement {
        fast: Some(Arc::new(Subdirectory::new(Arc::clone(disk) as _, FAST))),
        ..JournalPlacement::default()
    }
}

fn seen(volumes: &Volumes) -> String {
    let mut text = String::new();
    for status in volumes.list() {
        let name = &status.record.name;
        let bytes = read(&volumes.volume(name).expect("a volume"));
        let _ = writeln!(text, "{name}: {}", blake3::hash(&bytes));
    }
    text
}

#[test]
fn v4_fast_journal() {
    let expected = std::fs::read_to_string(golden().with_extension("manifest")).expect("manifest");
    let disk = planted(&golden()).0;
    let refused = open(&disk, 21, &JournalPlacement::default()).err();
    assert_eq!(refused.map(|e| e.kind), Some(StoreErrorKind::Invalid));
    for seed in 22..24 {
        let volumes = open(&disk, seed, &device(&disk)).expect("volumes");
        assert_eq!(seen(&volumes), expected);
        assert_eq!(volumes.damage(), []);
        volumes.checkpoint().expect("checkpoint");
        // The second round reads the same from containers.
    }
}

/// Creates the pool if it is missing.
#[test]
#[ignore = "run once for a new version of the format"]
fn make_golden_fast_journal() {
    if golden().exists() {
        return;
    }
    let disk = SimDisk::unrecorded(Image::new());
    Pool::init(&media(&disk, 2200), &init_options(&[])).expect("init");
    media::Disk::make_dir(&*disk, FAST).expect("device");
    let wanted = JournalPlacement {
        wanted: Some(JournalPlace::Fast),
        ..device(&disk)
    };
    let volumes = open(&disk, 2201, &wanted).expect("volumes");
    let web = volumes.create("web", 1 << 20, 12).expect("create");
    write(&web, 5000, &noise(1, 30_000));
    volumes.checkpoint().expect("checkpoint");
    // From here on only the journal has it.
    write(&web, 700_000, &noise(3, 10_000));
    web.discard(CONTEXT, 8192, 8192).expect("discard");
    web.flush(CONTEXT).expect("flush");
    keep(&golden(), &disk.image(), &seen(&volumes));
}
