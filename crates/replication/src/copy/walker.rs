//! Goes through a stream or a tree in its own order, and puts what is to be copied into pieces. The
//! ordered copy calls this, some pieces ahead of what is copied.
//!
//! Invariant: only recipes and directories are read. A directory or file that equals the base is
//! not. An error changes nothing: the next call tries again.

use super::CopyError;
use super::assembly::Seen;
use super::carrier::Carrier;
use super::listing::{Listing, known};
use super::pairs::Pair;
use super::piece::{CHUNKS_MAX, Mark, Piece};
use super::window::Window;
use format::recipe::{Layout, ObjectRoot};
use format::tree::{Entry, EntryKind};
use std::ops::ControlFlow;
use store::{RegionKind, StoreError};
use units::Fingerprint;

/// A directory on the path to the current position.
struct Level {
    /// Entries that follow, in reverse order.
    left: Vec<Entry>,
    base: Option<Listing>,
}

/// The stream or file at the current position.
struct Open {
    root: ObjectRoot,
    at: u64,
    window: Option<Window>,
    /// `None`: the stream.
    entry: Option<Box<Entry>>,
}

/// See the module's head.
pub(super) struct Walker {
    /// The topmost directory, until it is read.
    top: Option<(ObjectRoot, Option<Pair>)>,
    levels: Vec<Level>,
    open: Option<Open>,
}

impl Walker {
    pub fn of_tree(root: ObjectRoot, base: Option<Pair>) -> Self {
        Self {
            top: Some((root, base)),
            levels: Vec::new(),
            open: None,
        }
    }

    pub fn of_stream(root: ObjectRoot, base: Option<Pair>, carrier: &Carrier) -> Self {
        Self {
            top: None,
            levels: Vec::new(),
            open: Some(Open::new(root, base, None, carrier)),
        }
    }

    /// Goes on by one entry, or by some chunks of a file. Returns false at the end.
    pub fn advance(
        &mut self,
        carrier: &mut Carrier,
        seen: &mut Seen,
        piece: &mut Piece,
        bytes_max: u64,
    ) -> Result<bool, CopyError> {
        if let Some((root, base)) = self.top {
            self.levels.push(Level::read(&root, base, carrier)?);
            self.top = None;
            piece.mark(Mark::Enter(root, None));
            return Ok(true);
        }
        if let Some(open) = &mut self.open {
            if open.at < open.root.len {
                open.advance(carrier, piece, bytes_max)?;
            } else if let Some(Open { root, entry, .. }) = self.open.take() {
                piece.mark(match entry {
                    Some(entry) => Mark::File(entry),
                    None => Mark::Stream(root.layout),
                });
            }
            return Ok(true);
        }
        let Some(level) = self.levels.last_mut() else {
            return Ok(false);
        };
        let Some(mut entry) = level.left.pop() else {
            self.levels.pop();
            piece.mark(Mark::Leave);
            return Ok(true);
        };
        let base = level.base.as_ref().and_then(|base| base.pair(&entry));
        let (content, is_tree) = match &mut entry.kind {
            EntryKind::File { content, .. } => (content, false),
            EntryKind::Directory { content } => (content, true),
            _ => {
                piece.mark(Mark::Entry(Box::new(entry)));
                return Ok(true);
            }
        };
        let here = *content;
        if let Some(there) = known(&here, base, is_tree, carrier).or_else(|| seen.copy_of(&here)) {
            *content = there;
            seen.copied(here, there);
            piece.mark(Mark::Entry(Box::new(entry)));
        } else if seen.is_under_way(&here) {
            piece.mark(Mark::Again(Box::new(entry)));
        } else if is_tree {
            let below = Level::read(&here, base, carrier);
            match below {
                Ok(below) => self.levels.push(below),
                Err(e) => {
                    level.left.push(entry);
                    return Err(e);
                }
            }
            seen.begun(here);
            piece.mark(Mark::Enter(here, Some(Box::new(entry))));
        } else {
            seen.begun(here);
            self.open = Some(Open::new(here, base, Some(Box::new(entry)), carrier));
        }
        Ok(true)
    }
}

impl Level {
    fn read(root: &ObjectRoot, base: Option<Pair>, carrier: &Carrier) -> Result<Self, CopyError> {
        let left = carrier.source().directory(root);
        let mut left = left.map_err(CopyError::Source)?;
        left.reverse();
        // Without a base more is read; the result is the same.
        let base = base.and_then(|pair| Listing::read(pair, carrier.source(), carrier.to.reader()));
        Ok(Self { left, base })
    }
}

impl Open {
    fn new(
        root: ObjectRoot,
        base: Option<Pair>,
        entry: Option<Box<Entry>>,
        carrier: &Carrier,
    ) -> Self {
        // With shared fingerprints each chunk is looked up; a pair of single chunks would gain
        // nothing.
        let base = base.filter(|pair| {
            !carrier.is_one_domain
                && pair.here.level > 0
                && pair.here.len == pair.there.len
                && carrier.to.reader().is_believed_whole(&pair.there)
        });
        Self {
            root,
            at: 0,
            window: base.map(|pair| Window::new(pair, carrier)),
            entry,
        }
    }

    /// Puts the next chunks into the piece, until that is full or the object ends.
    fn advance(
        &mut self,
        carrier: &mut Carrier,
        piece: &mut Piece,
        bytes_max: u64,
    ) -> Result<(), CopyError> {
        let layout = self.root.layout;
        let kind = match self.entry {
            Some(_) => RegionKind::of_file(self.root.len),
            None => RegionKind::of_layout(layout),
        };
        let chunks_max = CHUNKS_MAX.saturating_sub(piece.chunks.len()).max(1);
        let end = self.at.saturating_add(piece.bytes_free(bytes_max).max(1));
        let (mut at, mut found) = (self.at, Vec::new());
        let mut add = |offset: u64, len: u64, name: Fingerprint| {
            // Only a long hole begins before the position.
            let mut len = len.saturating_sub(at.saturating_sub(offset));
            if let (Layout::Fixed(log2), true) = (layout, name.is_hole()) {
                // The assembly takes it chunk by chunk.
                len = len.min((end - at).next_multiple_of(1 << log2));
            }
            found.push((at, len, name));
            at = at.saturating_add(len);
            Ok(match found.len() < chunks_max && at < end {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        };
        let source = carrier.source();
        let visited = source.visit_pieces(&self.root, self.at, self.root.len, &mut add);
        visited.map_err(CopyError::Source)?;
        if at == self.at {
            let why = format!("ends at {at}, its length is {}", self.root.len);
            let damage = StoreError::corruption("object", self.root.fingerprint, why);
            return Err(CopyError::Source(damage));
        }
        for (at, len, name) in found {
            let window = self.window.as_mut().filter(|_| !name.is_hole());
            let there = window.and_then(|window| window.find(&name, at));
            if there.is_some() {
                carrier.counts.known_bytes += len;
            }
            let there = there.or(name.is_hole().then_some(name));
            piece.push(name, there, (layout, kind), len);
        }
        self.at = at;
        Ok(())
    }
}
