//! Power losses while a pool of an older program gets the features of new ones.
//!
//! Invariant: before and after, the pool opens and has what was stored. After the acknowledgement
//! it has the features, and nothing is stored that needs them before.

use format::config::{Config, FEATURES_INCOMPAT_KNOWN};
use media::Barrier;
use sim::pool_histories::{
    MEMORY_BYTES, Source, What, check_all, init_options, lane_options, media, snapshot,
};
use sim::{CrashPoint, Seed, SimDisk, Walker};
use std::sync::Arc;
use store::{OpenMode, Pool, StoreError, StoreErrorKind};

const NAMES: [&str; 2] = ["config", "mirror/config"];

fn open(disk: &Arc<SimDisk>, salt: u64, mode: OpenMode) -> Result<Pool, StoreError> {
    let media = media(Arc::clone(disk) as _, salt);
    Pool::open(media, None, mode, MEMORY_BYTES)
}

/// Writes the config of `disk` with other features.
fn with_features(disk: &SimDisk, names: &[&str], features: impl Fn(&[u8]) -> Vec<u8>) {
    for name in names {
        let bytes = disk.image().contents(name).expect("a config");
        disk.plant(name, &features(&bytes));
    }
}

fn without_features(bytes: &[u8]) -> Vec<u8> {
    let (config, _) = Config::decode(bytes).expect("a config");
    Config {
        features_incompat: 0,
        ..config
    }
    .encode()
}

/// A pool as an older program makes it.
fn old_pool() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    Pool::init(&media(Arc::clone(&disk) as _, 1), &init_options(&[])).expect("init");
    let disk = SimDisk::on(disk.image());
    with_features(&disk, &NAMES, without_features);
    SimDisk::on(disk.image())
}

fn store(pool: &Pool, source: &Source) -> Result<format::recipe::ObjectRoot, StoreError> {
    let mut session = pool.begin(lane_options())?;
    let root = source
        .put(&mut session, 0, lane_options())
        .map_err(|e| StoreError::new(StoreErrorKind::Invalid, e.to_string()))?;
    let record = snapshot(pool, What::Image, source, root);
    pool.commit(session, &[record], &[]).map(|_| root)
}

/// Upgrades a pool and stores more. Looks at every crash on the way. Returns their number.
fn upgrade_through_crashes(without: Option<Barrier>) -> Result<usize, String> {
    let disk = old_pool();
    let mut seed = Seed::new(5);
    let before = Source::new(What::Image, &mut seed);
    let more = Source::new(What::Image, &mut seed);
    let pool = open(&disk, 2, OpenMode::Write).expect("open");
    assert_eq!(pool.features_lacking(), FEATURES_INCOMPAT_KNOWN);
    // In the same process: the first use of a directory syncs the names above it.
    let known = store(&pool, &before).expect("commit");
    if let Some(barrier) = without {
        let _ = Arc::clone(&disk).without(barrier);
    }
    let from = disk.position();
    pool.upgrade().expect("upgrade");
    let acknowledged = disk.position();
    assert_eq!(pool.features_lacking(), 0);
    store(&pool, &more).expect("commit");
    drop(pool);
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    let mut states = 0;
    for position in from..=recording.log.len() {
        walker.advance(position);
        let point = CrashPoint::new(&walker);
        for plan in point.plans(24, &mut seed) {
            states += 1;
            let failed = |what: &str| format!("{what} after {position}, {plan:?}");
            let disk = SimDisk::unrecorded(point.state(plan));
            let expect = |is_so: bool, what: &str| is_so.then_some(()).ok_or_else(|| failed(what));
            let error = |e: StoreError| failed(&e.to_string());
            if position >= acknowledged {
                let reader = open(&disk, 4, OpenMode::Read).map_err(error)?;
                expect(reader.features_lacking() == 0, "an old config")?;
            }
            let pool = open(&disk, 5, OpenMode::Write).map_err(error)?;
            let lacking = pool.features_lacking();
            expect(lacking == 0 || position < acknowledged, "old features")?;
            let is_whole = before.compare(&pool, &known).is_ok();
            expect(is_whole, "another image")?;
            let again = store(&pool, &more).map_err(error)?;
            expect(more.compare(&pool, &again).is_ok(), "another image")?;
            let report = check_all(&pool).map_err(error)?;
            expect(report.is_sound(), &format!("{report:?}"))?;
            drop(pool);
            // The copies are the same again.
            let copies = NAMES.map(|name| disk.image().contents(name));
            expect(copies[0].is_some() && copies[0] == copies[1], "two configs")?;
            let pool = open(&disk, 6, OpenMode::Read).map_err(error)?;
            expect(pool.features_lacking() == lacking, "other features")?;
        }
    }
    Ok(states)
}

#[test]
fn an_upgrade_survives_and_misses_its_barrier() {
    let states = upgrade_through_crashes(None).expect("whole");
    assert!(states > 100, "{states}");
    let missed = upgrade_through_crashes(Some(Barrier::ConfigBeforeAck));
    missed.expect_err("a barrier that nothing misses");
}

/// A process reads the config, then stretches a password for a second, and then waits for the lock.
#[test]
fn a_process_that_read_the_config_before_the_upgrade_does_not_undo_it() {
    let disk = old_pool();
    let unlocked = Pool::unlock(&media(Arc::clone(&disk) as _, 2), None).expect("unlock");
    let pool = open(&disk, 3, OpenMode::Write).expect("open");
    pool.upgrade().expect("upgrade");
    drop(pool);
    let later = media(Arc::clone(&disk) as _, 4);
    let pool = Pool::open_unlocked(later, unlocked, OpenMode::Write, MEMORY_BYTES).expect("open");
    assert_eq!(pool.features_lacking(), 0);
    drop(pool);
    let pool = open(&disk, 5, OpenMode::Read).expect("open");
    assert_eq!(pool.features_lacking(), 0);
    let refused = pool.upgrade().map_err(|e| e.kind);
    assert_eq!(refused, Err(StoreErrorKind::Invalid), "it only reads");
}

/// A newer program's upgrade, complete or interrupted, is refused and never undone.
#[test]
fn unknown_features_are_refused_and_stay() {
    let newer = |bytes: &[u8]| {
        let (config, _) = Config::decode(bytes).expect("a config");
        Config {
            features_incompat: FEATURES_INCOMPAT_KNOWN | 1 << 40,
            ..config
        }
        .encode()
    };
    for names in [&NAMES[..], &NAMES[..1], &NAMES[1..]] {
        let disk = old_pool();
        with_features(&disk, names, newer);
        let before = disk.image();
        let refused = open(&disk, 2, OpenMode::Write).err().map(|e| e.kind);
        assert_eq!(refused, Some(StoreErrorKind::Unsupported), "{names:?}");
        for name in NAMES {
            assert_eq!(disk.image().contents(name), before.contents(name));
        }
    }
}
