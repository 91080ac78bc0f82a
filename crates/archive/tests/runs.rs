//! Backups and restores as an observer sees them: counts, warnings and stops.
//!
//! Invariant: every warning is reported once, and the outcome has the number of each kind.

use archive::backup::{Order, TreeOutcome, TreePlan, back_up_trees};
use archive::filesystem::PathError;
use archive::filesystem::apply::TargetDirectory;
use archive::filesystem::capture::Sameness;
use archive::filesystem::metadata::Privileges;
use archive::filesystem::overwrite::{Overwrite, Placement};
use archive::owners::OwnerMap;
use archive::restore::{RestoreOutcome, RestorePlan, restore_tree, verify_tree};
use archive::rewrite::{RewriteError, RewriteOutcome, RewritePlan, rewrite_tree};
use archive::selection::{BackupSelection, Patterns, SnapshotSelection};
use archive::{ArchiveError, Observer, Warning};
use chunking::Compression;
use format::container::{ContainerClass, ContainerHeader};
use format::recipe::ObjectRoot;
use format::tree::{Entry, EntryKind};
use parking_lot::Mutex;
use sim::pool_histories::{
    MEMORY_BYTES, Source, What, data_regions, init_options, lane_options, media, snapshot,
};
use sim::{Damage, Image, Seed, SimDisk};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::{IMAGE_REGION_BYTES, LaneOptions, OpenMode, Pool, StoreError, StoreErrorKind};
use units::Fingerprint;

#[derive(Default)]
struct Watcher {
    stops: bool,
    files: AtomicU64,
    bytes: AtomicU64,
    totals_known: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

impl Watcher {
    fn stopping() -> Self {
        Self {
            stops: true,
            ..Self::default()
        }
    }

    fn counted(&self) -> (u64, u64) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (get(&self.files), get(&self.bytes))
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }
}

impl Observer for Watcher {
    fn stop_requested(&self) -> bool {
        self.stops
    }

    fn add_total(&self, _files: u64, _bytes: u64) {}

    fn totals_known(&self) {
        self.totals_known.store(true, Ordering::Relaxed);
    }

    fn expect(&self, _files: u64, _bytes: u64) {}

    fn add_files(&self, files: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn set_current(&self, _path: &[u8]) {}

    fn warning(&self, warning: &Warning<'_>) {
        self.warnings.lock().push(warning.to_string());
    }
}

/// A pool on a simulated disk, and a directory for sources and targets.
struct World {
    disk: Arc<SimDisk>,
    pool: Arc<Pool>,
    place: tempfile::TempDir,
    lane: LaneOptions,
}

impl World {
    /// With a small file, a large one and a link in `source`.
    fn new() -> Self {
        let disk = SimDisk::new();
        Pool::init(&media(Arc::clone(&disk) as _, 1), &init_options(&[])).unwrap();
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source");
        fs::create_dir_all(source.join("below")).unwrap();
        fs::write(source.join("small"), b"small").unwrap();
        let mut seed = Seed::new(7);
        let large: Vec<u8> = (0..100_000).map(|_| seed.draw() as u8).collect();
        fs::write(source.join("below/large"), large).unwrap();
        std::os::unix::fs::symlink("small", source.join("link")).unwrap();
        let pool = open(&disk, OpenMode::Write).unwrap();
        let lane = lane_options();
        Self {
            disk,
            pool,
            place,
            lane,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn back_up(
        &self,
        names: &[&str],
        watcher: &Watcher,
    ) -> Result<(ObjectRoot, TreeOutcome), StoreError> {
        self.back_up_in(Order::Cached, None, names, watcher)
    }

    fn back_up_in(
        &self,
        order: Order,
        parent: Option<ObjectRoot>,
        names: &[&str],
        watcher: &Watcher,
    ) -> Result<(ObjectRoot, TreeOutcome), StoreError> {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        let plan = TreePlan {
            paths: &paths,
            selection: &BackupSelection::default(),
            parent,
            sameness: Sameness::ALL,
            workers: 2,
            lane: self.lane,
            order,
            pacer: None,
            snapshot: false,
        };
        let mut session = self.pool.begin(self.lane).unwrap();
        let stored = back_up_trees(&self.pool, &mut session, &plan, watcher)?;
        let source = Source::new(What::Image, &mut Seed::new(1));
        let record = snapshot(&self.pool, What::Image, &source, stored.0);
        self.pool.commit(session, &[record], &[]).unwrap();
        Ok((stored.0, stored.1))
    }
}

fn open(disk: &Arc<SimDisk>, mode: OpenMode) -> Result<Arc<Pool>, StoreError> {
    let media = media(Arc::clone(disk) as _, 2);
    Pool::open(media, None, mode, MEMORY_BYTES).map(Arc::new)
}

/// Restores `root` into `target`. `partial`: also the intact parts of damaged files.
fn restore(
    pool: &Pool,
    root: ObjectRoot,
    target: &Path,
    partial: bool,
    watcher: &Watcher,
) -> Result<RestoreOutcome, ArchiveError> {
    with_plan(root, target, partial, |plan| {
        restore_tree(pool.reader(), plan, watcher)
    })
}

fn verify(pool: &Pool, root: ObjectRoot, target: &Path, watcher: &Watcher) -> u64 {
    with_plan(root, target, false, |plan| {
        let top = plan.top.as_ref().unwrap();
        verify_tree(pool.reader(), top, plan, watcher)
            .unwrap()
            .different
    })
}

fn with_plan<T>(
    root: ObjectRoot,
    target: &Path,
    partial: bool,
    run: impl FnOnce(&RestorePlan<'_>) -> T,
) -> T {
    run(&RestorePlan {
        root,
        root_entry: None,
        top: Some(TargetDirectory::create_top(target).unwrap()),
        target,
        given: &[],
        selection: &SnapshotSelection::default(),
        delete: false,
        overwrite: Overwrite::Always,
        placement: Placement::Replace,
        all_sparse: false,
        partial,
        privileges: Privileges {
            owner: false,
            xattrs: false,
            ..Privileges::NONE
        },
        owners: &OwnerMap::default(),
        devices: true,
        workers: 2,
        dry_run: false,
        tell: &|_, _| {},
    })
}

#[test]
fn a_tree_comes_back_and_the_watcher_hears_of_it() {
    let world = World::new();
    let watcher = Watcher::default();
    let (root, outcome) = world.back_up(&["source", "missing"], &watcher).unwrap();
    assert_eq!((outcome.files, outcome.bytes), (3, 100_005));
    assert_eq!((outcome.failures, outcome.changed_while_read), (1, 0));
    assert_eq!(watcher.counted(), (3, 100_005));
    assert!(watcher.totals_known.load(Ordering::Relaxed));
    let missing = std::io::Error::from_raw_os_error(2);
    let missing = PathError::new("stat", world.path("missing"), missing);
    assert_eq!(watcher.warnings(), [missing.to_string()]);

    let (target, watcher) = (world.path("target"), Watcher::default());
    let outcome = restore(&world.pool, root, &target, false, &watcher).unwrap();
    assert_eq!((outcome.files, outcome.bytes), (3, 100_005));
    assert_eq!((outcome.failed, outcome.warnings), (0, 0));
    assert_eq!(watcher.counted(), (3, 100_005));
    assert_eq!(watcher.warnings(), [""; 0]);

    assert_eq!(verify(&world.pool, root, &target, &watcher), 0);
    let inside = world.path("source").join("below/large");
    let restored = target.join(inside.strip_prefix("/").unwrap());
    assert_eq!(fs::read(&restored).unwrap(), fs::read(&inside).unwrap());
    fs::write(&restored, vec![0; 100_000]).unwrap();
    assert_eq!(verify(&world.pool, root, &target, &watcher), 1);
    let differs = format!(
        "cannot verify {}: it differs from the snapshot",
        restored.display()
    );
    assert_eq!(watcher.warnings(), [differs]);
}

#[test]
fn the_order_of_reading_does_not_show_in_what_is_stored() {
    let mut world = World::new();
    // A checkout may be on a disk, where /tmp is memory.
    world.place = tempfile::tempdir_in(".").unwrap();
    let mut seed = Seed::new(9);
    for number in 0..400 {
        let directory = world.path("source").join(format!("{}", number / 7));
        fs::create_dir_all(&directory).unwrap();
        let len = 1 + seed.draw() % 60_000 * u64::from(number % 5 != 0);
        let bytes: Vec<u8> = (0..len).map(|_| seed.draw() as u8).collect();
        let path = directory.join(format!("{number}"));
        fs::write(&path, bytes).unwrap();
        let file = fs::File::open(&path).unwrap();
        if number % 3 != 0 {
            file.sync_all().unwrap();
            machine::release(&file, 0, None).unwrap();
        }
    }
    let long: Vec<u8> = (0..20_000_000).map(|_| seed.draw() as u8).collect();
    fs::write(world.path("source/3/long"), long).unwrap();
    let back_up = |order, parent| {
        let watcher = Watcher::default();
        let (root, outcome) = world
            .back_up_in(order, parent, &["source"], &watcher)
            .unwrap();
        assert_eq!(watcher.warnings(), [""; 0]);
        assert_eq!(watcher.counted(), (401, outcome.bytes));
        (root, outcome)
    };
    let (root, outcome) = back_up(Order::Cached, None);
    let memory = outcome.memory;
    match memory.unknown {
        // The file system of the checkout.
        Some(why) => println!("SKIPPED: {why}"),
        None => {
            assert!(memory.files_ahead > 50, "{memory:?}");
            assert!(memory.bytes_found > 20_000_000, "{memory:?}");
            assert!(memory.bytes_dropped > 2_000_000, "{memory:?}");
        }
    }
    let (in_tree_order, outcome) = back_up(Order::Tree, None);
    assert_eq!(outcome.memory.files_ahead, 0);
    assert_eq!(root, in_tree_order);
    // Unchanged files are not asked about.
    let (unchanged, outcome) = back_up(Order::Cached, Some(root));
    assert_eq!((unchanged, outcome.files_unchanged), (root, 401));
    assert_eq!(outcome.memory.files_asked, 0);
}

#[test]
fn a_watcher_that_wants_it_stops_a_run() {
    let world = World::new();
    let error = world
        .back_up(&["source"], &Watcher::stopping())
        .unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Interrupted);
    let (root, _) = world.back_up(&["source"], &Watcher::default()).unwrap();
    let target = world.path("target");
    let stopped = restore(&world.pool, root, &target, false, &Watcher::stopping());
    let Err(ArchiveError::Pool(error)) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!(error.kind, StoreErrorKind::Interrupted);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn what_damage_takes_is_reported_and_counted_once() {
    let world = World::new();
    let (root, _) = world.back_up(&["source"], &Watcher::default()).unwrap();
    let image: Image = world.disk.image();
    let containers = image.files_below("containers").into_iter();
    let (mut lost, mut parts) = (0, 0);
    for (number, (path, len)) in containers.enumerate() {
        for partial in [false, true] {
            let disk = SimDisk::unrecorded(image.clone());
            disk.damage(&path, &Damage::FlipBit(8 * (len / 2))).unwrap();
            let Ok(pool) = open(&disk, OpenMode::Read) else {
                continue;
            };
            let target = world.path(&format!("target-{number}-{partial}"));
            let watcher = Watcher::default();
            // The top directory itself may be damaged.
            let Ok(outcome) = restore(&pool, root, &target, partial, &watcher) else {
                continue;
            };
            let reported = watcher.warnings().len() as u64;
            assert_eq!(reported, outcome.damaged + outcome.partial, "{outcome:?}");
            assert_eq!((outcome.failed, outcome.warnings), (0, 0), "{outcome:?}");
            assert!(partial || outcome.partial == 0, "{outcome:?}");
            lost += outcome.damaged;
            parts += outcome.partial;
        }
    }
    assert!(lost > 0 && parts > 0, "{lost} lost, {parts} in part");
}

/// Files from 64 MiB on are disk images and databases, which mounts read at random. Files before
/// and behind one stay in large regions.
#[test]
fn long_files_are_in_small_regions() {
    const LARGE: usize = 1 << 20;
    let mut world = World::new();
    let top = world.path("long");
    fs::create_dir(&top).unwrap();
    // Compresses to a half: what does not compress is in small regions anyway.
    let mut seed = Seed::new(3);
    let mut text = |bytes: usize| -> Vec<u8> {
        let draw = |_| seed.draw().to_le_bytes().map(|byte| byte & 15);
        (0..bytes / 8).flat_map(draw).collect()
    };
    for (name, bytes) in [("a", 6 << 20), ("b", 64 << 20), ("c", 6 << 20)] {
        fs::write(top.join(name), text(bytes)).unwrap();
    }
    world.lane = LaneOptions {
        compression: Compression::Zstd(1),
        region_bytes: LARGE,
        container_bytes: 8 << 20,
    };
    world.back_up(&["long"], &Watcher::default()).unwrap();
    let sizes = data_regions(&world.disk).into_iter().flatten();
    // A region ends with the chunk that fills it.
    let is_small = |bytes: &usize| *bytes < 2 * IMAGE_REGION_BYTES;
    let (small, large): (Vec<_>, Vec<_>) = sizes.partition(is_small);
    let sum = |sizes: &[usize]| sizes.iter().sum::<usize>();
    let found = format!("{} of {small:?}, {} of {large:?}", sum(&small), sum(&large));
    assert!((64 << 20..66 << 20).contains(&sum(&small)), "{found}");
    assert!(sum(&large) >= 10 << 20, "{found}");
}

/// Makes `root` again without entries called `name`. Returns the outcome, and what was stored.
fn rewrite(
    pool: &Pool,
    root: ObjectRoot,
    name: &str,
) -> Result<(RewriteOutcome, u64), RewriteError> {
    let mut excludes = Patterns::default();
    excludes.add(name.as_bytes(), false).unwrap();
    let mut left_out = Vec::new();
    let mut plan = RewritePlan {
        root,
        excludes: &excludes,
        left_out: &mut |path, _| left_out.push(path.to_vec()),
    };
    let mut session = pool.begin(lane_options()).unwrap();
    let store = &mut |bytes: &[u8]| session.main().store_object(bytes, true);
    let outcome = rewrite_tree(pool.reader(), &mut plan, &Watcher::default(), store)?;
    assert_eq!(left_out.len() as u64, outcome.left_out);
    let stored = session.counts().chunks_new;
    session.abandon().unwrap();
    Ok((outcome, stored))
}

#[test]
fn a_rewrite_reads_and_stores_directories_only() {
    let world = World::new();
    let (root, stored) = world.back_up(&["source"], &Watcher::default()).unwrap();
    // Nothing of any file can be read.
    let disk = SimDisk::unrecorded(world.disk.image());
    let mut deleted = 0;
    for (name, _) in disk.image().files_below("containers") {
        let bytes = disk.image().contents(&name).unwrap().to_vec();
        if ContainerHeader::decode(&bytes, false).unwrap().class == ContainerClass::Data {
            disk.damage(&name, &Damage::Delete).unwrap();
            deleted += 1;
        }
    }
    assert!(deleted > 0);
    let pool = open(&disk, OpenMode::Write).unwrap();
    let before = pool.read_counts();
    let (outcome, directories) = rewrite(&pool, root, "large").unwrap();
    let after = pool.read_counts();
    assert_eq!((outcome.files, outcome.bytes, outcome.left_out), (2, 5, 1));
    assert_eq!(outcome.directories, stored.directories);
    assert_eq!(directories, stored.directories + 1, "each leads to it");
    let reads = after.region_reads + after.chunk_hits - before.region_reads - before.chunk_hits;
    assert!(reads <= 2 * (stored.directories + 1), "{reads} chunks read");

    let (same, directories) = rewrite(&pool, root, "nothing").unwrap();
    assert_eq!((same.root, same.left_out, directories), (root, 0, 0));
    assert_eq!((same.files, same.bytes), (stored.files, stored.bytes));
}

#[test]
fn a_rewrite_over_damage_ends_unless_that_is_left_out() {
    let world = World::new();
    let (root, _) = world.back_up(&["source"], &Watcher::default()).unwrap();
    let lost = ObjectRoot {
        fingerprint: Fingerprint([9; 32]),
        ..root
    };
    let mut session = world.pool.begin(world.lane).unwrap();
    let mut bad = world.pool.reader().directory(&root).unwrap().remove(0);
    bad.name = b"bad".to_vec();
    bad.kind = EntryKind::Directory { content: lost };
    let directory = Entry::encode_directory(&[bad]);
    let top = session.main().store_object(&directory, true).unwrap();
    let source = Source::new(What::Image, &mut Seed::new(1));
    let record = snapshot(&world.pool, What::Image, &source, top);
    world.pool.commit(session, &[record], &[]).unwrap();
    let failed = rewrite(&world.pool, top, "other").unwrap_err();
    assert_eq!(failed.path, b"/bad");
    assert!(failed.error.is_corruption(), "{failed}");
    let (outcome, _) = rewrite(&world.pool, top, "bad").unwrap();
    assert_eq!((outcome.left_out, outcome.directories), (1, 0));
}
