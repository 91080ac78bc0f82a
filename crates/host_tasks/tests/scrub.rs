//! Verdicts on files, and scrubs that go on in another process. The snapshot is made by hand: what
//! it stores of a file may differ from the file, with the file's true times.

use archive::filesystem::capture::Directory;
use archive::selection::Patterns;
use format::host_scrub::{HostScrubCounts, HostScrubFinding, HostScrubRecord};
use format::tree::{Entry, EntryKind};
use host_tasks::{FileTree, HostScrubNews, HostScrubOptions, HostScrubber, Top};
use maintenance::{Alone, MaintenanceTask, RunEnd, StepSizes, TaskStep, run_task};
use sim::SimDisk;
use sim::pool_histories::{
    MEMORY_BYTES, Source, What, init_options, lane_options, media, snapshot,
};
use std::ffi::CString;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use store::{OpenMode, Pool, StoreError};

struct World {
    pool: Arc<Pool>,
    place: tempfile::TempDir,
}

/// Bytes that do not repeat.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = len as u64 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

impl World {
    fn new() -> Self {
        let disk = SimDisk::new();
        Pool::init(&media(Arc::clone(&disk) as _, 1), &init_options(&[])).unwrap();
        let media = media(disk as _, 2);
        let pool = Pool::open(media, None, OpenMode::Write, MEMORY_BYTES).unwrap();
        Self {
            pool: Arc::new(pool),
            place: tempfile::tempdir_in(".").unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let file = fs::File::create(self.path(name)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
        file.sync_all().unwrap();
    }

    /// Stores a directory of these files, sorted by name, with the times that they have now.
    fn store(&self, files: &[(&str, &[u8])]) -> Top {
        let mut session = self.pool.begin(lane_options()).unwrap();
        let directory = Directory::open(self.place.path()).unwrap();
        let entries = files.iter().map(|(name, bytes)| {
            let name = CString::new(*name).unwrap();
            let mut entry = directory.stat(&name).unwrap().entry;
            let content = session.main().store_object(bytes, false).unwrap();
            entry.kind = EntryKind::File {
                content,
                sparse: false,
            };
            entry
        });
        let entries: Vec<Entry> = entries.collect();
        let listing = Entry::encode_directory(&entries);
        let content = session.main().store_object(&listing, true).unwrap();
        let source = Source::new(What::Image, &mut sim::Seed::new(1));
        let record = snapshot(&self.pool, What::Image, &source, content);
        self.pool.commit(session, &[record], &[]).unwrap();
        Top::Directory {
            path: self.place.path().to_owned(),
            content,
            one_device: None,
        }
    }

    fn scrubber(&self, top: &Top, record: HostScrubRecord) -> HostScrubber<'static> {
        let tree = FileTree::read(self.pool.reader(), top, &Patterns::default()).unwrap();
        let pool = Arc::clone(&self.pool);
        HostScrubber::new(pool, tree, record, HostScrubOptions::default()).unwrap()
    }

    fn run(&self, top: &Top) -> (HostScrubCounts, Vec<HostScrubFinding>) {
        let mut scrubber = self.scrubber(top, HostScrubRecord::default());
        let mut found = Vec::new();
        let sizes = StepSizes::new(1 << 20);
        let end = run_task(&mut scrubber, &Alone, sizes, |_, news| {
            match news {
                Some(HostScrubNews::Found(finding)) => found.push(finding),
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            Ok::<_, StoreError>(ControlFlow::Continue(()))
        });
        assert_eq!(end.unwrap(), RunEnd::Finished);
        (scrubber.counts(), found)
    }
}

#[test]
fn rotten_bytes_are_named_exactly_and_cost_the_only_reads_of_data() {
    let world = World::new();
    let stored = bytes(3_000_000);
    let mut rotten = stored.clone();
    for at in (5..9)
        .chain(1_999_990..2_000_030)
        .chain(2_999_999..3_000_000)
    {
        rotten[at] ^= 0xff;
    }
    world.write("a", &stored);
    world.write("b", &rotten);
    world.write("empty", b"");
    let sound = world.store(&[("a", &stored), ("empty", b"")]);
    let before = world.pool.reader().counts();
    let (counts, found) = world.run(&sound);
    assert_eq!(
        (counts.files_same, counts.files_new, found.len()),
        (2, 1, 0)
    );
    let proven = counts.bytes_read + counts.bytes_unproven;
    assert_eq!(proven, 3_000_000);
    let after = world.pool.reader().counts();
    let reads = |c: store::ReadCounts| c.region_reads + c.direct_reads;
    assert!(reads(after) - reads(before) <= 2, "directory and recipe");

    let all = world.store(&[("a", &stored), ("b", &stored), ("empty", b"")]);
    let (counts, found) = world.run(&all);
    assert_eq!((counts.files_same, counts.files_rotten), (2, 1));
    assert_eq!(counts.bytes_bad, 45);
    assert_eq!(found[0].path, b"b");
    assert_eq!(
        found[0].rotten,
        [5..9, 1_999_990..2_000_030, 2_999_999..3_000_000]
    );
    assert_eq!(found[0].unreadable, []);
}

#[test]
fn a_hole_that_has_bytes_is_rotten() {
    let world = World::new();
    let stored = vec![0; 5_000_000];
    let mut found = stored.clone();
    found[4_000_000..4_000_010].fill(7);
    world.write("hole", &found);
    let file = fs::File::create(world.path("sparse")).unwrap();
    file.set_len(5_000_000).unwrap();
    file.sync_all().unwrap();
    let top = world.store(&[("hole", &stored), ("sparse", &stored)]);
    let (counts, found) = world.run(&top);
    assert_eq!((counts.files_same, counts.files_rotten), (1, 1));
    assert_eq!(found[0].rotten.len(), 1);
    assert_eq!(found[0].rotten[0], 4_000_000..4_000_010);
    let read = counts.bytes_read + counts.bytes_unproven;
    assert_eq!(counts.bytes_in_holes + read, 10_000_000);
}

#[test]
fn what_was_touched_deleted_or_replaced_is_no_finding() {
    let world = World::new();
    let stored = bytes(10_000);
    let names = ["changed", "deleted", "directory", "link", "moved", "same"];
    for name in names {
        world.write(name, &bytes(9_999));
        world.write(name, &stored);
    }
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &stored[..])).collect();
    let top = world.store(&files);
    // Other bytes and the old modification time: the change time is new.
    let before = fs::metadata(world.path("changed")).unwrap();
    let mut other = stored.clone();
    other[7] ^= 1;
    // The file system's clock has a coarse tick.
    let change = |of: &fs::Metadata| (of.ctime(), of.ctime_nsec());
    while change(&fs::metadata(world.path("changed")).unwrap()) == change(&before) {
        world.write("changed", &other);
    }
    let file = fs::File::options()
        .write(true)
        .open(world.path("changed"))
        .unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    for name in ["deleted", "directory", "link"] {
        fs::remove_file(world.path(name)).unwrap();
    }
    fs::create_dir(world.path("directory")).unwrap();
    std::os::unix::fs::symlink("same", world.path("link")).unwrap();
    world.write("new", &stored);
    fs::rename(world.path("new"), world.path("moved")).unwrap();
    fs::create_dir(world.path("newer")).unwrap();
    world.write("newest", b"x");
    let (counts, found) = world.run(&top);
    assert!(found.is_empty());
    let expected = HostScrubCounts {
        files_same: 1,
        files_changed: 2,
        files_deleted: 3,
        files_new: 1,
        directories_new: 1,
        bytes_read: counts.bytes_read,
        bytes_unproven: 10_000 - counts.bytes_read,
        bytes_dropped_first: counts.bytes_dropped_first,
        ..HostScrubCounts::default()
    };
    assert_eq!(counts, expected);
}

/// After each step another process goes on from the record.
#[test]
fn a_scrub_goes_on_from_any_step() {
    let world = World::new();
    let stored: Vec<Vec<u8>> = (0..6).map(|n| bytes(300_000 * n)).collect();
    let names: Vec<String> = (0..6).map(|n| format!("file{n}")).collect();
    for (name, stored) in names.iter().zip(&stored) {
        let mut on_disk = stored.clone();
        if let Some(byte) = on_disk.get_mut(250_000) {
            *byte ^= 1;
        }
        world.write(name, &on_disk);
    }
    let files = names.iter().zip(&stored);
    let files: Vec<_> = files
        .map(|(name, bytes)| (name.as_str(), &bytes[..]))
        .collect();
    let top = world.store(&files);
    let (expected, found) = world.run(&top);
    assert_eq!(
        (expected.files_same, expected.files_rotten, found.len()),
        (1, 5, 5)
    );

    let mut record = HostScrubRecord {
        options: 9,
        ..HostScrubRecord::default()
    };
    let (mut steps, mut reported) = (0, 0);
    loop {
        let mut scrubber = world.scrubber(&top, record.clone());
        assert_eq!(scrubber.is_continued(), steps > 0);
        // A whole file, or the rest of one: a part in progress begins anew.
        let done = loop {
            match scrubber.step(0, 10 << 20).unwrap() {
                TaskStep::Finished => break true,
                TaskStep::Worked { bytes } if bytes > 0 => break false,
                TaskStep::News(HostScrubNews::Found(_)) => reported += 1,
                TaskStep::News(other) => panic!("{other:?}"),
                _ => {}
            }
        };
        while let TaskStep::News(_) = scrubber.step(0, 1).unwrap() {
            reported += 1;
        }
        record = scrubber.record();
        let decoded = HostScrubRecord::decode(&record.encode(), record.pool).unwrap();
        assert_eq!(decoded, record);
        if done {
            // Files that a process left unfinished were read again.
            let counts = scrubber.counts();
            let read = counts.bytes_read + counts.bytes_unproven;
            assert!((4_500_000..9_500_000).contains(&read), "{read}");
            let verdicts = HostScrubCounts {
                bytes_read: expected.bytes_read,
                bytes_unproven: expected.bytes_unproven,
                bytes_dropped_first: expected.bytes_dropped_first,
                ..counts
            };
            assert_eq!(verdicts, expected);
            let findings: Vec<_> = scrubber.findings().cloned().collect();
            assert_eq!(findings, found);
            break;
        }
        steps += 1;
        assert!(steps < 100, "no progress");
    }
    assert!(
        steps >= 5 && reported >= 4,
        "{steps} steps, {reported} reported"
    );
    // The progress of another scrub is not continued.
    record.options = 10;
    assert!(!world.scrubber(&top, record).is_continued());
}

#[test]
fn names_of_one_file_are_read_once() {
    let world = World::new();
    let stored = bytes(100_000);
    world.write("a", &stored);
    fs::hard_link(world.path("a"), world.path("b")).unwrap();
    let top = world.store(&[("a", &stored), ("b", &stored)]);
    let (counts, _) = world.run(&top);
    assert_eq!(counts.files_same, 1);
    assert_eq!(counts.bytes_read + counts.bytes_unproven, 100_000);
    let tree = FileTree::read(world.pool.reader(), &top, &Patterns::default()).unwrap();
    assert_eq!((tree.totals().files, tree.totals().hard_links), (1, 1));
    let mut excludes = Patterns::default();
    excludes.add(b"a", false).unwrap();
    let tree = FileTree::read(world.pool.reader(), &top, &excludes).unwrap();
    assert_eq!((tree.totals().files, tree.totals().hard_links), (1, 0));
}
