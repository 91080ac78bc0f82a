//! Runs seeded mutations of valid objects through every decoder: the short, deterministic
//! counterpart of the fuzz targets.
//!
//! Panics fail the test. So do round trips that change the meaning, and allocations that the bytes
//! do not justify.

use crate::decoders::{DECODERS, Decoder, samples};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of mutants for each decoder.
const MUTANTS: u32 = 200_000;
/// Number of mutants for decoders that compute over the whole object: a mutant of one costs a
/// hundred of another.
const MUTANTS_OF_SLOW: u32 = 3_000;
const SLOW: &[&str] = &["parity"];
/// Their objects are cut only within this many bytes of both ends, and once in each sector.
const CUT_EDGE_BYTES: usize = 600;

/// Allowed bytes of memory for a byte of input. Empty vectors in vectors are the worst case.
const FACTOR: usize = 64;
/// Allowed bytes of memory for an input without any.
const FLOOR: usize = 256 << 10;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator. It counts the requests of this thread.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller's guarantees are those of `System::alloc`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|n| n.set(n.get() + layout.size()));
        // SAFETY: the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: the caller's guarantees are those of `System::dealloc`.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` above, from the system.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit.max(1) as u64) as usize
    }
}

/// Makes one change that damage or malice might cause.
fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    match dice.below(9) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        2 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
        3 => {
            let number = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 32, 1 << 16][dice.below(6)];
            for (to, from) in bytes.iter_mut().skip(at).zip(number.to_le_bytes()) {
                *to = from;
            }
        }
        4 => bytes.truncate(at),
        5 => bytes.extend((0..dice.below(40)).map(|n| n as u8)),
        6 => {
            let end = (at + dice.below(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        7 => {
            let end = (at + dice.below(64)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let other = &others[dice.below(others.len())];
            let from = dice.below(other.len());
            let piece = other.iter().skip(from).take(1 + dice.below(64));
            for (to, from) in bytes.iter_mut().skip(at).zip(piece) {
                *to = *from;
            }
        }
    }
}

/// Returns the bytes that `decoder` allocates for `bytes`. Reports the input when it panics.
fn allocated(name: &str, decoder: Decoder, bytes: &[u8]) -> usize {
    ALLOCATED.set(0);
    let ran = catch_unwind(AssertUnwindSafe(|| decoder(bytes)));
    let allocated = ALLOCATED.get();
    assert!(ran.is_ok(), "{name} fails on {bytes:02x?}");
    allocated
}

fn run(name: &str, decoder: Decoder, mutants: u32) {
    let samples = samples::of(name);
    let mut dice = Dice(name.len() as u64);
    for sample in &samples {
        allocated(name, decoder, sample);
    }
    for _ in 0..mutants {
        let mut bytes = samples[dice.below(samples.len())].clone();
        for _ in 0..1 + dice.below(4) {
            mutate(&mut bytes, &samples, &mut dice);
        }
        let allocated = allocated(name, decoder, &bytes);
        let limit = FLOOR + FACTOR * bytes.len();
        assert!(
            allocated <= limit,
            "{name}: {allocated} bytes for {bytes:02x?}"
        );
    }
}

#[test]
fn mutants_of_every_object_decode_or_are_refused() {
    for (name, decoder) in DECODERS {
        let count = if SLOW.contains(name) {
            MUTANTS_OF_SLOW
        } else {
            MUTANTS
        };
        run(name, *decoder, count);
    }
}

#[test]
fn every_cut_of_every_object_decodes_or_is_refused() {
    for (name, decoder) in DECODERS {
        for sample in samples::of(name) {
            let is_slow = SLOW.contains(name);
            let is_near = |len: usize| {
                len < CUT_EDGE_BYTES || sample.len() - len < CUT_EDGE_BYTES || len % 512 < 2
            };
            let cuts = (0..=sample.len()).filter(|len| !is_slow || is_near(*len));
            cuts.for_each(|len| {
                allocated(name, *decoder, &sample[..len]);
            });
        }
    }
}

#[test]
fn canary_a_decoder_that_indexes_is_found() {
    let indexes: Decoder = |bytes| {
        let len = usize::from(bytes.first().copied().unwrap_or(0));
        assert!(bytes.len() > len, "a length that is believed");
    };
    assert!(catch_unwind(|| run("directory", indexes, 1000)).is_err());
    let believes: Decoder = |bytes| {
        if let Some(count) = bytes.first_chunk::<4>() {
            drop(Vec::<u8>::with_capacity(u32::from_le_bytes(*count) as usize));
        }
    };
    assert!(catch_unwind(|| run("directory", believes, 1000)).is_err());
}

/// Writes the samples to the fuzzer's directory.
#[test]
#[ignore = "run by hand when samples change"]
fn write_fuzz_seeds() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (name, _) in DECODERS {
        let dir = seeds.join(name);
        std::fs::create_dir_all(&dir).expect("create");
        for (n, sample) in samples::of(name).iter().enumerate() {
            std::fs::write(dir.join(format!("sample-{n}")), sample).expect("write");
        }
    }
}
