//! Tests holes, growth, and changes since a mark.

use super::*;

const CONTEXT: RequestContext = RequestContext::CLIENT;

#[test]
fn memory_grows_with_what_was_written() {
    let volume = MemoryVolume::new(1 << 50);
    assert_eq!(volume.allocated_bytes(), 0);
    let write = volume.write(CONTEXT, (1 << 49) - 1, &[7, 7], Durability::Volatile);
    write.unwrap();
    assert_eq!(volume.allocated_bytes(), 2 * PAGE_BYTES as u64);
    volume.discard(CONTEXT, (1 << 49) - 4096, 8192).unwrap();
    assert_eq!(volume.allocated_bytes(), 0);
}

#[test]
fn extents_tell_holes_from_data() {
    let volume = MemoryVolume::new(1 << 20);
    let data = [1; 5000];
    let write = volume.write(CONTEXT, 8192, &data, Durability::Volatile);
    write.unwrap();
    let mut seen = Vec::new();
    volume
        .extents(CONTEXT, 100, 30_000, &mut |e| {
            seen.push((e.offset_bytes, e.len_bytes, e.hole));
            ControlFlow::Continue(())
        })
        .unwrap();
    let expected = [(100, 8092, true), (8192, 8192, false), (16384, 13716, true)];
    assert_eq!(seen, expected);
}

fn changed(volume: &MemoryVolume, since: &str, offset: u64, len: u64) -> Vec<(u64, u64, bool)> {
    let changes = volume.changes_since(since).expect("a mark");
    let mut seen = Vec::new();
    let checked = crate::Checked::new(volume.clone());
    checked
        .changes(&*changes, CONTEXT, offset, len, &mut |c| {
            seen.push((c.offset_bytes, c.len_bytes, c.changed));
            ControlFlow::Continue(())
        })
        .unwrap();
    seen
}

#[test]
fn changes_are_known_for_each_mark() {
    let volume = MemoryVolume::new(1 << 20);
    let write = |at| {
        volume
            .write(CONTEXT, at, &[1; 10], Durability::Volatile)
            .unwrap();
    };
    assert!(volume.changes_since("first").is_none());
    write(0);
    volume.mark("first");
    assert_eq!(changed(&volume, "first", 0, 1 << 20), [(0, 1 << 20, false)]);
    write(8192);
    volume.mark("second");
    volume.discard(CONTEXT, 0, 4096).unwrap();
    // Discarding a hole again is no change.
    volume.discard(CONTEXT, 65_536, 4096).unwrap();
    let first = [(0, 4096, true), (4096, 4096, false), (8192, 4096, true)];
    assert_eq!(changed(&volume, "first", 0, 12_288), first);
    let second = [(100, 3996, true), (4096, 8000, false)];
    assert_eq!(changed(&volume, "second", 100, 11_996), second);
    assert_eq!(volume.baselines(9), ["second", "first"]);
    assert_eq!(volume.baselines(1), ["second"]);
    volume.mark("first");
    assert_eq!(volume.baselines(9), ["first", "second"]);
}

#[test]
fn what_was_added_at_the_end_is_changed() {
    let volume = MemoryVolume::new(8192);
    volume
        .write(CONTEXT, 0, &[7; 8192], Durability::Volatile)
        .unwrap();
    volume.mark("short");
    volume.resize(1 << 20);
    let added = (1 << 20) - 8192;
    let expected = [(0, 8192, false), (8192, added, true)];
    assert_eq!(changed(&volume, "short", 0, 1 << 20), expected);
    volume.resize(4096);
    volume.resize(8192);
    let expected = [(0, 4096, false), (4096, 4096, true)];
    assert_eq!(changed(&volume, "short", 0, 8192), expected);
    let mut bytes = [1; 8192];
    volume.read(CONTEXT, 0, &mut bytes).unwrap();
    assert!(bytes[..4096] == [7; 4096] && bytes[4096..] == [0; 4096]);
}
