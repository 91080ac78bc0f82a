//! Finds problems that opening the pool has noted: lost commits, missing or damaged copies of small
//! records, and an incomplete catalog. [`super::SOURCES`] lists it.
//!
//! Invariant: it reads nothing: opening the pool has collected the notes.

use super::{Finding, FindingsInput, Severity};

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let lost = !look.pool.health().lost_commits().is_empty();
    let notes = look.pool.health().notes().iter().map(|note| match lost {
        true => Finding {
            severity: Severity::Damage,
            kind: "commit_lost",
            object: String::new(),
            text: note.clone(),
            action: "run quintet repair, then repeat the backups that the lost commits added"
                .to_owned(),
        },
        false => Finding {
            severity: Severity::Attention,
            kind: "copies_damaged",
            object: String::new(),
            text: note.clone(),
            action:
                "run quintet check --read-data; the next backup writes missing second copies again"
                    .to_owned(),
        },
    });
    let hidden = look.hidden.map(|why| Finding {
        severity: Severity::Damage,
        kind: "snapshots_hidden",
        object: String::new(),
        text: format!("some snapshots cannot be listed: {why}"),
        action: "restore from the other snapshots by name, back up again, and copy the hidden snapshots \
                 from a replica (quintet copy)"
            .to_owned(),
    });
    notes.chain(hidden).collect()
}
