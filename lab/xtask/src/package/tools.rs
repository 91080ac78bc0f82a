//! Runs programs for `package`.
//!
//! Invariant: a program that is missing or fails is an error that names it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program in a directory. It must succeed.
pub fn run(at: &Path, program: impl AsRef<OsStr>, arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new(&program);
    succeed(command.current_dir(at).args(arguments))
}

/// Runs a prepared program. It must succeed.
pub fn succeed(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_owned();
    let status = command
        .status()
        .map_err(|e| failed(&name, &e.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(&name, &status.to_string())),
    }
}

/// Returns what a program prints, without the last line end. It must succeed.
pub fn output(at: &Path, program: impl AsRef<OsStr>, arguments: &[&str]) -> io::Result<String> {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command
        .current_dir(at)
        .args(arguments)
        .stderr(Stdio::inherit());
    let output = command
        .output()
        .map_err(|e| failed(program, &e.to_string()))?;
    if !output.status.success() {
        return Err(failed(program, &output.status.to_string()));
    }
    let text = String::from_utf8(output.stdout).map_err(io::Error::other)?;
    Ok(text.trim_end().to_owned())
}

fn failed(program: &OsStr, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", program.display()))
}
