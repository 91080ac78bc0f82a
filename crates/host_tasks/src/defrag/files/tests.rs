use super::*;

const KIB: u64 = 1 << 10;

fn shape(ranges: &[Range<u64>]) -> Vec<(u64, usize, u64)> {
    let units = units(ranges.to_vec());
    let units = units.iter();
    units
        .map(|(first, unit)| (*first, unit.ranges.len(), unit.bytes))
        .collect()
}

#[test]
fn a_unit_has_at_most_what_shares_a_donor() {
    let window = 128 * KIB;
    let apart: Vec<_> = (0..65)
        .map(|n| n * 2 * window..n * 2 * window + window)
        .collect();
    let expected = [
        (0, 64, 64 * window),
        (64 * 2 * window / PAGE_BYTES, 1, window),
    ];
    assert_eq!(shape(&apart), expected);
    // Adjacent ranges are one, and a long one is divided.
    let adjacent = [0..window, window..2 * window];
    assert_eq!(shape(&adjacent), [(0, 1, 2 * window)]);
    let end = window + 2 * STEP_BYTES + 1;
    let long = shape(std::slice::from_ref(&(window..end)));
    let firsts: Vec<_> = long
        .iter()
        .map(|(first, ..)| first * PAGE_BYTES - window)
        .collect();
    assert_eq!(firsts, [0, STEP_BYTES, 2 * STEP_BYTES]);
    assert_eq!(
        long.iter().map(|(.., bytes)| bytes).sum::<u64>(),
        2 * STEP_BYTES + 1
    );
}
