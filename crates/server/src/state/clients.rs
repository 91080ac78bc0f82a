//! The clients of a server: NBD connections, iSCSI sessions, and volumes that are open as files.
//! `serve` registers the servers here; commands that change an export count and disconnect its
//! clients.
//!
//! Invariant: between [`Clients::disconnect`] and the end of a change ([`Clients::begin_change`]),
//! no client uses the export.

use super::changing::{Changes, Changing};
use super::open_files::{OpenFile, OpenFiles};
use crate::targets::target_of;
use iscsi::{EndedSession, TargetCloser};
use nbd::{ServerHandle, Stats};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use volume::Volume;

/// Time that requests of disconnected NBD clients have to be answered, before the clients are
/// dropped, and again after that.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The clients of a server. See the module's head.
#[derive(Default)]
pub struct Clients {
    nbd: Mutex<Vec<ServerHandle>>,
    iscsi: Mutex<Vec<iscsi::ServerHandle>>,
    files: Arc<OpenFiles>,
    changes: Arc<Changes>,
}

impl Clients {
    /// Registers an NBD server until [`Clients::take_nbd`].
    pub fn add_nbd(&self, server: ServerHandle) {
        self.nbd.lock().push(server);
    }

    /// Removes and returns the NBD servers, so that the caller can stop them.
    pub fn take_nbd(&self) -> Vec<ServerHandle> {
        std::mem::take(&mut *self.nbd.lock())
    }

    /// Registers an iSCSI server until [`Clients::take_iscsi`].
    pub fn add_iscsi(&self, server: iscsi::ServerHandle) {
        self.iscsi.lock().push(server);
    }

    /// Removes and returns the iSCSI servers, so that the caller can stop them.
    pub fn take_iscsi(&self) -> Vec<iscsi::ServerHandle> {
        std::mem::take(&mut *self.iscsi.lock())
    }

    /// Returns the addresses of the iSCSI servers.
    pub fn iscsi_addresses(&self) -> Vec<SocketAddr> {
        let servers = self.iscsi.lock();
        let addresses = servers.iter().map(iscsi::ServerHandle::address);
        addresses.flatten().collect()
    }

    /// Ends the iSCSI sessions that the rules of access allow no longer, and returns them.
    pub fn end_unadmitted(&self) -> Vec<EndedSession> {
        // Not under the lock: `status` needs it meanwhile.
        let closer = iscsi::ServerHandle::closer;
        let closers: Vec<_> = self.iscsi.lock().iter().map(closer).collect();
        let ended = closers.iter().flat_map(TargetCloser::end_unadmitted);
        ended.collect()
    }

    /// Returns the sums of all NBD servers.
    pub fn nbd_stats(&self) -> Stats {
        sum(self.nbd.lock().iter().map(ServerHandle::stats))
    }

    /// Returns the sums of all iSCSI servers.
    pub fn iscsi_stats(&self) -> Stats {
        sum(self.iscsi.lock().iter().map(iscsi::ServerHandle::stats))
    }

    /// Registers a volume as an open file of a mount.
    pub fn open_file<V: Volume>(&self, name: &str, volume: V) -> OpenFile<V> {
        OpenFiles::open(&self.files, name, volume)
    }

    /// Returns the number of connections, sessions and open files that use an export.
    pub fn count(&self, export: &str) -> usize {
        self.count_with(export, ServerHandle::clients)
    }

    /// The same without connections whose client has disconnected already.
    pub fn connected(&self, export: &str) -> usize {
        self.count_with(export, ServerHandle::clients_connected)
    }

    fn count_with(&self, export: &str, of: fn(&ServerHandle, &str) -> usize) -> usize {
        let servers = self.nbd.lock();
        let connections: usize = servers.iter().map(|server| of(server, export)).sum();
        drop(servers);
        let (servers, target) = (self.iscsi.lock(), target_of(export));
        let sessions: usize = servers.iter().map(|server| server.sessions(&target)).sum();
        connections + sessions + self.files.count(export)
    }

    /// Refuses to open an export until the result is dropped. Commands that change what an export
    /// is call this before they disconnect its clients.
    pub fn begin_change(&self, export: &str) -> Changing {
        Changes::begin(&self.changes, export)
    }

    /// Returns true if clients must not open the export now.
    pub fn is_changing(&self, export: &str) -> bool {
        self.changes.has(export)
    }

    /// Disconnects the clients of an export and returns their number. When this returns, none of
    /// their requests is executed any more, unless one takes longer than [`CLOSE_LIMIT`]. Open
    /// files fail from now on.
    pub fn disconnect(&self, export: &str) -> usize {
        let connections = |server: &ServerHandle| server.close_export(export);
        let closed: usize = self.nbd.lock().iter().map(connections).sum();
        let closed = closed + self.files.disconnect(export);
        let target = target_of(export);
        // Not under the lock: `status` needs it meanwhile.
        let closer = iscsi::ServerHandle::closer;
        let closers: Vec<_> = self.iscsi.lock().iter().map(closer).collect();
        let asked = closers.iter().map(|closer| closer.close_target(&target));
        let asked: usize = asked.sum();
        for server in &*self.nbd.lock() {
            if !server.wait_for_none(export, CLOSE_LIMIT) {
                server.drop_export(export);
                server.wait_for_none(export, CLOSE_LIMIT);
            }
        }
        closed + asked
    }
}

fn sum(all: impl Iterator<Item = Stats>) -> Stats {
    all.fold(Stats::default(), |mut sum, stats| {
        sum.add(&stats);
        sum
    })
}
