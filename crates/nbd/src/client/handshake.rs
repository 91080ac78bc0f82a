//! The handshake of a client: chunked replies and base:allocation if the server has them, then the
//! export. [`super::Client::connect`] calls this.
//!
//! Invariant: a server that lacks an option gets the older way of asking. Replies to options have
//! limits in number and length.

use super::{Client, ClientError, Result, broken};
use crate::REQUEST_BYTES_MAX;
use crate::wire::constants::{
    BASE_ALLOCATION, FLAG_C_FIXED_NEWSTYLE, FLAG_C_NO_ZEROES, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES,
    MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX, command_flag, info, transmission,
};
use crate::wire::cursor::Cursor;
use crate::wire::options::{OptionKind, ReplyKind};
use std::io::{Read, Write};

/// Replies to one option.
const REPLIES_MAX: usize = 64;
/// Longest reply to an option, bytes.
const REPLY_BYTES_MAX: u32 = 64 << 10;
/// Largest block of an export, bytes: the protocol allows no larger one.
const BLOCK_BYTES_MAX: u32 = 64 << 10;
/// Bit of the kinds of replies that are errors.
const REPLY_IS_ERROR: u32 = 1 << 31;
/// The server wants TLS first.
const ERR_TLS_REQD: u32 = REPLY_IS_ERROR | 5;
/// Zeroes behind the answer of old servers, bytes.
const OLD_ZEROES: usize = 124;

/// A reply to an option.
struct Reply {
    kind: u32,
    data: Vec<u8>,
}

impl Reply {
    fn is(&self, kind: ReplyKind) -> bool {
        self.kind == kind as u32
    }

    fn is_error(&self) -> bool {
        self.kind & REPLY_IS_ERROR != 0
    }
}

/// Opens the export.
pub(super) fn run<S: Read + Write>(stream: S, export: &str) -> Result<Client<S>> {
    if export.len() > STRING_BYTES_MAX {
        let why = format!("the name of an export has at most {STRING_BYTES_MAX} bytes");
        return Err(ClientError::Refused(why));
    }
    let mut client = Client {
        stream,
        size: 0,
        structured: false,
        read_flags: 0,
        allocation: None,
        block_bytes: 1,
        read_bytes_max: REQUEST_BYTES_MAX,
        cookie: 0,
    };
    let greeting = (
        u64::from_be_bytes(client.receive()?),
        u64::from_be_bytes(client.receive()?),
    );
    if greeting != (MAGIC, OPTION_MAGIC) {
        return broken("its greeting is another one; is it an NBD server?");
    }
    let flags = u16::from_be_bytes(client.receive()?);
    if flags & FLAG_FIXED_NEWSTYLE == 0 {
        return broken("it is too old: it lacks the fixed newstyle handshake");
    }
    let no_zeroes = flags & FLAG_NO_ZEROES != 0;
    let own = FLAG_C_FIXED_NEWSTYLE | if no_zeroes { FLAG_C_NO_ZEROES } else { 0 };
    client.stream.write_all(&own.to_be_bytes())?;
    client.structured = client.accepts(OptionKind::StructuredReply)?;
    if client.structured {
        client.allocation = client.allocation_of(export)?;
    }
    client.go(export, no_zeroes)?;
    // Offsets are signed at many places.
    if i64::try_from(client.size).is_err() {
        return broken(format!("the export has {} bytes", client.size));
    }
    Ok(client)
}

impl<S: Read + Write> Client<S> {
    fn option(&mut self, option: OptionKind, data: &[u8]) -> Result<()> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend((option as u32).to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        Ok(self.stream.write_all(&bytes)?)
    }

    fn reply(&mut self, option: OptionKind) -> Result<Reply> {
        let magic = u64::from_be_bytes(self.receive()?);
        let of = u32::from_be_bytes(self.receive()?);
        let kind = u32::from_be_bytes(self.receive()?);
        let len = u32::from_be_bytes(self.receive()?);
        if magic != OPTION_REPLY_MAGIC || of != option as u32 {
            return broken("a reply is not to the option that was sent");
        }
        if len > REPLY_BYTES_MAX {
            return broken(format!("a reply to an option has {len} bytes"));
        }
        let data = self.payload(len)?;
        Ok(Reply { kind, data })
    }

    /// Sends an option without data. Returns true if the server takes it.
    fn accepts(&mut self, option: OptionKind) -> Result<bool> {
        self.option(option, &[])?;
        let reply = self.reply(option)?;
        match reply.is(ReplyKind::Ack) {
            true => Ok(true),
            false if reply.kind == ERR_TLS_REQD => Err(refusal(&reply)),
            false if reply.is_error() => Ok(false),
            false => broken("an option has a reply of the wrong kind"),
        }
    }

    /// Chooses base:allocation. Returns its number, `None` if the server lacks it.
    fn allocation_of(&mut self, export: &str) -> Result<Option<u32>> {
        const OPTION: OptionKind = OptionKind::SetMetaContext;
        let mut data = named(export);
        data.extend(1u32.to_be_bytes());
        data.extend(named(BASE_ALLOCATION));
        self.option(OPTION, &data)?;
        let mut number = None;
        for _ in 0..REPLIES_MAX {
            let reply = self.reply(OPTION)?;
            if reply.is(ReplyKind::Ack) {
                return Ok(number);
            }
            if reply.is_error() {
                return Ok(None);
            }
            let mut cursor = Cursor::new(&reply.data);
            let found = cursor.u32();
            let name = cursor.take(BASE_ALLOCATION.len());
            let is_it = name == Some(BASE_ALLOCATION.as_bytes()) && cursor.is_empty();
            if !reply.is(ReplyKind::MetaContext) || !is_it {
                return broken("it has a metadata context that was not asked for");
            }
            number = found;
        }
        broken("replies to an option have no end")
    }

    /// Starts transmission.
    fn go(&mut self, export: &str, no_zeroes: bool) -> Result<()> {
        let mut data = named(export);
        data.extend(1u16.to_be_bytes());
        data.extend(info::BLOCK_SIZE.to_be_bytes());
        self.option(OptionKind::Go, &data)?;
        let mut has_size = false;
        for _ in 0..REPLIES_MAX {
            let reply = self.reply(OptionKind::Go)?;
            if reply.is(ReplyKind::Ack) {
                return match has_size {
                    true => Ok(()),
                    false => broken("it does not say how large the export is"),
                };
            }
            if reply.is(ReplyKind::ErrUnsupported) {
                return self.go_the_old_way(export, no_zeroes);
            }
            if reply.is_error() {
                return Err(refusal(&reply));
            }
            let mut cursor = Cursor::new(&reply.data);
            match cursor.u16().filter(|_| reply.is(ReplyKind::Info)) {
                Some(info::EXPORT) => {
                    let (Some(size), Some(flags)) = (cursor.u64(), cursor.u16()) else {
                        return broken("it does not say how large the export is");
                    };
                    (self.size, has_size) = (size, true);
                    if self.structured && flags & transmission::SEND_DF != 0 {
                        self.read_flags = command_flag::DF;
                    }
                }
                Some(info::BLOCK_SIZE) => {
                    let sizes = (cursor.u32(), cursor.u32(), cursor.u32());
                    self.obey(sizes)?;
                }
                Some(_) => {}
                None => return broken("an option has a reply of the wrong kind"),
            }
        }
        broken("replies to an option have no end")
    }

    /// Takes the sizes of requests that the server wants: smallest, preferred, largest.
    fn obey(&mut self, sizes: (Option<u32>, Option<u32>, Option<u32>)) -> Result<()> {
        let (Some(block), Some(_), Some(most)) = sizes else {
            return broken("the sizes of its blocks are incomplete");
        };
        if !block.is_power_of_two() || block > BLOCK_BYTES_MAX || most < block {
            return broken(format!("its blocks have {block} to {most} bytes"));
        }
        self.block_bytes = block;
        self.read_bytes_max = most.min(REQUEST_BYTES_MAX) / block * block;
        Ok(())
    }

    fn go_the_old_way(&mut self, export: &str, no_zeroes: bool) -> Result<()> {
        self.option(OptionKind::ExportName, export.as_bytes())?;
        self.size = match self.receive() {
            // It has no other way to say that there is no such export.
            Err(ClientError::Closed) => {
                let why = format!("there is no export {export:?}");
                return Err(ClientError::Refused(why));
            }
            size => u64::from_be_bytes(size?),
        };
        let _flags: [u8; 2] = self.receive()?;
        if !no_zeroes {
            let _zeroes: [u8; OLD_ZEROES] = self.receive()?;
        }
        Ok(())
    }
}

fn named(name: &str) -> Vec<u8> {
    let mut bytes = (name.len() as u32).to_be_bytes().to_vec();
    bytes.extend(name.as_bytes());
    bytes
}

fn refusal(reply: &Reply) -> ClientError {
    let said = String::from_utf8_lossy(&reply.data);
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    ClientError::Refused(match reply.kind {
        ERR_TLS_REQD => {
            "it wants TLS, which this program lacks; connect through a tunnel, such as \
                         `ssh -L`, or over a unix socket"
                .to_owned()
        }
        kind if kind == ReplyKind::ErrUnknown as u32 && said.is_empty() => {
            "there is no such export".to_owned()
        }
        kind if said.is_empty() => format!("error {}", kind & !REPLY_IS_ERROR),
        _ => said,
    })
}
