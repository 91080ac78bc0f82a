//! `top`: shows the activity of a server at regular intervals. [`super::run`] calls this.
//!
//! Invariant: it reads counters and cached findings only, so watching costs almost nothing. Rates
//! cover the time since the last reading. A terminal is redrawn in place, and its former contents
//! return at the end. Other outputs, and JSON, get one frame after the other.

mod frame;

pub(super) use frame::{cache_object, uptime};

use super::invocation::Invocation;
use command_line::TopArgs;
use frame::Frame;
use server::findings::worst;
use server::state::Live;
use std::io;
use std::time::Duration;
use terminal::console::{Console, tamed_name};
use terminal::exit::Exit;

/// Switches the terminal to its other screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[H";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

pub(super) fn run(invocation: &Invocation, args: &TopArgs) -> anyhow::Result<Exit> {
    let server = invocation.server("start one with quintet serve")?;
    let interval = Duration::from_secs_f64(args.interval);
    let screen = Screen::begin(invocation, args.once)?;
    let count = args.count.or(args.once.then_some(1));
    let mut last = Live::of(server);
    let mut looks = 0;
    while count.is_none_or(|count| looks < count) && !invocation.interrupt.wait(interval) {
        let now = Live::of(server);
        let frame = Frame {
            uptime: server.since.elapsed(),
            state: worst(&server.findings().findings).state(),
            last: &last,
            now: &now,
        };
        match invocation.console.json() {
            true => invocation.console.message(frame.message())?,
            false => screen.show(&frame)?,
        }
        last = now;
        looks += 1;
    }
    screen.end()?;
    // The usual end is an interrupt, so it is no failure.
    Ok(Exit::Done)
}

/// The output of the frames.
struct Screen<'a> {
    console: &'a Console,
    /// The terminal, if the output is one.
    terminal: Option<&'a std::fs::File>,
}

impl<'a> Screen<'a> {
    fn begin(invocation: &'a Invocation, plain: bool) -> io::Result<Self> {
        use std::io::IsTerminal;
        let (console, output) = (&*invocation.console, &invocation.context.streams().output);
        let is_terminal = output.is_terminal() && !console.json() && !plain;
        let screen = Self {
            console,
            terminal: is_terminal.then_some(output),
        };
        screen.say(ENTER)?;
        Ok(screen)
    }

    fn say(&self, bytes: &[u8]) -> io::Result<()> {
        if self.terminal.is_some() {
            self.console.bytes(bytes)?;
            self.console.flush()?;
        }
        Ok(())
    }

    fn show(&self, frame: &Frame<'_>) -> io::Result<()> {
        let Some(terminal) = self.terminal else {
            for line in frame.lines(usize::MAX, self.console.out_columns()) {
                self.console.line(line)?;
            }
            self.console.line("")?;
            return self.console.flush();
        };
        // Some terminals do not report a size.
        let size = rustix::termios::tcgetwinsize(terminal).ok();
        let known = |count: u16, usual| if count == 0 { usual } else { count.into() };
        let (rows, columns) = size.map_or((24, 80), |s| (known(s.ws_row, 24), known(s.ws_col, 80)));
        let mut picture = b"\x1b[H".to_vec();
        let lines = frame.lines(rows, columns);
        for (number, line) in lines.iter().take(rows).enumerate() {
            if number > 0 {
                picture.extend(b"\r\n");
            }
            let line = tamed_name(line);
            picture.extend(line.chars().take(columns).collect::<String>().bytes());
            picture.extend(b"\x1b[K");
        }
        picture.extend(b"\x1b[J");
        self.say(&picture)
    }

    fn end(&self) -> io::Result<()> {
        self.say(LEAVE)
    }
}
