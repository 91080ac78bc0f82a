//! Virtual time: chains of requests on the devices.
//!
//! The server of this module and the modelled cache of the page of classes call this.
//! Invariant: a request of a chain is at its device when the one before it has ended. Chains that
//! end at the same time are returned in the order of their numbers.

use super::array::{Array, ArrayModel};
use super::recorder::{Charge, DeviceName, FileUse};
use super::ssd::{Ssd, SsdModel};
use crate::disk::{BLOCK_BYTES, DiskRequest, Ns};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Owner of a chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// A request in flight of a client, by number.
    Client(u64),
    /// Work behind clients, by number.
    Background(u64),
}

/// A chain that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedChain {
    /// Its owner.
    pub owner: Owner,
    /// When it began.
    pub since: Ns,
}

struct Chain {
    owner: Owner,
    since: Ns,
    left: VecDeque<Charge>,
}

/// Requests and bytes of one kind at one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Device, use of the file, and true for a write.
pub type TrafficKey = (DeviceName, FileUse, bool);

/// See the module's head.
pub struct World {
    array: Array,
    ssd: Ssd,
    now: Ns,
    last: u64,
    chains: BTreeMap<u64, Chain>,
    /// Requests at the flash device, and chains without any: when they end.
    ends: BinaryHeap<Reverse<(Ns, u64)>>,
    traffic: BTreeMap<TrafficKey, Traffic>,
    /// Size of the disks over which the pool's requests are spread, bytes.
    spread: Option<u64>,
}

/// Reads with at most this between them are one request at a disk: the system reads ahead.
const READ_AHEAD_GAP_BYTES: u64 = BLOCK_BYTES;

/// Chains that are spread begin at multiples of this, bytes.
const SPREAD_BYTES: u64 = 1 << 20;

fn joined(charges: Vec<Charge>) -> VecDeque<Charge> {
    let mut all: VecDeque<Charge> = VecDeque::new();
    for charge in charges {
        if let Some(last) = all.back_mut() {
            let end = last.address + last.bytes;
            let again = end.saturating_sub(BLOCK_BYTES).max(last.address);
            let gap = if charge.is_write {
                0
            } else {
                READ_AHEAD_GAP_BYTES
            };
            let from = if charge.is_write { end } else { again };
            let is_alike = (last.device, last.of, last.is_write)
                == (charge.device, charge.of, charge.is_write);
            if is_alike && (from..=end + gap).contains(&charge.address) {
                last.bytes = end.max(charge.address + charge.bytes) - last.address;
                continue;
            }
        }
        all.push_back(charge);
    }
    all
}

impl World {
    /// Creates idle devices.
    pub fn new(array: ArrayModel, ssd: SsdModel) -> Self {
        Self {
            array: Array::new(array),
            ssd: Ssd::new(ssd),
            now: 0,
            last: 0,
            chains: BTreeMap::new(),
            ends: BinaryHeap::new(),
            traffic: BTreeMap::new(),
            spread: None,
        }
    }

    /// Spreads the requests of each chain to the pool over disks of that size, from a start of its
    /// own: the pool stands for one so large that few chains need the same places.
    pub fn spread_pool(&mut self, bytes: u64) {
        self.spread = Some(bytes);
    }

    /// Returns the time.
    pub fn now(&self) -> Ns {
        self.now
    }

    /// Lets idle time pass. No chain is under way.
    pub fn rest(&mut self, time: Ns) {
        self.now += time;
    }

    /// Returns what has been asked of the devices since the last call.
    pub fn take_traffic(&mut self) -> BTreeMap<TrafficKey, Traffic> {
        std::mem::take(&mut self.traffic)
    }

    /// Returns the time that the disks have worked, of all together.
    pub fn disks_busy(&self) -> Ns {
        self.array.busy
    }

    /// Returns the number of chains under way of an owner.
    pub fn under_way(&self, of: impl Fn(Owner) -> bool) -> usize {
        self.chains.values().filter(|chain| of(chain.owner)).count()
    }

    /// Begins a chain. Requests that follow each other on a device are one. `work` passes before
    /// the first request: the client's own time.
    pub fn begin(&mut self, owner: Owner, charges: Vec<Charge>, work: Ns) {
        self.last += 1;
        let chain = Chain {
            owner,
            since: self.now,
            left: joined(charges),
        };
        self.chains.insert(self.last, chain);
        // Also one without requests ends in its turn.
        self.ends.push(Reverse((self.now + work, self.last)));
    }

    /// Sends the next request of a chain; returns the chain if there is none.
    fn advance(&mut self, number: u64) -> Option<EndedChain> {
        let chain = self.chains.get_mut(&number)?;
        let Some(charge) = chain.left.pop_front() else {
            let Chain { owner, since, .. } = self.chains.remove(&number)?;
            return Some(EndedChain { owner, since });
        };
        let key = (charge.device, charge.of, charge.is_write);
        let traffic = self.traffic.entry(key).or_default();
        traffic.requests += 1;
        traffic.bytes += charge.bytes;
        let Charge {
            address,
            bytes,
            is_write,
            ..
        } = charge;
        match charge.device {
            DeviceName::Fast => {
                let end = self.ssd.serve(self.now, bytes, is_write);
                self.ends.push(Reverse((end, number)));
            }
            DeviceName::Pool => {
                let address = self.spread.map_or(address, |bytes| {
                    let start = sim::Seed::new(number).below(bytes) / SPREAD_BYTES;
                    address + start * SPREAD_BYTES
                });
                let request = DiskRequest {
                    address,
                    bytes,
                    is_write,
                };
                self.array.submit(self.now, number, request);
            }
        }
        None
    }

    /// Lets time pass until a chain ends. `None`: none is under way.
    pub fn next_ended(&mut self) -> Option<EndedChain> {
        loop {
            let flash = self.ends.peek().map(|Reverse((at, _))| *at);
            let disks = self.array.next_event();
            let at = flash.into_iter().chain(disks).min()?;
            self.now = self.now.max(at);
            if flash == Some(at) {
                let Reverse((_, number)) = self.ends.pop()?;
                if let Some(ended) = self.advance(number) {
                    return Some(ended);
                }
                continue;
            }
            // Several may end at once: each has its turn.
            for number in self.array.complete(at) {
                self.ends.push(Reverse((at, number)));
            }
        }
    }
}
