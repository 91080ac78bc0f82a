//! The words about classes of I/O: what each class of the policy in force did. `policy status` of
//! the program prints them.
//!
//! Invariant: it reads counters only. Classes without requests and bytes are left out, and said to
//! be.

use crate::state::{ClassReading, ClassesReading};
use classifier::LayoutStatus;
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
        "class {} ({}): {} of {}, {} of {}; {} in memory, {} of {looks} reads were hits; fast tier: {}, {} \
         written; {}",
        of.class.0,
        of.rule,
        count(of.requests.reads, "read"),
        size(of.requests.read_bytes),
        count(of.requests.writes, "write"),
        size(of.requests.written_bytes),
        size(of.cache.bytes_clean + of.cache.bytes_unwritten),
        of.cache.hits,
        count(of.tier_hits, "hit"),
        size(of.tier_written_bytes),
        of.settings
    )
}

fn layout_line(of: &LayoutStatus) -> String {
    let state = match (&of.cost, of.is_left_out, of.is_complete) {
        (_, true, _) => "not read: --memory leaves no room for more volumes".to_owned(),
        (None, ..) => "being read".to_owned(),
        (Some(cost), _, is_complete) => {
            let found = match cost.recognised {
                0 => "no file system that is known".to_owned(),
                some => count(some, "file system or partition table"),
            };
            let state = if is_complete { "read" } else { "being read" };
            format!(
                "{state}; {found}; {} of {}, {} of memory",
                count(cost.reads, "read"),
                sizes::display(cost.read_bytes),
                sizes::display(cost.memory_bytes)
            )
        }
    };
    format!("inside {}: {state}", of.name)
}
