//! Encodes and decodes the handshake: greeting, options and their replies. The negotiation calls
//! this.
//!
//! Invariant: decoders refuse trailing bytes and strings longer than the protocol allows. Encoders
//! append to a vector and cannot fail.

use super::constants::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX,
    info,
};
use super::cursor::Cursor;

/// Length of the client's flags after the greeting, bytes.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Length of an option without its data, bytes.
pub const OPTION_HEADER_BYTES: usize = 16;

/// Options of a client before transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OptionKind {
    /// Start transmission; no error can be reported.
    ExportName = 1,
    /// Disconnect.
    Abort = 2,
    /// Name all exports.
    List = 3,
    /// Switch to TLS.
    StartTls = 5,
    /// Describe an export.
    Info = 6,
    /// Describe an export and start transmission.
    Go = 7,
    /// Use structured replies.
    StructuredReply = 8,
    /// Name metadata contexts.
    ListMetaContext = 9,
    /// Choose metadata contexts.
    SetMetaContext = 10,
    /// Use extended headers.
    ExtendedHeaders = 11,
}

impl OptionKind {
    /// Returns the option with this number, if it is known here.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            11 => Self::ExtendedHeaders,
            _ => return None,
        })
    }
}

/// Types of replies to options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ReplyKind {
    /// Done.
    Ack = 1,
    /// One export of a list.
    Server = 2,
    /// One piece of information.
    Info = 3,
    /// One metadata context.
    MetaContext = 4,
    /// Option not known.
    ErrUnsupported = (1 << 31) | 1,
    /// Option forbidden here.
    ErrPolicy = (1 << 31) | 2,
    /// Option malformed, or not allowed now.
    ErrInvalid = (1 << 31) | 3,
    /// No such export.
    ErrUnknown = (1 << 31) | 6,
    /// Option data too long.
    ErrTooBig = (1 << 31) | 9,
    /// Extended headers were chosen before.
    ErrExtendedHeadersRequired = (1 << 31) | 10,
}

/// First bytes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Number of the option, known or not.
    pub option: u32,
    /// Length of the data that follows, bytes.
    pub data_bytes: u32,
}

/// Decodes the first [`OPTION_HEADER_BYTES`]; `None` if too short or with a wrong magic.
pub fn decode_header(bytes: &[u8]) -> Option<OptionHeader> {
    let mut cursor = Cursor::new(bytes);
    if cursor.u64()? != OPTION_MAGIC {
        return None;
    }
    Some(OptionHeader {
        option: cursor.u32()?,
        data_bytes: cursor.u32()?,
    })
}

/// Data of INFO and GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Name of the export; empty means the default one.
    pub name: &'a str,
    /// The client asks for the export's name.
    pub wants_name: bool,
    /// The client asks for its description.
    pub wants_description: bool,
}

/// Decodes the data of INFO and GO. Unknown kinds of information are ignored.
pub fn decode_info(data: &[u8]) -> Option<InfoRequest<'_>> {
    let mut cursor = Cursor::new(data);
    let name = string(&mut cursor)?;
    let count = cursor.u16()?;
    let mut request = InfoRequest {
        name,
        wants_name: false,
        wants_description: false,
    };
    for _ in 0..count {
        match cursor.u16()? {
            info::NAME => request.wants_name = true,
            info::DESCRIPTION => request.wants_description = true,
            _ => {}
        }
    }
    cursor.is_empty().then_some(request)
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRequest<'a> {
    /// Name of the export; empty means the default one.
    pub name: &'a str,
    /// Requested contexts, at most one for every four bytes of data.
    pub queries: Vec<&'a str>,
}

/// Decodes the data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub fn decode_contexts(data: &[u8]) -> Option<ContextRequest<'_>> {
    let mut cursor = Cursor::new(data);
    let name = string(&mut cursor)?;
    let count = cursor.u32()?;
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(string(&mut cursor)?);
    }
    cursor
        .is_empty()
        .then_some(ContextRequest { name, queries })
}

/// Decodes the data of EXPORT_NAME.
pub fn decode_name(data: &[u8]) -> Option<&str> {
    if data.len() > STRING_BYTES_MAX {
        return None;
    }
    std::str::from_utf8(data).ok()
}

fn string<'a>(cursor: &mut Cursor<'a>) -> Option<&'a str> {
    let len = cursor.u32()? as usize;
    if len > STRING_BYTES_MAX {
        return None;
    }
    decode_name(cursor.take(len)?)
}

/// Returns the first bytes that a server sends.
pub fn encode_greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    let flags = FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES;
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

/// Appends one reply to `option`.
pub fn encode_reply(out: &mut Vec<u8>, option: u32, kind: ReplyKind, data: &[&[u8]]) {
    let len: usize = data.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(kind as u32).to_be_bytes());
    out.extend_from_slice(&(len as u32).to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

/// Appends the answer to EXPORT_NAME.
pub fn encode_export(out: &mut Vec<u8>, size_bytes: u64, flags: u16, no_zeroes: bool) {
    out.extend_from_slice(&size_bytes.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    if !no_zeroes {
        out.extend_from_slice(&[0; 124]);
    }
}
