#![allow(clippy::single_range_in_vec_init, reason = "a plan of one range")]

use super::*;
use std::convert::Infallible;

/// Pieces, and the size that they have at best.
struct Pieces(Vec<Piece>, u64);

impl ObjectLayout for Pieces {
    type Error = Infallible;

    fn size(&self, _: u64) -> Result<u64, Infallible> {
        Ok(self.0.iter().map(|p| p.offset + p.len).max().unwrap_or(0))
    }

    fn pieces(&self, _: u64, range: Range<u64>) -> Result<Vec<Piece>, Infallible> {
        let touches = |p: &&Piece| p.offset < range.end && range.start < p.offset + p.len;
        Ok(self.0.iter().filter(touches).copied().collect())
    }

    fn pieces_needed(&self, len: u64) -> u64 {
        len.div_ceil(self.1)
    }
}

fn piece(offset: u64, len: u64, place: u64) -> Piece {
    Piece {
        offset,
        len,
        place,
        is_shared: false,
    }
}

fn moved(pieces: &[Piece], range: Range<u64>) -> MovePlan {
    let layout = Pieces(pieces.to_vec(), u64::MAX);
    let Range { start, end } = range;
    let range = HotRange {
        start,
        end,
        weight: 1,
    };
    plan(&layout, 1, &[range], PlanOptions::default()).expect("no errors")
}

#[test]
fn only_breaks_within_a_range_count() {
    let pieces = [
        piece(0, 100, 1000),
        // Right behind the first.
        piece(100, 100, 1100),
        // After a hole, and right behind the second.
        piece(300, 100, 1200),
        piece(400, 100, 5000),
    ];
    assert_eq!(moved(&pieces, 0..400).whole, 1);
    assert_eq!(moved(&pieces, 450..500).whole, 1);
    assert_eq!(moved(&pieces, 200..300).whole, 1, "nothing but a hole");
    let plan = moved(&pieces, 50..450);
    assert_eq!((plan.ranges, plan.bytes), (vec![50..450], 300));
    assert_eq!(
        moved(&pieces, 600..700),
        MovePlan::default(),
        "beyond the end"
    );
    // The same place in another order is a break.
    let back = [piece(0, 100, 1100), piece(100, 100, 1000)];
    assert_eq!(moved(&back, 0..200).bytes, 200);
}

#[test]
fn shared_pieces_are_left_alone_unless_asked_for() {
    let mut pieces = vec![piece(0, 10, 0), piece(10, 10, 50), piece(20, 10, 70)];
    pieces[1].is_shared = true;
    let layout = Pieces(pieces, u64::MAX);
    let range = |start, end| HotRange {
        start,
        end,
        weight: 1,
    };
    let ranges = [range(0, 15), range(20, 30)];
    let left = plan(&layout, 1, &ranges, PlanOptions::default()).expect("no errors");
    assert_eq!((left.shared, left.whole, left.bytes), (1, 1, 0));
    let options = PlanOptions { moves_shared: true };
    let asked = plan(&layout, 1, &ranges, options).expect("no errors");
    assert_eq!((asked.ranges, asked.bytes), (vec![0..15], 15));
}

/// Regions of a store: a range of two and a half regions lies in at least three pieces.
#[test]
fn pieces_of_a_size_are_no_fragments() {
    let whole: Vec<Piece> = (0..3).map(|n| piece(n * 100, 100, n * 7777)).collect();
    let small: Vec<Piece> = (0..6).map(|n| piece(n * 50, 50, n * 7777)).collect();
    let range = HotRange {
        start: 0,
        end: 250,
        weight: 1,
    };
    let of = |pieces| plan(&Pieces(pieces, 100), 1, &[range], PlanOptions::default());
    assert_eq!(of(whole).expect("no errors").whole, 1);
    assert_eq!(of(small).expect("no errors").bytes, 250);
}

#[test]
fn bypass_takes_the_windows_with_breaks() {
    const W: u64 = WINDOW_BYTES;
    let pieces = [
        piece(0, W, 0),
        // A break at the end of a window is not inside it.
        piece(W, W / 2, 10 * W),
        piece(W + W / 2, W, 20 * W),
        piece(3 * W, 100, 40 * W),
    ];
    let layout = Pieces(pieces.to_vec(), u64::MAX);
    let plan = bypass(&layout, 1, PlanOptions::default()).expect("no errors");
    assert_eq!(plan.ranges, [W..2 * W]);
    assert_eq!((plan.bytes, plan.whole), (W, 3));
}
