//! Commands of the system that the runner calls for their effect.

use std::process::{Command, Stdio};

/// Runs `name`. Returns true if it succeeded.
pub fn run(name: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a command that may hang, for 20 seconds at most.
pub fn run_bounded(name: &str, arguments: &[&str]) {
    let limited: Vec<_> = ["--kill-after=1", "20", name]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    run("timeout", &limited);
}
