//! CSV and TSV tables as samples, a row each.
//!
//! * **Specification**: [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180), through the crate `csv`: fields in double quotes may
//!   hold the delimiter, line ends and doubled quotes; lines end in LF, CR LF or CR; blank ones are passed over, as is a
//!   byte order mark. The text is UTF-8. (The crate `arrow-csv` was passed over: it needs `arrow-cast`, which takes longer to build
//!   than all of this crate's other dependencies, and its errors name no line.)
//! * **Who else reads it**: pandas, pyarrow, polars, DuckDB, R, spreadsheets.
//! * **The bytes**:
//!
//!   ```text
//!   name,age,"a, b"     the first line names the columns
//!   Ann,34,"x ""y"" z"
//!   Bo,,"two
//!   lines"
//!   ```
//!
//! * **Types** go by column, over the whole file; the first that fits all values is taken. An empty field is a missing value
//!   of any type.
//!
//!   | type | values |
//!   | --- | --- |
//!   | `bool` | `true`, `false`, in these cases or capitalised or in capitals |
//!   | `int64` | `0`, `-12`: decimal digits without leading zeros, in 64 bits |
//!   | `float64` | those, if a double holds them exactly, and `1.50`, `-3e-7`, `nan`, `inf`, `-inf` |
//!   | `text` | everything else: `007`, `+1`, `1,5`, a date, `NA` |
//!
//!   So nothing is rounded or loses its zeros unless it is asked for. A column without a value is text.
//! * **Items** are rows. The file is read once to find types, rows and places; what was found is kept for the files read last, so
//!   that ranges of rows are read from near where they begin. A compressed file is read from its start for each range.
//! * **Options**: `schema`, types of columns in the place of those found (`id:text,x:float64`; `bool`, `int64`,
//!   `float64`, `text`); `delimiter`, one byte (default: a tab in files called `.tsv`, a comma in others). Files of `.csv` and
//!   `.tsv` are inputs where they are named as such, and fields of samples in folders ([`Format::in_folders`]).
//! * **Errors** name the line: one with more or fewer fields than the first, text that isn't UTF-8, a value that isn't of
//!   the type that was asked for, quotes that don't end.
//! * **Memory**: a block of rows, the longest row ([`Limits::blob`]), and 24 bytes a megabyte of the file.
//! * **Revisions**: 1, the first.

mod block;
mod column;
mod kind;
mod options;
mod quotes;
mod records;
mod scan;
mod source;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Source};

/// The format `csv`.
#[derive(Clone, Debug, Default)]
pub struct Csv {
    scans: scan::Scans,
}

static INFO: FormatInfo = FormatInfo { id: "csv", revision: 1, extensions: &["csv", "tsv"], fields: &[] };

impl Format for Csv {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn in_folders(&self) -> bool {
        false
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let settings = options::Settings::parse(options)?;
        Ok(Box::new(source::CsvSource { settings, limits, scans: self.scans.clone() }))
    }
}
