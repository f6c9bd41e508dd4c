//! The program `packhorse`.

fn main() -> std::process::ExitCode {
    packhorse::core::silence_contained();
    packhorse_cli::run(&packhorse::registry(), std::env::args_os())
}
