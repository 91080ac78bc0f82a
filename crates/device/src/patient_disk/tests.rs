//! Tests a disk that hangs, and ends hanging.

use super::*;
use parking_lot::{Condvar, Mutex};
use sim::SimDisk;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, thread};

/// For requests that must succeed: nothing waits for it unless the test fails.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

type Gate = Arc<(Mutex<bool>, Condvar)>;

/// A file whose reads wait for a gate.
struct Gated {
    below: Arc<dyn DiskFile>,
    gate: Gate,
    /// Reads past the cache have limits of their own.
    is_timed: bool,
}

/// A read that ends with its gate.
struct Running(Gate);

impl Drop for Running {
    fn drop(&mut self) {
        pass(&self.0);
    }
}

impl DiskFile for Gated {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediaError> {
        assert!(!self.is_timed, "a thread reads for the caller");
        pass(&self.gate);
        self.below.read_at(offset, into)
    }

    fn read_at_past_cache_within(&self, at: u64, into: &mut [u8], limit: Duration) -> TimedRead {
        let is_open = *self.gate.0.lock();
        match (self.is_timed, is_open) {
            (false, _) => TimedRead::Unable(limit),
            (true, false) => TimedRead::Late(Box::new(Running(Arc::clone(&self.gate)))),
            (true, true) => {
                self.below.read_at(at, into).unwrap();
                TimedRead::Done
            }
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.below.write_at(offset, data)
    }

    fn len(&self) -> Result<u64, MediaError> {
        self.below.len()
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.below.set_len(len)
    }

    fn sync(&self, point: Barrier) -> Result<(), MediaError> {
        self.below.sync(point)
    }
}

fn pass((is_open, changed): &(Mutex<bool>, Condvar)) {
    changed.wait_while(&mut is_open.lock(), |is_open| !*is_open);
}

fn set(gate: &(Mutex<bool>, Condvar), is_open: bool) {
    *gate.0.lock() = is_open;
    gate.1.notify_all();
}

#[test]
fn requests_reach_the_disk_and_errors_come_back() {
    let patience = Patience {
        reads: LONG,
        others: LONG,
    };
    let disk = PatientDisk::new(SimDisk::new(), patience);
    assert!(disk.make_dir("d").unwrap());
    let file = disk.create_new("d/file").unwrap();
    file.write_at(0, b"some bytes").unwrap();
    let mut bytes = [0; 5];
    file.read_at_past_cache(5, &mut bytes).unwrap();
    assert_eq!((&bytes, file.len().unwrap()), (b"bytes", 10));
    let behind = file.read_at(8, &mut bytes).unwrap_err();
    assert_eq!(
        behind.source.unwrap().kind(),
        io::ErrorKind::UnexpectedEof,
        "as the disk says it"
    );
    assert!(disk.create_new("d/file").is_err() && disk.open_read("none").is_err());
    let lock = disk.lock("d/lock").unwrap();
    assert!(disk.lock("d/lock").is_err());
    drop(lock);
    assert!(disk.lock("d/lock").is_ok());
}

/// Returns a file of one byte whose reads have little time, and its gate, which is shut.
fn gated(is_timed: bool) -> (PatientFile, Gate) {
    let disk = SimDisk::new();
    disk.create_new("file").unwrap().write_at(0, b"x").unwrap();
    let gate = Gate::default();
    let below = Arc::new(Gated {
        below: disk.open_read("file").unwrap(),
        gate: Arc::clone(&gate),
        is_timed,
    });
    let file = PatientFile {
        file: Patient {
            below,
            threads: Arc::default(),
            patience: Patience {
                reads: SHORT,
                others: LONG,
            },
        },
        path: "file".to_owned(),
    };
    (file, gate)
}

fn hangs_once_and_ends(
    (file, gate): &(PatientFile, Gate),
    read: impl Fn(&PatientFile, &mut [u8]) -> Result<(), MediaError>,
) {
    let mut byte = [0];
    let late = read(file, &mut byte).unwrap_err();
    assert!(late.to_string().contains("does not answer"), "{late}");
    // No thread begins another request, not even one that may take longer.
    let refused = file.len().unwrap_err();
    assert_eq!(refused.source.unwrap().kind(), io::ErrorKind::TimedOut);
    let refused = file.read_at_past_cache(0, &mut byte).unwrap_err();
    assert_eq!(refused.source.unwrap().kind(), io::ErrorKind::TimedOut);
    assert_eq!(file.file.threads.queue.lock().threads, 1);
    set(gate, true);
    while file.file.threads.late.load(Relaxed) > 0 {
        thread::yield_now();
    }
    assert_eq!(file.len().unwrap(), 1);
    assert_eq!(byte, [0], "what came too late was dropped");
}

#[test]
fn a_hang_costs_one_limit_and_ends_by_itself() {
    hangs_once_and_ends(&gated(false), |file, byte| file.read_at(0, byte));
    hangs_once_and_ends(&gated(false), |file, byte| file.read_at_past_cache(0, byte));
}

#[test]
fn a_file_that_gives_up_reads_itself_needs_threads_for_a_hang_only() {
    let timed = gated(true);
    hangs_once_and_ends(&timed, |file, byte| file.read_at_past_cache(0, byte));
    let timed = gated(true);
    set(&timed.1, true);
    let mut byte = [0];
    timed.0.read_at_past_cache(0, &mut byte).unwrap();
    assert_eq!(byte, *b"x");
    assert_eq!(timed.0.file.threads.queue.lock().threads, 0);
}
