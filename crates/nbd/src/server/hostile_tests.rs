//! Tests a well-behaved client beside others that stall, flood or vanish.
//!
//! Each hostile state would last for ever, and a client that gets no reply within a minute fails
//! its test.

use super::tests::{Place, connect};
use super::*;
use crate::exports::FixedExports;
use crate::test_client::Client;
use crate::wire::requests::Command;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use volume::MemoryVolume;

fn options() -> ServerLimits {
    ServerLimits {
        pool_bytes: 64 << 20,
        stall_limit: Duration::from_secs(3),
        handshake_limit: Duration::from_secs(60),
        ..ServerLimits::default()
    }
}

fn exports() -> Arc<dyn Exports> {
    Arc::new(FixedExports::default().with("disk", Arc::new(MemoryVolume::new(256 << 20))))
}

fn start(place: &Place, options: ServerLimits) -> ServerHandle {
    let server = Server::bind_unix(&place.0, exports(), options).unwrap();
    server.start().unwrap()
}

/// Does small reads and writes, each of which gets its reply.
fn watch(witness: &mut Client, rounds: u64) {
    for round in 0..rounds {
        let at = round % 64 * 4096;
        client_write(witness, at, 4096);
        witness.ask(Command::Read, 0, at, 4096);
        assert_eq!(witness.reply(4096).error, 0);
    }
}

fn client_write(client: &mut Client, at: u64, len: usize) {
    client.ask(Command::Write, 0, at, len as u64);
    client.send(&vec![1; len]);
    assert_eq!(client.reply(0).error, 0);
}

/// With any amount of memory, the largest requests of several clients are served one after the
/// other.
#[test]
fn the_smallest_pools_take_the_largest_requests() {
    let place = Place::new();
    let smallest = ServerLimits {
        pool_bytes: 0,
        // None of these clients stalls, however slow the machine is.
        stall_limit: Duration::from_secs(600),
        ..options()
    };
    let handle = start(&place, smallest);
    let len = crate::REQUEST_BYTES_MAX as usize;
    thread::scope(|scope| {
        for number in 0..3 {
            let place = &place;
            scope.spawn(move || {
                let (mut client, at) = (connect(place), number * len as u64);
                client_write(&mut client, at, len);
                client.ask(Command::Read, 0, at, len as u64);
                assert!(client.reply(len).payload.iter().all(|byte| *byte == 1));
            });
        }
    });
    assert_eq!(handle.stats().read_bytes_total, 3 * len as u64);
}

#[test]
fn clients_that_never_read_their_replies() {
    let place = Place::new();
    let handle = start(&place, options());
    let mut witness = connect(&place);
    client_write(&mut witness, 0, 1 << 20);
    // Each client requests 1 GiB, and takes nothing of it.
    let hostile: Vec<Client> = (0..16)
        .map(|_| {
            let mut client = connect(&place);
            for number in 0..32 {
                client.ask(Command::Read, 0, number << 10, 32 << 20);
            }
            client
        })
        .collect();
    watch(&mut witness, 1000);
    // Their memory goes to clients that need and use it.
    for _ in 0..4 {
        witness.ask(Command::Read, 0, 0, 32 << 20);
        assert_eq!(witness.reply(32 << 20).error, 0);
    }
    assert!(handle.stats().connections_dropped_total > 0);
    drop(hostile);
}

#[test]
fn clients_that_stop_in_the_middle_of_a_write() {
    let place = Place::new();
    let handle = start(&place, options());
    let mut witness = connect(&place);
    let hostile: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = connect(&place);
            client.ask(Command::Write, 0, 0, 32 << 20);
            // This much arrives without being read if the server has no memory for it.
            client.send(&[9; 50_000]);
            client
        })
        .collect();
    watch(&mut witness, 1000);
    client_write(&mut witness, 0, 32 << 20);
    assert!(handle.stats().connections_dropped_total > 0);
    drop(hostile);
}

#[test]
fn clients_that_send_a_write_byte_by_byte() {
    let place = Place::new();
    let handle = start(&place, options());
    let mut witness = connect(&place);
    let hostile: Vec<_> = (0..4)
        .map(|_| {
            let mut client = connect(&place);
            client.ask(Command::Write, 0, 0, 32 << 20);
            let mut stream = client.stream.try_clone().unwrap();
            let trickle = thread::spawn(move || {
                while stream.write_all(&[9]).is_ok() {
                    thread::sleep(Duration::from_millis(10));
                }
            });
            (client, trickle)
        })
        .collect();
    watch(&mut witness, 1000);
    client_write(&mut witness, 0, 32 << 20);
    assert!(handle.stats().connections_dropped_total > 0);
    for (client, trickle) in hostile {
        drop(client.stream.shutdown(Shutdown::Both));
        trickle.join().unwrap();
    }
}

#[test]
fn clients_that_vanish_in_the_middle_of_a_message() {
    let place = Place::new();
    let handle = start(&place, options());
    let mut witness = connect(&place);
    for number in 0..300_usize {
        let mut stream = UnixStream::connect(&place.0).unwrap();
        let whole = b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0\x25\x60\x95\x13\0\0\0\x01";
        stream.write_all(&whole[..number % whole.len()]).unwrap();
        drop(stream);
        watch(&mut witness, 1);
    }
    while handle.stats().connections > 1 {
        thread::yield_now();
    }
}

#[test]
fn floods_of_options() {
    let place = Place::new();
    let handle = start(&place, options());
    let mut witness = connect(&place);
    let flood = |data: &'static [u8]| {
        let mut client = Client::new(UnixStream::connect(&place.0).unwrap());
        client.greet(3);
        let mut sent = 0_u32;
        let mut replies = client.stream.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = replies.read_to_end(&mut bytes);
            bytes.len()
        });
        loop {
            let head = [b"IHAVEOPT\0\0\x63", &sent.to_be_bytes()[3..]].concat();
            let len = (data.len() as u32).to_be_bytes();
            let option = [&head, &len[..], data].concat();
            if sent > 100_000 || client.stream.write_all(&option).is_err() {
                break;
            }
            sent += 1;
        }
        let _ = client.stream.shutdown(Shutdown::Both);
        (sent, reader.join().unwrap())
    };
    static LARGE: [u8; 65 << 10] = [0; 65 << 10];
    for data in [&b""[..], &LARGE] {
        let (sent, replied) = flood(data);
        assert!(sent < 100_000, "it was never stopped");
        // Each refusal has twenty bytes and a message.
        assert!(replied > 20 && replied < 1100 * 64, "{replied}");
        watch(&mut witness, 100);
    }
    assert_eq!(handle.stats().handshakes_failed_total, 2);
}

#[test]
fn silent_clients_give_their_places_back() {
    let place = Place::new();
    let options = ServerLimits {
        connections_max: 8,
        ..options()
    };
    let handle = start(&place, options);
    let mut witness = connect(&place);
    let silent: Vec<UnixStream> = (0..7)
        .map(|_| UnixStream::connect(&place.0).unwrap())
        .collect();
    while handle.stats().connections < 8 {
        thread::yield_now();
    }
    // They keep no others out: the oldest of them is dropped, and a client that works stays.
    watch(&mut witness, 100);
    let mut late = connect(&place);
    watch(&mut late, 1);
    let read = (&silent[0]).read(&mut [0; 1 << 10]);
    assert!(read.is_err() || (&silent[0]).read(&mut [0; 1]).is_ok_and(|n| n == 0));
    watch(&mut witness, 100);
    assert_eq!(handle.stats().connections_refused_total, 0);
    drop(late);
    drop(silent);
    while handle.stats().connections > 1 {
        thread::yield_now();
    }
    watch(&mut connect(&place), 1);
}

#[test]
fn a_client_that_only_stops_sending_gets_its_replies() {
    let place = Place::new();
    let handle = start(&place, options());
    let mut client = connect(&place);
    for _ in 0..100 {
        client.ask(Command::Read, 0, 0, 4096);
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..100 {
        assert_eq!(client.reply(4096).error, 0);
    }
    assert!(client.closed());
    drop(client);
    while handle.stats().connections > 0 {
        thread::yield_now();
    }
    assert_eq!(handle.stats().connections_dropped_total, 0);
}
