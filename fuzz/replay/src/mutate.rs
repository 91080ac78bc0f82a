//! Mutates inputs in an order that a seed decides. The harness calls this.
//!
//! Invariant: the same dice and the same inputs give the same mutants, on every machine.

/// Longest input, bytes: the limit that `fuzz/run.sh` gives libFuzzer.
pub const INPUT_BYTES_MAX: usize = 8192;
/// Numbers that decoders often handle wrongly.
const NUMBERS: [u64; 7] = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 32, 1 << 16, 4096];

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    /// Combines a seed and a name: each target has its own numbers.
    pub fn new(seed: u64, name: &str) -> Self {
        let mixed = name.bytes().fold(seed, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(mixed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit.max(1) as u64) as usize
    }
}

/// Returns a mutant of one of `seeds`, a few changes away.
pub fn mutate(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seeds
        .get(dice.below(seeds.len()))
        .cloned()
        .unwrap_or_default();
    for _ in 0..=dice.below(4) {
        change(&mut bytes, seeds, dice);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    let kind = dice.below(8);
    match kind {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        2 => {
            let value = dice.draw() as u8;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        3 => {
            let number = NUMBERS[dice.below(NUMBERS.len())].to_le_bytes();
            let len = 1 << dice.below(4);
            for (to, from) in bytes.iter_mut().skip(at).zip(&number[..len]) {
                *to = *from;
            }
        }
        4 => bytes.truncate(at),
        5 => bytes.extend(
            (0..dice.below(64))
                .map(|_| dice.draw() as u8)
                .collect::<Vec<_>>(),
        ),
        6 => {
            let end = (at + dice.below(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            // Append the end of another seed.
            let other = seeds
                .get(dice.below(seeds.len()))
                .map_or(&[][..], Vec::as_slice);
            let from = dice.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(other.get(from..).unwrap_or_default());
        }
    }
}
