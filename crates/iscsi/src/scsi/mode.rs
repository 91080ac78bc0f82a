//! Holds the mode pages of a unit: caching, control, informational exceptions, and IO advice hints
//! grouping. Units call this.
//!
//! Invariant: only the write cache, the write protection and the format of sense data can change.
//! A list that would change anything else is refused, and changes nothing.

use super::sense::Sense;

/// Changeable values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// WCE: writes may be acknowledged before they are durable.
    pub(crate) write_cache: bool,
    /// SWP: writes are refused.
    pub(crate) write_protected: bool,
    /// D_SENSE: sense data has the descriptor format.
    pub(crate) descriptor_sense: bool,
}

impl Mode {
    /// Returns the values at the start and after a reset.
    pub(crate) fn default_of(write_cache: bool) -> Self {
        Self {
            write_cache,
            write_protected: false,
            descriptor_sense: false,
        }
    }

    /// All bits that can change.
    const CHANGEABLE: Self = Self {
        write_cache: true,
        write_protected: true,
        descriptor_sense: true,
    };
}

/// Arguments of MODE SENSE.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) long: bool,
    pub(crate) no_descriptor: bool,
    pub(crate) llbaa: bool,
    pub(crate) control: u8,
    pub(crate) page: u8,
    pub(crate) subpage: u8,
}

const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;
const ALL: u8 = 0x3f;
/// Subpage of the control page: IO advice hints grouping.
const HINTS: u8 = 0x05;
/// Number of groups: GROUP NUMBER has six bits.
const GROUPS: usize = 64;

/// Encodes a page. `fixed` includes values that cannot change.
fn page(code: u8, mode: Mode, fixed: bool) -> Vec<u8> {
    let mut page = vec![0; if code == CACHING { 20 } else { 12 }];
    page[0] = code;
    page[1] = page.len() as u8 - 2;
    match code {
        CACHING => page[2] = u8::from(mode.write_cache) << 2,
        CONTROL => {
            // GLTSD; unrestricted reordering.
            page[2] = u8::from(mode.descriptor_sense) << 2 | u8::from(fixed) << 1;
            page[3] = u8::from(fixed) << 4;
            page[4] = u8::from(mode.write_protected) << 3;
            // TAS: tasks that another initiator aborts are answered with TASK ABORTED.
            page[5] = u8::from(fixed) << 6;
        }
        _ => {}
    }
    page
}

/// Encodes IO advice hints grouping (SBC-4, 6.5.8): group `n` stands for class `n`. The mode of
/// all hints is valid (0), and no group has a preference beside its number.
fn hints() -> Vec<u8> {
    let mut page = vec![0; 16 + GROUPS * 16];
    page[0] = 0x40 | CONTROL;
    page[1] = HINTS;
    let len = (page.len() - 4) as u16;
    page[2..4].copy_from_slice(&len.to_be_bytes());
    page
}

/// Number of blocks, and size of a block, bytes.
pub(crate) type Sizes = (u64, u32);

/// Encodes a block descriptor: the long one, or the short one. It has no number of blocks if that
/// is `None`.
fn descriptor(is_long: bool, blocks: Option<u64>, block_bytes: u32) -> Vec<u8> {
    let blocks = blocks.unwrap_or(0);
    let short = u32::try_from(blocks).unwrap_or(u32::MAX).to_be_bytes();
    let size = block_bytes.to_be_bytes();
    match is_long {
        true => [&blocks.to_be_bytes()[..], &[0; 4], &size].concat(),
        false => [short, size].concat(),
    }
}

/// Returns the parameter data of MODE SENSE. `is_read_only`: the volume refuses writes.
pub(crate) fn sense(
    (mode, default): (Mode, Mode),
    asked: Asked,
    is_read_only: bool,
    (blocks, block_bytes): Sizes,
) -> Result<Vec<u8>, Sense> {
    let (mode, fixed) = match asked.control {
        0 => (mode, true),
        1 => (Mode::CHANGEABLE, false),
        2 => (default, true),
        _ => return Err(Sense::SAVING_NOT_SUPPORTED),
    };
    let one = |code| page(code, mode, fixed);
    let pages = match (asked.page, asked.subpage) {
        (code @ (CACHING | CONTROL | EXCEPTIONS), 0) => one(code),
        (CONTROL, HINTS) => hints(),
        (CONTROL, 0xff) => [one(CONTROL), hints()].concat(),
        (code @ (CACHING | EXCEPTIONS), 0xff) => one(code),
        (ALL, 0) => [CACHING, CONTROL, EXCEPTIONS].map(one).concat(),
        // Six bytes cannot say the length of the long page.
        (ALL, 0xff) if !asked.long => [CACHING, CONTROL, EXCEPTIONS].map(one).concat(),
        (ALL, 0xff) => [one(CACHING), one(CONTROL), hints(), one(EXCEPTIONS)].concat(),
        _ => return Err(Sense::INVALID_FIELD_IN_CDB),
    };
    let descriptor = match asked.no_descriptor {
        true => Vec::new(),
        false => descriptor(asked.llbaa, Some(blocks), block_bytes),
    };
    // WP and DPOFUA.
    let device = u8::from(is_read_only || mode.write_protected && asked.control == 0) << 7 | 0x10;
    let mut out = match asked.long {
        true => {
            let len = (6 + descriptor.len() + pages.len()) as u16;
            let [a, b] = len.to_be_bytes();
            vec![a, b, 0, device, u8::from(asked.llbaa), 0, 0]
        }
        false => {
            let len = 3 + descriptor.len() + pages.len();
            let len = u8::try_from(len).map_err(|_| Sense::INVALID_FIELD_IN_CDB)?;
            vec![len, 0, device]
        }
    };
    out.push(descriptor.len() as u8);
    out.extend_from_slice(&descriptor);
    out.extend_from_slice(&pages);
    Ok(out)
}

/// Checks the header and the block descriptor of MODE SELECT, which cannot change anything, and
/// returns the pages after them.
fn pages(long: bool, list: &[u8], (blocks, block_bytes): Sizes) -> Result<&[u8], Sense> {
    let too_short = Sense::PARAMETER_LIST_LENGTH;
    let (medium, is_long, len, rest) = match (long, list) {
        (false, [_, medium, _, len, rest @ ..]) => (*medium, false, u16::from(*len), rest),
        (true, [_, _, medium, _, longlba, _, high, low, rest @ ..]) => {
            let len = u16::from_be_bytes([*high, *low]);
            (*medium, longlba & 1 != 0, len, rest)
        }
        _ => return Err(too_short),
    };
    let (present, pages) = rest.split_at_checked(len.into()).ok_or(too_short)?;
    // No number of blocks: the present one (SBC-3, 6.4.2).
    let is_present = [Some(blocks), None]
        .iter()
        .any(|blocks| present == descriptor(is_long, *blocks, block_bytes));
    match medium == 0 && (present.is_empty() || is_present) {
        true => Ok(pages),
        false => Err(Sense::INVALID_FIELD_IN_LIST),
    }
}

/// Returns the mode after MODE SELECT with this list.
pub(crate) fn select(mode: Mode, long: bool, list: &[u8], sizes: Sizes) -> Result<Mode, Sense> {
    if list.is_empty() {
        return Ok(mode);
    }
    let mut rest = pages(long, list, sizes)?;
    let mut next = mode;
    while let Some(code) = rest.first() {
        let (wrong, too_short) = (Sense::INVALID_FIELD_IN_LIST, Sense::PARAMETER_LIST_LENGTH);
        let code = code & 0x7f;
        if !matches!(code, CACHING | CONTROL | EXCEPTIONS) {
            return Err(wrong);
        }
        let now = page(code, mode, true);
        let new = rest.get(..now.len()).ok_or(too_short)?;
        let changeable = page(code, Mode::CHANGEABLE, false);
        let bits = now.iter().zip(new).zip(&changeable);
        // The first byte has the PS bit, which is reserved here.
        if new.get(1) != now.get(1) || bits.skip(2).any(|((a, b), free)| (a ^ b) & !free != 0) {
            return Err(wrong);
        }
        let bit = |at: usize, mask: u8| new.get(at).is_some_and(|byte| byte & mask != 0);
        match code {
            CACHING => next.write_cache = bit(2, 4),
            CONTROL => {
                next.descriptor_sense = bit(2, 4);
                next.write_protected = bit(4, 8);
            }
            _ => {}
        }
        rest = rest.get(now.len()..).unwrap_or_default();
    }
    Ok(next)
}
