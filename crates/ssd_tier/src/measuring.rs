//! Evidence for `policy advise`: which reads count, and what the classes have now. The store's
//! reader notes reads here, the server takes the evidence.
//!
//! Invariant: nothing here changes what the tier keeps.

use crate::Kind;
use crate::block::packed_bytes;
use crate::class::CacheClass;
use crate::ghosts::Access;
use crate::tier::Tier;
use classes::{CURVE_BINS, Evidence};
use units::{Fingerprint, IoClass};

impl Tier {
    /// Returns true if reads of the data chunk for clients are to be noted.
    #[inline]
    pub fn samples(&self, fingerprint: &Fingerprint, class: IoClass) -> bool {
        self.health.is_up() && self.ghosts.samples(fingerprint, class)
    }

    /// Notes a read for a client that memory did not answer.
    pub fn note_read(&self, fingerprint: &Fingerprint, class: IoClass, access: &Access) {
        let bytes = packed_bytes(access.bytes as usize);
        let access = Access {
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            ..*access
        };
        self.ghosts.note_read(fingerprint, class, &access);
    }

    /// Notes that a checkpoint stored a data chunk.
    pub fn note_stored(&self, fingerprint: &Fingerprint, class: IoClass, bytes: usize) {
        if self.samples(fingerprint, class) {
            let bytes = u32::try_from(packed_bytes(bytes)).unwrap_or(u32::MAX);
            self.ghosts.note_stored(fingerprint, class, bytes);
        }
    }

    /// Returns the evidence of what the classes gain. With `is_decision`, what is recent begins
    /// anew.
    pub fn evidence(&self, is_decision: bool) -> Evidence {
        let slots = u64::from(self.slots.count());
        let settings = self.settings();
        let of_data = settings.slots_of_kind(Kind::Data, slots).max(1);
        let hundredths = |count: u64| count as f64 * 100.0 / of_data as f64;
        let others = [Kind::Recipe, Kind::Directory].map(|kind| {
            let class = CacheClass::new(kind, IoClass(0));
            self.slots.count_of(class)
        });
        let room = hundredths(slots.saturating_sub(others.iter().sum()));
        let held = |class| hundredths(self.slots.count_of(class));
        Evidence {
            room_hundredths: room.min(CURVE_BINS as f64) as u8,
            ..self.ghosts.evidence(is_decision, held)
        }
    }

    /// Forgets the evidence: the classes are others now.
    pub fn forget_evidence(&self) {
        self.ghosts.clear();
    }
}
