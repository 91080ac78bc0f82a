//! Implements the kernel's side of the protocol for tests: builds requests and decodes replies.

use crate::wire::constants::init;
use crate::wire::{NodeId, replies, requests};

/// Returns a request with `body` after its header.
pub(crate) fn request(opcode: u32, node: NodeId, unique: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = (requests::HEADER_BYTES + body.len()) as u32;
    bytes.extend(len.to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(node.0.to_ne_bytes());
    for id in [1000u32, 1001, 4242, 0] {
        bytes.extend(id.to_ne_bytes());
    }
    bytes.extend(body);
    bytes
}

/// Encodes numbers of 64 bits.
pub(crate) fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
}

/// Encodes numbers of 32 bits.
pub(crate) fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_ne_bytes()).collect()
}

/// Returns the fields of READ, WRITE and READDIR.
pub(crate) fn range(handle: u64, offset: u64, len: u32) -> Vec<u8> {
    [longs(&[handle, offset]), words(&[len, 0, 0, 0, 0, 0])].concat()
}

/// Returns the offer of a kernel of version 7.`minor`, with all flags.
pub(crate) fn offer(minor: u32) -> Vec<u8> {
    let flags = !(init::INIT_EXT as u32);
    [words(&[7, minor, 131_072, flags]), vec![0; 48]].concat()
}

/// Returns error (negative), unique and body of a reply.
pub(crate) fn reply(bytes: &[u8]) -> (i32, u64, &[u8]) {
    let len = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
    assert_eq!(len as usize, bytes.len(), "length in the header");
    let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
    let unique = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
    (error, unique, &bytes[replies::HEADER_BYTES..])
}

/// Returns the 64-bit number at `at`.
pub(crate) fn long_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Returns the 32-bit number at `at`.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}
