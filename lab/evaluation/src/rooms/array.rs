//! Disks in an array, in virtual time: stripes, copies, and a queue for each disk.
//!
//! The world calls this.
//! Invariant: a request ends when all its pieces have ended. Each disk serves one piece at a time,
//! and takes the next in the direction of its arm, so none waits for more than a sweep.

use crate::disk::{Disk, DiskModel, DiskRequest, Ns};
use std::collections::BTreeMap;

/// Properties of an array.
#[derive(Clone, Copy, Debug)]
pub struct ArrayModel {
    /// Number of disks.
    pub disks: u64,
    /// Number of disks that have each stripe: 2 on neighbours is RAID 1E.
    pub copies: u64,
    /// Size of a stripe, bytes.
    pub stripe_bytes: u64,
    /// Each disk. Its capacity says how far the arms move.
    pub disk: DiskModel,
}

#[derive(Clone, Debug)]
struct Spindle {
    disk: Disk,
    head: u64,
    /// Pieces by address and number: the request of each.
    queue: BTreeMap<(u64, u64), (u64, DiskRequest)>,
    running: Option<(Ns, u64)>,
}

/// See the module's head.
pub struct Array {
    model: ArrayModel,
    spindles: Vec<Spindle>,
    pieces: u64,
    /// Pieces that each request waits for.
    waiting: BTreeMap<u64, u64>,
    /// Time that disks have worked, of all together.
    pub busy: Ns,
}

impl Array {
    /// Creates idle disks.
    pub fn new(model: ArrayModel) -> Self {
        let spindle = Spindle {
            disk: Disk::new(model.disk),
            head: 0,
            queue: BTreeMap::new(),
            running: None,
        };
        Self {
            model,
            spindles: vec![spindle; model.disks.max(1) as usize],
            pieces: 0,
            waiting: BTreeMap::new(),
            busy: 0,
        }
    }

    fn spindle_of(&self, stripe: u64, copy: u64) -> (usize, u64) {
        let position = stripe * self.model.copies + copy;
        let disks = self.spindles.len() as u64;
        ((position % disks) as usize, position / disks)
    }

    fn queued(&self, nth: usize) -> usize {
        let spindle = self.spindles.get(nth);
        spindle.map_or(0, |s| s.queue.len() + usize::from(s.running.is_some()))
    }

    /// Queues a request.
    pub fn submit(&mut self, now: Ns, id: u64, request: DiskRequest) {
        let stripe_bytes = self.model.stripe_bytes;
        let (mut at, end) = (request.address, request.address + request.bytes.max(1));
        let mut touched = Vec::new();
        while at < end {
            let (stripe, within) = (at / stripe_bytes, at % stripe_bytes);
            let bytes = (stripe_bytes - within).min(end - at);
            let copies = (0..self.model.copies).map(|copy| self.spindle_of(stripe, copy));
            let mut places: Vec<(usize, u64)> = copies.collect();
            if !request.is_write {
                places.sort_by_key(|(nth, _)| self.queued(*nth));
                places.truncate(1);
            }
            for (nth, row) in places {
                let piece = DiskRequest {
                    address: row * stripe_bytes + within,
                    bytes,
                    is_write: request.is_write,
                };
                self.pieces += 1;
                *self.waiting.entry(id).or_default() += 1;
                if let Some(spindle) = self.spindles.get_mut(nth) {
                    spindle
                        .queue
                        .insert((piece.address, self.pieces), (id, piece));
                }
                touched.push(nth);
            }
            at += bytes;
        }
        for nth in touched {
            self.start(now, nth);
        }
    }

    fn start(&mut self, now: Ns, nth: usize) {
        let Some(spindle) = self.spindles.get_mut(nth) else {
            return;
        };
        if spindle.running.is_some() {
            return;
        }
        let ahead = spindle.queue.range((spindle.head, 0)..).next();
        let next = ahead.or(spindle.queue.iter().next()).map(|(key, _)| *key);
        if let Some(key) = next
            && let Some((id, mut piece)) = spindle.queue.remove(&key)
        {
            // Neighbours of the same request are one: the drive's queue merges them.
            let mut others = Vec::new();
            while let Some((next, (of, more))) = spindle.queue.range((key.0, 0)..).next()
                && *of == id
                && more.is_write == piece.is_write
                && more.address == piece.address + piece.bytes
            {
                piece.bytes += more.bytes;
                let next = *next;
                spindle.queue.remove(&next);
                others.push(id);
            }
            if let Some(waits) = self.waiting.get_mut(&id) {
                *waits -= others.len() as u64;
            }
            let end = spindle
                .disk
                .serve(now.max(spindle.disk.idle_since()), piece);
            self.busy += end - now;
            // Behind its start, not its end: pieces overlap, and those skipped would starve.
            spindle.head = piece.address + 1;
            spindle.running = Some((end, id));
        }
    }

    /// Returns when the next piece ends.
    pub fn next_event(&self) -> Option<Ns> {
        let running = self.spindles.iter().filter_map(|s| s.running);
        running.map(|(end, _)| end).min()
    }

    /// Ends the pieces whose time is over. Returns the requests that have ended.
    pub fn complete(&mut self, now: Ns) -> Vec<u64> {
        let mut ended = Vec::new();
        for nth in 0..self.spindles.len() {
            let Some(spindle) = self.spindles.get_mut(nth) else {
                continue;
            };
            let Some((_, id)) = spindle.running.take_if(|(end, _)| *end <= now) else {
                continue;
            };
            let waits = self.waiting.get_mut(&id);
            let left = waits.map_or(0, |waits| {
                *waits -= 1;
                *waits
            });
            if left == 0 {
                self.waiting.remove(&id);
                ended.push(id);
            }
            self.start(now, nth);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SECOND;

    fn array(disks: u64, copies: u64) -> Array {
        Array::new(ArrayModel {
            disks,
            copies,
            stripe_bytes: 64 << 10,
            disk: DiskModel::SERVER,
        })
    }

    fn run(array: &mut Array, requests: &[DiskRequest]) -> Ns {
        for (id, request) in (0..).zip(requests) {
            array.submit(0, id, *request);
        }
        let (mut now, mut ended) = (0, 0);
        while let Some(next) = array.next_event() {
            now = next;
            ended += array.complete(now).len();
        }
        assert_eq!(ended, requests.len());
        now
    }

    #[test]
    fn disks_work_together_and_copies_cost_writes_only() {
        let mut seed = sim::Seed::new(1);
        let mut random = |is_write| {
            let request = |_| DiskRequest {
                address: seed.below(100 << 30) & !4095,
                bytes: 4096,
                is_write,
            };
            (0..2000).map(request).collect::<Vec<_>>()
        };
        let (reads, writes) = (random(false), random(true));
        let one = run(&mut array(1, 1), &reads);
        let five = run(&mut array(5, 1), &reads);
        assert!(one > 3 * five, "{one}, {five}");
        let copied = run(&mut array(5, 2), &reads);
        assert!(copied < five * 13 / 10, "{copied}, {five}");
        let both = run(&mut array(5, 2), &writes);
        assert!(both > copied * 3 / 2, "{both}, {copied}");
    }

    #[test]
    fn a_request_that_overlaps_the_one_before_it_does_not_starve() {
        let mut array = array(1, 1);
        let request = |address| DiskRequest {
            address,
            bytes: 8192,
            is_write: false,
        };
        // Two clients read the same place again and again; the third one a place in it.
        array.submit(0, 1, request(0));
        array.submit(0, 2, request(0));
        array.submit(0, 3, request(4096));
        let mut next = 3;
        while let Some(now) = array.next_event().filter(|now| *now < SECOND) {
            let ended = array.complete(now);
            if ended.contains(&3) {
                return;
            }
            for _ in ended {
                next += 1;
                array.submit(now, next, request(0));
            }
        }
        panic!("it waits for a second");
    }
}
