//! What every format must do: one suite that the tests of each format run.
//!
//! ```text
//! conformance::Suite::new(&MyFormat).known("two.rec", bytes, samples).run();
//! ```
//!
//! * A file of known content yields its samples; what `list` says where a field lies is true.
//! * Any range of items is that slice of the whole; past the end there is nothing.
//! * An input that can only be streamed yields the same as one that is read by position.
//! * What the sink writes, the source reads back: empty fields, missing fields, large ones, many of
//!   them, keys in any script. The bytes do not depend on how rows come grouped.
//! * The summary is true: samples, bytes, and of each member the place, length and CRC-32C.
//! * An input that is cut anywhere, or has a flipped bit, costs neither a panic nor memory, and a cut
//!   is an error unless the format can't know ([`Cuts`]).
//! * Unknown options are refused.

mod corpus;
mod damage;
mod reading;
mod writing;

pub use reading::{SampleFields, sample};

use packhorse_core::{Error, Format, KEY, Kind, Limits, Options, Result, Sink, Source};

/// What becomes of an input that was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cuts {
    /// Reading it ends with an error, unless the cut took nothing but a mark of the end.
    #[default]
    AreErrors,
    /// The format can't know: reading may end without an error, after fewer samples or a shorter one.
    AreOtherFiles,
}

/// A format and what is known of it.
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

    /// Adds a file of known content, its samples in order.
    pub fn known(mut self, name: &str, bytes: impl Into<Vec<u8>>, samples: Vec<SampleFields>) -> Self {
        self.known.push(Known { name: name.to_owned(), bytes: bytes.into(), samples });
        self
    }

    /// What becomes of cut inputs, if they are no errors.
    pub fn cuts(mut self, cuts: Cuts) -> Self {
        self.cuts = cuts;
        self
    }

    /// Checks everything that the format can do. Panics on the first breach, and if there was nothing
    /// to check.
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

/// Small, so that an allocation without asking shows.
const LIMITS: Limits = Limits { blob: 16 << 20, pixels: 1 << 20, header: 64 << 10, ahead: 16 << 20, scratch: 16 << 20 };

/// `None` where the format says that it does not do this.
fn able<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(able) => Some(able),
        Err(e) if e.kind() == Kind::Unsupported => None,
        Err(e) => panic!("without options: {e}"),
    }
}

/// A small file of the format's own, for reading and damaging.
fn written(sink: &dyn Sink) -> Known {
    let corpus = corpus::small();
    let (files, _) = writing::write(sink, &corpus, &[corpus.num_rows()]);
    let bytes = files.get(sink.suffix()).unwrap_or_else(|| panic!("no file with the suffix {}", sink.suffix()));
    Known { name: format!("written{}", sink.suffix()), bytes: bytes.clone(), samples: reading::of_rows(&corpus) }
}

/// All samples of a source, for checks that compare.
fn read_all(source: &dyn Source, input: &dyn packhorse_core::Input) -> Result<Vec<SampleFields>> {
    let mut samples = Vec::new();
    for rows in source.rows(input, 0..u64::MAX)? {
        let rows = rows?;
        // Of typed rows keys are a column, which damage may give another name.
        if rows.column_by_name(KEY).is_none() {
            return Err(Error::content("its rows have no keys").in_input(input.name()));
        }
        samples.extend(reading::of_rows(&rows));
    }
    Ok(samples)
}
