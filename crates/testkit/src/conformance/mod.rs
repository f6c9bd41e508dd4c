//! The conformance suite for formats.
//!
//! ```text
//! conformance::Suite::new(&MyFormat).known("two.rec", bytes, samples).run();
//! ```
//!
//! * A file with known content yields its samples, and `list` gives the right offsets.
//! * A range of items is that slice of the whole; past the end it is empty.
//! * An input that can only be streamed yields the same as one with random access.
//! * The source reads back what the sink writes: empty, missing, large and many fields, keys in any script. The
//!   written bytes do not depend on the batch sizes.
//! * The summary is right: samples, bytes, and the offset, length and CRC-32C of each member.
//! * A truncated or bit-flipped input causes neither a panic nor unbounded allocation; truncation is an error unless
//!   the format can't detect it ([`Cuts`]).
//! * Unknown options are refused.

mod corpus;
mod damage;
mod reading;
mod writing;

pub use reading::{SampleFields, sample};

use packhorse_core::{Error, Format, KEY, Kind, Limits, Options, Result, Sink, Source};
use std::sync::Arc;

/// What a format does with a truncated input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cuts {
    /// Reading ends with an error, unless only an end mark is missing.
    #[default]
    AreErrors,
    /// The format can't detect it: reading may end without an error, after fewer samples or a shorter one.
    AreOtherFiles,
}

/// The conformance tests of a format.
pub struct Suite<'a> {
    format: &'a dyn Format,
    known: Vec<Known>,
    cuts: Cuts,
}

struct Known {
    name: String,
    bytes: Vec<u8>,
    samples: Vec<SampleFields>,
}

impl<'a> Suite<'a> {
    /// The suite for `format`.
    pub fn new(format: &'a dyn Format) -> Self {
        Self { format, known: Vec::new(), cuts: Cuts::default() }
    }

    /// Adds a file with known content: its samples in order.
    pub fn known(mut self, name: &str, bytes: impl Into<Vec<u8>>, samples: Vec<SampleFields>) -> Self {
        self.known.push(Known { name: name.to_owned(), bytes: bytes.into(), samples });
        self
    }

    /// What the format does with truncated inputs.
    pub fn cuts(mut self, cuts: Cuts) -> Self {
        self.cuts = cuts;
        self
    }

    /// Runs all checks that apply. Panics on the first failure, and if nothing applies.
    pub fn run(&self) {
        assert!(self.format.info().revision > 0 && !self.format.info().id.is_empty());
        let source = able(self.format.source(&Options::new(), LIMITS));
        let sink = able(self.format.sink(&Options::new()));
        self.unknown_options(source.is_some(), sink.is_some());
        if let Some(sink) = &sink {
            writing::check(&**sink, source.as_deref());
        }
        let Some(source) = source else {
            assert!(sink.is_some(), "the format neither reads nor writes");
            return;
        };
        let written = sink.iter().map(|sink| written(&**sink));
        let files: Vec<Known> = self.known.iter().map(Known::copy).chain(written).collect();
        assert!(!files.is_empty(), "a format that can't be written needs a known file");
        for file in &files {
            reading::check(&*source, &file.name, &file.bytes, &file.samples);
            damage::check(&*source, &file.name, &file.bytes, &file.samples, self.cuts);
        }
    }

    fn unknown_options(&self, reads: bool, writes: bool) {
        let unknown: Options = [("no-such-option", "1")].into_iter().collect();
        if reads {
            let error = self.format.source(&unknown, LIMITS).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "an unknown option of the source: {error}");
        }
        if writes {
            let error = self.format.sink(&unknown).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "an unknown option of the sink: {error}");
        }
    }
}

impl Known {
    fn copy(&self) -> Self {
        Self { name: self.name.clone(), bytes: self.bytes.clone(), samples: self.samples.clone() }
    }
}

/// Small, so that unchecked allocations exceed them.
const LIMITS: Limits = Limits { blob: 16 << 20, pixels: 1 << 20, header: 64 << 10, ahead: 16 << 20, scratch: 16 << 20 };

/// `None` if the format does not support this.
fn able<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(able) => Some(able),
        Err(e) if e.kind() == Kind::Unsupported => None,
        Err(e) => panic!("without options: {e}"),
    }
}

/// A small file written by the format itself.
fn written(sink: &dyn Sink) -> Known {
    let corpus = corpus::small();
    let (files, _) = writing::write(sink, &corpus, &[corpus.num_rows()]);
    let bytes = files.get(sink.suffix()).unwrap_or_else(|| panic!("no file with the suffix {}", sink.suffix()));
    Known { name: format!("written{}", sink.suffix()), bytes: bytes.clone(), samples: reading::of_rows(&corpus) }
}

/// All samples of an input.
fn read_all(source: &dyn Source, input: &dyn packhorse_core::Input) -> Result<Vec<SampleFields>> {
    let mut samples = Vec::new();
    for rows in source.open(Arc::new(input))?.rows(0..u64::MAX)? {
        let rows = rows?;
        // In typed rows the key is a column, which damage may rename.
        if rows.column_by_name(KEY).is_none() {
            return Err(Error::content("its rows have no keys").in_input(input.name()));
        }
        samples.extend(reading::of_rows(&rows));
    }
    Ok(samples)
}
