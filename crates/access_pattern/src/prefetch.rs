//! Plans read-ahead for a request (DDFS, ATC'18): sequential and monotonic streams into memory,
//! random requests into the fast tier only.
//!
//! The front of a volume calls this.
//! Invariant: nothing is planned twice for one stream. A plan never reaches beyond the object or
//! the limit. The first request of a stream plans nothing, because one request is no stream. Nor
//! does a stream without gaps plan more than earlier streams of its length went on to read.

use crate::Pattern;
use runs::RunLengths;

/// Destination of fetched bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FetchInto {
    /// The page cache.
    Memory,
    /// The fast tier if there is one; otherwise nothing is fetched.
    FastTier,
}

/// Sizes of fetches, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchLimits {
    /// Windows begin and end at multiples of this; a power of two.
    pub align_bytes: u64,
    /// Size of a stream's first window.
    pub window_bytes_min: u64,
    /// Windows double up to this.
    pub window_bytes_max: u64,
    /// Size of the fetch around a random request; a power of two.
    pub around_bytes: u64,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            align_bytes: 64 << 10,
            window_bytes_min: 128 << 10,
            window_bytes_max: 4 << 20,
            around_bytes: 128 << 10,
        }
    }
}

/// Ranges to fetch: `count` pieces of `len_bytes`, the first at `offset_bytes`, each `step_bytes`
/// after the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Start of the first piece.
    pub offset_bytes: u64,
    /// Length of each piece.
    pub len_bytes: u64,
    /// Distance from one piece's start to the next one's.
    pub step_bytes: u64,
    /// Number of pieces.
    pub count: u64,
    /// Destination.
    pub into: FetchInto,
}

impl Fetch {
    /// Yields start and end of each piece, bytes.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self {
            offset_bytes,
            len_bytes,
            step_bytes,
            count,
            ..
        } = *self;
        (0..count).map(move |n| {
            let start = offset_bytes + n * step_bytes;
            (start, start + len_bytes)
        })
    }
}

/// A reader that moves upwards through the object.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Start of the last request, and the largest end of any.
    last: u64,
    end: u64,
    /// Distance from the last request but one to the last, and how often it was the same before.
    step: u64,
    steady: u8,
    /// Start of the current run: the bytes before `end` without a gap.
    run_start: u64,
    /// End of the bytes that were fetched.
    fetched: u64,
    /// Size of the next window, bytes; 0 in an unused slot.
    window: u64,
    /// Number of the request that last belonged to it.
    seen: u64,
    /// The stream has had more than one request.
    follows: bool,
}

/// This many equal steps are a stride. Two occur by chance among parallel requests of a stream
/// without gaps.
const STEADY: u8 = 3;

impl Stream {
    /// Returns the range to fetch for a stream without gaps: empty if most streams end here.
    fn window(&self, limits: &FetchLimits, runs: &RunLengths) -> (u64, u64) {
        let from = self.fetched.max(self.end);
        let likely = runs.likely_more(self.end - self.run_start, self.window);
        let to = self.end.saturating_add(likely);
        match likely == self.window {
            true => (from, to.next_multiple_of(limits.align_bytes)),
            false => (from, to),
        }
    }

    /// Returns the range to fetch for a stream with gaps of unknown length: the rest of the current
    /// window, which is likely in the same region of a container.
    fn rest(&self, limits: &FetchLimits, _: &RunLengths) -> (u64, u64) {
        (self.end, self.end.next_multiple_of(limits.window_bytes_min))
    }

    /// Adds a request to the stream's run, or begins another behind a gap. What was fetched counts
    /// as read: those requests were not reported.
    fn extend(&mut self, (start, end): (u64, u64), limits: &FetchLimits, runs: &mut RunLengths) {
        let reached = self.end.max(self.fetched.min(start));
        let goes_on = start <= reached.saturating_add(limits.align_bytes);
        let before = goes_on.then(|| self.end - self.run_start);
        if before.is_none() {
            self.run_start = start;
        }
        self.end = self.end.max(end);
        runs.note(before, self.end - self.run_start);
    }

    /// Plans the next steps of a stride, without the gaps.
    fn steps(
        &mut self,
        (start, end): (u64, u64),
        object_bytes: u64,
        limits: &FetchLimits,
    ) -> Option<Fetch> {
        let (step, len) = (self.step, end - start);
        if self.fetched > end.saturating_add(step) {
            return None;
        }
        let first = (self.fetched.max(end) - start).div_ceil(step);
        // Number of the last piece that ends within the object.
        let last = object_bytes.saturating_sub(end) / step;
        let count = (self.window / len.max(1)).max(1);
        let count = count.min((last + 1).saturating_sub(first));
        self.fetched = start + (first + count) * step;
        self.window = (self.window * 2).min(limits.window_bytes_max);
        (count > 0 && len > 0).then_some(Fetch {
            offset_bytes: start + first * step,
            len_bytes: len,
            step_bytes: step,
            count,
            into: FetchInto::Memory,
        })
    }
}

/// Number of streams of an object that are followed at a time.
pub const STREAMS: usize = 8;

/// Plans read-ahead for one object.
#[derive(Clone)]
pub struct Prefetch {
    streams: [Stream; STREAMS],
    /// The stream of the last request, if it had one.
    current: Option<usize>,
    runs: RunLengths,
    requests: u64,
    object_bytes: u64,
    near_bytes: u64,
    limits: FetchLimits,
}

/// The position at which a stream must be reported again; see [`Prefetch::next_look`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextLook {
    /// Number of the stream, below [`STREAMS`].
    pub stream: usize,
    /// Offset in the object, bytes.
    pub at_bytes: u64,
}

impl Prefetch {
    /// Makes a planner for an object of `object_bytes`. Requests within `near_bytes` (the
    /// detector's threshold) of a stream's end belong to that stream.
    pub fn new(object_bytes: u64, near_bytes: u64, limits: FetchLimits) -> Self {
        Self {
            streams: [Stream::default(); STREAMS],
            current: None,
            runs: RunLengths::default(),
            requests: 0,
            object_bytes,
            near_bytes,
            limits,
        }
    }

    /// Plans a fetch for the request `[offset_bytes, offset_bytes + len_bytes)`.
    pub fn plan(&mut self, pattern: Pattern, offset_bytes: u64, len_bytes: u64) -> Option<Fetch> {
        self.requests += 1;
        self.current = None;
        let end = offset_bytes.checked_add(len_bytes)?;
        match pattern {
            Pattern::Sequential => {
                let near = self.near_bytes;
                let distance = |s: &Stream| Some(offset_bytes.abs_diff(s.end));
                let distance = |s: &Stream| distance(s).filter(|d| *d <= near);
                self.upwards((offset_bytes, end), distance, Stream::window)
            }
            Pattern::Monotonic => {
                let distance = |s: &Stream| offset_bytes.checked_sub(s.last);
                self.upwards((offset_bytes, end), distance, Stream::rest)
            }
            Pattern::Random => {
                let start = offset_bytes & !(self.limits.around_bytes - 1);
                self.one(start, self.limits.around_bytes, FetchInto::FastTier)
            }
        }
    }

    /// Returns true if the last request continued a stream. A single request may be near another by
    /// chance.
    pub fn follows_a_stream(&self) -> bool {
        let stream = self.current.and_then(|current| self.streams.get(current));
        stream.is_some_and(|stream| stream.follows)
    }

    /// Returns the position at which the caller must report the last request's stream again.
    /// `None`: the last request belonged to no stream.
    ///
    /// Requests that need nothing from the device need not be reported. The exception is the first
    /// of this stream that reaches the position: then there may be more to fetch. The position is
    /// at most half the near distance away, so that a planner which sees only reported requests
    /// sees one stream. For a stride it is the next step.
    pub fn next_look(&self) -> Option<NextLook> {
        let stream = self.current?;
        let s = self.streams.get(stream)?;
        let at_bytes = match s.steady >= STEADY && s.step > 0 {
            true => s.last.saturating_add(s.step),
            false => {
                let due = s.fetched.saturating_sub(s.window / 4);
                due.min(s.end.saturating_add(self.near_bytes / 2))
            }
        };
        Some(NextLook {
            stream,
            at_bytes: at_bytes.max(s.end),
        })
    }

    /// Follows an upward stream. `distance` returns how far a stream is from this request, or
    /// `None` if the request cannot belong to it.
    fn upwards(
        &mut self,
        (start, end): (u64, u64),
        distance: impl Fn(&Stream) -> Option<u64>,
        follows: impl Fn(&Stream, &FetchLimits, &RunLengths) -> (u64, u64),
    ) -> Option<Fetch> {
        let used = self.streams.iter_mut().enumerate();
        let used = used.filter(|(_, s)| s.window > 0);
        let closest = used.filter_map(|(slot, s)| Some((distance(s)?, slot, s)));
        let Some((_, slot, stream)) = closest.min_by_key(|(distance, ..)| *distance) else {
            self.begin(start, end);
            return None;
        };
        self.current = Some(slot);
        (stream.seen, stream.follows) = (self.requests, true);
        let step = start.saturating_sub(stream.last);
        stream.steady = match step == stream.step {
            true => stream.steady.saturating_add(1),
            false => 0,
        };
        (stream.step, stream.last) = (step, start);
        stream.extend((start, end), &self.limits, &mut self.runs);
        if stream.steady >= STEADY && step > end - start {
            return stream.steps((start, end), self.object_bytes, &self.limits);
        }
        // Wait until the last window is half used up (at the limit: three quarters).
        if stream.fetched > stream.end.saturating_add(stream.window / 4) {
            return None;
        }
        let (from, to) = follows(stream, &self.limits, &self.runs);
        if to <= from {
            return None;
        }
        stream.fetched = to;
        stream.window = (stream.window * 2).min(self.limits.window_bytes_max);
        self.one(from, to - from, FetchInto::Memory)
    }

    /// Starts a stream in the slot that was unused for the longest time.
    fn begin(&mut self, start: u64, end: u64) {
        let streams = self.streams.iter_mut().enumerate();
        if let Some((slot, oldest)) = streams.min_by_key(|(_, s)| s.seen) {
            self.current = Some(slot);
            self.runs.note(None, end - start);
            *oldest = Stream {
                last: start,
                end,
                run_start: start,
                step: 0,
                steady: 0,
                fetched: end,
                window: self.limits.window_bytes_min,
                seen: self.requests,
                follows: false,
            };
        }
    }

    fn one(&self, start: u64, len: u64, into: FetchInto) -> Option<Fetch> {
        let len = len.min(self.object_bytes.saturating_sub(start));
        (len > 0).then_some(Fetch {
            offset_bytes: start,
            len_bytes: len,
            step_bytes: len,
            count: 1,
            into,
        })
    }
}

mod runs;
#[cfg(test)]
mod tests;
