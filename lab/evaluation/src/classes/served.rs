//! A volume of a server as the host's disk: the real rooms, and the real classes of a policy.
//!
//! The loads call this through [`Storage`].
//! Invariant: each write has other bytes, so nothing is deduplicated. The knowledge of what a block
//! is comes from the modelled file system, which `disk_layout` would read.

use super::storage::{BLOCK, BlockWrite, Counts, Stage, Storage};
use crate::disk::Ns;
use crate::rooms::machine::{Machine, MachineSettings, failed};
use crate::rooms::recorder::{Charge, DeviceName};
use crate::rooms::server::VirtualServer;
use crate::rooms::world::{EndedChain, World};
use access_pattern::{Detector, Threshold};
use classes::{Bounds, Contents, Facts, GAIN_MIN, Policy};
use media::{Random, SeededRandom};
use std::collections::VecDeque;
use std::sync::Arc;
use store::Result;
use volume::{Durability, RequestContext, Volume};
use volumes::VolumeHandle;

const NAME: &str = "disk";

/// See the module's head.
pub struct Served {
    /// The server.
    pub server: VirtualServer,
    volume: VolumeHandle,
    policy: Option<Arc<Policy>>,
    /// Histories of reads and of writes, as the server has them if the policy asks for patterns.
    patterns: Option<(Detector, Detector)>,
    noise: SeededRandom,
    buffer: Vec<u8>,
    stages: VecDeque<Stage>,
    counts: Counts,
}

impl Served {
    /// Starts a server with a volume of that size.
    pub fn new(
        world: World,
        settings: &MachineSettings,
        bytes: u64,
        chunk_log2: u8,
    ) -> Result<Self> {
        let server = VirtualServer::new(Machine::new(settings)?, world);
        let volume = server.machine.volumes.create(NAME, bytes, chunk_log2)?;
        server.machine.recorder.take();
        let asks = |policy: &Arc<Policy>| policy.asks_pattern();
        let patterns = settings.policy.as_ref().is_some_and(asks).then(|| {
            let reads = Detector::new(bytes, Threshold::for_object(bytes));
            (reads.clone(), reads)
        });
        Ok(Self {
            server,
            volume,
            policy: settings.policy.clone(),
            patterns,
            noise: SeededRandom::new(2011),
            buffer: Vec::new(),
            stages: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    fn context(
        &mut self,
        first: u64,
        count: u64,
        contents: Contents,
        is_write: bool,
    ) -> RequestContext {
        let (offset_bytes, len_bytes) = (first * BLOCK, count * BLOCK);
        let pattern = self.patterns.as_mut().map(|(reads, writes)| {
            let history = if is_write { writes } else { reads };
            history.observe(offset_bytes, len_bytes)
        });
        let facts = Facts {
            contents,
            offset_bytes,
            len_bytes,
            is_write,
            pattern,
            volume: NAME,
            ..Facts::default()
        };
        let class = self.policy.as_ref().map(|policy| policy.classify(&facts));
        RequestContext {
            class: class.unwrap_or_default(),
            pattern,
            ..RequestContext::CLIENT
        }
    }
}

impl Storage for Served {
    fn read(&mut self, first: u64, count: u64, contents: Contents) -> Result<()> {
        self.counts.add(count, contents, false);
        let context = self.context(first, count, contents, false);
        let (volume, buffer) = (&self.volume, &mut self.buffer);
        buffer.resize((count * BLOCK) as usize, 0);
        let read = |_: &Machine| volume.read(context, first * BLOCK, buffer).map_err(failed);
        let charges = self.server.record(read)?;
        let waits = |charge: &Charge| charge.device == DeviceName::Pool && !charge.is_write;
        self.counts.disk_reads += u64::from(charges.iter().any(waits));
        self.stages.push_back(vec![charges]);
        Ok(())
    }

    fn write(&mut self, writes: &[BlockWrite]) -> Result<()> {
        let mut chain = Vec::new();
        for write in writes {
            let BlockWrite {
                first,
                count,
                contents,
            } = *write;
            self.counts.add(count, contents, true);
            self.server.before_write()?;
            let context = self.context(first, count, contents, true);
            let (volume, buffer) = (&self.volume, &mut self.buffer);
            buffer.resize((count * BLOCK) as usize, 0);
            self.noise.fill(buffer);
            let write = |_: &Machine| {
                let written = volume.write(context, first * BLOCK, buffer, Durability::Volatile);
                written.map_err(failed)
            };
            chain.extend(self.server.record(write)?);
        }
        self.stages.push_back(vec![chain]);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let charges = self.server.record(|machine| machine.volumes.flush())?;
        self.stages.push_back(vec![charges]);
        Ok(())
    }

    fn take(&mut self) -> VecDeque<Stage> {
        std::mem::take(&mut self.stages)
    }

    fn world(&mut self) -> &mut World {
        &mut self.server.world
    }

    fn next_ended(&mut self) -> Result<Option<EndedChain>> {
        self.server.next_ended()
    }

    fn rest(&mut self, time: Ns) -> Result<()> {
        self.server.rest(time)
    }

    fn drain(&mut self) -> Result<Ns> {
        self.server.drain()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn waited(&self) -> Ns {
        self.server.waited
    }

    /// Does what `quintet policy advise` and `policy set` with its answer do. The time of
    /// observation that the command asks for is of real loads, not of one divided.
    fn take_advice(&mut self) -> bool {
        let machine = &self.server.machine;
        let (Some(policy), Some(tier)) = (&self.policy, &machine.tier) else {
            return false;
        };
        let evidence = tier.evidence(false);
        let settings = policy.all_fast_settings();
        let advice = classes::advise(policy, &settings, &evidence, 0, Bounds::Free);
        let Some(advice) = advice.ok().filter(|advice| advice.gain() >= GAIN_MIN) else {
            return false;
        };
        let mut advised = Policy::clone(policy);
        for of in &advice.classes {
            advised.set_fast(of.class, of.settings.1);
        }
        machine.obey(&advised);
        self.policy = Some(Arc::new(advised));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Settings;
    use super::*;
    use crate::rooms::machine::FastSettings;
    use chunking::Compression;
    use classes::{Pattern, shipped};
    use volumes::Switches;

    fn served(policy: &str) -> Served {
        let settings = Settings::FULL;
        let found = shipped::find(policy).expect("a policy that ships");
        let machine = MachineSettings {
            memory_bytes: 48 << 20,
            journal_bytes: 32 << 20,
            fast: Some(FastSettings::of(48 << 20)),
            policy: Some(Arc::new(Policy::parse(found.csv).expect("it parses"))),
            switches: Switches::default(),
            compression: Compression::None,
        };
        let world = World::new(settings.array(1 << 30), settings.ssd);
        Served::new(world, &machine, 1 << 30, 12).expect("a server")
    }

    #[test]
    fn patterns_are_judged_if_the_policy_asks() {
        let mut of = served("vm-images");
        let mut seed = sim::Seed::new(1);
        let judged = |_| {
            let block = seed.below(1 << 18);
            let context = of.context(block, 1, Contents::Unknown, false);
            context.pattern
        };
        let judged: Vec<_> = (0..100).map(judged).collect();
        let random = judged.iter().filter(|of| **of == Some(Pattern::Random));
        assert!(random.count() > 60, "{judged:?}");
        let writes = of.context(0, 1, Contents::Unknown, true);
        assert_eq!(writes.pattern, Some(Pattern::Sequential), "its own history");
        let mut without = served("t5");
        let context = without.context(0, 1, Contents::Unknown, false);
        assert_eq!(context.pattern, None);
    }

    #[test]
    fn there_is_no_advice_without_evidence() {
        assert!(!served("adaptive").take_advice());
    }
}
