//! Measures the journal on a real disk: appends, flushes, reads and replay, plain and sealed.
//!
//! `cargo run --release -p volumes --example journal_speed -- DIRECTORY`. Creates a journal of 1
//! GiB below the directory and removes it afterwards. Rates are per second of wall time. The second
//! number of a row is per second of processor time, which other work on the machine disturbs less.

use format::config::Seal;
use media::{LocalDisk, Media, Syncing};
use std::path::Path;
use std::time::Instant;
use store::MasterKey;
use units::{JournalPosition, PoolId, VolumeId};
use volumes::{Journal, JournalOptions, Record};

const OPTIONS: JournalOptions = JournalOptions {
    bytes_max: 1 << 30,
    slot_bytes: 64 << 20,
    buffer_bytes: 32 << 20,
};
const RECORD_BYTES: usize = 4096;

fn open(dir: &Path, seal: Seal, from: JournalPosition, records: &mut u64) -> Journal {
    let media = Media::local(dir, Syncing::Inline);
    let (pool, master) = (PoolId([1; 16]), MasterKey::new([2; 32]));
    let mut take = |_, _: Record<'_>| {
        *records += 1;
        Ok(())
    };
    let (journal, damage) =
        Journal::open(&media, pool, &master, seal, &OPTIONS, from, &mut take).expect("open");
    assert!(damage.is_empty(), "{damage:?}");
    journal
}

fn record(number: u64, data: &[u8]) -> Record<'_> {
    Record::Write {
        volume: VolumeId([3; 16]),
        offset_bytes: number * RECORD_BYTES as u64,
        data,
    }
}

/// Returns the processor time of this process, seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    let ticks = |n: usize| fields[n].parse::<f64>().expect("a number");
    (ticks(12) + ticks(13)) / 100.0
}

/// Runs `work`, which does `count` operations, and prints a row.
fn row(name: &str, seal: Seal, count: u64, work: impl FnOnce()) {
    let (wall, processor) = (Instant::now(), processor_seconds());
    work();
    let wall = wall.elapsed().as_secs_f64();
    let processor = processor_seconds() - processor;
    let rate = |seconds: f64| count as f64 / seconds.max(0.001);
    println!(
        "{seal:?} {name}: {:.0}/s, {:.0} per second of processor time",
        rate(wall),
        rate(processor)
    );
}

fn measure(dir: &Path, seal: Seal) {
    let journal = open(dir, seal, JournalPosition(0), &mut 0);
    let data: Vec<u8> = (0..RECORD_BYTES).map(|n| (n * 7) as u8).collect();
    let append = |number| journal.append(&record(number, &data)).expect("append");
    let all = 200_000;
    // The first lap creates the slots.
    let lap = |name: &str| {
        row(name, seal, all, || {
            for number in 0..all {
                append(number);
                journal.write_out().expect("write");
            }
            journal.flush().expect("flush");
        });
        journal.trim(journal.head());
    };
    lap("appends of 4 KiB, slots new");
    lap("appends of 4 KiB, written and synced at the end");
    let batch = 50_000;
    row("appends of 4 KiB into memory", seal, batch, || {
        for number in 0..batch {
            append(number);
        }
    });
    row("writes of what was appended", seal, batch, || {
        journal.flush().expect("flush");
    });
    let alone = 500;
    row("flushes of one record, one thread", seal, alone, || {
        for number in 0..alone {
            append(number);
            journal.flush().expect("flush");
        }
    });
    let before = journal.usage();
    row(
        "flushes of one record, 16 threads",
        seal,
        16 * alone,
        || {
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        for number in 0..alone {
                            append(number);
                            journal.flush().expect("flush");
                        }
                    });
                }
            });
        },
    );
    let after = journal.usage();
    println!(
        "{seal:?} {} syncs for {} flushes, {} bytes written for each record of 4096",
        after.syncs - before.syncs,
        after.flushes - before.flushes,
        (after.bytes_written - before.bytes_written) / (after.records - before.records)
    );
    let kept: Vec<_> = (0..batch).map(append).collect();
    let mut into = vec![0; RECORD_BYTES];
    let mut read_all = |name: &str| {
        row(name, seal, batch, || {
            // A stride that visits all records out of order.
            for number in 0..batch {
                let at = kept[(number * 24_781 % batch) as usize];
                journal.read(at, 0, &mut into).expect("read");
            }
        });
        assert_eq!(into, data);
    };
    read_all("reads of 4 KiB from memory");
    journal.flush().expect("flush");
    read_all("reads of 4 KiB from slots (in the page cache)");
    let from = journal.head();
    journal.trim(from);
    for number in 0..all {
        append(number);
        journal.write_out().expect("write");
    }
    journal.flush().expect("flush");
    drop(journal);
    let mut replayed = 0;
    row("records replayed (in the page cache)", seal, all, || {
        open(dir, seal, from, &mut replayed);
    });
    assert!(replayed >= all);
}

fn main() {
    let dir = std::env::args()
        .nth(1)
        .expect("usage: journal_speed DIRECTORY");
    for seal in [Seal::None, Seal::Aes256Gcm] {
        let dir = Path::new(&dir).join(format!("journal-speed-{}", std::process::id()));
        LocalDisk::new(&dir).create_top().expect("a directory");
        measure(&dir, seal);
        std::fs::remove_dir_all(&dir).expect("remove");
    }
}
