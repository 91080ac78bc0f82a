//! Finds sources whose newest snapshot is incomplete, and trees with files that changed while they
//! were read. A newer snapshot supersedes them. [`super::SOURCES`] lists it.
//!
//! A file that grows while it is read, such as a log, is stored as it was read: that is a hint. A
//! disk image that changed is worth nothing: that is incomplete.
//!
//! Invariant: at most one finding of a kind for a source.

use super::schedule::dismissal;
use super::{Finding, FindingsInput, Severity, SourceState, sources};
use format::snapshot::{Missed, SnapshotKind};

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let sources = sources(look);
    let active = sources.iter().filter(|source| !source.is_final);
    active
        .flat_map(|source| lacking(source).into_iter().chain(changed(source)))
        .collect()
}

fn lacking(source: &SourceState) -> Option<Finding> {
    let mut missed = source.missed;
    if source.kind == SnapshotKind::Tree {
        missed.changed = 0;
    }
    let missed = missed_words(source.kind, &missed)?;
    Some(Finding {
        severity: Severity::Attention,
        kind: "snapshot_incomplete",
        text: format!(
            "{}: the newest snapshot is incomplete: {missed}",
            source.name
        ),
        object: source.name.clone(),
        action: format!("{}. {}", action(source.kind), dismissal(source)),
    })
}

fn changed(source: &SourceState) -> Option<Finding> {
    let changed = source.missed.changed;
    (source.kind == SnapshotKind::Tree && changed > 0).then(|| Finding {
        severity: Severity::Hint,
        kind: "files_changed",
        text: format!(
            "{}: {} changed while being read in the newest snapshot",
            source.name,
            units::count(changed, "file")
        ),
        object: source.name.clone(),
        action: "nothing for logs; if files that change must be of one moment, back up a file-system snapshot \
                 (backup --snapshot)"
            .to_owned(),
    })
}

fn action(kind: SnapshotKind) -> &'static str {
    match kind {
        SnapshotKind::Tree => {
            "read the warnings of its backup, and exclude files that cannot be read. Then run the backup again"
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
