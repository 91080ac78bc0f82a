//! Lists the operation codes that units execute, and answers REPORT SUPPORTED OPERATION CODES.
//!
//! Invariant: every command that decodes is listed, and no other. A test compares both.

use super::sense::Sense;

/// Operation codes.
pub(crate) mod code {
    pub(crate) const TEST_UNIT_READY: u8 = 0x00;
    pub(crate) const REQUEST_SENSE: u8 = 0x03;
    pub(crate) const READ_6: u8 = 0x08;
    pub(crate) const WRITE_6: u8 = 0x0a;
    pub(crate) const INQUIRY: u8 = 0x12;
    pub(crate) const MODE_SELECT_6: u8 = 0x15;
    pub(crate) const RESERVE_6: u8 = 0x16;
    pub(crate) const RELEASE_6: u8 = 0x17;
    pub(crate) const MODE_SENSE_6: u8 = 0x1a;
    pub(crate) const START_STOP: u8 = 0x1b;
    pub(crate) const PREVENT_REMOVAL: u8 = 0x1e;
    pub(crate) const READ_CAPACITY_10: u8 = 0x25;
    pub(crate) const READ_10: u8 = 0x28;
    pub(crate) const WRITE_10: u8 = 0x2a;
    pub(crate) const WRITE_VERIFY_10: u8 = 0x2e;
    pub(crate) const VERIFY_10: u8 = 0x2f;
    pub(crate) const PREFETCH_10: u8 = 0x34;
    pub(crate) const SYNCHRONIZE_10: u8 = 0x35;
    pub(crate) const WRITE_SAME_10: u8 = 0x41;
    pub(crate) const UNMAP: u8 = 0x42;
    pub(crate) const MODE_SELECT_10: u8 = 0x55;
    pub(crate) const MODE_SENSE_10: u8 = 0x5a;
    pub(crate) const PERSISTENT_IN: u8 = 0x5e;
    pub(crate) const PERSISTENT_OUT: u8 = 0x5f;
    pub(crate) const READ_16: u8 = 0x88;
    pub(crate) const COMPARE_AND_WRITE: u8 = 0x89;
    pub(crate) const WRITE_16: u8 = 0x8a;
    pub(crate) const ORWRITE: u8 = 0x8b;
    pub(crate) const WRITE_VERIFY_16: u8 = 0x8e;
    pub(crate) const VERIFY_16: u8 = 0x8f;
    pub(crate) const PREFETCH_16: u8 = 0x90;
    pub(crate) const SYNCHRONIZE_16: u8 = 0x91;
    pub(crate) const WRITE_SAME_16: u8 = 0x93;
    pub(crate) const SERVICE_IN_16: u8 = 0x9e;
    pub(crate) const REPORT_LUNS: u8 = 0xa0;
    pub(crate) const MAINTENANCE_IN: u8 = 0xa3;
    pub(crate) const READ_12: u8 = 0xa8;
    pub(crate) const WRITE_12: u8 = 0xaa;
    pub(crate) const WRITE_VERIFY_12: u8 = 0xae;
    pub(crate) const VERIFY_12: u8 = 0xaf;
}

/// Service action of READ CAPACITY (16).
pub(crate) const READ_CAPACITY_16: u8 = 0x10;
/// Service action of GET LBA STATUS.
pub(crate) const GET_LBA_STATUS: u8 = 0x12;
/// Service action of REPORT SUPPORTED OPERATION CODES.
pub(crate) const REPORT_OPCODES: u8 = 0x0c;

/// An operation code, its service action, and the bits of its block that are looked at.
pub(crate) struct Operation {
    pub(crate) code: u8,
    pub(crate) action: Option<u8>,
    usage: &'static [u8],
}

const fn plain(code: u8, usage: &'static [u8]) -> Operation {
    Operation {
        code,
        action: None,
        usage,
    }
}

const fn with(code: u8, action: u8, usage: &'static [u8]) -> Operation {
    Operation {
        code,
        action: Some(action),
        usage,
    }
}

const F: u8 = 0xff;
const SIX: &[u8] = &[0, 0x1f, F, F, F, 0];
const TEN: &[u8] = &[0, 0xf8, F, F, F, F, 0x3f, F, F, 0];
const TEN_COMPARED: &[u8] = &[0, 0xf6, F, F, F, F, 0x3f, F, F, 0];
const TEN_PLAIN: &[u8] = &[0, 0x02, F, F, F, F, 0x3f, F, F, 0];
const TWELVE: &[u8] = &[0, 0xf8, F, F, F, F, F, F, F, F, 0x3f, 0];
const TWELVE_COMPARED: &[u8] = &[0, 0xf6, F, F, F, F, F, F, F, F, 0x3f, 0];
const SIXTEEN: &[u8] = &[0, 0xf8, F, F, F, F, F, F, F, F, F, F, F, F, 0x3f, 0];
const SIXTEEN_COMPARED: &[u8] = &[0, 0xf6, F, F, F, F, F, F, F, F, F, F, F, F, 0x3f, 0];
const SIXTEEN_PLAIN: &[u8] = &[0, 0x02, F, F, F, F, F, F, F, F, F, F, F, F, 0x3f, 0];
const SERVICE_IN: &[u8] = &[0, 0x1f, F, F, F, F, F, F, F, F, F, F, F, F, 0, 0];
const RESERVE_IN: &[u8] = &[0, 0x1f, 0, 0, 0, 0, 0, F, F, 0];
const RESERVE_OUT: &[u8] = &[0, 0x1f, F, 0, 0, F, F, F, F, 0];

/// All operations, in the order of their codes.
pub(crate) const OPERATIONS: &[Operation] = &[
    plain(code::TEST_UNIT_READY, &[0, 0, 0, 0, 0, 0]),
    plain(code::REQUEST_SENSE, &[0, 1, 0, 0, F, 0]),
    plain(code::READ_6, SIX),
    plain(code::WRITE_6, SIX),
    plain(code::INQUIRY, &[0, 1, F, F, F, 0]),
    plain(code::MODE_SELECT_6, &[0, 0x11, 0, 0, F, 0]),
    plain(code::RESERVE_6, &[0, 0, 0, 0, 0, 0]),
    plain(code::RELEASE_6, &[0, 0, 0, 0, 0, 0]),
    plain(code::MODE_SENSE_6, &[0, 0x08, F, F, F, 0]),
    plain(code::START_STOP, &[0, 1, 0, 0x0f, 0xf7, 0]),
    plain(code::PREVENT_REMOVAL, &[0, 0, 0, 0, 3, 0]),
    plain(code::READ_CAPACITY_10, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    plain(code::READ_10, TEN),
    plain(code::WRITE_10, TEN),
    plain(code::WRITE_VERIFY_10, TEN_COMPARED),
    plain(code::VERIFY_10, TEN_COMPARED),
    plain(code::PREFETCH_10, TEN_PLAIN),
    plain(code::SYNCHRONIZE_10, TEN_PLAIN),
    plain(code::WRITE_SAME_10, TEN),
    plain(code::UNMAP, &[0, 1, 0, 0, 0, 0, 0x3f, F, F, 0]),
    plain(code::MODE_SELECT_10, &[0, 0x11, 0, 0, 0, 0, 0, F, F, 0]),
    plain(code::MODE_SENSE_10, &[0, 0x18, F, F, 0, 0, 0, F, F, 0]),
    with(code::PERSISTENT_IN, 0, RESERVE_IN),
    with(code::PERSISTENT_IN, 1, RESERVE_IN),
    with(code::PERSISTENT_IN, 2, RESERVE_IN),
    with(code::PERSISTENT_IN, 3, RESERVE_IN),
    with(code::PERSISTENT_OUT, 0, RESERVE_OUT),
    with(code::PERSISTENT_OUT, 1, RESERVE_OUT),
    with(code::PERSISTENT_OUT, 2, RESERVE_OUT),
    with(code::PERSISTENT_OUT, 3, RESERVE_OUT),
    with(code::PERSISTENT_OUT, 4, RESERVE_OUT),
    with(code::PERSISTENT_OUT, 5, RESERVE_OUT),
    with(code::PERSISTENT_OUT, 6, RESERVE_OUT),
    plain(code::READ_16, SIXTEEN),
    plain(
        code::COMPARE_AND_WRITE,
        &[0, 0xf8, F, F, F, F, F, F, F, F, 0, 0, 0, F, 0x3f, 0],
    ),
    plain(code::WRITE_16, SIXTEEN),
    plain(code::ORWRITE, SIXTEEN),
    plain(code::WRITE_VERIFY_16, SIXTEEN_COMPARED),
    plain(code::VERIFY_16, SIXTEEN_COMPARED),
    plain(code::PREFETCH_16, SIXTEEN_PLAIN),
    plain(code::SYNCHRONIZE_16, SIXTEEN_PLAIN),
    plain(
        code::WRITE_SAME_16,
        &[0, 0xf9, F, F, F, F, F, F, F, F, F, F, F, F, 0x3f, 0],
    ),
    with(code::SERVICE_IN_16, READ_CAPACITY_16, SERVICE_IN),
    with(code::SERVICE_IN_16, GET_LBA_STATUS, SERVICE_IN),
    plain(code::REPORT_LUNS, &[0, 0, F, 0, 0, 0, F, F, F, F, 0, 0]),
    with(
        code::MAINTENANCE_IN,
        REPORT_OPCODES,
        &[0, 0x1f, 0x87, F, F, F, F, F, F, F, 0, 0],
    ),
    plain(code::READ_12, TWELVE),
    plain(code::WRITE_12, TWELVE),
    plain(code::WRITE_VERIFY_12, TWELVE_COMPARED),
    plain(code::VERIFY_12, TWELVE_COMPARED),
];

/// Command timeouts descriptor that says nothing: its length, and no values.
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Returns the parameter data of REPORT SUPPORTED OPERATION CODES (SPC-4, 6.37).
pub(crate) fn report(options: u8, code: u8, action: u16, timeouts: bool) -> Result<Vec<u8>, Sense> {
    if options == 0 {
        return Ok(report_all(timeouts));
    }
    let of_code = || OPERATIONS.iter().filter(|o| o.code == code);
    let has_actions = of_code().any(|o| o.action.is_some());
    let with_action = || of_code().find(|o| o.action.map(u16::from) == Some(action));
    let found = match (options, has_actions) {
        (1, true) | (2, false) if of_code().next().is_some() => {
            return Err(Sense::INVALID_FIELD_IN_CDB);
        }
        (1, _) => of_code().next(),
        (2, _) => with_action(),
        (3, true) => with_action(),
        (3, false) => of_code().next().filter(|_| action == 0),
        _ => return Err(Sense::INVALID_FIELD_IN_CDB),
    };
    let Some(operation) = found else {
        return Ok(vec![0, 1, 0, 0]);
    };
    let supported = 3;
    let mut out = vec![0, supported | u8::from(timeouts) << 7];
    out.extend_from_slice(&(operation.usage.len() as u16).to_be_bytes());
    let usage = out.len();
    out.extend_from_slice(operation.usage);
    if let Some(first) = out.get_mut(usage) {
        *first = code;
    }
    if let (Some(second), Some(action)) = (out.get_mut(usage + 1), operation.action) {
        *second = action;
    }
    if timeouts {
        out.extend_from_slice(&TIMEOUTS);
    }
    Ok(out)
}

fn report_all(timeouts: bool) -> Vec<u8> {
    let mut out = vec![0; 4];
    for operation in OPERATIONS {
        let action = operation.action.unwrap_or(0);
        let flags = u8::from(operation.action.is_some()) | u8::from(timeouts) << 1;
        out.extend_from_slice(&[operation.code, 0, 0, action, 0, flags, 0]);
        out.push(operation.usage.len() as u8);
        if timeouts {
            out.extend_from_slice(&TIMEOUTS);
        }
    }
    let len = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}
