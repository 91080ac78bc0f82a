//! Tests silent initiators with a stream whose time limits pass when a test says so.

use crate::fuzzing::{login_request, session};
use crate::wire::pdu::{HEADER_BYTES, NO_TAG, PduHeader, padding, request, response};
use connections::{ByteStream, End};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Next action of the initiator.
enum Next {
    Sends(Vec<u8>),
    /// The time limit of the target passes.
    IsSilent,
}

struct Scripted {
    script: Mutex<VecDeque<Next>>,
    sent: Mutex<Vec<u8>>,
}

impl ByteStream for Scripted {
    fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut script = self.script.lock();
        match script.pop_front() {
            Some(Next::Sends(bytes)) => {
                let len = bytes.len().min(into.len());
                into[..len].copy_from_slice(&bytes[..len]);
                if len < bytes.len() {
                    script.push_front(Next::Sends(bytes[len..].to_vec()));
                }
                Ok(len)
            }
            Some(Next::IsSilent) => Err(io::ErrorKind::WouldBlock.into()),
            None => Ok(0),
        }
    }

    fn recv_now(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let is_silent = !matches!(self.script.lock().front(), Some(Next::Sends(_)));
        if is_silent {
            return Ok(None);
        }
        self.recv(into).map(Some)
    }

    fn wait(&self, _: &connections::Alarm, _: Duration) -> io::Result<bool> {
        Ok(true)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn set_recv_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_send_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_recv(&self) {}

    fn shutdown(&self) {}

    fn hung_up(&self) -> bool {
        false
    }
}

/// Runs a session. Returns its end and the PDUs that the initiator receives after the login.
fn run(script: impl IntoIterator<Item = Next>) -> (End, Vec<PduHeader>) {
    let login = Next::Sends(login_request());
    let stream = Arc::new(Scripted {
        script: Mutex::new([login].into_iter().chain(script).collect()),
        sent: Mutex::default(),
    });
    let end = session(stream.clone()).run();
    let sent = stream.sent.lock();
    let (mut rest, mut pdus) = (&sent[..], Vec::new());
    while let Some(header) = PduHeader::decode(rest) {
        let data = header.data_bytes();
        rest = &rest[HEADER_BYTES + data + padding(data)..];
        pdus.push(header);
    }
    assert_eq!(pdus.remove(0).operation(), response::LOGIN);
    (end, pdus)
}

fn sign_of_life() -> Next {
    let answer = PduHeader::new(request::NOP_OUT | 0x40, 0x80)
        .with_tag(NO_TAG)
        .with_u32::<20>(1);
    Next::Sends(answer.0.to_vec())
}

#[test]
fn silent_initiators_are_asked_for_a_sign_of_life() {
    let is_ping = |pdu: &PduHeader| (pdu.operation(), pdu.tag()) == (response::NOP_IN, NO_TAG);
    let answers = || {
        [
            Next::IsSilent,
            sign_of_life(),
            Next::IsSilent,
            sign_of_life(),
        ]
    };
    let (end, pings) = run(answers());
    assert_eq!((end, pings.len()), (End::Clean, 2));
    assert!(pings.iter().all(is_ping));
    // The third is not answered.
    let silence = [Next::IsSilent, Next::IsSilent];
    let (end, pings) = run(answers().into_iter().chain(silence));
    assert_eq!((end, pings.len()), (End::Dropped, 3));
    assert!(pings.iter().all(is_ping));
}
