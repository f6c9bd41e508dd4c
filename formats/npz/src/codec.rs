//! Decodes fields that are `.npy` or `.npz` files into columns.

use crate::bytes::Bytes;
use crate::column::{ALIGNED, ColumnBuilder, part_of};
use crate::encode;
use crate::file::{Array, Naming, arrays, field_name, fields, members_of};
use crate::header_cache::HeaderCache;
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, BinaryViewArray};
use arrow_buffer::Buffer;
use packhorse_core::{
    Codec, DataType, Error, Field, FieldType, Input, KEY, Limits, PackedValue, Pool, Result, Rows, value_bytes,
};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct NpzCodec {
    pub(crate) limits: Limits,
    /// The arrays of `.npz` files to read; `None` for all.
    pub(crate) chosen: Option<Vec<String>>,
    pub(crate) pool: Pool,
    /// Most samples have equal headers, so parsed ones are kept.
    pub(crate) known: HeaderCache,
    /// The offset from aligned memory at which a file should start, so that its largest array is aligned.
    pub(crate) alignment_padding: AtomicUsize,
}

impl Codec for NpzCodec {
    fn probe(&self, name: &str, input: &dyn Input) -> Result<Vec<Field>> {
        self.probe_without(name, input, &|_| false)
    }

    fn is_archive(&self, name: &str) -> bool {
        name == "npz" || name.ends_with(".npz")
    }

    fn probe_without(&self, name: &str, input: &dyn Input, drops: &dyn Fn(&str) -> bool) -> Result<Vec<Field>> {
        let all = || {
            let bytes = Bytes::of(input)?;
            let naming = Naming::of(name)?;
            let mut found = Vec::new();
            let (arrays, others) = members_of(&naming, bytes, self.chosen.as_deref(), &self.limits)?;
            if let Some(other) = others.first() {
                return Err(Error::content(format!(
                    "holds {other}, which is not an array (.npy) and would be lost; remove it from the archive, or keep \
                     the file as bytes with `decode=never`"
                )));
            }
            let mut dropped = Vec::new();
            for array in arrays {
                let room = array.require_room(&self.limits);
                match room.and_then(|()| array.header(bytes, &self.known, &self.limits)) {
                    Err(_) if drops(&array.field) => dropped.push(FieldType::Blob.field(&array.field, true)),
                    header => {
                        let drop = || format!("`drop={}` leaves it out", array.field);
                        let header = header.map_err(|e| array.named(e.hint(drop())))?;
                        found.push((array, header));
                    }
                }
            }
            let mut fields = fields(&found, false)?;
            fields.extend(dropped);
            fields.sort_by(|a, b| a.name().cmp(b.name()));
            Ok(fields)
        };
        all().map_err(|e| e.in_input(input.name()))
    }

    fn decode(&self, name: &str, rows: &Rows, fields: &[Field]) -> Result<Vec<ArrayRef>> {
        let blobs = Blobs::of(name, rows)?;
        let naming = Naming::of(name)?;
        let columns = fields.iter().map(|field| ColumnBuilder::new(field, rows.num_rows(), &self.limits, &self.pool));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let names = fields.iter().map(|field| field.name().as_str()).collect();
        let alone = (rows.num_rows() == 1).then(|| blobs.buffer(0)).flatten();
        let mut decoder =
            Decoder { limits: &self.limits, naming, names, columns, known: &self.known, alone, largest: (0, 0) };
        for row in 0..rows.num_rows() {
            decoder.sample(blobs.value(row)).map_err(|e| in_sample(e, rows, row))?;
        }
        self.alignment_padding.store(decoder.alignment_padding(), Ordering::Relaxed);
        decoder.columns.into_iter().map(ColumnBuilder::finish).collect()
    }

    fn packed(&self, name: &str, bytes: &[u8], field: &Field) -> Option<PackedValue> {
        let Naming::One(_) = Naming::of(name).ok()? else { return None };
        let header = self.known.header(bytes, &self.limits).ok()?;
        let data = header.data(bytes).ok()?;
        let [part] = header.dtype.parts.as_slice() else { return None };
        let column = ColumnBuilder::new(field, 1, &self.limits, &self.pool).ok()?;
        let (len, shape) = column.packed(&header, part).filter(|_| part.name.is_empty())?;
        let start = bytes.len() - data.len() + part.offset;
        let range = start..start.checked_add(len)?;
        (range.end <= bytes.len()).then_some(PackedValue { range, shape })
    }

    fn alignment_padding(&self) -> usize {
        self.alignment_padding.load(Ordering::Relaxed)
    }

    fn encoded(&self, field: &Field) -> Result<String> {
        encode::encoded(field)
    }

    fn encode(&self, field: &Field, column: &ArrayRef) -> Result<BinaryViewArray> {
        encode::encode(field, column)
    }
}

/// The error with the sample's key, if the rows have keys.
fn in_sample(error: Error, rows: &Rows, row: usize) -> Error {
    match rows.column_by_name(KEY).and_then(|keys| keys.as_string_view_opt()) {
        Some(keys) if keys.is_valid(row) => error.in_sample(keys.value(row)),
        _ => error,
    }
}

/// A column of files.
struct Blobs<'a>(&'a ArrayRef);

impl<'a> Blobs<'a> {
    fn of(name: &str, rows: &'a Rows) -> Result<Self> {
        let column = rows.column_by_name(name).ok_or_else(|| Error::bug(format!("rows have no column {name}")))?;
        match packhorse_core::is_blob(column.data_type()) {
            true => Ok(Self(column)),
            false => Err(Error::bug(format!("column {name} holds {}, not files", column.data_type()))),
        }
    }

    fn value(&self, row: usize) -> Option<&'a [u8]> {
        value_bytes(self.0, row)
    }

    /// The file as a view into the column's memory.
    fn buffer(&self, row: usize) -> Option<Buffer> {
        let file = self.value(row)?;
        let buffers = match self.0.data_type() {
            DataType::BinaryView => self.0.as_binary_view().data_buffers(),
            DataType::Binary => std::slice::from_ref(self.0.as_binary::<i32>().values()),
            _ => std::slice::from_ref(self.0.as_binary::<i64>().values()),
        };
        buffers.iter().find_map(|buffer| part_of(buffer, file))
    }
}

struct Decoder<'a> {
    limits: &'a Limits,
    naming: Naming,
    /// The names of the columns.
    names: Vec<&'a str>,
    columns: Vec<ColumnBuilder<'a>>,
    known: &'a HeaderCache,
    /// The file, if there is only one.
    alone: Option<Buffer>,
    /// Size and offset in its file of the largest array that is not compressed.
    largest: (usize, usize),
}

impl Decoder<'_> {
    fn sample(&mut self, file: Option<&[u8]>) -> Result<()> {
        let mut filled = vec![false; self.columns.len()];
        if let Some(file) = file {
            let found = arrays(&self.naming, Bytes::Memory(file), None, self.limits)?;
            let wanted = found.iter().filter(|array| self.wants(array, &found));
            let sizes = wanted.filter_map(|array| array.member.as_ref()).map(|member| member.size);
            self.limits.blob(sizes.fold(0, u64::saturating_add))?;
            for array in &found {
                if self.wants(array, &found) {
                    self.array(array, file, &mut filled).map_err(|e| array.named(e))?;
                }
            }
        }
        let empty = self.columns.iter_mut().zip(&filled).filter(|(_, filled)| !**filled);
        empty.map(|(column, _)| column).try_for_each(ColumnBuilder::push_null)
    }

    /// Whether the array or one of its members is a column: `x` is wanted for `x.a`, unless an array is named `x.a`.
    fn wants(&self, array: &Array, all: &[Array]) -> bool {
        self.names.iter().any(|name| match name.strip_prefix(array.field.as_str()) {
            Some("") => true,
            Some(rest) => rest.starts_with('.') && !all.iter().any(|other| other.field == *name),
            None => false,
        })
    }

    fn array(&mut self, array: &Array, file: &[u8], filled: &mut [bool]) -> Result<()> {
        let bytes = match &array.member {
            Some(member) => member.data(file, self.limits)?,
            None => Cow::Borrowed(file),
        };
        let header = self.known.header(&bytes, self.limits)?;
        let data = header.data(&bytes)?;
        for part in &header.dtype.parts {
            let name = if part.name.is_empty() {
                Cow::Borrowed(&array.field)
            } else {
                Cow::Owned(field_name(&array.field, &part.name))
            };
            let Some(i) = self.names.iter().position(|wanted| *wanted == *name) else { continue };
            let (Some(column), Some(filled)) = (self.columns.get_mut(i), filled.get_mut(i)) else { continue };
            if std::mem::replace(filled, true) {
                return Err(Error::content(format!("has the name of another field, {name}; rename it")));
            }
            column.push(&header, part, data, self.alone.as_ref())?;
        }
        if data.len() > self.largest.0
            && let Some(at) = data.as_ptr().addr().checked_sub(file.as_ptr().addr()).filter(|at| *at < file.len())
        {
            self.largest = (data.len(), at);
        }
        Ok(())
    }

    /// The offset that would have aligned the largest array.
    fn alignment_padding(&self) -> usize {
        (ALIGNED - self.largest.1 % ALIGNED) % ALIGNED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BinaryViewArray, RecordBatch, builder::make_view, types::Float32Type};
    use packhorse_core::{Format, Options, Schema};
    use std::sync::Arc;

    /// The values of a column decoded from one file that starts at offset `lead`, and whether they share its memory.
    fn decoded(codec: &dyn Codec, file: &[u8], lead: usize) -> (Vec<f32>, bool) {
        let memory = Pool::default().filled(lead + file.len(), |bytes| {
            bytes[lead..].copy_from_slice(file);
            Ok(())
        });
        let memory = memory.unwrap();
        let views = vec![make_view(file, 0, lead as u32)];
        let blobs = BinaryViewArray::try_new(views.into(), vec![memory.clone()], None).unwrap();
        let schema = Schema::new(vec![Field::new("npy", DataType::BinaryView, false)]);
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(blobs)]).unwrap();
        let fields = codec.probe("npy", &packhorse_core::MemoryInput::new("x.npy", file.to_vec())).unwrap();
        let columns = codec.decode("npy", &rows, &fields).unwrap();
        let values = columns[0].as_fixed_size_list().values().as_primitive::<Float32Type>().clone();
        let place = memory.as_ptr_range().contains(&values.values().inner().as_ptr());
        (values.values().to_vec(), place)
    }

    /// An array of these numbers, as NumPy stores it.
    fn stored(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
        let text = format!("{dict:<117}\n");
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), data].concat()
    }

    #[test]
    fn a_value_is_found_where_it_lies_as_it_is_decoded_and_nowhere_else() {
        let codec = crate::Npz.codec(&Options::new(), Limits::default()).unwrap();
        let numbers: Vec<u8> = (1..=24).collect();
        let packed = |file: &[u8], field: &Field| codec.packed("x.npy", file, field);
        let probed =
            |file: &[u8]| codec.probe("x.npy", &packhorse_core::MemoryInput::new("x.npy", file.to_vec())).unwrap();
        let cases = [
            ("|u1", "False", "(4, 6)", true),
            ("<f4", "False", "(2, 3)", true),
            ("<i8", "False", "(3,)", true),
            ("<f8", "True", "(3,)", true),
            ("<f4", "True", "(2, 3)", false),
            (">f4", "False", "(2, 3)", false),
            ("|b1", "False", "(24,)", false),
        ];
        for (descr, fortran, shape, there) in cases {
            let file = stored(descr, fortran, shape, &numbers);
            let field = probed(&file).remove(0);
            let found = packed(&file, &field);
            assert_eq!(found.is_some(), there, "{descr} {fortran} {shape}");
            let Some(found) = found else { continue };
            let blobs = BinaryViewArray::from_iter_values([&file[..]]);
            let schema = Schema::new(vec![Field::new("x.npy", DataType::BinaryView, false)]);
            let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(blobs)]).unwrap();
            let decoded = codec.decode("x.npy", &rows, std::slice::from_ref(&field)).unwrap();
            let values = decoded[0].as_fixed_size_list().value(0);
            assert_eq!(&file[found.range], &packhorse_core::bytes_of(&*values).unwrap()[..]);
            let dims: Vec<String> = found.shape.iter().map(usize::to_string).collect();
            assert_eq!(dims.join(", "), shape.trim_matches(['(', ')', ',']));
        }
        // Another shape or type, a file that is cut short or longer, an archive.
        let file = stored("<f4", "False", "(2, 3)", &numbers);
        let field = probed(&file).remove(0);
        for other in [stored("<f4", "False", "(3, 2)", &numbers), stored("<i4", "False", "(2, 3)", &numbers)] {
            assert_eq!(packed(&other, &field), None);
        }
        assert_eq!(packed(&file[..file.len() - 1], &field), None);
        assert_eq!(packed(&[&file[..], b"x"].concat(), &field), None);
        assert_eq!(codec.packed("x.npz", &file, &field), None);
        assert_eq!(packed(b"", &field), None);
    }

    #[test]
    fn a_large_array_alone_is_not_copied_where_it_is_aligned() {
        let codec = crate::Npz.codec(&Options::new(), Limits::default()).unwrap();
        let wanted: Vec<f32> = (0..50_000).map(|i| i as f32).collect();
        let data: Vec<u8> = wanted.iter().flat_map(|v| v.to_le_bytes()).collect();
        let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (50000,), }";
        let head = |len: usize| {
            let text = format!("{dict:len$}\n");
            [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
        };
        for len in 70..90 {
            let file = [head(len), data.clone()].concat();
            assert_eq!(decoded(&*codec, &file, 0), (wanted.clone(), (len + 11) % 4 == 0));
            assert_eq!((codec.alignment_padding() + len + 11) % ALIGNED, 0);
            assert_eq!(decoded(&*codec, &file, codec.alignment_padding()), (wanted.clone(), true));
        }
        let file = [head(70), data].concat();
        for cut in [0, 50, 81, 82, 100_000, file.len() - 1] {
            assert!(crate::Npz.codec(&Options::new(), Limits::default()).is_ok_and(|codec| {
                let rows = BinaryViewArray::from_iter_values([&file[..cut]]);
                let fields = codec.probe("npy", &packhorse_core::MemoryInput::new("x.npy", file.clone())).unwrap();
                let schema = Schema::new(vec![Field::new("npy", DataType::BinaryView, false)]);
                let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(rows)]).unwrap();
                codec.decode("npy", &rows, &fields).is_err()
            }));
        }
    }
}
