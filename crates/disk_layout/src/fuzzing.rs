//! Provides the entry point for fuzzers: bytes make a volume and writes to it. The fuzz target and
//! the seeded tests call it.
//!
//! Invariant: whatever the bytes, nothing panics, attaching ends, each step ends with its budget,
//! and memory stays near its own.

use super::budget::Budget;
use super::hostile::{Dice, KINDS, Sparse, log_descriptor};
use super::source::{Unreadable, VolumeSource};
use super::volume::{Counters, Layout, Options, Progress};
use std::cell::RefCell;

/// Size of the volume, bytes.
pub const VOLUME_BYTES: usize = 4 << 20;
/// Bytes of a unit of the encoding.
const UNIT_BYTES: usize = 64;
/// The unit that separates the volume from the writes.
const WRITES: u16 = u16::MAX;
const STEPS_MAX: u32 = 200_000;
/// Work by which a step may exceed its budget: a pass through all that is known, and the longest
/// read.
const WORK_OVER_MAX: u64 = 1 << 17;

struct Volume(RefCell<Vec<u8>>);

impl Volume {
    fn write(&self, at: usize, bytes: &[u8]) {
        let mut volume = self.0.borrow_mut();
        for (to, from) in volume.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
}

impl VolumeSource for Volume {
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
    assert_memory(&layout.counters());
    let mut at = 0;
    while at < VOLUME_BYTES as u64 {
        let piece = layout.at(at);
        assert!(piece.len_bytes > 0, "lookups go on");
        at = at.saturating_add(piece.len_bytes);
    }
}

fn assert_memory(counters: &Counters) {
    let most = counters.memory_bytes_max / 4 * 5;
    assert!(
        counters.memory_bytes <= most,
        "{counters:?}: more memory than there is"
    );
}

/// A layout, and the disk that it is read from.
pub struct Attack {
    /// The disk.
    pub disk: Sparse,
    /// Its layout.
    pub layout: Layout,
    /// Most work of one step.
    pub work_max: u64,
}

impl Attack {
    /// Builds disk number `kind` of [`KINDS`], and a layout of it.
    pub fn new(kind: usize, dice: &mut Dice, memory_bytes_max: u64) -> Self {
        let build = KINDS.get(kind % KINDS.len()).map(|(_, build)| build);
        let disk = build.map(|build| build(dice)).unwrap_or_default();
        let layout = Layout::new(disk.size_bytes, Options { memory_bytes_max });
        Self {
            disk,
            layout,
            work_max: 0,
        }
    }

    /// Steps until everything that will be known is. Each step keeps its budget.
    pub fn settle(&mut self) {
        let started = self.layout.counters().reads;
        loop {
            let before = self.layout.counters();
            let mut budget = Budget::of_reads(8);
            let progress = self.layout.step_within(&self.disk, &mut budget);
            let after = self.layout.counters();
            let work = after.work - before.work;
            self.work_max = self.work_max.max(work);
            let most = Budget::of_reads(8).work + WORK_OVER_MAX;
            assert!(work <= most, "{work} units of work in a step");
            assert!(after.reads - before.reads <= 144 + 8, "{after:?}");
            assert_memory(&after);
            // Parts of a disk that cost more are given up.
            let reads = after.reads - started;
            assert!(reads < 40_000_000, "{reads} reads");
            if progress == Progress::Idle {
                return;
            }
        }
    }

    /// Writes to the disk: bytes of it again, journals, zeroes, long discards.
    pub fn disturb(&mut self, dice: &mut Dice) {
        let pages = self.disk.pages();
        let page = |dice: &mut Dice| {
            let n = dice.below(pages.len() as u64) as usize;
            pages.get(n).copied().unwrap_or_default()
        };
        let at = page(dice);
        match dice.below(4) {
            0 => self
                .layout
                .changed(at, dice.of(&[4096, 1 << 20, 1 << 26, 1 << 32])),
            1 => {
                // Journal blocks without an end.
                for n in 0..200 {
                    let bytes = log_descriptor(1000 + n, dice.below(40_000));
                    let at = (1001 + n % 3000) * 4096;
                    self.disk.put(at, &bytes);
                    self.layout.wrote(at, &bytes);
                }
            }
            2 => {
                let mut bytes = vec![0; 4096];
                let _ = self.disk.read(page(dice), &mut bytes);
                self.disk.put(at, &bytes);
                self.layout.wrote(at, &bytes);
            }
            _ => {
                let mut bytes = vec![0; 4096];
                let _ = self.disk.read(at, &mut bytes);
                for _ in 0..dice.below(8) {
                    let place = dice.below(512) as usize;
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte = dice.of(&[0, 1, 0x7f, 0xff]) as u8;
                    }
                }
                self.disk.put(at, &bytes);
                self.layout.wrote(at, &bytes);
            }
        }
        let _ = self.layout.interest(at, 1 << 30, None);
    }

    /// Looks up every piece, as far as there are not too many.
    pub fn look_up(&self) {
        let mut at = 0;
        for _ in 0..10_000 {
            if at >= self.disk.size_bytes {
                return;
            }
            let piece = self.layout.at(at);
            assert!(piece.len_bytes > 0, "lookups go on");
            at = at.saturating_add(piece.len_bytes);
        }
    }
}

/// Attaches the disk that `data` decides, writes to it, and looks everything up.
pub fn fuzz_hostile(data: &[u8]) {
    let sum = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut dice = Dice::new(sum);
    let kind = dice.below(KINDS.len() as u64) as usize;
    let memory = dice.of(&[64 << 10, 256 << 10, 1 << 20]);
    let mut attack = Attack::new(kind, &mut dice, memory);
    attack.settle();
    for _ in 0..4 {
        attack.disturb(&mut dice);
        attack.settle();
    }
    attack.look_up();
}
