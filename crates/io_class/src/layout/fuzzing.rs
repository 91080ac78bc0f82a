//! Provides the entry point for fuzzers: bytes make a volume and writes to it. The fuzz target and
//! the seeded tests call it.
//!
//! Invariant: whatever the bytes, nothing panics, attaching ends, and memory stays near its budget.

use super::source::{Source, Unreadable};
use super::volume::{Layout, Options, Progress};
use std::cell::RefCell;

/// Size of the volume, bytes.
pub const VOLUME_BYTES: usize = 4 << 20;
/// Bytes of a unit of the encoding.
const UNIT_BYTES: usize = 64;
/// The unit that separates the volume from the writes.
const WRITES: u16 = u16::MAX;
const STEPS_MAX: u32 = 200_000;

struct Volume(RefCell<Vec<u8>>);

impl Volume {
    fn write(&self, at: usize, bytes: &[u8]) {
        let mut volume = self.0.borrow_mut();
        for (to, from) in volume.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
}

impl Source for Volume {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Unreadable> {
        self.0.borrow().as_slice().read(offset_bytes, bytes)
    }
}

/// Encodes a volume: its units that are not zero.
pub fn encode(volume: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let units: Vec<&[u8]> = volume.chunks_exact(UNIT_BYTES).collect();
    let mut at = 0;
    while let Some(rest) = units.get(at..).filter(|rest| !rest.is_empty()) {
        let used = |unit: &&&[u8]| unit.iter().any(|byte| *byte != 0);
        let run: Vec<&&[u8]> = rest.iter().take(255).take_while(used).collect();
        if !run.is_empty() {
            out.extend((at as u16).to_le_bytes());
            out.push(run.len() as u8);
            run.iter().for_each(|unit| out.extend(**unit));
        }
        at += run.len().max(1);
    }
    out
}

fn record<'a>(data: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let (head, rest) = data.split_first_chunk::<3>()?;
    let [low, high, units] = *head;
    let len = (usize::from(units) * UNIT_BYTES).min(rest.len());
    let (bytes, rest) = rest.split_at_checked(len)?;
    *data = rest;
    Some((u16::from_le_bytes([low, high]), bytes))
}

fn settle(layout: &mut Layout, volume: &Volume) {
    for _ in 0..STEPS_MAX {
        if layout.step(volume, 8) == Progress::Idle {
            return;
        }
    }
    panic!("more steps than the volume has bytes to read");
}

/// Attaches the volume that `data` encodes, applies its writes, and looks everything up.
pub fn fuzz_volume(mut data: &[u8]) {
    let volume = Volume(RefCell::new(vec![0; VOLUME_BYTES]));
    while let Some((unit, bytes)) = record(&mut data) {
        if unit == WRITES {
            break;
        }
        volume.write(usize::from(unit) * UNIT_BYTES, bytes);
    }
    let memory_bytes_max = 256 << 10;
    let mut layout = Layout::new(VOLUME_BYTES as u64, Options { memory_bytes_max });
    settle(&mut layout, &volume);
    while let Some((unit, bytes)) = record(&mut data) {
        let at = usize::from(unit) * UNIT_BYTES;
        volume.write(at, bytes);
        layout.wrote(at as u64, bytes);
        if unit % 3 == 0 {
            settle(&mut layout, &volume);
        }
    }
    layout.changed(0, u64::MAX);
    settle(&mut layout, &volume);
    assert!(layout.counters().memory_bytes < 2 * memory_bytes_max);
    let mut at = 0;
    while at < VOLUME_BYTES as u64 {
        let piece = layout.at(at);
        assert!(piece.len_bytes > 0, "lookups go on");
        at = at.saturating_add(piece.len_bytes);
    }
}
