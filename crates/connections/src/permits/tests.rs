use super::*;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

/// A stream, and its other end.
fn stream() -> (Arc<dyn ByteStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Arc::new(ours), theirs)
}

/// Serves a permit as sessions do: until its stream ends.
fn serve(permit: Permit) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut byte = [0];
        while permit
            .connection
            .stream
            .recv(&mut byte)
            .is_ok_and(|n| n > 0)
        {}
    })
}

#[test]
fn the_oldest_that_was_not_admitted_makes_room() {
    let permits = Permits::new(3);
    let mut peers = Vec::new();
    let mut connect = || {
        let (ours, theirs) = stream();
        peers.push(theirs);
        permits.take(ours, None)
    };
    let permit = connect().unwrap();
    let admitted = permit.connection.clone();
    assert!(admitted.admit());
    serve(permit);
    let half_open: Vec<_> = (0..2)
        .map(|_| {
            let permit = connect().unwrap();
            let connection = permit.connection.clone();
            serve(permit);
            connection
        })
        .collect();
    let late = connect().unwrap();
    assert!(half_open[0].is_down() && !half_open[1].is_down() && !admitted.is_down());
    assert_eq!((permits.count(), late.number), (3, 4));
    // When all are admitted, the newest is refused, and nobody is dropped.
    assert!(half_open[1].admit() && !half_open[0].admit());
    assert!(late.connection.admit());
    assert!(connect().is_none());
    assert!(!half_open[1].is_down() && !late.connection.is_down() && !admitted.is_down());
    drop(late);
    assert!(permits.end_all(Duration::from_secs(60)));
    assert_eq!(permits.count(), 0);
}

#[test]
fn as_many_threads_as_permits_may_take_their_time_to_end() {
    let permits = Permits::new(1);
    let mut peers = Vec::new();
    let mut connect = || {
        let (ours, theirs) = stream();
        peers.push(theirs);
        permits.take(ours, None)
    };
    let stuck = connect().unwrap();
    let late = connect().expect("room at once");
    assert!(stuck.connection.is_down() && !late.connection.is_down());
    assert_eq!((permits.count(), permits.sum(|_| 1)), (1, 2));
    assert!(connect().is_none() && !late.connection.is_down());
    drop(late);
    assert_eq!(permits.count(), 0);
    assert!(!permits.end_all(Duration::from_millis(1)), "one is stuck");
    // A panic returns the permit too.
    let (begun, begins) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _stuck = stuck;
        begun.send(()).unwrap();
        panic!("for the test");
    });
    begins.recv().unwrap();
    assert!(thread.join().is_err());
    assert_eq!(permits.sum(|_| 1), 0);
    assert!(connect().is_some());
}

#[test]
fn an_address_leaves_connections_to_others() {
    let permits = Permits::new(16);
    let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
    let mut peers = Vec::new();
    let mut connect = |last| {
        let (ours, theirs) = stream();
        peers.push(theirs);
        let permit = permits.take(ours, address(last))?;
        assert!(permit.connection.admit());
        Some(permit)
    };
    let greedy: Vec<_> = std::iter::from_fn(|| connect(1)).collect();
    assert_eq!(greedy.len(), 14);
    let modest = connect(2).unwrap();
    assert!(connect(1).is_none());
    drop(modest);
    // Those that have not logged in make room for others of their address, and of no other.
    let (ours, _theirs) = stream();
    let half_open = permits.take(ours, address(2)).unwrap();
    let connection = half_open.connection.clone();
    serve(half_open);
    let _modest = connect(2).unwrap();
    assert!(connect(1).is_none() && !connection.is_down());
    assert!(connect(2).is_some() && connection.is_down());
}

#[test]
fn a_host_has_one_network_of_ipv6() {
    let of = |text: &str| network(text.parse().unwrap());
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
}
