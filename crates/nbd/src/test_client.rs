//! Implements a client for the tests. It sends exactly what a test asks for, valid or not.
//!
//! Invariant: it waits at most a minute for an answer, so no test hangs. Silence fails a test.

use crate::exports::{Exports, FixedExports};
use crate::session::Session;
use crate::wire::constants::{EXTENDED_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};
use crate::wire::cursor::Cursor;
use crate::wire::requests::{Command, NbdRequest, encode};
use connections::End;
use connections::ServerCounters;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use volume::Volume;

/// The other end of a session.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) extended: bool,
    cookie: u64,
}

/// One chunk, or one simple reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) magic: u32,
    pub(crate) cookie: u64,
    pub(crate) kind: u16,
    pub(crate) done: bool,
    pub(crate) error: u32,
    pub(crate) payload: Vec<u8>,
}

/// Starts a session on a separate thread, and returns the client's end of it.
pub(crate) fn session(
    exports: Arc<dyn Exports>,
    change: impl FnOnce(&mut Session),
) -> (Client, JoinHandle<End>, Arc<ServerCounters>) {
    let (near, far) = UnixStream::pair().unwrap();
    let mut session = Session::alone(Arc::new(far), exports, Duration::from_secs(60));
    let counters = session.context.counters.clone();
    change(&mut session);
    let thread = thread::spawn(move || session.run());
    (Client::new(near), thread, counters)
}

/// Starts a session that serves `volume`, up to the start of transmission.
pub(crate) fn serving(
    volume: Arc<dyn Volume>,
    options: &[u32],
) -> (Client, JoinHandle<End>, Arc<ServerCounters>) {
    let exports = Arc::new(FixedExports::default().with("disk", volume));
    let (mut client, thread, counters) = session(exports, |_| {});
    client.greet(3);
    for option in options {
        match option {
            10 => client.option(10, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation"),
            _ => client.option(*option, &[]),
        }
        client.option_replies();
    }
    client.extended = options.contains(&11);
    client.go("");
    (client, thread, counters)
}

impl Client {
    pub(crate) fn new(stream: UnixStream) -> Self {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self {
            stream,
            extended: false,
            cookie: 0,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns true if the server closed without sending more.
    pub(crate) fn closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(received) => received == 0,
            Err(e) if e.kind() == ErrorKind::ConnectionReset => true,
            Err(e) => panic!("neither bytes nor the end: {e}"),
        }
    }

    pub(crate) fn greet(&mut self, flags: u32) {
        assert_eq!(self.receive(18), b"NBDMAGICIHAVEOPT\0\x03");
        self.send(&flags.to_be_bytes());
    }

    pub(crate) fn option(&mut self, option: u32, data: &[u8]) {
        self.send(b"IHAVEOPT");
        self.send(&option.to_be_bytes());
        self.send(&(data.len() as u32).to_be_bytes());
        self.send(data);
    }

    /// Returns the replies up to the final one: kind and data.
    pub(crate) fn option_replies(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            let head = self.receive(20);
            let mut cursor = Cursor::new(&head);
            assert_eq!(cursor.u64(), Some(0x0003_e889_0455_65a9));
            let _option = cursor.u32();
            let (kind, len) = (cursor.u32().unwrap(), cursor.u32().unwrap());
            replies.push((kind, self.receive(len as usize)));
            if kind == 1 || kind >= 1 << 31 {
                return replies;
            }
        }
    }

    pub(crate) fn go(&mut self, name: &str) {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&[0, 0]);
        self.option(7, &data);
        assert_eq!(self.option_replies().last().map(|r| r.0), Some(1));
    }

    /// Sends a request and returns its cookie.
    pub(crate) fn ask(&mut self, command: Command, flags: u16, offset: u64, len: u64) -> u64 {
        self.cookie += 1;
        let request = NbdRequest {
            flags,
            command: command as u16,
            cookie: self.cookie,
            offset_bytes: offset,
            len_bytes: len,
        };
        self.send(&encode(&request, self.extended));
        self.cookie
    }

    /// Returns the next reply. Data follows a simple one if `data_bytes` is not 0 and it is no
    /// error.
    pub(crate) fn reply(&mut self, data_bytes: usize) -> Reply {
        let magic = u32::from_be_bytes(self.receive(4).try_into().unwrap());
        if magic == SIMPLE_REPLY_MAGIC {
            let head = self.receive(12);
            let mut cursor = Cursor::new(&head);
            let (error, cookie) = (cursor.u32().unwrap(), cursor.u64().unwrap());
            let data_bytes = if error == 0 { data_bytes } else { 0 };
            return Reply {
                magic,
                cookie,
                kind: 0,
                done: true,
                error,
                payload: self.receive(data_bytes),
            };
        }
        let head = match magic {
            STRUCTURED_REPLY_MAGIC => self.receive(16),
            EXTENDED_REPLY_MAGIC => self.receive(28),
            _ => panic!("magic {magic:x}"),
        };
        let mut cursor = Cursor::new(&head);
        let (flags, kind) = (cursor.u16().unwrap(), cursor.u16().unwrap());
        let cookie = cursor.u64().unwrap();
        let len = match magic {
            STRUCTURED_REPLY_MAGIC => u64::from(cursor.u32().unwrap()),
            _ => {
                cursor.u64();
                cursor.u64().unwrap()
            }
        };
        let payload = self.receive(len as usize);
        let error = match kind & 0x8000 {
            0 => 0,
            _ => Cursor::new(&payload).u32().unwrap(),
        };
        Reply {
            magic,
            cookie,
            kind,
            done: flags & 1 != 0,
            error,
            payload,
        }
    }

    /// Sends a request and returns the error of its only reply.
    pub(crate) fn errno(&mut self, command: Command, flags: u16, offset: u64, len: u64) -> u32 {
        let cookie = self.ask(command, flags, offset, len);
        let reply = self.reply(0);
        assert_eq!((reply.cookie, reply.done), (cookie, true));
        reply.error
    }
}
