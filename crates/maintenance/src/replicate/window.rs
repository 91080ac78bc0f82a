//! What chunks are called in the other pool, learned from an older state that both have.
//!
//! Invariant: memory is bounded; a chunk that is not in the window is sent, and found there. Both
//! states are read through their recipes only. Called by copies of streams and large files.

use super::carrier::Carrier;
use super::pairs::Pair;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::Reader;
use units::Fingerprint;

/// Pairs in memory, at most: about 150 bytes each.
const PAIRS_MAX: usize = 1 << 16;
/// Pairs that are read at a time.
const PAIRS_READ: usize = 4096;
/// The window reaches so far beyond what is looked for: shorter insertions are passed over.
const LEAD_BYTES: u64 = 128 << 20;

/// See the module's head.
pub(super) struct Window {
    pair: Pair,
    here: Arc<Reader>,
    there: Arc<Reader>,
    /// Read up to here; the end when a recipe cannot be read.
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

    /// What the chunk is called there, when the older state has it near `offset`.
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

/// The next pieces of an object; none when its recipe cannot be read.
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
