use super::*;

/// One entry a block: the model that every operation must equal.
#[derive(Clone)]
struct Model(Vec<Option<(u32, u32)>>);

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

const BLOCKS: u64 = 300;

impl Model {
    fn claim(&mut self, owner: u32, claim: Claim) {
        for n in 0..u64::from(claim.len) {
            let is_counted = owner != NO_INODE && claim.logical != TREE;
            let logical = claim.logical + if is_counted { n as u32 } else { 0 };
            if let Some(slot) = self.0.get_mut((claim.block + n) as usize)
                && *slot != Some((NO_INODE, FIXED))
            {
                *slot = Some((owner, logical));
            }
        }
    }

    fn mark_free(&mut self, block: u64, len: u64, free: &[Range<u64>]) {
        for at in block..(block + len).min(BLOCKS) {
            let slot = &mut self.0[at as usize];
            if *slot == Some((NO_INODE, FIXED)) {
                continue;
            }
            if free.iter().any(|part| part.contains(&at)) {
                *slot = Some((NO_INODE, FREE));
            } else if *slot == Some((NO_INODE, FREE)) {
                *slot = None;
            }
        }
    }

    fn compare(&self, runs: &Runs, round: u32) {
        for (at, slot) in self.0.iter().enumerate() {
            assert_eq!(
                runs.find(at as u64).owner,
                *slot,
                "block {at}, round {round}"
            );
        }
        for slice in 0..runs.slices() {
            let of = runs.of(slice);
            assert!(of.is_sorted_by(|a, b| a.end() <= b.start && !a.precedes(b)));
            assert!(of.iter().all(|run| run.len > 0));
        }
    }
}

#[test]
fn every_operation_equals_a_map_of_blocks() {
    for seed in 1..40 {
        let mut dice = Dice(seed * 0x9e37_79b9);
        let mut runs = Runs::new(BLOCKS, 64);
        let mut model = Model(vec![None; BLOCKS as usize]);
        for round in 0..200 {
            let (block, len) = (dice.below(BLOCKS), dice.below(90));
            match dice.below(5) {
                0..=1 => {
                    let owner = dice.below(3) as u32;
                    let logical = match (owner, dice.below(4)) {
                        (NO_INODE, 0) => FIXED,
                        (NO_INODE, _) => LOOSE,
                        (_, 0) => TREE,
                        _ => dice.below(50) as u32,
                    };
                    let len = if logical == FIXED { 2 } else { len as u32 };
                    let claim = Claim {
                        block,
                        len,
                        logical,
                    };
                    runs.claim(owner, claim, false, &mut Vec::new(), |_| true);
                    model.claim(owner, claim);
                }
                2 => {
                    let owner = dice.below(3) as u32;
                    runs.forget(block, len, |run| run.owner == owner);
                    for at in block..(block + len).min(BLOCKS) {
                        let slot = &mut model.0[at as usize];
                        *slot = slot.filter(|(by, _)| *by != owner);
                    }
                }
                _ => {
                    let mut free = Vec::new();
                    let mut at = block + dice.below(4);
                    while at < block + len {
                        let end = (at + 1 + dice.below(9)).min(block + len);
                        free.push(at..end);
                        at = end + 1 + dice.below(9);
                    }
                    runs.mark_free(block, len, &free, false, &mut Vec::new());
                    model.mark_free(block, len, &free);
                }
            }
            model.compare(&runs, round);
        }
        for slice in 0..runs.slices() {
            runs.forget_in(slice, |_| true);
        }
        assert_eq!(
            runs.runs_capacity,
            runs.slices.iter().map(Vec::capacity).sum()
        );
    }
}

#[test]
fn runs_at_the_end_of_numbers_do_not_overflow() {
    let mut runs = Runs::new(100, 64);
    let claim = Claim {
        block: u64::MAX - 2,
        len: u32::MAX,
        logical: u32::MAX - 3,
    };
    runs.claim(7, claim, false, &mut Vec::new(), |_| panic!("outside"));
    let claim = Claim { block: 3, ..claim };
    runs.claim(7, claim, false, &mut Vec::new(), |_| true);
    let mut losers = Vec::new();
    runs.forget(u64::MAX, u64::MAX, |_| true);
    runs.mark_free(
        5,
        u64::MAX,
        std::slice::from_ref(&(7..u64::MAX)),
        false,
        &mut losers,
    );
    assert_eq!(runs.find(99).owner, Some((NO_INODE, FREE)));
    assert_eq!(losers, [7], "named once");
    assert_eq!(runs.find(4).owner.map(|found| found.0), Some(7));
}
