//! Asks the fast tier before the index, and offers it what containers had. `approach` calls this.
//!
//! Invariant: a pool without a tier, or whose tier fails, reads the same bytes, slower. Maintenance
//! neither asks nor fills it: a scrub must see the pool's device, and a pass over everything is no
//! reason to keep anything. Recipe nodes are admitted for clients only: backups, restores and
//! copies go through whole recipes once.

mod directories;
mod measured;
mod missed;

use super::Reader;
use super::cache::{ChunkRef, DecodedRegion};
use chunk_store::container::Region;
use classes::Admission;
use directories::TierDirectories;
use measured::Measured;
use media::{IoOrigin, SystemTicks};
use missed::MissedNodes;
use ssd_tier::{Kind, Tier};
use std::sync::Arc;
use units::{Fingerprint, IoClass, Origin};

/// The fast tier of a reader, and what decides which recipe nodes it gets.
pub(super) struct AttachedTier {
    tier: Arc<Tier>,
    missed: MissedNodes,
    /// Measures reads.
    ticks: SystemTicks,
}

/// How the fast tier treats the chunks of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admit {
    /// Kind of the chunks. Never [`Kind::Directory`]: the chunk map brings those.
    pub kind: Kind,
    /// Class of the request, for data.
    pub class: IoClass,
    /// Recipe nodes are admitted at their first miss, and not only at the second.
    pub at_once: bool,
}

impl Admit {
    /// Admits data chunks of a class.
    pub fn data(class: IoClass) -> Self {
        Self {
            kind: Kind::Data,
            class,
            at_once: true,
        }
    }

    /// Admits recipe nodes: those of a random request at once, because the next one needs them as
    /// likely; others if they are missed again while the first miss is remembered.
    pub fn recipe(is_random: bool) -> Self {
        Self {
            kind: Kind::Recipe,
            class: IoClass(0),
            at_once: is_random,
        }
    }
}

impl Reader {
    /// Sets the fast tier. Only the first call has an effect.
    pub fn set_fast_tier(&self, tier: &Arc<Tier>) {
        let attached = self.fast.set(AttachedTier {
            tier: Arc::clone(tier),
            missed: MissedNodes::default(),
            ticks: SystemTicks::default(),
        });
        let directories = TierDirectories::of(tier).filter(|_| attached.is_ok());
        if let Some(directories) = directories {
            self.chunks.use_directory_copies(directories);
        }
    }

    /// Returns the fast tier, if there is one.
    pub fn fast_tier(&self) -> Option<&Arc<Tier>> {
        self.fast.get().map(|fast| &fast.tier)
    }

    /// Returns what the fast tier takes of data of a class: nothing if there is none, or if
    /// maintenance reads.
    pub fn admission(&self, class: IoClass) -> Admission {
        let tier = self.tier_for_this_read();
        tier.map_or(Admission::Never, |tier| tier.admission(class))
    }

    /// Returns true if the fast tier has the chunk.
    pub fn is_in_fast_tier(&self, fingerprint: &Fingerprint) -> bool {
        let tier = self.fast_tier();
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

    /// Notes that a checkpoint replaced a chunk or node: the fast tier forgets it. An object that
    /// still has it brings it back.
    pub fn note_replaced(&self, fingerprint: &Fingerprint) {
        if let Some(tier) = self.fast_tier() {
            tier.forget(fingerprint);
        }
    }

    /// Notes that a checkpoint stored data of a class. The tier need not take it.
    pub fn note_stored(&self, fingerprint: &Fingerprint, class: IoClass, bytes: usize) {
        if let Some(tier) = self.fast_tier() {
            tier.note_stored(fingerprint, class, bytes);
        }
    }

    /// Begins to measure a read for a client, if it is in the tier's sample.
    pub(super) fn measure(
        &self,
        fingerprint: &Fingerprint,
        waiting: Option<IoClass>,
        is_random: bool,
    ) -> Option<Measured<'_>> {
        let (fast, class) = (self.fast.get()?, waiting?);
        self.tier_for_this_read()?
            .samples(fingerprint, class)
            .then(|| Measured::begin(&fast.tier, &fast.ticks, fingerprint, class, is_random))
    }

    fn tier_for_this_read(&self) -> Option<&Tier> {
        let tier = self.fast_tier()?;
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
        let is_recipe = admit.is_some_and(|admit| admit.kind == Kind::Recipe);
        if is_recipe && !self.admits_node(fingerprint, admit) {
            return;
        }
        self.offer_to_tier(fingerprint, admit, chunk);
        if is_recipe && self.fast.get().is_some() {
            let others = chunk.others();
            others.for_each(|(other, bytes)| self.offer_to_tier(other, admit, bytes));
        }
    }

    /// Returns true if a recipe node that was read from a container is admitted. Remembers the miss
    /// otherwise.
    fn admits_node(&self, fingerprint: &Fingerprint, admit: Option<Admit>) -> bool {
        let is_client = IoOrigin::current().origin == Origin::Foreground;
        let fast = self.fast.get().filter(|_| is_client);
        let at_once = admit.is_some_and(|admit| admit.at_once);
        fast.is_some_and(|fast| at_once || fast.missed.was_missed(fingerprint))
    }

    /// Hands a verified chunk to the fast tier, if there is one and `admit` says that it is to be
    /// kept.
    pub fn offer_to_tier(&self, fingerprint: &Fingerprint, admit: Option<Admit>, chunk: &[u8]) {
        if let Some(Admit { kind, class, .. }) = admit
            && let Some(tier) = self.tier_for_this_read()
        {
            tier.offer(fingerprint, kind, class, chunk);
        }
    }
}
