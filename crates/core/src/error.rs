//! The error type: what went wrong, in which input, sample and field, and who must act.

mod code;
mod kind;
mod system;

pub use code::Code;
pub use kind::Kind;
pub use system::{Context, found};

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result of everything that can fail in packhorse.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The one error type.
///
/// A message is a lowercase fragment without a final stop; what to do about it is the hint. Callers that pass an error
/// on add context ([`context`](Self::context), [`in_input`](Self::in_input), …) and never build another one. A setting
/// is named in backticks, as `` `name` `` or `` `name=value` ``: the command line shows it as a flag.
///
/// ```
/// use packhorse_core::{Code, Error};
///
/// let error = Error::content("has 3 values, and the column has 4").with_code(Code::ColumnsDiffer);
/// let error = error.in_field("x").subject("field x").hint("leave the sample out with `on-error=skip`");
/// let error = error.in_sample("0001").in_input("a.npz");
/// assert_eq!(
///     error.to_string(),
///     "a.npz: sample 0001: field x has 3 values, and the column has 4; leave the sample out with `on-error=skip`"
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    code: Option<Code>,
    message: String,
    hint: Option<String>,
    input: Option<String>,
    sample: Option<String>,
    field: Option<String>,
    row: Option<u64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is a lowercase fragment without a final stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            code: None,
            message: message.into(),
            hint: None,
            input: None,
            sample: None,
            field: None,
            row: None,
            source: None,
        }))
    }

    /// Bad input.
    pub fn content(message: impl Into<String>) -> Self {
        Self::new(Kind::Content, message)
    }

    /// A read of `wanted` bytes at `offset` of an input of `len` bytes.
    pub fn past_end(wanted: u64, offset: u64, len: u64) -> Self {
        Self::cut_short(format!("{wanted} bytes wanted at offset {offset} of {len}"))
    }

    /// Bad input that ends before its content does; `how` is what shows it.
    pub fn cut_short(how: impl fmt::Display) -> Self {
        Self::content(format!("is cut short: {how}")).with_code(Code::CutShort)
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
        Self::new(Kind::Cancelled, "stopped on request").hint("run the same command again to go on")
    }

    /// The same error, with another kind.
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The same error, with a code that says more than its kind.
    pub fn with_code(mut self, code: Code) -> Self {
        self.0.code = Some(code);
        self
    }

    /// Prefixes the message with the place: `context: message`.
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Prefixes the message with its grammatical subject: `subject message`.
    pub fn subject(mut self, subject: impl fmt::Display) -> Self {
        self.0.message = format!("{subject} {}", self.0.message);
        self
    }

    /// Adds a remark to the message: `message (remark)`.
    pub fn remark(mut self, remark: impl fmt::Display) -> Self {
        self.0.message = format!("{} ({remark})", self.0.message);
        self
    }

    /// Says what to do about it: a likely name, a choice, the next command. A second hint follows the first.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        self.0.hint = Some(match self.0.hint.take() {
            Some(before) => format!("{before}; {hint}"),
            None => hint,
        });
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

    /// Names the field (column, branch) concerned, unless a deeper place already did. The message names it too where a
    /// reader needs it: [`Display`](fmt::Display) does not show this one.
    pub fn in_field(mut self, field: impl fmt::Display) -> Self {
        self.0.field.get_or_insert_with(|| field.to_string());
        self
    }

    /// Numbers the row or record concerned, from 0 in its input, unless a deeper place already did. Not shown by
    /// [`Display`](fmt::Display), as the field.
    pub fn at_row(mut self, row: u64) -> Self {
        self.0.row.get_or_insert(row);
        self
    }

    /// Attaches the error underneath.
    pub fn caused_by(mut self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(error.into()));
        self
    }

    /// Who must act.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What went wrong, as a stable name.
    pub fn code(&self) -> Code {
        self.0.code.unwrap_or_else(|| self.0.kind.code())
    }

    /// What happened, without the hint, the input and the sample.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it, if known.
    pub fn hints(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Message and hint, as records of skipped samples hold them.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.0.hint {
            Some(hint) => format!("{}; {hint}", self.0.message).into(),
            None => Cow::Borrowed(&self.0.message),
        }
    }

    /// The input concerned, if known.
    pub fn input(&self) -> Option<&str> {
        self.0.input.as_deref()
    }

    /// The key of the sample concerned, if known.
    pub fn sample(&self) -> Option<&str> {
        self.0.sample.as_deref()
    }

    /// The field concerned, if known.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The row concerned, from 0, if known.
    pub fn row(&self) -> Option<u64> {
        self.0.row
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
        f.write_str(&printable(&self.text()))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| &**e as &(dyn std::error::Error + 'static))
    }
}

/// Names come from foreign file systems and archives: control characters must not reach a terminal.
fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
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
        let error = Error::content("x").in_input("inner").in_field("a").at_row(0);
        let error = error.in_input("outer").in_field("b").at_row(9);
        assert_eq!((error.input(), error.field(), error.row()), (Some("inner"), Some("a"), Some(0)));
    }

    #[test]
    fn context_keeps_what_is_known() {
        let cause = std::io::Error::from_raw_os_error(2);
        let error = Error::new(Kind::Changed, "is gone").with_code(Code::InputVanished).hint("plan again");
        let error = error.in_sample("s").in_field("f").at_row(3).caused_by(cause);
        let error = error.subject("field f").context("record 4").remark("at byte 7").hint("or leave it out");
        assert_eq!(error.to_string(), "sample s: record 4: field f is gone (at byte 7); plan again; or leave it out");
        assert_eq!(error.message(), "record 4: field f is gone (at byte 7)");
        assert_eq!(error.hints(), Some("plan again; or leave it out"));
        let again = error.clone();
        assert_eq!((again.kind(), again.code(), again.row()), (Kind::Changed, Code::InputVanished, Some(3)));
        assert!(again.is_not_found());
    }

    #[test]
    fn every_error_has_a_code() {
        assert_eq!(Error::content("x").code(), Code::BadInput);
        assert_eq!(Error::content("x").with_kind(Kind::Changed).code(), Code::InputChanged);
        assert_eq!(Error::content("x").with_code(Code::CutShort).with_kind(Kind::Changed).code(), Code::CutShort);
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
