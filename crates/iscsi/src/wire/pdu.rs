//! Decodes and encodes the basic header segments of PDUs (RFC 7143, 11). Sessions call this.
//!
//! Invariant: offsets are constants inside the header, which has a fixed length. Every field of a
//! header that is built here and not set is 0.

/// Length of a basic header segment, bytes.
pub const HEADER_BYTES: usize = 48;
/// The tag that stands for no task and no transfer.
pub const NO_TAG: u32 = 0xffff_ffff;
/// The final bit of byte 1.
pub const FINAL: u8 = 0x80;

/// Operations that initiators send.
pub mod request {
    /// NOP-Out.
    pub const NOP_OUT: u8 = 0x00;
    /// SCSI Command.
    pub const COMMAND: u8 = 0x01;
    /// Task Management Function Request.
    pub const TASK_MANAGEMENT: u8 = 0x02;
    /// Login Request.
    pub const LOGIN: u8 = 0x03;
    /// Text Request.
    pub const TEXT: u8 = 0x04;
    /// SCSI Data-Out.
    pub const DATA_OUT: u8 = 0x05;
    /// Logout Request.
    pub const LOGOUT: u8 = 0x06;
    /// SNACK Request.
    pub const SNACK: u8 = 0x10;
}

/// Operations that targets send.
pub mod response {
    /// NOP-In.
    pub const NOP_IN: u8 = 0x20;
    /// SCSI Response.
    pub const COMMAND: u8 = 0x21;
    /// Task Management Function Response.
    pub const TASK_MANAGEMENT: u8 = 0x22;
    /// Login Response.
    pub const LOGIN: u8 = 0x23;
    /// Text Response.
    pub const TEXT: u8 = 0x24;
    /// SCSI Data-In.
    pub const DATA_IN: u8 = 0x25;
    /// Logout Response.
    pub const LOGOUT: u8 = 0x26;
    /// Ready To Transfer.
    pub const R2T: u8 = 0x31;
    /// Asynchronous Message.
    pub const ASYNC: u8 = 0x32;
    /// Reject.
    pub const REJECT: u8 = 0x3f;
}

/// A basic header segment. Fields that all PDUs have are named; others are read by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduHeader(pub [u8; HEADER_BYTES]);

impl PduHeader {
    /// Makes the header of a response.
    pub fn new(operation: u8, flags: u8) -> Self {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = operation;
        bytes[1] = flags;
        Self(bytes)
    }

    /// Copies a header; `None` if there are too few bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|bytes| Self(*bytes))
    }

    /// Returns the operation, without the immediate bit.
    pub fn operation(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// Returns true if the request is delivered at once and uses no command number.
    pub fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Returns byte 1, whose meaning depends on the operation.
    pub fn flags(&self) -> u8 {
        self.0[1]
    }

    /// Returns true if this is the last PDU of a sequence.
    pub fn is_final(&self) -> bool {
        self.0[1] & FINAL != 0
    }

    /// Returns the length of the additional header segments, bytes.
    pub fn additional_bytes(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Returns the length of the data, bytes, without padding.
    pub fn data_bytes(&self) -> usize {
        let [_, _, _, _, _, a, b, c, ..] = self.0;
        u32::from_be_bytes([0, a, b, c]) as usize
    }

    /// Returns the logical unit that a request addresses.
    pub fn lun(&self) -> u64 {
        self.u64_at::<8>()
    }

    /// Returns the initiator task tag.
    pub fn tag(&self) -> u32 {
        self.u32_at::<16>()
    }

    /// Returns the two bytes at `AT`.
    pub fn u16_at<const AT: usize>(&self) -> u16 {
        const { assert!(AT + 2 <= HEADER_BYTES) };
        u16::from_be_bytes([self.0[AT], self.0[AT + 1]])
    }

    /// Returns the four bytes at `AT`.
    pub fn u32_at<const AT: usize>(&self) -> u32 {
        const { assert!(AT + 4 <= HEADER_BYTES) };
        let [a, b, c, d] = [self.0[AT], self.0[AT + 1], self.0[AT + 2], self.0[AT + 3]];
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns the eight bytes at `AT`.
    pub fn u64_at<const AT: usize>(&self) -> u64 {
        const { assert!(AT + 8 <= HEADER_BYTES) };
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[AT..AT + 8]);
        u64::from_be_bytes(bytes)
    }

    /// Returns the command descriptor block of a SCSI command.
    pub fn cdb(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[32..48]);
        bytes
    }

    /// Sets a byte.
    pub fn with_u8<const AT: usize>(mut self, value: u8) -> Self {
        const { assert!(AT < HEADER_BYTES) };
        self.0[AT] = value;
        self
    }

    /// Sets two bytes.
    pub fn with_u16<const AT: usize>(mut self, value: u16) -> Self {
        const { assert!(AT + 2 <= HEADER_BYTES) };
        self.0[AT..AT + 2].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// Sets four bytes.
    pub fn with_u32<const AT: usize>(mut self, value: u32) -> Self {
        const { assert!(AT + 4 <= HEADER_BYTES) };
        self.0[AT..AT + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// Sets eight bytes.
    pub fn with_u64<const AT: usize>(mut self, value: u64) -> Self {
        const { assert!(AT + 8 <= HEADER_BYTES) };
        self.0[AT..AT + 8].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// Sets the initiator task tag.
    pub fn with_tag(self, tag: u32) -> Self {
        self.with_u32::<16>(tag)
    }

    /// Sets the length of the data; its highest byte is dropped.
    pub fn with_data_bytes(mut self, bytes: usize) -> Self {
        let [_, a, b, c] = (bytes as u32).to_be_bytes();
        self.0[5..8].copy_from_slice(&[a, b, c]);
        self
    }
}

/// Returns the length of the padding after `len` bytes.
pub fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}
