//! The `quintet` program: passes the process's arguments to the library and returns its exit code.
#![deny(unsafe_code)]

#[allow(
    unsafe_code,
    reason = "one declaration of a C function that is safe to call"
)]
mod heap;

fn main() -> std::process::ExitCode {
    heap::bound();
    server::threads::trimmer::trim_with(heap::trim);
    quintet::limits::raise_open_files();
    quintet::secrecy::keep_from_core_dumps();
    quintet::commands::run(std::env::args_os()).into()
}
