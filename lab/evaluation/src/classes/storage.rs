//! Interface between the host and what it stores its blocks on, and clients with several requests
//! in flight.
//!
//! Invariant: an operation's stages follow each other; the chains of one stage run together. An
//! operation ends when its last stage has ended.

use crate::disk::Ns;
use crate::rooms::recorder::Charge;
use crate::rooms::world::{EndedChain, Owner, World};
use classes::Contents;
use std::collections::{BTreeMap, VecDeque};
use store::Result;

/// Size of a block, bytes.
pub const BLOCK: u64 = 4096;

/// Blocks that are written together.
#[derive(Clone, Copy, Debug)]
pub struct BlockWrite {
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Contents of the first one.
    pub contents: Contents,
}

/// Chains that run together.
pub type Stage = Vec<Vec<Charge>>;

/// Requests that reached the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Blocks read.
    pub read: u64,
    /// Blocks written.
    pub written: u64,
    /// Of all: blocks of the journal, of directories and of other metadata.
    pub special: u64,
    /// Requests to read.
    pub reads: u64,
    /// Those that waited for a disk.
    pub disk_reads: u64,
}

impl Counts {
    /// Counts blocks.
    pub fn add(&mut self, count: u64, contents: Contents, is_write: bool) {
        match is_write {
            true => self.written += count,
            false => {
                self.read += count;
                self.reads += 1;
            }
        }
        if !matches!(contents, Contents::File { .. }) {
            self.special += count;
        }
    }

    /// Returns what came after an earlier count.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read: self.read - before.read,
            written: self.written - before.written,
            special: self.special - before.special,
            reads: self.reads - before.reads,
            disk_reads: self.disk_reads - before.disk_reads,
        }
    }
}

/// The storage under the host.
pub trait Storage {
    /// Reads blocks.
    fn read(&mut self, first: u64, count: u64, contents: Contents) -> Result<()>;
    /// Writes blocks, in any order.
    fn write(&mut self, writes: &[BlockWrite]) -> Result<()>;
    /// Makes durable what was written.
    fn flush(&mut self) -> Result<()>;
    /// Returns the stages since the last call.
    fn take(&mut self) -> VecDeque<Stage>;
    /// Devices and time.
    fn world(&mut self) -> &mut World;
    /// Lets time pass until a chain of a client ends.
    fn next_ended(&mut self) -> Result<Option<EndedChain>>;
    /// Lets idle time pass in which no client asks for anything.
    fn rest(&mut self, time: Ns) -> Result<()>;
    /// Ends all that is under way and writes what is dirty to the disks. Returns the time of it.
    fn drain(&mut self) -> Result<Ns>;
    /// Requests so far.
    fn counts(&self) -> Counts;
    /// Time that clients have waited for checkpoints, because the journal was full.
    fn waited(&self) -> Ns {
        0
    }
    /// Puts in force what the storage itself advises. Returns false if that is nothing.
    fn take_advice(&mut self) -> bool {
        false
    }
}

struct InFlight {
    stages: VecDeque<Stage>,
    chains: usize,
}

/// Source of operations.
pub trait Operations {
    /// Runs the code of an operation. Returns false when there is none left.
    fn next(&mut self, storage: &mut dyn Storage) -> Result<bool>;
    /// Runs what the kernel has to do now, beside the clients. Returns false if that is nothing.
    fn kernel(&mut self, storage: &mut dyn Storage) -> Result<bool>;
}

/// The kernel has chains as a client has, and its place among them.
const KERNEL: u64 = u64::MAX;

/// Runs operations of so many clients, each with one in flight, and the kernel's beside them.
/// `work` is the time of a client for an operation.
pub fn run(
    storage: &mut dyn Storage,
    clients: u64,
    work: Ns,
    operations: &mut dyn Operations,
) -> Result<()> {
    let mut in_flight: BTreeMap<u64, InFlight> = BTreeMap::new();
    let mut free: VecDeque<u64> = (0..clients).collect();
    let mut has_more = true;
    loop {
        while has_more && let Some(client) = free.pop_front() {
            has_more = operations.next(storage)?;
            if has_more {
                in_flight.insert(client, started(storage, client, work));
            }
        }
        let is_idle = !in_flight.contains_key(&KERNEL);
        if is_idle && has_more && operations.kernel(storage)? {
            in_flight.insert(KERNEL, started(storage, KERNEL, 0));
        }
        let Some(ended) = storage.next_ended()? else {
            return Ok(());
        };
        let Owner::Client(client) = ended.owner else {
            continue;
        };
        let Some(flight) = in_flight.get_mut(&client) else {
            continue;
        };
        flight.chains -= 1;
        if flight.chains == 0 && !begin(storage.world(), client, flight, 0) {
            in_flight.remove(&client);
            if client != KERNEL {
                free.push_back(client);
            }
        }
    }
}

/// Begins the stages of an operation whose code has run.
fn started(storage: &mut dyn Storage, client: u64, work: Ns) -> InFlight {
    let mut stages = storage.take();
    // The client's own time.
    stages.push_front(vec![Vec::new()]);
    let mut flight = InFlight { stages, chains: 0 };
    begin(storage.world(), client, &mut flight, work);
    flight
}

/// Begins the next stage. Returns false if there is none.
fn begin(world: &mut World, client: u64, flight: &mut InFlight, work: Ns) -> bool {
    let Some(stage) = flight.stages.pop_front() else {
        return false;
    };
    flight.chains = stage.len().max(1);
    let mut chains = stage.into_iter();
    world.begin(
        Owner::Client(client),
        chains.next().unwrap_or_default(),
        work,
    );
    chains.for_each(|chain| world.begin(Owner::Client(client), chain, work));
    true
}
