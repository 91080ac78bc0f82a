//! Everything that leaves the program by standard output and standard error.
//!
//! Invariant: standard output carries results (or JSON lines) and nothing else; notes, warnings and
//! the progress line go to standard error; the progress line never mixes with other lines. No name
//! that comes from a file system or a pool moves a terminal's cursor, in whatever line it stands.
//! Commands and [`crate::progress`] write through this.

pub use archive::printable::{printable, tamed, tamed_name};

use crate::json::Object;
use archive::filesystem::PathError;
use parking_lot::Mutex;
use server::caller::Caller;
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Lines that wait for the end of a quiet run, bytes; what comes after is dropped.
const HELD_BYTES_MAX: usize = 16 << 20;

/// How much is said, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Loudness {
    /// JSON lines instead of text.
    pub json: bool,
    /// No notes, no progress.
    pub quiet: bool,
    /// 0, or how often the user said `-v`.
    pub verbose: u8,
}

struct Streams {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// A progress line stands on the terminal, without a line end.
    painted: bool,
    /// Lines that wait for how the run ends.
    held: Option<Vec<u8>>,
}

/// See the module's head. Shared by all threads.
pub struct Console {
    loudness: Loudness,
    streams: Mutex<Streams>,
    out_is_terminal: bool,
    /// Standard error, if it is one.
    terminal: Option<File>,
}

impl Console {
    /// Over the streams of whoever runs the command.
    pub fn new(loudness: Loudness, caller: &Caller) -> io::Result<Self> {
        let (out, err) = (&caller.streams().output, &caller.streams().error);
        Ok(Self {
            loudness,
            out_is_terminal: out.is_terminal(),
            terminal: err.is_terminal().then(|| err.try_clone()).transpose()?,
            streams: Mutex::new(Streams {
                out: Box::new(BufWriter::with_capacity(64 << 10, caller.output()?)),
                err: caller.error()?,
                painted: false,
                held: None,
            }),
        })
    }

    /// Into memory: gives the console and what it wrote to output and error.
    pub fn captured(loudness: Loudness) -> (Arc<Self>, Written, Written) {
        let (out, err) = (Written::default(), Written::default());
        let console = Self {
            loudness,
            out_is_terminal: false,
            terminal: None,
            streams: Mutex::new(Streams {
                out: Box::new(out.clone()),
                err: Box::new(err.clone()),
                painted: false,
                held: None,
            }),
        };
        (Arc::new(console), out, err)
    }

    /// How much is said.
    pub fn loudness(&self) -> Loudness {
        self.loudness
    }

    /// Results are JSON lines.
    pub fn json(&self) -> bool {
        self.loudness.json
    }

    /// A progress line can be drawn.
    pub fn paints(&self) -> bool {
        self.terminal.is_some() && !self.loudness.quiet && !self.loudness.json
    }

    /// From now on lines of results wait for [`Console::settle`].
    pub fn hold_lines(&self) {
        self.streams.lock().held = Some(Vec::new());
    }

    /// Says the lines that wait, or drops them.
    pub fn settle(&self, says: bool) -> io::Result<()> {
        let held = self.streams.lock().held.take();
        match held.filter(|held| says && !held.is_empty()) {
            Some(held) => self.put(&[&held]),
            None => Ok(()),
        }
    }

    /// A line of results for people; silent in JSON, where [`Console::message`] says it.
    pub fn line(&self, text: impl AsRef<[u8]>) -> io::Result<()> {
        if self.json() {
            return Ok(());
        }
        // Names in it are exact for programs; a terminal is told nothing but text.
        let text = match self.out_is_terminal {
            true => tamed(text.as_ref()),
            false => Cow::Borrowed(text.as_ref()),
        };
        if let Some(held) = &mut self.streams.lock().held {
            if held.len() < HELD_BYTES_MAX {
                held.extend_from_slice(&text);
                held.push(b'\n');
            }
            return Ok(());
        }
        self.put(&[&text, b"\n"])
    }

    /// A JSON line; silent when people read.
    pub fn message(&self, object: Object) -> io::Result<()> {
        if !self.json() {
            return Ok(());
        }
        self.put(&[object.finish().as_bytes(), b"\n"])
    }

    /// Bytes of a result: a dumped file, an archive.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(&[bytes])
    }

    /// A remark for people, unless they asked for quiet.
    pub fn note(&self, text: impl fmt::Display) {
        if !self.loudness.quiet && !self.json() {
            self.say(&text.to_string());
        }
    }

    /// A remark for people who asked for more with `-v`.
    pub fn detail(&self, text: impl fmt::Display) {
        if self.loudness.verbose > 0 && !self.json() {
            self.say(&text.to_string());
        }
    }

    /// Something went wrong and the rest goes on. Never silent.
    pub fn warn(&self, warning: impl fmt::Display) {
        let text = warning.to_string();
        if self.json() {
            self.error_message(Object::message("error").text("message", &text));
        } else {
            self.say(&format!("warning: {text}"));
        }
    }

    /// [`Console::warn`] about one path.
    pub fn warn_path(&self, error: &PathError) {
        if self.json() {
            let object = Object::message("error")
                .text("during", error.operation)
                .path("item", error.path.as_os_str().as_bytes())
                .text("message", &error.source.to_string());
            self.error_message(object);
        } else {
            let path = printable(error.path.as_os_str().as_bytes());
            let (operation, source) = (error.operation, &error.source);
            self.say(&format!("warning: {path}: {operation}: {source}"));
        }
    }

    /// The last words of a run that failed: `exit_error` on standard error in JSON.
    pub fn fail(&self, code: u8, message: impl fmt::Display) {
        let text = match self.json() {
            true => Object::message("exit_error")
                .integer("code", code)
                .text("message", &message.to_string())
                .finish(),
            false => format!("quintet: {message}"),
        };
        self.say(&text);
    }

    /// A name or path as it may stand in a line of results: exact for programs, without control
    /// characters for terminals.
    pub fn name(&self, name: &[u8]) -> Vec<u8> {
        match self.out_is_terminal {
            true => printable(name).into_bytes(),
            false => name.to_vec(),
        }
    }

    /// Draws the progress line over the last one, or removes it.
    pub fn paint(&self, line: Option<&str>) {
        let mut streams = self.streams.lock();
        streams.unpaint();
        if let Some(line) = line {
            streams.complain(&tamed(line.as_bytes()));
            streams.painted = true;
        }
    }

    /// Columns of the terminal that shows progress.
    pub fn columns(&self) -> usize {
        let size = self.terminal.as_ref().map(rustix::termios::tcgetwinsize);
        // Some terminals do not know.
        let columns = size
            .and_then(Result::ok)
            .map(|size| usize::from(size.ws_col));
        columns
            .filter(|columns| *columns > 0)
            .unwrap_or(80)
            .clamp(40, 400)
    }

    /// Hands all results to the system.
    pub fn flush(&self) -> io::Result<()> {
        self.streams.lock().out.flush()
    }

    fn put(&self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut streams = self.streams.lock();
        streams.unpaint();
        for piece in pieces {
            streams.out.write_all(piece)?;
        }
        // People and programs that watch want lines when they happen; status is rare enough.
        if self.out_is_terminal || self.json() {
            streams.out.flush()?;
        }
        Ok(())
    }

    fn error_message(&self, object: Object) {
        // A closed output ends the run at the next result; warnings must not hide that.
        let _ = self.message(object);
    }

    pub(crate) fn say(&self, text: &str) {
        let mut streams = self.streams.lock();
        streams.unpaint();
        // Also where no terminal is: who reads a log has one.
        streams.complain(&tamed(text.as_bytes()));
        streams.complain(b"\n");
    }
}

impl Streams {
    fn unpaint(&mut self) {
        if self.painted {
            self.complain(b"\r\x1b[K");
            self.painted = false;
        }
    }

    fn complain(&mut self, bytes: &[u8]) {
        // There is nobody left to tell when standard error is gone.
        let _ = self.err.write_all(bytes).and_then(|()| self.err.flush());
    }
}

/// What a captured console wrote.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// All of it so far, as text.
    pub fn text(&self) -> String {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock();
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
