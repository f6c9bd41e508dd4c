//! The command line: a thin layer over the library.
//!
//! This crate owns flags, the terminal, Slurm's environment, signals and exit codes. It knows no
//! byte layout: the binary passes the formats in a registry.

mod args;
mod command;
mod config;
mod exit;
mod flags;
mod outcome;
#[cfg(test)]
mod pages;
mod places;
mod planning;
mod progress;
mod settings;
mod signals;
mod size;
mod slurm;

pub use exit::code;

use clap::{CommandFactory, FromArgMatches};
use packhorse_core::{Error, Registry};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line `args` (the program's name first) with the formats of `registry`.
pub fn run(registry: &Registry, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let args = match config::expand(args, &definition()) {
        Ok(args) => args,
        Err(error) => return failed(&error, false),
    };
    let matched = definition().try_get_matches_from(args).and_then(|matches| {
        let parsed = args::Args::from_arg_matches(&matches)?;
        Ok((matches, parsed))
    });
    let (matches, parsed) = match matched {
        Ok(matched) => matched,
        Err(error) => {
            // Help and version go to standard output and are not errors.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let json = parsed.log_json();
    match places::check(&matches).and_then(|()| command::run(registry, parsed)) {
        Ok(code) => code,
        Err(error) => failed(&error, json),
    }
}

/// The command line's definition, for completions and man pages.
pub(crate) fn definition() -> clap::Command {
    args::Args::command()
}

fn failed(error: &Error, json: bool) -> ExitCode {
    outcome::report_error(error, json);
    ExitCode::from(code(error.kind()))
}
