//! Samples as read: fields as bytes, or rows of typed values.

use crate::mapping::Mapping;
use crate::requested_columns::Column;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray, new_null_array};
use arrow_select::interleave::interleave;
use packhorse_core::{Error, Field, Kind, Result, Rows, SchemaRef, held_bytes, rows_bytes};
use std::collections::HashMap;
use std::sync::Arc;

/// Samples that were read together, in the requested order. Its memory is reused.
#[derive(Debug, Default)]
pub struct SampleBlock {
    pub(crate) numbers: Vec<u64>,
    /// The epoch of each sample, if they differ.
    pub(crate) epochs: Vec<u64>,
    pub(crate) rows: Vec<Row>,
    /// One span per row and column.
    pub(crate) spans: Vec<Option<Span>>,
    pub(crate) columns: usize,
    pub(crate) keys: String,
    pub(crate) key_ends: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
    /// The part of `bytes` in use; the buffer never shrinks.
    pub(crate) used: usize,
    pub(crate) maps: Vec<Arc<Mapping>>,
    pub(crate) pieces: Vec<Piece>,
    /// For each requested column, and each of its names, the table of joined columns that has it and the position there; empty for
    /// columns of which none is joined.
    pub(crate) joined_columns: Vec<Vec<Option<(usize, usize)>>>,
    pub(crate) joined: Vec<JoinedValues>,
    /// The errors of rows without values.
    pub(crate) faults: Vec<(usize, Error)>,
}

/// The location of a row's values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    /// There are none: its shard could not be opened.
    None,
    /// In its spans.
    Bytes,
    /// In row `row` of piece `piece`.
    Typed { piece: usize, row: usize },
}

/// Bytes of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// 0 is the read buffer, `n` is map `n - 1`.
    pub(crate) place: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Rows that were decoded at once, of which many batches take a few.
#[derive(Clone, Debug)]
pub(crate) struct DecodedRows {
    pub(crate) rows: Rows,
    /// The bytes of their values. To count them looks at every text.
    pub(crate) bytes: u64,
}

impl From<Rows> for DecodedRows {
    fn from(rows: Rows) -> Self {
        Self { bytes: rows_bytes(&rows) as u64, rows }
    }
}

/// Rows of typed values, and for each requested column the positions of its names among them, the best first.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) rows: Rows,
    /// The bytes of all their values.
    pub(crate) bytes: u64,
    pub(crate) columns: Arc<[Vec<Option<usize>>]>,
}

impl Piece {
    /// `rows`, with the requested `columns`; `last` may have the same schema.
    pub(crate) fn of(decoded: &DecodedRows, columns: &[Column], last: Option<&Self>) -> Self {
        let rows = &decoded.rows;
        let same = last.filter(|last| Arc::ptr_eq(last.rows.schema_ref(), rows.schema_ref()));
        let found = same.map_or_else(|| positions(rows.schema_ref(), columns), |last| Arc::clone(&last.columns));
        Self { rows: rows.clone(), bytes: decoded.bytes, columns: found }
    }

    /// The arrays that may have the values of the requested column `column`, the best first.
    fn named(&self, column: usize) -> impl Iterator<Item = &ArrayRef> {
        self.columns.get(column).into_iter().flatten().flatten().filter_map(|at| self.rows.columns().get(*at))
    }
}

/// For each of `columns` the positions of the fields that have its names, the best first.
fn positions(schema: &SchemaRef, columns: &[Column]) -> Arc<[Vec<Option<usize>>]> {
    let mut known: HashMap<&str, usize> = HashMap::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        known.entry(field.name()).or_insert(at);
    }
    let named = |column: &Column| column.0.iter().map(|name| known.get(name.as_str()).copied()).collect();
    columns.iter().map(named).collect()
}

/// Whether these are the same rows in memory.
pub(crate) fn same_rows(a: &Rows, b: &Rows) -> bool {
    a.columns().first().zip(b.columns().first()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
}

/// The rows of joined columns that samples have: for each sample a piece and the position there.
#[derive(Debug, Default)]
pub(crate) struct JoinedValues {
    pub(crate) pieces: Vec<Rows>,
    pub(crate) places: Vec<Option<(usize, usize)>>,
}

/// A value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Bytes as stored in the shard.
    Bytes(&'a [u8]),
    /// A row of a column.
    Row(&'a ArrayRef, usize),
}

impl SampleBlock {
    pub(crate) fn clear(&mut self, columns: usize) {
        self.columns = columns;
        self.used = 0;
        self.numbers.clear();
        self.epochs.clear();
        self.rows.clear();
        self.spans.clear();
        self.keys.clear();
        self.key_ends.clear();
        self.maps.clear();
        self.pieces.clear();
        self.joined_columns.clear();
        self.joined.clear();
        self.faults.clear();
    }

    /// Drops rows and maps, and a buffer that is far too large.
    pub(crate) fn reset(&mut self) {
        if self.bytes.capacity() > (4 * self.used).max(1 << 20) {
            self.bytes = Vec::new();
        }
        self.clear(0);
    }

    /// Adds a row without spans.
    pub(crate) fn push_row(&mut self, row: Row) {
        self.rows.push(row);
        self.spans.resize(self.rows.len() * self.columns, None);
    }

    /// Makes its buffer at least `len` bytes long.
    pub(crate) fn make_room(&mut self, len: usize) -> Result<()> {
        let more = len.saturating_sub(self.bytes.len());
        let too_large = |_| Error::new(Kind::Limit, "a batch is larger than memory: make it smaller");
        self.bytes.try_reserve(more).map_err(too_large)?;
        self.bytes.resize(self.bytes.len() + more, 0);
        Ok(())
    }

    /// Makes `error`, which is of its whole shard, the fault of a row.
    pub(crate) fn lose(&mut self, row: usize, error: &Error) {
        self.faults.push((row, error.clone()));
        if let Some(row) = self.rows.get_mut(row) {
            *row = Row::None;
        }
    }

    /// Gives empty keys to the rows before `row` that have none.
    pub(crate) fn end_keys(&mut self, row: usize) {
        self.key_ends.resize(row.max(self.key_ends.len()), self.keys.len());
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of the sample with this key.
    pub(crate) fn number_of(&self, key: Option<&str>) -> Option<u64> {
        let row = (0..self.len()).find(|row| key.is_some() && self.key(*row) == key)?;
        self.number(row)
    }

    /// The number of a sample in its dataset.
    pub(crate) fn number(&self, row: usize) -> Option<u64> {
        self.numbers.get(row).copied()
    }

    /// The key of a sample.
    pub fn key(&self, row: usize) -> Option<&str> {
        let start = row.checked_sub(1).map_or(Some(0), |before| self.key_ends.get(before).copied())?;
        self.keys.get(start..*self.key_ends.get(row)?)
    }

    /// The value of the requested column `column`; `None` if the sample lacks it.
    pub fn value(&self, row: usize, column: usize) -> Option<Value<'_>> {
        if let Some(names) = self.joined_names(column) {
            let named = |(name, joined): (usize, &Option<(usize, usize)>)| match joined {
                Some((table, at)) => self.joined_value(row, *table, *at),
                None => self.typed_value(row, column, name),
            };
            return names.iter().enumerate().find_map(named).map(|(array, row)| Value::Row(array, row));
        }
        match *self.rows.get(row)? {
            Row::None => None,
            Row::Bytes => self.bytes_of((*self.spans.get(row * self.columns + column)?)?).map(Value::Bytes),
            Row::Typed { piece, row } => {
                let array = self.pieces.get(piece)?.named(column).find(|array| !array.is_null(row))?;
                Some(Value::Row(array, row))
            }
        }
    }

    /// The values of the requested column `column` of all samples, as an array of the type of `field`; nulls for samples that
    /// lack it. Bytes are copied.
    ///
    /// Errors: a schema that is not that of the rows (kind `Bug`).
    pub fn column(&self, column: usize, field: &Field) -> Result<ArrayRef> {
        if self.joined_names(column).is_some() {
            let mut found: Vec<Option<ArrayRef>> = Vec::new();
            let place = |row: usize| {
                let Some(Value::Row(array, row)) = self.value(row, column) else { return None };
                let is_it = |known: &Option<ArrayRef>| known.as_ref().is_some_and(|known| Arc::ptr_eq(known, array));
                let at = found.iter().rposition(is_it).unwrap_or(found.len());
                if at == found.len() {
                    found.push(Some(Arc::clone(array)));
                }
                Some((at, row))
            };
            let places: Vec<_> = (0..self.len()).map(place).collect();
            return interleaved(&found, field, places.into_iter());
        }
        let typed = |row: usize| match self.rows.get(row)? {
            Row::Typed { piece, row } => Some((*piece, *row)),
            Row::Bytes | Row::None => None,
        };
        if !(0..self.len()).any(|row| typed(row).is_some()) {
            let values = (0..self.len()).map(|row| match self.value(row, column) {
                Some(Value::Bytes(bytes)) => Some(bytes),
                _ => None,
            });
            return Ok(Arc::new(values.collect::<BinaryViewArray>()));
        }
        let mut found: Vec<Option<ArrayRef>> = Vec::new();
        let mut firsts = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            firsts.push(found.len());
            found.extend(piece.named(column).cloned().map(Some));
        }
        let place = |row: usize| {
            let (piece, row) = typed(row)?;
            let rank = self.pieces.get(piece)?.named(column).position(|array| !array.is_null(row))?;
            Some((firsts.get(piece)? + rank, row))
        };
        interleaved(&found, field, (0..self.len()).map(place))
    }

    /// Where the names of a requested column are joined ones; `None` if none is.
    fn joined_names(&self, column: usize) -> Option<&[Option<(usize, usize)>]> {
        self.joined_columns.get(column).map(Vec::as_slice).filter(|names| !names.is_empty())
    }

    /// The array and the place in it of a sample's joined value.
    fn joined_value(&self, row: usize, table: usize, at: usize) -> Option<(&ArrayRef, usize)> {
        let joined = self.joined.get(table)?;
        let (piece, row) = (*joined.places.get(row)?)?;
        let array = joined.pieces.get(piece)?.columns().get(at)?;
        (!array.is_null(row)).then_some((array, row))
    }

    /// The array and the place in it of the value that a row has under one name of a requested column.
    fn typed_value(&self, row: usize, column: usize, name: usize) -> Option<(&ArrayRef, usize)> {
        let Row::Typed { piece, row } = *self.rows.get(row)? else { return None };
        let piece = self.pieces.get(piece)?;
        let at = (*piece.columns.get(column)?.get(name)?)?;
        piece.rows.columns().get(at).filter(|array| !array.is_null(row)).map(|array| (array, row))
    }

    /// All samples as rows of `schema`: their keys, then the requested columns in order.
    ///
    /// Errors: the [fault](Self::fault) of a sample; those of [`column`](Self::column).
    pub fn rows(&self, schema: &SchemaRef) -> Result<Rows> {
        let rows = 0..self.len();
        if let Some(fault) = rows.clone().find_map(|row| self.fault(row)) {
            return Err(fault.clone());
        }
        let keys: ArrayRef = Arc::new(rows.map(|row| self.key(row)).collect::<StringViewArray>());
        let fields = schema.fields().iter().skip(1).enumerate();
        let columns = fields.map(|(column, field)| self.column(column, field));
        let columns = std::iter::once(Ok(keys)).chain(columns).collect::<Result<Vec<_>>>()?;
        Rows::try_new(Arc::clone(schema), columns).map_err(|error| Error::bug(error.to_string()))
    }

    pub(crate) fn bytes_of(&self, span: Span) -> Option<&[u8]> {
        let all = match span.place.checked_sub(1) {
            None => self.bytes.get(..self.used)?,
            Some(map) => self.maps.get(map)?.bytes(),
        };
        all.get(span.start..span.start.checked_add(span.len)?)
    }

    /// The error of a sample that could not be read.
    pub fn fault(&self, row: usize) -> Option<&Error> {
        // They are sorted by row.
        let at = self.faults.partition_point(|(at, _)| *at < row);
        self.faults.get(at).filter(|(at, _)| *at == row).map(|(_, error)| error)
    }

    /// The bytes of its samples that were read, with gaps between them; of rows, those of their values, about.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.used as u64 + self.row_bytes()
    }

    /// The mean bytes of a sample as read, at least 1. Mapped files count as 0.
    pub fn mean(&self) -> u64 {
        (self.read_bytes() / (self.len() as u64).max(1)).max(1)
    }

    /// The bytes of the values of its rows, about.
    pub(crate) fn row_bytes(&self) -> u64 {
        let mut rows = vec![0u64; self.pieces.len()];
        for row in &self.rows {
            if let Row::Typed { piece, .. } = row
                && let Some(rows) = rows.get_mut(*piece)
            {
                *rows += 1;
            }
        }
        // A piece may have rows of other batches too.
        let share = |(piece, rows): (&Piece, u64)| {
            let all = (piece.rows.num_rows() as u64).max(1);
            (u128::from(piece.bytes) * u128::from(rows) / u128::from(all)) as u64
        };
        self.pieces.iter().zip(rows).map(share).sum()
    }

    /// The memory held, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let joined = self.joined.iter().flat_map(|joined| &joined.pieces);
        self.bytes.capacity() + held_bytes(self.pieces.iter().map(|piece| &piece.rows).chain(joined))
    }
}

/// The values of one column at places in pieces, of which some lack it; null for samples that have none.
fn interleaved(
    pieces: &[Option<ArrayRef>],
    field: &Field,
    places: impl Iterator<Item = Option<(usize, usize)>>,
) -> Result<ArrayRef> {
    // After the pieces there is one null, for samples without the column.
    let null = new_null_array(field.data_type(), 1);
    let lacks = |piece: usize| pieces.get(piece).is_none_or(Option::is_none);
    let places: Vec<(usize, usize)> =
        places.map(|place| place.filter(|(piece, _)| !lacks(*piece)).unwrap_or((pieces.len(), 0))).collect();
    let arrays: Vec<&dyn Array> =
        pieces.iter().map(|array| &**array.as_ref().unwrap_or(&null)).chain([&*null]).collect();
    interleave(&arrays, &places).map_err(|error| Error::bug(format!("field {}: {error}", field.name())))
}
