//! Changes since a state: the conformance suite, and states of every kind compared with their
//! bytes.

use crate::small_volumes;

use format::snapshot::SnapshotKind;
use small_volumes::{CONTEXT, made, open, read, write};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use store::ImageVolume;
use testkit::specimen::{noise, options, put_image, snapshot};
use volume::{Checked, Volume};
use volumes::States;

/// Returns the ranges that are reported as changed. Checks that reports cover everything without
/// gaps.
fn changed(volume: &dyn Volume, since: &str) -> Option<Vec<Range<u64>>> {
    let checked = Checked::new(volume);
    let changes = volume.capabilities().changes_since(since)?;
    let (mut ranges, mut at) = (Vec::new(), 0);
    let size = volume.size_bytes();
    let reported = checked.changes(&*changes, CONTEXT, 0, size, &mut |change| {
        assert_eq!(change.offset_bytes, at);
        at += change.len_bytes;
        if change.changed {
            ranges.push(change.offset_bytes..at);
        }
        ControlFlow::Continue(())
    });
    reported.expect("changes");
    assert_eq!(at, size);
    Some(ranges)
}

fn reported(ranges: &[&Range<u64>]) -> Option<Vec<Range<u64>>> {
    Some(ranges.iter().copied().cloned().collect())
}

#[test]
fn a_volume_tells_its_changes_as_the_waist_says() {
    for log2 in [12, 16] {
        let disk = made();
        let volumes = open(&disk, 2);
        let volume = volumes.create("v", 2 << 20, log2).expect("create");
        let count = std::cell::Cell::new(0);
        testkit::conformance::volume::changes_suite(&volume, &|label| {
            volumes.snapshot("v", label).expect("snapshot");
            // Some changes are applied, some are in a running checkpoint, most are neither.
            count.set(count.get() + 1);
            if count.get() % 3 == 0 {
                volumes.step(64 << 10).expect("step");
            }
        });
    }
}

#[test]
fn states_of_volumes_images_and_clones() {
    const CHUNK: u64 = 4096;
    let disk = made();
    let volumes = open(&disk, 2);
    let pool = Arc::clone(volumes.pool());
    let bytes = noise(1, 100 * CHUNK as usize + 17);
    let mut session = pool
        .begin(options(chunking::Compression::Lz4))
        .expect("session");
    let root = put_image(&mut session, &bytes);
    let image = snapshot(&pool, SnapshotKind::Image, "disk", root);
    pool.commit(session, std::slice::from_ref(&image), &[])
        .expect("commit");
    let digits = image.id.to_string()[..8].to_owned();
    let volume = volumes.clone_snapshot("vm", &image).expect("clone");
    let grain = 1 << volume.info().block_bytes_preferred.ilog2();
    let whole = |range: Range<u64>| range.start / grain * grain..range.end.next_multiple_of(grain);
    // Since the image from which it was created.
    let origin = format!("disk@{digits}");
    assert_eq!(changed(&volume, &origin), reported(&[]));
    assert_eq!(volume.capabilities().baselines(9), Vec::<String>::new());
    write(&volume, 5 * CHUNK + 3, b"new");
    let bytes = 5 * CHUNK + 3..5 * CHUNK + 6;
    assert_eq!(changed(&volume, &origin), reported(&[&bytes]));
    let first = volumes.snapshot("vm", "first").expect("snapshot");
    let one = whole(bytes);
    assert_eq!(changed(&volume, &origin), reported(&[&one]));
    assert_eq!(changed(&volume, "first"), reported(&[]));
    assert_eq!(changed(&volume, "vm@first"), reported(&[]));
    // Longer, shorter, and back.
    let before = volume.size_bytes();
    volumes.resize("vm", before + 50).expect("resize");
    let longer = changed(&volume, "first").expect("state");
    assert!(longer.last().is_some_and(|last| last.end == before + 50));
    assert!(longer.iter().map(|r| r.end - r.start).sum::<u64>() <= 50 + grain);
    volumes.rollback("vm", &first).expect("rollback");
    assert_eq!(changed(&volume, "first"), reported(&[]));
    volumes.resize("vm", 7 * CHUNK).expect("resize");
    let shorter = changed(&volume, "first").expect("state");
    assert!(shorter.iter().map(|r| r.end - r.start).sum::<u64>() <= grain);
    // A read-only snapshot, compared with another one of the volume.
    volumes.rollback("vm", &first).expect("rollback");
    write(&volume, 80 * CHUNK, &noise(9, 2 * CHUNK as usize));
    let second = volumes.snapshot("vm", "second").expect("snapshot");
    assert_eq!(volume.capabilities().baselines(9), ["second", "first"]);
    assert_eq!(volume.capabilities().baselines(1), ["second"]);
    let history = Arc::new(States::beside(Arc::clone(&pool), &second));
    let served = ImageVolume::new(Arc::clone(pool.reader()), second.root, String::new());
    let served = served.comparable_with(history);
    let view = volumes.view_state(&second, String::new(), Arc::default());
    let two = whole(80 * CHUNK..82 * CHUNK);
    for served in [&served as &dyn Volume, &view] {
        assert_eq!(changed(served, "first"), reported(&[&two]));
        assert_eq!(changed(served, &origin), reported(&[&one, &two]));
        assert_eq!(served.capabilities().baselines(9), ["second", "first"]);
    }
    // Names belong to the pool: a forgotten snapshot disappears, except for those that still hold
    // it.
    let kept = volume.capabilities().changes_since("first").expect("state");
    pool.change_snapshots(&[], std::slice::from_ref(&first))
        .expect("forget");
    assert!(changed(&volume, "first").is_none());
    assert_eq!(volume.capabilities().baselines(9), ["second"]);
    let mut bytes = 0;
    let size = volume.size_bytes();
    let checked = Checked::new(&volume);
    checked
        .changes(&*kept, CONTEXT, 0, size, &mut |change| {
            bytes += u64::from(change.changed) * change.len_bytes;
            ControlFlow::Continue(())
        })
        .expect("changes");
    assert!(
        (2 * CHUNK..=2 * CHUNK + 2 * grain).contains(&bytes),
        "{bytes}"
    );
    // Volumes with other chunk sizes cannot be compared.
    let other = volumes.create("other", 1 << 20, 16).expect("create");
    assert!(changed(&other, "vm@second").is_none());
    assert!(read(&volume)[80 * CHUNK as usize..][..8] == noise(9, 8)[..]);
}
