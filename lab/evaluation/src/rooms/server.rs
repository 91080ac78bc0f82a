//! A server in virtual time: requests of clients, and the work of its threads beside them.
//!
//! The loads of the pages call this.
//! Invariant: checkpoints, fetches, the tier's steps and the index's copy are made as the threads
//! of a server make them: in steps, the next one when the requests of the last one have ended. A
//! write waits while the journal is as good as full.

use super::machine::{BEGIN, Machine};
use super::recorder::Charge;
use super::world::{EndedChain, Owner, OwnerKind, World};
use crate::disk::{MILLISECOND, Ns, SECOND};
use std::collections::VecDeque;
use store::Result;
use units::UnixNanos;
use volumes::CheckpointStep;

/// Bytes of a step of a checkpoint, and of a step of the tier; `threads::destager`, `tiering`.
const STEP_BYTES: u64 = 8 << 20;
/// Bytes of the index that are copied at once, and the pause after that.
const COPY_BYTES: u64 = 1 << 20;
const COPY_PAUSE: Ns = 50 * MILLISECOND;
/// Pause of the tier's thread when there is nothing to do.
const TIER_PAUSE: Ns = 200 * MILLISECOND;
/// Number of threads that fetch.
const FETCHERS: usize = 2;
/// Time without writes after which a checkpoint begins by itself.
const IDLE: Ns = 10 * SECOND;
/// From here on writers wait, percent of the journal.
const FULL: u64 = 95;

const CHECKPOINT: Owner = Owner::Background(0);
const FETCH: Owner = Owner::Background(1);
const TIER: Owner = Owner::Background(2);
const COPY: Owner = Owner::Background(3);
const TICK: Owner = Owner::Background(4);

/// Returns the name of an owner of traffic.
pub fn owner_name(owner: OwnerKind) -> &'static str {
    let of = match owner {
        OwnerKind::Clients => return "clients",
        OwnerKind::Background(number) => Owner::Background(number),
    };
    match of {
        CHECKPOINT => "checkpoints",
        FETCH => "reading ahead",
        TIER => "the tier",
        COPY => "the index's copy",
        _ => "others",
    }
}

/// See the module's head.
pub struct VirtualServer {
    /// The rooms.
    pub machine: Machine,
    /// Devices and time.
    pub world: World,
    /// Chains of clients that ended while a write waited.
    ended: VecDeque<EndedChain>,
    is_under_way: bool,
    wrote: Ns,
    tier_next: Ns,
    copy_next: Ns,
    /// Time that writers waited for the journal.
    pub waited: Ns,
}

impl VirtualServer {
    /// Starts a server on idle devices.
    pub fn new(machine: Machine, world: World) -> Self {
        Self {
            machine,
            world,
            ended: VecDeque::new(),
            is_under_way: false,
            wrote: 0,
            tier_next: 0,
            copy_next: 0,
            waited: 0,
        }
    }

    /// Returns the time as the rooms see it.
    pub fn clock(&self) -> UnixNanos {
        UnixNanos(BEGIN.0.saturating_add(self.world.now() as i64))
    }

    /// Begins a request of a client: the code runs now, and its requests to the devices are
    /// returned, for a chain.
    pub fn record(&mut self, code: impl FnOnce(&Machine) -> Result<()>) -> Result<Vec<Charge>> {
        code(&self.machine)?;
        let charges = self.machine.recorder.take();
        self.work()?;
        Ok(charges)
    }

    /// Notes a write of a client, and waits while the journal is full.
    pub fn before_write(&mut self) -> Result<()> {
        self.wrote = self.world.now();
        let since = self.world.now();
        while self.is_full() {
            self.work()?;
            match self.world.next_ended() {
                Some(ended) => self.note(ended)?,
                None => break,
            }
        }
        self.waited += self.world.now() - since;
        Ok(())
    }

    fn is_full(&self) -> bool {
        let usage = self.machine.volumes.journal_usage();
        usage.used_bytes * 100 >= FULL * usage.bytes_max
    }

    fn note(&mut self, ended: EndedChain) -> Result<()> {
        match ended.owner {
            Owner::Client(_) => self.ended.push_back(ended),
            Owner::Background(_) => self.work()?,
        }
        Ok(())
    }

    /// Lets time pass until a chain of a client ends. `None`: none is under way.
    pub fn next_ended(&mut self) -> Result<Option<EndedChain>> {
        let is_client = |owner| matches!(owner, Owner::Client(_));
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Ok(Some(ended));
            }
            if self.world.under_way(is_client) == 0 {
                return Ok(None);
            }
            match self.world.next_ended() {
                Some(ended) => self.note(ended)?,
                None => return Ok(None),
            }
        }
    }

    fn is_busy(&self, owner: Owner) -> bool {
        self.world.under_way(|of| of == owner) > 0
    }

    /// Begins what the server's threads have to do now.
    fn work(&mut self) -> Result<()> {
        let now = self.world.now();
        let volumes = &self.machine.volumes;
        while self.world.under_way(|of| of == FETCH) < FETCHERS && volumes.fetch_step() {
            let charges = self.machine.recorder.take();
            self.world.begin(FETCH, charges, 0);
        }
        let is_idle = now >= self.wrote + IDLE;
        if !self.is_busy(CHECKPOINT) && (volumes.wants_checkpoint(self.is_under_way) || is_idle) {
            let step = volumes.step(STEP_BYTES)?;
            self.is_under_way = match step {
                CheckpointStep::Working => true,
                CheckpointStep::Committed => volumes.wants_checkpoint(true),
                CheckpointStep::Idle => false,
            };
            if is_idle && step == CheckpointStep::Idle {
                self.wrote = now;
            }
            let charges = self.machine.recorder.take();
            self.world.begin(CHECKPOINT, charges, 0);
        }
        self.step_tier(now);
        if now >= self.copy_next && !self.is_busy(COPY) {
            self.copy_next = now + COPY_PAUSE;
            let pool = self.machine.volumes.pool();
            pool.step_fast_index(self.clock(), COPY_BYTES);
            let charges = self.machine.recorder.take();
            if !charges.is_empty() {
                self.world.begin(COPY, charges, 0);
            }
        }
        Ok(())
    }

    fn step_tier(&mut self, now: Ns) {
        let Some(tier) = &self.machine.tier else {
            return;
        };
        if now < self.tier_next || self.is_busy(TIER) {
            return;
        }
        let stepped = tier.step(self.clock(), STEP_BYTES);
        self.tier_next = match stepped.has_more {
            true => now,
            false => now + TIER_PAUSE,
        };
        let charges = self.machine.recorder.take();
        if !charges.is_empty() {
            self.world.begin(TIER, charges, 0);
        }
    }

    /// Lets idle time pass in which no client asks for anything, a second at a time. No chain of a
    /// client is under way.
    pub fn rest(&mut self, time: Ns) -> Result<()> {
        let until = self.world.now() + time;
        while self.world.now() < until {
            let step = SECOND.min(until - self.world.now());
            self.work()?;
            let tick = self.world.now() + step;
            self.world.begin(TICK, Vec::new(), step);
            while self.world.now() < tick {
                match self.world.next_ended() {
                    Some(EndedChain { owner: TICK, .. }) | None => break,
                    Some(_) => self.work()?,
                }
            }
        }
        Ok(())
    }

    /// Ends all that is under way, and makes a checkpoint of everything. Returns the time of it.
    pub fn drain(&mut self) -> Result<Ns> {
        let since = self.world.now();
        while self.world.next_ended().is_some() {}
        self.ended.clear();
        self.machine.volumes.checkpoint()?;
        self.machine.volumes.flush()?;
        let charges = self.machine.recorder.take();
        self.world.begin(CHECKPOINT, charges, 0);
        while self.world.next_ended().is_some() {}
        self.is_under_way = false;
        Ok(self.world.now() - since)
    }
}
