//! Damage that any process found is known to the next writer, which stores the chunks again without
//! an explicit repair. A hint alone decides nothing.

use crate::damage::places;
use crate::damage::rotten;

use chunking::Compression;
use format::damage_hints::DamageHintsRecord;
use media::Disk;
use places::Part;
use rotten::Rotten;
use sim::pool_histories::check_all;
use store::{OpenMode, Pool};
use testkit::specimen::store_image;
use units::ContainerId;

const WITH: Compression = Compression::Zstd(1);

impl Rotten {
    fn hints(&self) -> Vec<(ContainerId, u32)> {
        let pool = self.open(OpenMode::Read);
        let id = pool.config().pool;
        let records = ["cache/damage.0", "cache/damage.1"]
            .iter()
            .filter_map(|name| {
                let file = self.disk.open_read(name).ok()?;
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_at(0, &mut bytes).unwrap();
                DamageHintsRecord::decode(&bytes, id).ok()
            });
        let newest = records.max_by_key(|record| record.sequence);
        newest.unwrap_or_default().places
    }
}

fn check(pool: &Pool) -> store::CheckReport {
    check_all(pool).unwrap()
}

/// Backs up the same bytes. Returns what was stored and if the pool is sound afterwards.
fn back_up_again(rotten: &Rotten) -> (u64, bool) {
    let pool = rotten.open(OpenMode::Write);
    let before = pool.record().stored_bytes;
    store_image(&pool, "again", &rotten.image(), WITH);
    drop(pool);
    let pool = rotten.open(OpenMode::Read);
    let added = pool.record().stored_bytes - before;
    (added, check(&pool).damage.is_empty())
}

#[test]
fn what_check_found_a_plain_backup_stores_anew() {
    let rotten = Rotten::new(Part::RegionPayload);
    let reader = rotten.open(OpenMode::Read);
    assert!(!check(&reader).is_sound());
    drop(reader);
    assert_eq!(rotten.hints().len(), 1);
    // A reader that opens meanwhile knows it without reading.
    let reader = rotten.open(OpenMode::Read);
    assert_eq!(reader.health().quarantined().len(), 1);
    assert_eq!(reader.known_damage().unwrap().lost, 1);
    drop(reader);
    let (_, is_whole) = back_up_again(&rotten);
    assert!(
        is_whole,
        "the new snapshot leans on what check had found damaged"
    );
    assert_eq!(rotten.hints(), [], "the catalog says it now");
    let reader = rotten.open(OpenMode::Read);
    assert_eq!(reader.health().quarantined().len(), 1);
    assert_eq!(reader.known_damage().unwrap().lost, 0);
}

#[test]
fn what_a_restore_met_is_noted_too() {
    let rotten = Rotten::new(Part::RegionPayload);
    let reader = rotten.open(OpenMode::Read);
    let failed = rotten.of.truths[0].restore(&reader).unwrap_or_default();
    assert!(!failed.is_empty(), "the damage is met");
    drop(reader);
    assert_eq!(rotten.hints().len(), 1);
    assert!(back_up_again(&rotten).1);
}

#[test]
fn a_hint_alone_decides_nothing() {
    let rotten = Rotten::new(Part::RegionPayload);
    let reader = rotten.open(OpenMode::Read);
    assert!(!check(&reader).is_sound());
    drop(reader);
    // The device returns the right bytes again, as after a loose cable.
    rotten.flip();
    // Add a forged hint.
    let mut places = rotten.hints();
    places.push((ContainerId(u64::MAX - 1), 3));
    let id = rotten.open(OpenMode::Read).config().pool;
    let record = DamageHintsRecord {
        sequence: 99,
        places,
    };
    let file = rotten.disk.open("cache/damage.1", true).unwrap();
    file.write_at(0, &record.encode(id)).unwrap();
    let writer = rotten.open(OpenMode::Write);
    assert_eq!(writer.health().quarantined(), []);
    drop(writer);
    assert_eq!(rotten.hints(), []);
    let (added, is_whole) = back_up_again(&rotten);
    assert!(is_whole);
    assert!(added < 10_000, "{added} bytes were stored again");
}

#[test]
fn a_writer_that_ends_without_a_commit_leaves_a_hint() {
    let rotten = Rotten::new(Part::RegionPayload);
    let writer = rotten.open(OpenMode::Write);
    assert!(!check(&writer).is_sound());
    drop(writer);
    assert_eq!(rotten.hints().len(), 1);
    assert!(back_up_again(&rotten).1);
}

#[test]
fn a_writer_that_is_open_hears_of_what_a_reader_finds_beside_it() {
    let rotten = Rotten::new(Part::RegionPayload);
    let writer = rotten.open(OpenMode::Write);
    let reader = rotten.open(OpenMode::Read);
    assert!(!check(&reader).is_sound());
    drop(reader);
    store_image(&writer, "again", &rotten.image(), WITH);
    assert_eq!(rotten.hints(), []);
    let reader = rotten.open(OpenMode::Read);
    assert_eq!(reader.health().quarantined().len(), 1);
    assert!(check(&reader).damage.is_empty());
}
