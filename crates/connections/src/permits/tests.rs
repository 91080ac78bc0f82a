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
    admitted.admit();
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
    half_open[1].admit();
    late.connection.admit();
    assert!(connect().is_none());
    assert!(!half_open[1].is_gone() && !late.connection.is_gone() && !admitted.is_gone());
    drop(late);
    assert!(permits.end_all(Duration::from_secs(60)));
    assert_eq!(permits.count(), 0);
}

#[test]
fn a_thread_that_does_not_end_makes_no_room() {
    let permits = Permits::new(1);
    let (ours, _peer) = stream();
    let stuck = permits.take(ours).unwrap();
    let (ours, _other) = stream();
    assert!(permits.take(ours).is_none() && stuck.connection.is_gone());
    assert_eq!(permits.count(), 1);
    assert!(!permits.end_all(Duration::from_millis(1)));
    // A panic returns the permit too.
    let (begun, begins) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _stuck = stuck;
        begun.send(()).unwrap();
        panic!("for the test");
    });
    begins.recv().unwrap();
    assert!(thread.join().is_err());
    assert_eq!(permits.count(), 0);
    let (ours, _peer) = stream();
    assert!(permits.take(ours).is_some());
}
