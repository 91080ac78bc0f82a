//! Damage beyond the matrix: files of other pools, unknown files, bad sectors, two losses at once.

use crate::damage::examine;
use crate::damage::places;

use chunking::Compression;
use examine::{examine, look};
use media::{DirBlobs, Disk, Media, Syncing};
use places::{Copies, Part, Place, Which};
use sim::{BadSectors, Damage, Image, SimDisk};
use std::sync::Arc;
use store::{InitOptions, NewSecret, OpenMode, Pool, SecretKey, StoreErrorKind};
use testkit::specimen::{Specimen, media, noise, open, put_image, store_image};

/// Asserts that everything a reader sees is right. Returns the reports of check.
fn right(of: &Specimen, disk: &Arc<SimDisk>, mode: OpenMode) -> Vec<String> {
    let seen = examine(of, disk, 77, mode);
    assert_eq!(seen.refused, None, "{:?}", seen.reports);
    assert_eq!(seen.wrong, Vec::<String>::new(), "{:?}", seen.reports);
    assert!(seen.lost.is_empty() && seen.unlisted.is_empty(), "{seen:?}");
    seen.reports
}

#[test]
fn a_newest_root_that_is_missing_with_the_index_is_hinted_at() {
    let of = Specimen::new(3, false);
    let disk = of.disk();
    for file in Place::Root(Copies::Both).target(&of).unwrap().files {
        disk.damage(&file, &Damage::Delete).unwrap();
    }
    disk.damage("cache/fpi", &Damage::Delete).unwrap();
    let seen = examine(&of, &disk, 1, OpenMode::Read);
    assert_eq!((seen.unlisted.len(), seen.wrong.len()), (of.newest, 0));
    assert!(
        seen.hints.iter().any(|hint| hint.contains("commit 5")),
        "{seen:?}"
    );
    // The next writer reuses what the lost commit stored.
    let pool = of.open(&disk, 2, OpenMode::Write).unwrap();
    assert!(!pool.adopted().is_empty());
    let stored = pool.record().stored_bytes;
    let testkit::specimen::restore::Content::Bytes(bytes) = &of.truths[3].objects[&Vec::new()]
    else {
        panic!("an image");
    };
    store_image(&pool, "again", bytes, Compression::Lz4);
    assert!(pool.record().stored_bytes - stored < 60_000);
}

#[test]
fn an_unfinished_run_is_no_lost_commit() {
    let of = Specimen::new(3, false);
    let disk = of.disk();
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    let mut session = pool
        .begin(testkit::specimen::options(Compression::None))
        .unwrap();
    put_image(&mut session, &noise(1, 50_000));
    session.abandon().unwrap();
    drop(pool);
    let seen = examine(&of, &disk, 2, OpenMode::Read);
    assert!(seen.reports.is_empty() && seen.hints.is_empty(), "{seen:?}");
}

#[test]
fn containers_of_another_pool_and_foreign_files_do_no_harm() {
    let (of, other) = (Specimen::new(4, true), Specimen::new(5, true));
    let theirs = other
        .image
        .contents("containers/0001/0000000000/000000000000")
        .unwrap();
    let ours = of
        .image
        .contents("containers/0001/0000000000/000000000000")
        .unwrap();
    for bytes in [&theirs, &ours] {
        let disk = of.disk();
        disk.plant("containers/0001/0000000000/0000000000ff", bytes);
        disk.plant("containers/0002/0000000000/000000000000", bytes);
        right(&of, &disk, OpenMode::Read);
        let noted = right(&of, &disk, OpenMode::Write);
        assert!(noted.iter().any(|note| note.contains("1-255")), "{noted:?}");
        let pool = of.open(&disk, 3, OpenMode::Write).unwrap();
        store_image(&pool, "more", &noise(1, 90_000), Compression::Zstd(1));
        drop(pool);
        // It is in quarantine: still reported, but the user need not act.
        assert_eq!(right(&of, &disk, OpenMode::Read), Vec::<String>::new());
        let hints = examine(&of, &disk, 78, OpenMode::Read).hints;
        assert!(hints.iter().any(|hint| hint.contains("ff")), "{hints:?}");
    }
    let disk = of.disk();
    for name in [
        "README",
        "containers/README",
        "containers/cafe/0000000000/1",
        "containers/0001/README",
        "containers/0001/0000000000/backup",
        "containers/0001/0000000000/cafe",
        "containers/0001/0000000001/000000000001",
        "roots/7",
        "roots/00000000000000000003.bak",
        "mirror/roots/latest",
        "tmp/anything",
        "cache/anything",
    ] {
        disk.plant(name, b"not ours");
    }
    for mode in [OpenMode::Read, OpenMode::Write] {
        assert_eq!(right(&of, &disk, mode), Vec::<String>::new());
    }
    disk.plant("keys/README", b"not ours");
    assert!(!right(&of, &disk, OpenMode::Write).is_empty());
}

#[test]
fn init_leaves_every_pool_alone_and_finishes_what_it_began() {
    let of = Specimen::new(6, true);
    let secret = SecretKey::Recovery([1; 32]);
    let secrets = [NewSecret {
        secret: &secret,
        label: "",
    }];
    let init = |disk: &Arc<SimDisk>, secrets| {
        let options = InitOptions {
            secrets,
            chunk_bytes_average: 4096,
            parity_percent: 0,
        };
        Pool::init(&media(disk, 9), &options).map_err(|e| e.kind)
    };
    let disk = of.disk();
    for name in ["config", "mirror/config"] {
        disk.damage(name, &Damage::Delete).unwrap();
        assert_eq!(init(&disk, &secrets), Err(StoreErrorKind::PoolExists));
    }
    // A pool whose init was interrupted before its first root.
    let begun = SimDisk::unrecorded(Image::new());
    for (name, _) in of.image.files() {
        if name.contains("config") || name.contains("keys") {
            begun.plant(&name, &of.image.contents(&name).unwrap());
        }
    }
    assert_eq!(init(&begun, &secrets), Ok(()));
    let pool = open(&begun, 10, Some(&secret), OpenMode::Read).unwrap();
    assert_eq!(look(&pool, &[]).reports, Vec::<String>::new());
    assert_eq!(pool.keys().list().unwrap().len(), 1);
}

#[test]
fn the_last_own_slot_stays_when_another_pools_lies_beside_it() {
    let (of, other) = (Specimen::new(6, true), Specimen::new(7, true));
    let disk = of.disk();
    let theirs = Place::KeySlot(Copies::Name).target(&other).unwrap().files;
    disk.plant(&theirs[0], &other.image.contents(&theirs[0]).unwrap());
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    let (slots, used) = (
        pool.keys().list().unwrap(),
        pool.keys().opened_with().cloned(),
    );
    assert_eq!(slots.len(), 2);
    let used = used.unwrap().name();
    for slot in slots.iter().filter(|slot| slot.name() != used) {
        pool.keys().remove(&slot.name()).unwrap();
    }
    assert_eq!(
        pool.keys().remove(&used).unwrap_err().kind,
        StoreErrorKind::Invalid
    );
}

#[test]
fn a_bad_sector_in_any_file_costs_no_more_than_it_holds() {
    let of = Specimen::new(8, true);
    for (path, len) in of.image.files() {
        for bad in [0..512, 0..len.max(1), len / 2..len / 2 + 1] {
            let whole = bad.end - bad.start >= len;
            let disk: Arc<dyn Disk> = Arc::new(BadSectors::new(of.disk(), &path, bad));
            let media = Media {
                blobs: Arc::new(DirBlobs::new(Arc::clone(&disk), Syncing::Inline)),
                disk,
                ..media(&of.disk(), 1)
            };
            let opened = Pool::open(media, of.secret.as_ref(), OpenMode::Read, 16 << 20);
            let pool = opened.unwrap_or_else(|e| panic!("{path}: {e}"));
            let seen = look(&pool, &of.truths);
            assert_eq!(seen.wrong, Vec::<String>::new(), "{path}");
            let carries = !path.starts_with("cache") && path != "lock" && !path.contains("roots/");
            let reported = !seen.reports.is_empty();
            assert!(reported || !(whole && carries), "{path}: nobody was told");
            if !path.starts_with("containers") {
                assert!(seen.lost.is_empty() && seen.unlisted.is_empty(), "{path}");
            }
        }
    }
}

#[test]
fn a_lost_container_is_stored_again_by_the_next_backup_of_the_same_data() {
    let of = Specimen::new(9, true);
    let disk = of.disk();
    let lost = Place::Container(Which::Data, Part::File)
        .target(&of)
        .unwrap();
    disk.damage(&lost.files[0], &Damage::Delete).unwrap();
    let pool = of.open(&disk, 1, OpenMode::Write).unwrap();
    assert!(!of.truths[0].restore(&pool).unwrap().is_empty());
    for truth in &of.truths {
        if let Some(testkit::specimen::restore::Content::Bytes(bytes)) =
            truth.objects.get(&Vec::new())
        {
            store_image(&pool, "again", bytes, Compression::Zstd(1));
        }
    }
    drop(pool);
    let pool = of.open(&disk, 2, OpenMode::Read).unwrap();
    assert!(
        of.truths[0].restore(&pool).unwrap().is_empty(),
        "the old snapshot is whole again"
    );
}
