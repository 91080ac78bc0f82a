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
    pub fn set_fast_tier(&self, tier: &Arc<Tier>) {
        let _ = self.fast.set(Arc::clone(tier));
    }

    /// Returns the fast tier, if there is one.
    pub fn fast_tier(&self) -> Option<&Arc<Tier>> {
        self.fast.get()
    }

    /// Returns true if the fast tier has the chunk.
    pub fn is_in_fast_tier(&self, fingerprint: &Fingerprint) -> bool {
        let tier = self.fast.get();
        tier.is_some_and(|tier| tier.contains(fingerprint))
    }

    /// Returns true if there is a fast tier that welcomes data chunks that nobody asked for.
    pub fn wants_for_fast_tier(&self, admit: Admit) -> bool {
        let tier = self.tier_for_this_read();
        admit.kind == Kind::Data && tier.is_some_and(|tier| tier.wants_more(admit.class))
    }

    /// Offers verified bytes, which have the fingerprint, to the fast tier, if there is one.
    pub fn give_to_fast_tier(&self, fingerprint: &Fingerprint, admit: Admit, bytes: &[u8]) {
        self.offer_to_tier(fingerprint, Some(admit), bytes);
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

    /// Offers a chunk of a container to the tier, if the read admits it. Recipe nodes bring the
    /// other nodes of their region along: those are found in memory from now on, so no read would
    /// offer them.
    pub(super) fn offer_region_to_tier(
        &self,
        fingerprint: &Fingerprint,
        admit: Option<Admit>,
        chunk: &ChunkRef,
    ) {
        self.offer_to_tier(fingerprint, admit, chunk);
        if self.fast.get().is_some() && admit == Some(Admit::RECIPE) {
            let others = chunk.others();
            others.for_each(|(other, bytes)| self.offer_to_tier(other, admit, bytes));
        }
    }

    /// Hands a verified chunk to the fast tier, if there is one and `admit` says that it is to be
    /// kept.
    pub fn offer_to_tier(&self, fingerprint: &Fingerprint, admit: Option<Admit>, chunk: &[u8]) {
        if let Some(Admit { kind, class }) = admit
            && let Some(tier) = self.tier_for_this_read()
        {
            tier.offer(fingerprint, kind, class, chunk);
        }
    }
}
