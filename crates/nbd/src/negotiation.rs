//! Negotiates options: it decides the effect of each option and its reply. Sessions feed this.
//!
//! Invariant: no I/O. Every option gets exactly one final reply, except those that end the
//! negotiation. Nothing that a client sends changes anything outside its own negotiation.

mod contexts;

use crate::REQUEST_BYTES_MAX;
use crate::exports::Exports;
use crate::wire::constants::transmission as flag;
use crate::wire::constants::{STRING_BYTES_MAX, info};
use crate::wire::options::{
    OptionKind, ReplyKind, decode_info, decode_name, encode_export, encode_reply,
};
use crate::wire::replies::Style;
use std::sync::Arc;
use volume::{Volume, VolumeInfo};

pub(crate) use contexts::{MetaContext, Source};

/// Longest option data that is decoded, bytes. Longer data is skipped and refused.
pub(crate) const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Longest option data that is skipped, bytes. For longer data the client is dropped.
pub(crate) const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;

/// Result of the negotiation.
pub(crate) struct Agreed {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) style: Style,
    /// Contexts for BLOCK_STATUS; without any it may not be used.
    pub(crate) contexts: Vec<MetaContext>,
}

/// Next step after an option.
pub(crate) enum Step {
    /// Send the replies and take the next option.
    Next,
    /// Send the replies and start transmission.
    Start(Agreed),
    /// Send the replies and close.
    Close,
    /// Close at once, because there is no way to answer.
    Drop,
}

/// State of a client's negotiation.
pub(crate) struct Negotiation<'a> {
    exports: &'a dyn Exports,
    /// Called with the name of each export before it is opened.
    claim: &'a dyn Fn(&str),
    no_zeroes: bool,
    style: Style,
    /// The contexts that were chosen, and their export.
    chosen: Option<(String, Vec<MetaContext>)>,
    /// The last requested export, so that INFO, contexts and GO open it once.
    opened: Option<(String, Arc<dyn Volume>)>,
}

/// The reply to one option.
struct Reply<'a> {
    out: &'a mut Vec<u8>,
    option: u32,
}

impl Reply<'_> {
    fn send(&mut self, kind: ReplyKind, data: &[&[u8]]) {
        encode_reply(self.out, self.option, kind, data);
    }

    fn ack(&mut self) -> Step {
        self.send(ReplyKind::Ack, &[]);
        Step::Next
    }

    fn refuse(&mut self, kind: ReplyKind, words: &str) -> Step {
        self.send(kind, &[words.as_bytes()]);
        Step::Next
    }

    fn invalid(&mut self, words: &str) -> Step {
        self.refuse(ReplyKind::ErrInvalid, words)
    }
}

impl<'a> Negotiation<'a> {
    pub(crate) fn new(exports: &'a dyn Exports, claim: &'a dyn Fn(&str), no_zeroes: bool) -> Self {
        Self {
            exports,
            claim,
            no_zeroes,
            style: Style::Simple,
            chosen: None,
            opened: None,
        }
    }

    /// Answers an option whose data was too long to keep.
    pub(crate) fn too_big(option: u32, out: &mut Vec<u8>) {
        Reply { out, option }.send(ReplyKind::ErrTooBig, &[b"option data is too long"]);
    }

    /// Answers one option.
    pub(crate) fn option(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let mut reply = Reply { out, option };
        let Some(kind) = OptionKind::from_number(option) else {
            return reply.refuse(ReplyKind::ErrUnsupported, "unknown option");
        };
        match kind {
            OptionKind::ExportName => self.export_name(data, reply.out),
            OptionKind::Abort => {
                reply.ack();
                Step::Close
            }
            OptionKind::List => self.list(data, &mut reply),
            OptionKind::StartTls if data.is_empty() => {
                reply.refuse(ReplyKind::ErrPolicy, "TLS is not configured")
            }
            OptionKind::StartTls => reply.invalid("STARTTLS takes no data"),
            OptionKind::Info => self.describe(data, false, &mut reply),
            OptionKind::Go => self.describe(data, true, &mut reply),
            OptionKind::StructuredReply => match self.style {
                Style::Extended => {
                    let words = "extended headers were chosen before";
                    reply.refuse(ReplyKind::ErrExtendedHeadersRequired, words)
                }
                _ if !data.is_empty() => reply.invalid("STRUCTURED_REPLY takes no data"),
                Style::Structured => reply.invalid("structured replies were chosen before"),
                Style::Simple => {
                    self.style = Style::Structured;
                    reply.ack()
                }
            },
            OptionKind::ExtendedHeaders => match self.style {
                _ if !data.is_empty() => reply.invalid("EXTENDED_HEADERS takes no data"),
                Style::Extended => reply.invalid("extended headers were chosen before"),
                Style::Simple | Style::Structured => {
                    self.style = Style::Extended;
                    reply.ack()
                }
            },
            OptionKind::ListMetaContext => self.contexts(data, false, &mut reply),
            OptionKind::SetMetaContext => self.contexts(data, true, &mut reply),
        }
    }

    /// Opens the export that `name` stands for, and returns its own name.
    fn open(&mut self, name: &str) -> Option<(String, Arc<dyn Volume>)> {
        let name = match name.is_empty() {
            true => self.exports.default_name().unwrap_or_default(),
            false => name.to_owned(),
        };
        match &self.opened {
            Some(opened) if opened.0 == name => {}
            _ => {
                // A server without clients of an export must have its volume closed.
                self.opened = None;
                (self.claim)(&name);
                self.opened = self.exports.open(&name).map(|volume| (name, volume));
            }
        }
        self.opened.clone()
    }

    fn agreed(&self, name: &str, volume: Arc<dyn Volume>) -> Agreed {
        Agreed {
            volume,
            style: self.style,
            contexts: match &self.chosen {
                Some((export, contexts)) if export == name => contexts.clone(),
                _ => Vec::new(),
            },
        }
    }

    fn export_name(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        // After extended headers the protocol document requires GO.
        let name = match self.style {
            Style::Extended => None,
            _ => decode_name(data),
        };
        let Some((name, volume)) = name.and_then(|name| self.open(name)) else {
            return Step::Drop;
        };
        let info = volume.info();
        let flags = transmission_flags(&info, self.style);
        encode_export(out, info.size_bytes, flags, self.no_zeroes);
        Step::Start(self.agreed(&name, volume))
    }

    fn list(&mut self, data: &[u8], reply: &mut Reply<'_>) -> Step {
        if !data.is_empty() {
            return reply.invalid("LIST takes no data");
        }
        for export in self.exports.list() {
            let name = export.name.as_bytes();
            if name.len() > STRING_BYTES_MAX {
                continue;
            }
            let len = (name.len() as u32).to_be_bytes();
            let about = limited(&export.description);
            reply.send(ReplyKind::Server, &[&len, name, about]);
        }
        reply.ack()
    }

    fn describe(&mut self, data: &[u8], go: bool, reply: &mut Reply<'_>) -> Step {
        let Some(request) = decode_info(data) else {
            return reply.invalid("the request for information is malformed");
        };
        let Some((name, volume)) = self.open(request.name) else {
            return reply.refuse(ReplyKind::ErrUnknown, "there is no such export");
        };
        let about = volume.info();
        let flags = transmission_flags(&about, self.style).to_be_bytes();
        let size = about.size_bytes.to_be_bytes();
        reply.send(
            ReplyKind::Info,
            &[&info::EXPORT.to_be_bytes(), &size, &flags],
        );
        if request.wants_name {
            let kind = info::NAME.to_be_bytes();
            reply.send(ReplyKind::Info, &[&kind, name.as_bytes()]);
        }
        if request.wants_description && !about.description.is_empty() {
            let kind = info::DESCRIPTION.to_be_bytes();
            reply.send(ReplyKind::Info, &[&kind, limited(&about.description)]);
        }
        let [min, preferred, max] = block_sizes(&about).map(u32::to_be_bytes);
        let kind = info::BLOCK_SIZE.to_be_bytes();
        reply.send(ReplyKind::Info, &[&kind, &min, &preferred, &max]);
        reply.ack();
        match go {
            true => Step::Start(self.agreed(&name, volume)),
            false => Step::Next,
        }
    }
}

/// Returns the flags that tell clients which commands they may use.
fn transmission_flags(about: &VolumeInfo, style: Style) -> u16 {
    let mut flags = flag::HAS_FLAGS
        | flag::SEND_FLUSH
        | flag::SEND_FUA
        | flag::SEND_CACHE
        | flag::CAN_MULTI_CONN;
    if about.read_only {
        flags |= flag::READ_ONLY;
    } else {
        flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
    }
    if style != Style::Simple {
        flags |= flag::SEND_DF;
    }
    if style == Style::Extended {
        flags |= flag::BLOCK_STATUS_PAYLOAD;
    }
    flags
}

/// Returns minimum, preferred and maximum request size, bytes.
///
/// The minimum is 1, because a volume takes requests of any alignment. A larger one would cut the
/// end off volumes of odd size.
fn block_sizes(about: &VolumeInfo) -> [u32; 3] {
    let wished = about.block_bytes_preferred.max(about.block_bytes_min);
    let preferred = wished.clamp(512, REQUEST_BYTES_MAX);
    let preferred = preferred.checked_next_power_of_two().unwrap_or(4096);
    [1, preferred, REQUEST_BYTES_MAX]
}

/// Limits `text` to the length of a protocol string.
fn limited(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(STRING_BYTES_MAX);
    text.get(..end).unwrap_or_default().as_bytes()
}

#[cfg(test)]
mod tests;
