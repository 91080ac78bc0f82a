//! Shows and judges layouts of images, for `tests/layout/run.sh` and by hand.
//!
//!     layout show IMAGE [MEMORY]
//!     layout compare IMAGE
//!     layout replay IMAGE LOG AFTER CHECKS LAG LEAST
//!     layout hostile KIND SEED IMAGE
//!
//! `show` attaches and prints the pieces of each kind, reads, memory and the time of a lookup.
//! `compare` compares every block of an ext image with e2fsprogs. `replay` copies IMAGE to AFTER,
//! attaches, applies the writes in LOG (of `power_cuts record`) to AFTER, reports each of them to
//! the layout, and compares CHECKS times on the way and at the end. The layout reads what changed
//! after every LAG writes. On the way, LEAST percent of the blocks in use must be right. `hostile`
//! makes a disk for attacks, sparse, with up to 2,000 copies of what repeats on it.
//!
//! Invariant: exits with 1 if fewer than 99.9 % of the blocks are right at the end, or one is
//! wrong.

#[path = "../tests/truth/mod.rs"]
mod truth;

use disk_layout::Contents;
use disk_layout::hostile::{Builder, Dice, KINDS};
use disk_layout::{Layout, Options, Progress, VolumeSource};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use truth::{Image, Score, Truth, output};

const MEMORY: u64 = 256 << 20;
const HEADER_BYTES: usize = 24;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let is_right = match texts[..] {
        ["show", image] => show(image, MEMORY),
        ["show", image, memory] => show(image, number(memory)),
        ["compare", image] => {
            let layout = attach(image, MEMORY);
            let score = compare(image, &layout);
            println!("{score}");
            score.accuracy() >= 99.9 && score.wrong() == 0
        }
        ["replay", image, log, after, checks, lag, least] => replay(
            [image, log, after],
            number(checks),
            number(lag),
            number(least),
        )
        .expect("replayed"),
        ["hostile", kind, seed, image] => {
            hostile(kind, number(seed), image).expect("made");
            true
        }
        _ => {
            eprintln!("layout: see the head of its source");
            false
        }
    };
    if is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn hostile(kind: &str, seed: u64, image: &str) -> io::Result<()> {
    let named = |(name, _): &&(&str, Builder)| *name == kind;
    let (_, build) = KINDS.iter().find(named).expect("one of the kinds");
    let disk = build(&mut Dice::new(seed));
    let file = File::create_new(image)?;
    // ext4 with blocks of 4 KiB has no larger files.
    let end = disk.size_bytes.min(15 << 40);
    file.set_len(end)?;
    for (offset, bytes) in disk.contents(2_000) {
        if offset < end {
            file.write_all_at(bytes, offset)?;
        }
    }
    Ok(())
}

fn attach(image: &str, memory_bytes_max: u64) -> Layout {
    let file = File::open(image).expect("the image");
    let size = file.metadata().expect("its size").len();
    let mut layout = Layout::new(size, Options { memory_bytes_max });
    let source = Image(file);
    let (began, mut longest) = (Instant::now(), 0.0_f64);
    loop {
        let step = Instant::now();
        let progress = layout.step(&source, 16);
        longest = longest.max(step.elapsed().as_secs_f64());
        if progress == Progress::Idle {
            break;
        }
    }
    let counters = layout.counters();
    println!(
        "attached in {:.3} s, longest step {:.2} ms: {} reads, {} KiB read, {} KiB of memory, made coarser {} times",
        began.elapsed().as_secs_f64(),
        longest * 1e3,
        counters.reads,
        counters.read_bytes >> 10,
        counters.memory_bytes >> 10,
        counters.sheds
    );
    layout
}

fn compare(image: &str, layout: &Layout) -> Score {
    let truth = Truth::of(Path::new(image)).expect("dumpe2fs and debugfs");
    let score = truth.compare(layout, 0);
    for example in &score.examples {
        eprintln!("    {example}");
    }
    score
}

fn show(image: &str, memory: u64) -> bool {
    let layout = attach(image, memory);
    let size = fs::metadata(image).expect("its size").len();
    let mut kinds = BTreeMap::<&str, (u64, u64)>::new();
    let mut at = 0;
    while at < size {
        let piece = layout.at(at);
        let name = match piece.contents {
            Contents::Unknown => "unknown",
            Contents::Metadata => "metadata",
            Contents::Journal => "journal",
            Contents::Directory => "directory",
            Contents::File { .. } => "file",
            Contents::Free => "free",
            #[allow(unreachable_patterns)]
            _ => "other",
        };
        let kind = kinds.entry(name).or_default();
        let len = piece.len_bytes.min(size - at);
        *kind = (kind.0 + 1, kind.1 + len);
        at += len;
    }
    for (name, (pieces, bytes)) in kinds {
        println!("{name}: {pieces} pieces, {} KiB", bytes >> 10);
    }
    let (lookups, began) = (2_000_000_u64, Instant::now());
    let mut dice = 88_172_645_463_325_252_u64;
    let mut known = 0_u64;
    for _ in 0..lookups {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        known += u64::from(layout.at(dice % size).contents != Contents::Unknown);
    }
    let ns = began.elapsed().as_nanos() as f64 / lookups as f64;
    println!("{ns:.0} ns a random lookup, {known} of {lookups} known");
    true
}

/// Calls `visit` with each write, and the length of the log up to it.
fn records(log: &str, mut visit: impl FnMut(u64, &[u8], u64) -> io::Result<()>) -> io::Result<()> {
    let mut log = BufReader::new(File::open(log)?);
    let (mut header, mut position) = ([0; HEADER_BYTES], 0);
    while log.read_exact(&mut header).is_ok() {
        let number =
            |n: usize| u64::from_le_bytes(header[8 * n..][..8].try_into().expect("8 bytes"));
        let mut bytes = vec![0; number(2) as usize];
        log.read_exact(&mut bytes)?;
        position += (HEADER_BYTES + bytes.len()) as u64;
        // 2 is a flush.
        if number(0) == 1 {
            visit(number(1), &bytes, position)?;
        }
    }
    Ok(())
}

fn replay([image, log, after]: [&str; 3], checks: u64, lag: u64, least: u64) -> io::Result<bool> {
    let copied = std::process::Command::new("cp")
        .args(["--sparse=always", image, after])
        .status()?;
    assert!(copied.success(), "the image is copied");
    let mut layout = attach(after, MEMORY);
    println!("after attaching: {}", compare(after, &layout));
    let file = File::options().read(true).write(true).open(after)?;
    let source = Image(file.try_clone()?);
    let every = fs::metadata(log)?.len() / (checks + 1) + 1;
    let (mut next, mut writes, mut bytes_written) = (every, 0_u64, 0_u64);
    let (mut noting, mut reading) = (0.0, 0.0);
    let mut is_right = true;
    let reads_before = layout.counters();
    records(log, |offset, bytes, position| {
        file.write_all_at(bytes, offset)?;
        let began = Instant::now();
        layout.wrote(offset, bytes);
        noting += began.elapsed().as_secs_f64();
        writes += 1;
        bytes_written += bytes.len() as u64;
        if writes % lag == 0 || position >= next {
            let began = Instant::now();
            catch_up(&mut layout, &source);
            reading += began.elapsed().as_secs_f64();
        }
        if position >= next {
            next += every;
            let score = during(after, &layout)?;
            println!("after {writes} writes: {score}");
            is_right &= score.accuracy_in_use() >= least as f64;
        }
        Ok(())
    })?;
    catch_up(&mut layout, &source);
    let score = compare(after, &layout);
    let counters = layout.counters();
    println!(
        "at the end, {writes} writes, {} MiB: {score}",
        bytes_written >> 20
    );
    println!(
        "cost of the writes: {:.2} us each to note, {:.2} us each to read, {} reads, {} KiB; {} KiB of memory",
        noting * 1e6 / writes as f64,
        reading * 1e6 / writes as f64,
        counters.reads - reads_before.reads,
        (counters.read_bytes - reads_before.read_bytes) >> 10,
        counters.memory_bytes >> 10
    );
    let fresh = attach(after, MEMORY);
    println!("attached again: {}", compare(after, &fresh));
    Ok(is_right && score.accuracy() >= 99.9 && score.wrong() == 0)
}

fn catch_up(layout: &mut Layout, source: &dyn VolumeSource) {
    while layout.step(source, 1000) == Progress::More {}
}

/// Compares with the image as a crash now would leave it, after recovery.
fn during(image: &str, layout: &Layout) -> io::Result<Score> {
    let copy = format!("{image}.now");
    let copied = std::process::Command::new("cp")
        .args(["--sparse=always", image, &copy])
        .status()?;
    assert!(copied.success(), "the image is copied");
    let said = output("e2fsck", &["-y", "-E", "journal_only", &copy], "").expect("e2fsck");
    for line in said.lines().filter(|line| line.contains("orphan")) {
        println!("    e2fsck frees what the file system would have freed: {line}");
    }
    let score = compare(&copy, layout);
    fs::remove_file(&copy)?;
    Ok(score)
}
