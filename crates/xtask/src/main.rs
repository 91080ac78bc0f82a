//! Tasks of the project that are no part of the program: `cargo xtask tidy`, which developers and
//! `./test` run, `cargo xtask messages`, for a review of the program's English, and `cargo xtask
//! run`, with which `./test` runs the tests.
//!
//! Invariant: no dependencies, so that it builds in a second.
#![forbid(unsafe_code)]

mod runner;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy [DIRECTORY]
       cargo xtask messages [DIRECTORY]
       cargo xtask run ARTIFACTS [--long] NAME...
       cargo xtask clean

tidy checks what the compiler does not: layers of the crates, order of the store's modules, words and
files that do not belong, documents that must exist. Every rule says what to do instead.

messages lists every text that the program can print: file, line, the call or field that takes it,
and the text. Help texts are comments in crates/quintet/src/cli and crates/host_tools, and are not listed.

run is what ./test calls after the build: it runs the tests that the names mean, several at a time. ARTIFACTS
is what cargo build said with --message-format=json.

clean removes what killed runs of it have left: processes, mounts, loop devices, scratch folders.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["tidy"] => run_tidy(&checkout()),
        ["tidy", root] => run_tidy(Path::new(root)),
        ["messages"] => list_messages(&checkout()),
        ["messages", root] => list_messages(Path::new(root)),
        ["run", artifacts, ref names @ ..] => run_tests(artifacts, names),
        ["clean"] => {
            runner::clean();
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Returns the checkout that this program was built from.
fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

fn run_tidy(root: &Path) -> ExitCode {
    let findings = match tidy::run(root) {
        Ok(findings) => findings,
        Err(e) => {
            eprintln!("tidy: {}: {e}", root.display());
            return ExitCode::FAILURE;
        }
    };
    let refused = findings.iter().filter(|f| f.refused).count();
    for finding in &findings {
        println!("{finding}");
    }
    println!(
        "tidy: {refused} refused, {} warnings",
        findings.len() - refused
    );
    match refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn run_tests(artifacts: &str, names: &[&str]) -> ExitCode {
    runner::run(&runner::Request {
        root: checkout(),
        artifacts: artifacts.into(),
        names: names
            .iter()
            .filter(|n| **n != "--long")
            .map(|n| (*n).to_owned())
            .collect(),
        is_long: names.contains(&"--long"),
    })
}

fn list_messages(root: &Path) -> ExitCode {
    let messages = match tidy::messages(root) {
        Ok(messages) => messages,
        Err(e) => {
            eprintln!("messages: {}: {e}", root.display());
            return ExitCode::FAILURE;
        }
    };
    for message in messages {
        println!("{message}");
    }
    ExitCode::SUCCESS
}
