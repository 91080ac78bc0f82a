//! Finds sources whose newest snapshot is incomplete. A complete newer snapshot supersedes an
//! incomplete one. [`super::SOURCES`] lists it.
//!
//! Invariant: at most one finding for a source.

use super::{Finding, Look, Severity, sources};
use format::snapshot::Missed;

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let incomplete = sources(look).into_iter().filter_map(|source| {
        let missed = missed_words(&source.missed)?;
        Some(Finding {
            severity: Severity::Attention,
            kind: "snapshot_incomplete",
            text: format!("{}: the newest snapshot is incomplete: {missed}", source.name),
            object: source.name,
            action: "read the warnings of its backup. Exclude files that cannot be read. For files that change, \
                     back up a file-system snapshot. Then run the backup again"
                .to_owned(),
        })
    });
    incomplete.collect()
}

/// Returns the text about the missed files. `None` if nothing was missed.
pub fn missed_words(missed: &Missed) -> Option<String> {
    let unread = (missed.unread > 0).then(|| format!("{} not read", missed.unread));
    let changed =
        (missed.changed > 0).then(|| format!("{} changed while being read", missed.changed));
    let words: Vec<String> = unread.into_iter().chain(changed).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
