//! Examines a damaged pool as its users do: opens it, restores, checks, and continues with backups.

use super::places::Place;
use chunking::Compression;
use sim::SimDisk;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{CheckDepth, CheckReport, OpenMode, Pool, StoreErrorKind};
use testkit::specimen::restore::{Name, Truth};
use testkit::specimen::{Specimen, noise, store_image};

/// Findings on a damaged pool.
#[derive(Debug, Default)]
pub struct Seen {
    /// Why it does not open.
    pub refused: Option<StoreErrorKind>,
    /// Texts that opening and check report.
    pub reports: Vec<String>,
    /// Notes of check that are not damage.
    pub hints: Vec<String>,
    /// Generations that are reported as lost.
    pub lost_commits: Vec<u64>,
    /// Indexes of the specimen's snapshots that are not listed.
    pub unlisted: BTreeSet<usize>,
    /// Listed names that fail to restore.
    pub lost: BTreeSet<Name>,
    /// Names that check reports.
    pub affected: BTreeSet<Name>,
    /// Lost names that check reports only if it reads user data.
    pub unnamed_structure: Vec<Name>,
    /// Findings that must never occur: wrong bytes, lost names that are not reported.
    pub wrong: Vec<String>,
}

/// Opens, restores and checks.
pub fn examine(of: &Specimen, disk: &Arc<SimDisk>, seed: u64, mode: OpenMode) -> Seen {
    match of.open(disk, seed, mode) {
        Err(e) => Seen {
            refused: Some(e.kind),
            reports: vec![e.to_string()],
            ..Seen::default()
        },
        Ok(pool) => look(&pool, &of.truths),
    }
}

/// Restores and checks.
pub fn look(pool: &Pool, truths: &[Truth]) -> Seen {
    let mut seen = Seen {
        lost_commits: pool.health().lost_commits().iter().map(|g| g.0).collect(),
        ..Seen::default()
    };
    let mut check = |depth| {
        pool.check(depth, &mut |_, _| ControlFlow::Continue(()))
            .map_err(|e| seen.wrong.push(format!("check fails: {e}")))
            .unwrap_or_default()
    };
    let structure = check(CheckDepth::Structure);
    let report = check(CheckDepth::ALL);
    let names = |report: &CheckReport| -> BTreeSet<Name> {
        let names = report.affected.iter();
        names.map(|a| (a.snapshot, a.path.clone())).collect()
    };
    seen.affected = names(&report);
    let (snapshots, unreadable) = pool.snapshots_readable().expect("a disk that works");
    if unreadable.is_some() == pool.snapshots().is_ok() {
        seen.wrong
            .push("strict and tolerant listing differ".to_owned());
    }
    for (number, truth) in truths.iter().enumerate() {
        if !snapshots.contains(&truth.snapshot) {
            seen.unlisted.insert(number);
            continue;
        }
        match truth.restore(pool) {
            Ok(lost) => seen.lost.extend(lost.into_keys()),
            Err(wrong) => seen.wrong.push(wrong),
        }
    }
    // A named directory covers everything below it.
    let is_named = |(snapshot, path): &Name, names: &BTreeSet<Name>| {
        names
            .iter()
            .any(|(s, p)| s == snapshot && path.starts_with(p))
    };
    for name in &seen.lost {
        if !is_named(name, &seen.affected) {
            let path = String::from_utf8_lossy(&name.1);
            seen.wrong
                .push(format!("{path:?} is lost and check does not name it"));
        }
    }
    let by_structure = names(&structure);
    let unnamed = seen
        .lost
        .iter()
        .filter(|name| !is_named(name, &by_structure));
    seen.unnamed_structure = unnamed.cloned().collect();
    for name in seen.affected.difference(&seen.lost) {
        let path = String::from_utf8_lossy(&name.1);
        seen.wrong
            .push(format!("check names {path:?}, which restores"));
    }
    for affected in &report.affected {
        let of_it = |t: &&Truth| t.snapshot.id == affected.snapshot && affected.path.is_empty();
        if let (Some(truth), Some(offset)) = (truths.iter().find(of_it), affected.offset) {
            let root = &truth.snapshot.root;
            let reads = |from: u64, to: u64| {
                let mut bytes = vec![0; (to - from) as usize];
                pool.reader().read_object(root, from, &mut bytes).is_ok()
            };
            if !reads(0, offset) || reads(offset, offset + 1) {
                let name = truth.name();
                seen.wrong
                    .push(format!("{name}: {offset} is not the first lost byte"));
            }
        }
    }
    if unreadable.is_some() && report.is_sound() {
        seen.wrong
            .push("an unreadable catalog and a sound check".to_owned());
    }
    seen.reports = report.damage;
    seen.hints = report.notes;
    seen
}

/// A writer opens the damaged pool, stores something new and something known, and ends. Returns
/// what the next reader sees.
pub fn go_on(of: &Specimen, disk: &Arc<SimDisk>, seed: u64, place: Place) -> Seen {
    let mut wrong = Vec::new();
    let bytes = noise(500 + seed, 30_000);
    let added = match of.open(disk, seed, OpenMode::Write) {
        Ok(pool) => store_image(&pool, "afterwards", &bytes, Compression::Zstd(1)),
        Err(e) => {
            wrong.push(format!("{place:?}: no more backups: {e}"));
            return Seen {
                wrong,
                ..Seen::default()
            };
        }
    };
    let mut truths = of.truths.clone();
    truths.push(added);
    let pool = match of.open(disk, seed + 1, OpenMode::Read) {
        Ok(pool) => pool,
        Err(e) => {
            wrong.push(format!("does not open after a backup: {e}"));
            return Seen {
                wrong,
                ..Seen::default()
            };
        }
    };
    let mut seen = look(&pool, &truths);
    let last = truths.len() - 1;
    if seen.unlisted.contains(&last)
        || seen
            .lost
            .iter()
            .any(|(s, _)| *s == truths[last].snapshot.id)
    {
        seen.wrong
            .push("the backup made after the damage is lost".to_owned());
    }
    seen.wrong.extend(wrong);
    seen
}
