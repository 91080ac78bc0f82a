//! Parses whole numbers and time spans. Settings of shares and flags of the command line call this.
//!
//! Invariant: a value out of range is refused with the range or with examples.

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// Parses `0`, or a number with `s`, `h`, `d` or `w`. Returns seconds.
pub fn period_s(text: &str) -> Result<u64, String> {
    let refuse = || format!("{text:?} is not a period (examples: 0, 12h, 7d, 2w)");
    let text = text.trim();
    if text == "0" {
        return Ok(0);
    }
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('h') => 3600,
        Some('d') => DAY_S,
        Some('w') => 7 * DAY_S,
        _ => return Err(refuse()),
    };
    let number = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let number: u64 = number.parse().map_err(|_| refuse())?;
    // The limit is a hundred years, longer than any useful period.
    let seconds = number.checked_mul(unit);
    seconds.filter(|s| *s <= 36_500 * DAY_S).ok_or_else(refuse)
}

/// Parses a number from `least` to `most`.
pub(super) fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let refuse = || format!("the value is a number from {least} to {most}");
    let number: u64 = text.parse().map_err(|_| refuse())?;
    let within = (least..=most).contains(&number);
    T::try_from(number)
        .ok()
        .filter(|_| within)
        .ok_or_else(refuse)
}
