//! The `quintet` program: passes the process's arguments to the library and returns its exit code.
#![forbid(unsafe_code)]

use machine::process;

fn main() -> std::process::ExitCode {
    process::bound_heap();
    server::threads::trimmer::trim_with(process::trim_heap);
    process::raise_open_files();
    process::keep_from_core_dumps();
    quintet::commands::run(std::env::args_os()).into()
}
