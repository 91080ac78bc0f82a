//! `host defrag status`: what a run does, and what the last one did. [`super::run`] calls this.
//!
//! Invariant: it reads records only. It says so where a record is all that is left of a run.

use super::record::{RunState, records};
use crate::arguments::HostDefragStatusArgs;
use anyhow::Context;
use serde_json::{Map, Value};
use terminal::exit::Exit;
use terminal::json::Object;
use terminal::shell::Shell;
use terminal::sizes;

pub(super) fn run(shell: &Shell, args: &HostDefragStatusArgs) -> anyhow::Result<Exit> {
    let environment = &shell.context.environment;
    let top = args.path.as_deref();
    let found = records(environment, top).context("the records of defragmentations")?;
    if found.is_empty() {
        shell.console.note("no run is recorded here");
    }
    for (state, record) in &found {
        let object = Object::of(record.clone());
        shell.console.message(object)?;
        for line in lines(*state, record) {
            shell.console.line(line)?;
        }
    }
    Ok(Exit::Done)
}

/// Describes a run.
fn lines(state: RunState, record: &Map<String, Value>) -> Vec<String> {
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or("?");
    let number = |name: &str| record.get(name).and_then(Value::as_u64).unwrap_or(0);
    let size = |name: &str| sizes::display(number(name));
    let (process, recorded) = (number("process"), text("recorded"));
    let mut lines = vec![
        format!(
            "{}: {}",
            text("path"),
            match state {
                RunState::Running => format!("process {process} moves extents"),
                RunState::Finished => format!("finished {recorded}"),
                RunState::Stopped =>
                    format!("stopped {recorded}; another run continues with what is left"),
                RunState::Killed => format!(
                    "process {process} was killed after {recorded}; nothing is lost, and another run continues with what is left"
                ),
            }
        ),
        format!("  began {}", text("began")),
        format!(
            "  {} files looked at, {} failed; moved {} in {} ranges",
            number("files"),
            number("failed"),
            size("moved_bytes"),
            number("moved_ranges")
        ),
        format!(
            "  read {}, {} of it from the disk; wrote {}",
            size("read_bytes"),
            size("bytes_read_from_disk"),
            size("written_bytes")
        ),
    ];
    if state == RunState::Running {
        let more = match record.get("planned") {
            Some(Value::Bool(true)) => "",
            _ => ", and files that are not planned yet",
        };
        lines.push(format!("  left: {}{more}", size("waiting_bytes")));
    }
    if record.get("limit_reached") == Some(&Value::Bool(true)) {
        lines.push("  stopped at the limit of --limit-bytes".to_owned());
    }
    lines
}
