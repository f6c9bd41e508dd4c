//! What a row or an index entry is made of, and in which order SQLite has it.

/// One value of a row or of an index entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// SQL `NULL`, and the stored form of an `INTEGER PRIMARY KEY`.
    Null,
    /// A signed integer.
    Integer(i64),
    /// UTF-8 text.
    Text(&'a str),
}

impl Value<'_> {
    /// Appends bytes that compare as SQLite compares the values: nulls, then integers by size, then
    /// text by its bytes (the `BINARY` collation). No value's bytes begin another's.
    pub(super) fn put_sort_key(self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0),
            Value::Integer(number) => {
                out.push(1);
                out.extend_from_slice(&(number ^ i64::MIN).to_be_bytes());
            }
            Value::Text(text) => {
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
