//! Provides entry points for fuzzers: arbitrary bytes go in; nothing may panic or hang. The fuzz
//! targets and the seeded loops of the tests call these.
//!
//! Invariant: the same bytes always do the same.

use crate::exports::{Exports, FixedExports};
use crate::negotiation::Negotiation;
use crate::session::Session;
use crate::wire::{options, requests};
use connections::Replay;
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

fn exports() -> impl Exports + use<> {
    let disk = MemoryVolume::new(1 << 20);
    disk.mark("then");
    FixedExports::default()
        .with("disk", Arc::new(disk))
        .with("odd", Arc::new(ReadOnly::new(MemoryVolume::new(12_345))))
        .with_default("disk")
}
