//! Forgeries by an attacker with the pool's files and no key: unsealed roots and containers, a
//! config that says "not encrypted", key slots that cost too much. None is trusted, and all are
//! reported.

use format::config::{Config, Seal};
use format::container::{ContainerHeader, HEADER_BYTES};
use format::key_slot::{KeyDerivation, KeySlot};
use format::root::{RootRecord, StoredRoot};
use sim::SimDisk;
use sim::pool_histories::check_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{OpenMode, Pool, SecretKey, StoreErrorKind};
use testkit::specimen::{Specimen, open};
use units::{Generation, PoolId};

fn pool_of(of: &Specimen) -> PoolId {
    config_of(of).pool
}

fn config_of(of: &Specimen) -> Config {
    let bytes = of.image.contents("config").expect("every pool has one");
    Config::decode(&bytes).expect("a config").0
}

/// A root that anybody can make without a key.
fn unsealed_root(pool: PoolId, generation: u64) -> Vec<u8> {
    let root = StoredRoot {
        pool,
        generation: Generation(generation),
        seal: Seal::None,
        nonce: [0; 12],
        body: RootRecord::default().encode(),
    };
    root.encode()
}

fn names_of_root(generation: u64) -> [String; 2] {
    let name = format!("roots/{generation:020}");
    [format!("mirror/{name}"), name]
}

fn damage_of(pool: &Pool) -> Vec<String> {
    check_all(pool).expect("check runs").damage
}

fn newest_of(of: &Specimen) -> u64 {
    let pool = of.open(&of.disk(), 1, OpenMode::Read).expect("opens");
    pool.generation().0
}

#[test]
fn an_unsealed_root_above_the_newest_is_damage_and_empties_nothing() {
    let of = Specimen::new(21, true);
    let next = newest_of(&of) + 1;
    let disk = of.disk();
    for name in names_of_root(next) {
        disk.plant(&name, &unsealed_root(pool_of(&of), next));
    }
    for (seed, mode) in [(1, OpenMode::Read), (2, OpenMode::Write)] {
        let pool = of.open(&disk, seed, mode).expect("the true newest opens");
        assert_eq!(pool.snapshots().unwrap().len(), of.truths.len());
        assert_eq!(pool.health().lost_commits(), [Generation(next)]);
        assert!(
            pool.health()
                .notes()
                .iter()
                .any(|note| note.contains("encrypted in another way"))
        );
    }
    let pool = of.open(&disk, 3, OpenMode::Read).unwrap();
    assert!(!damage_of(&pool).is_empty(), "check must not reassure");
}

#[test]
fn unsealed_roots_in_the_place_of_all_are_no_empty_pool() {
    let of = Specimen::new(22, true);
    let disk = of.disk();
    for generation in 1..=newest_of(&of) {
        for name in names_of_root(generation) {
            disk.plant(&name, &unsealed_root(pool_of(&of), generation));
        }
    }
    for mode in [OpenMode::Read, OpenMode::Write] {
        let refused = of.open(&disk, 1, mode).err().expect("nothing to trust");
        assert!(refused.is_corruption(), "{refused}");
    }
}

#[test]
fn a_forged_copy_of_the_newest_root_is_not_written_over_the_true_one() {
    let of = Specimen::new(23, true);
    let newest = newest_of(&of);
    for forged in names_of_root(newest) {
        let disk = of.disk();
        disk.plant(&forged, &unsealed_root(pool_of(&of), newest));
        drop(
            of.open(&disk, 1, OpenMode::Write)
                .expect("the true copy opens"),
        );
        let [a, b] = names_of_root(newest).map(|name| disk.image().contents(&name).unwrap());
        assert!(a == b, "{forged}: repaired from the true copy");
        assert_eq!(Some(a), of.image.contents(&forged), "{forged}");
    }
}

/// Returns the container with a changed header at both ends.
fn with_header(bytes: &[u8], change: impl Fn(&mut ContainerHeader)) -> Vec<u8> {
    let mut header = ContainerHeader::decode(&bytes[..HEADER_BYTES], false).unwrap();
    change(&mut header);
    let mut forged = bytes.to_vec();
    let foot = forged.len() - HEADER_BYTES;
    forged[..HEADER_BYTES].copy_from_slice(&header.encode(false));
    forged[foot..].copy_from_slice(&header.encode(true));
    forged
}

fn containers_of(of: &Specimen) -> Vec<(String, Vec<u8>)> {
    let files = of.image.files_below("containers").into_iter();
    let read = |name: String| (name.clone(), of.image.contents(&name).unwrap());
    files.map(|(name, _)| read(name)).collect()
}

#[test]
fn an_unsealed_container_is_damage() {
    let of = Specimen::new(24, true);
    let mut reported = 0;
    for (name, bytes) in containers_of(&of) {
        let disk = of.disk();
        disk.plant(
            &name,
            &with_header(&bytes, |header| header.seal = Seal::None),
        );
        let pool = of.open(&disk, 1, OpenMode::Read).expect("opens");
        let damage = damage_of(&pool);
        assert!(!damage.is_empty(), "{name}");
        let is_reported = damage
            .iter()
            .any(|d| d.contains("encrypted in another way than the pool"));
        reported += u64::from(is_reported);
        drop(pool);
        let pool = of.open(&disk, 2, OpenMode::Write).expect("opens to write");
        assert!(!damage_of(&pool).is_empty(), "{name}");
    }
    assert!(reported > 0, "in words that say why");
}

#[test]
fn an_unsealed_container_of_an_unfinished_run_is_not_adopted() {
    let (of, clear) = (Specimen::new(25, true), Specimen::new(26, false));
    let pool = pool_of(&of);
    let (name, bytes) = containers_of(&clear).swap_remove(0);
    // The same number in the forged pool, and one above all that the newest commit knows.
    let last = containers_of(&of).len() as u64 + 7;
    let forged = with_header(&bytes, |header| header.pool = pool);
    for number in [
        u64::from_str_radix(&name[name.len() - 12..], 16).unwrap(),
        last,
    ] {
        let disk = of.disk();
        let at = format!("containers/0002/0000000000/{number:012x}");
        let id = units::ContainerId::new(units::WriterId(2), number);
        disk.plant(&at, &with_header(&forged, |header| header.id = id));
        let opened = of.open(&disk, 1, OpenMode::Write).expect("opens to write");
        assert!(opened.adopted().is_empty(), "{at}");
        let reported = |note: &String| note.contains("encrypted in another way than the pool");
        assert!(
            opened.health().notes().iter().any(reported),
            "{:?}",
            opened.health().notes()
        );
    }
}

#[test]
fn a_config_that_says_not_encrypted_is_refused_when_a_secret_is_given() {
    let (of, clear) = (Specimen::new(27, true), Specimen::new(28, false));
    // Our own pool with a forged config, and another pool in its place.
    let mut config = config_of(&of);
    (config.seal, config.clear_master_key) = (Seal::None, [7; 32]);
    let forged = of.disk();
    for name in ["config", "mirror/config"] {
        forged.plant(name, &config.encode());
    }
    for disk in [forged, clear.disk()] {
        for mode in [OpenMode::Read, OpenMode::Write] {
            let before = disk.image().files();
            let refused = open(&disk, 1, of.secret.as_ref(), mode).err();
            let refused = refused.expect("a secret is given, so a sealed pool is wanted");
            assert_eq!(refused.kind, StoreErrorKind::WrongKey, "{refused}");
            assert!(refused.to_string().contains("not encrypted"), "{refused}");
            assert_eq!(disk.image().files(), before, "nothing is stored");
        }
    }
}

#[test]
fn a_config_that_is_not_the_one_of_the_keys_is_reported() {
    let of = Specimen::new(29, true);
    let changes: [fn(&mut Config); 2] = [
        |config| config.chunk_bytes_average *= 2,
        |config| config.created.0 += 1,
    ];
    for change in changes {
        let mut config = config_of(&of);
        change(&mut config);
        let disk = of.disk();
        for name in ["config", "mirror/config"] {
            disk.plant(name, &config.encode());
        }
        let refused = of.open(&disk, 1, OpenMode::Write).err().expect("refused");
        assert!(refused.is_corruption(), "{refused}");
        assert!(refused.to_string().contains("config"), "{refused}");
    }
    // Features that a later version adds to a pool are not part of it.
    let mut config = config_of(&of);
    config.features_compat |= 1 << 40;
    let disk = of.disk();
    for name in ["config", "mirror/config"] {
        disk.plant(name, &config.encode());
    }
    of.open(&disk, 1, OpenMode::Write).expect("opens");
}

/// Returns a slot of this pool that no secret opens, with these costs.
fn slot(of: &Specimen, number: u8, memory_kib: u32, passes: u32) -> KeySlot {
    let image = &of.image;
    let mut names = image.files().into_iter().map(|(name, _)| name);
    let name = names.find(|name| name.starts_with("keys/")).unwrap();
    let (mut slot, _) = KeySlot::decode(&image.contents(&name).unwrap()).unwrap();
    slot.id = [number; 8];
    // Sorts before all true slots.
    slot.created.0 = i64::from(number);
    slot.derivation = KeyDerivation::Argon2id {
        memory_kib,
        passes,
        lanes: 1,
    };
    slot
}

fn plant_slot(disk: &Arc<SimDisk>, slot: &KeySlot) {
    let id: String = slot.id.iter().map(|b| format!("{b:02x}")).collect();
    for name in [format!("keys/{id}"), format!("mirror/keys/{id}")] {
        disk.plant(&name, &slot.encode());
    }
}

#[test]
fn slots_beyond_the_bounds_are_damage_and_cost_nothing() {
    let of = Specimen::new(30, true);
    let disk = of.disk();
    for (number, memory_kib, passes) in [(1, (1 << 20) + 1, 1), (2, 64, 11), (3, 4 << 20, 1000)] {
        let slot = slot(&of, number, memory_kib, passes);
        assert!(KeySlot::decode(&slot.encode()).is_err(), "{slot:?}");
        plant_slot(&disk, &slot);
    }
    let started = Instant::now();
    let password = SecretKey::Password(b"correct horse".to_vec());
    let pool = open(&disk, 1, Some(&password), OpenMode::Read).expect("opens");
    assert!(!pool.health().notes().is_empty(), "forged slots are told");
    let wrong = SecretKey::Password(b"battery staple".to_vec());
    assert!(open(&disk, 1, Some(&wrong), OpenMode::Read).is_err());
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn dear_slots_are_tried_after_the_cheap_ones_and_only_so_many() {
    let of = Specimen::new(31, true);
    let disk = of.disk();
    for number in 1..=200 {
        plant_slot(&disk, &slot(&of, number, 1 << 20, 10));
    }
    // All forged slots together would need 2,000 passes over a GiB.
    let password = SecretKey::Password(b"correct horse".to_vec());
    let started = Instant::now();
    let pool = open(&disk, 1, Some(&password), OpenMode::Read).expect("the true slot opens first");
    assert!(started.elapsed() < Duration::from_secs(60));
    drop(pool);
    let cheap = of.disk();
    for number in 1..=200 {
        plant_slot(&cheap, &slot(&of, number, 64, 1));
    }
    let wrong = SecretKey::Password(b"battery staple".to_vec());
    let refused = open(&cheap, 1, Some(&wrong), OpenMode::Read).err().unwrap();
    assert_eq!(refused.kind, StoreErrorKind::WrongKey);
    assert!(refused.to_string().contains("not tried"), "{refused}");
}

#[test]
fn a_forged_copy_of_a_slot_does_not_hide_the_true_one() {
    let of = Specimen::new(32, true);
    let names = of.image.files().into_iter().map(|(name, _)| name);
    let slots: Vec<_> = names.filter(|name| name.contains("keys/")).collect();
    for forged in slots {
        let (mut slot, _) = KeySlot::decode(&of.image.contents(&forged).unwrap()).unwrap();
        slot.wrapped[3] ^= 1;
        let secrets = [
            SecretKey::Password(b"correct horse".to_vec()),
            SecretKey::Recovery([32; 32]),
        ];
        for secret in secrets {
            let disk = of.disk();
            disk.plant(&forged, &slot.encode());
            let pool = open(&disk, 1, Some(&secret), OpenMode::Write);
            let pool = pool.unwrap_or_else(|e| panic!("{forged}: {e}"));
            let reported = |note: &String| note.contains("two copies differ");
            assert!(pool.health().notes().iter().any(reported), "{forged}");
            let opened = pool.keys().opened_with().cloned().unwrap();
            drop(pool);
            // A slot's own secret proves which copy is true, and repairs it. Other secrets leave
            // both as they are.
            let is_own = forged.ends_with(&opened.name());
            let now = disk.image().contents(&forged).unwrap();
            assert_eq!(Some(now) == of.image.contents(&forged), is_own, "{forged}");
        }
    }
}
