//! Describes how a command that a unit has admitted is carried out, and how it ends. Units make
//! these, sessions and workers act on them.
//!
//! Invariant: an action refers to blocks inside the unit, and within the limits of its size.

use super::cdb::Compare;
use super::sense::Sense;
use connections::Lane;
use std::ops::Range;
use units::IoClass;
use volume::RequestContext;

/// Reason why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// CHECK CONDITION with this sense.
    Sense(Sense),
    /// RESERVATION CONFLICT.
    Conflict,
    /// TASK ABORTED.
    Aborted,
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Self {
        Self::Sense(sense)
    }
}

/// How a command is carried out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing is left to do.
    Good,
    /// Send this parameter data.
    Data(Vec<u8>),
    /// Send bytes of the volume.
    Read(Span),
    /// Run a job. It may wait, and may need data first.
    Job(Job),
}

/// Bytes of the volume, and the class of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) offset_bytes: u64,
    pub(crate) len_bytes: u64,
    pub(crate) context: RequestContext,
}

impl Span {
    /// Returns the range of bytes. Admitted spans lie in the unit.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes.saturating_add(self.len_bytes)
    }
}

impl PartialEq for Span {
    fn eq(&self, other: &Self) -> bool {
        let of = |span: &Self| (span.offset_bytes, span.len_bytes, span.context.class);
        of(self) == of(other)
    }
}

impl Eq for Span {}

/// Work of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Length of the data that it needs, bytes.
    pub(crate) data_bytes: u64,
}

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Store the data, then compare it with what can be read.
    Write {
        span: Span,
        fua: bool,
        verify: Option<Compare>,
    },
    OrWrite {
        span: Span,
        fua: bool,
    },
    CompareAndWrite {
        span: Span,
        fua: bool,
    },
    Verify {
        span: Span,
        compare: Compare,
    },
    WriteSame {
        span: Span,
        unmap: bool,
        no_data: bool,
    },
    Unmap {
        class: IoClass,
    },
    Flush {
        class: IoClass,
    },
    LbaStatus {
        lba: u64,
        allocation: u64,
    },
    ModeSelect {
        long: bool,
    },
    PersistentOut {
        action: u8,
        scope: u8,
        kind: u8,
    },
}

impl Work {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Verify { .. } | Self::LbaStatus { .. } => Lane::Reads,
            Self::Flush { .. } => Lane::Flushes,
            _ => Lane::Changes,
        }
    }

    /// Returns true if less data than the command describes still makes sense: whole blocks are
    /// written as far as they go.
    pub(crate) fn takes_less(&self) -> bool {
        matches!(self, Self::Write { .. })
    }

    /// Returns true if the initiator must send exactly the data that the command describes.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(
            self,
            Self::CompareAndWrite { .. } | Self::WriteSame { .. } | Self::OrWrite { .. }
        )
    }
}
