//! Two sessions of one initiator with one target, through two addresses: the paths of multipath
//! software (decision 55).

use super::{Client, OPEN_TARGET, login_request, login_text, memory, options, serve, ten};
use crate::server::{Server, ServerHandle, ServerOptions};
use crate::targets::{FixedTargets, TargetAccess};
use crate::wire::pdu::response;
use crate::wire::text;
use std::io::Write;
use std::sync::Arc;

const GOOD: u8 = 0x00;
const CONFLICT: u8 = 0x18;
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const PREEMPT: u8 = 4;
/// Registrants only: write exclusive.
const KIND: u8 = 5;

/// Two servers with the same disk.
fn two_addresses() -> [ServerHandle; 2] {
    let volume = Arc::new(memory());
    let shared = options();
    [(); 2].map(|()| {
        let options = ServerOptions {
            units: shared.units.clone(),
            ..options()
        };
        let targets =
            FixedTargets::default().with(OPEN_TARGET, volume.clone(), TargetAccess::default());
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(address, Arc::new(targets), options).unwrap();
        server.start().unwrap()
    })
}

impl Client {
    fn reserve_out(&mut self, action: u8, (current, service): (u64, u64)) -> u8 {
        let cdb = [0x5f, action, KIND, 0, 0, 0, 0, 0, 24, 0];
        let list = [&current.to_be_bytes()[..], &service.to_be_bytes(), &[0; 8]].concat();
        self.command(80, 0xa1, 24, &cdb, &list);
        self.receive().unwrap().0.0[3]
    }

    /// READ KEYS, or full status, without the generation.
    fn reserve_in(&mut self, action: u8) -> Vec<u8> {
        self.command(81, 0xc1, 512, &[0x5e, action, 0, 0, 0, 0, 0, 2, 0, 0], &[]);
        self.receive().unwrap().1.split_off(8)
    }

    fn write_status(&mut self) -> u8 {
        self.command(82, 0xa1, 512, &ten(0x2a, 0, 1), &[7; 512]);
        self.receive().unwrap().0.0[3]
    }

    fn page(&mut self, code: u8) -> Vec<u8> {
        self.command(83, 0xc1, 252, &[0x12, 1, code, 0, 252, 0], &[]);
        self.receive().unwrap().1
    }
}

#[test]
fn sessions_of_one_initiator_are_paths_to_one_disk() {
    let servers = two_addresses();
    let [mut one, mut two] = [0, 1].map(|n| Client::login_from(&servers[n], n as u8 + 1));
    let mut other = Client::enter(
        &servers[0],
        &login_text(&[
            ("InitiatorName", "iqn.x:other"),
            ("TargetName", OPEN_TARGET),
        ]),
    );
    for code in [0x80, 0x83] {
        assert_eq!(one.page(code), two.page(code), "{code:x}");
    }
    // A path is registered by itself, under the key of its machine.
    assert_eq!(one.reserve_out(REGISTER, (0, 7)), GOOD);
    assert_eq!(one.reserve_out(RESERVE, (7, 0)), GOOD);
    assert_eq!((one.write_status(), two.write_status()), (GOOD, CONFLICT));
    assert_eq!(two.reserve_out(REGISTER, (0, 7)), GOOD);
    assert_eq!((one.write_status(), two.write_status()), (GOOD, GOOD));
    assert_eq!(two.reserve_in(0), [7_u64.to_be_bytes(); 2].concat());
    let status = String::from_utf8_lossy(&one.reserve_in(3)).into_owned();
    let ports = ["i,0x000000000001", "i,0x000000000002"];
    assert!(ports.iter().all(|port| status.contains(port)), "{status}");
    // The end of one path ends neither registration.
    drop(one);
    while servers[0].sessions(OPEN_TARGET) > 1 {
        std::thread::yield_now();
    }
    assert_eq!((two.write_status(), other.write_status()), (GOOD, CONFLICT));
    let mut one = Client::login_from(&servers[0], 1);
    assert_eq!(one.write_status(), GOOD);
    // A machine that fences the key fences all paths.
    assert_eq!(other.reserve_out(REGISTER, (0, 9)), GOOD);
    assert_eq!(other.reserve_out(PREEMPT, (9, 7)), GOOD);
    one.settle();
    two.settle();
    assert_eq!(
        (one.write_status(), two.write_status()),
        (CONFLICT, CONFLICT)
    );
    assert_eq!(other.write_status(), GOOD);
    assert!(servers.into_iter().all(ServerHandle::stop));
}

#[test]
fn a_session_has_one_connection() {
    let server = serve(memory(), options());
    let text = [
        ("InitiatorName", "iqn.x:us"),
        ("TargetName", OPEN_TARGET),
        ("MaxConnections", "8"),
    ];
    let mut client = Client::connect(&server);
    client.stream.write_all(&login_text(&text)).unwrap();
    let (answer, data) = client.receive().unwrap();
    assert_eq!(answer.operation(), response::LOGIN);
    let keys = text::decode(&data).unwrap();
    assert!(keys.contains(&("MaxConnections", "1")), "{keys:?}");
    // Another connection for that session.
    let mut request = login_request();
    request[14..16].copy_from_slice(&answer.0[14..16]);
    let mut more = Client::connect(&server);
    more.stream.write_all(&request).unwrap();
    let (refusal, _) = more.receive().unwrap();
    assert_eq!(refusal.u16_at::<36>(), 0x020a);
    client.settle();
    assert!(server.stop());
}
