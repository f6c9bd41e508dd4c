//! The fields and columns of an RNTuple, from its header and footer.

use super::envelope::{EnvelopeFrame, Words};
use packhorse_core::Result;

/// A field: a node of the field tree, with name and C++ type.
#[derive(Debug)]
pub(crate) struct FieldRecord {
    pub(crate) parent: usize,
    pub(crate) role: u16,
    pub(crate) name: String,
    pub(crate) type_name: String,
    /// The length of a fixed array, or the number of bits.
    pub(crate) array: Option<u64>,
    /// The source field of a projected field, whose columns it shares.
    pub(crate) source: Option<usize>,
}

/// A column: elements of one type, stored in pages.
#[derive(Clone, Debug)]
pub(crate) struct ColumnRecord {
    pub(crate) kind: u16,
    pub(crate) bits: u16,
    pub(crate) field: usize,
    /// Whether it was added later and has no elements for earlier entries.
    pub(crate) deferred: bool,
    pub(crate) range: Option<(f64, f64)>,
}

/// All fields and columns, by number.
#[derive(Debug, Default)]
pub(crate) struct SchemaDescription {
    pub(crate) fields: Vec<FieldRecord>,
    pub(crate) columns: Vec<ColumnRecord>,
}

impl SchemaDescription {
    /// Adds a schema description: lists of fields, columns, alias columns and extra type information.
    pub(crate) fn add(&mut self, words: &mut Words<'_>) -> Result<()> {
        let EnvelopeFrame { words: mut list, count } = words.frame()?;
        for _ in 0..count {
            self.fields.push(field(list.frame()?.words)?);
        }
        let EnvelopeFrame { words: mut list, count } = words.frame()?;
        for _ in 0..count {
            self.columns.push(column(list.frame()?.words)?);
        }
        words.frame()?;
        words.frame()?;
        Ok(())
    }
}

fn field(mut words: Words<'_>) -> Result<FieldRecord> {
    words.u32()?;
    words.u32()?;
    let parent = words.u32()? as usize;
    let (role, flags) = (words.u16()?, words.u16()?);
    let (name, type_name) = (words.string()?, words.string()?);
    words.string()?;
    words.string()?;
    let array = if flags & 1 != 0 { Some(words.u64()?) } else { None };
    let source = if flags & 2 != 0 { Some(words.u32()? as usize) } else { None };
    Ok(FieldRecord { parent, role, name, type_name, array, source })
}

fn column(mut words: Words<'_>) -> Result<ColumnRecord> {
    let (kind, bits) = (words.u16()?, words.u16()?);
    let field = words.u32()? as usize;
    let flags = words.u16()?;
    words.u16()?;
    let deferred = flags & 1 != 0;
    if deferred {
        words.i64()?;
    }
    let range = if flags & 2 != 0 { Some((words.f64()?, words.f64()?)) } else { None };
    Ok(ColumnRecord { kind, bits, field, deferred, range })
}
