//! The storage that a user would have otherwise: the disks alone, or with a write-back LRU cache on
//! flash.
//!
//! The loads call this through [`Storage`].
//! Invariant: a dirty block is in the cache; it leaves only after it was written to the disks. The
//! cache cleans from 75 % dirty down to 25 % (published), beside the clients.

use super::lru::Lru;
use super::settings::Settings;
use super::storage::{BLOCK, BlockWrite, Counts, Stage, Storage};
use crate::disk::Ns;
use crate::rooms::recorder::{Charge, DeviceName, FileUse};
use crate::rooms::world::{EndedChain, Owner, World};
use classes::Contents;
use std::collections::{BTreeSet, VecDeque};
use store::Result;

const DIRTY_HIGH: u64 = 75;
const DIRTY_LOW: u64 = 25;
/// Chains of a write of many pieces that run together: the system's queue.
const TOGETHER: usize = 32;

const CLEAN: Owner = Owner::Background(0);
const FILL: Owner = Owner::Background(1);

/// See the module's head.
pub struct Conventional {
    world: World,
    settings: Settings,
    cache: Option<Lru>,
    dirty: BTreeSet<u64>,
    is_cleaning: bool,
    cleaned_to: u64,
    stages: VecDeque<Stage>,
    counts: Counts,
}

impl Conventional {
    /// Starts with an empty cache of `cache_blocks`; 0: the disks alone.
    pub fn new(world: World, settings: Settings, cache_blocks: u64) -> Self {
        Self {
            world,
            settings,
            cache: (cache_blocks > 0).then(|| Lru::new(cache_blocks)),
            dirty: BTreeSet::new(),
            is_cleaning: false,
            cleaned_to: 0,
            stages: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Returns a request. On the disks, the block groups of the file system are spread.
    fn charge(&self, device: DeviceName, first: u64, count: u64, is_write: bool) -> Charge {
        let (of, address) = match device {
            DeviceName::Pool => (FileUse::Container, self.settings.place(first)),
            DeviceName::Fast => (FileUse::Tier, first * BLOCK),
        };
        Charge {
            device,
            of,
            address,
            bytes: count * BLOCK,
            is_write,
        }
    }

    /// Takes the run of dirty blocks around one: it is clean when the returned requests have ended.
    fn clean_around(&mut self, block: u64) -> Vec<Charge> {
        let granule = self.settings.granule;
        let mut first = block;
        while first > 0 && block - first < granule / 2 && self.dirty.contains(&(first - 1)) {
            first -= 1;
        }
        let mut count = 0;
        while count < granule && self.dirty.remove(&(first + count)) {
            count += 1;
        }
        let count = count.max(1);
        self.cleaned_to = first + count;
        vec![
            self.charge(DeviceName::Fast, first, count, false),
            self.charge(DeviceName::Pool, first, count, true),
        ]
    }

    /// Enters blocks into the cache. Returns the requests that must precede: dirty victims.
    fn enter(&mut self, first: u64, count: u64) -> Vec<Charge> {
        let mut before = Vec::new();
        for block in first..first + count {
            let victim = self.cache.as_mut().and_then(|cache| cache.admit(block));
            if let Some(victim) = victim
                && self.dirty.contains(&victim)
            {
                before.extend(self.clean_around(victim));
            }
        }
        before
    }

    /// Begins to clean, as much as may be in flight.
    fn clean(&mut self) {
        let capacity = self.settings.flash_bytes() / BLOCK;
        let dirty = self.dirty.len() as u64 * 100;
        self.is_cleaning &= dirty > DIRTY_LOW * capacity;
        self.is_cleaning |= dirty >= DIRTY_HIGH * capacity;
        while self.is_cleaning
            && self.world.under_way(|of| of == CLEAN) < self.settings.destages
            && self.clean_next()
        {
            self.is_cleaning = self.dirty.len() as u64 * 100 > DIRTY_LOW * capacity;
        }
    }

    /// Begins to clean the next dirty blocks, upwards. Returns false if there are none.
    fn clean_next(&mut self) -> bool {
        let upwards = self.dirty.range(self.cleaned_to..).next();
        let Some(block) = upwards.or(self.dirty.first()).copied() else {
            return false;
        };
        let charges = self.clean_around(block);
        self.world.begin(CLEAN, charges, 0);
        true
    }
}

impl Storage for Conventional {
    fn read(&mut self, first: u64, count: u64, contents: Contents) -> Result<()> {
        self.counts.add(count, contents, false);
        let mut waits = false;
        let (mut at, end) = (first, first + count);
        while at < end {
            let is_hit = |block| self.cache.as_ref().is_some_and(|cache| cache.has(block));
            let hits = is_hit(at);
            let len = (at..end).take_while(|block| is_hit(*block) == hits).count() as u64;
            let device = if hits {
                DeviceName::Fast
            } else {
                DeviceName::Pool
            };
            waits |= !hits;
            let charge = self.charge(device, at, len, false);
            self.stages.push_back(vec![vec![charge]]);
            let mut before = self.enter(at, len);
            if !hits && self.cache.is_some() {
                before.push(self.charge(DeviceName::Fast, at, len, true));
                self.world.begin(FILL, before, 0);
            }
            at += len;
        }
        self.counts.disk_reads += u64::from(waits);
        Ok(())
    }

    fn write(&mut self, writes: &[BlockWrite]) -> Result<()> {
        let mut chains: Stage = vec![Vec::new(); TOGETHER.min(writes.len())];
        let together = chains.len();
        for (nth, write) in writes.iter().enumerate() {
            let BlockWrite { first, count, .. } = *write;
            self.counts.add(count, write.contents, true);
            let mut charges = self.enter(first, count);
            let device = match self.cache {
                Some(_) => DeviceName::Fast,
                None => DeviceName::Pool,
            };
            if self.cache.is_some() {
                self.dirty.extend(first..first + count);
            }
            charges.push(self.charge(device, first, count, true));
            if let Some(chain) = chains.get_mut(nth % together) {
                chain.extend(charges);
            }
        }
        self.stages.push_back(chains);
        Ok(())
    }

    /// The cache and the disks lose nothing.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn take(&mut self) -> VecDeque<Stage> {
        std::mem::take(&mut self.stages)
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn next_ended(&mut self) -> Result<Option<EndedChain>> {
        loop {
            self.clean();
            if self.world.under_way(|of| matches!(of, Owner::Client(_))) == 0 {
                return Ok(None);
            }
            match self.world.next_ended() {
                Some(ended) if matches!(ended.owner, Owner::Client(_)) => return Ok(Some(ended)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn rest(&mut self, time: Ns) -> Result<()> {
        let until = self.world.now() + time;
        self.clean();
        while self.world.next_ended().is_some() {
            self.clean();
        }
        self.world.rest(until.saturating_sub(self.world.now()));
        Ok(())
    }

    fn drain(&mut self) -> Result<Ns> {
        let since = self.world.now();
        loop {
            while self.world.under_way(|of| of == CLEAN) < self.settings.destages
                && self.clean_next()
            {}
            if self.world.next_ended().is_none() {
                return Ok(self.world.now() - since);
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
