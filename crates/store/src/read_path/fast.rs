//! Asks the fast tier before the index, and offers it what containers had. `approach` calls this.
//!
//! Invariant: a pool without a tier, or whose tier fails, reads the same bytes, slower. Maintenance
//! neither asks nor fills it: a scrub must see the pool's device, and a pass over everything is no
//! reason to keep anything.

use super::Reader;
use super::cache::{ChunkRef, DecodedRegion};
use chunk_store::container::Region;
use media::IoOrigin;
use ssd_tier::{Kind, Tier};
use std::sync::Arc;
use units::{Fingerprint, IoClass};

/// How the fast tier treats the chunks of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admit {
    /// Kind of the chunks. Never [`Kind::Directory`]: directories have no fingerprints.
    pub kind: Kind,
    /// Class of the request, for data.
    pub class: IoClass,
}

impl Admit {
    /// Admits data chunks of a class.
    pub fn data(class: IoClass) -> Self {
        let kind = Kind::Data;
        Self { kind, class }
    }

    /// Admits recipe nodes.
    pub const RECIPE: Self = Self {
        kind: Kind::Recipe,
        class: IoClass(0),
    };
}

impl Reader {
    /// Sets the fast tier. Only the first call has an effect.
    pub(crate) fn set_fast_tier(&self, tier: &Arc<Tier>) {
        let _ = self.fast.set(Arc::clone(tier));
    }

    /// Returns the fast tier, if there is one.
    pub fn fast_tier(&self) -> Option<&Arc<Tier>> {
        self.fast.get()
    }

    fn tier_for_this_read(&self) -> Option<&Tier> {
        let tier = self.fast.get()?;
        (!IoOrigin::current().origin.is_maintenance()).then_some(&**tier)
    }

    /// Returns the chunk if the tier has it.
    pub(super) fn chunk_of_tier(
        &self,
        fingerprint: &Fingerprint,
        admit: Option<Admit>,
    ) -> Option<ChunkRef> {
        let kind = admit.map_or(Kind::Data, |admit| admit.kind);
        let tier = self.tier_for_this_read()?;
        let (raw, chunk) = tier.lookup(fingerprint, kind)?.into_parts();
        let region = Region {
            raw,
            chunks: vec![(*fingerprint, chunk.start as u32, chunk.len() as u32)],
            is_whole: true,
        };
        ChunkRef::within(&Arc::new(DecodedRegion::alone(region)), fingerprint)
    }

    /// Offers a chunk of a container to the tier, if the read admits it.
    pub(super) fn offer_to_tier(
        &self,
        fingerprint: &Fingerprint,
        admit: Option<Admit>,
        chunk: &[u8],
    ) {
        if let Some(Admit { kind, class }) = admit
            && let Some(tier) = self.tier_for_this_read()
        {
            tier.offer(fingerprint, kind, class, chunk);
        }
    }
}

#[cfg(test)]
mod tests;
