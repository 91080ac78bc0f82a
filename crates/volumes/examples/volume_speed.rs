//! Measures a volume without a protocol above it. DIR may be filled.
//!
//! `cargo run --release -p volumes --example volume_speed -- DIR [plain]`

use chunking::Compression;
use media::{Media, Syncing, SystemRandom};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{InitOptions, LaneOptions, NewSecret, OpenMode, Pool, SecretKey};
use volume::{Durability, RequestContext, Volume};
use volumes::{AccessOptions, DirectLimits, JournalOptions, Thresholds, Volumes, VolumesOptions};

const SIZE: u64 = 1 << 30;

#[expect(clippy::too_many_lines, reason = "one script")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("which directory?")?;
    let plain = arguments.get(1).is_some_and(|a| a == "plain");
    let media = Media::local(
        dir,
        Syncing::Threads {
            threads: 2,
            queue: 4,
        },
    );
    let secret = SecretKey::Recovery([1; 32]);
    let secrets = [NewSecret {
        secret: &secret,
        label: "one",
    }];
    let options = InitOptions {
        secrets: if plain { &[] } else { &secrets },
        chunk_bytes_average: 32 << 10,
        parity_percent: 0,
    };
    Pool::init(&media, &options)?;
    let pool = Pool::open(media, Some(&secret), OpenMode::Write, 128 << 20)?;
    let volumes = Volumes::open(
        Arc::new(pool),
        &VolumesOptions {
            journal: JournalOptions {
                bytes_max: 2 << 30,
                slot_bytes: 128 << 20,
                buffer_bytes: 8 << 20,
            },
            memory_bytes: 256 << 20,
            thresholds: Thresholds::default(),
            direct: DirectLimits::default(),
            access: AccessOptions::default(),
            lane: LaneOptions {
                compression: Compression::Lz4,
                region_bytes: 64 << 10,
                container_bytes: 16 << 20,
            },
        },
    )?;
    let volume = volumes.create("v", SIZE, 12)?;
    let context = RequestContext::default();
    let mut noise = vec![0; 1 << 20];
    media::Random::fill(&SystemRandom, &mut noise);
    // Half of each page compresses.
    for page in noise.chunks_mut(4096) {
        page[2048..].fill(7);
    }
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let report = |what: &str, count: u64, bytes: u64, time: Duration| {
        let seconds = time.as_secs_f64();
        println!(
            "{what:40} {:9.0}/s {:7.0} MiB/s",
            count as f64 / seconds,
            bytes as f64 / seconds / 1048576.0
        );
    };

    let started = Instant::now();
    for n in 0..SIZE >> 20 {
        noise[0] = n as u8;
        noise[1] = (n >> 8) as u8;
        volume.write(context, n << 20, &noise, Durability::Volatile)?;
    }
    volume.flush(context)?;
    report(
        "sequential writes of 1 MiB, then a flush",
        SIZE >> 20,
        SIZE,
        started.elapsed(),
    );
    let started = Instant::now();
    volumes.checkpoint()?;
    report("checkpoint", SIZE >> 12, SIZE, started.elapsed());

    let count = 200_000u64;
    let started = Instant::now();
    for n in 0..count {
        let page = &mut noise[..4096];
        page[..8].copy_from_slice(&n.to_le_bytes());
        let offset = (random() % (SIZE >> 12)) << 12;
        volume.write(context, offset, page, Durability::Volatile)?;
    }
    report(
        "random writes of 4 KiB",
        count,
        count << 12,
        started.elapsed(),
    );
    let started = Instant::now();
    for n in 0..count / 10 {
        let page = &mut noise[..4096];
        page[..8].copy_from_slice(&n.to_le_bytes());
        let offset = (random() % (SIZE >> 12)) << 12;
        volume.write(context, offset, page, Durability::Volatile)?;
        if n % 32 == 31 {
            volume.flush(context)?;
        }
    }
    report(
        "... a flush every 32",
        count / 10,
        (count / 10) << 12,
        started.elapsed(),
    );
    let started = Instant::now();
    volumes.checkpoint()?;
    report("checkpoint", count, count << 12, started.elapsed());

    let span = 64 << 20;
    let mut page = vec![0; 4096];
    for n in 0..span >> 12 {
        volume.read(context, n << 12, &mut page)?;
    }
    let count = 2_000_000;
    let started = Instant::now();
    for _ in 0..count {
        volume.read(context, (random() % (span >> 12)) << 12, &mut page)?;
    }
    report(
        "random reads of 4 KiB, cached",
        count,
        count << 12,
        started.elapsed(),
    );
    let count = 50_000;
    let started = Instant::now();
    for _ in 0..count {
        volume.read(context, (random() % (SIZE >> 12)) << 12, &mut page)?;
    }
    report(
        "random reads of 4 KiB, a quarter cached",
        count,
        count << 12,
        started.elapsed(),
    );
    let mut megabyte = vec![0; 1 << 20];
    let started = Instant::now();
    for n in 0..SIZE >> 20 {
        volume.read(context, n << 20, &mut megabyte)?;
    }
    report(
        "sequential reads of 1 MiB",
        SIZE >> 20,
        SIZE,
        started.elapsed(),
    );
    println!(
        "{:?}\n{:?}\n{:?}",
        volumes.journal_usage(),
        volumes.checkpoint_counts(),
        volumes.cache_counters()
    );
    Ok(())
}
