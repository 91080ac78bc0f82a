//! Provides entry points for fuzzers: arbitrary bytes go in; nothing may panic or hang. The fuzz
//! targets and the seeded loops of the tests call these.
//!
//! Invariant: the same bytes always do the same.

use crate::client::Client;
use crate::exports::{Exports, FixedExports};
use crate::negotiation::Negotiation;
use crate::session::Session;
use crate::wire::{options, requests};
use connections::Replay;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use volume::{MemoryVolume, ReadOnly};

/// Feeds `data` to every decoder of the handshake, and to the negotiation as one option, which its
/// first byte selects.
pub fn fuzz_options(data: &[u8]) {
    let _ = options::decode_header(data);
    let _ = options::decode_info(data);
    let _ = options::decode_contexts(data);
    let _ = options::decode_name(data);
    if let Some((option, rest)) = data.split_first() {
        let exports = exports();
        let mut out = Vec::new();
        let mut negotiation = Negotiation::new(&exports, &|_| {}, true);
        negotiation.option(8, &[], &mut out);
        negotiation.option(u32::from(*option), rest, &mut out);
    }
}

/// Feeds `data` to the decoder of requests.
pub fn fuzz_requests(data: &[u8]) {
    if let Some(filter) = requests::decode_status_filter(data) {
        assert!(!filter.ids.is_empty() && filter.ids.len() * 4 < data.len());
    }
    for extended in [false, true] {
        if let Some(request) = requests::decode(data, extended) {
            let _ = request.payload_bytes(extended);
            let again = requests::encode(&request, extended);
            assert_eq!(requests::decode(&again, extended), Some(request));
        }
    }
}

/// Runs a whole session with a client that sends exactly `data`, against small volumes in memory.
pub fn fuzz_session(data: &[u8]) {
    let stream = Arc::new(Replay::new(data));
    Session::alone(stream, Arc::new(exports()), Duration::from_secs(10)).run();
}

/// Lets a server that sends exactly `data` answer a client, which opens an export, asks for its
/// zeroes and reads the begin, the middle and the end.
pub fn fuzz_client(data: &[u8]) {
    let Ok(mut client) = Client::connect(Answers(data), "disk") else {
        return;
    };
    let size = client.size();
    if let Ok(extents) = client.extents(0) {
        assert!(!extents.is_empty() && extents.iter().map(|e| e.len).sum::<u64>() <= size);
    }
    let mut into = [0; 10_000];
    for at in [0, size / 2, size.saturating_sub(10_000)] {
        let len = (size - at).min(10_000) as usize;
        if client.read(at, &mut into[..len]).is_err() {
            return;
        }
    }
}

/// A server that sends these bytes, whatever it is asked.
struct Answers<'a>(&'a [u8]);

impl Read for Answers<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Answers<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn exports() -> impl Exports + use<> {
    let disk = MemoryVolume::new(1 << 20);
    disk.mark("then");
    FixedExports::default()
        .with("disk", Arc::new(disk))
        .with("odd", Arc::new(ReadOnly::new(MemoryVolume::new(12_345))))
        .with_default("disk")
}
