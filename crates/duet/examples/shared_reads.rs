//! Counts the device reads of maintenance: `cargo run --release -p duet --example shared_reads`.
//!
//! The counts are the same on every machine. 200 objects of ten pages are behind an LRU cache of a
//! tenth of them. Clients read whole objects at random from a part of all objects (overlap), at a
//! fixed ratio to the objects that a task completes. Tasks read all objects and take turns; the
//! second one reads backwards.

#![allow(dead_code, reason = "the tests use the rest")]

#[path = "../tests/reading/mod.rs"]
mod reading;
#[path = "../tests/world/mod.rs"]
mod world;

use duet::{Access, Driver, DriverOptions, DriverStep, Mask, Scope, Space, TaskProgress};
use reading::{OBJECTS, PAGE_BYTES, PAGES, Reader, Store};
use world::{Numbers, page};

const CACHED: u64 = OBJECTS * PAGES / 10;

/// Returns the percentage of the tasks' reads that came from the device. A client reads as much as
/// one object, starting `shift` pages after an object's start.
fn from_device(
    tasks: usize,
    overlap_percent: u64,
    busy_percent: u64,
    has_events: bool,
    shift: u64,
) -> u64 {
    let store = Store::new(1 << 20, CACHED as usize);
    let mut numbers = Numbers(tasks as u64);
    // Without events: the session waits for an event that never happens here.
    let mask = if has_events {
        Mask::EXISTS
    } else {
        Mask::FLUSHED
    };
    let mut runs = Vec::new();
    for nth in 0..tasks {
        let duet = &store.world.duet;
        let Ok(session) = duet.register(Space::Pages, Scope::Everything, mask, 0) else {
            continue;
        };
        let driver = Driver::new(session, DriverOptions::default(), TaskProgress::new(0));
        let mut task = Reader::new(&store);
        task.descends = nth == 1;
        runs.push((driver, task));
    }
    let mut owed_percent = 0;
    loop {
        let mut finished = 0;
        for (driver, task) in &mut runs {
            match driver.step(task, &store.world, 0, (PAGES * PAGE_BYTES, Access::Device)) {
                Ok(DriverStep::Finished) | Err(_) => finished += 1,
                Ok(_) => owed_percent += busy_percent,
            }
        }
        if finished == runs.len() {
            break;
        }
        while owed_percent >= 100 {
            owed_percent -= 100;
            // Hot objects are spread over all objects.
            let nth = numbers.below(OBJECTS * overlap_percent / 100);
            let object = nth * 77 % OBJECTS;
            for n in shift..shift + PAGES {
                store.read(page((object + n / PAGES) % OBJECTS, n % PAGES));
            }
        }
    }
    let read = |(driver, _): &(Driver, Reader)| driver.status(0).counts.bytes_read;
    let all = runs.len() as u64 * OBJECTS * PAGES * PAGE_BYTES;
    runs.iter().map(read).sum::<u64>() * 100 / all.max(1)
}

fn main() {
    println!("Pages that maintenance reads from the device, percent of all it reads; in brackets");
    println!("without events.\n");
    println!(
        "| tasks | overlap | idle | 1 read an object | 2 | 4 | 8 |\n|---|---|---|---|---|---|---|"
    );
    for tasks in [1, 2, 3] {
        for overlap in [25, 50, 75, 100] {
            print!("| {tasks} | {overlap} % ");
            for busy in [0, 100, 200, 400, 800] {
                let with = from_device(tasks, overlap, busy, true, 0);
                let without = from_device(tasks, overlap, busy, false, 0);
                print!("| {with} ({without}) ");
            }
            println!("|");
        }
    }
    println!(
        "\nOne task, clients that read the second half of an object and the first of the next:\n"
    );
    println!("| overlap | idle | 1 read an object | 2 | 4 | 8 |\n|---|---|---|---|---|---|");
    for overlap in [25, 50, 75, 100] {
        print!("| {overlap} % ");
        for busy in [0, 100, 200, 400, 800] {
            print!("| {} ", from_device(1, overlap, busy, true, PAGES / 2));
        }
        println!("|");
    }
}
