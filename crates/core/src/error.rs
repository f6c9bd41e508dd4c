//! What went wrong, whom it concerns, and who must act.

use std::fmt;

/// The result of everything that can fail in packhorse.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who must act on an error. The command line maps each kind to a documented exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The input is bad. Policy may skip the sample; it is then recorded.
    Content,
    /// I/O failed, the disk is full, a permission is missing on an output. Never skipped; safe to run again.
    Environment,
    /// An input is not what the plan saw: it changed or vanished.
    Changed,
    /// The request makes no sense as given.
    Config,
    /// The dataset is not whole: shards are missing or damaged.
    Incomplete,
    /// Something is larger than a limit that the caller can raise.
    Limit,
    /// packhorse does not do this.
    Unsupported,
    /// The caller asked to stop.
    Cancelled,
    /// A defect of packhorse itself.
    Bug,
}

impl Kind {
    /// The word used in event lines and records.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Content => "content",
            Kind::Environment => "environment",
            Kind::Changed => "changed",
            Kind::Config => "config",
            Kind::Incomplete => "incomplete",
            Kind::Limit => "limit",
            Kind::Unsupported => "unsupported",
            Kind::Cancelled => "cancelled",
            Kind::Bug => "bug",
        }
    }
}

/// The one error type: a kind, a lowercase fragment that says what to do, the input and the sample
/// it concerns, and the error underneath.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    input: Option<String>,
    sample: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is a lowercase fragment without a final stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let inner = Inner { kind, message: message.into(), input: None, sample: None, source: None };
        Self(Box::new(inner))
    }

    /// Bad input.
    pub fn content(message: impl Into<String>) -> Self {
        Self::new(Kind::Content, message)
    }

    /// A request that makes no sense as given.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    /// Something packhorse does not do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, message)
    }

    /// A defect of packhorse.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Kind::Bug, message)
    }

    /// The caller asked to stop.
    pub fn cancelled() -> Self {
        Self::new(Kind::Cancelled, "stopped on request; run the same command again to go on")
    }

    /// A failed system call: `action` says what was being done (`"write"`, `"rename"`).
    pub fn io(action: &str, error: std::io::Error) -> Self {
        let hint = match error.raw_os_error() {
            Some(28) => "; free some space and run the same command again",
            Some(122) => "; the quota is used up: free some space and run the same command again",
            _ => "",
        };
        Self::new(Kind::Environment, format!("{action} failed: {error}{hint}")).caused_by(error)
    }

    /// The same error, with another kind.
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Names the input concerned, unless a deeper place already did.
    pub fn in_input(mut self, input: impl fmt::Display) -> Self {
        self.0.input.get_or_insert_with(|| input.to_string());
        self
    }

    /// Names the sample concerned, unless a deeper place already did.
    pub fn in_sample(mut self, key: impl fmt::Display) -> Self {
        self.0.sample.get_or_insert_with(|| key.to_string());
        self
    }

    /// Attaches the error underneath.
    pub fn caused_by(mut self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(error.into());
        self
    }

    /// Who must act.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What happened, without the input and the sample.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The input concerned, if known.
    pub fn input(&self) -> Option<&str> {
        self.0.input.as_deref()
    }

    /// The key of the sample concerned, if known.
    pub fn sample(&self) -> Option<&str> {
        self.0.sample.as_deref()
    }

    /// The number of the failed system call's error, if there was one.
    pub fn errno(&self) -> Option<i32> {
        self.0.source.as_ref()?.downcast_ref::<std::io::Error>()?.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(input) = &self.0.input {
            write!(f, "{}: ", printable(input))?;
        }
        if let Some(sample) = &self.0.sample {
            write!(f, "sample {}: ", printable(sample))?;
        }
        f.write_str(&printable(&self.0.message))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| &**e as &(dyn std::error::Error + 'static))
    }
}

/// Names come from foreign file systems and archives: control characters must not reach a terminal.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { Escaped::Code(c.escape_default()) } else { Escaped::Plain(Some(c)) })
        .collect()
}

enum Escaped {
    Plain(Option<char>),
    Code(std::char::EscapeDefault),
}

impl Iterator for Escaped {
    type Item = char;
    fn next(&mut self) -> Option<char> {
        match self {
            Escaped::Plain(c) => c.take(),
            Escaped::Code(code) => code.next(),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::other(error)
    }
}

/// Turns foreign errors into ours with a few words of what was being done.
pub trait Context<T> {
    /// An I/O error becomes `Environment`; an [`Error`] that travelled through `std::io` comes back whole.
    fn doing(self, action: &str) -> Result<T>;
}

impl<T> Context<T> for std::io::Result<T> {
    fn doing(self, action: &str) -> Result<T> {
        self.map_err(|error| match error.downcast::<Error>() {
            Ok(ours) => ours,
            Err(error) => Error::io(action, error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_input_and_sample_and_hides_control_characters() {
        let error = Error::content("is cut short").in_input("a\n\u{1b}[31m.jpg").in_sample("a");
        assert_eq!(error.to_string(), "a\\n\\u{1b}[31m.jpg: sample a: is cut short");
    }

    #[test]
    fn the_deepest_place_names_the_input() {
        assert_eq!(Error::content("x").in_input("inner").in_input("outer").input(), Some("inner"));
    }

    #[test]
    fn an_error_survives_a_trip_through_std_io() {
        let io: std::io::Error = Error::content("bad").into();
        let back = Err::<(), _>(io).doing("write").unwrap_err();
        assert_eq!((back.kind(), back.message()), (Kind::Content, "bad"));
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let error = Error::io("write", std::io::Error::from_raw_os_error(28));
        assert_eq!((error.kind(), error.errno()), (Kind::Environment, Some(28)));
        assert!(error.message().contains("free some space"));
    }
}
