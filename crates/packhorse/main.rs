//! The program `packhorse`.

fn main() -> std::process::ExitCode {
    packhorse_cli::run(&packhorse::registry(), std::env::args_os())
}
