//! Copies a stream or a tree: objects whose recipes and directories are built in order, from pieces
//! that are copied in any order. The task calls this.
//!
//! ```text
//! walker --> [ piece | piece | piece (sent) | piece ... ] --> assembly --> receiving pool
//!              first                          `pieces_ahead`
//! ```
//!
//! Invariant: the result does not depend on the order of the pieces. Memory has the pieces from the
//! first one that is not sent up to the last one that the walker has filled.

use super::assembly::{Assembly, PIECES_AHEAD_MAX};
use super::carrier::Carrier;
use super::listing::known;
use super::pairs::Pair;
use super::piece::Piece;
use super::walker::Walker;
use super::{CopyError, CopyLimits, Copying};
use duet::{Access, Page, Space};
use format::recipe::ObjectRoot;
use std::collections::{BTreeSet, VecDeque};
use store::RegionPlace;
use units::{ContainerId, Fingerprint};

/// See the module's head.
pub(super) struct OrderedCopy {
    walker: Walker,
    /// The piece that the walker fills.
    open: Piece,
    /// Number of the first piece in `pieces`.
    first: u64,
    pieces: VecDeque<Piece>,
    /// Chunks that are not sent, by the first bytes of their fingerprints, and their pieces: to
    /// understand events.
    wanted: BTreeSet<(u64, u64)>,
    assembly: Assembly,
    limits: CopyLimits,
    /// Others may bring chunks into memory, and events tell of it.
    listens: bool,
}

impl OrderedCopy {
    pub fn of_tree(
        root: ObjectRoot,
        base: Option<Pair>,
        carrier: &Carrier,
        limits: CopyLimits,
    ) -> Self {
        let assembly = known(&root, base, true, carrier).map(Assembly::of);
        Self::new(
            Walker::of_tree(root, base),
            assembly.unwrap_or_default(),
            limits,
        )
    }

    pub fn of_stream(
        root: ObjectRoot,
        base: Option<Pair>,
        carrier: &Carrier,
        limits: CopyLimits,
    ) -> Self {
        let walker = Walker::of_stream(root, base, carrier);
        Self::new(walker, Assembly::default(), limits)
    }

    fn new(walker: Walker, assembly: Assembly, limits: CopyLimits) -> Self {
        Self {
            walker,
            open: Piece::default(),
            first: 0,
            pieces: VecDeque::new(),
            wanted: BTreeSet::new(),
            assembly,
            limits,
            listens: false,
        }
    }

    /// From now on, events are reported.
    pub fn listen(&mut self) {
        self.listens = true;
    }

    /// Returns the number of pieces that the driver may know ahead.
    pub fn lookahead(&self) -> usize {
        match self.listens {
            true => self.limits.pieces_ahead.clamp(1, PIECES_AHEAD_MAX),
            false => 1,
        }
    }

    fn piece(&self, number: u64) -> Option<&Piece> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.pieces.get(at)
    }

    /// Visits the pieces that need chunks of the region that this page represents.
    pub fn visit_pieces(&self, page: &Page, carrier: &Carrier, visit: &mut dyn FnMut(u64)) {
        let Ok(sector) = u32::try_from(page.index) else {
            return;
        };
        if page.space != Space::Containers || self.wanted.is_empty() {
            return;
        }
        let container = ContainerId(page.object);
        let mut numbers = BTreeSet::new();
        let mut add = |name: &Fingerprint| {
            let key = key_of(name);
            let wanted = self.wanted.range((key, 0)..=(key, u64::MAX));
            numbers.extend(wanted.map(|(_, number)| *number));
        };
        let place = RegionPlace { container, sector };
        carrier.source().visit_decoded(place, &mut add);
        numbers.into_iter().for_each(visit);
    }

    /// Returns the number of a piece's chunks to send, at least 1.
    pub fn chunks_left(&self, number: u64) -> u64 {
        self.piece(number).map_or(1, |piece| piece.left.max(1))
    }

    /// Returns how many of them are in memory. A piece without such chunks needs nothing else.
    pub fn chunks_resident(&self, number: u64, carrier: &Carrier) -> u64 {
        let Some(piece) = self.piece(number) else {
            return 0;
        };
        if piece.left == 0 || !self.listens {
            return u64::from(piece.left == 0);
        }
        let left = piece.chunks.iter().filter(|chunk| !chunk.is_sent);
        left.filter(|chunk| carrier.is_resident(&chunk.name))
            .count() as u64
    }

    /// Fills the piece with this number, the next one. Returns false if nothing is left.
    pub fn fill(&mut self, number: u64, carrier: &mut Carrier) -> Result<bool, CopyError> {
        if number < self.first + self.pieces.len() as u64 {
            return Ok(true);
        }
        if self.assembly.done().is_some() {
            return Ok(false);
        }
        let (bytes_max, seen) = (self.limits.piece_bytes, &mut self.assembly.seen);
        while !self.open.is_full(bytes_max)
            && self
                .walker
                .advance(carrier, seen, &mut self.open, bytes_max)?
        {}
        if self.open.is_empty() {
            return Ok(false);
        }
        let piece = std::mem::take(&mut self.open);
        if self.listens {
            let left = piece.chunks.iter().filter(|chunk| !chunk.is_sent);
            let wanted = left.map(|chunk| (key_of(&chunk.name), number));
            self.wanted.extend(wanted);
        }
        self.pieces.push_back(piece);
        Ok(true)
    }

    /// Sends about `budget_bytes` of a piece.
    pub fn copy_piece(
        &mut self,
        number: u64,
        carrier: &mut Carrier,
        (budget_bytes, access): (u64, Access),
    ) -> Result<Copying, CopyError> {
        let at = number
            .checked_sub(self.first)
            .and_then(|at| usize::try_from(at).ok());
        let Some(piece) = at.and_then(|at| self.pieces.get_mut(at)) else {
            return Ok(Copying::Done);
        };
        let mut copied = 0;
        while let Some(chunk) = piece.chunks.get_mut(piece.next) {
            if copied >= budget_bytes.max(1) {
                return Ok(Copying::Begun);
            }
            if !chunk.is_sent {
                let how = (chunk.layout, chunk.kind, access);
                let Some(there) = carrier.carry(how, &chunk.name, chunk.len)? else {
                    return Ok(Copying::NeedsDevice);
                };
                self.wanted.remove(&(key_of(&chunk.name), number));
                chunk.name = there;
                chunk.is_sent = true;
                copied += chunk.len;
                piece.left -= 1;
            }
            piece.next += 1;
        }
        while let Some(piece) = self.pieces.pop_front_if(|piece| piece.is_sent()) {
            self.assembly.take(piece, &mut carrier.to)?;
            self.first += 1;
        }
        Ok(Copying::Done)
    }

    /// Returns the object in the receiving pool, once nothing is left.
    pub fn root(&self) -> Option<ObjectRoot> {
        self.assembly.done()
    }
}

fn key_of(name: &Fingerprint) -> u64 {
    let first = name.0.first_chunk::<8>();
    first.map_or(0, |first| u64::from_le_bytes(*first))
}
