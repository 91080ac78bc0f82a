//! Whole numbers that users write.
//!
//! Invariant: what is out of its range is refused, with the range. Called by [`super::shares`] and
//! [`super::upkeep`].

/// From `least` to `most`.
pub(super) fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let refuse = || format!("a number from {least} to {most}");
    let number: u64 = text.parse().map_err(|_| refuse())?;
    let within = (least..=most).contains(&number);
    T::try_from(number)
        .ok()
        .filter(|_| within)
        .ok_or_else(refuse)
}
