//! Decodes and encodes text: `key=value` pairs that end with a zero byte (RFC 7143, 6.1). Login
//! and text requests call this.
//!
//! Invariant: a decoded text has at most [`PAIRS_MAX`] pairs, every key is short, and none is there
//! twice (RFC 7143, 6.2: a key is negotiated once).

/// Maximum number of pairs in one text. A login of usual initiators has about 20.
pub const PAIRS_MAX: usize = 128;
/// Maximum length of a key, bytes.
pub const KEY_BYTES_MAX: usize = 63;
/// Maximum length of a value, bytes: the largest that RFC 7143 allows, in base 16, and more.
pub const VALUE_BYTES_MAX: usize = 8192;
/// Maximum length of a decoded binary value, bytes.
pub const BINARY_BYTES_MAX: usize = 1024;

/// Decodes the text of an initiator; `None` if it is not text, too large, or has a key twice.
pub fn decode(bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in bytes.split(|byte| *byte == 0).filter(|p| !p.is_empty()) {
        let (key, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
        let is_key = !key.is_empty() && key.len() <= KEY_BYTES_MAX;
        let is_known = pairs.iter().any(|(known, _)| *known == key);
        if !is_key || is_known || value.len() > VALUE_BYTES_MAX || pairs.len() == PAIRS_MAX {
            return None;
        }
        pairs.push((key, value));
    }
    Some(pairs)
}

/// Appends a pair.
pub fn push(out: &mut Vec<u8>, key: &str, value: &str) {
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value.as_bytes());
    out.push(0);
}

/// Decodes a number: decimal, or hexadecimal after `0x`.
pub fn number(value: &str) -> Option<u64> {
    match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None if value.bytes().all(|b| b.is_ascii_digit()) => value.parse().ok(),
        None => None,
    }
}

/// Decodes a binary value of at least one byte: hexadecimal after `0x`, or base 64 after `0b`.
pub fn binary(value: &str) -> Option<Vec<u8>> {
    let (prefix, digits) = value.split_at_checked(2)?;
    let decoded = match prefix {
        "0x" | "0X" => hexadecimal(digits)?,
        "0b" | "0B" => base64(digits)?,
        _ => return None,
    };
    (1..=BINARY_BYTES_MAX)
        .contains(&decoded.len())
        .then_some(decoded)
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    // An odd number of digits lacks a leading zero.
    let mut high = (digits.len() % 2 == 1).then_some(0);
    for byte in digits.bytes() {
        let low = digit(byte)?;
        match high.take() {
            Some(high) => bytes.push((high << 4 | low) as u8),
            None => high = Some(low),
        }
    }
    Some(bytes)
}

fn base64(whole: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    let digits = whole.strip_suffix("==").or(whole.strip_suffix('='));
    let digits = digits.unwrap_or(whole);
    if digits.len() % 4 == 1 {
        return None;
    }
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0x00ff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// Encodes a binary value in hexadecimal.
pub fn encode_binary(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("0x{}", digits.collect::<String>())
}
