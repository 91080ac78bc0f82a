//! Tests that long commands end after their present piece when they are aborted.

use super::gate::{Gate, held};
use super::{Client, LIMIT, options, serve, wait_until_stopping};
use crate::server::{ServerHandle, ServerOptions};
use crate::wire::pdu::{PduHeader, request, response};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use volume::{MemoryVolume, Operation, Slow};

const BYTES: u64 = 256 << 20;
const TAG: u32 = 5;

/// A disk that holds its first piece until the gate opens.
struct Gated {
    server: ServerHandle,
    /// One message for each piece that has begun.
    pieces: Receiver<()>,
    gate: Arc<Gate>,
}

fn gated(operation: Operation) -> Gated {
    let (slow, gate, pieces) = held(MemoryVolume::new(BYTES), operation);
    Gated {
        server: serve(slow, options()),
        pieces,
        gate,
    }
}

impl Gated {
    /// Waits until the tasks that run are to end, and lets them go on.
    fn open_when_stopping(&self) {
        wait_until_stopping(&self.server);
        self.gate.open();
    }

    /// Number of pieces that have begun since the first.
    fn more_pieces(&self) -> usize {
        self.pieces.try_iter().count()
    }
}

impl Client {
    /// Sends WRITE SAME (16) of the whole disk.
    fn write_same(&mut self, byte: u8) {
        let mut cdb = [0; 16];
        cdb[0] = 0x93;
        cdb[10..14].copy_from_slice(&((BYTES / 512) as u32).to_be_bytes());
        self.command(TAG, 0xa1, 512, &cdb, &[byte; 512]);
    }

    fn request_task_management(&mut self, function: u8) {
        let header = PduHeader::new(request::TASK_MANAGEMENT | 0x40, 0x80 | function)
            .with_tag(900)
            .with_u32::<20>(TAG);
        self.send(header, &[]);
    }

    fn task_managed(&mut self) -> u8 {
        let (answer, _) = self.receive().unwrap();
        assert_eq!(answer.operation(), response::TASK_MANAGEMENT);
        answer.0[2]
    }
}

#[test]
fn aborts_of_the_own_session_end_a_long_command_without_an_answer() {
    // ABORT TASK, ABORT TASK SET, LOGICAL UNIT RESET, TARGET WARM RESET.
    for function in [1, 2, 5, 6] {
        for (byte, operation) in [(7, Operation::Write), (0, Operation::WriteZeroes)] {
            let disk = gated(operation);
            let mut client = Client::login(&disk.server);
            client.write_same(byte);
            disk.pieces.recv_timeout(LIMIT).unwrap();
            client.request_task_management(function);
            disk.open_when_stopping();
            // No answer of the command comes before it, or after it.
            assert_eq!(client.task_managed(), 0, "complete");
            client.settle();
            assert_eq!(disk.more_pieces(), 0, "{function} {byte}");
            assert!(disk.server.stop());
        }
    }
}

#[test]
fn resets_of_others_end_a_long_command_with_task_aborted() {
    let disk = gated(Operation::Write);
    let mut client = Client::login_from(&disk.server, 1);
    let mut other = Client::login_from(&disk.server, 2);
    client.write_same(7);
    disk.pieces.recv_timeout(LIMIT).unwrap();
    other.request_task_management(5);
    disk.open_when_stopping();
    assert_eq!(other.task_managed(), 0);
    let (answer, _) = client.receive().unwrap();
    assert_eq!((answer.tag(), answer.0[3]), (TAG, 0x40));
    assert_eq!(disk.more_pieces(), 0);
    assert!(disk.server.stop());
}

#[test]
fn the_end_of_its_session_or_of_the_server_ends_a_long_command() {
    for is_server in [false, true] {
        let disk = gated(Operation::Write);
        let mut client = Client::login(&disk.server);
        client.write_same(7);
        disk.pieces.recv_timeout(LIMIT).unwrap();
        std::thread::scope(|scope| {
            let server = &disk.server;
            let stops = || server.handle.end_all();
            let stops = is_server.then(|| scope.spawn(stops));
            if !is_server {
                drop(client);
            }
            disk.open_when_stopping();
            assert!(stops.is_none_or(|stops| stops.join().unwrap()));
        });
        assert!(disk.server.stop());
        assert_eq!(disk.pieces.try_iter().count(), 0, "{is_server}");
    }
}

#[test]
fn one_flush_follows_a_long_command_without_a_write_cache() {
    let (came, flushes) = std::sync::mpsc::channel();
    let slow = Slow::new(MemoryVolume::new(BYTES), move |request| {
        if request.operation == Operation::Flush {
            let _ = came.send(());
        }
    });
    let options = ServerOptions {
        write_cache: false,
        ..options()
    };
    let server = serve(slow, options);
    let mut client = Client::login(&server);
    client.write_same(7);
    let (answer, _) = client.receive().unwrap();
    assert_eq!((answer.tag(), answer.0[3]), (TAG, 0));
    assert_eq!(flushes.try_iter().count(), 1);
    assert!(server.stop());
}
