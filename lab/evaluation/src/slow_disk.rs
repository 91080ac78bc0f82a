//! A volume that is as slow as a disk, in real time: bytes in memory behind a [`Disk`].
//!
//! The example `slow_disk` mounts it, for measurements of the program.
//! Invariant: one request at a time has the head. Like a drive, it serves the request next that is
//! reached first, but none waits for long. A request takes at least the time of the model. If its
//! thread wakes late, the delay is not added to the next request.

use crate::disk::{Disk, DiskRequest, MILLISECOND, Ns};
use parking_lot::{Condvar, Mutex};
use std::io::Write;
use std::time::{Duration, Instant};
use volume::{
    Capabilities, FastPath, Layer, MemoryVolume, Operation, RequestContext, Volume, VolumeError,
    VolumeInfo,
};

/// A request that has waited this long is served next.
const PASSED_OVER_MAX: Ns = 100 * MILLISECOND;

struct Waiting {
    ticket: u64,
    since: Ns,
    request: DiskRequest,
}

struct Queue {
    disk: Disk,
    /// Ticket of the request that is served, or is next.
    served: Option<u64>,
    tickets: u64,
    waiting: Vec<Waiting>,
}

/// The volume. See the module's head.
pub struct SlowDisk {
    bytes: MemoryVolume,
    queue: Mutex<Queue>,
    turn: Condvar,
    begun: Instant,
    log: Option<Mutex<Box<dyn Write + Send>>>,
}

impl Queue {
    /// Returns the ticket of the request to serve next.
    fn next(&self, now: Ns) -> Option<u64> {
        let oldest = self.waiting.iter().min_by_key(|w| w.since)?;
        if now.saturating_sub(oldest.since) > PASSED_OVER_MAX {
            return Some(oldest.ticket);
        }
        let reached = |w: &&Waiting| {
            let begin = self.begin(w);
            (self.disk.clone().serve(begin, w.request) - begin, w.ticket)
        };
        self.waiting.iter().min_by_key(reached).map(|w| w.ticket)
    }

    fn begin(&self, waiting: &Waiting) -> Ns {
        waiting.since.max(self.disk.idle_since())
    }

    fn take(&mut self, ticket: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|w| w.ticket == ticket)?;
        Some(self.waiting.swap_remove(at))
    }
}

impl SlowDisk {
    /// Creates an empty volume.
    pub fn new(size_bytes: u64, disk: Disk) -> Self {
        Self {
            bytes: MemoryVolume::new(size_bytes),
            queue: Mutex::new(Queue {
                disk,
                served: None,
                tickets: 0,
                waiting: Vec::new(),
            }),
            turn: Condvar::new(),
            begun: Instant::now(),
            log: None,
        }
    }

    /// Logs each completed request as a line of numbers: arrival, start, end (microseconds),
    /// address, bytes, and 1 for a write.
    pub fn with_log(self, log: Box<dyn Write + Send>) -> Self {
        let log = Some(Mutex::new(log));
        Self { log, ..self }
    }

    fn tell(&self, since: Ns, begin: Ns, end: Ns, request: DiskRequest) {
        let Some(log) = &self.log else { return };
        let [since, begin, end] = [since, begin, end].map(|at| at / 1000);
        let DiskRequest {
            address,
            bytes,
            is_write,
        } = request;
        let mut log = log.lock();
        // A reader of the measurement notices a missing log.
        let _ = writeln!(
            log,
            "{since} {begin} {end} {address} {bytes} {}",
            u8::from(is_write)
        );
    }

    fn now(&self) -> Ns {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(Ns::MAX)
    }

    /// Returns when a disk would have served the request.
    fn serve(&self, address: u64, bytes: u64, is_write: bool) {
        let request = DiskRequest {
            address,
            bytes,
            is_write,
        };
        let mut queue = self.queue.lock();
        queue.tickets += 1;
        let ticket = queue.tickets;
        let since = self.now();
        queue.waiting.push(Waiting {
            ticket,
            since,
            request,
        });
        queue.served.get_or_insert(ticket);
        while queue.served != Some(ticket) {
            self.turn.wait(&mut queue);
        }
        let Some(mine) = queue.take(ticket) else {
            return;
        };
        let begin = queue.begin(&mine);
        let end = queue.disk.serve(begin, request);
        drop(queue);
        std::thread::sleep(Duration::from_nanos(end.saturating_sub(self.now())));
        let mut queue = self.queue.lock();
        queue.served = queue.next(self.now());
        drop(queue);
        self.turn.notify_all();
        self.tell(mine.since, begin, end, request);
    }
}

impl Layer for SlowDisk {
    type Inner = MemoryVolume;

    fn below(&self) -> &MemoryVolume {
        &self.bytes
    }

    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            description: "slow disk".to_owned(),
            ..self.bytes.info()
        }
    }

    /// Flushes take no time: nothing is buffered, and each write has already taken its time.
    fn around(
        &self,
        request: volume::VolumeRequest,
        go: impl FnOnce(&MemoryVolume) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        match request.operation {
            Operation::Read => self.serve(request.offset_bytes, request.len_bytes, false),
            Operation::Write => self.serve(request.offset_bytes, request.len_bytes, true),
            Operation::Flush | Operation::Discard | Operation::WriteZeroes | Operation::Extents => {
            }
        }
        go(&self.bytes)
    }

    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            fast_path: Some(self),
            ..below
        }
    }
}

/// Claims that every request waits, so that front ends submit many at once: the drive needs a queue
/// to choose from.
impl FastPath for SlowDisk {
    fn is_cached(&self, _: RequestContext, _: u64, _: u64) -> bool {
        false
    }

    fn write_now(&self, _: RequestContext, _: u64, _: &[u8]) -> Result<bool, VolumeError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::{PASSED_OVER_MAX, Queue, SlowDisk, Waiting};
    use crate::disk::{Disk, DiskModel, DiskRequest};
    use std::time::Instant;
    use volume::{RequestContext, Volume};

    const BYTES: u64 = 1 << 30;

    fn model() -> DiskModel {
        DiskModel {
            capacity: BYTES,
            ..DiskModel::SERVER
        }
    }

    fn read(disk: &SlowDisk, offset: u64) {
        let mut into = [0; 4096];
        disk.read(RequestContext::default(), offset, &mut into)
            .unwrap();
    }

    #[test]
    fn reads_take_as_long_as_the_model_says() {
        let disk = SlowDisk::new(BYTES, Disk::new(model()));
        let begun = Instant::now();
        let mut seed = sim::Seed::new(1);
        for _ in 0..30 {
            read(&disk, seed.below(BYTES / 4096) * 4096);
        }
        let mean_ms = begun.elapsed().as_secs_f64() * 1000.0 / 30.0;
        // Seven milliseconds by the model; a busy machine wakes its threads late.
        assert!((5.0..30.0).contains(&mean_ms), "{mean_ms} ms a read");
        let idle_since = disk.queue.lock().disk.idle_since();
        assert!(
            idle_since <= disk.now(),
            "nobody returns before the disk is done"
        );
    }

    #[test]
    fn waiting_requests_are_served_by_distance_and_none_is_passed_over_for_long() {
        let mut queue = Queue {
            disk: Disk::new(model()),
            served: None,
            tickets: 0,
            waiting: Vec::new(),
        };
        let mut wait = |ticket, since, address| {
            queue.waiting.push(Waiting {
                ticket,
                since,
                request: DiskRequest {
                    address,
                    bytes: 4096,
                    is_write: false,
                },
            });
        };
        wait(1, 0, BYTES - 4096);
        wait(2, 1, 0);
        assert_eq!(queue.next(2), Some(2), "the head is there");
        assert_eq!(
            queue.next(PASSED_OVER_MAX + 1),
            Some(1),
            "it has waited long enough"
        );
    }

    #[test]
    fn many_at_once_are_faster_than_one_after_another() {
        let disk = SlowDisk::new(BYTES, Disk::new(model()));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let disk = &disk;
                scope.spawn(move || {
                    let mut seed = sim::Seed::new(thread);
                    (0..5).for_each(|_| read(disk, seed.below(BYTES / 4096) * 4096));
                });
            }
        });
        // Virtual time, so a busy machine does not matter.
        assert!(
            !disk
                .capabilities()
                .is_cached(RequestContext::default(), 0, 4096),
            "front ends would serve them one after another"
        );
        let each_ms = disk.queue.lock().disk.idle_since() as f64 / 1e6 / 40.0;
        assert!(disk.queue.lock().waiting.is_empty() && disk.queue.lock().served.is_none());
        assert!(each_ms < 30.0, "{each_ms}");
    }
}
