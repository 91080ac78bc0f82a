//! Runs the suites on the volumes of `volume`, and on the canaries that must fail them.

use super::{abilities_suite, changes_suite, read_only_volume_suite, volume_suite};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use volume::{
    CallCounts, Capabilities, Change, Changes, Checked, Counted, Durability, Extent, Failure,
    Faulty, Layer, MemoryVolume, Operation, ReadOnly, RequestContext, Slow, TrackChanges, Volume,
    VolumeError, VolumeErrorKind,
};

#[test]
fn memory() {
    volume_suite(&|size| Box::new(MemoryVolume::new(size)));
}

#[test]
fn decorators() {
    volume_suite(&|size| Box::new(Checked::new(MemoryVolume::new(size))));
    let counts = Arc::new(CallCounts::default());
    volume_suite(&|size| Box::new(Counted::new(MemoryVolume::new(size), counts.clone())));
    volume_suite(&|size| Box::new(Faulty::new(MemoryVolume::new(size), Vec::new())));
    volume_suite(&|size| Box::new(Arc::new(MemoryVolume::new(size))));
    volume_suite(&|size| Box::new(Slow::new(MemoryVolume::new(size), |_| ())));
    volume_suite(&|size| Box::new(Slow::new(MemoryVolume::new(size), |_| ()).except(|_| true)));
}

#[test]
fn decorators_keep_abilities() {
    abilities_suite(&|volume| Box::new(Checked::new(volume)), &[]);
    abilities_suite(
        &|volume| Box::new(Counted::new(volume, Arc::default())),
        &[],
    );
    abilities_suite(&|volume| Box::new(Faulty::new(volume, Vec::new())), &[]);
    abilities_suite(&|volume| Box::new(ReadOnly::new(volume)), &[]);
    abilities_suite(&|volume| Box::new(Slow::new(volume, |_| ())), &[]);
    abilities_suite(&|volume| Box::new(Arc::new(volume)), &[]);
    abilities_suite(&|volume| Box::new(Checked::new(Box::new(volume))), &[]);
}

/// Withholds an ability of the volume below.
struct Loser<V>(V);

impl<V: Volume> Layer for Loser<V> {
    type Inner = V;
    fn below(&self) -> &V {
        &self.0
    }
    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            prefetch: None,
            ..below
        }
    }
}

#[test]
fn a_lost_ability_fails() {
    let suite = |withheld: &[&str]| {
        let suite = || abilities_suite(&|volume| Box::new(Loser(volume)), withheld);
        catch_unwind(AssertUnwindSafe(suite)).is_ok()
    };
    assert!(!suite(&[]), "it must not pass");
    assert!(suite(&["prefetch"]), "it says so");
}

#[test]
fn changes() {
    let volume = MemoryVolume::new(1 << 20);
    changes_suite(&volume, &|name| volume.mark(name));
    let memory = MemoryVolume::new((1 << 20) + 17);
    let counted = Counted::new(memory.clone(), Arc::default());
    changes_suite(&counted, &|name| memory.mark(name));
}

/// Reports some of its changes, but not all.
struct Forgetful(MemoryVolume);

struct Unreported(Arc<dyn Changes>);

impl Changes for Unreported {
    fn pieces(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        self.0.pieces(context, at, len, &mut |mut piece| {
            piece.changed &= piece.len_bytes > 4096;
            visit(piece)
        })
    }
}

impl Layer for Forgetful {
    type Inner = MemoryVolume;
    fn below(&self) -> &MemoryVolume {
        &self.0
    }
    fn capabilities<'a>(&'a self, below: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities {
            changes: Some(self),
            ..below
        }
    }
}

impl TrackChanges for Forgetful {
    fn baselines(&self, count_max: usize) -> Vec<String> {
        self.0.baselines(count_max)
    }
    fn changes_since(&self, baseline: &str) -> Option<Arc<dyn Changes>> {
        Some(Arc::new(Unreported(self.0.changes_since(baseline)?)))
    }
}

#[test]
fn an_unreported_change_fails() {
    let memory = MemoryVolume::new(1 << 20);
    let volume = Forgetful(memory.clone());
    let suite = || changes_suite(&volume, &|name| memory.mark(name));
    assert!(catch_unwind(AssertUnwindSafe(suite)).is_err());
}

fn patterned(size: usize) -> (MemoryVolume, Vec<u8>) {
    let volume = MemoryVolume::new(size as u64);
    let mut bytes: Vec<u8> = (0..size).map(|i| (i / 7) as u8).collect();
    bytes[size / 4..size / 2].fill(0);
    let context = RequestContext::default();
    let (before, after) = (&bytes[..size / 4], &bytes[size / 2..]);
    let write = volume.write(context, 0, before, Durability::Volatile);
    write.unwrap();
    let write = volume.write(context, size as u64 / 2, after, Durability::Volatile);
    write.unwrap();
    (volume, bytes)
}

#[test]
fn read_only() {
    for size in [1, 4097, 1 << 20] {
        let (volume, bytes) = patterned(size);
        read_only_volume_suite(Box::new(ReadOnly::new(volume)), &bytes);
    }
}

/// One way to break the contract.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    LosesTheLastByteOfAWrite,
    ForgetsToDiscard,
    ZeroesTooMuch,
    CallsDataZero,
    ExtentsStopShort,
    IgnoresBreak,
    LiesAboutItsSize,
    ReadsOneOff,
}

struct Canary(MemoryVolume, Wrong);

impl Layer for Canary {
    type Inner = MemoryVolume;
    fn below(&self) -> &MemoryVolume {
        &self.0
    }
    /// No call bypasses the faulty methods.
    fn capabilities<'a>(&'a self, _: Capabilities<'a>) -> Capabilities<'a> {
        Capabilities::NONE
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes() + u64::from(self.1 == Wrong::LiesAboutItsSize)
    }
    fn read(&self, context: RequestContext, at: u64, into: &mut [u8]) -> Result<(), VolumeError> {
        let wrong = self.1 == Wrong::ReadsOneOff && at >= 4096;
        self.0.read(context, at - u64::from(wrong), into)
    }
    fn write(
        &self,
        context: RequestContext,
        at: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let lost = usize::from(self.1 == Wrong::LosesTheLastByteOfAWrite);
        let data = &data[..data.len() - lost];
        self.0.write(context, at, data, durability)
    }
    fn discard(&self, context: RequestContext, at: u64, len: u64) -> Result<(), VolumeError> {
        match self.1 {
            Wrong::ForgetsToDiscard => Ok(()),
            _ => self.0.discard(context, at, len),
        }
    }
    fn write_zeroes(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        may_free: bool,
        durability: Durability,
    ) -> Result<(), VolumeError> {
        let more = self.1 == Wrong::ZeroesTooMuch && at + len < self.0.size_bytes();
        let len = len + u64::from(more);
        self.0.write_zeroes(context, at, len, may_free, durability)
    }
    fn extents(
        &self,
        context: RequestContext,
        at: u64,
        len: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        let len = len - u64::from(self.1 == Wrong::ExtentsStopShort && len > 1);
        self.0.extents(context, at, len, &mut |mut piece| {
            piece.zero |= self.1 == Wrong::CallsDataZero;
            match visit(piece) {
                ControlFlow::Break(()) if self.1 == Wrong::IgnoresBreak => visit(piece),
                flow => flow,
            }
        })
    }
}

#[test]
fn canaries_fail() {
    let passes = |wrong| {
        let suite = || volume_suite(&|size| Box::new(Canary(MemoryVolume::new(size), wrong)));
        catch_unwind(AssertUnwindSafe(suite)).is_ok()
    };
    assert!(passes(Wrong::Nothing), "the right one passes");
    // The wrapper protects visitors from a volume that continues after a break.
    assert!(passes(Wrong::IgnoresBreak));
    for wrong in [
        Wrong::LosesTheLastByteOfAWrite,
        Wrong::ForgetsToDiscard,
        Wrong::ZeroesTooMuch,
        Wrong::CallsDataZero,
        Wrong::ExtentsStopShort,
        Wrong::LiesAboutItsSize,
        Wrong::ReadsOneOff,
    ] {
        assert!(!passes(wrong), "{wrong:?} must not pass");
    }
}

#[test]
fn read_only_canaries_fail() {
    let fails = |volume: Box<dyn Volume>, bytes: &[u8]| {
        let suite = AssertUnwindSafe(|| read_only_volume_suite(volume, bytes));
        catch_unwind(suite).is_err()
    };
    let (volume, bytes) = patterned(10_000);
    assert!(fails(Box::new(volume), &bytes), "a writable one");
    let (volume, mut bytes) = patterned(10_000);
    bytes[9_999] ^= 1;
    assert!(
        fails(Box::new(ReadOnly::new(volume)), &bytes),
        "other bytes"
    );
    let (volume, bytes) = patterned(10_000);
    let always = vec![Failure::always(Operation::Extents, VolumeErrorKind::Io)];
    let faulty = ReadOnly::new(Faulty::new(volume, always));
    assert!(fails(Box::new(faulty), &bytes), "failing extents");
}
