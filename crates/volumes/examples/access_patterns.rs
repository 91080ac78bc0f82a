//! Measures the gain of each decision that follows access patterns: the same requests run with it
//! and without it, in turn.
//!
//! `cargo run --release -p volumes --example access_patterns -- DIR [size MiB] [region KiB]
//! [rounds]`
//!
//! Creates a pool in DIR, which must be empty, with one volume of that size. Half of each page
//! compresses. Opens the pool again for each measurement, after it dropped Linux's cache of its
//! files (as root). Prints the median of the rounds: requests per second, CPU time of the process
//! and bytes from the device per request, and the counters.
//!
//! Invariant: both variants of a decision make the same requests.

use chunking::Compression;
use media::{Media, Syncing, SystemRandom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use store::{InitOptions, LaneOptions, NewSecret, OpenMode, Pool, SecretKey};
use volume::{Durability, RequestContext, Volume};
use volumes::{
    AccessOptions, DecisionCounters, DirectLimits, JournalOptions, Switches, Thresholds, Volumes,
    VolumesOptions,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const CONTEXT: RequestContext = RequestContext::CLIENT;
const SECRET: SecretKey = SecretKey::Recovery([1; 32]);
/// Memory of the pool (index, directories, recipe nodes) and of the volumes (pages).
const POOL_BYTES: usize = 96 << 20;
const VOLUMES_BYTES: u64 = 160 << 20;

struct Setup {
    dir: String,
    size: u64,
    region_bytes: usize,
}

impl Setup {
    fn media(&self) -> Media {
        Media::local(
            &self.dir,
            Syncing::Threads {
                threads: 2,
                queue: 4,
            },
        )
    }

    fn open(&self, access: AccessOptions) -> Result<Volumes> {
        let pool = Pool::open(self.media(), Some(&SECRET), OpenMode::Write, POOL_BYTES)?;
        let options = VolumesOptions {
            journal: JournalOptions {
                bytes_max: 1 << 30,
                slot_bytes: 32 << 20,
                buffer_bytes: 8 << 20,
            },
            memory_bytes: VOLUMES_BYTES,
            thresholds: Thresholds::default(),
            direct: DirectLimits::default(),
            access,
            lane: LaneOptions {
                compression: Compression::Lz4,
                region_bytes: self.region_bytes,
                container_bytes: 16 << 20,
            },
        };
        Ok(Volumes::open(Arc::new(pool), &options)?)
    }

    fn make(&self) -> Result<()> {
        let secrets = [NewSecret {
            secret: &SECRET,
            label: "one",
        }];
        let init = InitOptions {
            secrets: &secrets,
            chunk_bytes_average: 32 << 10,
            parity_percent: 0,
        };
        Pool::init(&self.media(), &init)?;
        let volumes = self.open(AccessOptions::default())?;
        let volume = volumes.create("v", self.size, 12)?;
        let mut bytes = vec![7; 1 << 20];
        for n in 0..self.size >> 20 {
            for page in bytes.chunks_mut(4096) {
                media::Random::fill(&SystemRandom, &mut page[2048..]);
            }
            volume.write(CONTEXT, n << 20, &bytes, Durability::Volatile)?;
        }
        volumes.checkpoint()?;
        Ok(())
    }
}

/// Drops Linux's cache of files. Without the right to do so, the measurements include the cache.
fn drop_caches() {
    let sync = std::process::Command::new("sync").status();
    if sync.is_err() || std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
        eprintln!("caches of the kernel could not be dropped");
    }
}

fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ');
    fields
        .skip(12)
        .take(2)
        .filter_map(|f| f.parse::<u64>().ok())
        .sum()
}

fn device_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|l| l.strip_prefix("read_bytes: "));
    line.and_then(|l| l.parse().ok()).unwrap_or(0)
}

/// Kind of requests.
#[derive(Clone, Copy)]
enum Load {
    Random {
        depth: u64,
        requests: u64,
    },
    /// `depth` readers read neighbouring chunks at the same moment.
    Together {
        depth: u64,
        requests: u64,
    },
    Sequential {
        request_bytes: u64,
    },
    /// Writes of 4 KiB, and the checkpoint that follows.
    Writes {
        requests: u64,
    },
}

/// Returns the offset of request `n`: any page, the same in every run.
fn page(n: u64, size: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) % (size >> 12)) << 12
}

fn run(volumes: &Volumes, load: Load, size: u64) -> Result<u64> {
    let volume = match load {
        // A volume of its own, so that other measurements find the original data.
        Load::Writes { .. } => volumes.create(&format!("w{}", volumes.list().len()), size, 12)?,
        _ => volumes.volume("v").ok_or("no volume")?,
    };
    let (depth, requests, len) = match load {
        Load::Random { depth, requests } | Load::Together { depth, requests } => {
            (depth, requests, 4096)
        }
        Load::Sequential { request_bytes } => (1, size / request_bytes, request_bytes),
        Load::Writes { requests } => (1, requests, 4096),
    };
    let next = AtomicU64::new(0);
    let barrier = std::sync::Barrier::new(depth as usize);
    std::thread::scope(|scope| {
        for thread in 0..depth {
            let (volume, next, barrier) = (&volume, &next, &barrier);
            scope.spawn(move || {
                let mut bytes = vec![7; len as usize];
                if let Load::Together { .. } = load {
                    for n in 0..requests / depth {
                        let at = page(n, size) & !(depth * 4096 - 1);
                        barrier.wait();
                        let _ = volume.read(CONTEXT, at + thread * 4096, &mut bytes);
                    }
                    return;
                }
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= requests {
                        break;
                    }
                    let done = match load {
                        Load::Sequential { .. } => volume.read(CONTEXT, n * len, &mut bytes),
                        Load::Writes { .. } => {
                            media::Random::fill(&SystemRandom, &mut bytes[2048..]);
                            volume.write(CONTEXT, page(n, size), &bytes, Durability::Volatile)
                        }
                        _ => volume.read(CONTEXT, page(n, size), &mut bytes),
                    };
                    if let Err(e) = done {
                        eprintln!("{e:?}");
                    }
                }
            });
        }
    });
    if let Load::Writes { .. } = load {
        volumes.checkpoint()?;
    }
    Ok(requests)
}

struct Measure {
    per_second: f64,
    cpu_us: f64,
    device_kib: f64,
    counters: DecisionCounters,
}

fn measure(setup: &Setup, access: AccessOptions, load: Load) -> Result<Measure> {
    drop_caches();
    let volumes = setup.open(access)?;
    let (cpu, device, started) = (cpu_ticks(), device_bytes(), Instant::now());
    let requests = run(&volumes, load, setup.size)? as f64;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Measure {
        per_second: requests / seconds,
        // A tick is 10 ms.
        cpu_us: (cpu_ticks() - cpu) as f64 * 1e4 / requests,
        device_kib: (device_bytes() - device) as f64 / 1024.0 / requests,
        counters: volumes.decision_counters(),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[expect(clippy::too_many_lines, reason = "one script")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| -> u64 {
        let given = arguments.get(n).and_then(|a| a.parse().ok());
        given.unwrap_or(default)
    };
    let setup = Setup {
        dir: arguments.first().ok_or("which directory?")?.clone(),
        size: number(1, 1024) << 20,
        region_bytes: (number(2, 64) << 10) as usize,
    };
    let rounds = number(3, 3);
    if std::fs::read_dir(&setup.dir)?.next().is_none() {
        setup.make()?;
    }
    let on = AccessOptions::default();
    let without = |change: &dyn Fn(&mut Switches)| {
        let mut access = on;
        change(&mut access.switches);
        access
    };
    let random = |depth, requests| Load::Random { depth, requests };
    let no_direct = without(&|s| s.direct_regions = false);
    let no_prefetch = without(&|s| s.prefetch = false);
    let no_sharing = without(&|s| s.shared_reads = false);
    let no_skipping = without(&|s| s.unprobed_writes = false);
    let sequential = |request_bytes| Load::Sequential { request_bytes };
    let cases: [(&str, Load, AccessOptions); 8] = [
        (
            "random reads 4 KiB, depth 1: directories skipped",
            random(1, 8_000),
            no_direct,
        ),
        (
            "random reads 4 KiB, depth 16: directories skipped",
            random(16, 30_000),
            no_direct,
        ),
        (
            "random reads 4 KiB, depth 32: directories skipped",
            random(32, 30_000),
            no_direct,
        ),
        (
            "sequential reads 1 MiB: prefetch",
            sequential(1 << 20),
            no_prefetch,
        ),
        (
            "sequential reads 64 KiB: prefetch",
            sequential(64 << 10),
            no_prefetch,
        ),
        (
            "sequential reads 4 KiB: prefetch",
            sequential(4 << 10),
            no_prefetch,
        ),
        (
            "8 readers of neighbouring chunks: shared reads",
            Load::Together {
                depth: 8,
                requests: 24_000,
            },
            no_sharing,
        ),
        (
            "random writes 4 KiB and checkpoint: no look-ups",
            Load::Writes { requests: 100_000 },
            no_skipping,
        ),
    ];
    let wanted = arguments.get(4).map(String::as_str).unwrap_or_default();
    println!(
        "| decision | requests/s on | off | CPU us/request on | off | device KiB/request on | off |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, load, off) in cases {
        if !name.contains(wanted) {
            continue;
        }
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            with.push(measure(&setup, on, load)?);
            without.push(measure(&setup, off, load)?);
        }
        let of = |m: &[Measure], f: fn(&Measure) -> f64| median(m.iter().map(f));
        let rate: fn(&Measure) -> f64 = |m| m.per_second;
        let cpu: fn(&Measure) -> f64 = |m| m.cpu_us;
        let device: fn(&Measure) -> f64 = |m| m.device_kib;
        println!(
            "| {name} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} |",
            of(&with, rate),
            of(&without, rate),
            of(&with, cpu),
            of(&without, cpu),
            of(&with, device),
            of(&without, device)
        );
        if let (Some(with), Some(without)) = (with.last(), without.last()) {
            eprintln!("  on  {:?}\n  off {:?}", with.counters, without.counters);
        }
    }
    Ok(())
}
