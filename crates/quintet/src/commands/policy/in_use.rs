//! The fields of `policy status --json` and `policy advise --json`. `policy` calls this.
//!
//! Invariant: it reads counters only.

use classes::{ClassAdvice, ClassSettings, LayoutStatus, Priority, Tuning};
use server::state::{Advised, ClassReading, ClassesReading};
use terminal::json::Object;

/// Adds the priorities of a class in memory and, if its settings differ there, on the fast tier.
pub(super) fn with_priorities(
    object: Object,
    settings: &ClassSettings,
    fast: &ClassSettings,
) -> Object {
    let object = match settings.priority {
        Priority::Pinned => object.boolean("pinned", true),
        Priority::Evictable(priority) => object.integer("eviction_priority", priority),
    };
    if fast == settings {
        return object;
    }
    let object = object.integer("fast_allocation_percent", fast.share.hundredths());
    match fast.priority {
        Priority::Pinned => object.boolean("fast_pinned", true),
        Priority::Evictable(priority) => object.integer("fast_eviction_priority", priority),
    }
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
            .integer("cache_unwritten_bytes", of.cache.bytes_dirty)
            .integer("cache_hits", of.cache.hits)
            .integer("cache_misses", of.cache.misses)
            .integer("cache_evictions", of.cache.evictions + of.cache.spills)
            .integer("tier_hits", of.tier_hits)
            .integer("tier_written_bytes", of.tier_written_bytes);
        with_priorities(object, &of.settings, &of.fast)
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
            .integer("memory_bytes_max", cost.memory_bytes_max)
            .integer("needed_bytes", cost.needed_bytes)
            .integer("known_bytes", cost.known_bytes)
            .integer("size_bytes", cost.size_bytes)
            .integer("times_left_out", cost.sheds)
            .integer("parts_too_large", cost.parts_too_large)
            .integer("parts_unreadable", cost.parts_unreadable)
    };
    let auto = reading.auto.as_ref().map(auto);
    let object = match auto {
        Some(auto) => object.object("auto", auto),
        None => object,
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

fn auto(auto: &Tuning) -> Object {
    let object = Object::new()
        .time("since", auto.since)
        .integer("changes", auto.changes.0)
        .integer("taken_back", auto.changes.1);
    let object = match auto.changed {
        Some(changed) => object.time("changed", changed),
        None => object,
    };
    match auto.hits_percent {
        Some((measured, expected)) => object
            .number("hits_percent", measured)
            .number("hits_percent_expected", expected),
        None => object,
    }
}

/// Formats the advice as JSON.
pub(super) fn advice(advised: &Advised) -> Object {
    let advice = &advised.advice;
    let a_day = |ns: f64| advice.a_day(ns) / 1e9;
    let class = |of: &ClassAdvice| {
        let object = Object::new()
            .integer("class", of.class.0)
            .boolean("known", of.is_known)
            .number("reads", of.accesses)
            .number("hits", of.hits.0)
            .number("hits_expected", of.hits.1)
            .number("saved_seconds_a_day", a_day(of.saved_ns.0))
            .number("saved_seconds_a_day_expected", a_day(of.saved_ns.1))
            .integer("allocation_percent", of.settings.1.share.hundredths());
        with_priorities(object, &of.settings.1, &of.settings.1)
    };
    Object::message("policy_advice")
        .text("policy", &advised.name)
        .text("file", &advised.policy.to_csv())
        .boolean("better", advised.is_better)
        .number("gain_percent", advice.gain() * 100.0)
        .integer("sampled_reads", advice.sampled)
        .integer("observed_seconds", advice.observed_ns / 1_000_000_000)
        .objects(
            "classes",
            advice.classes.iter().map(class).collect::<Vec<_>>(),
        )
}
