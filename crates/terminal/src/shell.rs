//! The user of one command: outputs, stop request, time zone and names. Every command gets a
//! [`Shell`], whichever crate it is in.
//!
//! Invariant: no pool and no settings of one. All of it comes from the command context, never from
//! the process, so a server can run the command for a client.

use crate::command_context::CommandContext;
use crate::console::Console;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use jiff::tz::TimeZone;
use std::sync::Arc;

/// The user's side of one command. See the module's head.
pub struct Shell {
    /// Command context of the user.
    pub context: CommandContext,
    /// The console for all output.
    pub console: Arc<Console>,
    /// The user's stop request.
    pub interrupt: Interrupt,
    /// The user's time zone.
    pub zone: TimeZone,
    /// Updates of the progress display each second, if the user set them.
    progress_fps: Option<f64>,
}

impl Shell {
    /// Makes the shell of a command with this context, which writes to this console.
    pub fn new(context: CommandContext, console: Arc<Console>, progress_fps: Option<f64>) -> Self {
        Self {
            interrupt: context.interrupt.clone(),
            zone: context.zone(),
            context,
            console,
            progress_fps,
        }
    }

    /// Starts counters and their display.
    pub fn progress(&self, action: &'static str) -> Progress {
        self.progress_shown(action, false)
    }

    /// Like [`Shell::progress`]. If `shown`, outputs that are no terminal get a line every second.
    pub fn progress_shown(&self, action: &'static str, shown: bool) -> Progress {
        let lines = shown && !self.console.paints();
        let fps = self.progress_fps.or(lines.then_some(1.0));
        Progress::start(&self.console, &self.interrupt, action, fps)
    }

    /// Returns the host name of a new snapshot.
    pub fn host(&self, given: Option<&str>) -> String {
        if let Some(host) = given {
            return host.to_owned();
        }
        match rustix::system::uname().nodename().to_string_lossy() {
            name if name.is_empty() => "localhost".to_owned(),
            name => name.into_owned(),
        }
    }

    /// Returns the name of the user who runs the command, or else the user id.
    pub fn user(&self) -> String {
        let named = ["USER", "LOGNAME"]
            .iter()
            .find_map(|name| self.context.environment.text(name).ok().flatten());
        named.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
    }
}
