//! Decodes parameter lists that initiators send with UNMAP and PERSISTENT RESERVE OUT. Jobs call
//! this.
//!
//! Invariant: a list that does not match its own lengths is refused.

use super::sense::Sense;

/// Maximum number of ranges in one UNMAP.
pub(crate) const RANGES_MAX: usize = 256;

/// Returns bytes `AT..AT+N` of a list.
fn part<const N: usize>(list: &[u8], at: usize) -> Option<[u8; N]> {
    list.get(at..)?.first_chunk().copied()
}

/// Decodes the ranges of UNMAP: first block and number of blocks.
pub(crate) fn unmap(list: &[u8]) -> Result<Vec<(u64, u64)>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let wrong = Sense::PARAMETER_LIST_LENGTH;
    let announced = part::<2>(list, 2).ok_or(wrong)?;
    let announced = usize::from(u16::from_be_bytes(announced));
    let descriptors = list.get(8..).ok_or(wrong)?;
    // A partial descriptor at the end is ignored (SBC-4, 5.35).
    let used = announced.min(descriptors.len());
    let descriptors = descriptors.get(..used).ok_or(wrong)?.chunks_exact(16);
    if descriptors.len() > RANGES_MAX {
        return Err(Sense::INVALID_FIELD_IN_LIST);
    }
    let range = |descriptor: &[u8]| {
        let lba = u64::from_be_bytes(part(descriptor, 0)?);
        let blocks = u32::from_be_bytes(part(descriptor, 8)?);
        Some((lba, u64::from(blocks)))
    };
    descriptors.map(|d| range(d).ok_or(wrong)).collect()
}

/// Keys and flags of PERSISTENT RESERVE OUT.
pub(crate) struct Keys {
    /// The key under which the sender is registered.
    pub(crate) current: u64,
    /// The key to register, or to preempt.
    pub(crate) service: u64,
    /// APTPL: what is registered shall survive a restart.
    pub(crate) persists: bool,
}

/// Decodes the list of PERSISTENT RESERVE OUT.
pub(crate) fn keys(list: &[u8]) -> Result<Keys, Sense> {
    let wrong = Sense::PARAMETER_LIST_LENGTH;
    if list.len() != 24 {
        return Err(wrong);
    }
    let [flags] = part(list, 20).ok_or(wrong)?;
    // Other ports cannot be named.
    if flags & 0x08 != 0 {
        return Err(Sense::INVALID_FIELD_IN_LIST);
    }
    Ok(Keys {
        current: u64::from_be_bytes(part(list, 0).ok_or(wrong)?),
        service: u64::from_be_bytes(part(list, 8).ok_or(wrong)?),
        persists: flags & 0x01 != 0,
    })
}
