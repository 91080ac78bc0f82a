//! Tests exports that change or are removed while clients use them.

use super::tests::{Place, connect};
use super::*;
use crate::exports::FixedExports;
use crate::test_client::Client;
use crate::wire::constants::command_flag as flag;
use crate::wire::requests::{Command, NbdRequest, encode};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use volume::MemoryVolume;

#[test]
fn an_export_is_closed_for_its_clients_only() {
    let place = Place::new();
    let disk = || Arc::new(MemoryVolume::new(1 << 20));
    let exports = FixedExports::default()
        .with("disk", disk())
        .with("other", disk())
        .with_default("other");
    let server = Server::bind_unix(&place.0, Arc::new(exports), ServerLimits::default()).unwrap();
    let handle = server.start().unwrap();
    let go = |name| {
        let mut client = Client::new(UnixStream::connect(&place.0).unwrap());
        client.greet(3);
        client.go(name);
        client
    };
    let mut first = go("disk");
    let mut second = go("disk");
    let mut other = go("");
    let mut choosing = Client::new(UnixStream::connect(&place.0).unwrap());
    choosing.greet(3);
    choosing.option(6, b"\0\0\0\x04disk\0\0");
    choosing.option_replies();
    assert_eq!((handle.clients("disk"), handle.clients("other")), (3, 1));
    assert_eq!(handle.clients("none"), 0);
    // Requests that have arrived are answered.
    first.ask(Command::Write, flag::FUA, 0, 5);
    first.send(b"hello");
    while handle.stats().requests_total[Command::Write as usize] < 1 {
        thread::yield_now();
    }
    assert_eq!(handle.close_export("disk"), 3);
    assert_eq!(first.reply(0).error, 0);
    assert!(first.closed() && second.closed() && choosing.closed());
    assert_eq!(other.errno(Command::Flush, 0, 0, 0), 0);
    while handle.clients("disk") > 0 {
        thread::yield_now();
    }
    assert_eq!(handle.clients("other"), 1);
}

#[test]
fn a_resized_volume_is_served_as_it_is() {
    let place = Place::new();
    let disk = MemoryVolume::new(1 << 20);
    let exports = FixedExports::default().with("disk", Arc::new(disk.clone()));
    let server = Server::bind_unix(&place.0, Arc::new(exports), ServerLimits::default()).unwrap();
    let handle = server.start().unwrap();
    let size = |client: &mut Client| {
        client.option(6, b"\0\0\0\0\0\0");
        let export = client.option_replies().remove(0).1;
        u64::from_be_bytes(export[2..10].try_into().unwrap())
    };
    let mut choosing = Client::new(UnixStream::connect(&place.0).unwrap());
    choosing.greet(3);
    assert_eq!(size(&mut choosing), 1 << 20);
    let mut old = connect(&place);
    disk.resize(2 << 20);
    assert_eq!(
        size(&mut choosing),
        2 << 20,
        "the same connection asks again"
    );
    assert_eq!(old.errno(Command::Trim, 0, 1 << 20, 4096), 0);
    disk.resize(4096);
    assert_eq!(old.errno(Command::Trim, 0, 4096, 1), 22);
    assert_eq!(old.errno(Command::WriteZeroes, 0, 4096, 1), 28);
    assert_eq!(old.errno(Command::Flush, 0, 0, 0), 0);
    assert_eq!(size(&mut choosing), 4096);
    drop(handle);
}

/// TCP continues to receive after a shutdown, so ending that direction is not enough.
#[test]
fn a_busy_tcp_client_is_closed_too() {
    let volume = Arc::new(MemoryVolume::new(1 << 20));
    let exports = Arc::new(FixedExports::default().with("disk", volume));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind_tcp(address, exports, ServerLimits::default()).unwrap();
    let handle = server.start().unwrap();
    let mut stream = TcpStream::connect(handle.address().unwrap()).unwrap();
    stream
        .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk")
        .unwrap();
    let mut replies = stream.try_clone().unwrap();
    let reader = thread::spawn(move || while matches!(replies.read(&mut [0; 1 << 16]), Ok(1..)) {});
    let request = NbdRequest {
        flags: 0,
        command: Command::Read as u16,
        cookie: 1,
        offset_bytes: 0,
        len_bytes: 64,
    };
    let requests = encode(&request, false).repeat(50);
    let writer = thread::spawn(move || while stream.write_all(&requests).is_ok() {});
    while handle.stats().requests_total[Command::Read as usize] < 1000 {
        thread::yield_now();
    }
    assert_eq!(handle.close_export("disk"), 1);
    let began = Instant::now();
    while handle.clients("disk") > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on");
        thread::yield_now();
    }
    writer.join().unwrap();
    reader.join().unwrap();
}
