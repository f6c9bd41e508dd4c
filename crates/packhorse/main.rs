//! The program `packhorse`.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    packhorse::core::silence_contained();
    packhorse_cli::run(&packhorse::registry(), &packhorse::features(), std::env::args_os())
}
