//! Sends whole replies from any thread of a connection. Sessions and workers share one.
//!
//! Invariant: replies never mix. After a failed send the connection is down for all threads.

use crate::connection::{Connection, Disconnected};
use parking_lot::Mutex;
use std::sync::Arc;

/// The sending side of one connection.
pub struct ReplyWriter {
    connection: Arc<Connection>,
    /// Locked while a reply is sent; true after a send failed.
    broken: Mutex<bool>,
}

impl ReplyWriter {
    /// Makes the sending side of `connection`.
    pub fn new(connection: Arc<Connection>) -> Self {
        Self {
            connection,
            broken: Mutex::new(false),
        }
    }

    /// Sends all of `bytes`.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Disconnected> {
        let mut broken = self.broken.lock();
        *broken = *broken || self.connection.send_all(bytes).is_err();
        if *broken {
            self.connection.drop_now();
            return Err(Disconnected);
        }
        Ok(())
    }
}
