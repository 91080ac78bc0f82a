//! Describes why a command failed: sense data, and the table from errors of volumes to it. Units
//! call this.
//!
//! Invariant: the table is exhaustive, so a new kind does not compile until its sense is chosen.
//! There is no second table.

use volume::VolumeErrorKind;

/// Sense key, additional sense code and its qualifier; for some, where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sense {
    key: u8,
    code: u8,
    qualifier: u8,
    information: Option<u64>,
}

const fn sense(key: u8, code: u8, qualifier: u8) -> Sense {
    Sense {
        key,
        code,
        qualifier,
        information: None,
    }
}

impl Sense {
    pub(crate) const NONE: Self = sense(0x0, 0x00, 0x00);
    pub(crate) const PARAMETER_LIST_LENGTH: Self = sense(0x5, 0x1a, 0x00);
    pub(crate) const INVALID_OPERATION: Self = sense(0x5, 0x20, 0x00);
    pub(crate) const OUT_OF_RANGE: Self = sense(0x5, 0x21, 0x00);
    pub(crate) const INVALID_FIELD_IN_CDB: Self = sense(0x5, 0x24, 0x00);
    pub(crate) const NO_SUCH_UNIT: Self = sense(0x5, 0x25, 0x00);
    pub(crate) const INVALID_FIELD_IN_LIST: Self = sense(0x5, 0x26, 0x00);
    pub(crate) const INVALID_RELEASE: Self = sense(0x5, 0x26, 0x04);
    pub(crate) const SAVING_NOT_SUPPORTED: Self = sense(0x5, 0x39, 0x00);
    pub(crate) const TOO_MANY_REGISTRATIONS: Self = sense(0x5, 0x55, 0x04);
    pub(crate) const INVALID_FIELD_IN_UNIT: Self = sense(0x5, 0x0e, 0x03);
    pub(crate) const WRONG_AMOUNT_OF_DATA: Self = sense(0xb, 0x0c, 0x0d);
    pub(crate) const POWER_ON: Self = sense(0x6, 0x29, 0x00);
    pub(crate) const RESET: Self = sense(0x6, 0x29, 0x03);
    pub(crate) const MODE_CHANGED: Self = sense(0x6, 0x2a, 0x01);
    pub(crate) const RESERVATIONS_PREEMPTED: Self = sense(0x6, 0x2a, 0x03);
    pub(crate) const RESERVATIONS_RELEASED: Self = sense(0x6, 0x2a, 0x04);
    pub(crate) const REGISTRATIONS_PREEMPTED: Self = sense(0x6, 0x2a, 0x05);
    pub(crate) const CAPACITY_CHANGED: Self = sense(0x6, 0x2a, 0x09);
    pub(crate) const WRITE_PROTECTED: Self = sense(0x7, 0x27, 0x00);
    pub(crate) const SOFTWARE_WRITE_PROTECTED: Self = sense(0x7, 0x27, 0x02);
    const NO_SPACE: Self = sense(0x7, 0x27, 0x07);
    pub(crate) const READ_ERROR: Self = sense(0x3, 0x11, 0x00);
    const WRITE_ERROR: Self = sense(0x3, 0x0c, 0x00);
    const FAILED: Self = sense(0x4, 0x44, 0x00);

    /// Returns the sense for bytes that differ at `offset_bytes` of the data.
    pub(crate) fn miscompare(offset_bytes: u64) -> Self {
        Self {
            information: Some(offset_bytes),
            ..sense(0xe, 0x1d, 0x00)
        }
    }

    /// Returns the sense that the client of a command gets for an error of the volume.
    pub(crate) fn of(kind: VolumeErrorKind, is_write: bool) -> Self {
        match kind {
            VolumeErrorKind::OutOfRange => Self::OUT_OF_RANGE,
            VolumeErrorKind::ReadOnly => Self::WRITE_PROTECTED,
            VolumeErrorKind::NoSpace => Self::NO_SPACE,
            VolumeErrorKind::Unsupported => Self::INVALID_OPERATION,
            // Its initiators are about to be asked to log out.
            VolumeErrorKind::Deleted => Self::NO_SUCH_UNIT,
            VolumeErrorKind::Io if is_write => Self::WRITE_ERROR,
            VolumeErrorKind::Io => Self::READ_ERROR,
            // Not a medium error: other blocks are not better, and the server must be restarted.
            VolumeErrorKind::Failed => Self::FAILED,
        }
    }

    /// Encodes it, in the descriptor format if the control mode page wants that (SPC-4, 4.5).
    pub(crate) fn encode(&self, is_descriptor: bool) -> Vec<u8> {
        let information = self.information;
        if is_descriptor {
            let mut bytes = vec![0x72, self.key, self.code, self.qualifier, 0, 0, 0, 0];
            if let Some(information) = information {
                bytes.extend_from_slice(&[0, 10, 0x80, 0]);
                bytes.extend_from_slice(&information.to_be_bytes());
                bytes[7] = 12;
            }
            return bytes;
        }
        let mut bytes = vec![0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.key;
        bytes[7] = 10;
        bytes[12] = self.code;
        bytes[13] = self.qualifier;
        if let Some(information) = information.and_then(|i| u32::try_from(i).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_contain_the_same() {
        let sense = Sense::miscompare(0x1234);
        let fixed = sense.encode(false);
        assert_eq!((fixed.len(), fixed[0], fixed[2]), (18, 0xf0, 0x0e));
        assert_eq!(fixed[3..7], [0, 0, 0x12, 0x34]);
        assert_eq!(fixed[12..14], [0x1d, 0]);
        let descriptor = sense.encode(true);
        assert_eq!(descriptor[..4], [0x72, 0x0e, 0x1d, 0]);
        assert_eq!(descriptor.len(), 8 + usize::from(descriptor[7]));
        assert_eq!(descriptor[18..], [0x12, 0x34]);
        assert_eq!(Sense::NONE.encode(false)[0], 0x70);
    }
}
