//! Tasks of the project that are no part of the program: `cargo xtask tidy`, which developers and
//! `./test` run, `cargo xtask messages`, for a review of the program's English, `cargo xtask run`,
//! with which `./test` runs the tests, and `cargo xtask package`, which makes packages.
//!
//! Invariant: no dependencies, so that it builds in a second.
#![forbid(unsafe_code)]

mod package;
mod runner;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy [DIRECTORY]
       cargo xtask messages [DIRECTORY]
       cargo xtask run ARTIFACTS [--long] NAME...
       cargo xtask clean
       cargo xtask package [--program PATH] [--version VERSION] [--to DIRECTORY]

tidy checks what the compiler does not: layers of the crates, order of the store's modules, words and
files that do not belong, documents that must exist. Every rule says what to do instead.

messages lists every text that the program can print: file, line, the call or field that takes it,
and the text. Help texts are comments in crates/command_line/src and crates/host_tools, and are not listed.

run is what ./test calls after the build: it runs the tests that the names mean, several at a time. ARTIFACTS
is what cargo build said with --message-format=json.

clean removes what killed runs of it have left: processes, mounts, loop devices, scratch folders.

package makes a Debian package and a tarball with a static program, in target/package. --program packs a
program that is built already; --version gives it another version than that of this commit.";

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
        ["package", ref options @ ..] => match package_request(options) {
            Some(request) => make_packages(request),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Returns `None` if the options are wrong.
fn package_request(options: &[&str]) -> Option<package::Request> {
    let mut request = package::Request::default();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = (*options.next()?).to_owned();
        match *option {
            "--program" => request.program = Some(value.into()),
            "--version" => request.version = Some(value),
            "--to" => request.to = Some(value.into()),
            _ => return None,
        }
    }
    Some(request)
}

fn make_packages(request: package::Request) -> ExitCode {
    match package::run(&checkout(), request) {
        Ok(packages) => {
            for package in packages {
                println!("{}", package.display());
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("package: {e}");
            ExitCode::FAILURE
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
