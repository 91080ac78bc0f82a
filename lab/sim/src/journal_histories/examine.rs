//! Opens the journal that a crash left, compares it with the facts, and uses it. The scenario's
//! check and tests call this.
//!
//! Invariant: examining only adds its own records, numbered from [`LATER`], so that a power loss
//! may interrupt it and it can be examined in turn.

use super::Facts;
use super::checkpoint::{Checkpoint, text};
use super::records::{Replayed, Size, open, reached, with_record};
use crate::SimDisk;
use format::config::Seal;
use std::sync::Arc;
use units::JournalPosition;

/// Numbers of records that are appended after a crash.
const LATER: u64 = 1 << 32;
/// Number of these records, each flushed.
const ADDED: u64 = 2;

/// Opens the journal that a crash left; returns what is wrong with it.
pub fn examine(disk: &Arc<SimDisk>, facts: &Facts, seal: Seal) -> Result<(), String> {
    let checkpoint = Checkpoint::newest(disk)?;
    if checkpoint.first < facts.needless {
        return Err(format!("the checkpoint is lost: {checkpoint:?}"));
    }
    let reached = reached(disk, seal)?;
    if reached < facts.reached {
        let expected = facts.reached;
        return Err(format!("recorded to reach {reached} instead of {expected}"));
    }
    let found = open(disk, seal, checkpoint.from)?;
    sound(&found, checkpoint, facts)?;
    go_on(disk, found, checkpoint, seal).map(drop)
}

/// Compares with the facts: no gap, no flushed record missing, no lost record, no false damage.
fn sound(found: &Replayed, checkpoint: Checkpoint, facts: &Facts) -> Result<(), String> {
    if let Some(damage) = found.damage.first() {
        return Err(format!("a false alarm: {damage}"));
    }
    let is_lost = |n: &u64| facts.lost.iter().any(|lost| lost.contains(n));
    let numbers: Vec<u64> = found.records.iter().map(|(n, _)| *n).collect();
    let later = numbers.partition_point(|n| *n < LATER);
    let (before, after) = numbers.split_at(later);
    let mut expected = (checkpoint.first..LATER).filter(|n| !is_lost(n));
    if let Some(wrong) = before.iter().find(|n| expected.next() != Some(**n)) {
        return Err(format!(
            "{wrong} is out of turn in {numbers:?}, {checkpoint:?}"
        ));
    }
    if let Some(missing) = expected.next().filter(|n| *n < facts.flushed) {
        return Err(format!(
            "{missing} was flushed, found {numbers:?}, {checkpoint:?}"
        ));
    }
    if after
        .iter()
        .zip(LATER..)
        .any(|(found, wanted)| *found != wanted)
    {
        return Err(format!("later records in disorder: {numbers:?}"));
    }
    let head = found.journal.head();
    if head < facts.head || head < checkpoint.from {
        return Err(format!(
            "positions begin again at {head}, below {}",
            facts.head
        ));
    }
    Ok(())
}

/// Uses the journal. The next process must find all records, old and added, by number and position.
pub fn go_on(
    disk: &Arc<SimDisk>,
    found: Replayed,
    checkpoint: Checkpoint,
    seal: Seal,
) -> Result<Vec<(u64, JournalPosition)>, String> {
    let Replayed {
        journal,
        records: mut known,
        ..
    } = found;
    let last = known.last().map_or(0, |(number, _)| number + 1).max(LATER);
    for number in last..last + ADDED {
        match with_record(number, Size::Small, |record| journal.append(record)) {
            Ok(at) => known.push((number, at)),
            // Consecutive crashes may leave a full ring; a checkpoint would follow.
            Err(e) if e.kind == store::StoreErrorKind::JournalFull => break,
            Err(e) => return Err(text(e)),
        }
        journal.flush().map_err(text)?;
    }
    drop(journal);
    expect(disk, &known, checkpoint, seal)?;
    Ok(known)
}

/// Checks that a process that opens the journal finds exactly these records.
pub fn expect(
    disk: &Arc<SimDisk>,
    known: &[(u64, JournalPosition)],
    checkpoint: Checkpoint,
    seal: Seal,
) -> Result<(), String> {
    let again = open(disk, seal, checkpoint.from)?;
    if again.records != known || !again.damage.is_empty() {
        let numbers: Vec<u64> = again.records.iter().map(|(n, _)| *n).collect();
        return Err(format!(
            "then {numbers:?} instead of {:?}, {:?}",
            known.iter().map(|(n, _)| n).collect::<Vec<_>>(),
            again.damage
        ));
    }
    Ok(())
}
