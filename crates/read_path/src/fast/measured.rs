//! The time of one read for a client, for the evidence of `policy advise`. `fast` begins it.
//!
//! Invariant: only reads in the tier's sample ask the clock.

use media::{SystemTicks, Ticks};
use ssd_tier::{Access, Tier};
use units::{Fingerprint, IoClass};

/// A read that is going on.
pub(crate) struct Measured<'r> {
    tier: &'r Tier,
    ticks: &'r SystemTicks,
    fingerprint: Fingerprint,
    class: IoClass,
    is_random: bool,
    began_ns: u64,
}

impl<'r> Measured<'r> {
    pub(super) fn begin(
        tier: &'r Tier,
        ticks: &'r SystemTicks,
        fingerprint: &Fingerprint,
        class: IoClass,
        is_random: bool,
    ) -> Self {
        Self {
            tier,
            ticks,
            fingerprint: *fingerprint,
            class,
            is_random,
            began_ns: ticks.now_ns(),
        }
    }

    /// The chunk of that length is in memory.
    pub(crate) fn end(self, bytes: usize, is_hit: bool) {
        let access = Access {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            is_random: self.is_random,
            is_hit,
            ns: self.ticks.now_ns().saturating_sub(self.began_ns),
        };
        self.tier.note_read(&self.fingerprint, self.class, &access);
    }
}
