//! Tests listening, limits and stopping, over real sockets.

use super::*;
use crate::exports::FixedExports;
use crate::test_client::Client;
use crate::wire::requests::Command;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use volume::MemoryVolume;

/// A path that is removed on drop.
pub(super) struct Place(pub(super) PathBuf);

impl Place {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("nbd-test-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn exports() -> Arc<dyn Exports> {
    Arc::new(FixedExports::default().with("disk", Arc::new(MemoryVolume::new(1 << 20))))
}

fn start(place: &Place, options: ServerLimits) -> ServerHandle {
    let server = Server::bind_unix(&place.0, exports(), options).unwrap();
    server.start().unwrap()
}

pub(super) fn connect(place: &Place) -> Client {
    let mut client = Client::new(UnixStream::connect(&place.0).unwrap());
    client.greet(3);
    client.go("");
    client
}

#[test]
fn serves_many_and_stops_for_all() {
    let place = Place::new();
    let handle = start(&place, ServerLimits::default());
    let mode = fs::metadata(&place.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut clients: Vec<Client> = (0..10).map(|_| connect(&place)).collect();
    for client in &mut clients {
        assert_eq!(client.errno(Command::Flush, 0, 0, 0), 0);
    }
    assert_eq!(handle.stats().connections, 10);
    let mut silent = Client::new(UnixStream::connect(&place.0).unwrap());
    silent.receive(18);
    assert!(handle.stop());
    for client in &mut clients {
        assert!(client.closed());
    }
    assert!(silent.closed());
    assert!(!place.0.exists());
}

#[test]
fn there_are_only_so_many_permits() {
    let place = Place::new();
    let options = ServerLimits {
        connections_max: 2,
        ..ServerLimits::default()
    };
    let handle = start(&place, options);
    let mut first = connect(&place);
    let mut second = connect(&place);
    // After an answer to a request a client is admitted.
    for client in [&mut first, &mut second] {
        assert_eq!(client.errno(Command::Flush, 0, 0, 0), 0);
    }
    let mut third = Client::new(UnixStream::connect(&place.0).unwrap());
    assert!(third.closed());
    assert_eq!(second.errno(Command::Flush, 0, 0, 0), 0);
    drop(first);
    while handle.stats().connections > 1 {
        thread::yield_now();
    }
    let mut fourth = connect(&place);
    assert_eq!(fourth.errno(Command::Flush, 0, 0, 0), 0);
    let stats = handle.stats();
    assert_eq!(stats.connections_refused_total, 1);
    assert_eq!(stats.connections_total, 4);
}

#[test]
fn dead_sockets_are_replaced_and_live_ones_are_not() {
    let place = Place::new();
    drop(UnixListener::bind(&place.0).unwrap());
    assert!(place.0.exists());
    let handle = start(&place, ServerLimits::default());
    let second = Server::bind_unix(&place.0, exports(), ServerLimits::default());
    assert!(matches!(
        second.err(),
        Some(ServerError::Listen(ListenError::SocketInUse(_)))
    ));
    assert_eq!(connect(&place).errno(Command::Flush, 0, 0, 0), 0);
    drop(handle);
    fs::write(&place.0, b"precious").unwrap();
    let file = Server::bind_unix(&place.0, exports(), ServerLimits::default());
    assert!(matches!(
        file.err(),
        Some(ServerError::Listen(ListenError::NotASocket(_)))
    ));
    assert_eq!(fs::read(&place.0).unwrap(), b"precious");
}

#[test]
fn tcp_is_for_loopback() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:10809"] {
        let address = address.parse().unwrap();
        let refused = Server::bind_tcp(address, exports(), ServerLimits::default());
        let error = refused.err().expect("refused");
        assert!(matches!(error, ServerError::NotLoopback(_)));
        assert!(error.to_string().contains("loopback"));
    }
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind_tcp(address, exports(), ServerLimits::default()).unwrap();
    let handle = server.start().unwrap();
    let address = handle.address().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"NBDMAGIC"));
    assert!(handle.stop());
}

#[test]
fn an_inherited_socket_is_left_in_place() {
    let place = Place::new();
    let listener = UnixListener::bind(&place.0).unwrap();
    let inherited = listener.try_clone().unwrap();
    let server = Server::from_unix_listener(inherited, exports(), ServerLimits::default());
    let handle = server.unwrap().start().unwrap();
    assert_eq!(connect(&place).errno(Command::Flush, 0, 0, 0), 0);
    assert!(handle.stop());
    assert!(place.0.exists());
    // Its owner still accepts connections.
    UnixStream::connect(&place.0).unwrap();
}
