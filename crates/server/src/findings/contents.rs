//! Finds that the pool is empty. [`super::SOURCES`] lists it.
//!
//! Invariant: a list that cannot be read counts as contents.

use super::{Finding, FindingsInput, Severity};

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    // Unreadable volumes or snapshots count as contents.
    let has_volumes = look.pool.volumes().map_or(true, |v| !v.is_empty());
    let is_empty = look.snapshots.is_empty() && look.hidden.is_none() && !has_volumes;
    if !is_empty || !look.pool.health().notes().is_empty() {
        return Vec::new();
    }
    vec![Finding {
        severity: Severity::Hint,
        kind: "empty",
        object: String::new(),
        text: "nothing is stored yet".to_owned(),
        action: "store something with quintet backup".to_owned(),
    }]
}
