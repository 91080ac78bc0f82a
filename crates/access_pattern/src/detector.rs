//! Detects the pattern of a request from the last requests of its region.
//!
//! The crate's users call this. Offsets are kept in units of a region's 2^32nd part (512 bytes at
//! least), rounded outwards.
//! Invariant: a detector takes at most 3 KiB for an object of any size.

use crate::{Pattern, Threshold};

/// Maximum number of regions in an object.
const REGIONS_MAX: u64 = 16;
/// Minimum size of a region, bytes.
const REGION_BYTES_MIN: u64 = 2 << 30;
/// Number of requests that a region remembers.
const HISTORY: usize = 16;
/// Number of oldest and of newest requests that decide whether a region is read upwards.
const COMPARED: usize = 5;
/// log2 of the smallest unit of offsets, bytes.
const UNIT_LOG2_MIN: u32 = 9;

/// A request, in units from the start of its region.
#[derive(Clone, Copy, Default)]
struct Request {
    start: u32,
    end: u32,
}

#[derive(Clone, Copy, Default)]
struct Region {
    history: [Request; HISTORY],
    /// Requests in the history.
    len: u8,
    /// Slot of the next request: the oldest, once the history is full.
    next: u8,
}

/// Distinguishes patterns; see the crate's head.
#[derive(Clone)]
pub struct Detector {
    regions: [Region; REGIONS_MAX as usize],
    region_bytes: u64,
    regions_used: u64,
    unit_log2: u32,
    near: u32,
}

const _: () = assert!(size_of::<Detector>() <= 3 << 10);

impl Detector {
    /// Makes a detector for an object of `object_bytes`. Requests beyond belong to the last region.
    pub fn new(object_bytes: u64, threshold: Threshold) -> Self {
        let regions_used = (object_bytes / REGION_BYTES_MIN).clamp(1, REGIONS_MAX);
        let region_bytes = object_bytes.div_ceil(regions_used).max(1);
        let bits = u64::BITS - region_bytes.leading_zeros();
        let unit_log2 = bits.saturating_sub(u32::BITS).max(UNIT_LOG2_MIN);
        let near = u32::try_from(threshold.bytes >> unit_log2).unwrap_or(u32::MAX);
        Self {
            regions: [Region::default(); REGIONS_MAX as usize],
            region_bytes,
            regions_used,
            unit_log2,
            near,
        }
    }

    /// Classifies a request and remembers it.
    pub fn observe(&mut self, offset_bytes: u64, len_bytes: u64) -> Pattern {
        let number = self.region_of(offset_bytes);
        let within = offset_bytes - number * self.region_bytes;
        let end = within.saturating_add(len_bytes);
        let units = |bytes: u64| u32::try_from(bytes >> self.unit_log2).unwrap_or(u32::MAX);
        let request = Request {
            start: units(within),
            end: units(end.saturating_add((1 << self.unit_log2) - 1)),
        };
        let near = self.near;
        match self.regions.get_mut(number as usize) {
            Some(region) => region.observe(request, near),
            None => Pattern::default(),
        }
    }

    fn region_of(&self, offset_bytes: u64) -> u64 {
        (offset_bytes / self.region_bytes).min(self.regions_used - 1)
    }
}

impl Region {
    fn observe(&mut self, request: Request, near: u32) -> Pattern {
        let full = usize::from(self.len) == HISTORY;
        let is_near = |past: &Request| {
            request.start >= past.start.saturating_sub(near)
                && request.start <= past.end.saturating_add(near)
        };
        let sequential = !full || self.history.iter().any(is_near);
        self.remember(request);
        match sequential {
            true => Pattern::Sequential,
            false if self.is_upwards() => Pattern::Monotonic,
            false => Pattern::Random,
        }
    }

    fn remember(&mut self, request: Request) {
        if let Some(oldest) = self.history.get_mut(usize::from(self.next)) {
            *oldest = request;
        }
        self.next = (self.next + 1) % HISTORY as u8;
        self.len = (self.len + 1).min(HISTORY as u8);
    }

    /// Returns true if, in a full history, the newest requests lie at or after the oldest.
    fn is_upwards(&self) -> bool {
        let mut in_order = self.history;
        in_order.rotate_left(usize::from(self.next));
        let starts = in_order.map(|request| request.start);
        let (oldest, newest) = (starts.iter().take(COMPARED), starts.iter().rev());
        oldest.max() <= newest.take(COMPARED).min()
    }
}

#[cfg(test)]
mod tests;
