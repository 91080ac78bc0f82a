use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Size of a chunk here, bytes; each chunk is a region of its own.
const CHUNK: u64 = 16 * KIB;

/// Adds `bytes` of the object, at `from` and after in a container.
fn piece(spots: &mut Vec<Spot>, bytes: u64, container: u64, mut from: u64) {
    let mut offset = spots.last().map_or(0, |spot| spot.offset + spot.len);
    for _ in 0..bytes / CHUNK {
        let to = from + CHUNK;
        spots.push(Spot {
            offset,
            len: CHUNK,
            container,
            from,
            to,
        });
        (offset, from) = (to - from + offset, to);
    }
}

fn all(spots: &[Spot]) -> Range<u64> {
    0..spots.last().map_or(0, |spot| spot.offset + spot.len)
}

#[test]
fn what_lies_in_order_stays_also_over_the_ends_of_containers() {
    let mut spots = Vec::new();
    piece(&mut spots, 3 * MIB, 1, 0);
    piece(&mut spots, 4 * MIB, 2, 0);
    piece(&mut spots, MIB, 3, 0);
    assert_eq!(sparse(&spots, &all(&spots)), Sparse::default());
    assert_eq!(sparse(&[], &(0..0)), Sparse::default());
}

#[test]
fn one_short_run_stays_and_two_are_put_together() {
    let mut spots = Vec::new();
    piece(&mut spots, 3 * MIB, 1, 0);
    piece(&mut spots, 64 * KIB, 7, 0);
    piece(&mut spots, 3 * MIB, 1, 3 * MIB);
    // Nothing would be saved: before and after, it is one place.
    assert_eq!(sparse(&spots, &all(&spots)), Sparse::default());
    piece(&mut spots, 32 * KIB, 8, 0);
    piece(&mut spots, 2 * MIB, 1, 6 * MIB);
    let found = sparse(&spots, &all(&spots));
    let first = 3 * MIB..3 * MIB + 64 * KIB;
    let second = 6 * MIB + 64 * KIB..6 * MIB + 96 * KIB;
    assert_eq!((found.runs, found.parts), (2, vec![first, second]));
}

#[test]
fn pieces_of_one_run_count_as_one_wherever_they_are_needed() {
    let mut spots = Vec::new();
    for n in 0..4 {
        piece(&mut spots, MIB, 1, n * MIB);
        // The gap between them is read through.
        piece(&mut spots, 64 * KIB, 7, n * 128 * KIB);
    }
    assert_eq!(sparse(&spots, &all(&spots)), Sparse::default());
    piece(&mut spots, 64 * KIB, 7, 2 * MIB);
    let found = sparse(&spots, &all(&spots));
    assert_eq!((found.runs, found.parts.len()), (2, 4), "{found:?}");
    assert_eq!(
        found.parts.last().map(|p| p.end),
        spots.last().map(|s| s.offset + s.len)
    );
}

#[test]
fn a_seek_is_not_worth_more_bytes_than_its_price() {
    let of = |bytes| {
        let mut spots = Vec::new();
        piece(&mut spots, bytes, 1, 0);
        piece(&mut spots, bytes, 2, 0);
        sparse(&spots, &all(&spots)).runs
    };
    // Half a seek must remain as gain.
    assert_eq!(of(SPARSE_BYTES / 4 - 4 * CHUNK), 2);
    assert_eq!(of(SPARSE_BYTES / 4 + 4 * CHUNK), 0);
}

#[test]
fn runs_that_go_on_beyond_the_segment_are_seen_as_long_as_they_are() {
    let mut spots = Vec::new();
    piece(&mut spots, 4 * MIB, 1, 0);
    piece(&mut spots, 64 * KIB, 7, 0);
    piece(&mut spots, 4 * MIB, 2, 0);
    // Each end of the run is short inside the segment, and long outside.
    let segment = 4 * MIB - 64 * KIB..4 * MIB + 128 * KIB;
    assert_eq!(sparse(&spots, &segment), Sparse::default());
    // Without the parts outside they would be moved.
    let cut: Vec<_> = spots
        .iter()
        .filter(|s| segment.contains(&s.offset))
        .copied()
        .collect();
    assert_eq!(sparse(&cut, &segment).runs, 3);
}
