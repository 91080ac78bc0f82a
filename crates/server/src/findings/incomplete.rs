//! Finds sources whose newest snapshot is incomplete. A complete newer snapshot supersedes an
//! incomplete one. [`super::SOURCES`] lists it.
//!
//! Invariant: at most one finding for a source.

use super::{Finding, Look, Severity, sources};
use format::snapshot::{Missed, SnapshotKind};

pub(super) fn find(look: &Look<'_>) -> Vec<Finding> {
    let incomplete = sources(look).into_iter().filter_map(|source| {
        let missed = missed_words(source.kind, &source.missed)?;
        Some(Finding {
            severity: Severity::Attention,
            kind: "snapshot_incomplete",
            text: format!(
                "{}: the newest snapshot is incomplete: {missed}",
                source.name
            ),
            object: source.name,
            action: action(source.kind).to_owned(),
        })
    });
    incomplete.collect()
}

fn action(kind: SnapshotKind) -> &'static str {
    match kind {
        SnapshotKind::Tree => {
            "read the warnings of its backup. Exclude files that cannot be read. For files that change, back up a \
             file-system snapshot. Then run the backup again"
        }
        SnapshotKind::Image | SnapshotKind::Stream | SnapshotKind::Volume => {
            "read the warnings of its import. Import an undamaged copy, or a snapshot of a disk that is in use"
        }
    }
}

/// Returns the text about the missed parts of a source. `None` if nothing was missed.
pub fn missed_words(kind: SnapshotKind, missed: &Missed) -> Option<String> {
    let unread = (missed.unread > 0).then(|| match kind {
        SnapshotKind::Tree => format!("{} not read", missed.unread),
        _ => "parts not read".to_owned(),
    });
    let changed =
        (missed.changed > 0).then(|| format!("{} changed while being read", missed.changed));
    let words: Vec<String> = unread.into_iter().chain(changed).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
