//! The words about classes of I/O: what each class of the policy in force did. `policy status` of
//! the program prints them.
//!
//! Invariant: it reads counters only. Classes without requests and bytes are left out, and said to
//! be.

use crate::state::{ClassReading, ClassesReading};
use classifier::{Counters, LayoutStatus};
use page_cache::ClassCounters;
use terminal::sizes;
use units::count;

/// Formats the reading as text.
pub fn lines(reading: Option<&ClassesReading>) -> Vec<String> {
    let Some(reading) = reading else {
        return vec!["no policy is in force".to_owned()];
    };
    let used: Vec<_> = reading.classes.iter().filter(|of| is_used(of)).collect();
    let classes = reading.classes.len();
    let mut lines = vec![format!(
        "policy {}: {} of {} in use",
        reading.policy,
        used.len(),
        count(classes as u64, "class")
    )];
    lines.extend(used.into_iter().map(class_line));
    lines.extend(reading.layouts.iter().map(layout_line));
    lines
}

fn is_used(of: &ClassReading) -> bool {
    let asked = of.requests.reads + of.requests.writes;
    asked + of.cache.bytes_clean + of.cache.bytes_unwritten + of.tier_hits > 0
}

fn class_line(of: &ClassReading) -> String {
    let size = sizes::display;
    let looks = of.cache.hits + of.cache.misses;
    format!(
        "class {} ({}): {} of {}, {} of {}; {}, {} of {looks} reads were hits; fast tier: {}, {} \
         written; {}",
        of.class.0,
        of.rule,
        count(of.requests.reads, "read"),
        size(of.requests.read_bytes),
        count(of.requests.writes, "write"),
        size(of.requests.written_bytes),
        in_memory(&of.cache),
        of.cache.hits,
        count(of.tier_hits, "hit"),
        size(of.tier_written_bytes),
        of.settings
    )
}

/// Written data waits in memory for a checkpoint, also of a class that is not cached.
fn in_memory(cache: &ClassCounters) -> String {
    let all = sizes::display(cache.bytes_clean + cache.bytes_unwritten);
    match cache.bytes_unwritten {
        0 => format!("{all} in memory"),
        unwritten => format!(
            "{all} in memory ({} of it waits for a checkpoint)",
            sizes::display(unwritten)
        ),
    }
}

fn layout_line(of: &LayoutStatus) -> String {
    let state = match (&of.cost, of.is_left_out) {
        (_, true) => "not read: --memory leaves no room for more volumes".to_owned(),
        (None, false) => "being read".to_owned(),
        (Some(cost), false) => layout_state(cost, of.is_settled),
    };
    format!("inside {}: {state}", of.name)
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
    fn what_waits_for_a_checkpoint_is_named() {
        let mut cache = ClassCounters {
            bytes_clean: 1 << 20,
            ..ClassCounters::default()
        };
        assert_eq!(in_memory(&cache), "1.00 MiB in memory");
        (cache.bytes_clean, cache.bytes_unwritten) = (0, 2 << 20);
        assert_eq!(
            in_memory(&cache),
            "2.00 MiB in memory (2.00 MiB of it waits for a checkpoint)"
        );
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
