//! The outcome of a defragmentation in JSON and in tables. `run` and `record` call this.
//!
//! Invariant: the fields of the JSON keep their names.

use host_tasks::HostDefragOutcome;
use terminal::json::Object;
use terminal::sizes;

/// Adds an outcome to a message.
pub(super) fn object_of(outcome: &HostDefragOutcome, object: Object) -> Object {
    let left_alone = outcome.left_alone.iter().map(|left| {
        Object::new()
            .text("reason", left.name)
            .integer("ranges", left.ranges)
            .integer("bytes", left.bytes)
    });
    object
        .integer("pieces_before", outcome.pieces_before)
        .integer("pieces_after", outcome.pieces_after)
        .integer("planned_bytes", outcome.planned_bytes)
        .integer("moved_ranges", outcome.moved_ranges)
        .integer("moved_bytes", outcome.migrated.bytes)
        .integer("read_bytes", outcome.migrated.read_bytes)
        .integer("bytes_found_in_memory", outcome.migrated.cached_bytes)
        .integer("written_bytes", outcome.migrated.written_bytes)
        .boolean("limit_reached", outcome.is_cut)
        .objects("left_alone", left_alone)
}

/// Returns the cells of a file's line in the table.
pub(super) fn cells(outcome: &HostDefragOutcome, dry_run: bool, path: String) -> [String; 5] {
    let (then, bytes) = match dry_run {
        true => ("-".to_owned(), outcome.planned_bytes),
        false => (outcome.pieces_after.to_string(), outcome.migrated.bytes),
    };
    let names = outcome.left_alone.iter().map(|left| left.name);
    let names = names.collect::<Vec<_>>().join(", ");
    let pieces = outcome.pieces_before.to_string();
    [pieces, then, sizes::display(bytes), names, path]
}
