//! Compares what page events say of a file with what `cachestat` says of each of its pages, under
//! random reads, writes, fsyncs, fadvise, truncates, mapped accesses and drop_caches.
//!
//!     page_checks DIRECTORY|FILE [CHECKS] [SEED] [CHUNKS_MAX]
//!
//! In a directory it makes a file and removes it. A file of at least 4 MiB keeps its length.
//!
//! Maps with room for a few chunks (CHUNKS_MAX) drop events, which a scan makes up for.
//!
//! Needs root. Prints one line; exits with 1 if a page differs, with 2 if there are no events here.
//! A page that differs is asked about a second time after another drain, since the kernel may have
//! written it between the two views; those are counted as `again`.

use duet::{Duet, DuetOptions};
use linux_host::{Ebpf, FileId, Watch};
use machine::{PAGE_BYTES, cached};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

/// Pages of the file.
const PAGES: u64 = 1024;

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let given = arguments.next().expect("a directory or file");
    let number = |text: Option<String>, usual| text.map_or(usual, |t| t.parse().expect("a number"));
    let checks = number(arguments.next(), 100_000);
    let seed = number(arguments.next(), 88_172_645_463_325_252);
    let chunks_max = number(arguments.next(), Ebpf::CHUNKS_MAX.into());
    let chunks_max = u32::try_from(chunks_max).expect("a small number");
    let given = Path::new(&given);
    let is_fixed = given.is_file();
    let path = match is_fixed {
        true => given.to_owned(),
        false => given.join("page-checks"),
    };
    if !is_fixed {
        let _ = fs::remove_file(&path);
    }
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .expect("the file");
    let duet = Duet::new(DuetOptions {
        items_max: 1 << 20,
        seed,
    });
    let mut watch = Watch::start_within(given, duet, chunks_max).expect("a watch");
    if let Some(why) = watch.polls_because() {
        println!("SKIPPED: no page events in {}: {why}", given.display());
        return ExitCode::from(2);
    }
    watch.scan().expect("a scan");
    let id = FileId::of(&file, watch.mount()).expect("its identity");
    let outcome = compare(&mut watch, &file, id, (checks, seed, is_fixed));
    if !is_fixed {
        fs::remove_file(&path).expect("removed");
    }
    let o = &outcome;
    println!(
        "{}: {} page checks, {} cached, {} dirty: {} differ in presence, {} in dirtiness \
         ({} asked again, {} chunks dropped)",
        watch.mount().kind,
        o.checks,
        o.cached,
        o.dirty,
        o.present_differs,
        o.dirty_differs,
        o.again,
        o.dropped
    );
    match outcome.present_differs + outcome.dirty_differs {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

#[derive(Default)]
struct Outcome {
    checks: u64,
    cached: u64,
    dirty: u64,
    present_differs: u64,
    dirty_differs: u64,
    again: u64,
    dropped: u64,
}

fn compare(
    watch: &mut Watch,
    file: &File,
    id: FileId,
    (checks, seed, is_fixed): (u64, u64, bool),
) -> Outcome {
    let mut dice = Dice(seed);
    let mut outcome = Outcome::default();
    let mut round = 0;
    while outcome.checks < checks {
        for _ in 0..=dice.below(12) {
            step(file, is_fixed, &mut dice);
        }
        if round % 7 == 6 {
            file.sync_data().expect("synced");
            fs::write("/proc/sys/vm/drop_caches", "1").expect("root");
        }
        // The kernel writes dirty pages when it likes. Both views are taken at rest.
        settle(file);
        outcome.dropped += watch.drain().expect("drained").dropped;
        for page in 0..PAGES {
            let views = |watch: &Watch| {
                let now = cached(file, page * PAGE_BYTES, PAGE_BYTES).expect("cachestat");
                let now = (now.cached > 0, now.dirty > 0);
                (now, watch.mirror().page(id, page))
            };
            let (mut now, mut known) = views(watch);
            if now != known {
                outcome.again += 1;
                outcome.dropped += watch.drain().expect("drained").dropped;
                (now, known) = views(watch);
            }
            outcome.checks += 1;
            outcome.cached += u64::from(now.0);
            outcome.dirty += u64::from(now.1);
            outcome.present_differs += u64::from(now.0 != known.0);
            outcome.dirty_differs += u64::from(now.1 != known.1);
        }
        round += 1;
    }
    outcome
}

fn settle(file: &File) {
    const WAIT_BEFORE: libc::c_uint = 1;
    const WAIT_AFTER: libc::c_uint = 4;
    // SAFETY: the call takes no memory.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, WAIT_BEFORE | WAIT_AFTER) };
}

fn step(file: &File, is_fixed: bool, dice: &mut Dice) {
    let size = file.metadata().expect("its size").len();
    let end = PAGES * PAGE_BYTES;
    let offset = dice.below(end);
    let bits = 6 + dice.below(14);
    let bytes = (1 + dice.below(1 << bits)).min(end - offset);
    match dice.below(10) {
        0..=2 => {
            let data = vec![7; bytes as usize];
            file.write_all_at(&data, offset).expect("written");
        }
        3..=5 => {
            let mut data = vec![0; bytes as usize];
            file.read_at(&mut data, offset).expect("read");
        }
        6 if dice.below(3) == 0 => file.sync_data().expect("synced"),
        6 => {}
        7 => {
            if dice.below(3) == 0 {
                file.sync_data().expect("synced");
            }
            let advice = libc::POSIX_FADV_DONTNEED;
            let (offset, bytes) = (offset.cast_signed(), bytes.cast_signed());
            // SAFETY: the call takes no memory.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, advice) };
        }
        8 if !is_fixed && dice.below(4) == 0 => {
            file.set_len(dice.below(size + 1)).expect("truncated")
        }
        8 => {
            const WRITE: libc::c_uint = 2;
            let (offset, bytes) = (offset.cast_signed(), bytes.cast_signed());
            // SAFETY: the call takes no memory.
            unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, WRITE) };
        }
        _ => mapped(file, size, dice),
    }
}

/// Reads a byte through a mapping, and writes every other one.
fn mapped(file: &File, size: u64, dice: &mut Dice) {
    if size < 2 * PAGE_BYTES {
        return;
    }
    let at = dice.below(size) as usize;
    // SAFETY: the mapping is as long as the file, which only this thread truncates; the address is
    // within it, and it is unmapped before the next step.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(start, libc::MAP_FAILED, "mapped");
        let byte = start.cast::<u8>().add(at);
        let value = byte.read_volatile();
        if at & 1 == 0 {
            byte.write_volatile(value ^ 1);
        }
        libc::munmap(start, size as usize);
    }
}
