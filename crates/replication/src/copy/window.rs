//! Learns the other pool's fingerprints of chunks from an older state that both pools have. Copies
//! of streams and large files use it.
//!
//! Invariant: memory is bounded. A chunk outside the window is sent, and the receiving pool
//! deduplicates it. Both states are read through their recipes only.

use super::carrier::Carrier;
use super::pairs::Pair;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::Reader;
use units::Fingerprint;

/// Maximum number of pairs in memory: about 150 bytes each.
const PAIRS_MAX: usize = 1 << 16;
/// Pairs that are read together.
const PAIRS_READ: usize = 4096;
/// Distance that the window reaches beyond the offset: longer insertions are not found.
const LEAD_BYTES: u64 = 128 << 20;

/// See the module's head.
pub(super) struct Window {
    pair: Pair,
    here: Arc<Reader>,
    there: Arc<Reader>,
    /// Read up to here; the end if a recipe cannot be read.
    at: u64,
    known: HashMap<Fingerprint, Fingerprint>,
    order: VecDeque<Fingerprint>,
}

impl Window {
    pub fn new(pair: Pair, carrier: &Carrier) -> Self {
        Self {
            pair,
            here: Arc::clone(carrier.source()),
            there: Arc::clone(carrier.to.reader()),
            at: 0,
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns the chunk's fingerprint in the other pool, if the older state has the chunk near
    /// `offset`.
    pub fn find(&mut self, fingerprint: &Fingerprint, offset: u64) -> Option<Fingerprint> {
        while self.at < self.pair.here.len.min(offset.saturating_add(LEAD_BYTES)) {
            self.read_some();
            if self.known.len() >= PAIRS_MAX / 2 && self.at > offset {
                break;
            }
        }
        self.known.get(fingerprint).copied()
    }

    fn read_some(&mut self) {
        let here = pieces(&self.here, &self.pair.here, self.at);
        let there = pieces(&self.there, &self.pair.there, self.at);
        let next = here.last().map(|(offset, len, _)| offset + len);
        let there: HashMap<_, _> = there.iter().map(|(at, len, f)| ((*at, *len), *f)).collect();
        for (offset, len, fingerprint) in here {
            if let Some(called) = there.get(&(offset, len))
                && !fingerprint.is_hole()
                && self.known.insert(fingerprint, *called).is_none()
            {
                self.order.push_back(fingerprint);
            }
        }
        while self.order.len() > PAIRS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.at = next.filter(|next| *next > self.at).unwrap_or(u64::MAX);
    }
}

/// Returns the next pieces of an object; none if its recipe cannot be read.
fn pieces(
    reader: &Reader,
    root: &format::recipe::ObjectRoot,
    from: u64,
) -> Vec<(u64, u64, Fingerprint)> {
    let mut pieces = Vec::new();
    let mut add = |offset: u64, len: u64, fingerprint: Fingerprint| {
        pieces.push((offset, len, fingerprint));
        Ok(match pieces.len() < PAIRS_READ {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    };
    match reader.visit_pieces(root, from, root.len, &mut add) {
        Ok(()) => pieces,
        Err(_) => Vec::new(),
    }
}
