//! The interval map against a model with one position per byte.

use super::*;
use sim::Seed;

const SIZE: usize = 200;

/// For each byte: position of its write, and offset in that write's data.
type Model = Vec<Option<(u64, Option<u64>)>>;

fn seen(overlay: &Overlay, from: u64, to: u64) -> Model {
    let mut model = vec![None; SIZE];
    let mut last = from;
    overlay.visit(from, to, |piece| {
        assert!(piece.len > 0 && piece.offset >= last && piece.end() <= to);
        last = piece.end();
        for at in piece.offset..piece.end() {
            let byte = match &piece.source {
                Source::Record { skip, .. } => Some(u64::from(*skip) + at - piece.offset),
                Source::Zero => None,
                Source::Chunks(_) | Source::Lost => unreachable!("none were entered"),
            };
            model[at as usize] = Some((piece.position.0, byte));
        }
    });
    model
}

#[test]
fn the_newest_write_of_every_byte_is_kept_in_whatever_order_they_come() {
    for number in 0..400 {
        let mut seed = Seed::new(number);
        let mut positions: Vec<u64> = (1..40).collect();
        // Swap neighbours: threads insert their writes slightly out of order.
        for _ in 0..20 {
            let at = seed.below(positions.len() as u64 - 1) as usize;
            positions.swap(at, at + 1);
        }
        let mut overlay = Overlay::default();
        let mut model: Model = vec![None; SIZE];
        for position in positions {
            let offset = seed.below(SIZE as u64);
            let len = seed.below(SIZE as u64 - offset + 1).min(60);
            let zero = seed.chance(80);
            overlay.insert(Piece {
                offset,
                len,
                position: JournalPosition(position),
                source: if zero {
                    Source::Zero
                } else {
                    Source::Record {
                        skip: 0,
                        class: None,
                    }
                },
            });
            for at in offset..offset + len {
                let byte = (!zero).then_some(at - offset);
                let entry = &mut model[at as usize];
                if entry.is_none_or(|(old, _)| old < position) {
                    *entry = Some((position, byte));
                }
            }
        }
        assert_eq!(seen(&overlay, 0, SIZE as u64), model, "seed {number}");
        let (from, to) = (seed.below(100), 100 + seed.below(100));
        let mut part = model.clone();
        part[..from as usize].fill(None);
        part[to as usize..].fill(None);
        assert_eq!(seen(&overlay, from, to), part, "seed {number}");
        let first = model.iter().skip(from as usize).position(Option::is_some);
        let next = overlay.next(from).map(|p| p.offset.max(from) - from);
        assert_eq!(next, first.map(|f| f as u64), "seed {number}");
        let cut = seed.below(SIZE as u64);
        overlay.truncate(cut);
        model[cut as usize..].fill(None);
        assert_eq!(seen(&overlay, 0, SIZE as u64), model, "seed {number}");
    }
}

#[test]
fn writing_one_place_again_takes_no_more_memory() {
    let mut overlay = Overlay::default();
    for position in 0..1000 {
        overlay.insert(Piece {
            offset: position % 4 * 4096,
            len: 4096,
            position: JournalPosition(position),
            source: Source::Record {
                skip: 0,
                class: None,
            },
        });
    }
    assert_eq!(overlay.len(), 4);
    assert_eq!(overlay.first_position(), Some(JournalPosition(0)));
}

/// Each piece is counted once, in the tally of its overlay, whatever happens to overlays.
#[test]
fn pieces_are_counted_until_their_overlay_goes() {
    let mut dice = Seed::new(7);
    let (active, frozen) = (Tally::default(), Tally::default());
    let mut overlay = Overlay::default().tallied_by(&active);
    for position in 0..500 {
        let offset = dice.below(SIZE as u64 - 1);
        overlay.insert(Piece {
            offset,
            len: 1 + dice.below(SIZE as u64 - offset - 1),
            position: JournalPosition(position),
            source: Source::Zero,
        });
        assert_eq!(active.count(), overlay.len() as u64);
    }
    overlay.truncate(SIZE as u64 / 2);
    let left = overlay.len() as u64;
    assert!(left > 1);
    let clone = overlay.clone();
    assert_eq!(active.count(), 2 * left);
    drop(clone);
    let taken = overlay.take().tallied_by(&frozen);
    assert!(overlay.is_empty());
    assert_eq!((active.count(), frozen.count()), (0, left));
    drop(taken);
    assert_eq!(frozen.count(), 0);
}

/// An invented hole would be stored as zeroes by the next checkpoint.
#[test]
fn a_chunk_that_a_piece_does_not_have_is_an_error() {
    let chunks = DirectChunks {
        fingerprints: Arc::from([Fingerprint([7; 32])]),
        log2: 16,
        skip: 4096,
    };
    assert_eq!(
        chunks.at(61439).unwrap(),
        (Fingerprint([7; 32]), (1 << 16) - 1)
    );
    let error = chunks.at(61440).unwrap_err().to_string();
    assert!(error.contains("items 1..2 of 1"), "{error}");
}
