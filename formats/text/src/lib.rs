//! Text: JSON lines and plain text files as a source of documents.
//!
//! * **Specification**: [JSON Lines](https://jsonlines.org) (also called NDJSON) of
//!   [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259) objects; plain text in UTF-8.
//! * **Who else reads it**: Megatron's `preprocess_data`, datatrove, dolma, Hugging Face datasets, and
//!   whatever reads lines.
//! * **The bytes**:
//!
//!   ```text
//!   [EF BB BF]                          a byte order mark, passed over at the start of a file only
//!   {"text": "a document", …} [CR] LF   JSON lines: an object a line; white lines are passed over
//!   a document [CR] LF                  document=line: empty lines are passed over
//!   a document LF of lines LF LF        document=paragraph: parted by lines without anything but
//!                                       spaces, tabs and CR
//!   a document                          document=file: the whole file
//!   ```
//!
//! * **What comes out**: a row a document, the columns `__key__` and `text` (called as `text-field` is). The key is the offset of the
//!   document's first byte in the (decompressed) file, as 12 decimal digits, or the value of `id-field`. Text
//!   is as it stands in the file, without the line end of its last line; empty text in JSON is a document,
//!   as is a file of nothing but a byte order mark.
//! * **Items** are the bytes of the file: a document belongs to the range that holds its first byte, so that any
//!   cut of a file into ranges gives every document once, in order. A file whose length is not known (a
//!   compressed one) is one item.
//! * **Options**: `json` (`auto`, default: files called `.jsonl`, `.ndjson` or `.json`, compressed or
//!   not, hold JSON lines; `yes`; `no`), `text-field` (default `text`; `a.b` is the field `b` of the object
//!   `a`, unless there is a field called `a.b`), `id-field` (the same, none by default: a string or an
//!   integer that is the key), `document` of plain text (`file`, default; `line`; `paragraph`).
//! * **What is checked**: each line is UTF-8 and JSON as Python's `json.loads` takes it, the fields that
//!   nobody asked for too: `NaN`, `Infinity` and `-Infinity` are numbers, of equal names the last counts,
//!   surrogate pairs are joined. Other than in Python, a lone surrogate in a text or an id is an error, as it is no
//!   Unicode; objects and lists nest at most 1024 deep; integers may have any number of digits.
//! * **Errors** concern one document each, name its line and byte, and more documents may follow. One that
//!   comes from reading or decompressing the file is the last thing that comes.
//! * **Memory**: a block of half a megabyte and a read of 128 KiB (1 MiB of inputs that are no local files). A longer line or document (at most
//!   [`Limits::blob`], and less than 2 GiB) takes three to four times its length while it is at hand: as it was
//!   read, without its escapes, and in its block. What is over the limit is passed over without being kept.
//! * **Revisions**: 1, the first.

mod block;
mod documents;
mod fault;
mod feed;
mod field;
mod json;
mod lanes;
mod options;
mod place;
mod record;
mod source;
mod starts;
mod strings;
mod window;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Source};

/// The format `text`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

static INFO: FormatInfo = FormatInfo { id: "text", revision: 1, extensions: &["jsonl", "ndjson"], fields: &[] };

impl Format for Text {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::TextSource::new(options::Settings::parse(options)?, limits)))
    }
}
