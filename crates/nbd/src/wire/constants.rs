//! Lists the numbers that the protocol document defines. The rest of `wire` uses them.
//!
//! Invariant: names are those of the document without `NBD_`. Values never change.

/// "NBDMAGIC": the first eight bytes from a server.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": announces newstyle, and starts every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Starts every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Starts a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Starts an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Starts a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Starts a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Starts a chunk of an extended reply.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flag, server: options may be answered with errors.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag, server: can omit the 124 zeroes after EXPORT_NAME.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Handshake flag, client: understood `FLAG_FIXED_NEWSTYLE`.
pub const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Handshake flag, client: wants no zeroes.
pub const FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Longest string of the protocol, bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// Transmission flags of an export.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes fail.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is supported.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is supported.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is supported.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is supported.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// DF is supported (structured replies only).
    pub const SEND_DF: u16 = 1 << 7;
    /// Several connections see each other's writes and flushes.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is supported.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// FAST_ZERO is supported.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// BLOCK_STATUS takes a payload that chooses contexts (extended headers only).
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Flags of a request.
pub mod command_flag {
    /// Reply when durable.
    pub const FUA: u16 = 1 << 0;
    /// WRITE_ZEROES: keep the space allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// READ: one chunk only.
    pub const DF: u16 = 1 << 2;
    /// BLOCK_STATUS: one extent only.
    pub const REQ_ONE: u16 = 1 << 3;
    /// WRITE_ZEROES: fail if it would be as slow as writing.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// Extended: the length is that of a payload that follows.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of a chunk.
pub mod chunk {
    /// Last chunk of a reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// No payload.
    pub const NONE: u16 = 0;
    /// Offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// Offset and length of a run of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Context and 32-bit descriptors.
    pub const BLOCK_STATUS: u16 = 5;
    /// Context, count and 64-bit descriptors.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// Error and message.
    pub const ERROR: u16 = (1 << 15) | 1;
}

/// Kinds of information in INFO and GO.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's own name.
    pub const NAME: u16 = 1;
    /// One line for humans.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum, preferred and maximum request size.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The metadata context that every export has.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Descriptor flag of base:allocation: takes no space.
pub const STATE_HOLE: u32 = 1 << 0;
/// Descriptor flag of base:allocation: reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;
/// Prefix of a metadata context's name for changes. The rest names the earlier state.
pub const DIRTY_BITMAP: &str = "qemu:dirty-bitmap:";
/// Descriptor flag of changes: may differ from the earlier state.
pub const STATE_DIRTY: u32 = 1 << 0;
