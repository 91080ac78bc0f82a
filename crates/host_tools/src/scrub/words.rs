//! The words of a scrub of this machine, as text and as JSON. [`super::run`] calls this.
//!
//! Invariant: each finding names the file and its ranges; the summary says what proves nothing.

use super::choice::Choice;
use super::size;
use format::host_scrub::{HostScrubCounts, HostScrubFinding};
use host_tasks::HostScrubber;
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use terminal::console::Console;
use terminal::json::Object;
use terminal::shell::Shell;
use units::count;

/// Ranges of a file that text shows.
const SHOWN_MAX: usize = 4;

pub(super) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Returns the message of the begin.
pub(super) fn begin(choice: &Choice, scrubber: &HostScrubber<'_>) -> Object {
    let totals = scrubber.totals();
    Object::message("host_scrub_begin")
        .path("path", choice.path.as_os_str().as_bytes())
        .text("snapshot", &choice.snapshot.id.to_string())
        .time("snapshot_time", choice.snapshot.taken)
        .boolean("continued", scrubber.is_continued())
        .time("began", choice.began())
        .text_if("newer_snapshot", choice.newer.as_deref())
        .text_if("fallback_reason", scrubber.silent_because())
        .integer("files", totals.files)
        .integer("bytes", totals.bytes)
        .integer("hard_links", totals.hard_links)
}

/// Tells of a damaged file.
pub(super) fn tell(console: &Console, top: &Path, finding: &HostScrubFinding) -> io::Result<()> {
    let path = top.join(os(&finding.path));
    let shown = path.display();
    if !finding.rotten.is_empty() {
        let ranges = ranges(&finding.rotten);
        console.warn(format_args!(
            "rotten: {shown} has other bytes than the snapshot, and the same times and size: {ranges}"
        ));
    }
    if !finding.unreadable.is_empty() {
        let ranges = ranges(&finding.unreadable);
        console.warn(format_args!(
            "unreadable: the disk does not return a part of {shown}: {ranges}"
        ));
    }
    let list = |ranges: &[Range<u64>]| {
        let object = |range: &Range<u64>| {
            Object::new()
                .integer("offset", range.start)
                .integer("bytes", range.end - range.start)
        };
        ranges.iter().map(object).collect::<Vec<_>>()
    };
    console.message(
        Object::message("host_scrub_finding")
            .path("path", path.as_os_str().as_bytes())
            .objects("rotten", list(&finding.rotten))
            .objects("unreadable", list(&finding.unreadable)),
    )
}

/// Returns ranges as `bytes 4096 to 4099 and 8192`.
fn ranges(ranges: &[Range<u64>]) -> String {
    let one = |range: &Range<u64>| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{} to {}", range.start, range.end - 1),
    };
    let shown: Vec<String> = ranges.iter().take(SHOWN_MAX).map(one).collect();
    let text = format!("bytes {}", shown.join(", "));
    match ranges.len().saturating_sub(SHOWN_MAX) {
        0 => text,
        more => format!("{text}, and {}", count(more as u64, "more range")),
    }
}

/// Shows the totals.
pub(super) fn summary(
    shell: &Shell,
    choice: &Choice,
    scrubber: &HostScrubber<'_>,
) -> io::Result<()> {
    let (console, counts) = (&shell.console, scrubber.counts());
    console.message(
        Object::message("summary")
            .integers(counts.fields())
            .path("path", choice.path.as_os_str().as_bytes())
            .text("snapshot", &choice.snapshot.id.to_string())
            .integer("hard_links", scrubber.totals().hard_links),
    )?;
    for line in lines(&counts) {
        console.line(line)?;
    }
    Ok(())
}

fn lines(counts: &HostScrubCounts) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{} as in the snapshot; {} changed, {} deleted, {} new and {} new since",
            count(counts.files_same, "file"),
            counts.files_changed,
            counts.files_deleted,
            count(counts.files_new, "file"),
            count(counts.directories_new, "directory"),
        ),
        format!(
            "read {} from the disk; {} had just been read by other programs, {} are in holes",
            size(counts.bytes_read),
            size(counts.bytes_read_by_others),
            size(counts.bytes_in_holes),
        ),
    ];
    if counts.bytes_dropped_first > 0 {
        lines.push(format!(
            "{} of these were read without direct I/O, after their pages were dropped from memory",
            size(counts.bytes_dropped_first)
        ));
    }
    if counts.bytes_unproven > 0 {
        lines.push(format!(
            "{} were compared in memory, which proves nothing about a disk: the file system is memory, or the pages cannot be \
             dropped from it",
            size(counts.bytes_unproven)
        ));
    }
    if counts.files_unwritten > 0 {
        lines.push(format!(
            "{} had bytes that are not on the disk yet, and were left out: scrub again later",
            count(counts.files_unwritten, "file")
        ));
    }
    if counts.files_failed > 0 {
        lines.push(format!(
            "{} not compared",
            count(counts.files_failed, "file")
        ));
    }
    lines.push(match (counts.files_rotten, counts.files_unreadable) {
        (0, 0) => "no damage found".to_owned(),
        (rotten, unreadable) => format!(
            "DAMAGED: {} rotten, {} unreadable, {}. Check the disk, and restore these files from the snapshot",
            count(rotten, "file"),
            unreadable,
            size(counts.bytes_bad),
        ),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_text() {
        assert_eq!(ranges(std::slice::from_ref(&(5..6))), "bytes 5");
        assert_eq!(ranges(&[0..4096, 9..10]), "bytes 0 to 4095, 9");
        let many: Vec<_> = (0..6).map(|n| n * 10..n * 10 + 2).collect();
        let text = ranges(&many);
        assert!(text.ends_with("30 to 31, and 2 more ranges"), "{text}");
    }

    #[test]
    fn what_proves_nothing_is_said() {
        let said = |counts: HostScrubCounts| lines(&counts).join("\n");
        let clean = said(HostScrubCounts::default());
        assert!(clean.ends_with("no damage found"), "{clean}");
        assert!(!clean.contains("proves nothing"), "{clean}");
        let memory = said(HostScrubCounts {
            bytes_unproven: 5,
            files_rotten: 1,
            ..HostScrubCounts::default()
        });
        assert!(memory.contains("proves nothing") && memory.contains("DAMAGED: 1 file rotten"));
    }
}
