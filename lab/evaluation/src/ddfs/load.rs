//! Clients of the images: each image has eight requests in flight, at random places.
//!
//! The rows call this.
//! Invariant: a client sends its next request when one has ended. With [`Load::serial`] the server
//! serves one request of an image at a time, as software does that locks an object.

use super::pool::{PoolCopy, name};
use super::settings::{IN_FLIGHT, REQUEST_BYTES, STREAM_BYTES, STREAM_WORK, Settings};
use crate::disk::{DiskModel, Ns, SECOND};
use crate::rooms::machine::{Machine, failed};
use crate::rooms::recorder::{Charge, DeviceName, FileUse};
use crate::rooms::server::VirtualServer;
use crate::rooms::ssd::{Ssd, SsdModel};
use crate::rooms::world::{Owner, OwnerKind, Traffic, TrafficKey, World};
use media::{Random, SeededRandom};
use sim::{Seed, SimDisk};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{Result, StoreError, StoreErrorKind};
use volume::{Durability, RequestContext, Volume};
use volumes::VolumeHandle;

/// Space for what a run writes, bytes.
const ROOM_BYTES: u64 = 64 << 30;

/// Requests of clients.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of images that are used, from the first one on.
    pub images: u64,
    /// Number of streams beside them: each reads an image in order. Without images they are
    /// measured.
    pub streams: u64,
    /// Percent of the requests that are writes.
    pub writes_percent: u64,
    /// Writes go to the images behind those that are read.
    pub writes_beside: bool,
    /// One request of an image at a time.
    pub serial: bool,
    /// Requests before the measuring.
    pub warm: u64,
    /// Requests that are measured.
    pub measured: u64,
}

impl Load {
    /// Random reads of any number of images.
    pub(super) const READS: Self = Self {
        images: 0,
        streams: 0,
        writes_percent: 0,
        writes_beside: false,
        serial: false,
        warm: 0,
        measured: 0,
    };
}

/// Results of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests that ended.
    pub requests: u64,
    /// Time that they took, of all together.
    pub time: Ns,
    /// Latency of each, sorted.
    pub latencies: Vec<Ns>,
    /// Requests to the devices, those of background work included.
    pub traffic: BTreeMap<TrafficKey, Traffic>,
    /// Bytes that streams read.
    pub stream_bytes: u64,
    /// The same by owner.
    pub by_owner: BTreeMap<(OwnerKind, TrafficKey), Traffic>,
    /// Time that writers waited for the journal.
    pub waited: Ns,
    /// Counts of the rooms.
    pub counts: Counts,
}

impl Outcome {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 * SECOND as f64 / self.time.max(1) as f64
    }

    /// Mean latency, milliseconds.
    pub fn mean_ms(&self) -> f64 {
        let sum: Ns = self.latencies.iter().sum();
        sum as f64 / self.latencies.len().max(1) as f64 / 1e6
    }

    /// The latency that 95 of 100 requests keep within, milliseconds.
    pub fn p95_ms(&self) -> f64 {
        let at = self.latencies.len() * 95 / 100;
        self.latencies.get(at).map_or(0.0, |ns| *ns as f64 / 1e6)
    }

    /// Reads of a device for files of that use, a request.
    pub fn reads(&self, device: DeviceName, of: FileUse) -> f64 {
        let traffic = self.traffic.get(&(device, of, false));
        traffic.map_or(0.0, |t| t.requests as f64) / self.requests.max(1) as f64
    }

    /// Reads of a device, a request.
    pub fn all_reads(&self, device: DeviceName) -> f64 {
        let of = |(key, _): &(&TrafficKey, &Traffic)| key.0 == device && !key.2;
        let reads = self.traffic.iter().filter(of).map(|(_, t)| t.requests);
        reads.sum::<u64>() as f64 / self.requests.max(1) as f64
    }

    /// Bytes written to the flash device for files of that use.
    pub fn flash_written(&self, of: FileUse) -> u64 {
        let traffic = self.traffic.get(&(DeviceName::Fast, of, true));
        traffic.map_or(0, |t| t.bytes)
    }
}

/// A server with its clients.
pub struct Clients {
    /// The server.
    pub server: VirtualServer,
    disks: [Arc<SimDisk>; 2],
    volumes: Vec<VolumeHandle>,
    /// Where each stream is.
    streams: BTreeMap<u64, u64>,
    /// Images that were written in order.
    ordered: Vec<VolumeHandle>,
    pub(super) processors: Ssd,
    seed: Seed,
    chunks: u64,
    noise: u64,
}

/// Counters of the rooms.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Data chunks that the tier had.
    pub hits: u64,
    /// Data chunks that the tier had not.
    pub misses: u64,
    /// Chunks that the page cache had.
    pub in_memory: u64,
    /// Regions that the index named wrongly.
    pub denied: u64,
    /// Regions that were read where the index said.
    pub direct: u64,
    /// Time that disks worked, of all together.
    pub disks_busy: Ns,
}

impl Counts {
    fn since(&self, before: &Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            in_memory: self.in_memory - before.in_memory,
            denied: self.denied - before.denied,
            direct: self.direct - before.direct,
            disks_busy: self.disks_busy - before.disks_busy,
        }
    }

    /// Percentage of the data chunks not in memory that the tier had.
    pub fn tier_percent(&self) -> f64 {
        self.hits as f64 * 100.0 / (self.hits + self.misses).max(1) as f64
    }
}

impl Clients {
    /// Connects the clients to an open copy.
    pub fn new(opened: PoolCopy, settings: &Settings) -> Result<Self> {
        let (machine, disks) = opened.into_parts();
        let missing = || StoreError::new(StoreErrorKind::Invalid, "no such image");
        let volume = |image| machine.volumes.volume(&name(image)).ok_or_else(missing);
        let volumes = (0..settings.images).map(volume).collect::<Result<_>>()?;
        let images = settings.images..settings.images + settings.ordered;
        let ordered = images.map(volume).collect::<Result<_>>()?;
        let mut world = World::new(settings.array(), settings.flash);
        let used = machine.recorder.end_bytes(DeviceName::Pool) + ROOM_BYTES;
        let all = settings.disks * DiskModel::SERVER.capacity;
        world.spread_pool(all - used);
        Ok(Self {
            server: VirtualServer::new(machine, world),
            disks,
            volumes,
            ordered,
            streams: BTreeMap::new(),
            processors: Ssd::new(SsdModel {
                channels: settings.processors,
                read: settings.work,
                write: STREAM_WORK,
                read_rate: u64::MAX,
                write_rate: u64::MAX,
            }),
            seed: Seed::new(settings.seed).part(7),
            chunks: settings.image_bytes / REQUEST_BYTES,
            noise: settings.seed << 40,
        })
    }

    /// Ends the clients, and returns the copy.
    pub fn into_opened(self) -> PoolCopy {
        PoolCopy::from_parts(self.server.machine, self.disks)
    }

    fn counts(&self) -> Counts {
        let Machine { volumes, tier, .. } = &self.server.machine;
        let tier = tier.as_ref().map(|tier| tier.status());
        let cache = volumes.cache_counters();
        let decisions = volumes.decision_counters();
        Counts {
            hits: tier.as_ref().map_or(0, |tier| {
                let data = |c: &&ssd_tier::ClassStatus| c.class.kind == ssd_tier::Kind::Data;
                tier.classes.iter().filter(data).map(|c| c.hits).sum()
            }),
            misses: tier.as_ref().map_or(0, |tier| {
                let [data, ..] = tier.misses;
                data
            }),
            in_memory: cache.hits_by_place + cache.hits_by_content,
            denied: decisions.hints_denied,
            direct: decisions.direct_reads,
            disks_busy: self.server.world.disks_busy(),
        }
    }

    fn begin(&mut self, client: u64, load: &Load) -> Result<()> {
        let randoms = load.images * IN_FLIGHT;
        let charges = match client.checked_sub(randoms) {
            Some(stream) => self.of_stream(stream)?,
            None => self.at_random(client / IN_FLIGHT, load)?,
        };
        let now = self.server.world.now();
        let work = self.processors.serve(now, 0, false) - now;
        self.server
            .world
            .begin(Owner::Client(client), charges, work);
        Ok(())
    }

    fn volume(&self, image: u64) -> Result<VolumeHandle> {
        let volume = self.volumes.get(image as usize).cloned();
        volume.ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, "no such image"))
    }

    /// Returns the image that a stream reads in order.
    pub(super) fn ordered(&self, stream: u64) -> Result<VolumeHandle> {
        let nth = stream as usize % self.ordered.len().max(1);
        let volume = self.ordered.get(nth).cloned();
        volume.ok_or_else(|| StoreError::new(StoreErrorKind::Invalid, "no such image"))
    }

    /// Returns the size of an image, bytes.
    pub(super) fn image_bytes(&self) -> u64 {
        self.chunks * REQUEST_BYTES
    }

    /// Returns the number of bytes that were never written.
    pub(super) fn new_noise(&mut self) -> u64 {
        self.noise += 1;
        self.noise
    }

    pub(super) fn at_random(&mut self, image: u64, load: &Load) -> Result<Vec<Charge>> {
        let volume = self.volume(image)?;
        let at = self.seed.below(self.chunks) * REQUEST_BYTES;
        if self.seed.below(100) >= load.writes_percent {
            return self.server.record(|_| {
                let mut into = [0; REQUEST_BYTES as usize];
                let read = volume.read(RequestContext::CLIENT, at, &mut into);
                read.map_err(failed)
            });
        }
        let volume = match load.writes_beside {
            true => {
                let any = self.seed.below(self.ordered.len().max(1) as u64);
                self.ordered(any)?
            }
            false => volume,
        };
        self.server.before_write()?;
        self.noise += 1;
        let mut bytes = vec![0; REQUEST_BYTES as usize];
        SeededRandom::new(self.noise).fill(&mut bytes);
        self.server.record(|_| {
            let written = volume.write(RequestContext::CLIENT, at, &bytes, Durability::Durable);
            written.map_err(failed)
        })
    }

    /// Reads on in a stream.
    fn of_stream(&mut self, stream: u64) -> Result<Vec<Charge>> {
        let images = self.volumes.len().max(1) as u64;
        let volume = self.volume(stream % images)?;
        let size = self.chunks * REQUEST_BYTES;
        let at = self.streams.entry(stream).or_insert_with(|| {
            // Streams of one image begin apart from each other.
            (stream / images * (size / 4)) % size / STREAM_BYTES * STREAM_BYTES
        });
        let from = *at;
        *at = (from + STREAM_BYTES) % size;
        self.server.record(|_| {
            let mut into = vec![0; STREAM_BYTES as usize];
            let read = volume.read(RequestContext::CLIENT, from, &mut into);
            read.map_err(failed)
        })
    }

    /// Runs a load.
    pub fn run(&mut self, load: &Load) -> Result<Outcome> {
        let randoms = load.images * IN_FLIGHT;
        let clients = randoms + load.streams;
        let start = self.server.world.now();
        // Requests of each image that wait for the one before.
        let mut waiting: BTreeMap<u64, VecDeque<u64>> = BTreeMap::new();
        let mut since: Vec<Ns> = vec![start; clients as usize];
        for client in 0..clients {
            match load.serial && client < randoms && client % IN_FLIGHT > 0 {
                true => waiting
                    .entry(client / IN_FLIGHT)
                    .or_default()
                    .push_back(client),
                false => self.begin(client, load)?,
            }
        }
        let (mut ended, mut outcome) = (0, Outcome::default());
        let (mut before, mut from) = (self.counts(), start);
        let mut waited = self.server.waited;
        self.server.world.take_traffic();
        while ended < load.warm + load.measured {
            let Some(chain) = self.server.next_ended()? else {
                break;
            };
            let Owner::Client(client) = chain.owner else {
                continue;
            };
            let now = self.server.world.now();
            let is_random = client < randoms;
            let is_counted = is_random || randoms == 0;
            ended += u64::from(is_counted);
            if is_counted && ended == load.warm {
                (before, from) = (self.counts(), now);
                waited = self.server.waited;
                self.server.world.take_traffic();
            } else if ended > load.warm {
                if let Some(begun) = since.get(client as usize).filter(|_| is_counted) {
                    outcome.latencies.push(now - begun);
                }
                outcome.stream_bytes += u64::from(!is_random) * STREAM_BYTES;
            }
            if let Some(since) = since.get_mut(client as usize) {
                *since = now;
            }
            let mut next = client;
            if load.serial && is_random {
                let waits = waiting.entry(client / IN_FLIGHT).or_default();
                waits.push_back(client);
                next = waits.pop_front().unwrap_or(client);
            }
            self.begin(next, load)?;
        }
        outcome.requests = outcome.latencies.len() as u64;
        outcome.time = self.server.world.now() - from;
        outcome.by_owner = self.server.world.traffic_by_owner().clone();
        outcome.traffic = self.server.world.take_traffic();
        outcome.waited = self.server.waited - waited;
        outcome.latencies.sort_unstable();
        outcome.counts = self.counts().since(&before);
        while self.server.next_ended()?.is_some() {}
        Ok(outcome)
    }
}
