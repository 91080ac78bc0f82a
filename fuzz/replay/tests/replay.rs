//! Replays the seeds of every fuzz target and mutates them, for a bounded time, on a stable
//! compiler. `./test fuzz` runs it. By hand, after a finding:
//!
//! ```sh
//! QUINTET_FUZZ_INPUT=FILE QUINTET_FUZZ_TARGETS=NAME \
//! cargo test -p fuzz_replay --test replay -- --ignored --nocapture
//! ```
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `QUINTET_FUZZ_SECONDS` | time for all targets together | 60 |
//! | `QUINTET_FUZZ_SEED` | seed of the mutants | 1 |
//! | `QUINTET_FUZZ_TARGETS` | names, separated by spaces | all |
//! | `QUINTET_FUZZ_INPUT` | this input only, once | |
//!
//! Invariant: the seed decides the inputs and their order; time decides only their number. A panic,
//! or an input that takes longer than [`HANG`], fails; its input is saved and named.

use fuzz_replay::quintet_fuzz::{TARGETS, Target, decoders};
use fuzz_replay::{Dice, mutate};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time for one input, on a slow machine.
const HANG: Duration = Duration::from_secs(60);

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}: not a number")),
        Err(_) => default,
    }
}

/// Seeds, and inputs that libFuzzer has found on this machine, by name; also samples of decoders.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for place in ["seeds", "corpus"] {
        let Ok(entries) = fs::read_dir(top().join("fuzz").join(place).join(target)) else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        seeds.extend(paths.iter().filter_map(|path| fs::read(path).ok()));
    }
    if decoders::DECODERS.iter().any(|(name, _)| *name == target) {
        seeds.extend(decoders::samples::of(target));
    }
    if seeds.is_empty() {
        seeds.push((0..=255).collect());
    }
    seeds
}

/// Saves a failed input. Returns its path.
fn save(target: &str, input: &[u8]) -> PathBuf {
    let dir = std::env::temp_dir().join("quintet-fuzz-failures");
    let sum = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = dir.join(format!("{target}-{sum:016x}"));
    let _ = fs::create_dir_all(&dir).and_then(|()| fs::write(&path, input));
    path
}

/// The running target and input, and the start.
type Running = Arc<Mutex<Option<(Instant, &'static str, Vec<u8>)>>>;

fn watch(running: &Running) {
    let running = Arc::downgrade(running);
    std::thread::spawn(move || {
        while let Some(running) = running.upgrade() {
            if let Some((since, target, input)) = &*running.lock()
                && since.elapsed() > HANG
            {
                eprintln!("{target}: hangs, input: {}", save(target, input).display());
                std::process::exit(1);
            }
            drop(running);
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

/// Returns true if the target did not panic.
fn holds(name: &'static str, target: Target, input: &[u8], running: &Running) -> bool {
    *running.lock() = Some((Instant::now(), name, input.to_vec()));
    let held = catch_unwind(AssertUnwindSafe(|| target(input))).is_ok();
    *running.lock() = None;
    if !held {
        eprintln!("{name}: FAILED, input: {}", save(name, input).display());
    }
    held
}

#[test]
#[ignore = "takes as long as it is told: ./test fuzz"]
fn targets_hold() {
    let total = Duration::from_secs(number("QUINTET_FUZZ_SECONDS", 60));
    let seed = number("QUINTET_FUZZ_SEED", 1);
    let wanted = std::env::var("QUINTET_FUZZ_TARGETS").unwrap_or_default();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.split_whitespace().any(|w| w == name);
    let targets: Vec<_> = TARGETS.iter().filter(|(name, _)| is_wanted(name)).collect();
    assert!(!targets.is_empty(), "no target is called {wanted}");
    println!(
        "{} targets, {total:?}, QUINTET_FUZZ_SEED={seed}",
        targets.len()
    );
    let running = Running::default();
    watch(&running);
    let (began, mut failed) = (Instant::now(), Vec::new());
    for (at, (name, target)) in targets.iter().enumerate() {
        if let Ok(path) = std::env::var("QUINTET_FUZZ_INPUT") {
            let input = fs::read(&path).expect("the input");
            if !holds(name, *target, &input, &running) {
                failed.push(*name);
            }
            continue;
        }
        // Targets share time that earlier ones did not use.
        let share = total * (at as u32 + 1) / targets.len() as u32;
        let seeds = seeds(name);
        let (mut inputs, mut held) = (0_u64, true);
        for input in &seeds {
            held &= holds(name, *target, input, &running);
            inputs += 1;
        }
        let mut dice = Dice::new(seed, name);
        while held && began.elapsed() < share {
            held = holds(name, *target, &mutate(&seeds, &mut dice), &running);
            inputs += 1;
        }
        println!("{name}: {inputs} inputs, {} of them seeds", seeds.len());
        if !held {
            failed.push(*name);
        }
    }
    assert!(
        failed.is_empty(),
        "failed: {failed:?}, QUINTET_FUZZ_SEED={seed}"
    );
}

/// The list, the files and the manifest of `fuzz/` name the same targets.
#[test]
fn no_target_is_forgotten() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), TARGETS.len(), "a name stands twice");
    let files = fs::read_dir(top().join("fuzz/fuzz_targets")).expect("targets");
    let files: BTreeSet<String> = files
        .flatten()
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            name.strip_suffix(".rs").map(str::to_owned)
        })
        .collect();
    assert_eq!(
        listed, files,
        "fuzz/src/lib.rs, TARGETS, and fuzz/fuzz_targets"
    );
    let manifest = fs::read_to_string(top().join("fuzz/Cargo.toml")).expect("manifest");
    let bins: BTreeSet<String> = manifest
        .split("[[bin]]")
        .skip(1)
        .filter_map(|bin| bin.split('"').nth(1).map(str::to_owned))
        .collect();
    assert_eq!(
        listed, bins,
        "fuzz/src/lib.rs, TARGETS, and fuzz/Cargo.toml"
    );
    let decoders = decoders::DECODERS
        .iter()
        .map(|(name, _)| (*name).to_owned());
    let missing: Vec<String> = decoders.filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty(), "decoders without a target: {missing:?}");
}

/// A panic is caught, its input is saved, and the same seed finds it again.
#[test]
fn a_target_that_panics_is_found_again() {
    let fails: Target = |data| assert!(data.len() < 300 || data[0] != 0, "found");
    let running = Running::default();
    let seeds = [(0..200).collect::<Vec<u8>>(), vec![0; 250]];
    let find = || {
        let mut dice = Dice::new(7, "found");
        (0..100_000)
            .map(|_| mutate(&seeds, &mut dice))
            .find(|input| !holds("found", fails, input, &running))
    };
    let first = find().expect("some mutant is as long");
    assert_eq!(find().as_ref(), Some(&first));
    let saved = save("found", &first);
    assert_eq!(fs::read(&saved).expect("saved"), first);
    fs::remove_file(saved).expect("remove");
}
