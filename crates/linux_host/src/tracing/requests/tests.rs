use super::*;

const KIB: u64 = 1024;

fn access(kind: AccessKind, thread: u32, offset: u64, bytes: u64) -> FileAccess {
    FileAccess {
        inode: 9,
        root: 5,
        generation: 1,
        offset,
        bytes,
        kind,
        thread,
    }
}

const ID: FileId = FileId {
    device: 1,
    root: 5,
    inode: 9,
    generation: 1,
};

/// Start and end in KiB, and the number of requests.
fn ranges_of(accesses: &[FileAccess]) -> (Vec<(u64, u64, u64)>, u64) {
    let mut requests = Requests::new(TraceOptions::default());
    for access in accesses {
        requests.record(access);
    }
    let ranges = requests.ranges(ID, 1 << 30);
    let ranges = ranges.iter().map(|range| {
        let weight = range.weight / fragpicker::REQUEST_WEIGHT;
        (range.start / KIB, range.end / KIB, weight)
    });
    (ranges.collect(), requests.reads + requests.writes)
}

#[test]
fn a_long_read_that_is_reported_in_parts_counts_once() {
    let read = |start: u64| access(AccessKind::Read, 1, start * KIB, (1024 - start) * KIB);
    let parts = [read(0), read(60), read(124), read(1020)];
    assert_eq!(ranges_of(&parts), (vec![(0, 1024, 1)], 1));
    // The same again is another request.
    let twice = [parts, parts].concat();
    assert_eq!(ranges_of(&twice), (vec![(0, 1024, 2)], 2));
    // So is the second part, if another thread asks for it.
    let other = [read(0), access(AccessKind::Read, 2, 60 * KIB, 964 * KIB)];
    assert_eq!(ranges_of(&other), (vec![(0, 1024, 2)], 2));
}

#[test]
fn small_sequential_reads_are_sequential_although_they_are_reported_by_the_page() {
    // Reads of 3,000 bytes up to 512 KiB.
    let read = |n: u64| {
        let (start, end) = (n * 3000 / 4096, (n * 3000 + 2999) / 4096);
        access(AccessKind::Read, 1, start * 4096, (end + 1 - start) * 4096)
    };
    let reads: Vec<_> = (0..512 * KIB / 3000).map(read).collect();
    let (ranges, _) = ranges_of(&reads);
    // The first page is requested alone; from then on it is windows.
    let windows = [
        (0, 4, 1),
        (4, 132, 1),
        (132, 260, 1),
        (260, 388, 1),
        (388, 516, 1),
    ];
    assert_eq!(ranges, windows);
}

#[test]
fn direct_requests_and_writes_stay_as_they_are_and_faults_become_windows() {
    use AccessKind::{DirectRead, DirectWrite, Fault, Write};
    let some = [
        access(DirectRead, 1, 0, 128 * KIB),
        access(DirectRead, 1, 128 * KIB, 128 * KIB),
        access(DirectRead, 1, 128 * KIB, 128 * KIB),
        access(DirectWrite, 1, 300 * KIB, 4 * KIB),
        access(Write, 1, 400 * KIB, 4 * KIB),
        access(Write, 1, 404 * KIB, 4 * KIB),
        access(Fault, 1, 700 * KIB, 4 * KIB),
        access(Fault, 1, 764 * KIB, 4 * KIB),
    ];
    let (ranges, requests) = ranges_of(&some);
    let expected = [
        (0, 128, 1),
        (128, 256, 2),
        (300, 304, 1),
        (400, 404, 1),
        (404, 408, 1),
        (640, 768, 2),
    ];
    assert_eq!((ranges, requests), (expected.to_vec(), 8));
}

#[test]
fn a_direct_request_that_the_system_repeats_counts_once() {
    use AccessKind::{ComesAgain, DirectRead, Read};
    let read = access(DirectRead, 1, 0, 4096);
    let fails = access(ComesAgain, 1, 0, 1);
    let (ranges, requests) = ranges_of(&[read, fails, read, read]);
    assert_eq!((ranges, requests), (vec![(0, 4, 2)], 2));
    // Again through the page cache.
    let buffered = access(Read, 1, 0, 4096);
    assert_eq!(ranges_of(&[read, fails, buffered]).1, 1);
    // By a worker, and not at another offset.
    let worker = access(DirectRead, 2, 0, 4096);
    let elsewhere = access(DirectRead, 1, 8192, 4096);
    assert_eq!(ranges_of(&[read, fails, elsewhere, worker]).1, 2);
}

#[test]
fn exact_reads_within_a_page_all_count() {
    let read = |offset: u64| access(AccessKind::Read, 1, offset, 100);
    let (ranges, requests) = ranges_of(&[read(50), read(50), read(900)]);
    assert_eq!((ranges, requests), (vec![(0, 4, 3)], 3));
}

#[test]
fn files_with_the_same_inode_are_distinguished() {
    let mut requests = Requests::new(TraceOptions::default());
    let mut other = access(AccessKind::DirectRead, 1, 0, 4096);
    requests.record(&other);
    other.root = 6;
    requests.record(&other);
    other.generation = 2;
    requests.record(&other);
    assert_eq!(requests.files(), 3);
    assert_eq!(requests.ranges(ID, 4096).len(), 1);
}
