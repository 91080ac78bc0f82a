//! Measures what patience costs a read: `cargo run --release -p device --example patience_costs --
//! DIRECTORY`, on a disk in that directory, past the page cache and from it, with 1 and 4 readers.
//!
//! Each figure is the median of 4,000 reads of 4 KiB, microseconds; direct and patient reads take
//! turns in batches of 100.

use device::{Patience, PatientDisk};
use media::{Disk, DiskFile, LocalDisk};
use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const FILE_BYTES: u64 = 64 << 20;
const READ_BYTES: usize = 4096;
const BATCH: usize = 100;
const BATCHES: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("give a directory")?;
    let direct: Arc<dyn Disk> = Arc::new(LocalDisk::new(directory));
    let patience = Patience {
        reads: Duration::from_secs(1),
        others: Duration::from_secs(10),
    };
    let patient = PatientDisk::new(Arc::clone(&direct), patience);
    let file = direct.open("patience_costs", true)?;
    let piece = vec![1; 1 << 20];
    for at in (0..FILE_BYTES).step_by(piece.len()) {
        file.write_at(at, &piece)?;
    }
    let files = [file, patient.open("patience_costs", false)?];
    for past_cache in [true, false] {
        for readers in [1, 4] {
            let [direct, patient] = measured(&files, past_cache, readers)?;
            let from = if past_cache { "device" } else { "page cache" };
            println!("{from}, {readers} readers: direct {direct:.1}, patient {patient:.1}");
        }
    }
    Ok(direct.remove("patience_costs")?)
}

fn measured(
    files: &[Arc<dyn DiskFile>; 2],
    past_cache: bool,
    readers: u64,
) -> Result<[f64; 2], Box<dyn Error>> {
    let of_reader = |reader: u64| -> Result<[Vec<f64>; 2], media::MediaError> {
        let (mut times, mut state) = ([vec![], vec![]], reader + 1);
        let mut bytes = vec![0; READ_BYTES];
        for batch in 0..BATCHES * 2 {
            for _ in 0..BATCH {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) % (FILE_BYTES / READ_BYTES as u64) * READ_BYTES as u64;
                let begun = Instant::now();
                match past_cache {
                    true => files[batch % 2].read_at_past_cache(at, &mut bytes)?,
                    false => files[batch % 2].read_at(at, &mut bytes)?,
                }
                times[batch % 2].push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(times)
    };
    let mut all = [vec![], vec![]];
    thread::scope(|scope| {
        let threads: Vec<_> = (0..readers)
            .map(|n| {
                scope.spawn({
                    let of_reader = &of_reader;
                    move || of_reader(n)
                })
            })
            .collect();
        for thread in threads {
            let [direct, patient] = thread.join().map_err(|_| "a reader panicked")??;
            all[0].extend(direct);
            all[1].extend(patient);
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(all.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}
