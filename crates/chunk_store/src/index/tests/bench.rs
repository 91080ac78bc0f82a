//! Measures time. Run by hand: `cargo test --release -p chunk_store index::tests::bench --
//! --ignored --nocapture --test-threads 1`.

use super::*;
use media::LocalDisk;
use std::time::Instant;

fn measure(what: &str, count: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    let seconds = start.elapsed().as_secs_f64();
    let rate = count as f64 / seconds / 1e6;
    println!("{what:42} {:9.1} ms {rate:7.2} M/s", seconds * 1e3);
}

fn look_up_all(index: &FingerprintIndex, fingerprints: &[Fingerprint]) {
    let mut candidates = Vec::new();
    for fingerprint in fingerprints {
        index.lookup(fingerprint, &mut candidates).unwrap();
        std::hint::black_box(&candidates);
    }
}

fn run(disk: Arc<dyn Disk>) {
    const COUNT: u64 = 1_000_000;
    let mut dice = Dice(31);
    let known: Vec<_> = (0..COUNT).map(|_| dice.fingerprint()).collect();
    let unknown: Vec<_> = (0..COUNT).map(|_| dice.fingerprint()).collect();
    let more: Vec<_> = (0..200_000).map(|_| dice.fingerprint()).collect();
    let opened = FingerprintIndex::open(Arc::clone(&disk), PATH, POOL, 256 * MIB);
    let index = opened.index;
    measure("insert 1 M", COUNT, || {
        for (n, fingerprint) in (0..).zip(&known) {
            index.insert(fingerprint, location(n)).unwrap();
        }
    });
    measure("commit them", COUNT, || {
        assert!(index.commit(&covers(1)).unwrap())
    });
    println!("{:?}", index.counters());
    drop(index);
    let opened = FingerprintIndex::open(Arc::clone(&disk), PATH, POOL, 256 * MIB);
    let index = opened.index;
    measure("look up 1 M, warming", COUNT, || {
        look_up_all(&index, &known)
    });
    measure("look up 1 M known, hot", COUNT, || {
        look_up_all(&index, &known)
    });
    measure("look up 1 M unknown, hot", COUNT, || {
        look_up_all(&index, &unknown)
    });
    measure("look up 2 x 1 M known, hot, two threads", 2 * COUNT, || {
        std::thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| look_up_all(&index, &known))));
        });
    });
    for round in 0..3u64 {
        let (first, part) = (COUNT + round * 60_000, (round as usize * 60_000, 60_000));
        let part = more.iter().skip(part.0).take(part.1);
        (first..)
            .zip(part)
            .for_each(|(n, fp)| index.insert(fp, location(n)).unwrap());
        measure("commit 60 k", 60_000, || {
            assert!(index.commit(&covers(2 + round)).unwrap())
        });
    }
    index.reset(2 * COUNT);
    (0..)
        .zip(&known)
        .for_each(|(n, fp)| index.insert(fp, location(n)).unwrap());
    assert!(index.commit(&covers(6)).unwrap());
    (COUNT..)
        .zip(&more)
        .for_each(|(n, fp)| index.insert(fp, location(n)).unwrap());
    measure("commit 200 k into 1 M", 200_000, || {
        assert!(index.commit(&covers(7)).unwrap())
    });
    drop(index);
    let small = FingerprintIndex::open_read_only(disk, PATH, POOL, MIB).index;
    measure("look up 1 M known, page cache only", COUNT, || {
        look_up_all(&small, &known)
    });
}

fn on(top: &std::path::Path) {
    let top = top.join(format!("quintet-index-bench-{}", std::process::id()));
    let disk = LocalDisk::new(&top);
    disk.create_top().unwrap();
    disk.make_dir("cache").unwrap();
    run(Arc::new(disk));
    std::fs::remove_dir_all(top).unwrap();
}

#[test]
#[ignore = "a benchmark"]
fn on_disk() {
    on(&std::env::temp_dir());
}

#[test]
#[ignore = "a benchmark"]
fn in_memory() {
    on(std::path::Path::new("/dev/shm"));
}
