//! `diff` of two states of an image: which bytes differ, to the chunk. `diff` calls this.
//!
//! Invariant: no data is read, and only those parts of the recipes that differ.

use crate::commands::invocation::Invocation;
use anyhow::bail;
use format::recipe::Layout;
use format::snapshot::Snapshot;
use std::io;
use std::ops::{ControlFlow, Range};
use store::Pool;
use terminal::console::Console;
use terminal::json::Object;
use terminal::names::short_id;
use terminal::sizes;

/// Prints the ranges that differ, then their total.
pub(super) fn diff(
    invocation: &Invocation,
    pool: &Pool,
    before: &Snapshot,
    after: &Snapshot,
) -> anyhow::Result<()> {
    let console = &invocation.console;
    let (mut ranges, mut bytes) = (0u64, 0u64);
    let mut said = Ok(());
    if before.root != after.root {
        let layouts = [before, after].map(|snapshot| snapshot.root.layout);
        let same = layouts[0] == layouts[1] && layouts[0] != Layout::Variable;
        // An empty image has no chunks to compare.
        if !same && before.root.len.min(after.root.len) > 0 {
            bail!(
                "{} and {} differ; the ranges can be shown only for images with the same chunk size",
                short_id(before),
                short_id(after)
            );
        }
        pool.reader()
            .visit_differences(&before.root, &after.root, 0..u64::MAX, &mut |range| {
                let len = range.end - range.start;
                ranges += 1;
                bytes += len;
                said = say(console, &range);
                Ok(match said.is_err() || invocation.interrupt.requested() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                })
            })?;
        said?;
        invocation.interrupt.check()?;
    }
    console.message(
        Object::message("summary")
            .integer("changed_bytes", bytes)
            .integer("changed_ranges", ranges)
            .integer("bytes_before", before.root.len)
            .integer("bytes_after", after.root.len),
    )?;
    let changed = sizes::display(bytes);
    console.line(format!(
        "{changed} in {} differ",
        units::count(ranges, "range")
    ))?;
    if before.root.len != after.root.len {
        let (before, after) = (before.root.len, after.root.len);
        console.line(format!("length {before} before, {after} after"))?;
    }
    Ok(())
}

fn say(console: &Console, range: &Range<u64>) -> io::Result<()> {
    let (offset, len) = (range.start, range.end - range.start);
    console.line(format!("M    {offset} +{len}"))?;
    console.message(
        Object::message("change")
            .text("modifier", "M")
            .integer("offset", offset)
            .integer("length", len),
    )
}
