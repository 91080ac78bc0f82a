//! Parses and formats sizes in bytes. The command line, settings and summaries call this.
//!
//! Invariant: an invalid size is refused with the reason. K and KiB both mean 1024 bytes. KB is
//! ambiguous and refused.

const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Maximum number of decimals. Further digits are below a byte.
const FRACTION_DIGITS_MAX: usize = 18;

/// A refused size and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size: {why} (examples: 4096, 64K, 1.5G, 2TiB)")]
pub struct SizeError {
    text: String,
    why: &'static str,
}

/// Parses `4096`, `64K`, `1.5G`, `2TiB`, `512B`. Case does not matter.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let refuse = |why| SizeError {
        text: text.to_owned(),
        why,
    };
    let trimmed = text.trim();
    let digits_end = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(digits_end);
    let shift = unit_shift(unit.trim_start()).map_err(refuse)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(fraction) || digits.ends_with('.') {
        return Err(refuse("a number is missing"));
    }
    let whole: u64 = whole.parse().map_err(|_| refuse("it is too large"))?;
    let bytes = whole
        .checked_mul(1 << shift)
        .ok_or_else(|| refuse("it is too large"))?;
    if fraction.is_empty() {
        return Ok(bytes);
    }
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Err(refuse("it has too many digits"));
    }
    let digits: u64 = fraction
        .parse()
        .map_err(|_| refuse("it has too many digits"))?;
    let numerator = u128::from(digits) << shift;
    let denominator = 10u128.pow(fraction.len() as u32);
    let added = u64::try_from(numerator / denominator).map_err(|_| refuse("it is too large"))?;
    if shift == 0 && numerator != 0 {
        return Err(refuse("it is not a whole number of bytes"));
    }
    bytes
        .checked_add(added)
        .ok_or_else(|| refuse("it is too large"))
}

fn unit_shift(unit: &str) -> Result<u32, &'static str> {
    let lower = unit.to_ascii_lowercase();
    match lower.as_str() {
        "" | "b" => return Ok(0),
        "kb" | "mb" | "gb" | "tb" | "pb" | "eb" => {
            return Err("KB to EB are ambiguous; write K or KiB for 1024 bytes, and so on");
        }
        _ => {}
    }
    let letter = lower.strip_suffix("ib").unwrap_or(&lower);
    ["", "k", "m", "g", "t", "p", "e"]
        .iter()
        .zip([0, 10, 20, 30, 40, 50, 60])
        .find(|(name, _)| !name.is_empty() && **name == letter)
        .map(|(_, shift)| shift)
        .ok_or("unknown unit")
}

/// Formats a size with at least three significant digits: `0 B`, `1023 B`, `1.50 KiB`, `117 MiB`.
pub fn display(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut exponent = bytes.ilog2() / 10;
    let mut value = bytes as f64 / (1u64 << (10 * exponent)) as f64;
    if value >= 1023.5 && exponent < 6 {
        exponent += 1;
        value /= 1024.0;
    }
    let places = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    let unit = UNITS.get(exponent as usize).unwrap_or(&"Ei");
    format!("{value:.places$} {unit}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("1k", 1024),
            ("64K", 64 << 10),
            ("64 KiB", 64 << 10),
            ("1.5G", 3 << 29),
            ("0.5m", 512 << 10),
            ("2TiB", 2 << 40),
            ("1p", 1 << 50),
            ("15E", 15 << 60),
            (" 7 ", 7),
            ("0.1K", 102),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "a number is missing"),
            ("K", "a number is missing"),
            ("-1", "unknown unit"),
            ("1.", "a number is missing"),
            (".5G", "a number is missing"),
            ("1.2.3K", "a number is missing"),
            ("1.5", "whole number"),
            ("10MB", "ambiguous"),
            ("10 parsecs", "unknown unit"),
            ("16E", "too large"),
            ("99999999999999999999", "too large"),
            ("1iB", "unknown unit"),
            ("0x10", "unknown unit"),
            ("1.00000000000000000000000001G", "too many digits"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_that_people_read() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (10 << 20, "10.0 MiB"),
            (117 << 20, "117 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(display(bytes), text);
        }
    }
}
