//! Streams of backup and restore beside random reads at a fixed rate, under the product's
//! scheduler.
//!
//! The rows call this.
//! Invariant: restores read images that were written in order, each stream from a place of its own;
//! backups store bytes that are nowhere else, each in a lane of its own of one session. A random
//! client sends its next request when its time has come and the last one has ended. All run for a
//! fixed time.

use super::load::{Clients, Load};
use super::settings::{IN_FLIGHT, STREAM_BYTES};
use crate::disk::{Ns, SECOND};
use crate::rooms::recorder::Charge;
use crate::rooms::world::Owner;
use chunking::Compression;
use media::{IoOrigin, Random, SeededRandom};
use qos::Flow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use store::{Lane, LaneOptions, Result, WriteSession};
use units::Origin;
use volume::{RequestContext, Volume};

/// Size of a container of a backup, bytes. 16 MiB ship: 32 streams would fill memory first.
const CONTAINER_BYTES: usize = 4 << 20;
const LANE: LaneOptions = LaneOptions {
    compression: Compression::None,
    region_bytes: 128 << 10,
    container_bytes: CONTAINER_BYTES,
};
/// Bytes of a chunk of a backup.
const CHUNK_BYTES: usize = 64 << 10;
/// Time before the measuring.
const WARM: Ns = SECOND / 4;

/// A load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Streams that restore.
    pub restores: u64,
    /// Streams that store.
    pub backups: u64,
    /// Images with random reads.
    pub images: u64,
    /// Random reads a second, of all images together.
    pub randoms: u64,
}

/// Results.
#[derive(Clone, Debug, Default)]
pub struct StreamOutcome {
    /// Bytes that restores read.
    pub restored: u64,
    /// Bytes that backups took.
    pub stored: u64,
    /// Latencies of random reads, sorted.
    pub latencies: Vec<Ns>,
    /// Time of it all.
    pub time: Ns,
}

impl StreamOutcome {
    /// Bytes a second.
    pub fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * SECOND as f64 / self.time.max(1) as f64
    }

    /// Random reads a second.
    pub fn randoms(&self) -> f64 {
        self.rate(self.latencies.len() as u64)
    }

    /// Mean latency of random reads, milliseconds.
    pub fn mean_ms(&self) -> f64 {
        let sum: Ns = self.latencies.iter().sum();
        sum as f64 / self.latencies.len().max(1) as f64 / 1e6
    }
}

/// The session of backups, and where the other streams are.
struct Streams {
    beside: Beside,
    session: WriteSession,
    lanes: BTreeMap<u64, Lane>,
    at: BTreeMap<u64, u64>,
    /// When each random client's request is due.
    due: Vec<Ns>,
    /// Random clients that wait for that.
    pausing: BTreeSet<u64>,
}

impl Clients {
    /// Runs streams and random reads for `time`.
    pub fn run_streams(&mut self, beside: &Beside, time: Ns) -> Result<StreamOutcome> {
        let randoms = match beside.randoms {
            0 => 0,
            _ => beside.images * IN_FLIGHT,
        };
        let clients = randoms + beside.restores + beside.backups;
        let start = self.server.world.now();
        let mut streams = Streams {
            beside: *beside,
            session: self.server.machine.volumes.pool().begin(LANE)?,
            lanes: BTreeMap::new(),
            at: BTreeMap::new(),
            // Their first requests are spread over one period.
            due: (0..randoms)
                .map(|nth| start + nth * SECOND / beside.randoms.max(1))
                .collect(),
            pausing: BTreeSet::new(),
        };
        for client in 0..clients {
            self.begin_of(client, &mut streams)?;
        }
        let (from, until) = (start + WARM, start + WARM + time);
        let mut outcome = StreamOutcome::default();
        while self.server.world.now() < until {
            let Some(chain) = self.server.next_ended()? else {
                break;
            };
            let Owner::Client(client) = chain.owner else {
                continue;
            };
            let now = self.server.world.now();
            let is_measured = now >= from;
            let due = streams.due.get_mut(client as usize);
            match (client.checked_sub(randoms), due) {
                (None, _) if streams.pausing.remove(&client) => {}
                (None, Some(due)) => {
                    if is_measured {
                        outcome.latencies.push(now - *due);
                    }
                    // A request that is late is not made up for.
                    *due = now.max(*due + randoms * SECOND / beside.randoms.max(1));
                }
                (Some(stream), _) if is_measured && stream < beside.restores => {
                    outcome.restored += STREAM_BYTES;
                }
                (Some(_), _) if is_measured => outcome.stored += STREAM_BYTES,
                _ => {}
            }
            self.begin_of(client, &mut streams)?;
        }
        outcome.time = self.server.world.now() - from;
        outcome.latencies.sort_unstable();
        while self.server.next_ended()?.is_some() {}
        drop(streams.lanes);
        streams.session.abandon()?;
        Ok(outcome)
    }

    fn begin_of(&mut self, client: u64, streams: &mut Streams) -> Result<()> {
        let Beside { restores, .. } = streams.beside;
        let random_clients = streams.due.len() as u64;
        let now = self.server.world.now();
        let (flow, charges) = match client.checked_sub(random_clients) {
            None => {
                let due = streams.due.get(client as usize).copied().unwrap_or(now);
                if due > now {
                    streams.pausing.insert(client);
                    let owner = Owner::Client(client);
                    self.server.world.begin(owner, Vec::new(), due - now);
                    return Ok(());
                }
                let charges = self.at_random(client / IN_FLIGHT, &Load::READS)?;
                (Flow::ForegroundNonSequential, charges)
            }
            Some(stream) if stream < restores => (Flow::Restore, self.restore(stream, streams)?),
            Some(stream) => (Flow::Backup, self.store(stream, streams)?),
        };
        let is_stream = flow != Flow::ForegroundNonSequential;
        let now = self.server.world.now();
        let work = self.processors.serve(now, 0, is_stream) - now;
        self.server
            .world
            .begin_as(Owner::Client(client), flow, charges, work);
        Ok(())
    }

    fn restore(&mut self, stream: u64, streams: &mut Streams) -> Result<Vec<Charge>> {
        let volume = self.ordered(stream)?;
        let size = self.image_bytes();
        let at = streams.at.entry(stream).or_insert_with(|| {
            let apart = stream * (size / streams.beside.restores.max(1));
            apart / STREAM_BYTES * STREAM_BYTES
        });
        let from = *at;
        *at = (from + STREAM_BYTES) % size;
        let context = RequestContext {
            origin: Origin::Restore,
            ..RequestContext::CLIENT
        };
        self.server.record(|_| {
            let mut into = vec![0; STREAM_BYTES as usize];
            let read = volume.read(context, from, &mut into);
            read.map_err(crate::rooms::machine::failed)
        })
    }

    fn store(&mut self, stream: u64, streams: &mut Streams) -> Result<Vec<Charge>> {
        let lane = match streams.lanes.entry(stream) {
            Entry::Occupied(lane) => lane.into_mut(),
            Entry::Vacant(none) => none.insert(streams.session.lane(LANE)?),
        };
        let noise = self.new_noise();
        self.server.record(|_| {
            let _origin = IoOrigin::of(Origin::Backup).begin();
            let mut bytes = vec![0; STREAM_BYTES as usize];
            SeededRandom::new(noise).fill(&mut bytes);
            let chunks: Vec<&[u8]> = bytes.chunks(CHUNK_BYTES).collect();
            lane.store_chunks(&chunks).map(drop)
        })
    }
}
