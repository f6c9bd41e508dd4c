//! The end of a command: results go to standard output, errors to standard error.

use crate::exit::code;
use crate::settings::flags;
pub(crate) use packhorse_core::counted;
use packhorse_core::{Error, Kind, Result};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// As one JSON document.
    pub(crate) json: bool,
    /// Not at all, unless as JSON.
    pub(crate) quiet: bool,
}

impl Style {
    /// Shows a result: that is a success, also where its reader went away.
    pub(crate) fn show(self, value: &Value, text: &str) -> Result<ExitCode> {
        let text = match self.json {
            true => format!("{value:#}\n").into(),
            false if self.quiet => return Ok(success()),
            false => flags(text),
        };
        print_whole(&text)
    }

    /// The same, but with `always` the result is shown also where `--quiet` is given: for commands that do nothing
    /// else.
    pub(crate) fn always(self, always: bool) -> Self {
        Self { quiet: self.quiet && !always, ..self }
    }

    /// Ends a command that found something wrong, with the exit code of `kind`. Where the result was not shown,
    /// `summary` is the error.
    pub(crate) fn found(self, shown: Result<ExitCode>, kind: Kind, summary: String) -> Result<ExitCode> {
        match shown.is_err() || self.quiet && !self.json {
            true => Err(Error::new(kind, summary)),
            false => Ok(ExitCode::from(code(kind))),
        }
    }
}

/// Writes the whole result of a command to standard output. A reader that went away does not change how it ends.
pub(crate) fn print_whole(text: &str) -> Result<ExitCode> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(e)),
        _ => Ok(success()),
    }
}

/// Writes to standard output. A reader that went away (`| head`) ends the program quietly.
pub(crate) fn print(text: &str) -> Result<()> {
    done(io::stdout().lock().write_all(text.as_bytes()))
}

/// Standard output, as [`print`] writes to it.
pub(crate) fn output() -> impl Write {
    struct Output(io::StdoutLock<'static>);
    fn ended<T>(result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            other => other,
        }
    }
    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            ended(self.0.write(bytes))
        }

        fn flush(&mut self) -> io::Result<()> {
            ended(self.0.flush())
        }
    }
    Output(io::stdout().lock())
}

/// The result of writing to standard output.
pub(crate) fn done(result: io::Result<()>) -> Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(unwritten),
    }
}

fn unwritten(error: io::Error) -> Error {
    Error::io("write to standard output", error)
}

/// Reports an error on standard error.
pub(crate) fn report_error(error: &Error, as_json: bool) {
    let line = match as_json {
        true => error_event("error", "message", error).to_string(),
        false => flags(&format!("error: {error}")).into_owned(),
    };
    // Standard error may be closed: then there is no other place to report that.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// An error as JSON, its message under the name `said`.
pub(crate) fn error_event(event: &str, said: &str, error: &Error) -> Value {
    json!({
        "event": event,
        "kind": error.kind().name(),
        "code": error.code().name(),
        said: flags(error.message()),
        "hint": error.hints().map(flags),
        "input": error.input(),
        "sample": error.sample(),
        "field": error.field(),
        "row": error.row(),
    })
}

/// A path in JSON, which has no other bytes than those of text.
pub(crate) fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// A count whose name is a plural: `7 tokens`, `1 picture unchanged`.
pub(crate) fn tally(n: u64, name: &str) -> String {
    let (first, rest) = name.split_at(name.find(' ').unwrap_or(name.len()));
    match first.strip_suffix('s') {
        Some(one) if n == 1 => format!("1 {one}{rest}"),
        _ => format!("{n} {name}"),
    }
}

/// The most lines of one kind.
const LINES: usize = 10;

/// A line for each of the first `items`, and one for the number of the others, as `more` names them.
pub(crate) fn first_lines<T>(items: &[T], line: impl Fn(&T) -> String, more: impl Fn(u64) -> String) -> String {
    let mut text: String = items.iter().take(LINES).map(|item| format!("  {}\n", line(item))).collect();
    if items.len() > LINES {
        text.push_str(&format!("  and {}\n", more((items.len() - LINES) as u64)));
    }
    text
}

/// [`counted`], where there may be no count yet.
pub(crate) fn maybe_counted(n: Option<u64>, noun: &str) -> String {
    n.map_or_else(|| format!("{noun}s not counted yet"), |n| counted(n, noun))
}

/// Success.
pub(crate) fn success() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_plural() {
        assert_eq!(
            (tally(1, "pictures unchanged"), tally(1, "tokens")),
            ("1 picture unchanged".into(), "1 token".into())
        );
        assert_eq!(
            (tally(0, "pictures unchanged"), tally(2, "tokens")),
            ("0 pictures unchanged".into(), "2 tokens".into())
        );
        assert_eq!((counted(1, "class"), counted(2, "class")), ("1 class".into(), "2 classes".into()));
    }
}
