//! Collects PDUs for the initiator until they are sent. Sessions and workers own one each.
//!
//! Invariant: data is read straight into its PDU. Sequence numbers and header digests are missing
//! until the sender adds them, because only it knows the order of PDUs.

use crate::wire::digest::{DIGEST_BYTES, digest};
use crate::wire::pdu::{HEADER_BYTES, PduHeader, padding};
use connections::Output;

/// How PDUs are laid out on one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Format {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
}

/// Use of the status sequence number by a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The field is reserved.
    None,
    /// The field has the next number, which is not used up.
    Shows,
    /// The PDU uses up a number.
    Takes,
}

/// A PDU in the output.
pub(crate) struct Start {
    at: usize,
    numbering: Numbering,
}

/// PDUs that were not sent yet.
pub(crate) struct Replies {
    output: Output,
    starts: Vec<Start>,
    pub(crate) format: Format,
}

/// A point to return to.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize, usize);

impl Replies {
    /// Makes empty replies that keep up to `kept_bytes` of memory after they are sent.
    pub(crate) fn new(kept_bytes: usize, format: Format) -> Self {
        Self {
            output: Output::new(kept_bytes),
            starts: Vec::new(),
            format,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.output.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.output.len(), self.starts.len())
    }

    /// Drops all PDUs after the mark.
    pub(crate) fn return_to(&mut self, Mark(bytes, starts): Mark) {
        self.output.truncate(bytes);
        self.starts.truncate(starts);
    }

    /// Appends a PDU.
    pub(crate) fn push(&mut self, header: PduHeader, numbering: Numbering, data: &[u8]) {
        let filled = self.push_with(header, numbering, data.len(), |into| {
            into.copy_from_slice(data);
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = filled;
    }

    /// Appends a PDU whose data `fill` provides. After an error the caller returns to a mark.
    pub(crate) fn push_with<E>(
        &mut self,
        header: PduHeader,
        numbering: Numbering,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = self.output.len();
        self.starts.push(Start { at, numbering });
        self.output.push(&header.with_data_bytes(len).0);
        if self.format.header_digest {
            self.output.push(&[0; DIGEST_BYTES]);
        }
        if len == 0 {
            return Ok(());
        }
        let data_at = self.output.len();
        fill(self.output.reserve(len))?;
        let zeroes = [0; 3];
        let padding = zeroes.get(..padding(len)).unwrap_or_default();
        self.output.push(padding);
        if self.format.data_digest {
            let data = self.output.as_bytes().get(data_at..).unwrap_or_default();
            let digest = digest(data);
            self.output.push(&digest);
        }
        Ok(())
    }

    /// Completes every PDU, and returns the bytes to send. `number` returns the status sequence
    /// number for a PDU, and the bounds of command numbers.
    pub(crate) fn complete(
        &mut self,
        mut number: impl FnMut(Numbering) -> (u32, u32, u32),
    ) -> &[u8] {
        for start in self.starts.drain(..) {
            let Some(header) = self.output.part_mut(start.at, HEADER_BYTES) else {
                continue;
            };
            let (status, expected, most) = number(start.numbering);
            let numbers = [
                status.to_be_bytes(),
                expected.to_be_bytes(),
                most.to_be_bytes(),
            ];
            let fields = header.iter_mut().skip(24);
            let is_none = start.numbering == Numbering::None;
            for (at, (field, byte)) in fields.zip(numbers.as_flattened()).enumerate() {
                if !(is_none && at < 4) {
                    *field = *byte;
                }
            }
            if self.format.header_digest {
                let digest = digest(header);
                let place = self.output.part_mut(start.at + HEADER_BYTES, DIGEST_BYTES);
                if let Some(place) = place {
                    place.copy_from_slice(&digest);
                }
            }
        }
        self.output.as_bytes()
    }

    /// Drops everything, and frees memory after an unusually large reply.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.output.clear();
    }
}
