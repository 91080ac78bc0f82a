//! Layouts of what a session tells the kernel unasked.
//!
//! Invariant: a notice is a reply without a request: its `unique` is 0 and its code stands where
//! errors stand.

use super::NodeId;
use super::constants::notice;
use super::replies::header;

/// A whole notice: header, fields, and data that follows.
fn encode(code: i32, fields: &[u64], data_bytes: usize) -> Vec<u8> {
    let body = fields.len() * 8 + data_bytes;
    let mut bytes = header(0, code, body).to_vec();
    for field in fields {
        bytes.extend_from_slice(&field.to_ne_bytes());
    }
    bytes
}

/// Two 32-bit fields as one of 64.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    let (head, tail) = bytes.split_at_mut(4);
    head.copy_from_slice(&first.to_ne_bytes());
    tail.copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Forget attributes of `node`, and pages of the range; length 0 means to the end.
pub fn invalidate_node(node: NodeId, offset: u64, len: u64) -> Vec<u8> {
    encode(notice::INVAL_INODE, &[node.0, offset, len], 0)
}

/// Forget `name` in a directory.
pub fn invalidate_name(directory: NodeId, name: &[u8]) -> Vec<u8> {
    let fields = [directory.0, pair(name.len() as u32, 0)];
    let mut bytes = encode(notice::INVAL_ENTRY, &fields, name.len() + 1);
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes
}

/// Take `data` into the page cache of `node`: all but the data itself.
pub fn store(node: NodeId, offset: u64, data_bytes: u32) -> Vec<u8> {
    let fields = [node.0, offset, pair(data_bytes, 0)];
    encode(notice::STORE, &fields, data_bytes as usize)
}

/// Send what the page cache has of the range; `number` comes back with it.
pub fn retrieve(number: u64, node: NodeId, offset: u64, len: u32) -> Vec<u8> {
    encode(notice::RETRIEVE, &[number, node.0, offset, pair(len, 0)], 0)
}
