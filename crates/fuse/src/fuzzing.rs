//! Provides entry points for fuzzers: arbitrary bytes go in; nothing may panic or hang. The fuzz
//! target and the seeded loops of the tests call these.
//!
//! Invariant: the same bytes always do the same.

use crate::dispatch::{Body, Outcome, dispatch, dispatch_now};
use crate::negotiation::{Answer, answer};
use crate::volume_files::{FixedVolumes, VolumeFiles};
use crate::wire::replies;
use crate::wire::requests::{self, Operation};
use media::FixedClock;
use std::sync::Arc;
use volume::{MemoryVolume, ReadOnly};

/// Interprets `data` as requests, split by their length fields, and executes them on small volumes.
pub fn fuzz_requests(data: &[u8]) {
    let volumes = FixedVolumes::default()
        .with("disk", Arc::new(MemoryVolume::new(1 << 20)))
        .with("odd", Arc::new(ReadOnly::new(MemoryVolume::new(12_345))));
    let files = VolumeFiles::new(Arc::new(volumes), Arc::new(FixedClock::default()));
    let mut body = Body::default();
    let mut rest = data;
    while let Some(len) = rest.first_chunk::<4>() {
        let len = (u32::from_ne_bytes(*len) as usize).clamp(4, rest.len());
        let (request, later) = rest.split_at(len);
        rest = later;
        let _ = requests::decode_header(request);
        let Some((header, operation)) = requests::decode(request) else {
            continue;
        };
        if let Operation::Init(offer) = operation {
            let (Answer::Agreed(agreed) | Answer::AskAgain(agreed)) = answer(&offer, true, true)
            else {
                continue;
            };
            let mut bytes = Vec::new();
            replies::agreement(&mut bytes, &agreed);
            assert_eq!(agreed.flags & !offer.flags, 0);
        }
        let room = match operation {
            Operation::Read(range) | Operation::ReadDirectory { range, .. } => range.len as usize,
            _ => 128,
        };
        let outcome = dispatch_now(&files, &header, &operation, &mut body)
            .unwrap_or_else(|| dispatch(&files, &header, &operation, &mut body));
        if let Outcome::Reply(Ok(())) = outcome {
            assert!(body.as_bytes().len() <= room);
        }
    }
}
