//! The part of the metrics about the fast tier. [`super::render`] calls this.
//!
//! Invariant: absent without a tier.

use super::text::Text;
use super::{
    TIER_CLASS_HITS, TIER_EVICTIONS, TIER_FAILURES, TIER_HITS, TIER_MISSES, TIER_REFUSED,
    TIER_STATE, TIER_WRITTEN,
};
use ssd_tier::{Kind, Status, TierState};

/// Returns the name of a kind for labels and messages.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "data",
        Kind::Recipe => "recipe",
        Kind::Directory => "directory",
    }
}

pub(super) fn tell(text: &mut Text, status: &Status) {
    let state = match status.state {
        TierState::Ready => 0u64,
        TierState::Opening { .. } => 1,
        TierState::NotWritten { .. } => 2,
        TierState::Closed | TierState::Off { .. } => 3,
    };
    text.sample(TIER_STATE, &[], state);
    text.sample(TIER_HITS, &[], status.hits);
    for (kind, misses) in Kind::ALL.into_iter().zip(status.misses) {
        text.sample(TIER_MISSES, &[("kind", name(kind))], misses);
    }
    for class in &status.classes {
        let io = class.class.io.0.to_string();
        let labels = [("kind", name(class.class.kind)), ("class", io.as_str())];
        text.sample(TIER_CLASS_HITS, &labels, class.hits);
        text.sample(TIER_WRITTEN, &labels, class.bytes_written);
    }
    text.sample(TIER_EVICTIONS, &[], status.evictions);
    text.sample(TIER_REFUSED, &[], status.refused);
    let failures = status.failed_reads + status.failed_writes + status.damaged;
    text.sample(TIER_FAILURES, &[], failures);
}
