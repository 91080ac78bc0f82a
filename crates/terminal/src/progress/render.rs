//! Formats progress as a line of text and as a JSON message. `progress` calls this.
//!
//! Invariant: no I/O and no clock.

use crate::console::printable;
use crate::json::Object;
use crate::sizes;
use std::time::Duration;

/// The counters at one moment.
pub(super) struct View {
    pub action: &'static str,
    /// Name of what `files_done` counts.
    pub unit: &'static str,
    pub elapsed: Duration,
    pub files_done: u64,
    pub files_total: u64,
    pub bytes_done: u64,
    pub bytes_total: u64,
    pub totals_known: bool,
    pub warnings: u64,
    pub current: Vec<u8>,
}

impl View {
    /// Returns the processed share, 0 to 1, of all bytes, or of all files if there are no bytes.
    fn share_done(&self) -> Option<f64> {
        let (done, total) = match (self.bytes_total, self.files_total) {
            (0, 0) => return None,
            (0, files) => (self.files_done, files),
            (bytes, _) => (self.bytes_done, bytes),
        };
        self.totals_known
            .then(|| (done as f64 / total as f64).min(1.0))
    }

    fn bytes_per_second(&self) -> f64 {
        self.bytes_done as f64 / self.elapsed.as_secs_f64().max(1e-3)
    }

    fn remaining(&self) -> Option<Duration> {
        let share = self.share_done().filter(|share| *share > 0.0)?;
        let seconds = self.elapsed.as_secs_f64() * (1.0 - share) / share;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Fewer characters of a path say nothing.
const PATH_CHARS_MIN: usize = 8;

/// Returns one line of less than `columns` characters. Where that is too little, parts are left
/// out, the least important first. A number is never cut off.
pub(super) fn line(view: &View, columns: usize) -> String {
    // The last column stays free: some terminals wrap as soon as it is written.
    let columns = columns.saturating_sub(1);
    let mut parts = parts(view);
    let used = |parts: &[(u8, String)]| -> usize {
        parts.iter().map(|(_, text)| text.chars().count()).sum()
    };
    let is_whole = used(&parts) <= columns;
    while used(&parts) > columns {
        let least = parts.iter().map(|(rank, _)| *rank).max();
        match least.filter(|rank| *rank > 0) {
            Some(least) => parts.retain(|(rank, _)| *rank != least),
            // Words may be cut off, if nothing else is left.
            None => {
                let rest: usize = used(parts.get(1..).unwrap_or_default());
                if let Some((_, action)) = parts.first_mut() {
                    *action = action.chars().take(columns.saturating_sub(rest)).collect();
                }
                break;
            }
        }
    }
    let left = columns.saturating_sub(used(&parts) + 2);
    let mut text: String = parts.into_iter().map(|(_, text)| text).collect();
    let path = printable(&view.current);
    if is_whole && !path.is_empty() && left >= path.chars().count().min(PATH_CHARS_MIN) {
        text += "  ";
        text.extend(path.chars().take(left));
    }
    text
}

/// Returns the parts of a line in their order, with their ranks: the highest is left out first.
fn parts(view: &View) -> Vec<(u8, String)> {
    let mut parts = vec![(4, format!("[{}] ", clock(view.elapsed)))];
    parts.push((0, view.action.to_owned()));
    if let Some(share) = view.share_done() {
        // Rounded down: 100 % must mean everything.
        let percent = (share * 1000.0).floor() / 10.0;
        parts.push((0, format!(" {percent:.1}%")));
    }
    let mut bytes = format!("  {}", sizes::display(view.bytes_done));
    if view.totals_known && view.bytes_total > 0 {
        bytes += &format!(" of {}", sizes::display(view.bytes_total));
    }
    parts.push((3, bytes));
    if view.files_total + view.files_done > 0 {
        let files = match view.totals_known {
            true => {
                let total = units::count(view.files_total, view.unit);
                format!(", {} of {total}", view.files_done)
            }
            false => format!(", {}", units::count(view.files_done, view.unit)),
        };
        parts.push((6, files));
    }
    let rate = sizes::display(view.bytes_per_second() as u64);
    parts.push((5, format!("  {rate}/s")));
    if let Some(remaining) = view.remaining() {
        parts.push((1, format!("  ETA {}", clock(remaining))));
    }
    match view.warnings {
        0 => {}
        warnings => parts.push((2, format!("  {}", units::count(warnings, "warning")))),
    }
    parts
}

/// Returns the `status` message, with restic's field names where it has one.
pub(super) fn status(view: &View) -> Object {
    let mut object = Object::message("status").integer("seconds_elapsed", view.elapsed.as_secs());
    if let Some(remaining) = view.remaining() {
        object = object.integer("seconds_remaining", remaining.as_secs());
    }
    object = object.number("percent_done", view.share_done().unwrap_or(0.0));
    if view.totals_known {
        object = object
            .integer("total_files", view.files_total)
            .integer("total_bytes", view.bytes_total);
    }
    object = object
        .text("unit", view.unit)
        .integer("files_done", view.files_done)
        .integer("bytes_done", view.bytes_done)
        .number("bytes_per_second", view.bytes_per_second().round())
        .integer("error_count", view.warnings);
    match view.current.is_empty() {
        true => object,
        false => object.texts("current_files", [&view.current]),
    }
}

/// Formats `0:07`, `12:34`, `1:02:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            action: "backing up",
            unit: "file",
            elapsed: Duration::from_secs(10),
            files_done: 3,
            files_total: 4,
            bytes_done: 1 << 30,
            bytes_total: 4 << 30,
            totals_known: true,
            warnings: 0,
            current: b"/home/\x1b".to_vec(),
        }
    }

    #[test]
    fn lines() {
        assert_eq!(
            line(&view(), 200),
            "[0:10] backing up 25.0%  1.00 GiB of 4.00 GiB, 3 of 4 files  102 MiB/s  \
             ETA 0:30  /home/\\u{1b}"
        );
        let unknown = View {
            totals_known: false,
            warnings: 2,
            current: Vec::new(),
            ..view()
        };
        assert_eq!(
            line(&unknown, 200),
            "[0:10] backing up  1.00 GiB, 3 files  102 MiB/s  2 warnings"
        );
    }

    #[test]
    fn units_are_named() {
        let containers = View {
            unit: "container",
            files_total: 1,
            files_done: 1,
            ..view()
        };
        assert!(line(&containers, 200).contains(", 1 of 1 container  "));
        let status = status(&containers).finish();
        assert!(status.contains("\"unit\":\"container\""), "{status}");
    }

    #[test]
    fn narrow_lines_leave_out_parts_and_cut_no_number() {
        let bytes = "[0:10] backing up 25.0%  1.00 GiB of 4.00 GiB";
        let all = format!("{bytes}, 3 of 4 files  102 MiB/s  ETA 0:30");
        for (columns, expected) in [
            (94, &*format!("{all}  /home/\\u{{1b")),
            (83, &all),
            (80, &format!("{bytes}  102 MiB/s  ETA 0:30")),
            (60, &format!("{bytes}  ETA 0:30")),
            (54, "backing up 25.0%  1.00 GiB of 4.00 GiB  ETA 0:30"),
            (40, "backing up 25.0%  ETA 0:30"),
            (20, "backing up 25.0%"),
            (12, "backi 25.0%"),
        ] {
            assert_eq!(line(&view(), columns), expected, "{columns}");
        }
    }

    #[test]
    fn nearly_all_is_not_all() {
        let nearly = View {
            bytes_done: (4 << 30) - 1,
            ..view()
        };
        assert!(line(&nearly, 200).contains(" 99.9%"));
    }

    #[test]
    fn nothing_to_do_is_no_division_by_zero() {
        let nothing = View {
            elapsed: Duration::ZERO,
            files_done: 0,
            files_total: 0,
            bytes_done: 0,
            bytes_total: 0,
            ..view()
        };
        assert!(line(&nothing, 200).starts_with("[0:00] backing up  0 B  0 B/s"));
    }

    #[test]
    fn messages() {
        assert_eq!(
            status(&view()).finish(),
            "{\"message_type\":\"status\",\"seconds_elapsed\":10,\"seconds_remaining\":30,\
             \"percent_done\":0.25,\"total_files\":4,\"total_bytes\":4294967296,\
             \"unit\":\"file\",\"files_done\":3,\"bytes_done\":1073741824,\"bytes_per_second\":107374182,\
             \"error_count\":0,\"current_files\":[\"/home/\\u001b\"]}"
        );
    }

    #[test]
    fn clocks() {
        for (seconds, text) in [(7, "0:07"), (754, "12:34"), (3723, "1:02:03")] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
