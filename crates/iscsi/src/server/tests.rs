mod access;
mod changes;
mod fences;
mod gate;
mod logins;
mod long_jobs;
mod memory;
mod rules;
mod two_paths;

use self::gate::held;
use super::{Server, ServerHandle, ServerOptions};
use crate::error::ServerError;
use crate::fuzzing::{OPEN_TARGET, login_request};
use crate::targets::{Credentials, FixedTargets, Grant, TargetAccess};
use crate::wire::pdu::{HEADER_BYTES, NO_TAG, PduHeader, padding, request, response};
use connections::ServerLimits;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use volume::{MemoryVolume, Operation, Volume};

/// Limit for everything that must happen. Nothing waits for it unless the test fails.
const LIMIT: Duration = Duration::from_secs(60);

fn options() -> ServerOptions {
    ServerOptions {
        limits: ServerLimits {
            handshake_limit: LIMIT,
            stop_limit: LIMIT,
            ..ServerLimits::default()
        },
        logout_limit: Duration::from_millis(200),
        ..ServerOptions::default()
    }
}

fn serve(volume: impl Volume + 'static, options: ServerOptions) -> ServerHandle {
    serve_shared(Arc::new(volume), options)
}

fn serve_shared(volume: Arc<dyn Volume>, options: ServerOptions) -> ServerHandle {
    let targets = FixedTargets::default().with(OPEN_TARGET, volume, TargetAccess::default());
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(address, Arc::new(targets), options).unwrap();
    server.start().unwrap()
}

fn memory() -> MemoryVolume {
    MemoryVolume::new(1 << 20)
}

/// An initiator that sends anything.
struct Client {
    stream: TcpStream,
    number: u32,
}

impl Client {
    fn connect(server: &ServerHandle) -> Self {
        let stream = TcpStream::connect(server.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self { stream, number: 0 }
    }

    fn login(server: &ServerHandle) -> Self {
        Self::login_from(server, 0)
    }

    /// Logs in from an initiator port of its own: an older session of the same port would end.
    fn login_from(server: &ServerHandle, port: u8) -> Self {
        let mut request = login_request();
        request[13] = port;
        Self::enter(server, &request)
    }

    /// Logs in with this request.
    fn enter(server: &ServerHandle, request: &[u8]) -> Self {
        let mut client = Self::connect(server);
        client.stream.write_all(request).unwrap();
        let (answer, _) = client.receive().unwrap();
        assert_eq!(answer.operation(), response::LOGIN);
        assert_eq!(answer.u16_at::<36>(), 0, "status");
        client.settle();
        client
    }

    /// Takes the unit attentions, as real initiators do after a login.
    fn settle(&mut self) {
        while self.test_unit_ready(902) != 0 {}
    }

    fn send(&mut self, header: PduHeader, data: &[u8]) {
        let mut bytes = header.with_data_bytes(data.len()).0.to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding(data.len()), 0);
        // The server may have closed the connection.
        let _ = self.stream.write_all(&bytes);
    }

    /// Sends a command that the window counts.
    fn command(&mut self, tag: u32, flags: u8, expected: u32, cdb: &[u8], data: &[u8]) {
        let mut header = PduHeader::new(request::COMMAND, flags)
            .with_tag(tag)
            .with_u32::<20>(expected)
            .with_u32::<24>(self.number);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        self.number = self.number.wrapping_add(1);
        self.send(header, data);
    }

    /// Receives a PDU; `None` if the server has closed the connection.
    fn receive(&mut self) -> Option<(PduHeader, Vec<u8>)> {
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let header = PduHeader(header);
        let len = header.data_bytes();
        let mut data = vec![0; len + padding(len)];
        self.fill(&mut data)?;
        data.truncate(len);
        Some((header, data))
    }

    fn fill(&mut self, into: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(into) {
            Ok(()) => Some(()),
            Err(e) if is_end(e.kind()) => None,
            // Silence is no end.
            Err(e) => panic!("neither an answer nor the end: {e}"),
        }
    }

    fn test_unit_ready(&mut self, tag: u32) -> u8 {
        self.command(tag, 0x80, 0, &[0; 6], &[]);
        let (answer, _) = self.receive().expect("an answer");
        assert_eq!((answer.operation(), answer.tag()), (response::COMMAND, tag));
        answer.0[3]
    }
}

/// Waits until a task that runs is to end.
fn wait_until_stopping(server: &ServerHandle) {
    let until = Instant::now() + LIMIT;
    while server.shared.registry.stopping(OPEN_TARGET) == 0 {
        assert!(Instant::now() < until, "no task is aborted");
        std::thread::yield_now();
    }
}

/// A server that closes a connection with unread input resets it.
fn is_end(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

fn ten(operation: u8, lba: u8, blocks: u8) -> [u8; 10] {
    [operation, 0, 0, 0, 0, lba, 0, 0, blocks, 0]
}

#[test]
fn writes_of_all_kinds_of_data_are_read_back() {
    let server = serve(memory(), options());
    let mut client = Client::login(&server);
    // Immediate data, then unsolicited data, then data that is asked for.
    let data: Vec<u8> = (0..100 << 10).map(|at| (at / 300) as u8).collect();
    let len = data.len() as u32;
    let (first, rest) = data.split_at(4096);
    let (second, third) = rest.split_at(8192);
    client.command(7, 0x20, len, &ten(0x2a, 0, 200), first);
    let data_out = |flags, transfer, number, offset: usize| {
        PduHeader::new(request::DATA_OUT, flags)
            .with_tag(7)
            .with_u32::<20>(transfer)
            .with_u32::<36>(number)
            .with_u32::<40>(offset as u32)
    };
    client.send(data_out(0x80, NO_TAG, 0, 4096), second);
    let (asks, _) = client.receive().unwrap();
    assert_eq!(asks.operation(), response::R2T);
    assert_eq!(
        (asks.u32_at::<40>(), asks.u32_at::<44>()),
        (12_288, len - 12_288)
    );
    let transfer = asks.u32_at::<20>();
    let (third, fourth) = third.split_at(50_000);
    client.send(data_out(0, transfer, 0, 12_288), third);
    client.send(data_out(0x80, transfer, 1, 62_288), fourth);
    let (answer, _) = client.receive().unwrap();
    assert_eq!((answer.operation(), answer.0[3]), (response::COMMAND, 0));
    client.command(8, 0xc0, len, &ten(0x28, 0, 200), &[]);
    let mut read = Vec::new();
    while read.len() < data.len() {
        let (answer, part) = client.receive().unwrap();
        assert_eq!(answer.operation(), response::DATA_IN);
        assert_eq!(answer.u32_at::<40>() as usize, read.len());
        read.extend_from_slice(&part);
    }
    assert!(read == data);
    assert!(server.stop());
}

#[test]
fn half_open_logins_keep_no_client_out() {
    let mut options = options();
    options.limits.connections_max = 4;
    let server = serve(memory(), options);
    let mut working = Client::login_from(&server, 1);
    let silent: Vec<Client> = (0..20).map(|_| Client::connect(&server)).collect();
    let mut late = Client::login_from(&server, 2);
    assert_eq!(working.test_unit_ready(7), 0);
    assert_eq!(late.test_unit_ready(7), 0);
    // When all are admitted, the newest is refused, and is counted before it can know.
    let _others = [3, 4].map(|port| Client::login_from(&server, port));
    for refused in 1..=200 {
        assert!(Client::connect(&server).receive().is_none());
        assert_eq!(server.stats().connections_refused_total, refused);
    }
    drop(silent);
}

#[test]
fn clients_that_break_rules_are_dropped_and_hurt_no_other() {
    let server = serve(memory(), options());
    let mut good = Client::login(&server);
    let broken: [(&str, PduHeader, usize); 7] = [
        ("unknown operation", PduHeader::new(0x1c, 0x80), 0),
        ("snack", PduHeader::new(request::SNACK, 0x80), 0),
        ("login again", PduHeader::new(request::LOGIN, 0x87), 0),
        (
            "a gap",
            PduHeader::new(request::NOP_OUT, 0x80)
                .with_tag(1)
                .with_u32::<20>(NO_TAG)
                .with_u32::<24>(3),
            0,
        ),
        (
            "data of a read",
            PduHeader::new(request::COMMAND, 0xc0),
            512,
        ),
        ("not final", PduHeader::new(request::COMMAND, 0x00), 0),
        ("long", PduHeader::new(request::DATA_OUT, 0x80), 140 << 10),
    ];
    for (what, header, len) in broken {
        let name = format!("iqn.x:bad{}", what.replace(' ', ""));
        let mut bad = Client::enter(&server, &login_as(&name));
        let number = bad.number + header.u32_at::<24>();
        bad.send(header.with_u32::<24>(number), &vec![0; len]);
        let mut last = None;
        while let Some((answer, _)) = bad.receive() {
            last = Some(answer.operation());
        }
        assert_eq!(last, Some(response::REJECT), "{what}");
        assert_eq!(good.test_unit_ready(good.number), 0, "{what}");
    }
    assert!(server.stats().connections_dropped_total >= 7);
    assert!(server.stop());
}

fn login_as(name: &str) -> Vec<u8> {
    login_text(&[("InitiatorName", name), ("TargetName", OPEN_TARGET)])
}

/// A login request with these keys.
fn login_text(keys: &[(&str, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in keys {
        crate::wire::text::push(&mut text, key, value);
    }
    let header = PduHeader::new(request::LOGIN | 0x40, 0x87).with_data_bytes(text.len());
    text.resize(text.len() + padding(text.len()), 0);
    [header.0.to_vec(), text].concat()
}

#[test]
fn commands_outside_of_the_window_are_ignored() {
    let server = serve(memory(), options());
    let mut client = Client::login(&server);
    assert_eq!(client.test_unit_ready(1), 0);
    let number = client.number;
    for wrong in [0, number + 64, u32::MAX] {
        client.number = wrong;
        client.command(2, 0x80, 0, &[0; 6], &[]);
        client.number = number;
    }
    assert_eq!(client.test_unit_ready(3), 0);
    assert!(server.stop());
}

#[test]
fn an_initiator_port_has_one_session() {
    let server = serve(memory(), options());
    let mut old = Client::login(&server);
    let mut new = Client::login(&server);
    assert!(old.receive().is_none(), "closed");
    assert_eq!(new.test_unit_ready(1), 0);
    assert_eq!(server.sessions(OPEN_TARGET), 1);
    assert!(server.stop());
}

#[test]
fn stalled_writes_give_their_memory_to_others() {
    let mut options = options();
    options.limits.stall_limit = Duration::from_millis(200);
    options.limits.pool_bytes = 1;
    let server = serve(MemoryVolume::new(64 << 20), options);
    let large = |client: &mut Client, tag| {
        let mut cdb = [0; 16];
        cdb[0] = 0x8a;
        cdb[10..14].copy_from_slice(&65_536_u32.to_be_bytes());
        client.command(tag, 0xa0, 32 << 20, &cdb, &[]);
    };
    // Two fill the pool, and send nothing.
    let mut stalled = Vec::new();
    for number in 0..2 {
        let name = format!("iqn.x:stalled{number}");
        let mut client = Client::enter(&server, &login_as(&name));
        large(&mut client, 1);
        assert_eq!(client.receive().unwrap().0.operation(), response::R2T);
        stalled.push(client);
    }
    let mut third = Client::login(&server);
    assert_eq!(third.test_unit_ready(1), 0, "small commands do not wait");
    large(&mut third, 2);
    assert_eq!(third.receive().unwrap().0.operation(), response::R2T);
    assert!(server.stop());
}

#[test]
fn slow_writes_leave_reads_alone_and_aborts_stop_them() {
    let (slow, gate, comes) = held(memory(), Operation::Write);
    let slow = slow.except(|request| request.operation != Operation::Write);
    let server = serve(slow, options());
    let mut client = Client::login(&server);
    for tag in 0..24 {
        client.command(tag, 0xa0, 512, &ten(0x2a, tag as u8, 1), &[1; 512]);
    }
    client.command(100, 0xc0, 512, &ten(0x28, 50, 1), &[]);
    let (first, _) = client.receive().unwrap();
    assert_eq!((first.operation(), first.tag()), (response::DATA_IN, 100));
    // The last write waits for a thread. The first one has one: it ends before the abort is
    // answered.
    comes.recv().unwrap();
    let abort = |tag: u32| {
        PduHeader::new(request::TASK_MANAGEMENT | 0x40, 0x81)
            .with_tag(200 + tag)
            .with_u32::<20>(tag)
    };
    client.send(abort(23), &[]);
    let (answer, _) = client.receive().unwrap();
    assert_eq!(
        (answer.operation(), answer.0[2]),
        (response::TASK_MANAGEMENT, 0)
    );
    client.send(abort(0), &[]);
    wait_until_stopping(&server);
    gate.open();
    let (mut answered, mut aborts) = (Vec::new(), 0);
    while answered.len() + aborts < 23 {
        let (answer, _) = client.receive().unwrap();
        if answer.operation() == response::TASK_MANAGEMENT {
            assert_eq!(answer.0[2], 0, "it is aborted");
            aborts += 1;
            continue;
        }
        answered.push(answer.tag());
    }
    assert_eq!(aborts, 1);
    answered.sort_unstable();
    assert_eq!(answered, (1..23).collect::<Vec<u32>>());
    assert!(server.stop());
}

/// A cold reset would end the sessions of all initiators.
#[test]
fn no_initiator_ends_the_sessions_of_others() {
    let server = serve(memory(), options());
    let mut good = Client::login(&server);
    let mut bad = Client::enter(&server, &login_as("iqn.x:bad"));
    let reset = PduHeader::new(request::TASK_MANAGEMENT | 0x40, 0x87).with_tag(1);
    bad.send(reset, &[]);
    let (answer, _) = bad.receive().unwrap();
    let refused = (response::TASK_MANAGEMENT, 6);
    assert_eq!((answer.operation(), answer.0[2]), refused);
    assert_eq!(bad.test_unit_ready(2), 0);
    assert_eq!(good.test_unit_ready(1), 0);
    assert!(server.stop());
}

#[test]
fn stopping_asks_for_logout_and_answers_what_arrived() {
    let server = serve(memory(), options());
    let mut client = Client::login(&server);
    assert_eq!(client.test_unit_ready(1), 0);
    assert!(server.stop());
    let (asked, _) = client.receive().unwrap();
    assert_eq!((asked.operation(), asked.0[36]), (response::ASYNC, 1));
    assert!(client.receive().is_none());
}

#[test]
fn open_servers_stay_on_loopback() {
    let bind = |address: &str, discovery: TargetAccess| {
        let options = ServerOptions {
            discovery,
            ..options()
        };
        let targets = Arc::new(FixedTargets::default());
        Server::bind(address.parse().unwrap(), targets, options).map(|_| ())
    };
    let open = bind("0.0.0.0:0", TargetAccess::default());
    assert!(matches!(open, Err(ServerError::NotProtected(_))));
    let secret = |secret: &str| {
        Some(Credentials {
            user: "user".to_owned(),
            secret: secret.into(),
        })
    };
    let protected = |text| {
        TargetAccess::from(Grant {
            initiators: Some(vec!["iqn.x:us".to_owned()]),
            chap: secret(text),
        })
    };
    let short = bind("127.0.0.1:0", protected("short"));
    assert!(matches!(short, Err(ServerError::WeakSecret)));
    bind("0.0.0.0:0", protected("a longer secret")).unwrap();
}
