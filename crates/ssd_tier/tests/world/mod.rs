//! A tier on a simulated disk, for the tests of this directory.

#![allow(dead_code)]

use chunking::{FingerprintKey, SealKey, derive_key};
use media::{Disk, SeededRandom};
use sim::SimDisk;
use ssd_tier::{
    Kind, KindShares, Offer, PoolKeys, Tier, TierOptions, TierSettings, TierState, TierStep,
};
use std::sync::Arc;
use units::{Fingerprint, IoClass, PoolId, UnixNanos};

/// Name of the tier's file.
pub const NAME: &str = "tier";
pub const BLOCK_BYTES: u32 = 64 << 10;

/// Keys of a pool with this number.
#[derive(Clone)]
pub struct Keys {
    pub pool: u8,
    pub is_sealed: bool,
    fingerprints: FingerprintKey,
}

impl Keys {
    pub fn new(pool: u8, is_sealed: bool) -> Self {
        Self {
            pool,
            is_sealed,
            fingerprints: FingerprintKey::new([pool; 32]),
        }
    }
}

impl PoolKeys for Keys {
    fn pool(&self) -> PoolId {
        PoolId([self.pool; 16])
    }

    fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        self.fingerprints.fingerprint(chunk)
    }

    fn block_key(&self, salt: &[u8; 32]) -> Option<SealKey> {
        let material = [[self.pool; 32], *salt].concat();
        let key = derive_key("ssd_tier tests", &material);
        self.is_sealed.then(|| SealKey::new(&key))
    }
}

/// Chunk number `n`: 1 to 9000 bytes.
pub fn chunk(n: u64) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let len = 1 + next() as usize % 9000;
    let mut bytes = vec![0; len.max(8)];
    bytes.fill_with(|| next() as u8);
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// A tier with its disk and clock.
pub struct World {
    pub disk: Arc<SimDisk>,
    pub keys: Keys,
    pub tier: Tier,
    pub now: i64,
    pub opened: u64,
    pub options: TierOptions,
    pub settings: TierSettings,
}

/// Options of a tier of so many blocks, without a limit of writes.
pub fn options(blocks: u64) -> TierOptions {
    TierOptions {
        capacity_bytes: blocks * u64::from(BLOCK_BYTES),
        memory_bytes: 4 << 20,
        block_bytes: BLOCK_BYTES,
        daily_writes_hundredths: u32::MAX,
        is_reading: false,
    }
}

pub fn tier_on(
    disk: &Arc<SimDisk>,
    keys: &Keys,
    options: TierOptions,
    settings: &TierSettings,
    seed: u64,
) -> Tier {
    let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(disk);
    let random = Arc::new(SeededRandom::new(seed));
    let keys = Arc::new(keys.clone());
    Tier::new(disk, NAME, keys, random, options, settings.clone())
}

impl World {
    pub fn new(blocks: u64, is_sealed: bool) -> Self {
        Self::on(SimDisk::new(), Keys::new(1, is_sealed), options(blocks))
    }

    /// Opens a tier and waits until it is ready, or off.
    pub fn on(disk: Arc<SimDisk>, keys: Keys, options: TierOptions) -> Self {
        let settings = TierSettings::new(KindShares::ALONE);
        let tier = tier_on(&disk, &keys, options, &settings, 1);
        let mut world = Self {
            disk,
            keys,
            tier,
            now: 1_000_000_000_000,
            opened: 1,
            options,
            settings,
        };
        world.settle();
        world
    }

    /// Drops the tier and opens it again: warm.
    pub fn reopen(&mut self) {
        self.opened += 1;
        // The lock goes with the old one.
        let empty = tier_on(&SimDisk::new(), &self.keys, self.options, &self.settings, 0);
        drop(std::mem::replace(&mut self.tier, empty));
        self.tier = tier_on(
            &self.disk,
            &self.keys,
            self.options,
            &self.settings,
            self.opened,
        );
        self.settle();
    }

    pub fn step(&mut self) -> TierStep {
        self.now += 1_000_000_000;
        self.tier.step(UnixNanos(self.now), 1 << 20)
    }

    /// Steps until there is nothing to do.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.step().has_more {
                return;
            }
        }
        panic!("steps without end: {:?}", self.tier.status());
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: i64) {
        self.now += seconds * 1_000_000_000;
        self.settle();
    }

    /// Writes everything that is staged.
    pub fn flush(&mut self) {
        self.settle();
        self.now += 1_000_000_000;
        self.tier.finish(UnixNanos(self.now));
    }

    pub fn name(&self, n: u64) -> Fingerprint {
        self.keys.fingerprint(&chunk(n))
    }

    pub fn offer(&self, n: u64) -> Offer {
        self.offer_as(n, Kind::Data, 0)
    }

    pub fn offer_as(&self, n: u64, kind: Kind, class: u8) -> Offer {
        let (name, bytes) = (self.name(n), chunk(n));
        self.tier.offer(&name, kind, IoClass(class), &bytes)
    }

    /// Offers and writes chunks.
    pub fn fill(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            if self.offer(n) == Offer::Refused {
                self.settle();
                self.offer(n);
            }
            self.step();
        }
        self.flush();
    }

    /// Looks a chunk up. Fails if the bytes are wrong.
    #[track_caller]
    pub fn has(&self, n: u64) -> bool {
        let found = self.tier.lookup(&self.name(n), Kind::Data);
        if let Some(found) = &found {
            assert!(**found == *chunk(n), "other bytes for chunk {n}");
        }
        found.is_some()
    }

    /// Returns how many of these chunks are here.
    #[track_caller]
    pub fn count(&self, numbers: impl IntoIterator<Item = u64>) -> usize {
        numbers.into_iter().filter(|n| self.has(*n)).count()
    }

    pub fn is_ready(&self) -> bool {
        self.tier.status().state == TierState::Ready
    }
}
