//! Measures what the recording of reads costs where it matters most: reads of 4 KiB that hit the
//! page cache.
//!
//! `cargo run --release -p volumes --example trace_costs`

use chunking::Compression;
use media::{Media, SeededRandom};
use sim::{Image, SimDisk};
use std::sync::Arc;
use store::{InitOptions, LaneOptions, OpenMode, Pool};
use units::UnixNanos;
use volume::{Durability, RequestContext, Volume};
use volumes::{AccessOptions, DirectLimits, JournalOptions, Thresholds, Volumes, VolumesOptions};

const SIZE: u64 = 32 << 20;
const READS: u64 = 1_000_000;
const ROUNDS: usize = 9;

/// Returns this thread's processor time, nanoseconds.
fn computed_ns() -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().ok_or("empty")?;
    Ok(first.parse()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let media = Media::seeded(SimDisk::unrecorded(Image::new()), UnixNanos(0), 1);
    let options = InitOptions {
        secrets: &[],
        chunk_bytes_average: 32 << 10,
        parity_percent: 0,
    };
    Pool::init(&media, &options)?;
    let pool = Pool::open(media, None, OpenMode::Write, 64 << 20)?;
    let options = VolumesOptions {
        journal: JournalOptions {
            bytes_max: 128 << 20,
            slot_bytes: 8 << 20,
            buffer_bytes: 8 << 20,
        },
        memory_bytes: 128 << 20,
        thresholds: Thresholds::default(),
        direct: DirectLimits::default(),
        access: AccessOptions::default(),
        lane: LaneOptions {
            compression: Compression::Lz4,
            region_bytes: 16 << 10,
            container_bytes: 16 << 20,
        },
    };
    let volumes = Volumes::open(Arc::new(pool), &options)?;
    let volume = volumes.create("v", SIZE, 12)?;
    let context = RequestContext::default();
    let mut bytes = vec![0; 1 << 20];
    for offset in (0..SIZE).step_by(1 << 20) {
        media::Random::fill(&SeededRandom::new(offset + 2), &mut bytes);
        volume.write(context, offset, &bytes, Durability::Volatile)?;
    }
    volumes.checkpoint()?;
    for offset in (0..SIZE).step_by(1 << 20) {
        volume.read(context, offset, &mut bytes)?;
    }
    let mut page = vec![0; 4096];
    let mut state = 1u64;
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for is_traced in [false, true] {
            volumes.trace(is_traced);
            let before = computed_ns()?;
            for _ in 0..READS {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let offset = ((state >> 33) % (SIZE >> 12)) << 12;
                volume.read(context, offset, &mut page)?;
            }
            costs[usize::from(is_traced)].push((computed_ns()? - before) / (READS / 1000));
        }
    }
    let [without, with] = costs.map(|mut costs| {
        costs.sort_unstable();
        (costs[ROUNDS / 2], costs[0])
    });
    println!("CPU of a cached read of 4 KiB, median and best of {ROUNDS}, ps:");
    println!("not traced {without:?}");
    println!("traced     {with:?}");
    println!("{:?}", volumes.cache_counters());
    Ok(())
}
