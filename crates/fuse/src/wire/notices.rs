//! Encodes notices, which a session sends without a request. `kernel` calls this.
//!
//! Invariant: a notice is a reply without a request: its `unique` is 0, and its code takes the
//! place of the error.

use super::NodeId;
use super::constants::notice;
use super::replies::header;

/// Encodes a whole notice: header, fields, and the length of following data.
fn encode(code: i32, fields: &[u64], data_bytes: usize) -> Vec<u8> {
    let body = fields.len() * 8 + data_bytes;
    let mut bytes = header(0, code, body).to_vec();
    for field in fields {
        bytes.extend_from_slice(&field.to_ne_bytes());
    }
    bytes
}

/// Combines two 32-bit fields to one of 64.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    let (head, tail) = bytes.split_at_mut(4);
    head.copy_from_slice(&first.to_ne_bytes());
    tail.copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// Makes the kernel drop attributes of `node`, and pages of the range; length 0 means to the end.
pub fn invalidate_node(node: NodeId, offset: u64, len: u64) -> Vec<u8> {
    encode(notice::INVAL_INODE, &[node.0, offset, len], 0)
}

/// Makes the kernel drop `name` in a directory.
pub fn invalidate_name(directory: NodeId, name: &[u8]) -> Vec<u8> {
    let fields = [directory.0, pair(name.len() as u32, 0)];
    let mut bytes = encode(notice::INVAL_ENTRY, &fields, name.len() + 1);
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes
}

/// Makes the kernel put `data_bytes` into the page cache of `node`. The data itself follows.
pub fn store(node: NodeId, offset: u64, data_bytes: u32) -> Vec<u8> {
    let fields = [node.0, offset, pair(data_bytes, 0)];
    encode(notice::STORE, &fields, data_bytes as usize)
}

/// Makes the kernel send its cached bytes of the range. The answer contains `number`.
pub fn retrieve(number: u64, node: NodeId, offset: u64, len: u32) -> Vec<u8> {
    encode(notice::RETRIEVE, &[number, node.0, offset, pair(len, 0)], 0)
}
