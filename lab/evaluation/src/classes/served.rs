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
use classes::{Contents, Facts, Policy};
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
        Ok(Self {
            server,
            volume,
            policy: settings.policy.clone(),
            noise: SeededRandom::new(2011),
            buffer: Vec::new(),
            stages: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    fn context(
        &self,
        first: u64,
        count: u64,
        contents: Contents,
        is_write: bool,
    ) -> RequestContext {
        let facts = Facts {
            contents,
            offset_bytes: first * BLOCK,
            len_bytes: count * BLOCK,
            is_write,
            volume: NAME,
            ..Facts::default()
        };
        let class = self.policy.as_ref().map(|policy| policy.classify(&facts));
        RequestContext {
            class: class.unwrap_or_default(),
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
}
