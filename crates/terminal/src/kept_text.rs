//! Reads what a program or command writes to standard error, shows it, and keeps its end: the cause
//! of a failure. [`crate::outside_program`] and `quintet run` call this.
//!
//! Invariant: memory has a limit. A process that keeps the other end open holds nobody up once
//! [`KeptText::end`] was called.

use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

/// Bytes of text that are kept.
const KEPT_BYTES: usize = 64 << 10;

/// A thread that reads the text.
pub struct KeptText {
    thread: JoinHandle<Vec<u8>>,
    ended: PipeWriter,
}

impl KeptText {
    /// Starts to read. `shown` gets the text at once.
    pub fn start(
        text: impl Read + AsFd + Send + 'static,
        shown: Option<Box<dyn Write + Send>>,
    ) -> io::Result<Self> {
        let (over, ended) = io::pipe()?;
        Ok(Self {
            thread: std::thread::spawn(move || collect(text, &over, shown)),
            ended,
        })
    }

    /// Reads what was written so far, and returns the end of the text.
    pub fn end(mut self) -> String {
        // The thread may have ended already.
        let _ = self.ended.write_all(b"e");
        let text = self.thread.join().unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Reads the text up to its end, or up to the program's.
fn collect(
    mut text: impl Read + AsFd,
    over: &impl AsFd,
    mut shown: Option<Box<dyn Write + Send>>,
) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut part = vec![0; 4096];
    loop {
        let mut fds = [
            PollFd::new(&text, PollFlags::IN),
            PollFd::new(over, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return kept,
        }
        let [has_text, is_over] = fds.map(|fd| !fd.revents().is_empty());
        match has_text {
            true => match text.read(&mut part) {
                Ok(0) => return kept,
                Ok(count) => {
                    let new = part.get(..count).unwrap_or_default();
                    if let Some(shown) = &mut shown {
                        // The user's output is closed; the program goes on.
                        let _ = shown.write_all(new);
                    }
                    kept.extend_from_slice(new);
                    let excess = kept.len().saturating_sub(KEPT_BYTES);
                    kept.drain(..excess);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return kept,
            },
            false if is_over => return kept,
            false => {}
        }
    }
}
