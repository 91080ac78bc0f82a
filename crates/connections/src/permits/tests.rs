use super::*;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

/// A stream, and its other end.
fn stream() -> (Arc<dyn Stream>, UnixStream) {
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
        permits.take(ours)
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
    assert!(half_open[0].is_gone() && !half_open[1].is_gone() && !admitted.is_gone());
    assert_eq!((permits.count(), late.number), (3, 4));
    // When all are admitted, the newest is refused, and nobody is dropped.
    assert!(half_open[1].admit() && !half_open[0].admit());
    assert!(late.connection.admit());
    assert!(connect().is_none());
    assert!(!half_open[1].is_gone() && !late.connection.is_gone() && !admitted.is_gone());
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
        permits.take(ours)
    };
    let stuck = connect().unwrap();
    let late = connect().expect("room at once");
    assert!(stuck.connection.is_gone() && !late.connection.is_gone());
    assert_eq!((permits.count(), permits.sum(|_| 1)), (1, 2));
    assert!(connect().is_none() && !late.connection.is_gone());
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
