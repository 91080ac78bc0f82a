//! Checks pieces that cover a range, one by one on their way to the visitor. [`super::Checked`]
//! uses this for extents and changes.
//!
//! Invariant: a visitor sees pieces that are in order, without gaps and inside the volume, and none
//! after it said stop.

use crate::{VolumeError, VolumeErrorKind};
use std::ops::ControlFlow;

/// The source of the `Io` error for a wrong implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContractBroken {
    /// A piece did not start where the one before ended.
    #[error("extent at {found_bytes}, expected at {expected_bytes}")]
    Gap {
        /// Where it should have started, bytes.
        expected_bytes: u64,
        /// Where it started, bytes.
        found_bytes: u64,
    },
    /// A piece is empty, or its end is past the end of the volume.
    #[error("extent at {offset_bytes} has a wrong length {len_bytes}")]
    Length {
        /// Where the piece starts, bytes.
        offset_bytes: u64,
        /// Its length, bytes.
        len_bytes: u64,
    },
    /// A hole that does not read as zeroes.
    #[error("hole at {offset_bytes} does not read as zeroes")]
    HoleNotZero {
        /// Where the piece starts, bytes.
        offset_bytes: u64,
    },
    /// The pieces ended before the range did, though the visitor wanted more.
    #[error("extents end at {found_bytes}, expected {expected_bytes}")]
    Short {
        /// Where the range ends, bytes.
        expected_bytes: u64,
        /// Where the pieces ended, bytes.
        found_bytes: u64,
    },
}

/// Pieces that must cover a range: in order, without gaps, inside the volume.
pub(super) struct Cover {
    /// Required start of the next piece, bytes.
    reached: u64,
    range_end: u64,
    size_bytes: u64,
    /// The visitor wants no more, or the implementation is wrong.
    stopped: bool,
    broken: Option<ContractBroken>,
}

impl Cover {
    pub(super) fn new(offset_bytes: u64, len_bytes: u64, size_bytes: u64) -> Self {
        Self {
            reached: offset_bytes,
            range_end: offset_bytes + len_bytes,
            size_bytes,
            stopped: false,
            broken: None,
        }
    }

    /// Takes the next piece and shows it to `visit` if it is correct and still wanted.
    pub(super) fn piece(
        &mut self,
        offset_bytes: u64,
        len_bytes: u64,
        hole_not_zero: bool,
        visit: impl FnOnce() -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.stopped || self.reached >= self.range_end {
            // A piece after the last one is harmless: the visitor does not see it.
            return ControlFlow::Break(());
        }
        let end = offset_bytes.checked_add(len_bytes);
        let wrong = if offset_bytes != self.reached {
            Some(ContractBroken::Gap {
                expected_bytes: self.reached,
                found_bytes: offset_bytes,
            })
        } else if hole_not_zero {
            Some(ContractBroken::HoleNotZero { offset_bytes })
        } else if len_bytes == 0 || end.is_none_or(|end| end > self.size_bytes) {
            Some(ContractBroken::Length {
                offset_bytes,
                len_bytes,
            })
        } else {
            None
        };
        if wrong.is_some() {
            self.broken = wrong;
            self.stopped = true;
            return ControlFlow::Break(());
        }
        self.reached = end.unwrap_or(self.range_end);
        let flow = visit();
        self.stopped = flow.is_break();
        flow
    }

    /// Checks that the pieces covered the whole range.
    pub(super) fn end(self) -> Result<(), VolumeError> {
        let short = !self.stopped && self.reached < self.range_end;
        let broken = match short {
            true => Some(ContractBroken::Short {
                expected_bytes: self.range_end,
                found_bytes: self.reached,
            }),
            false => self.broken,
        };
        match broken {
            Some(what) => Err(VolumeError::new(VolumeErrorKind::Io, what)),
            None => Ok(()),
        }
    }
}
