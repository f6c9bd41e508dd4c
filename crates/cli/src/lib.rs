//! The command line: a thin layer over the library.
//!
//! This crate owns flags, the terminal, the environment of schedulers, signals and exit codes. It knows no
//! byte layout: the binary passes the formats in a registry.

mod args;
mod batch_args;
mod bench_args;
mod cluster;
mod cluster_args;
mod command;
mod config;
mod diagnose_args;
mod event_counts;
mod examples;
mod exit;
mod flags;
mod inspect_args;
mod metrics;
mod observe_args;
mod observed;
mod outcome;
mod pack_bench;
#[cfg(test)]
mod pages;
mod peak_memory;
mod picture_args;
mod places;
mod planning;
mod progress;
mod schedulers;
mod settings;
mod signals;
mod size;
mod stages;
mod status_line;
mod timed_store;
mod trace;
mod trace_lines;
mod trace_subscriber;
mod version;
mod view_args;

pub use exit::code;
pub use trace::Trace;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use packhorse_core::{Code, Error, Registry};
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Runs the command line `args` (the program's name first) with the formats of `registry`. `features` are those of the
/// build, for `--version`.
pub fn run(registry: &Registry, features: &[&str], args: impl IntoIterator<Item = OsString>) -> ExitCode {
    version::set(registry, features);
    let args: Vec<OsString> = args.into_iter().collect();
    let as_json = asks_for_json(&args);
    let args = match config::expand(args, &definition()) {
        Ok(args) => args,
        Err(error) => return failed(&error, as_json),
    };
    let as_json = as_json || asks_for_json(&args);
    let packs = args.get(1).is_some_and(|command| command == "pack" || command == "plan" || command == "scan");
    let matched = definition().try_get_matches_from(args).and_then(|matches| {
        let parsed = args::Args::from_arg_matches(&matches)?;
        Ok((matches, parsed))
    });
    let (matches, parsed) = match matched {
        Ok(matched) => matched,
        Err(error) if as_json && error.use_stderr() => return failed(&usage(&meant(error, packs)), true),
        Err(error) => {
            // Help and version go to standard output and are not errors.
            let error = meant(error, packs);
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let json = parsed.common.log.is_some();
    let command = || places::check(&matches).and_then(|()| command::run(registry, parsed));
    // A panic has been printed by then.
    match catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| Err(Error::bug("a thread panicked"))) {
        Ok(code) => code,
        Err(error) => failed(&error, json),
    }
}

/// The command line's definition, for completions and man pages.
pub(crate) fn definition() -> clap::Command {
    args::Args::command().version(version::RELEASE).long_version(version::long())
}

/// Whether errors are to be JSON, also those of flags that do not parse.
fn asks_for_json(args: &[OsString]) -> bool {
    let separate = || args.windows(2).any(|pair| matches!(pair, [flag, value] if flag == "--log" && value == "json"));
    args.iter().any(|arg| arg == "--log=json") || separate()
}

/// Flags of other programs, and those of `pack` for the same.
const ELSEWHERE: [(&str, &str); 7] = [
    ("--class", "--labels folders"),
    ("--format", "--to"),
    ("--maxsize", "--shard-size"),
    ("--num-workers", "--jobs"),
    ("--output", "--out"),
    ("--resize", "--image resize=256"),
    ("--seed", "--shuffle 7"),
];

/// The error with our flag as the tip where a flag is known from elsewhere, if the command `packs`.
fn meant(mut error: clap::Error, packs: bool) -> clap::Error {
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if packs => flag.split('=').next().unwrap_or_default().to_owned(),
        _ => return error,
    };
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(flag, _)| *flag == given) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String((*ours).to_owned()));
    }
    error
}

/// An error of the flags as one of ours: its first paragraph.
fn usage(error: &clap::Error) -> Error {
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let ours = Error::config(message.split_whitespace().collect::<Vec<_>>().join(" ")).hint("see `packhorse help`");
    match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => ours.with_code(Code::BadSetting),
        _ => ours,
    }
}

fn failed(error: &Error, json: bool) -> ExitCode {
    outcome::report_error(error, json);
    ExitCode::from(code(error.kind()))
}
