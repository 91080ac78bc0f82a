//! Tests that [`Checked`] refuses bad requests before the volume behind sees them.

use super::{Checked, ContractBroken};
use crate::{
    CallCounts, Capabilities, Counted, Durability, Extent, MemoryVolume, Prefetch, ReadOnly,
    RequestContext, Volume, VolumeError, VolumeErrorKind, VolumeInfo,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const CONTEXT: RequestContext = RequestContext::CLIENT;

fn kind(result: Result<(), VolumeError>) -> Option<VolumeErrorKind> {
    result.err().map(|e| e.kind)
}

#[test]
fn requests_past_the_end_never_reach_the_volume() {
    let counts = Arc::new(CallCounts::default());
    let volume = Checked::new(Counted::new(MemoryVolume::new(1000), counts.clone()));
    let out = Some(VolumeErrorKind::OutOfRange);
    for (offset, len) in [(999_u64, 2_usize), (1001, 0), (u64::MAX, 1), (u64::MAX, 0)] {
        assert_eq!(kind(volume.read(CONTEXT, offset, &mut vec![0; len])), out);
        let data = vec![0; len];
        assert_eq!(
            kind(volume.write(CONTEXT, offset, &data, Durability::Volatile)),
            out
        );
        assert_eq!(kind(volume.discard(CONTEXT, offset, len as u64)), out);
        let all = &mut |_| ControlFlow::Continue(());
        assert_eq!(kind(volume.extents(CONTEXT, offset, len as u64, all)), out);
    }
    assert_eq!(counts.reads.load(Relaxed), 0);
    assert_eq!(counts.writes.load(Relaxed), 0);
    assert_eq!(counts.discards.load(Relaxed), 0);
    assert_eq!(counts.extents.load(Relaxed), 0);
}

#[test]
fn empty_requests_never_reach_the_volume() {
    let counts = Arc::new(CallCounts::default());
    let volume = Checked::new(Counted::new(MemoryVolume::new(1000), counts.clone()));
    volume.read(CONTEXT, 1000, &mut []).unwrap();
    volume
        .write(CONTEXT, 1000, &[], Durability::Durable)
        .unwrap();
    volume.discard(CONTEXT, 0, 0).unwrap();
    volume
        .write_zeroes(CONTEXT, 0, 0, true, Durability::Volatile)
        .unwrap();
    assert_eq!(counts.total(), 0);
    let liar = Checked::new(Counted::new(Liar(Vec::new()), counts.clone()));
    liar.capabilities().prefetch(CONTEXT, 0, 0);
    liar.capabilities().prefetch(CONTEXT, 999, 2);
    assert_eq!(counts.total(), 0);
    liar.capabilities().prefetch(CONTEXT, 999, 1);
    assert_eq!(counts.prefetches.load(Relaxed), 1);
}

#[test]
fn a_read_only_volume_never_sees_a_write() {
    let counts = Arc::new(CallCounts::default());
    let inner = Counted::new(ReadOnly::new(MemoryVolume::new(1000)), counts.clone());
    let volume = Checked::new(inner);
    let refused = Some(VolumeErrorKind::ReadOnly);
    assert_eq!(
        kind(volume.write(CONTEXT, 0, &[1], Durability::Volatile)),
        refused
    );
    assert_eq!(kind(volume.discard(CONTEXT, 0, 1)), refused);
    let zeroes = volume.write_zeroes(CONTEXT, 0, 1, true, Durability::Volatile);
    assert_eq!(kind(zeroes), refused);
    assert_eq!(kind(volume.flush(CONTEXT)), None);
    assert_eq!(counts.total(), 0);
}

/// Answers every request for extents with a prepared list.
struct Liar(Vec<Extent>);

impl Volume for Liar {
    fn info(&self) -> VolumeInfo {
        MemoryVolume::new(1000).info()
    }
    fn size_bytes(&self) -> u64 {
        1000
    }
    fn read(&self, _: RequestContext, _: u64, _: &mut [u8]) -> Result<(), VolumeError> {
        Ok(())
    }
    fn write(&self, _: RequestContext, _: u64, _: &[u8], _: Durability) -> Result<(), VolumeError> {
        Ok(())
    }
    fn flush(&self, _: RequestContext) -> Result<(), VolumeError> {
        Ok(())
    }
    fn discard(&self, _: RequestContext, _: u64, _: u64) -> Result<(), VolumeError> {
        Ok(())
    }
    fn write_zeroes(
        &self,
        _: RequestContext,
        _: u64,
        _: u64,
        _: bool,
        _: Durability,
    ) -> Result<(), VolumeError> {
        Ok(())
    }
    fn extents(
        &self,
        _: RequestContext,
        _: u64,
        _: u64,
        visit: &mut dyn FnMut(Extent) -> ControlFlow<()>,
    ) -> Result<(), VolumeError> {
        for extent in &self.0 {
            if visit(*extent).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            prefetch: Some(self),
            ..Capabilities::NONE
        }
    }
}

impl Prefetch for Liar {
    fn prefetch(&self, _: RequestContext, _: u64, _: u64) {}
    fn announce(&self, _: RequestContext, _: u64, _: u64) -> bool {
        true
    }
}

fn piece(offset_bytes: u64, len_bytes: u64) -> Extent {
    Extent {
        offset_bytes,
        len_bytes,
        hole: false,
        zero: false,
    }
}

fn complaint(pieces: Vec<Extent>) -> Option<ContractBroken> {
    let volume = Checked::new(Liar(pieces));
    let all = &mut |_| ControlFlow::Continue(());
    let error = volume.extents(CONTEXT, 100, 200, all).err()?;
    assert_eq!(error.kind, VolumeErrorKind::Io);
    error.source?.downcast_ref::<ContractBroken>().copied()
}

#[test]
fn wrong_extents_are_an_error() {
    assert_eq!(complaint(vec![piece(100, 200)]), None);
    assert_eq!(complaint(vec![piece(100, 900)]), None);
    assert_eq!(complaint(vec![piece(100, 200), piece(0, 0)]), None);
    let short = complaint(vec![piece(100, 199)]);
    assert!(matches!(short, Some(ContractBroken::Short { .. })));
    let gap = complaint(vec![piece(100, 100), piece(201, 99)]);
    assert!(matches!(gap, Some(ContractBroken::Gap { .. })));
    let early = complaint(vec![piece(0, 300)]);
    assert!(matches!(early, Some(ContractBroken::Gap { .. })));
    let empty = complaint(vec![piece(100, 0), piece(100, 200)]);
    assert!(matches!(empty, Some(ContractBroken::Length { .. })));
    let long = complaint(vec![piece(100, 901)]);
    assert!(matches!(long, Some(ContractBroken::Length { .. })));
    let hole = Extent {
        hole: true,
        ..piece(100, 200)
    };
    assert_eq!(
        complaint(vec![hole]),
        Some(ContractBroken::HoleNotZero { offset_bytes: 100 })
    );
}

#[test]
fn a_visitor_may_stop_early() {
    let volume = Checked::new(Liar(vec![piece(100, 10), piece(110, 190)]));
    let mut seen = 0;
    volume
        .extents(CONTEXT, 100, 200, &mut |_| {
            seen += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}
