//! CSV and TSV tables. Each row is a sample.
//!
//! * **Specification**: [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180), through the crate `csv`: quoted fields may
//!   contain the delimiter, line ends and doubled quotes; lines end in LF, CR LF or CR; blank lines and a byte order
//!   mark are skipped. The text is UTF-8. (Not `arrow-csv`: it needs `arrow-cast`, which takes longer to build than
//!   all other dependencies of this crate, and its errors don't name the line.)
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
//! * **Types** are inferred for each column over the whole file: the first type that fits all values. An empty field is
//!   a missing value of any type.
//!
//!   | type | values |
//!   | --- | --- |
//!   | `bool` | `true`, `false`; also `True`, `TRUE`, `False`, `FALSE` |
//!   | `int64` | `0`, `-12`: decimal digits without leading zeros that fit in 64 bits |
//!   | `float64` | integers that a double represents exactly, `1.50`, `-3e-7`, `nan`, `inf`, `-inf` |
//!   | `text` | everything else: `007`, `+1`, `1,5`, a date, `NA` |
//!
//!   Inference never rounds a number or drops a zero. A column without values is text.
//! * **Items** are rows. One scan of the whole file finds the types, the number of rows and the offset of a row in each
//!   megabyte; a range of rows is then read from the nearest of these offsets. A compressed file is read from its start
//!   for each range.
//! * **Options**: `schema`, column types that replace the inferred ones (`id:text,x:float64`; `bool`, `int64`,
//!   `float64`, `text`); `delimiter` (default: a tab in `.tsv` files, a comma in others), one byte, a longer text such as `::`,
//!   or `spaces` for runs of spaces and tabs, both without quotes; `quote`, `none` where
//!   quotes are text and every line is a row; `comment`, the sign with which lines begin that are comments; `header`, `none`
//!   where the first line is a row (columns are `column1` and so on), `comment` where the last comment before the first row names
//!   them, `first` where the first line does though all names are numbers, which is refused else; `skip`, the number of lines before the
//!   names or the first row; `units`, that of lines between names and rows; `decimal`, a comma where numbers are written `1,5`; `null`,
//!   texts of missing values beside the empty one (`NA,-9999`), in all columns but the key. A `.csv` or `.tsv`
//!   file is a table where it is named as an input; in a folder it is a field of a sample ([`Format::in_folders`]).
//! * **Errors** name the line: a line with more or fewer fields than the first, text that is not UTF-8, a value that is
//!   not of the type in `schema`, unclosed quotes, text behind a closing quote.
//! * **Memory**: a block of rows, the longest row ([`Limits::blob`]), and 24 bytes for each megabyte of the file.
//! * **Revisions**: 1, the first.

mod column_builder;
mod column_type;
mod comments;
mod first_lines;
mod options;
mod row_blocks;
mod row_reader;
mod scan;
mod source;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, ScanCache, Source};

/// The format `csv`.
#[derive(Clone, Debug, Default)]
pub struct Csv {
    scans: ScanCache<options::Settings, scan::TableScan>,
}

static INFO: FormatInfo = FormatInfo { id: "csv", revision: 1, extensions: &["csv", "tsv", "tab"], fields: &[] };

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
