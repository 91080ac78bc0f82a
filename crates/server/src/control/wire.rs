//! Messages of the control socket. Both of its ends call this.
//!
//! Invariant: lengths are checked before memory is allocated. Integers are little-endian. Both ends
//! are this program, but their versions may differ: a changed layout gets a new magic.
//!
//! ```text
//! client                                    server
//! CommandRequest + descriptors on its first byte   -->
//!                                           <--  CommandAnswer::Started or Refused
//! Wish, one byte each                       -->
//!                                           <--  CommandAnswer::Ended
//! ```
//!
//! A client that wants leases sends a [`Hello`] of [`qos::lease`] instead of a request.

use super::view::{Shown, View};
use qos::lease::{self, Hello};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use terminal::command_context::{ClientDescriptors, Streams};

const MAGIC: [u8; 8] = *b"QNTCTL\x02\n";
const HEADER_BYTES: usize = 12;
/// Limit of a request's body. Linux allows less for arguments and environment together.
const BODY_BYTES_MAX: usize = 8 << 20;
/// Limit of a reason for refusal.
const WHY_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of descriptors: standard streams, working directory, terminal, password.
const DESCRIPTORS_MAX: usize = 6;
const _: () = assert!(HEADER_BYTES == Hello::BYTES);

/// The first message of a client.
pub enum Opening {
    /// Run this command.
    Command(CommandRequest, Descriptors),
    /// Lend I/O grants: the client reads the pool itself.
    Leases(Hello),
}

/// A command that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRequest {
    /// The client's view of the file system.
    pub view: View,
    /// The client's mode mask.
    pub umask: u32,
    /// The command line, including the program's name.
    pub arguments: Vec<OsString>,
    /// Variables for the command.
    pub environment: Vec<(OsString, OsString)>,
}

/// The descriptors that come with a request.
pub struct Descriptors {
    pub streams: Streams,
    /// The working directory.
    pub directory: OwnedFd,
}

/// Messages of a client while its command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Wish {
    /// Stop the command.
    Stop = b'I',
    /// Report the progress.
    Report = b'R',
}

/// Messages of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandAnswer {
    /// The command has begun.
    Started,
    /// The command is refused, for this reason.
    Refused(String),
    /// The command ended with this exit code.
    Ended(u8),
}

impl CommandRequest {
    /// Sends the request with its descriptors.
    pub fn send(&self, to: &UnixStream, descriptors: &Descriptors) -> io::Result<()> {
        let streams = &descriptors.streams;
        let from_client = streams.from_client.as_ref();
        let terminal = from_client.and_then(|from_client| from_client.terminal.as_ref());
        let passphrase = from_client.and_then(|from_client| from_client.passphrase.as_ref());
        let mut body = vec![u8::from(terminal.is_some()), u8::from(passphrase.is_some())];
        self.encode(&mut body);
        if body.len() > BODY_BYTES_MAX {
            return Err(io::Error::other(
                "the arguments and the environment are too long",
            ));
        }
        let mut header = MAGIC.to_vec();
        header.extend((body.len() as u32).to_le_bytes());
        let mut fds: Vec<BorrowedFd<'_>> = vec![
            streams.input.as_fd(),
            streams.output.as_fd(),
            streams.error.as_fd(),
            descriptors.directory.as_fd(),
        ];
        fds.extend(
            [terminal, passphrase]
                .into_iter()
                .flatten()
                .map(File::as_fd),
        );
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let iov = [IoSlice::new(&header)];
        let sent = sendmsg(to, &iov, &mut ancillary, SendFlags::NOSIGNAL)?;
        // The descriptors went with the first byte.
        let mut to = to;
        to.write_all(header.get(sent..).unwrap_or_default())?;
        to.write_all(&body)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let View {
            mounts,
            top,
            user,
            shown,
        } = &self.view;
        for number in mounts.iter().chain(top) {
            out.extend(number.to_le_bytes());
        }
        for number in user.iter().chain([&self.umask]) {
            out.extend(number.to_le_bytes());
        }
        let pairs = shown.iter().flat_map(|(point, what)| [point, what]);
        put_list(out, pairs.map(|field| OsStr::from_bytes(field)));
        put_list(out, self.arguments.iter().map(OsString::as_os_str));
        let pairs = self.environment.iter();
        let words = pairs.flat_map(|(name, value)| [name, value]);
        put_list(out, words.map(OsString::as_os_str));
    }

    fn decode(from: &mut Fields<'_>) -> io::Result<Self> {
        let mut view = View {
            mounts: [from.u64()?, from.u64()?],
            top: [from.u64()?, from.u64()?],
            user: [from.u32()?, from.u32()?],
            shown: Shown::new(),
        };
        let umask = from.u32()?;
        let pairs = from.pairs()?.into_iter();
        view.shown = pairs
            .map(|(point, what)| (point.into_vec(), what.into_vec()))
            .collect();
        let arguments = from.list()?;
        let environment = from.pairs()?;
        match from.0 {
            [] => Ok(Self {
                view,
                umask,
                arguments,
                environment,
            }),
            _ => Err(malformed("is longer than it says")),
        }
    }
}

/// Reads until a moment: a limit for each read would let a client send a byte now and then without
/// end.
struct Within<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Within<'_> {
    fn set_limit(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.stream.set_read_timeout(Some(left)),
        }
    }
}

impl Read for Within<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.set_limit()?;
        self.stream.read(into)
    }
}

impl Opening {
    /// Receives the first message, with its descriptors. It must be there within `limit`.
    pub fn receive(stream: &UnixStream, limit: Duration) -> io::Result<Self> {
        let mut from = Within {
            stream,
            until: Instant::now() + limit,
        };
        from.set_limit()?;
        let mut header = [0; HEADER_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut iov = [IoSliceMut::new(&mut header)];
        let received = recvmsg(stream, &mut iov, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut fds: Vec<OwnedFd> = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        from.read_exact(header.get_mut(received.bytes..).unwrap_or_default())?;
        let (magic, len) = header.split_at(MAGIC.len());
        if magic == lease::MAGIC {
            let hello = Hello::decode(&header).map_err(|e| malformed(e.what))?;
            return Ok(Self::Leases(hello));
        }
        if magic != MAGIC {
            return Err(malformed("has another version"));
        }
        let len =
            u32::from_le_bytes(len.try_into().map_err(|_| malformed("is truncated"))?) as usize;
        if len > BODY_BYTES_MAX {
            return Err(malformed("is too long"));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        let mut rest = Fields(&body);
        let (terminal, passphrase) = (rest.flag()?, rest.flag()?);
        let request = CommandRequest::decode(&mut rest)?;
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or_else(|| malformed("lacks its descriptors"));
        let (input, output, error) = (next()?.into(), next()?.into(), next()?.into());
        let directory = next()?;
        let mut from_client = |is_there: bool| is_there.then(&mut next).transpose();
        let from_client = ClientDescriptors {
            terminal: from_client(terminal)?.map(File::from),
            passphrase: from_client(passphrase)?.map(File::from),
        };
        let streams = Streams {
            input,
            output,
            error,
            from_client: Some(from_client),
        };
        Ok(Self::Command(request, Descriptors { streams, directory }))
    }
}

fn put_list<'a>(out: &mut Vec<u8>, words: impl Iterator<Item = &'a OsStr>) {
    let words: Vec<&OsStr> = words.collect();
    out.extend((words.len() as u32).to_le_bytes());
    for word in words {
        out.extend((word.len() as u32).to_le_bytes());
        out.extend(word.as_bytes());
    }
}

/// The unread rest of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| malformed("is truncated"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?
            .try_into()
            .map_err(|_| malformed("is truncated"))
    }

    fn flag(&mut self) -> io::Result<bool> {
        Ok(self.array::<1>()? == [1])
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn list(&mut self) -> io::Result<Vec<OsString>> {
        let count = self.u32()?;
        let mut words = Vec::new();
        for _ in 0..count {
            let len = self.u32()? as usize;
            words.push(OsString::from_vec(self.take(len)?.to_vec()));
        }
        Ok(words)
    }

    fn pairs(&mut self) -> io::Result<Vec<(OsString, OsString)>> {
        let mut words = self.list()?.into_iter();
        let mut pairs = Vec::new();
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| malformed("is truncated"))?;
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

fn malformed(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the request {how}"))
}

impl Wish {
    /// Sends it.
    pub fn send(self, mut to: &UnixStream) -> io::Result<()> {
        to.write_all(&[self as u8])
    }

    /// Receives the next wish. `None` if the client has ended. Unknown bytes are ignored.
    pub fn receive(mut from: &UnixStream) -> Option<Self> {
        let mut byte = [0];
        loop {
            match from.read(&mut byte) {
                Ok(1) if byte == [Self::Stop as u8] => return Some(Self::Stop),
                Ok(1) if byte == [Self::Report as u8] => return Some(Self::Report),
                Ok(1) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
    }
}

impl CommandAnswer {
    /// Sends it.
    pub fn send(&self, mut to: &UnixStream) -> io::Result<()> {
        let bytes = match self {
            Self::Started => vec![b'S'],
            Self::Ended(code) => vec![b'X', *code],
            Self::Refused(why) => {
                let len = (why.len() as u32).to_le_bytes();
                [&b"N"[..], &len, why.as_bytes()].concat()
            }
        };
        to.write_all(&bytes)
    }

    /// Receives the next answer. `None` if the server has ended. A server that is silent until the
    /// stream's time limit is an error.
    pub fn receive(mut from: &UnixStream) -> io::Result<Option<Self>> {
        let mut kind = [0];
        match from.read_exact(&mut kind) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let why = "it does not answer; check whether the server hangs, or stop it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(_) => return Ok(None),
        }
        match kind {
            [b'S'] => Ok(Some(Self::Started)),
            [b'X'] => {
                let mut code = [0];
                from.read_exact(&mut code)?;
                let [code] = code;
                Ok(Some(Self::Ended(code)))
            }
            [b'N'] => {
                let mut len = [0; 4];
                from.read_exact(&mut len)?;
                let mut why = Vec::new();
                from.take(u64::from(u32::from_le_bytes(len)).min(WHY_BYTES_MAX))
                    .read_to_end(&mut why)?;
                Ok(Some(Self::Refused(
                    String::from_utf8_lossy(&why).into_owned(),
                )))
            }
            _ => Err(malformed("got an answer of another version")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_byte_by_byte_is_given_up() {
        let (server, mut client) = UnixStream::pair().unwrap();
        let trickle = std::thread::spawn(move || {
            let header = [&MAGIC[..], &1_000_000_u32.to_le_bytes()].concat();
            client.write_all(&header).unwrap();
            while client.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let received = Opening::receive(&server, Duration::from_millis(100));
        assert!(received.is_err());
        drop(server);
        trickle.join().unwrap();
    }
}
