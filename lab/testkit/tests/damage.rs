//! The damage matrix: every action at every place of a pool, and what must still work (style 16).
//!
//! For each cell: opening for reading and for writing never panics. The damage is detected.
//! Undamaged objects restore byte for byte. Lost ones are reported by name. The next writer repairs
//! a lost copy. A backup after the damage works. After a repair and a backup of the same sources
//! everything is complete again. `damage/table.rs` has the expectations.

mod actions;
pub mod examine;
pub mod places;
mod repair_all;
pub mod rotten;
mod table;

use actions::{ACTIONS, Action};
use examine::{examine, go_on};
use places::{Copies, Part, Place, Target, Which};
use repair_all::repair_all;
use sim::{Damage, Seed};
use std::collections::BTreeSet;
use store::OpenMode;
use table::{Expect, ROWS, judge, row};
use testkit::specimen::Specimen;

/// Runs every cell of the matrix. Returns the complaints and the rows that were used.
fn run(encrypted: bool) -> (Vec<String>, BTreeSet<usize>) {
    let (of, other) = (Specimen::new(1, encrypted), Specimen::new(2, encrypted));
    let mut complaints = Vec::new();
    let mut used = BTreeSet::new();
    let mut cells = 0;
    for place in places::places() {
        let Some(target) = place.target(&of) else {
            continue;
        };
        for action in ACTIONS {
            let disk = of.disk();
            if !action.apply(place, &target, &of, &other, &disk) {
                continue;
            }
            cells += 1;
            let row =
                row(place, action).unwrap_or_else(|| panic!("no row for {place:?} {action:?}"));
            used.insert(row);
            let expect = ROWS[row].2;
            let run = || cell(&of, &other, place, &target, action, expect, cells);
            let complained = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            for complaint in complained.unwrap_or_else(|_| vec!["panics".to_owned()]) {
                complaints.push(format!("{place:?} {action:?}: {complaint}"));
            }
        }
    }
    assert!(cells > 150, "only {cells} cells");
    (complaints, used)
}

/// Runs one cell: a reader, a writer, and the reader after a backup.
fn cell(
    of: &Specimen,
    other: &Specimen,
    place: Place,
    target: &Target,
    action: Action,
    expect: Expect,
    seed: u64,
) -> Vec<String> {
    let newest: Vec<usize> = (of.truths.len() - of.newest..of.truths.len()).collect();
    let mut complaints = Vec::new();
    for mode in [OpenMode::Read, OpenMode::Write] {
        let disk = of.disk();
        action.apply(place, target, of, other, &disk);
        let seen = examine(of, &disk, seed * 10, mode);
        let mut wrong = judge(expect, &seen, &newest, false);
        if let Place::Container(Which::Recipe | Which::NewestRecipe, _) = place
            && !seen.unnamed_structure.is_empty()
        {
            wrong.push(format!(
                "without data: {:?} unnamed",
                seen.unnamed_structure
            ));
        }
        complaints.extend(
            wrong
                .into_iter()
                .map(|w| format!("{mode:?}: {w} {:?}", seen.reports)),
        );
        if mode == OpenMode::Write {
            // The writer's repairs are on the disk, even if it stored nothing.
            let seen = examine(of, &disk, seed * 10 + 1, OpenMode::Read);
            let is_repaired = matches!(expect, Expect::Repaired | Expect::Noted);
            let wrong = judge(expect, &seen, &newest, is_repaired);
            let tell = |w| format!("after a writer: {w} {:?}", seen.reports);
            complaints.extend(wrong.into_iter().map(tell));
        }
    }
    if let Expect::Refused(_) = expect {
        return complaints;
    }
    let disk = of.disk();
    action.apply(place, target, of, other, &disk);
    let seen = go_on(of, &disk, seed * 10 + 1, place);
    let wrong = judge(expect, &seen, &newest, true);
    complaints.extend(
        wrong
            .into_iter()
            .map(|w| format!("afterwards: {w} {:?}", seen.reports)),
    );
    let disk = of.disk();
    action.apply(place, target, of, other, &disk);
    let wrong = repair_all(of, &disk, seed * 10 + seed % 7, place);
    complaints.extend(wrong.into_iter().map(|w| format!("healing: {w}")));
    complaints
}

#[test]
fn matrix_of_an_encrypted_pool() {
    let (complaints, used) = run(true);
    assert!(
        complaints.is_empty(),
        "{}:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    let unused: Vec<_> = (0..ROWS.len()).filter(|n| !used.contains(n)).collect();
    assert!(unused.is_empty(), "rows that no cell uses: {unused:?}");
}

#[test]
fn matrix_of_a_clear_pool() {
    let (complaints, _) = run(false);
    assert!(
        complaints.is_empty(),
        "{}:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn canary_undetected_damage_fails_the_matrix() {
    let (of, other) = (Specimen::new(1, false), Specimen::new(2, false));
    let complains = |place: Place, action: Action, expect: Expect| {
        let target = place.target(&of).unwrap();
        !cell(&of, &other, place, &target, action, expect, 7).is_empty()
    };
    let padding = Place::Container(Which::Data, Part::RegionPadding);
    assert!(
        complains(padding, Action::FlipMany, Expect::Reported),
        "nobody looks at padding"
    );
    let payload = Place::Container(Which::Data, Part::RegionPayload);
    assert!(
        complains(payload, Action::FlipOne, Expect::Reported),
        "names are lost"
    );
    assert!(
        complains(Place::Root(Copies::Both), Action::Delete, Expect::Repaired),
        "a commit is lost"
    );
    assert!(!complains(
        padding,
        Action::FlipMany,
        Expect::Harmless("padding")
    ));
}

#[test]
fn random_flips_are_found_wherever_bytes_mean_something() {
    let of = Specimen::new(11, true);
    let files: Vec<_> = of
        .image
        .files()
        .into_iter()
        .filter(|(_, len)| *len > 0)
        .collect();
    let mut seed = Seed::new(12);
    let mut reported = 0;
    for n in 0..250 {
        let (path, len) = &files[seed.below(files.len() as u64) as usize];
        let bit = seed.below(len * 8);
        let disk = of.disk();
        disk.damage(path, &Damage::FlipBit(bit)).unwrap();
        let seen = examine(&of, &disk, n, OpenMode::Read);
        assert_eq!(seen.refused, None, "{path} bit {bit}");
        assert_eq!(seen.wrong, Vec::<String>::new(), "{path} bit {bit}");
        if !seen.reports.is_empty() {
            reported += 1;
            continue;
        }
        let is_padding = path.starts_with("containers") && {
            let blob = of.image.contents(path).unwrap();
            places::padding(&blob)
                .iter()
                .any(|range| range.contains(&(bit / 8)))
        };
        let is_cache = path.starts_with("cache/");
        let is_older_root = path.contains("roots/") && !path.ends_with("00005");
        assert!(
            is_padding || is_cache || is_older_root,
            "{path} bit {bit} went unseen"
        );
    }
    assert!(reported > 100, "only {reported} of 250 flips were reported");
}
