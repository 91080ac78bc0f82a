//! Filters x86 branches: turns relative addresses in machine code into absolute ones. These repeat,
//! so a compressor finds them. `compress` calls this.
//!
//! The method is that of the BCJ filters of LZMA and xz, with addresses relative to `rip` added.
//!
//! Invariant: [`absolute`] and [`relative`] undo each other on any bytes, code or not. A recognised
//! instruction consumes its bytes, converted or not. Each step therefore examines the same bytes
//! before and after conversion.
//! The rule is part of the format (`docs/format/container.md`, codec 3). A golden vector freezes
//! it.

/// Positions that are examined together, one bit each.
const WINDOW: usize = 64;
/// Bytes of these positions, and the two that the longest pattern reaches beyond the last one.
const REACH: usize = WINDOW + 2;
/// [`pays`] samples one of `SAMPLED_PART` bytes, `SAMPLE_BYTES` at a time.
const SAMPLED_PART: usize = 64;
const SAMPLE_BYTES: usize = 256;
/// Minimum density that pays: one address in this many bytes. Machine code has an address in some
/// 60 to 100 bytes, data hardly any. Each saves about a byte.
const PAYING_BYTES: usize = 1024;

/// Makes relative addresses absolute. Returns their number.
pub fn absolute(bytes: &mut [u8]) -> usize {
    convert(bytes, u32::wrapping_add)
}

/// Undoes [`absolute`].
pub fn relative(bytes: &mut [u8]) -> usize {
    convert(bytes, u32::wrapping_sub)
}

/// Returns true when a sample of the bytes contains enough machine code.
pub fn pays(bytes: &[u8]) -> bool {
    let mut found = 0;
    let mut sampled = 0;
    for part in bytes.chunks(SAMPLED_PART * SAMPLE_BYTES) {
        if let Some(mut sample) = part.first_chunk::<SAMPLE_BYTES>().copied() {
            found += absolute(&mut sample);
            sampled += SAMPLE_BYTES;
        }
    }
    found * PAYING_BYTES > sampled
}

fn convert(bytes: &mut [u8], with: impl Fn(u32, u32) -> u32) -> usize {
    let mut converted = 0;
    // End of the last instruction.
    let mut free = 0;
    for start in (0..bytes.len()).step_by(WINDOW) {
        let rest = bytes.get(start..).unwrap_or_default();
        let mut found = match rest.first_chunk() {
            Some(window) => instructions(window),
            // No pattern matches the zeroes after the end.
            None => {
                let mut window = [0; REACH];
                window
                    .iter_mut()
                    .zip(rest)
                    .for_each(|(to, from)| *to = *from);
                instructions(&window)
            }
        };
        while found != 0 {
            let at = start + found.trailing_zeros() as usize;
            found &= found - 1;
            if at < free {
                continue;
            }
            let place = at + displacement_at(bytes.get(at).copied().unwrap_or_default());
            free = place + 4;
            let field = bytes.get_mut(place..).and_then(|b| b.first_chunk_mut());
            if let Some(field) = field {
                converted += convert_field(field, free as u32, &with);
            }
        }
    }
    converted
}

/// Returns the distance from an instruction's first byte to its displacement: for call and jump, or
/// for a move.
fn displacement_at(first: u8) -> usize {
    if first >= 0xE8 { 1 } else { 3 }
}

/// Converts a displacement within 16 MiB, which has 25 bits and a sign; it keeps that form. Returns
/// 1 if it converted one.
///
/// It has no branch: code mixes both kinds in an order that no processor could predict.
fn convert_field(field: &mut [u8; 4], end: u32, with: impl Fn(u32, u32) -> u32) -> usize {
    let value = u32::from_le_bytes(*field);
    let fits = value.wrapping_add(1 << 24) < 1 << 25;
    let moved = ((with(value, end) << 7) as i32 >> 7) as u32;
    let mask = u32::from(fits).wrapping_neg();
    *field = ((moved & mask) | (value & !mask)).to_le_bytes();
    usize::from(fits)
}

/// Returns a bit for each position where a known instruction begins: `E8` or `E9` (call, jump), or
/// a move or `lea` of 64 bits relative to `rip` (`48|4C 89|8B|8D|8F modrm`, mode 0, base 5).
///
/// It handles eight positions a word, without branches, so that the compiler uses vectors.
/// Detection of zero bytes is exact, as in Hacker's Delight, 6-1.
fn instructions(window: &[u8; REACH]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let every = |byte: u8| ONES * u64::from(byte);
    let word = |at: usize| {
        let bytes = window.get(at..).and_then(|b| b.first_chunk());
        u64::from_le_bytes(bytes.copied().unwrap_or_default())
    };
    // The high bit of each byte that is not zero.
    let high = |v: u64| ((v & every(0x7F)) + every(0x7F)) | v;
    let marks: [u64; WINDOW / 8] = std::array::from_fn(|n| {
        let (first, second, third) = (word(8 * n), word(8 * n + 1), word(8 * n + 2));
        let call = (first & every(0xFE)) ^ every(0xE8);
        let moves = ((first & every(0xFB)) ^ every(0x48))
            | ((second & every(0xF9)) ^ every(0x89))
            | ((third & every(0xC7)) ^ every(0x05));
        !(high(call) & high(moves)) & every(0x80)
    });
    if marks.iter().fold(0, |all, mark| all | mark) == 0 {
        return 0;
    }
    // Gather the high bits of eight bytes in the top byte.
    let bits = |mark: u64| (mark >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let shifts = (0..u64::BITS).step_by(8);
    let parts = marks.iter().zip(shifts).map(|(mark, by)| bits(*mark) << by);
    parts.fold(0, |all, part| all | part)
}

#[cfg(test)]
mod tests;
