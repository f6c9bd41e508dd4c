//! Values of rows and index entries, and their sort order in SQLite.

/// A value of a row or of an index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlValue<'a> {
    /// SQL `NULL`; also the stored form of an `INTEGER PRIMARY KEY`.
    Null,
    /// A signed integer.
    Integer(i64),
    /// UTF-8 text.
    Text(&'a str),
}

impl SqlValue<'_> {
    /// Appends a sort key whose bytes compare as SQLite compares the values: nulls, then integers, then text by its
    /// bytes (the `BINARY` collation). Keys are prefix-free.
    pub(super) fn put_sort_key(self, out: &mut Vec<u8>) {
        match self {
            SqlValue::Null => out.push(0),
            SqlValue::Integer(number) => {
                out.push(1);
                out.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
            }
            SqlValue::Text(text) => {
                out.push(2);
                if text.contains('\0') {
                    out.extend_from_slice(text.replace('\0', "\0\u{1}").as_bytes());
                } else {
                    out.extend_from_slice(text.as_bytes());
                }
                out.extend_from_slice(&[0, 0]);
            }
        }
    }
}
