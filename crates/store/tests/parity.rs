//! Parity: one lost sector anywhere in any container loses nothing, for readers and after a repair.

use format::container::{ContainerHeader, HEADER_BYTES};
use media::Media;
use sim::pool_histories::check_all;
use sim::{BadSectors, Damage, SimDisk};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, CheckReport, LaneOptions, OpenMode, Pool};
use testkit::specimen::{MEMORY_BYTES, Specimen};
use units::UnixNanos;

const SECTOR: u64 = 4096;

fn specimen() -> Specimen {
    Specimen::with_parity(3, true, 2)
}

/// Returns the containers and their lengths.
fn containers(of: &Specimen) -> Vec<(String, u64)> {
    let files = of.image.files_below("containers");
    assert!(files.len() > 5, "{files:?}");
    files
}

fn check(pool: &Pool) -> CheckReport {
    check_all(pool).expect("check")
}

fn restores_all(of: &Specimen, pool: &Pool, at: &str) {
    for truth in &of.truths {
        let lost = truth.restore(pool).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert!(lost.is_empty(), "{at}: {lost:?}");
    }
}

/// Damages a sector: zeroes, garbage, or one bit.
fn spoil(disk: &SimDisk, path: &str, sector: u64, how: u64) {
    let offset = sector * SECTOR;
    let damage = match how % 3 {
        0 => Damage::Zero {
            offset,
            len: SECTOR,
        },
        1 => Damage::Overwrite {
            offset,
            bytes: vec![0xa5; SECTOR as usize],
        },
        _ => Damage::FlipBit(offset * 8 + (sector * 7919 + how) % (SECTOR * 8)),
    };
    disk.damage(path, &damage).expect("damage");
}

#[test]
fn any_lost_sector_of_any_container_is_restored() {
    let of = specimen();
    let mut cells = 0;
    for (path, len) in containers(&of) {
        let written = of.image.contents(&path).expect("there");
        for sector in 0..len / SECTOR {
            let disk = of.disk();
            spoil(&disk, &path, sector, cells);
            cells += 1;
            let at = format!("{path} sector {sector} cell {cells}");
            let is_damaged = disk.image().contents(&path).expect("there") != written;
            assert!(is_damaged, "{at}");
            // A reader, which may write nothing.
            let pool = of.open(&disk, cells, OpenMode::Read).expect(&at);
            restores_all(&of, &pool, &at);
            if !cells.is_multiple_of(5) {
                continue;
            }
            let report = check(&pool);
            assert!(report.affected.is_empty(), "{at}: {report:?}");
            drop(pool);
            let is_found = !report.is_sound();
            assert_eq!(report.restorable.len(), usize::from(is_found), "{at}");
            assert!(report.bad.is_empty(), "{at}: {report:?}");
            let pool = of.open(&disk, cells + 1, OpenMode::Write).expect(&at);
            let go_on = &mut |_, _| ControlFlow::Continue(());
            let repair = pool
                .repair(CheckDepth::ALL, LaneOptions::metadata(), go_on)
                .expect(&at);
            assert!(repair.remaining.is_sound(), "{at}: {repair:?}");
            assert_eq!(repair.quarantined, 0, "{at}");
            if is_found {
                assert_eq!(repair.restored, 1, "{at}");
                let now = disk.image().contents(&path).expect("there");
                assert!(now == written, "{at}: as it was written");
            }
            assert!(check(&pool).is_sound(), "{at}");
        }
    }
    assert!(cells > 60, "{cells}");
}

/// Check must notice all damage, except to the padding between regions.
#[test]
fn check_finds_damage_to_the_parity_itself() {
    let of = specimen();
    let (path, len) = containers(&of).swap_remove(0);
    let written = of.image.contents(&path).expect("there");
    let header = ContainerHeader::decode(&written[..HEADER_BYTES], false).expect("header");
    let parity = header.parity.expect("parity");
    let first = parity.section_at() as u64 / SECTOR;
    for sector in first..len / SECTOR {
        let disk = of.disk();
        spoil(&disk, &path, sector, 1);
        let pool = of.open(&disk, sector, OpenMode::Read).expect("open");
        let report = check(&pool);
        assert!(!report.is_sound(), "sector {sector}");
        assert_eq!(report.restorable.len(), 1, "sector {sector}: {report:?}");
    }
}

#[test]
fn a_cut_tail_comes_back_and_a_lost_container_does_not() {
    let of = specimen();
    for (path, len) in containers(&of).into_iter().step_by(3) {
        let disk = of.disk();
        disk.damage(&path, &Damage::SetLen(len - 5000))
            .expect("cut");
        let pool = of.open(&disk, 5, OpenMode::Write).expect("open");
        restores_all(&of, &pool, &path);
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let repair = pool.repair(CheckDepth::ALL, LaneOptions::metadata(), go_on);
        let repair = repair.expect("repair");
        assert!(repair.remaining.is_sound(), "{path}: {repair:?}");
        let now = disk.image().contents(&path);
        assert!(now == of.image.contents(&path), "{path}");
        let disk = of.disk();
        disk.damage(&path, &Damage::Delete).expect("delete");
        let pool = of.open(&disk, 6, OpenMode::Read).expect("open");
        assert!(check(&pool).restorable.is_empty());
    }
}

/// Damage that parity cannot restore is reported as without parity. Nothing is invented.
#[test]
fn more_than_the_parity_makes_up_for_is_said() {
    let of = specimen();
    let (path, len) = containers(&of)
        .into_iter()
        .max_by_key(|(_, len)| *len)
        .expect("one");
    let disk = of.disk();
    for sector in 1..(len / SECTOR).min(7) {
        spoil(&disk, &path, sector, 1);
    }
    let pool = of.open(&disk, 5, OpenMode::Read).expect("open");
    let report = check(&pool);
    assert!(!report.is_sound() && report.restorable.is_empty());
    for truth in &of.truths {
        truth.restore(&pool).expect("nothing that was not stored");
    }
}

/// Sectors that the device refuses to read, not only sectors with wrong bytes.
#[test]
fn sectors_that_cannot_be_read_are_restored() {
    let of = specimen();
    for (path, len) in containers(&of).into_iter().step_by(2) {
        for sector in [0, len / SECTOR / 2, len / SECTOR - 1] {
            let disk = of.disk();
            let bad = sector * SECTOR..(sector + 1) * SECTOR;
            let bad = BadSectors::new(disk, &path, bad);
            let media = Media::seeded(Arc::new(bad), UnixNanos(1_000_000_000), 77);
            let secret = of.secret.as_ref();
            let pool = Pool::open(media, secret, OpenMode::Read, MEMORY_BYTES).expect("open");
            restores_all(&of, &pool, &path);
            let report = check(&pool);
            assert!(report.affected.is_empty(), "{path} {sector}: {report:?}");
        }
    }
}

/// The next commit of any writer stores containers again that readers found damaged.
#[test]
fn a_writer_puts_back_what_its_readers_found() {
    let of = specimen();
    let disk = of.disk();
    for (path, _) in containers(&of) {
        spoil(&disk, &path, 0, 2);
        spoil(&disk, &path, 1, 1);
    }
    let pool = of.open(&disk, 5, OpenMode::Write).expect("open");
    restores_all(&of, &pool, "reading");
    assert!(pool.health().put_back_restored() > 0);
    assert!(pool.health().restored_for_readers() > 0);
    let whole = containers(&of)
        .into_iter()
        .filter(|(path, _)| disk.image().contents(path) == of.image.contents(path))
        .count();
    assert!(whole > 3, "{whole} containers");
    assert!(pool.parity() == 2);
    pool.set_parity(0).expect("set");
    drop(pool);
    let pool = of.open(&disk, 6, OpenMode::Write).expect("open");
    assert_eq!(pool.parity(), 0, "it is stored");
    of.store_again(&pool);
    restores_all(&of, &pool, "afterwards");
}
