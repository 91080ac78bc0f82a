//! The words of `policy status`: what each class of the policy in force did. `policy` calls this.
//!
//! Invariant: it reads counters only. Classes without requests and bytes are left out of the text,
//! and said to be.

use crate::json::Object;
use classifier::LayoutStatus;
use io_class::Priority;
use server::sizes;
use server::state::{ClassReading, ClassesReading};
use units::count;

/// Formats the reading as text.
pub(super) fn lines(reading: Option<&ClassesReading>) -> Vec<String> {
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

/// Formats the reading as JSON.
pub(super) fn message(reading: Option<&ClassesReading>) -> Object {
    let object = Object::message("policy_status");
    let Some(reading) = reading else {
        return object;
    };
    let class = |of: &ClassReading| {
        let object = Object::new()
            .integer("class", of.class.0)
            .text("rule", &of.rule)
            .integer("allocation_percent", of.settings.share.hundredths())
            .integer("reads", of.requests.reads)
            .integer("read_bytes", of.requests.read_bytes)
            .integer("writes", of.requests.writes)
            .integer("written_bytes", of.requests.written_bytes)
            .integer("cache_clean_bytes", of.cache.bytes_clean)
            .integer("cache_unwritten_bytes", of.cache.bytes_unwritten)
            .integer("cache_hits", of.cache.hits)
            .integer("cache_misses", of.cache.misses)
            .integer("cache_evictions", of.cache.evictions + of.cache.spills)
            .integer("tier_hits", of.tier_hits)
            .integer("tier_written_bytes", of.tier_written_bytes);
        match of.settings.priority {
            Priority::Pinned => object.boolean("pinned", true),
            Priority::Evictable(priority) => object.integer("eviction_priority", priority),
        }
    };
    let layout = |of: &LayoutStatus| {
        let cost = of.cost.unwrap_or_default();
        Object::new()
            .text("volume", &of.name)
            .boolean("complete", of.is_complete)
            .boolean("left_out", of.is_left_out)
            .integer("recognised", cost.recognised)
            .integer("reads", cost.reads)
            .integer("read_bytes", cost.read_bytes)
            .integer("memory_bytes", cost.memory_bytes)
    };
    object
        .text("policy", &reading.policy)
        .objects(
            "classes",
            reading.classes.iter().map(class).collect::<Vec<_>>(),
        )
        .objects(
            "layouts",
            reading.layouts.iter().map(layout).collect::<Vec<_>>(),
        )
}
