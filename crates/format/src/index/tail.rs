//! Encodes the tail of the index: coverage, container runs, overflow records, in this order. None
//! has a fixed size. The store's index calls this.
//!
//! | record | bytes | fields |
//! |---|---|---|
//! | coverage | 16 | writer 2, zero 6, next sequence number 8; ascending writers |
//! | run | 16 | first container id 8, first number 4, count 4; numbers from 0 without a gap |
//! | overflow | 20 | bucket bits 8, short 4, container number 4, region word 4; ascending |
//!
//! Invariant: the header holds the three counts and the checksum. A `Tail` made from bytes has
//! exactly that length and that order.

use super::{IndexHeader, IndexPlace, IndexRecord, Key, REGION_BITS, Seed};
use crate::bytes::{Fault, FormatError, Reader, Result, Writer, checksum, verify};
use std::collections::BTreeMap;
use units::{ContainerId, WriterId};

const WHAT: &str = "index tail";
const COVERAGE_BYTES: u64 = 16;
const RUN_BYTES: u64 = 16;
const OVERFLOW_BYTES: u64 = 20;

/// Consecutive containers of one writer that have consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContainerRun {
    /// Id of the first of them.
    pub first: ContainerId,
    /// Number of the first of them.
    pub number: u32,
    /// Number of containers.
    pub count: u32,
}

/// A verified (or new) tail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// For each writer: the sequence number below which all its containers are completely indexed.
    pub coverage: BTreeMap<WriterId, u64>,
    /// Container numbers, ascending and dense.
    pub runs: Vec<ContainerRun>,
    /// Entries that found no space in their bucket, ascending.
    pub overflow: Vec<IndexRecord>,
}

impl Tail {
    /// Returns the size of the tail that a header announces, bytes.
    pub fn bytes_announced(header: &IndexHeader) -> u64 {
        u64::from(header.coverage) * COVERAGE_BYTES
            + u64::from(header.runs) * RUN_BYTES
            + u64::from(header.overflow) * OVERFLOW_BYTES
    }

    /// Encodes this tail, and puts counts and checksum into the header. `None` when a count does
    /// not fit 32 bits.
    pub fn encode(&self, header: &mut IndexHeader, seed: Seed) -> Option<Vec<u8>> {
        header.coverage = u32::try_from(self.coverage.len()).ok()?;
        header.runs = u32::try_from(self.runs.len()).ok()?;
        header.overflow = u32::try_from(self.overflow.len()).ok()?;
        let mut w = Writer::new();
        for (writer, next) in &self.coverage {
            w.u16(writer.0).bytes(&[0; 6]).u64(*next);
        }
        for run in &self.runs {
            w.u64(run.first.0).u32(run.number).u32(run.count);
        }
        for IndexRecord { key, place } in &self.overflow {
            w.u64(key.bits)
                .u32(key.short)
                .u32(place.container)
                .u32(place.region);
        }
        header.tail_checksum = checksum(seed.tail(), &w.0);
        Some(w.0)
    }

    /// Verifies and decodes the tail that `header` announces.
    pub fn decode(bytes: &[u8], header: &IndexHeader, seed: Seed) -> Result<Self> {
        if bytes.len() as u64 != Self::bytes_announced(header) {
            return Err(FormatError::new(WHAT, Fault::Truncated));
        }
        verify(WHAT, seed.tail(), bytes, header.tail_checksum)?;
        let mut tail = Self::default();
        let mut r = Reader::new(WHAT, bytes);
        for _ in 0..header.coverage {
            tail.take_coverage(&mut r)?;
        }
        for _ in 0..header.runs {
            tail.take_run(&mut r)?;
        }
        for _ in 0..header.overflow {
            tail.take_overflow(&mut r)?;
        }
        Ok(tail)
    }

    fn take_coverage(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let (writer, zero, next) = (WriterId(r.u16()?), r.array::<6>()?, r.u64()?);
        let ascends = self
            .coverage
            .last_key_value()
            .is_none_or(|(last, _)| *last < writer);
        if !ascends || zero != [0; 6] {
            return r.invalid("coverage");
        }
        self.coverage.insert(writer, next);
        Ok(())
    }

    fn take_run(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let run = ContainerRun {
            first: ContainerId(r.u64()?),
            number: r.u32()?,
            count: r.u32()?,
        };
        let expected = self.runs.last().map_or(0, ContainerRun::end);
        let last = run.first.sequence() + u64::from(run.count);
        let fits = run.end() <= 1 << 32 && last <= ContainerId::SEQUENCE_MAX + 1;
        if run.count == 0 || u64::from(run.number) != expected || !fits {
            return r.invalid("container run");
        }
        self.runs.push(run);
        Ok(())
    }

    fn take_overflow(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let key = Key {
            bits: r.u64()?,
            short: r.u32()?,
        };
        let place = IndexPlace {
            container: r.u32()?,
            region: r.u32()?,
        };
        let record = IndexRecord { key, place };
        let ascends = self.overflow.last().is_none_or(|last| *last < record);
        if !ascends || place.region >> REGION_BITS != 0 {
            return r.invalid("overflow record");
        }
        self.overflow.push(record);
        Ok(())
    }
}

impl ContainerRun {
    /// Returns the number after the last one of this run.
    pub fn end(&self) -> u64 {
        u64::from(self.number) + u64::from(self.count)
    }
}
