//! Writes everything that a command prints to standard output and standard error. Commands and
//! [`crate::progress`] call this.
//!
//! Invariant: standard output gets results or JSON lines and nothing else. Notes, warnings and the
//! progress line go to standard error. The progress line never mixes with other lines. A name from
//! a file system or a pool never controls a terminal, in whatever line it is printed.

pub use units::printable::{printable, tamed, tamed_name};

use crate::command_context::CommandContext;
use crate::json::Object;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use units::PathError;

/// Maximum size of the lines that are kept until the end of a quiet run, bytes. Further lines are
/// dropped.
const HELD_BYTES_MAX: usize = 16 << 20;

/// Width of a terminal that reports none, columns.
const COLUMNS: usize = 80;

/// Returns the width of a terminal, columns.
pub fn columns_of(terminal: &File) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    let reported = columns.filter(|columns| *columns > 0);
    reported.unwrap_or(COLUMNS).clamp(40, 400)
}

/// Verbosity and output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Loudness {
    /// Print JSON lines instead of text.
    pub json: bool,
    /// Print no notes and no progress.
    pub quiet: bool,
    /// Number of `-v` flags.
    pub verbose: u8,
}

struct Streams {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// The progress line is on the terminal, without a line end.
    painted: bool,
    /// Lines that are kept until the outcome of the run is known.
    held: Option<Vec<u8>>,
}

/// The console of a command, which its threads share. See the module's head.
pub struct Console {
    loudness: Loudness,
    streams: Mutex<Streams>,
    out_is_terminal: bool,
    /// Width of the terminal that standard output is, at the start.
    out_columns: Option<usize>,
    /// Standard error, if it is a terminal.
    terminal: Option<File>,
}

impl Console {
    /// Writes to the streams of a command context.
    pub fn new(loudness: Loudness, context: &CommandContext) -> io::Result<Self> {
        let (out, err) = (&context.streams().output, &context.streams().error);
        Ok(Self {
            loudness,
            out_is_terminal: out.is_terminal(),
            out_columns: out.is_terminal().then(|| columns_of(out)),
            terminal: err.is_terminal().then(|| err.try_clone()).transpose()?,
            streams: Mutex::new(Streams {
                out: Box::new(BufWriter::with_capacity(64 << 10, context.output()?)),
                err: context.error()?,
                painted: false,
                held: None,
            }),
        })
    }

    /// Writes to memory. Returns the console and its standard output and standard error.
    pub fn captured(loudness: Loudness) -> (Arc<Self>, Written, Written) {
        let (out, err) = (Written::default(), Written::default());
        let console = Self {
            loudness,
            out_is_terminal: false,
            out_columns: None,
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

    /// Returns the verbosity and output format.
    pub fn loudness(&self) -> Loudness {
        self.loudness
    }

    /// Returns true if results are JSON lines.
    pub fn json(&self) -> bool {
        self.loudness.json
    }

    /// Returns true if a progress line can be drawn.
    pub fn paints(&self) -> bool {
        self.terminal.is_some() && !self.loudness.quiet && !self.loudness.json
    }

    /// Keeps lines of results from now on until [`Console::settle`].
    pub fn hold_lines(&self) {
        self.streams.lock().held = Some(Vec::new());
    }

    /// Prints the kept lines if `says`, and drops them otherwise.
    pub fn settle(&self, says: bool) -> io::Result<()> {
        let held = self.streams.lock().held.take();
        match held.filter(|held| says && !held.is_empty()) {
            Some(held) => self.put(&[&held]),
            None => Ok(()),
        }
    }

    /// Prints a line of results as text. Does nothing in JSON, where [`Console::message`] prints
    /// it.
    pub fn line(&self, text: impl AsRef<[u8]>) -> io::Result<()> {
        if self.json() {
            return Ok(());
        }
        // Other programs get exact names. A terminal gets no control characters.
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

    /// Prints a JSON line. Does nothing if the format is text.
    pub fn message(&self, object: Object) -> io::Result<()> {
        if !self.json() {
            return Ok(());
        }
        self.put(&[object.finish().as_bytes(), b"\n"])
    }

    /// Writes the bytes of a result: a dumped file or an archive.
    pub fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(&[bytes])
    }

    /// Prints a note, unless the output is quiet or JSON.
    pub fn note(&self, text: impl fmt::Display) {
        if !self.loudness.quiet && !self.json() {
            self.say(&text.to_string());
        }
    }

    /// Prints a note if the user gave `-v` and the output is not JSON.
    pub fn detail(&self, text: impl fmt::Display) {
        if self.loudness.verbose > 0 && !self.json() {
            self.say(&text.to_string());
        }
    }

    /// Prints a warning about a failure that does not end the run, even if the output is quiet.
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
                .text("message", &units::reason(&error.source));
            self.error_message(object);
        } else {
            let path = printable(error.path.as_os_str().as_bytes());
            self.say(&format!("warning: {}", error.text_with(path)));
        }
    }

    /// Prints the error that ends the run, on standard error. In JSON it is an `exit_error`, with
    /// the text of the helper program that failed, if one did.
    pub fn fail(&self, code: u8, message: impl fmt::Display, helper_output: Option<&str>) {
        let text = match self.json() {
            true => Object::message("exit_error")
                .integer("code", code)
                .text("message", &message.to_string())
                .text_if("helper_output", helper_output)
                .finish(),
            false => format!("quintet: {message}"),
        };
        self.say(&text);
    }

    /// Returns a name or path for a line of results: exact for programs, without control characters
    /// for terminals.
    pub fn name(&self, name: &[u8]) -> Vec<u8> {
        match self.out_is_terminal {
            true => printable(name).into_bytes(),
            false => name.to_vec(),
        }
    }

    /// Replaces the progress line, or removes it.
    pub fn paint(&self, line: Option<&str>) {
        let mut streams = self.streams.lock();
        streams.unpaint();
        if let Some(line) = line {
            streams.complain(&tamed(line.as_bytes()));
            streams.painted = true;
        }
    }

    /// Returns the width of the terminal that shows progress, columns.
    pub fn columns(&self) -> usize {
        self.terminal.as_ref().map_or(COLUMNS, columns_of)
    }

    /// Returns the width for tables on standard output, columns. Files and programs get whole
    /// names.
    pub fn out_columns(&self) -> usize {
        self.out_columns.unwrap_or(usize::MAX)
    }

    /// Flushes all results to the system.
    pub fn flush(&self) -> io::Result<()> {
        self.streams.lock().out.flush()
    }

    fn put(&self, pieces: &[&[u8]]) -> io::Result<()> {
        let mut streams = self.streams.lock();
        streams.unpaint();
        for piece in pieces {
            streams.out.write_all(piece)?;
        }
        // Terminals and programs that watch JSON need each line at once. The rate of status
        // messages is limited, so the flushes are cheap.
        if self.out_is_terminal || self.json() {
            streams.out.flush()?;
        }
        Ok(())
    }

    fn error_message(&self, object: Object) {
        // A closed output ends the run at the next result. It must not hide warnings.
        let _ = self.message(object);
    }

    /// Prints a line on standard error, even if the output is quiet.
    pub fn say(&self, text: &str) {
        let mut streams = self.streams.lock();
        streams.unpaint();
        // Text is made safe even if standard error is no terminal: a log may be read on one.
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
        // If standard error fails, nothing else is left to report to.
        let _ = self.err.write_all(bytes).and_then(|()| self.err.flush());
    }
}

/// Output of a console that writes to memory.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// Returns all output so far, as text.
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
