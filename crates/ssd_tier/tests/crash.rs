//! Power losses at every point, explored: after any of them a lookup returns the right bytes or
//! nothing, and what was durable before the history is lost only where it was overwritten.

use crate::world;

use sim::{Damage, Expected, Explorer, History, Scenario, Seed, SimDisk};
use std::sync::Arc;
use world::{Keys, NAME, World, options};

/// Offers chunks until slots are written over and over, with restarts and kills.
struct Filling {
    seed: u64,
    is_sealed: bool,
}

const BLOCKS: u64 = 6;

impl Scenario for Filling {
    type Op = u64;
    type Model = Vec<u64>;

    fn apply(&self, model: &mut Vec<u64>, op: &u64) {
        model.push(*op);
    }

    fn run(&self, disk: &Arc<SimDisk>, history: &History<u64>) -> Result<(), String> {
        let mut seed = Seed::new(self.seed);
        let keys = Keys::new(1, self.is_sealed);
        let mut disk = Arc::clone(disk);
        let mut world = World::on(Arc::clone(&disk), keys.clone(), options(BLOCKS));
        for n in 0..120 {
            let n = n / 2 + seed.below(60);
            let _ = history.op(n, || {
                world.offer(n);
                Ok::<(), String>(())
            });
            match seed.below(20) {
                0 => world.flush(),
                1 => world.reopen(),
                2 => {
                    disk = disk.kill();
                    world = World::on(Arc::clone(&disk), keys.clone(), options(BLOCKS));
                }
                _ => world.settle(),
            }
            world.count([n]);
        }
        world.flush();
        Ok(())
    }

    fn check(&self, disk: &Arc<SimDisk>, expected: &Expected<Self>) -> Result<(), String> {
        let keys = Keys::new(1, self.is_sealed);
        let mut world = World::on(Arc::clone(disk), keys, options(BLOCKS));
        if !world.is_ready() {
            return Err(format!("{:?}", world.tier.status()));
        }
        // Fails if any bytes are wrong.
        world.count(0..200);
        let offered = |n: &u64| expected.acked.contains(n) || expected.in_flight.contains(n);
        if let Some(n) = (0..200).find(|n| world.has(*n) && !offered(n)) {
            return Err(format!("chunk {n} was never offered"));
        }
        // Readers look up before they offer. Here an earlier check may have been torn.
        world.count([1000, 1001]);
        world.fill([1000, 1001]);
        match world.count([1000, 1001]) {
            2 => Ok(()),
            _ => Err(format!("{:?}", world.tier.status())),
        }
    }
}

#[test]
fn after_any_crash_a_lookup_is_right_or_a_miss() {
    for (seed, is_sealed) in [(1, false), (2, true), (3, true)] {
        let mut explorer = Explorer::new(seed, 900);
        explorer.threads = 2;
        explorer.recovery_depth = 1;
        let report = explorer.explore(&Filling { seed, is_sealed });
        report.expect_none();
        assert!(report.states > 300, "{report:?}");
        println!(
            "{} states, {} in recovery",
            report.states, report.recovery_states
        );
    }
}

/// The explorer's canary: a file in which the power loss left old bytes under new headers. The
/// checks find every chunk of it.
#[test]
fn a_torn_block_is_noticed_chunk_by_chunk() {
    let mut world = World::new(BLOCKS, true);
    world.fill(1..=12);
    let old = world.disk.image().contents(NAME).expect("the file");
    world.fill(100..=250);
    let new = world.disk.image().contents(NAME).expect("the file");
    for cut in [512, 1024, 4096, 10_240, 30_208] {
        let mut torn = old.clone();
        torn.resize(new.len().max(old.len()), 0);
        torn[..cut].copy_from_slice(&new[..cut]);
        let disk = SimDisk::on(world.disk.image());
        disk.damage(NAME, &Damage::Replace(torn)).expect("the file");
        let torn = World::on(disk, world.keys.clone(), world.options);
        torn.count(1..=12);
        let before = torn.tier.status().damaged;
        torn.count(100..=250);
        assert!(cut <= 512 || torn.tier.status().damaged > before, "{cut}");
    }
}
