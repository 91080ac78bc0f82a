//! Defines the errors at the start of a server. The program shows them.
//!
//! Invariant: a kind exists only where the user has to act differently.

use connections::ListenError;
use std::net::SocketAddr;

/// Reason why [`crate::Server`] did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is reachable from other machines, and discovery is open to all of them.
    #[error(
        "cannot serve iSCSI on {0}: off loopback, discovery needs CHAP and a list of initiators"
    )]
    NotProtected(SocketAddr),
    /// A secret is too short, or the same in both directions.
    #[error(
        "cannot serve iSCSI: CHAP secrets need 12 bytes, and must differ between the directions"
    )]
    WeakSecret,
    /// The size of a block is none that SCSI knows.
    #[error("cannot serve iSCSI with blocks of {0} bytes: use 512 or 4096")]
    BlockSize(u32),
    /// The socket cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}
