//! Parses whole numbers and time spans. Settings of shares and flags of the command line call this.
//!
//! Invariant: a value out of range is refused with the range or with examples.

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// Parses `0`, or a number with `s`, `h`, `d` or `w`. Returns seconds.
pub fn period_s(text: &str) -> Result<u64, String> {
    let refuse = || format!("{text:?} is not a period (examples: 0, 12h, 7d, 2w)");
    // Without minutes: an `m` could be a month.
    let text = Some(text).filter(|text| !text.trim().ends_with('m'));
    text.and_then(time_s).ok_or_else(refuse)
}

/// Parses `0`, or a number with `s`, `m`, `h`, `d` or `w`. Returns seconds; `None` if it is
/// neither, or more than a hundred years, which is longer than any useful time.
pub fn time_s(text: &str) -> Option<u64> {
    let text = text.trim();
    if text == "0" {
        return Some(0);
    }
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => DAY_S,
        'w' => 7 * DAY_S,
        _ => return None,
    };
    let number: u64 = text.get(..text.len().saturating_sub(1))?.parse().ok()?;
    let seconds = number.checked_mul(unit);
    seconds.filter(|s| *s <= 36_500 * DAY_S)
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
