//! Tests exactness on any bytes against a plain version of the rule, the golden vector, and the
//! detector.

use super::*;

/// Returns seeded bytes. `codes` in 256 of them begin an instruction or a small displacement.
fn bytes(seed: u64, len: usize, codes: u8) -> Vec<u8> {
    const OFTEN: [u8; 12] = [
        0xE8, 0xE9, 0x48, 0x4C, 0x8B, 0x8D, 0x89, 0x05, 0x3D, 0x00, 0xFF, 0x01,
    ];
    let mut state = seed.wrapping_mul(2).wrapping_add(88_172_645_463_325_253);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len)
        .map(|_| match next() < codes {
            true => OFTEN[usize::from(next()) % OFTEN.len()],
            false => next(),
        })
        .collect()
}

/// Applies the rule of `docs/format/container.md` byte by byte.
fn plain(bytes: &mut [u8], sign: i64) -> usize {
    let (mut at, mut converted) = (0, 0);
    while at < bytes.len() {
        let byte = |n: usize| bytes.get(at + n).copied().unwrap_or(0);
        let place = if matches!(byte(0), 0xE8 | 0xE9) {
            at + 1
        } else if matches!(byte(0), 0x48 | 0x4C)
            && matches!(byte(1), 0x89 | 0x8B | 0x8D | 0x8F)
            && byte(2) & 0xC7 == 5
        {
            at + 3
        } else {
            at += 1;
            continue;
        };
        at = place + 4;
        if let Some(field) = bytes.get_mut(place..at)
            && matches!(field[3], 0x00 | 0xFF)
        {
            let value = i32::from_le_bytes(field.try_into().unwrap());
            let moved = i64::from(value) + sign * at as i64;
            let wrapped = (moved + (1 << 24)).rem_euclid(1 << 25) - (1 << 24);
            field.copy_from_slice(&(wrapped as i32).to_le_bytes());
            converted += 1;
        }
    }
    converted
}

#[test]
fn any_bytes_come_back_and_the_rule_holds() {
    let mut converted = 0;
    let lengths = (0..300).chain([511, 512, 513, 70_000]);
    for (seed, len) in (0..).zip(lengths) {
        for codes in [0, 40, 128, 255] {
            let original = bytes(seed, len, codes);
            let mut filtered = original.clone();
            let count = absolute(&mut filtered);
            let mut expected = original.clone();
            assert_eq!(count, plain(&mut expected, 1));
            assert!(filtered == expected, "{seed} {len} {codes}");
            assert_eq!(relative(&mut filtered), count);
            assert!(filtered == original, "{seed} {len} {codes}");
            // The other way round must hold too: any bytes may be opened.
            relative(&mut filtered);
            plain(&mut expected, -1);
            assert!(expected == original);
            plain(&mut expected, -1);
            assert!(filtered == expected);
            absolute(&mut filtered);
            assert!(filtered == original);
            converted += count;
        }
    }
    assert!(converted > 1000, "the bytes test something");
}

#[test]
fn every_short_string_of_the_telling_bytes_comes_back() {
    // Overlapping instructions: all strings of eleven bytes over an alphabet of four.
    for alphabet in [[0xE8, 0x00, 0xFF, 0x48], [0x48, 0x8D, 0x05, 0xE9]] {
        for code in 0..1u32 << 22 {
            let original: [u8; 11] =
                std::array::from_fn(|n| alphabet[(code >> (2 * n)) as usize & 3]);
            let mut bytes = original;
            absolute(&mut bytes);
            relative(&mut bytes);
            assert_eq!(bytes, original);
        }
    }
}

#[test]
fn golden_conversion_never_changes() {
    let mut code = *b"\x90\xE8\x10\x00\x00\x00\x48\x8D\x3D\xF0\xFF\xFF\xFF\xE9\x00\x00\x00\x01\x4C\x8B\x05\xFF\xFF\xFF\x00";
    assert_eq!(absolute(&mut code), 3);
    assert_eq!(
        &code,
        b"\x90\xE8\x16\x00\x00\x00\x48\x8D\x3D\xFD\xFF\xFF\xFF\xE9\x00\x00\x00\x01\x4C\x8B\x05\x18\x00\x00\xFF",
        "the filter is part of the format"
    );
}

#[test]
fn code_pays_and_data_does_not() {
    let mut code = Vec::new();
    for n in 0..4000u32 {
        code.extend(b"\x55\x48\x89\xE5\x48\x83\xEC\x10\x8B\x45\xFC\x89\xC7\xE8");
        code.extend(n.wrapping_mul(1237).to_le_bytes());
        code.extend(b"\x48\x8B\x45\xF8\xC9\xC3\x66\x0F\x1F\x44\x00\x00");
    }
    assert!(pays(&code));
    assert!(!pays(&bytes(1, 1 << 20, 0)));
    assert!(!pays(&b"a line of text, call it E8\n".repeat(9000)));
    assert!(!pays(&[0; 100_000]) && !pays(&[]));
}
