//! Checks changes since earlier states against copies of those states.
//!
//! Invariant: a piece that is reported unchanged must hold the bytes of its state; a piece that is
//! reported changed may hold them. No change may stay unreported: an incremental copy would miss
//! it.

use super::model::Seeded;
use std::ops::ControlFlow;
use volume::{Checked, Durability, RequestContext, Volume};

const OPERATIONS: u64 = 300;
const STATES: usize = 6;
/// Grain at which a volume must be able to report that nothing changed, bytes: the largest chunk.
const GRAIN_BYTES: u64 = 64 << 10;

/// Runs every check on a writable volume that keeps its history. `remember` creates an earlier
/// state of the volume's current contents, under the given name.
pub fn changes_suite(volume: &dyn Volume, remember: &dyn Fn(&str)) {
    let context = RequestContext::default();
    let size = volume.size_bytes();
    assert!(size >= 4 * GRAIN_BYTES, "the suite needs some grains");
    let checked = Checked::new(volume);
    let able = volume.capabilities();
    assert!(able.changes_since("never remembered").is_none());
    let mut seeded = Seeded(size);
    let mut model = vec![0; size as usize];
    volume.read(context, 0, &mut model).expect("read of it all");
    let mut states: Vec<(String, Vec<u8>)> = Vec::new();
    for step in 0..OPERATIONS {
        if step % (OPERATIONS / STATES as u64) == 0 {
            let name = format!("state-{}", states.len());
            remember(&name);
            states.push((name.clone(), model.clone()));
            let none = pieces(&checked, &name, 0, size);
            assert!(none.iter().all(|p| !p.2), "step {step}: new state differs");
            let names: Vec<String> = states.iter().rev().map(|s| s.0.clone()).collect();
            let known = able.baselines(usize::MAX);
            let known: Vec<_> = known.iter().filter(|n| names.contains(*n)).collect();
            assert!(known.iter().copied().eq(&names), "newest first: {known:?}");
            assert!(able.baselines(2).len() <= 2);
        }
        let offset = seeded.below(size);
        let longest = [1, 600, 70_000][seeded.below(3) as usize];
        let len = (1 + seeded.below(longest)).min(size - offset);
        let range = offset as usize..(offset + len) as usize;
        let durability = Durability::Volatile;
        let done = match seeded.below(4) {
            0 => {
                model[range].fill(0);
                volume.discard(context, offset, len)
            }
            1 => {
                model[range].fill(0);
                volume.write_zeroes(context, offset, len, step % 2 == 0, durability)
            }
            _ => {
                model[range.clone()].fill(step as u8 | 1);
                volume.write(context, offset, &model[range], durability)
            }
        };
        done.unwrap_or_else(|e| panic!("step {step}: {e}"));
        let (name, state) = &states[seeded.below(states.len() as u64) as usize];
        let from = seeded.below(size);
        for (at, len, changed) in pieces(&checked, name, from, size - from) {
            let range = at as usize..(at + len) as usize;
            let same = model[range.clone()] == state[range];
            assert!(
                changed || same,
                "step {step}: {name} is untold in {at}+{len}"
            );
        }
    }
    one_small_write(&checked, remember);
}

/// One changed byte does not mark everything as changed.
fn one_small_write<V: Volume>(volume: &Checked<V>, remember: &dyn Fn(&str)) {
    let size = volume.size_bytes();
    remember("before one byte");
    let context = RequestContext::default();
    let at = size / 2;
    let written = volume.write(context, at, &[0xee], Durability::Durable);
    written.expect("write of one byte");
    let pieces = pieces(volume, "before one byte", 0, size);
    let reported: u64 = pieces.iter().filter(|p| p.2).map(|p| p.1).sum();
    assert!(
        (1..=GRAIN_BYTES).contains(&reported),
        "one byte is told as {reported}"
    );
}

/// Returns offset, length in bytes, and whether the piece changed.
fn pieces<V: Volume>(volume: &Checked<V>, since: &str, at: u64, len: u64) -> Vec<(u64, u64, bool)> {
    let changes = volume.capabilities().changes_since(since);
    let changes = changes.expect("a remembered state");
    let mut seen = Vec::new();
    let end = at + len;
    let all = volume.changes(&*changes, RequestContext::default(), at, len, &mut |c| {
        let len = c.len_bytes.min(end - c.offset_bytes);
        seen.push((c.offset_bytes, len, c.changed));
        ControlFlow::Continue(())
    });
    all.expect("changes");
    seen
}
