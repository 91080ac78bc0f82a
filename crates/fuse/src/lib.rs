//! File systems in user space: shows a [`FileSystem`] at a directory of this machine, and volumes
//! as files.
//!
//! Invariant: the kernel is believed but not trusted with our memory: no bytes of its requests
//! panic or allocate more than the limits say. The volumes behind are always wrapped in
//! [`volume::Checked`]. The program calls [`mount()`] and [`Session`]; nothing here knows
//! deduplication.
//!
//! [`wire`] is pure layout, `negotiation` and `dispatch` are decisions over it, `device`, `mount`
//! and `session` move the bytes.
#![forbid(unsafe_code)]

mod device;
mod dispatch;
mod errno;
mod file_system;
pub mod fuzzing;
mod kernel;
mod listing;
mod mount;
mod negotiation;
mod session;
#[cfg(test)]
mod test_kernel;
mod turn;
mod volume_files;
pub mod wire;

pub use errno::errno;
pub use file_system::{
    Attributes, FileSystem, Node, Opened, SeekTarget, Statistics, Time, Zeroing, file_type,
};
pub use kernel::Kernel;
pub use listing::{Full, Listing};
pub use mount::{
    MountError, MountOptions, Mounted, Unmounter, is_abandoned, mount, unmount_abandoned,
};
pub use rustix::io::Errno;
pub use session::{Session, SessionError, SessionOptions};
pub use volume_files::{
    FixedVolumes, VolumeEntry, VolumeFiles, VolumeList, Volumes, read_within, seek_extent,
};
pub use wire::{Handle, NodeId};
