//! The `quintet` program: hands the process's arguments to the library and its exit code back.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    quintet::commands::run(std::env::args_os()).into()
}
