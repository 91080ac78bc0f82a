//! Serves file systems in user space: mounts a [`FileSystem`] at a directory of this machine, and
//! shows volumes as files.
//!
//! The program calls [`mount()`] and [`Session`]. [`wire`] contains layouts only, `negotiation` and
//! `dispatch` contain decisions over them, `device`, `mount` and `session` move the bytes.
//!
//! Invariant: no bytes of the kernel's requests cause a panic or allocate more than the limits
//! allow. Volumes are always wrapped in [`volume::Checked`]. Nothing here knows about
//! deduplication.
#![forbid(unsafe_code)]

mod device;
mod dispatch;
mod errno;
mod file_system;
pub mod fuzzing;
mod leader;
mod listing;
mod mount;
mod negotiation;
mod session;
#[cfg(test)]
mod test_kernel;
mod volume_files;
pub mod wire;

pub use errno::errno;
pub use file_system::{
    Attributes, FileSystem, Node, Opened, SeekTarget, Statistics, Time, Zeroing, file_type,
};
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
