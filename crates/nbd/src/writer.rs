//! Sends whole replies, from any thread of a connection.
//!
//! Invariant: replies never mix; after a failed send the connection is down for everyone. Sessions
//! and workers share one.

use crate::connection::Connection;
use parking_lot::Mutex;
use std::sync::Arc;

/// The way out of one connection.
pub(crate) struct Writer {
    connection: Arc<Connection>,
    /// Held while a reply goes out; true after a send failed.
    broken: Mutex<bool>,
}

/// The client is gone, or does not take its replies.
pub(crate) struct Gone;

impl Writer {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            broken: Mutex::new(false),
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let mut broken = self.broken.lock();
        let connection = &*self.connection;
        let mut rest = bytes;
        connection.taking.start(connection);
        while !rest.is_empty() && !*broken {
            match connection.stream.send(rest) {
                Ok(sent) if sent > 0 => rest = rest.get(sent..).unwrap_or_default(),
                Ok(_) | Err(_) => *broken = true,
            }
        }
        connection.taking.stop();
        if *broken {
            connection.drop_now();
            return Err(Gone);
        }
        Ok(())
    }

    /// True if no reply can reach the client.
    pub(crate) fn client_is_gone(&self) -> bool {
        self.connection.look_for_client()
    }

    /// Ends the connection without a reply.
    pub(crate) fn drop_now(&self) {
        self.connection.drop_now();
    }
}
