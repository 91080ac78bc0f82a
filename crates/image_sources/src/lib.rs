//! Disk images that `quintet import` reads: files and devices, other formats through qemu, exports
//! of NBD servers, standard input. The program calls this.
//!
//! Invariant: see `examine`: the bytes of an image make this program read no file that the user did
//! not name.
#![forbid(unsafe_code)]

mod examine;
mod mounted;
mod nbd_export;
mod qemu;

pub use examine::{From, Original, examine};
pub use nbd_export::open;
pub use qemu::{from_raw, show};
