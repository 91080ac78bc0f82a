//! Virtual time: chains of requests on the devices.
//!
//! The server of this module and the modelled cache of the page of classes call this.
//! Invariant: a request of a chain is at its device when the one before it has ended. Chains that
//! end at the same time are returned in the order of their numbers.

use super::array::{Array, ArrayModel};
use super::pacing::Pacing;
use super::recorder::{Charge, DeviceName, FileUse};
use super::ssd::{Ssd, SsdModel};
use crate::disk::{BLOCK_BYTES, DiskRequest, Ns};
use qos::Flow;
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
    flow: Flow,
    /// The next request has been delayed at the edge.
    is_delayed: bool,
}

/// Requests and bytes of one kind at one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Owners of traffic: clients, checkpoints and other work behind them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OwnerKind {
    /// Requests of clients.
    Clients,
    /// Work behind them, by number.
    Background(u64),
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
    traffic_by_owner: BTreeMap<(OwnerKind, TrafficKey), Traffic>,
    /// The scheduler in front of the pool, if there is one.
    pacing: Option<Pacing>,
    /// Where the last read of each owner from the pool ended, as the file has it.
    read_ends: BTreeMap<Owner, u64>,
    /// Size of the disks over which the pool's requests are spread, bytes.
    spread: Option<u64>,
}

/// Reads with at most this between them are one request at a disk: the system reads ahead.
const READ_AHEAD_GAP_BYTES: u64 = BLOCK_BYTES;

/// Chains that are spread begin at multiples of this, bytes.
const SPREAD_BYTES: u64 = 1 << 20;

/// A read that begins at most this far behind the end of the last one goes on; `device::PacedDisk`.
const SKIPPED_BYTES: u64 = 128 << 10;

/// Returns true if a request to the pool waits for an I/O grant: reads do, and containers' syncs.
fn waits_for_grants(charge: &Charge) -> bool {
    !charge.is_write || charge.of == FileUse::Container
}

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
            traffic_by_owner: BTreeMap::new(),
            pacing: None,
            read_ends: BTreeMap::new(),
            spread: None,
        }
    }

    /// Spreads the requests of each chain to the pool over disks of that size, from a start of its
    /// own: the pool stands for one so large that few chains need the same places.
    pub fn spread_pool(&mut self, bytes: u64) {
        self.spread = Some(bytes);
    }

    /// Puts the product's scheduler in front of the pool's disks.
    pub fn pace(&mut self, pacing: Pacing) {
        self.pacing = Some(pacing);
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
        self.traffic_by_owner.clear();
        std::mem::take(&mut self.traffic)
    }

    /// Returns the same by owner, since the last call of [`Self::take_traffic`].
    pub fn traffic_by_owner(&self) -> &BTreeMap<(OwnerKind, TrafficKey), Traffic> {
        &self.traffic_by_owner
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
        self.begin_as(owner, Flow::ForegroundNonSequential, charges, work);
    }

    /// Like [`Self::begin`], in a flow of the scheduler.
    pub fn begin_as(&mut self, owner: Owner, flow: Flow, charges: Vec<Charge>, work: Ns) {
        self.last += 1;
        let chain = Chain {
            owner,
            since: self.now,
            left: joined(charges),
            flow,
            is_delayed: false,
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
        let request = DiskRequest {
            address: charge.address,
            bytes: charge.bytes,
            is_write: charge.is_write,
        };
        let flow = chain.flow;
        let is_paced = charge.device == DeviceName::Pool && waits_for_grants(&charge);
        let pacing = self.pacing.as_ref().filter(|_| is_paced);
        let delay = pacing.map_or(0, |pacing| pacing.delay(flow, &request, self.now));
        if delay > 0 && !chain.is_delayed {
            chain.is_delayed = true;
            chain.left.push_front(charge);
            self.ends.push(Reverse((self.now + delay, number)));
            return None;
        }
        chain.is_delayed = false;
        let owner = chain.owner;
        self.count(owner, &charge);
        match charge.device {
            DeviceName::Fast => {
                let end = self.ssd.serve(self.now, charge.bytes, charge.is_write);
                self.ends.push(Reverse((end, number)));
            }
            DeviceName::Pool => {
                let is_sequential = self.is_sequential(owner, &charge);
                let request = DiskRequest {
                    address: self.spread.map_or(charge.address, |bytes| {
                        let start = sim::Seed::new(number).below(bytes) / SPREAD_BYTES;
                        charge.address + start * SPREAD_BYTES
                    }),
                    ..request
                };
                let pacing = self.pacing.as_mut().filter(|_| is_paced);
                let now = self.now;
                let is_queued =
                    pacing.is_some_and(|p| p.offer(number, flow, is_sequential, request, now));
                match is_queued {
                    true => self.grant(),
                    false => self.array.submit(self.now, number, request),
                }
            }
        }
        None
    }

    fn count(&mut self, owner: Owner, charge: &Charge) {
        let key = (charge.device, charge.of, charge.is_write);
        let kind = match owner {
            Owner::Client(_) => OwnerKind::Clients,
            Owner::Background(number) => OwnerKind::Background(number),
        };
        let by_owner = self.traffic_by_owner.entry((kind, key)).or_default();
        for traffic in [self.traffic.entry(key).or_default(), by_owner] {
            traffic.requests += 1;
            traffic.bytes += charge.bytes;
        }
    }

    /// Returns true if a read goes on where the last one of its owner ended.
    fn is_sequential(&mut self, owner: Owner, charge: &Charge) -> bool {
        if charge.is_write {
            return true;
        }
        let end = charge.address + charge.bytes;
        let last = self.read_ends.insert(owner, end);
        last.is_some_and(|last| {
            let from = last.saturating_sub(BLOCK_BYTES);
            (from..=last + SKIPPED_BYTES).contains(&charge.address)
        })
    }

    /// Sends the requests that the scheduler lets go now.
    fn grant(&mut self) {
        let now = self.now;
        while let Some((number, request)) = self.pacing.as_mut().and_then(|p| p.next(now)) {
            self.array.submit(now, number, request);
        }
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
                if let Some(pacing) = &mut self.pacing {
                    pacing.ended(number, at);
                }
                self.ends.push(Reverse((at, number)));
            }
            self.grant();
        }
    }
}
