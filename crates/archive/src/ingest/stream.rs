//! Stores one long object through all lanes: this thread reads and cuts, workers fingerprint and
//! compress. Backups of large files and imports call this.
//!
//! ```text
//! source --read, cut--> pieces --> workers (store chunks) --> Assembly --> root
//! ```
//!
//! Invariant: boundaries do not depend on the sizes of reads: a cut is made only when the largest
//! chunk is in the buffer or the object ends. Holes are not read.

use super::assembly::Assembly;
use super::{BATCH_BYTES, Context, Work};
use crate::filesystem::PathError;
use crate::filesystem::data_map::Segment;
use chunking::Splitter;
use format::recipe::{Layout, ObjectRoot};
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Lane, RegionKind, StoreError};
use units::Fingerprint;
use units::Part;

/// Source of the bytes. It returns fewer than requested only at the end.
pub trait ByteSource {
    /// Continues where the last call ended, or at `offset` if it can seek.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, PathError>;
}

/// Chunk boundaries.
#[derive(Clone, Copy, Debug)]
pub enum Cutting {
    /// Content-defined.
    Content(Splitter),
    /// Every 2^n bytes; the last chunk is padded with zeroes.
    Fixed(u8),
}

impl Cutting {
    /// Returns the layout of objects that are divided like this.
    pub fn layout(self) -> Layout {
        match self {
            Self::Content(_) => Layout::Variable,
            Self::Fixed(log2) => Layout::Fixed(log2),
        }
    }
}

/// Called with the finished object, on the thread that completes it.
pub type OnDone<'a> =
    Box<dyn FnOnce(ObjectRoot, &mut Lane, &Context<'_>) -> Result<(), StoreError> + Send + 'a>;

struct Object<'a> {
    assembly: Assembly,
    cutting: Cutting,
    kind: RegionKind,
    done: Mutex<Option<OnDone<'a>>>,
}

impl Object<'_> {
    fn finish(
        &self,
        root: Option<ObjectRoot>,
        lane: &mut Lane,
        context: &Context<'_>,
    ) -> Result<(), StoreError> {
        let Some(root) = root else {
            return Ok(());
        };
        let done = self.done.lock().take();
        done.map_or(Ok(()), |done| done(root, lane, context))
    }
}

/// A piece for a worker.
enum Piece {
    /// A buffer and the lengths of the chunks at its front; the rest is unused.
    Data { bytes: Vec<u8>, cuts: Vec<usize> },
    /// A run of zeroes.
    Hole { len: u64 },
    /// No more pieces; its number is their count.
    End,
}

struct PieceWork<'a> {
    object: Arc<Object<'a>>,
    number: u64,
    piece: Piece,
}

impl Work for PieceWork<'_> {
    fn run(self: Box<Self>, lane: &mut Lane, context: &Context<'_>) -> Result<(), StoreError> {
        let Self {
            object,
            number,
            piece,
        } = *self;
        let root = match piece {
            Piece::Data { mut bytes, cuts } => {
                lane.pack_in(object.kind)?;
                let chunks = store_cuts(object.cutting, &mut bytes, &cuts, lane)?;
                context
                    .observer
                    .add_bytes(cuts.iter().sum::<usize>() as u64);
                context.recycle(bytes);
                object.assembly.add(number, chunks, lane)?
            }
            Piece::Hole { len } => {
                context.observer.add_bytes(len);
                object
                    .assembly
                    .add(number, hole(object.cutting, len), lane)?
            }
            Piece::End => object.assembly.end(number, lane)?,
        };
        object.finish(root, lane, context)
    }
}

fn store_cuts(
    cutting: Cutting,
    bytes: &mut Vec<u8>,
    cuts: &[usize],
    lane: &mut Lane,
) -> Result<Vec<(Fingerprint, u64)>, StoreError> {
    if let Cutting::Fixed(log2) = cutting {
        // Only the last piece of an object is not a multiple.
        let used: usize = cuts.iter().sum();
        let padded = used.next_multiple_of(1 << log2);
        if bytes.len() < padded {
            bytes.resize(padded, 0);
        }
        bytes.part_mut(used..padded)?.fill(0);
    }
    let mut chunks = Vec::with_capacity(cuts.len());
    let mut rest = bytes.as_slice();
    for &len in cuts {
        let stored_len = match cutting {
            Cutting::Fixed(log2) => 1 << log2,
            Cutting::Content(_) => len,
        };
        let (chunk, later) = rest.split_at_checked(stored_len).unwrap_or((rest, &[]));
        chunks.push(chunk);
        rest = later;
    }
    let stored = lane.store_chunks(&chunks)?;
    let lens = cuts.iter().map(|len| *len as u64);
    Ok(stored.into_iter().zip(lens).collect())
}

/// Returns a hole as chunks: fixed layout needs one entry for each.
fn hole(cutting: Cutting, len: u64) -> Vec<(Fingerprint, u64)> {
    match cutting {
        Cutting::Content(_) => vec![(Fingerprint::HOLE, len)],
        Cutting::Fixed(log2) => {
            let chunk = 1u64 << log2;
            let count = len.div_ceil(chunk);
            (0..count)
                .map(|n| (Fingerprint::HOLE, chunk.min(len - n * chunk)))
                .collect()
        }
    }
}

/// Bytes of a hole handed over together in fixed layout: each chunk's entry takes memory.
const HOLE_BYTES: u64 = 1 << 30;

/// Reads an object piece by piece and submits the pieces.
pub struct StreamRun<'c, 'a> {
    context: &'c Context<'a>,
    object: Arc<Object<'a>>,
    cutting: Cutting,
    pieces: u64,
}

impl<'c, 'a> StreamRun<'c, 'a> {
    /// Reads one object, to be stored in regions of this kind; `done` gets its root.
    pub fn new(
        context: &'c Context<'a>,
        (cutting, kind): (Cutting, RegionKind),
        done: OnDone<'a>,
    ) -> Self {
        let object = Object {
            assembly: Assembly::new(cutting.layout()),
            cutting,
            kind,
            done: Mutex::new(Some(done)),
        };
        Self {
            context,
            object: Arc::new(object),
            cutting,
            pieces: 0,
        }
    }

    fn submit(&mut self, piece: Piece) -> bool {
        let number = self.pieces;
        self.pieces += 1;
        let object = Arc::clone(&self.object);
        self.context.submit(Box::new(PieceWork {
            object,
            number,
            piece,
        }))
    }

    /// Reads `source` along `segments` (all of an object, in order, holes not read), or to its end
    /// if there are none. Returns the object's length.
    ///
    /// A source that ends early gives a shorter object; the caller compares.
    pub fn read(
        mut self,
        source: &mut dyn ByteSource,
        segments: Option<&[Segment]>,
    ) -> Result<u64, PathError> {
        let whole = [Segment {
            offset: 0,
            len: u64::MAX,
            hole: false,
        }];
        let mut segments = segments.unwrap_or(&whole).to_vec();
        if let Cutting::Fixed(log2) = self.cutting {
            segments = on_grid(&segments, 1 << log2);
        }
        let mut total = 0;
        for segment in segments {
            if segment.hole {
                let mut rest = segment.len;
                while rest > 0 {
                    let len = rest.min(HOLE_BYTES);
                    if !self.submit(Piece::Hole { len }) {
                        return Ok(total);
                    }
                    rest -= len;
                    total += len;
                }
                continue;
            }
            let read = self.read_data(source, segment)?;
            total += read;
            if read < segment.len {
                break;
            }
        }
        // Its number is the count of the pieces before it.
        self.submit(Piece::End);
        Ok(total)
    }

    fn read_data(&mut self, source: &mut dyn ByteSource, at: Segment) -> Result<u64, PathError> {
        let mut kept: Vec<u8> = Vec::new();
        let mut done = 0;
        loop {
            let mut bytes = self.context.buffer(BATCH_BYTES);
            let start = kept.len();
            let want = (at.len - done).min((BATCH_BYTES - start) as u64) as usize;
            let fault = |e| PathError::new("read", "input", e);
            bytes
                .part_mut(..start)
                .map_err(fault)?
                .copy_from_slice(&kept);
            let into = bytes.part_mut(start..start + want).map_err(fault)?;
            let count = source.read(at.offset + done, into)?;
            self.context.observer.has_read(count as u64);
            done += count as u64;
            let ended = count < want || done == at.len;
            let filled = bytes.part(..start + count).map_err(fault)?;
            let (cuts, used) = self.cut(filled, ended);
            kept.clear();
            kept.extend_from_slice(filled.part(used..).map_err(fault)?);
            if !cuts.is_empty() && !self.submit(Piece::Data { bytes, cuts }) {
                return Ok(done);
            }
            if ended {
                return Ok(done);
            }
        }
    }

    /// Returns the lengths of the chunks that are certain, and the bytes they take.
    fn cut(&self, bytes: &[u8], ended: bool) -> (Vec<usize>, usize) {
        let mut cuts = Vec::with_capacity(64);
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            let (len, needed) = match self.cutting {
                Cutting::Content(splitter) => (splitter.next_len(rest), splitter.max_bytes()),
                Cutting::Fixed(log2) => (rest.len().min(1 << log2), 1 << log2),
            };
            if rest.len() < needed && !ended {
                break;
            }
            cuts.push(len);
            used += len;
        }
        (cuts, used)
    }
}

/// Shrinks holes to whole chunks: in fixed layout a chunk that is partly data is read as data.
fn on_grid(segments: &[Segment], chunk: u64) -> Vec<Segment> {
    let end = segments
        .last()
        .map_or(0, |s| s.offset.saturating_add(s.len));
    let mut out: Vec<Segment> = Vec::new();
    let mut at = 0;
    for segment in segments.iter().filter(|s| s.hole) {
        let stop = segment.offset + segment.len;
        let from = segment.offset.next_multiple_of(chunk).max(at);
        let to = if stop == end {
            stop
        } else {
            stop / chunk * chunk
        };
        if from < to {
            if at < from {
                out.push(Segment {
                    offset: at,
                    len: from - at,
                    hole: false,
                });
            }
            out.push(Segment {
                offset: from,
                len: to - from,
                hole: true,
            });
            at = to;
        }
    }
    if at < end {
        out.push(Segment {
            offset: at,
            len: end - at,
            hole: false,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_on_the_grid() {
        let s = |offset, len, hole| Segment { offset, len, hole };
        let given = [
            s(0, 5000, false),
            s(5000, 20_000, true),
            s(25_000, 10, false),
        ];
        assert_eq!(
            on_grid(&given, 4096),
            [
                s(0, 8192, false),
                s(8192, 16_384, true),
                s(24_576, 434, false)
            ]
        );
        assert_eq!(on_grid(&[s(0, 10_001, true)], 4096), [s(0, 10_001, true)]);
        assert_eq!(
            on_grid(&[s(0, u64::MAX, false)], 4096),
            [s(0, u64::MAX, false)]
        );
    }
}
