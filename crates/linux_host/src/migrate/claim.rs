//! One defragmenter at a time for each file. `migrate` takes a claim when it opens a file.
//!
//! Invariant: a claim ends with its process, however that ends. It is a name in the kernel (an
//! abstract socket that nobody listens on) and not a lock on the file: the file belongs to
//! applications, and many of them use locks of the whole file.

use super::error::MigrationError;
use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The right to move extents of a file, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    _name: UnixDatagram,
}

impl Claim {
    /// Takes the claim, or says that another process has it.
    pub fn take(file: &File) -> Result<Self, MigrationError> {
        let of = |source: io::Error| MigrationError::of("claim the file", source);
        let metadata = file.metadata().map_err(of)?;
        // On btrfs each subvolume has its own device number.
        let name = format!("quintet/defrag/{}/{}", metadata.dev(), metadata.ino());
        let address = SocketAddr::from_abstract_name(name).map_err(of)?;
        match UnixDatagram::bind_addr(&address) {
            Ok(socket) => Ok(Self { _name: socket }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(MigrationError::HeldByAnother),
            Err(e) => Err(of(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_a_file_until_it_is_dropped() {
        let (a, b) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let claim = Claim::take(&a).unwrap();
        let again = Claim::take(&a.try_clone().unwrap());
        assert!(matches!(again, Err(MigrationError::HeldByAnother)));
        Claim::take(&b).unwrap();
        drop(claim);
        Claim::take(&a).unwrap();
    }
}
