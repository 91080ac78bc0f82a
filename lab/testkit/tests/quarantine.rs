//! Quarantine of damaged regions: nothing is deduplicated against them, reads use them last, and a
//! wrong record is taken back.
//!
//! The damage matrix repairs every kind of damage. These tests show the single steps.

use crate::damage::places;
use crate::damage::rotten;

use chunking::Compression;
use places::Part;
use rotten::Rotten;
use sim::Damage;
use std::ops::ControlFlow;
use store::{CheckDepth, CheckReport, OpenMode, Pool, Repair};
use testkit::specimen::{Specimen, options, put_image};

const WITH: Compression = Compression::Zstd(1);

impl Rotten {
    fn is_whole(&self, pool: &Pool) -> bool {
        let lost = |t: &testkit::specimen::restore::Truth| t.restore(pool).unwrap();
        self.of.truths.iter().all(|t| lost(t).is_empty())
    }

    fn back_up(&self, pool: &Pool) -> u64 {
        let mut session = pool.begin(options(WITH)).unwrap();
        let root = put_image(&mut session, &self.image());
        assert_eq!(root, self.of.truths[0].snapshot.root);
        let new = session.counts().chunks_new;
        pool.commit(session, &[], &[]).unwrap();
        new
    }
}

fn check(pool: &Pool, depth: CheckDepth) -> CheckReport {
    pool.check(depth, &mut |_, _| ControlFlow::Continue(()))
        .unwrap()
}

fn repair(pool: &Pool) -> Repair {
    pool.repair(CheckDepth::ALL, options(WITH), &mut |_, _| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

#[test]
fn a_new_backup_makes_old_snapshots_whole() {
    let rotten = Rotten::new(Part::RegionPayload);
    let reader = rotten.open(OpenMode::Read);
    let found = check(&reader, CheckDepth::ALL);
    assert_eq!(found.bad.len(), 1);
    assert!(!found.affected.is_empty());
    assert!(!rotten.is_whole(&reader));
    // A reader cannot commit it, but the next process knows it.
    let next = check(&rotten.open(OpenMode::Read), CheckDepth::Structure);
    assert_eq!(next.affected, found.affected);

    let repaired = repair(&rotten.open(OpenMode::Write));
    assert_eq!((repaired.quarantined, repaired.taken_back), (1, 0));
    assert_eq!(repaired.remaining.affected, found.affected);
    // From now on every process knows it without reading data.
    let pool = rotten.open(OpenMode::Write);
    assert_eq!(
        Vec::from_iter(found.bad.clone()),
        pool.health().quarantined()
    );
    let report = check(&pool, CheckDepth::Structure);
    assert_eq!(report.affected, found.affected);
    assert_eq!(report.bad.len(), 0, "it is no news");
    let root = &rotten.of.truths[0].snapshot.root;
    assert!(!pool.reader().is_believed_whole(root));

    let new = rotten.back_up(&pool);
    assert!(new > 0 && new < 12, "{new} chunks of the lost region");
    assert!(pool.reader().is_believed_whole(root));
    assert_eq!(rotten.back_up(&pool), 0, "stored once more and no more");
    drop(pool);
    for lose_index in [false, true] {
        if lose_index {
            media::Disk::remove(&*rotten.disk, "cache/fpi").unwrap();
        }
        let pool = rotten.open(OpenMode::Read);
        assert!(
            check(&pool, CheckDepth::ALL).is_sound(),
            "index lost: {lose_index}"
        );
        assert!(rotten.is_whole(&pool));
        let pool = rotten.open(OpenMode::Write);
        assert_eq!(rotten.back_up(&pool), 0);
        assert!(pool.space().unwrap().garbage_bytes > 0);
    }
}

#[test]
fn every_writer_notes_the_damage_that_it_met() {
    let rotten = Rotten::new(Part::RegionPayload);
    let pool = rotten.open(OpenMode::Write);
    assert_eq!(rotten.back_up(&pool), 0, "nobody has looked");
    let root = rotten.of.truths[0].snapshot.root;
    assert!(pool.reader().read_whole(&root, 1 << 30).is_err());
    assert!(rotten.back_up(&pool) > 0, "also what the index knows");
    drop(pool);
    let pool = rotten.open(OpenMode::Read);
    assert_eq!(pool.health().quarantined().len(), 1);
    assert!(check(&pool, CheckDepth::ALL).is_sound());
    assert!(rotten.is_whole(&pool));
}

#[test]
fn what_this_process_stored_is_not_believed_either() {
    let of = Specimen::new(3, false);
    let disk = of.disk();
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    let bytes = testkit::specimen::noise(77, 60_000);
    let before = disk.image().files();
    let truth = testkit::specimen::store_image(&pool, "new", &bytes, WITH);
    let files = disk.image().files_below("containers");
    let (file, len) = files
        .iter()
        .filter(|f| !before.contains(f))
        .max_by_key(|(_, len)| *len)
        .unwrap();
    disk.damage(file, &Damage::FlipBit(8 * (len / 2))).unwrap();
    assert!(!check(&pool, CheckDepth::ALL).is_sound());
    testkit::specimen::store_image(&pool, "again", &bytes, WITH);
    assert!(truth.restore(&pool).unwrap().is_empty());
    let pool = of.open(&disk, 2, OpenMode::Read).unwrap();
    assert!(check(&pool, CheckDepth::ALL).is_sound());
    assert!(truth.restore(&pool).unwrap().is_empty());
}

#[test]
fn a_note_that_proves_wrong_is_taken_back() {
    let rotten = Rotten::new(Part::RegionPayload);
    assert_eq!(repair(&rotten.open(OpenMode::Write)).quarantined, 1);
    // The device returns the right bytes again.
    rotten.flip();
    let pool = rotten.open(OpenMode::Read);
    assert!(rotten.is_whole(&pool), "read as a last resort");
    let report = check(&pool, CheckDepth::Structure);
    assert!(report.is_sound() && report.verified.len() == 1);
    assert!(
        report
            .notes
            .iter()
            .any(|n| n.contains("in quarantine and sound"))
    );
    assert_eq!(
        pool.health().quarantined().len(),
        1,
        "check changes nothing"
    );
    let repaired = repair(&rotten.open(OpenMode::Write));
    assert_eq!((repaired.quarantined, repaired.taken_back), (0, 1));
    assert!(repaired.found.is_sound() && repaired.remaining.is_sound());
    let pool = rotten.open(OpenMode::Write);
    assert_eq!(pool.health().quarantined(), []);
    assert_eq!(rotten.back_up(&pool), 0, "it counts again");
}

#[test]
fn a_container_without_its_directory_is_stored_anew() {
    let rotten = Rotten::new(Part::DirectoryPayload);
    let pool = rotten.open(OpenMode::Write);
    let repaired = repair(&pool);
    assert!(!repaired.found.is_sound() && repaired.found.affected.is_empty());
    assert!(repaired.salvaged.chunks_new > 0);
    assert!(repaired.remaining.is_sound(), "{:?}", repaired.remaining);
    drop(pool);
    // Nothing needs it any more.
    rotten.disk.damage(&rotten.file, &Damage::Delete).unwrap();
    let pool = rotten.open(OpenMode::Read);
    assert!(check(&pool, CheckDepth::ALL).is_sound());
    assert!(rotten.is_whole(&pool));
    assert!(pool.health().quarantined()[0].is_whole());
}

#[test]
fn nothing_wrong_commits_nothing() {
    let of = Specimen::new(5, false);
    let disk = of.disk();
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    let before = pool.generation();
    let repaired = repair(&pool);
    assert!(repaired.found.is_sound() && repaired.quarantined == 0);
    assert_eq!(pool.generation(), before);
    let reader = of.open(&disk, 2, OpenMode::Read).unwrap();
    let refused = reader.repair(CheckDepth::ALL, options(WITH), &mut |_, _| {
        ControlFlow::Continue(())
    });
    assert!(refused.is_err());
}
