//! Tests aborts, resets and fences against commands of other sessions, and the order of commands.

use super::gate::held;
use super::{Client, LIMIT, memory, options, serve, serve_shared, ten};
use crate::fuzzing::{OPEN_TARGET, login_request};
use crate::server::ServerHandle;
use crate::wire::pdu::{PduHeader, request, response};
use std::io::Write;
use std::sync::Arc;
use volume::Operation;

const SIMPLE: u8 = 1;
const ORDERED: u8 = 2;
const HEAD_OF_QUEUE: u8 = 3;

const GOOD: u8 = 0x00;
const CONFLICT: u8 = 0x18;
const TASK_ABORTED: u8 = 0x40;

impl Client {
    /// Sends a write of 512 bytes without its data. Returns the tag of the R2T.
    fn start_write(&mut self, tag: u32, attribute: u8, lba: u8) -> u32 {
        self.command(tag, 0xa0 | attribute, 512, &ten(0x2a, lba, 1), &[]);
        let (asks, _) = self.receive().unwrap();
        assert_eq!((asks.operation(), asks.tag()), (response::R2T, tag));
        asks.u32_at::<20>()
    }

    fn send_data(&mut self, tag: u32, transfer: u32, byte: u8) {
        let header = PduHeader::new(request::DATA_OUT, 0x80)
            .with_tag(tag)
            .with_u32::<20>(transfer);
        self.send(header, &[byte; 512]);
    }

    /// Receives the status of a command.
    fn status(&mut self, tag: u32) -> u8 {
        let (answer, _) = self.receive().expect("an answer");
        assert_eq!(answer.tag(), tag);
        assert!(matches!(
            answer.operation(),
            response::COMMAND | response::DATA_IN
        ));
        answer.0[3]
    }

    fn manage(&mut self, function: u8) -> u8 {
        let header = PduHeader::new(request::TASK_MANAGEMENT | 0x40, 0x80 | function).with_tag(900);
        self.send(header, &[]);
        let (answer, _) = self.receive().expect("an answer");
        assert_eq!(answer.operation(), response::TASK_MANAGEMENT);
        answer.0[2]
    }

    fn persistent_out(&mut self, action: u8, kind: u8, (key, service): (u64, u64)) -> u8 {
        let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
        let list = [&key.to_be_bytes()[..], &service.to_be_bytes(), &[0; 8]].concat();
        self.command(901, 0xa0 | SIMPLE, 24, &cdb, &list);
        self.status(901)
    }

    fn first_byte(&mut self, lba: u8) -> u8 {
        self.command(903, 0xc0 | SIMPLE, 512, &ten(0x28, lba, 1), &[]);
        let (answer, data) = self.receive().unwrap();
        assert_eq!((answer.tag(), answer.operation()), (903, response::DATA_IN));
        data[0]
    }
}

/// Ends what another session has begun. `Client` is the one that does it.
type Fence = fn(&mut Client) -> u8;

fn pair(server: &ServerHandle) -> (Client, Client) {
    (Client::login_from(server, 1), Client::login_from(server, 2))
}

#[test]
fn aborts_of_others_end_writes_that_wait_for_data() {
    let fences: [(&str, Fence, u8); 4] = [
        (
            "preempt and abort",
            |a| a.persistent_out(5, 5, (0xa, 0xb)),
            1,
        ),
        ("clear task set", |a| a.manage(4), 0),
        ("logical unit reset", |a| a.manage(5), 0),
        ("target warm reset", |a| a.manage(6), 0),
    ];
    for (name, fence, has_keys) in fences {
        let server = serve(memory(), options());
        let (mut a, mut b) = pair(&server);
        if has_keys == 1 {
            assert_eq!(a.persistent_out(0, 0, (0, 0xa)), GOOD);
            assert_eq!(b.persistent_out(0, 0, (0, 0xb)), GOOD);
        }
        let transfer = b.start_write(5, SIMPLE, 10);
        assert_eq!(fence(&mut a), GOOD, "{name}");
        b.send_data(5, transfer, 0xee);
        assert_eq!(b.status(5), TASK_ABORTED, "{name}");
        a.settle();
        assert_eq!(a.first_byte(10), 0, "{name}");
        // The session lives on.
        b.settle();
        assert_eq!(b.first_byte(10), 0, "{name}");
        assert!(server.stop());
    }
}

#[test]
fn aborting_the_own_task_set_leaves_others_alone() {
    let server = serve(memory(), options());
    let (mut a, mut b) = pair(&server);
    let transfer = b.start_write(5, SIMPLE, 10);
    assert_eq!(a.manage(2), 0);
    b.send_data(5, transfer, 0xee);
    assert_eq!(b.status(5), GOOD);
    assert_eq!(a.first_byte(10), 0xee);
    assert!(server.stop());
}

#[test]
fn reservations_are_checked_again_when_the_data_is_there() {
    let server = serve(memory(), options());
    let (mut a, mut b) = pair(&server);
    let transfer = b.start_write(5, SIMPLE, 10);
    assert_eq!(a.persistent_out(0, 0, (0, 0xa)), GOOD);
    assert_eq!(a.persistent_out(1, 1, (0xa, 0)), GOOD);
    b.send_data(5, transfer, 0xee);
    assert_eq!(b.status(5), CONFLICT);
    assert_eq!(a.first_byte(10), 0);
    assert!(server.stop());
}

#[test]
fn aborts_of_others_wait_for_what_has_begun() {
    let (slow, gate, comes) = held(memory(), Operation::Write);
    let server = serve(slow, options());
    let (mut a, mut b) = pair(&server);
    // Forced to the disk, so that a worker writes it.
    let mut cdb = ten(0x2a, 10, 1);
    cdb[1] = 0x08;
    b.command(5, 0xa0 | SIMPLE, 512, &cdb, &[0xee; 512]);
    comes.recv_timeout(LIMIT).unwrap();
    let opening = Arc::clone(&gate);
    let opens = std::thread::spawn(move || opening.open());
    assert_eq!(a.manage(5), 0);
    assert!(gate.is_open(), "answered while a write was under way");
    a.settle();
    assert_eq!(a.first_byte(10), 0xee);
    assert_eq!(b.status(5), GOOD);
    opens.join().unwrap();
    assert!(server.stop());
}

/// The younger command has its data first, and must wait all the same.
fn in_order(first: u8, second: u8) {
    let server = serve(memory(), options());
    let mut client = Client::login(&server);
    let one = client.start_write(5, first, 10);
    let two = client.start_write(6, second, 10);
    client.send_data(6, two, 2);
    client.command(7, 0xc0 | SIMPLE, 512, &ten(0x28, 10, 1), &[]);
    // Commands without blocks pass. Had the others not waited, they would have been answered.
    assert_eq!(client.test_unit_ready(8), GOOD);
    client.send_data(5, one, 1);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (answer, data) = client.receive().unwrap();
        answers.push((answer.tag(), data.first().copied()));
    }
    answers.sort_unstable();
    let read = answers.pop().unwrap();
    assert_eq!(answers, [(5, None), (6, None)]);
    // Of two simple commands after the first, any may go first.
    let is_right = match second {
        ORDERED => read == (7, Some(2)),
        _ => read == (7, Some(1)) || read == (7, Some(2)),
    };
    assert!(is_right, "{read:?}");
    assert_eq!(client.first_byte(10), 2);
    assert!(server.stop());
}

#[test]
fn ordered_commands_wait_for_writes_without_data_and_later_ones_for_them() {
    in_order(SIMPLE, ORDERED);
    in_order(ORDERED, SIMPLE);
    in_order(HEAD_OF_QUEUE, SIMPLE);
    in_order(HEAD_OF_QUEUE, ORDERED);
}

#[test]
fn sessions_with_commands_that_wait_for_others_end() {
    for how in 0..3 {
        let server = serve(memory(), options());
        let mut client = Client::login(&server);
        let one = client.start_write(5, ORDERED, 10);
        client.command(6, 0xc0 | SIMPLE, 512, &ten(0x28, 10, 1), &[]);
        client.command(7, 0xa0 | SIMPLE, 512, &ten(0x2a, 11, 1), &[7; 512]);
        client.command(8, 0x80 | ORDERED, 0, &[0; 6], &[]);
        match how {
            0 => {
                // ABORT TASK SET ends them, and nothing is answered afterwards.
                assert_eq!(client.manage(2), 0);
                client.send_data(5, one, 9);
                assert_eq!(client.first_byte(10), 0);
                assert_eq!(client.first_byte(11), 0);
            }
            1 => {
                let logout = PduHeader::new(request::LOGOUT | 0x40, 0x80).with_tag(9);
                client.send(logout, &[]);
                let (answer, _) = client.receive().unwrap();
                assert_eq!(answer.operation(), response::LOGOUT);
                assert!(client.receive().is_none());
            }
            _ => drop(client),
        }
        assert!(server.stop());
    }
}

#[test]
fn all_sockets_of_a_disk_share_its_reservations() {
    let (volume, options) = (Arc::new(memory()), options());
    let one = serve_shared(volume.clone(), options.clone());
    let two = serve_shared(volume, options);
    let (mut a, mut b) = (Client::login_from(&one, 1), Client::login_from(&two, 2));
    assert_eq!(a.persistent_out(0, 0, (0, 0xa)), GOOD);
    assert_eq!(a.persistent_out(1, 1, (0xa, 0)), GOOD);
    b.command(5, 0xa0 | SIMPLE, 512, &ten(0x2a, 10, 1), &[0xee; 512]);
    assert_eq!(b.status(5), CONFLICT);
    // A port has one session, through whichever socket.
    let mut again = Client::login_from(&one, 2);
    assert!(b.receive().is_none(), "the older one ended");
    assert_eq!(
        (one.sessions(OPEN_TARGET), two.sessions(OPEN_TARGET)),
        (2, 0)
    );
    // The end of one server leaves the sessions of the other alone.
    assert!(two.stop());
    assert_eq!(again.test_unit_ready(1), GOOD);
    assert!(one.stop());
}

/// A restart loses registrations and modes. Initiators reconnect by themselves, and would rely on
/// them.
#[test]
fn the_first_command_after_a_restart_says_so() {
    let ready = |server: &ServerHandle, port: u8| {
        let mut client = Client::connect(server);
        let mut request = login_request();
        request[13] = port;
        client.stream.write_all(&request).unwrap();
        client.receive().unwrap();
        client.command(1, 0x80, 0, &[0; 6], &[]);
        let (answer, sense) = client.receive().unwrap();
        let sense = sense.get(2..).map(|sense| (sense[2], sense[12], sense[13]));
        (answer.0[3], sense)
    };
    let power_on = (2, Some((6, 0x29, 0)));
    let volume = Arc::new(memory());
    for _ in 0..2 {
        let server = serve_shared(volume.clone(), options());
        assert_eq!(ready(&server, 1), power_on);
        assert_eq!(ready(&server, 1), (GOOD, None), "it reconnects");
        assert_eq!(ready(&server, 2), power_on);
        // The target closes, which forgets registrations, and returns.
        server.close_target(OPEN_TARGET);
        assert_eq!(ready(&server, 1), power_on);
        assert!(server.stop());
    }
}
