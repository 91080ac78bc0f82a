//! `parity`: shows or sets how much parity containers get. [`super::run`] calls this.
//!
//! Invariant: a change applies to containers that are stored later, not to existing ones.

use super::invocation::Invocation;
use command_line::ParityCommand;
use store::OpenMode;
use terminal::exit::Exit;
use terminal::json::Object;

pub(super) fn run(invocation: &Invocation, command: &ParityCommand) -> anyhow::Result<Exit> {
    let percent = match command {
        ParityCommand::Set { percent } => {
            invocation.open(OpenMode::Write)?.set_parity(*percent)?;
            *percent
        }
        ParityCommand::Show => invocation.open(OpenMode::Read)?.parity(),
    };
    let console = &invocation.console;
    console.message(Object::message("parity").integer("percent", percent))?;
    console.line(match percent {
        0 => "new containers get no parity".to_owned(),
        _ => format!("new containers get {percent} percent of parity"),
    })?;
    Ok(Exit::Done)
}
