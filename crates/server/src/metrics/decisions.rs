//! The part of the metrics about decisions that follow access patterns. [`super::render`] calls
//! this.
//!
//! Invariant: every counter of [`volumes::DecisionCounters`] is shown, but for `shared_reads`: it
//! counts what `shared_waits` does, when the wait is over.

use super::text::Text;
use super::{
    AHEAD_BYTES, AHEAD_REGIONS, HELD, HINTS_DENIED, JUDGED, RANDOM_ASKED, RANDOM_FETCHED,
    READS_SHARED, SWITCHED_OFF, TIER_OFFERED, UNPROBED, VOLUME_REGIONS,
};
use volumes::{DecisionCounters, Volumes};

pub(super) fn tell(text: &mut Text, volumes: &Volumes, has_tier: bool) {
    let DecisionCounters {
        judged_sequential,
        judged_monotonic,
        judged_random,
        random_asked_bytes,
        random_fetched_bytes,
        fetch_planned_bytes,
        fetch_dropped_bytes,
        fetched_regions,
        around_planned_bytes,
        around_dropped_bytes,
        around_regions,
        around_chunks,
        modified_chunks,
        important_chunks,
        held_bytes,
        chunks_unprobed,
        region_reads,
        direct_reads,
        hints_denied,
        shared_reads: _,
        shared_waits,
    } = volumes.decision_counters();
    let mut by = |metric, label: &str, values: &[(&str, u64)]| {
        for (name, value) in values {
            text.sample(metric, &[(label, name)], *value);
        }
    };
    let judged = [
        ("sequential", judged_sequential),
        ("monotonic", judged_monotonic),
        ("random", judged_random),
    ];
    by(JUDGED, "pattern", &judged);
    let regions = [("memory", fetched_regions), ("tier", around_regions)];
    by(AHEAD_REGIONS, "into", &regions);
    let offered = [
        ("around", around_chunks),
        ("modified", modified_chunks),
        ("important", important_chunks),
    ];
    if has_tier {
        by(TIER_OFFERED, "why", &offered);
    }
    let with_directory = region_reads.saturating_sub(direct_reads);
    let how = [("directory", with_directory), ("direct", direct_reads)];
    by(VOLUME_REGIONS, "how", &how);
    let ahead = [
        ("memory", "planned", fetch_planned_bytes),
        ("memory", "dropped", fetch_dropped_bytes),
        ("tier", "planned", around_planned_bytes),
        ("tier", "dropped", around_dropped_bytes),
    ];
    for (into, state, bytes) in ahead {
        text.sample(AHEAD_BYTES, &[("into", into), ("state", state)], bytes);
    }
    text.sample(RANDOM_ASKED, &[], random_asked_bytes);
    text.sample(RANDOM_FETCHED, &[], random_fetched_bytes);
    text.sample(HELD, &[], held_bytes);
    text.sample(UNPROBED, &[], chunks_unprobed);
    text.sample(HINTS_DENIED, &[], hints_denied);
    text.sample(READS_SHARED, &[], shared_waits);
    for name in volumes.switches().off() {
        text.sample(SWITCHED_OFF, &[("decision", name)], 1u64);
    }
}
