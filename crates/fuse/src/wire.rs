//! Encodes and decodes the kernel's FUSE protocol, 7.23 to 7.38, with pure functions over bytes.
//! Sessions and dispatch call this.
//!
//! Invariant: no I/O, no panic on any bytes. Numbers are in the machine's byte order, as in the
//! kernel. Source: `include/uapi/linux/fuse.h`.

/// Identifies a node (a file, directory, ...) in requests. The top directory's is always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The top directory.
    pub const ROOT: Self = Self(constants::ROOT_NODE);
}

/// Identifies an opened file or directory in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle(pub u64);

pub mod constants;
mod cursor;
pub mod replies;
pub mod requests;
#[cfg(test)]
mod tests;
