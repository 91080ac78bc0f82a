//! Tests clients that disconnected with queued requests, and greedy ones beside a modest one. Work
//! is counted, not timed.

use super::tests::{Place, connect};
use super::*;
use crate::exports::FixedExports;
use crate::test_client::Client;
use crate::test_volume::Gated;
use crate::wire::requests::{Command, NbdRequest, encode};
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};
use volume::{Operation, RequestContext, Volume};

const LARGE: usize = crate::REQUEST_BYTES_MAX as usize;
const LONG: Duration = Duration::from_secs(60);

/// The only offset that is cached.
const CACHED_OFFSET: u64 = 1 << 20;
/// Fewer reads than the server queues for one connection.
const QUEUED: usize = 200;
/// Reads that [`reads`] returns.
const READS: usize = 600;

/// Reads and writes wait while the gate is shut.
const STOPS: &[Operation] = &[Operation::Read, Operation::Write];

fn served(volume: &Arc<Gated>) -> Arc<dyn Exports> {
    Arc::new(FixedExports::default().with("disk", volume.volume(|offset| offset == CACHED_OFFSET)))
}

fn start(place: &Place, volume: &Arc<Gated>, pool_bytes: u64) -> ServerHandle {
    let options = ServerLimits {
        pool_bytes,
        ..ServerLimits::default()
    };
    let server = Server::bind_unix(&place.0, served(volume), options).unwrap();
    server.start().unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "{what}: it takes too long");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns [`READS`] reads at offset 0.
fn reads(len: usize) -> Vec<u8> {
    let request = NbdRequest {
        flags: 0,
        command: Command::Read as u16,
        cookie: 1,
        offset_bytes: 0,
        len_bytes: len as u64,
    };
    encode(&request, false).repeat(READS)
}

/// Sends [`QUEUED`] reads that wait, and returns when the server has queued all of them: only then
/// does the connection's thread answer the cached read that follows.
fn fill_queue(client: &mut Client) {
    let mut waiting = reads(4096);
    waiting.truncate(waiting.len() / READS * QUEUED);
    let cached = NbdRequest {
        flags: 0,
        command: Command::Read as u16,
        cookie: 2,
        offset_bytes: CACHED_OFFSET,
        len_bytes: 4096,
    };
    // In one message, so that the first read does not arrive alone and is executed without a queue.
    client.send(&[waiting, encode(&cached, false)].concat());
    assert_eq!(client.reply(4096).cookie, cached.cookie);
}

/// Sends all at once, without waiting for the server to take some.
fn flood(client: &mut Client, len: usize) {
    client.send(&reads(len));
}

/// Hundreds of reads fill every buffer on the way, and the client closes: with and without a
/// disconnect request.
#[test]
fn reads_of_a_client_that_left_are_dropped() {
    for (len, goodbye) in [(LARGE, false), (LARGE, true), (4096, false), (4096, true)] {
        let place = Place::new();
        let volume = Gated::new(STOPS);
        let handle = start(&place, &volume, 0);
        let mut client = connect(&place);
        if len < LARGE {
            fill_queue(&mut client);
        }
        flood(&mut client, len);
        if goodbye {
            client.ask(Command::Disconnect, 0, 0, 0);
        }
        wait_until("a read begins", || volume.reads.load(SeqCst) > 0);
        let mut witness = connect(&place);
        drop(client);
        volume.open();
        wait_until("the session ends", || handle.stats().connections == 1);
        let begun = volume.reads.load(SeqCst);
        // Requests that had begun: one large one, or one for each thread.
        let most = if len == LARGE { 1 } else { 16 };
        assert!(begun <= most, "{begun} reads of {len} bytes");
        witness.ask(Command::Read, 0, 0, LARGE as u64);
        assert_eq!(witness.reply(LARGE).error, 0);
        if len < LARGE {
            assert!(handle.stats().reads_abandoned_total > 100);
        }
    }
}

/// The server notices that a TCP peer closed at the first reply that the peer's system refuses.
#[test]
fn reads_of_a_tcp_client_that_left_are_dropped() {
    let volume = Gated::new(STOPS);
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind_tcp(address, served(&volume), ServerLimits::default()).unwrap();
    let handle = server.start().unwrap();
    let mut stream = TcpStream::connect(handle.address().unwrap()).unwrap();
    // The client asks for the default export by the shortest handshake.
    stream.read_exact(&mut [0; 18]).unwrap();
    let hello = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
    io_write(&mut stream, &hello);
    stream.read_exact(&mut [0; 10]).unwrap();
    io_write(&mut stream, &reads(LARGE));
    wait_until("a read begins", || volume.reads.load(SeqCst) > 0);
    drop(stream);
    volume.open();
    wait_until("the session ends", || handle.stats().connections == 0);
    let begun = volume.reads.load(SeqCst);
    assert!(begun <= 3, "{begun} reads");
}

fn io_write(stream: &mut TcpStream, bytes: &[u8]) {
    std::io::Write::write_all(stream, bytes).unwrap();
}

/// Writes that the server has taken are executed, and so are those queued behind them.
#[test]
fn writes_of_a_client_that_left_are_done() {
    let place = Place::new();
    let volume = Gated::new(STOPS);
    let handle = start(&place, &volume, 0);
    let mut client = connect(&place);
    for number in 0..100 {
        client.ask(Command::Write, 0, number << 12, 4096);
        client.send(&[7; 4096]);
    }
    // This is refused without the volume, once everything before it has arrived.
    assert_ne!(client.errno(Command::Read, 0, 1 << 40, 4096), 0);
    client.ask(Command::Disconnect, 0, 0, 0);
    wait_until("a write begins", || volume.writes.load(SeqCst) > 0);
    assert_eq!(handle.clients_connected("disk"), 1);
    drop(client);
    // Its writes still use the export, but nobody is disturbed any more.
    assert_eq!(
        (handle.clients("disk"), handle.clients_connected("disk")),
        (1, 0)
    );
    volume.open();
    wait_until("the session ends", || handle.stats().connections == 0);
    assert_eq!(volume.writes.load(SeqCst), 100);
    let mut bytes = vec![0; 100 << 12];
    let context = RequestContext::default();
    volume.memory.read(context, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
}

/// A client that stops reading while others wait for its memory is dropped, with all its requests.
#[test]
fn a_client_that_takes_nothing_costs_what_is_under_way() {
    let place = Place::new();
    let volume = Gated::new(&[]);
    let options = ServerLimits {
        pool_bytes: 0,
        stall_limit: Duration::from_millis(300),
        ..ServerLimits::default()
    };
    let server = Server::bind_unix(&place.0, served(&volume), options).unwrap();
    let handle = server.start().unwrap();
    let mut greedy = connect(&place);
    flood(&mut greedy, LARGE);
    wait_until("it reads", || volume.large_reads.load(SeqCst) > 0);
    let mut witness = connect(&place);
    witness.ask(Command::Read, 0, 0, 2 << 20);
    assert_eq!(witness.reply(2 << 20).error, 0);
    wait_until("it is dropped", || handle.stats().connections == 1);
    let begun = volume.large_reads.load(SeqCst);
    assert!(begun <= 2, "{begun} large reads");
    drop(greedy);
}

/// Six clients read 32 MiB repeatedly, with memory for one such read. A modest client's requests do
/// not each wait for all of them.
#[test]
fn modest_clients_wait_for_one_large_request_not_for_all() {
    const GREEDY: u64 = 6;
    const ROUNDS: u64 = 12;
    let place = Place::new();
    let volume = Gated::new(&[]);
    let _handle = start(&place, &volume, 0);
    let greedy: Vec<Client> = (0..GREEDY)
        .map(|_| {
            let mut client = connect(&place);
            flood(&mut client, LARGE);
            client
        })
        .collect();
    let takers: Vec<_> = greedy
        .iter()
        .map(|client| {
            let mut stream = client.stream.try_clone().unwrap();
            thread::spawn(move || {
                let mut bytes = vec![0; 1 << 20];
                while matches!(stream.read(&mut bytes), Ok(1..)) {}
            })
        })
        .collect();
    wait_until("they all read", || volume.large_reads.load(SeqCst) > GREEDY);
    let mut witness = connect(&place);
    let before = volume.large_reads.load(SeqCst);
    for _ in 0..ROUNDS {
        witness.ask(Command::Read, 0, 0, 2 << 20);
        assert_eq!(witness.reply(2 << 20).error, 0);
    }
    let beside = volume.large_reads.load(SeqCst) - before;
    // One read is in flight, and one begins while the witness is not waiting. In the order of
    // arrival it would be all six for each.
    assert!(beside <= ROUNDS * 2 + GREEDY, "{beside} large reads beside");
    for client in &greedy {
        let _ = client.stream.shutdown(std::net::Shutdown::Both);
    }
    takers.into_iter().for_each(|taker| taker.join().unwrap());
}
