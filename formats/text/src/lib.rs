//! Documents from JSON lines and plain text files; tables of JSON lines ([`JsonLines`]).
//!
//! * **Specification**: [JSON Lines](https://jsonlines.org) (also called NDJSON) of
//!   [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259) objects; plain text in UTF-8.
//! * **Who else reads it**: Megatron's `preprocess_data`, datatrove, dolma, Hugging Face datasets, and every tool that
//!   reads lines.
//! * **The bytes**:
//!
//!   ```text
//!   [EF BB BF]                          a byte order mark, skipped at the start of a file only
//!   {"text": "a document", …} [CR] LF   JSON lines: one object per line; blank lines are skipped
//!   a document [CR] LF                  document=line: empty lines are skipped
//!   a document LF of lines LF LF        document=paragraph: separated by lines of only
//!                                       spaces, tabs and CR
//!   a document                          document=file: the whole file
//!   ```
//!
//! * **Rows**: one per document, with the columns `__key__` and `text` (named by `text-field`). The key is the offset
//!   of the document's first byte in the (decompressed) file, as 12 decimal digits, or the value of `id-field`. Text is
//!   unchanged, without the line end of its last line. Empty text in JSON is a document, as is a file that holds only a
//!   byte order mark.
//! * **Items** are the bytes of the file: a document belongs to the range that holds its first byte, so that any
//!   partition of a file into ranges gives every document once, in order. A file of unknown length (a compressed one)
//!   is one item.
//! * **Options**: `json` (`auto`, default: `.jsonl`, `.ndjson` and `.json` files, compressed or not, hold JSON lines;
//!   `yes`; `no`), `text-field` (default `text`; `a.b` is the field `b` of the object `a`, unless a field is named
//!   `a.b`), `id-field` (a path as well, none by default: a string or an integer that becomes the key), `document` of
//!   plain text (`file`, default; `line`; `paragraph`).
//! * **Validation**: each line must be UTF-8 and JSON as Python's `json.loads` accepts it, fields that are not read
//!   included: `NaN`, `Infinity` and `-Infinity` are numbers, the last of equal names counts, surrogate pairs are
//!   joined. Unlike in Python, a lone surrogate in a text or an id is an error, since it is not Unicode; objects and
//!   lists nest at most 1024 deep; integers may have any number of digits.
//! * **Errors** concern one document each and name its line and byte; more documents may follow. An error of reading or
//!   decompressing the file is the last item.
//! * **Memory**: a block of half a megabyte and a read of 128 KiB (1 MiB for inputs that are not local files). A longer
//!   line or document (at most [`Limits::blob`], and less than 2 GiB) takes three to four times its length while it is
//!   processed: the bytes as read, the unescaped text, and the block. A document over the limit is skipped without
//!   being stored.
//! * **Revisions**: 1, the first.

mod block;
mod byte_reader;
mod document_error;
mod documents;
mod field;
mod json;
mod lanes;
mod line_numbers;
mod line_reader;
mod options;
mod record;
mod source;
mod starts;
mod strings;
mod table;

pub use table::JsonLines;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Source};

/// The format `text`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

static INFO: FormatInfo = FormatInfo { id: "text", revision: 1, extensions: &["jsonl", "ndjson"], fields: &[] };

impl Format for Text {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn has_ids(&self) -> bool {
        true
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::TextSource::new(options::Settings::parse(options)?, limits)))
    }
}
