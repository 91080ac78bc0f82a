//! The words about classes of I/O: what each class of the policy in force did. `policy status` of
//! the program prints them.
//!
//! Invariant: it reads counters only. Classes without requests and bytes are left out, and said to
//! be.

use crate::state::{ClassReading, ClassesReading, expectation};
use classes::{ClassSettings, Counters, LayoutStatus, Priority, Tuning};
use jiff::tz::TimeZone;
use terminal::calendar;
use terminal::console::printable;
use terminal::sizes;
use terminal::table::Table;
use terminal::words::{shortened, wrapped};
use units::count;

/// Column of the rule, which can be long.
const RULE: usize = 1;

/// Formats the reading as text, in lines of at most `width` characters. Names are shortened for
/// that, numbers are not.
pub fn lines(reading: Option<&ClassesReading>, width: usize, zone: &TimeZone) -> Vec<String> {
    let Some(reading) = reading else {
        return vec!["no policy is in force".to_owned()];
    };
    let used: Vec<_> = reading.classes.iter().filter(|of| is_used(of)).collect();
    let all = count(reading.classes.len() as u64, "class");
    let in_use = format!("{} of {all} in use", used.len());
    let left = width.saturating_sub(in_use.chars().count() + "policy : ".len());
    let mut lines = vec![format!(
        "policy {}: {in_use}",
        shortened(&reading.policy, left)
    )];
    if let Some(auto) = &reading.auto {
        lines.extend(wrapped(&auto_words(auto, zone), width));
    }
    if !used.is_empty() {
        lines.extend(requests(&used).lines_within(width, RULE, &[]));
        if used.iter().any(|of| of.fast != of.settings) {
            lines.push("share and priority: in memory/on the fast tier".to_owned());
        }
        lines.push(String::new());
        lines.extend(places(&used).lines_within(width, 0, &[]));
        lines.push(String::new());
    }
    let layouts = reading.layouts.iter();
    lines.extend(layouts.flat_map(|of| layout_lines(of, width)));
    lines
}

/// Says what auto did.
fn auto_words(auto: &Tuning, zone: &TimeZone) -> String {
    let local = |time| calendar::local(time, zone);
    let changed = match auto.changed {
        None => "no change yet".to_owned(),
        Some(time) => format!(
            "last change {} ({}, {} undone)",
            local(time),
            count(auto.changes.0, "change"),
            auto.changes.1
        ),
    };
    let since = local(auto.since);
    format!("auto, since {since}; {changed}; {}", expectation(auto))
}

fn is_used(of: &ClassReading) -> bool {
    let asked = of.requests.reads + of.requests.writes;
    asked + of.cache.bytes_clean + of.cache.bytes_dirty + of.tier_hits > 0
}

/// Requests of the classes, and what the policy gives them.
fn requests(used: &[&ClassReading]) -> Table {
    let heading = [
        "Class", "Rule", "Reads", "Read", "Writes", "Written", "Share", "Priority",
    ];
    let mut table = Table::new(heading, &[0, 2, 3, 4, 5, 6, 7]);
    for of in used {
        table.row([
            of.class.0.to_string(),
            of.rule.clone(),
            of.requests.reads.to_string(),
            sizes::display(of.requests.read_bytes),
            of.requests.writes.to_string(),
            sizes::display(of.requests.written_bytes),
            both(of, |settings| settings.share.hundredths().to_string()) + " %",
            both(of, |settings| match settings.priority {
                Priority::Pinned => "pinned".to_owned(),
                Priority::Evictable(priority) => priority.to_string(),
            }),
        ]);
    }
    table
}

/// Returns what a setting is in memory, and on the fast tier if the settings differ there.
fn both(of: &ClassReading, word: impl Fn(&ClassSettings) -> String) -> String {
    match of.fast == of.settings {
        true => word(&of.settings),
        false => format!("{}/{}", word(&of.settings), word(&of.fast)),
    }
}

/// Where their data is. Written data waits in memory for a checkpoint, also of a class that is not
/// cached.
fn places(used: &[&ClassReading]) -> Table {
    let heading = [
        "Class",
        "In memory",
        "To store",
        "Hits",
        "Misses",
        "Tier hits",
        "Tier writes",
    ];
    let mut table = Table::new(heading, &[0, 1, 2, 3, 4, 5, 6]);
    for of in used {
        let cache = &of.cache;
        table.row([
            of.class.0.to_string(),
            sizes::display(cache.bytes_clean + cache.bytes_dirty),
            sizes::display(cache.bytes_dirty),
            cache.hits.to_string(),
            cache.misses.to_string(),
            of.tier_hits.to_string(),
            sizes::display(of.tier_written_bytes),
        ]);
    }
    table
}

fn layout_lines(of: &LayoutStatus, width: usize) -> Vec<String> {
    let state = match (&of.cost, of.is_left_out) {
        (_, true) => "not read: --memory leaves no room for more volumes".to_owned(),
        (None, false) => "being read".to_owned(),
        (Some(cost), false) => layout_state(cost, of.is_settled),
    };
    let first = state.split("; ").next().unwrap_or_default();
    let left = width.saturating_sub(first.chars().count() + "inside : ;".len());
    let name = printable(of.name.as_bytes());
    wrapped(
        &format!("inside {}: {state}", shortened(&name, left)),
        width,
    )
}

fn layout_state(cost: &Counters, is_settled: bool) -> String {
    let size = sizes::display;
    let state = match (is_settled, cost.is_whole()) {
        (false, _) => "being read",
        (true, true) => "read",
        (true, false) => "read in part",
    };
    let found = match cost.recognised {
        0 => "no file system that is known".to_owned(),
        some => count(some, "file system or partition table"),
    };
    let mut words = vec![
        format!(
            "{state}, {} of {} known",
            size(cost.known_bytes),
            size(cost.size_bytes)
        ),
        found,
    ];
    let parts = |of: u64| count(of, "part");
    if cost.parts_too_large > 0 {
        words.push(format!(
            "{} unknown: too large, or contradictory",
            parts(cost.parts_too_large)
        ));
    }
    if cost.parts_unreadable > 0 {
        let parts = parts(cost.parts_unreadable);
        words.push(format!("{parts} unreadable: run quintet check"));
    }
    words.push(format!(
        "{} of {}",
        count(cost.reads, "read"),
        size(cost.read_bytes)
    ));
    let memory = format!(
        "{} of {} of memory",
        size(cost.memory_bytes),
        size(cost.memory_bytes_max)
    );
    words.push(match cost.sheds + cost.parts_too_large {
        0 => memory,
        _ => format!(
            "{memory}, would need about {} (serve with more --memory)",
            size(cost.needed_bytes)
        ),
    });
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use classes::{ClassCounts, Share};
    use page_cache::ClassCounters;
    use units::{IoClass, UnixNanos};

    const WHOLE: Counters = Counters {
        memory_bytes: 1 << 20,
        memory_bytes_max: 4 << 20,
        needed_bytes: 1 << 20,
        reads: 81,
        read_bytes: 2 << 20,
        work: 0,
        sheds: 0,
        recognised: 1,
        known_bytes: 1 << 30,
        size_bytes: 2 << 30,
        parts_too_large: 0,
        parts_unreadable: 0,
    };

    #[test]
    fn all_fits_a_terminal_and_numbers_are_whole() {
        let of = |number: u8, rule: &str| ClassReading {
            class: IoClass(number),
            rule: rule.to_owned(),
            settings: ClassSettings {
                priority: Priority::Evictable(255),
                share: Share::ALL,
            },
            fast: ClassSettings::INDIFFERENT,
            requests: ClassCounts {
                reads: 1_234_567,
                read_bytes: 1023 << 10,
                writes: 7_654_321,
                written_bytes: 1023 << 20,
            },
            cache: ClassCounters {
                bytes_clean: 1 << 20,
                bytes_dirty: 2 << 20,
                hits: 87_654_321,
                misses: 12_345_678,
                ..ClassCounters::default()
            },
            tier_hits: 11_223_344,
            tier_written_bytes: 1023 << 30,
        };
        let long = "v".repeat(60);
        let layout = LayoutStatus {
            name: long.clone(),
            cost: Some(WHOLE),
            is_complete: true,
            is_left_out: false,
            is_settled: true,
        };
        let reading = ClassesReading {
            policy: long.clone(),
            classes: vec![of(1, &format!("volume:eq:{long}")), of(22, "direct")],
            layouts: vec![layout],
            auto: Some(Tuning {
                since: UnixNanos(0),
                changed: Some(UnixNanos(60_000_000_000)),
                changes: (3, 1),
                hits_percent: Some((10.0, 20.0)),
                period_ns: 1,
            }),
        };
        let text = lines(Some(&reading), usize::MAX, &TimeZone::UTC).join("\n");
        let auto = "auto, since 1970-01-01 00:00:00; last change 1970-01-01 00:01:00 (3 changes, 1 \
            undone); expects hits in 20.0 % of the reads, measured 10.0 % before";
        assert!(text.contains(auto), "{text}");
        assert!(text.matches(&long).count() == 3, "{text}");
        let narrow = lines(Some(&reading), 80, &TimeZone::UTC);
        let text = narrow.join("\n");
        assert!(
            narrow.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        for whole in [
            "1234567", "7654321", "1023 KiB", "3.00 MiB", "87654321", "12345678",
        ] {
            assert!(text.contains(whole), "{whole}: {text}");
        }
        for whole in [
            "11223344",
            "1023 GiB",
            "255/128",
            "volume:eq:",
            "inside vvv",
            "1.00 GiB of 2.00 GiB",
        ] {
            assert!(text.contains(whole), "{whole}: {text}");
        }
    }

    #[test]
    fn what_was_left_out_is_said_with_its_remedy() {
        let known = "1.00 GiB of 2.00 GiB known; 1 file system or partition table";
        let rest = "81 reads of 2.00 MiB; 1.00 MiB of 4.00 MiB of memory";
        assert_eq!(layout_state(&WHOLE, true), format!("read, {known}; {rest}"));
        assert!(layout_state(&WHOLE, false).starts_with("being read, 1.00 GiB"));
        let shed = Counters {
            sheds: 3,
            needed_bytes: 12 << 20,
            ..WHOLE
        };
        let more = "would need about 12.0 MiB (serve with more --memory)";
        assert_eq!(
            layout_state(&shed, true),
            format!("read in part, {known}; {rest}, {more}")
        );
        let unreadable = Counters {
            parts_unreadable: 1,
            ..WHOLE
        };
        assert_eq!(
            layout_state(&unreadable, true),
            format!("read in part, {known}; 1 part unreadable: run quintet check; {rest}")
        );
    }
}
