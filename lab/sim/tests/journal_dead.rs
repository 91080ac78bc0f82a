//! Records that a replay did not return stay lost, even if the disk returns their old bytes later.
//!
//! Invariant: once a process has written to the journal, nothing behind the end that it found, and
//! no slot that it did not find, is ever replayed. A disk may return such bytes: a mirror that
//! reads its other half, or a drive whose cache was thought lost.

use sim::journal_histories::{Checkpoint, JournalHistory, expect, go_on, open};
use sim::{CrashPoint, History, Image, Plan, Scenario, Seed, SimDisk, Walker};
use std::sync::Arc;

/// Restores all slots that were not used since the crash. Returns true if that changes anything.
fn give_back(disk: &Arc<SimDisk>, crashed: &Image, everything: &Image) -> bool {
    let mut changed = false;
    for (name, _) in everything.files() {
        let page = |image: &Image| {
            image
                .contents(&name)
                .map(|b| b[..b.len().min(4096)].to_vec())
        };
        let now = disk.image();
        if !name.starts_with("journal/") || page(&now) != page(crashed) {
            continue;
        }
        let old = everything.contents(&name).unwrap_or_default();
        changed |= now.contents(&name).as_deref() != Some(&old);
        disk.plant(&name, &old);
    }
    changed
}

#[derive(Default)]
struct Counts {
    states: usize,
    changed: usize,
    /// Would have been replayed if nothing had been written since.
    would_return: usize,
}

fn explore(history: &JournalHistory, counts: &mut Counts) {
    let disk = SimDisk::new();
    let reported = History::new(Arc::clone(&disk));
    history.run(&disk, &reported).expect("a healthy disk");
    let recording = disk.recording();
    let mut walker = Walker::new(&recording);
    let mut seed = Seed::new(history.seed);
    for position in 3..disk.position() {
        walker.advance(position);
        let point = CrashPoint::new(&walker);
        let everything = point.state(Plan::Everything);
        for plan in point.plans(8, &mut seed) {
            let crashed = point.state(plan);
            if crashed.hash() == everything.hash() || seed.chance(128) {
                continue;
            }
            let place = format!("{} {position} {plan:?}", history.name);
            let disk = SimDisk::on(crashed.clone());
            let Ok(checkpoint) = Checkpoint::newest(&disk) else {
                continue;
            };
            let open = |disk: &Arc<SimDisk>| open(disk, history.seal, checkpoint.from);
            let found = open(&disk).expect(&place);
            let before = found.records.clone();
            let known = go_on(&disk, found, checkpoint, history.seal).expect(&place);
            if known.len() == before.len() {
                // The ring was full: nothing was written.
                continue;
            }
            counts.states += 1;
            if give_back(&disk, &crashed, &everything) {
                counts.changed += 1;
                expect(&disk, &known, checkpoint, history.seal).expect(&place);
            }
            // The canary: the same bytes, before anything was written.
            let disk = SimDisk::on(crashed.clone());
            give_back(&disk, &crashed, &everything);
            let more = open(&disk).is_ok_and(|more| more.records.len() > before.len());
            counts.would_return += usize::from(more);
        }
    }
}

#[test]
fn the_dead_stay_dead() {
    let mut counts = Counts::default();
    for history in JournalHistory::scripted(2) {
        explore(&history, &mut counts);
    }
    for seed in 40..52 {
        explore(&JournalHistory::random(seed, 20), &mut counts);
    }
    let Counts {
        states,
        changed,
        would_return,
    } = counts;
    println!("{states} states, {changed} with other bytes, {would_return} that would return");
    assert!(states > 1000 && changed > 150 && would_return > 100);
}
