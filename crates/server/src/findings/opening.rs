//! Finds problems that opening the pool has noted: lost commits, missing or damaged copies of small
//! records, and an incomplete catalog. [`super::SOURCES`] lists it.
//!
//! Invariant: it reads nothing: opening the pool has collected the notes.

use super::{Finding, Look, Severity};

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let lost = !look.pool.lost_commits().is_empty();
    let notes = look.pool.notes().iter().map(|note| match lost {
        true => Finding {
            severity: Severity::Damage,
            kind: "commit_lost",
            object: String::new(),
            text: note.clone(),
            action: "run quintet repair, then back up again what the lost commits added".to_owned(),
        },
        false => Finding {
            severity: Severity::Attention,
            kind: "copies_damaged",
            object: String::new(),
            text: note.clone(),
            action: "run quintet check --read-data; second copies of what is missing are written \
                     again by the next backup"
                .to_owned(),
        },
    });
    let hidden = look.hidden.map(|why| Finding {
        severity: Severity::Damage,
        kind: "snapshots_hidden",
        object: String::new(),
        text: format!("some snapshots cannot be listed: {why}"),
        action: "restore what you need of the others by their names, and back up again; copy the \
                 hidden ones from a replica (quintet copy)"
            .to_owned(),
    });
    notes.chain(hidden).collect()
}
