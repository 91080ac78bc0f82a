//! Finds streams whose newest state is a small part of the states before: the program that writes
//! the stream has probably failed, which a pipe does not tell. [`super::SOURCES`] lists it.
//!
//! Invariant: at most one finding for a source. A state of a usual size ends it.

use super::schedule::dismissal;
use super::{Finding, FindingsInput, Severity, SourceState, sources};
use format::snapshot::SnapshotKind;

/// A state is small if it has less than this part of the bytes of those before.
const SMALL_PART: u64 = 4;

pub(super) fn find(look: &FindingsInput<'_>) -> Vec<Finding> {
    let shrunk = sources(look).into_iter().filter(is_shrunk);
    let finding = |source: SourceState| Finding {
        severity: Severity::Attention,
        kind: "stream_shrank",
        text: format!(
            "{}: the newest state has {}, one shortly before had {}",
            source.name,
            units::count(source.bytes, "byte"),
            units::count(source.bytes_before, "byte"),
        ),
        action: format!(
            "look whether the program that writes it failed, and store it again with --stdin-from-command, which \
             stores nothing if the program fails. {}",
            dismissal(&source)
        ),
        object: source.name,
    };
    shrunk.map(finding).collect()
}

fn is_shrunk(source: &SourceState) -> bool {
    source.kind == SnapshotKind::Stream
        && !source.is_final
        && source.bytes < source.bytes_before / SMALL_PART
}
