//! The matrix: action x place x what must still work.

use super::actions::Action::{self, *};
use super::examine::Seen;
use super::places::Copies::{Both, Mirror, Name};
use super::places::Part::{self, *};
use super::places::Place::{self, *};
use super::places::Which::{Data, NewestRecipe, Recipe};
use super::places::{Copies, Which};
use store::StoreErrorKind;

/// Permitted effect of a damage.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Expect {
    /// Nothing is lost and no report is needed; with the reason.
    Harmless(&'static str),
    /// Nothing is lost, readers report it, and the next writer repairs it.
    Repaired,
    /// Nothing is lost. An interrupted writer leaves the same state, so it is a note and not
    /// damage. The next writer repairs it.
    Noted,
    /// Nothing is lost and readers report it. It stays as it is.
    Reported,
    /// Some names are lost and all of these are reported. The rest restores.
    Loses,
    /// The last commit is lost with its snapshots, which is reported. Everything before it
    /// restores.
    LosesCommit,
    /// Commits including the last one are lost with their snapshots, which is reported. Everything
    /// before them restores.
    LosesCommits,
    /// Opening fails with this kind.
    Refused(StoreErrorKind),
}

use Expect::{Harmless, Loses, LosesCommit, LosesCommits, Noted, Refused, Repaired, Reported};

/// Places, actions (none: all that remain), expectation. The first match counts.
pub struct Row(pub fn(Place) -> bool, pub &'static [Action], pub Expect);

const fn is_mirrored(copies: Copies) -> bool {
    matches!(copies, Name | Mirror)
}

const fn is_region(part: Part) -> bool {
    matches!(part, RegionHeader | RegionPayload)
}

const fn is_directory(part: Part) -> bool {
    matches!(part, DirectoryHeader | DirectoryPayload)
}

const fn is_padding(part: Part) -> bool {
    matches!(part, RegionPadding | DirectoryPadding)
}

const fn is_older(which: Which) -> bool {
    matches!(which, Data | Recipe)
}

/// The table.
pub const ROWS: &[Row] = &[
    // One of two names is damaged: the other one serves, and a writer restores the pair.
    Row(
        |p| matches!(p, KeySlot(c) | OtherSlot(c) | Root(c) if is_mirrored(c)),
        &[Delete],
        Noted,
    ),
    Row(
        |p| matches!(p, Config(c) | KeySlot(c) | OtherSlot(c) | Root(c) if is_mirrored(c)),
        &[],
        Repaired,
    ),
    // Both names are damaged, but each blob has two copies.
    Row(
        |p| {
            matches!(
                p,
                Config(Both) | KeySlot(Both) | OtherSlot(Both) | Root(Both)
            )
        },
        &[FlipOne, Append],
        Repaired,
    ),
    Row(
        |p| p == Config(Both),
        &[],
        Refused(StoreErrorKind::Corruption),
    ),
    Row(|p| p == KeySlot(Both), &[Swap], Repaired),
    Row(
        |p| p == KeySlot(Both),
        &[],
        Refused(StoreErrorKind::WrongKey),
    ),
    Row(|p| p == OtherSlot(Both), &[Swap], Repaired),
    Row(
        |p| p == OtherSlot(Both),
        &[Delete],
        Harmless("this is how a key is removed"),
    ),
    Row(|p| p == OtherSlot(Both), &[], Reported),
    // The newest commit cannot be used: the one before serves, and readers report it.
    // Here the recipes of the last two commits are each under the other's name.
    Row(
        |p| matches!(p, Container(Recipe | NewestRecipe, File)),
        &[Swap],
        LosesCommits,
    ),
    Row(
        |p| matches!(p, Root(Both) | OldRoot(Both)),
        &[Swap],
        LosesCommits,
    ),
    Row(|p| p == Root(Both), &[], LosesCommit),
    Row(
        |p| matches!(p, OldRoot(_)),
        &[],
        Harmless("an older root only serves to rewind"),
    ),
    // Containers.
    Row(
        |p| matches!(p, Container(_, part) if is_padding(part)),
        &[FlipOne, FlipMany, Zero],
        Harmless("padding carries nothing"),
    ),
    Row(
        |p| matches!(p, Container(_, Header | Footer)),
        &[FlipOne, FlipMany, Zero],
        Reported,
    ),
    Row(
        |p| matches!(p, Container(_, part) if is_directory(part)),
        &[FlipOne, FlipMany, Zero],
        Reported,
    ),
    Row(
        |p| matches!(p, Container(_, part) if is_directory(part)),
        &[Truncate],
        Reported,
    ),
    Row(
        |p| matches!(p, Container(_, DirectoryPadding | Footer)),
        &[Truncate],
        Reported,
    ),
    // Its only region is whole.
    Row(
        |p| matches!(p, Container(Recipe | NewestRecipe, RegionPadding)),
        &[Truncate],
        Reported,
    ),
    Row(|p| matches!(p, Container(_, File)), &[Append], Reported),
    Row(
        |p| matches!(p, Container(which, part) if is_older(which) && is_region(part)),
        &[],
        Loses,
    ),
    Row(
        |p| matches!(p, Container(which, _) if is_older(which)),
        &[],
        Loses,
    ),
    // The catalog in use is there: the commit before serves.
    Row(
        |p| matches!(p, Container(NewestRecipe, _)),
        &[],
        LosesCommit,
    ),
    Row(
        |p| matches!(p, Index(_)),
        &[],
        Harmless("a cache that is made anew"),
    ),
    Row(
        |p| matches!(p, Leftover),
        &[],
        Harmless("swept by the next writer"),
    ),
    Row(|p| matches!(p, Lock), &[], Harmless("holds no bytes")),
];

/// Returns the row of a cell.
pub fn row(place: Place, action: Action) -> Option<usize> {
    ROWS.iter().position(|Row(places, actions, _)| {
        places(place) && (actions.is_empty() || actions.contains(&action))
    })
}

/// Compares the findings with the expectation. Returns the differences. `newest` are the snapshots
/// of the last commit. `later` is true if a writer has opened the pool since the damage.
pub fn judge(expect: Expect, seen: &Seen, newest: &[usize], later: bool) -> Vec<String> {
    let mut wrong = seen.wrong.clone();
    let mut want = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    if let Refused(kind) = expect {
        want(seen.refused == Some(kind), "is not refused as it should be");
        return wrong;
    }
    want(seen.refused.is_none(), "does not open");
    let reported = !seen.reports.is_empty();
    match expect {
        Repaired if later => want(!reported, "was not healed"),
        Noted => {
            want(!reported, "looks like damage");
            want(
                later == seen.hints.is_empty(),
                "is noted until it is healed",
            );
        }
        Repaired | Reported | Loses => want(reported, "is not detected"),
        LosesCommit | LosesCommits => want(reported || later, "is not detected"),
        Harmless(_) | Refused(_) => {}
    }
    match expect {
        LosesCommits => {
            let all = newest.iter().all(|n| seen.unlisted.contains(n));
            want(all, "loses no commit");
            let reported = later || !seen.lost_commits.is_empty();
            want(reported, "the lost commits are not told");
        }
        LosesCommit => {
            want(
                seen.unlisted.iter().eq(newest),
                "loses other snapshots than the last commit's",
            );
            want(
                later || !seen.lost_commits.is_empty(),
                "the lost commit is not told",
            );
            want(seen.lost.is_empty(), "loses more than the last commit");
        }
        _ => want(seen.unlisted.is_empty(), "loses snapshots"),
    }
    match expect {
        Loses => want(
            !seen.lost.is_empty(),
            "loses nothing: the table can be stricter",
        ),
        _ => want(seen.lost.is_empty(), "loses names"),
    }
    wrong
}
