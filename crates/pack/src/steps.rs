//! The conversions around the transforms of a plan: encoded fields are decoded, columns get the types of the plan, and
//! columns that the sink can't store are encoded.

use crate::long_keys::shorten;
use crate::merged_columns::{same_type, shown};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, RecordBatch, StringViewArray, StructArray,
    new_null_array,
};
use arrow_buffer::OffsetBuffer;
use packhorse_core::{
    CLASSES, Code, Codec, DataType, Error, Field, FieldType, KEY, Limits, Options, Registry, Result, Rows, Schema,
    SchemaRef,
};
use packhorse_dataset::{CodecRecord, FieldRecord, PlanHeader};
use packhorse_transform::Transform;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schema of rows of inputs whose fields are bytes, before decoding.
pub(crate) fn raw_schema(header: &PlanHeader, delivered: &SchemaRef) -> SchemaRef {
    let plain = |field: &Field| match (field.name().as_str(), field.data_type()) {
        (KEY, _) | (_, DataType::BinaryView) => true,
        ("cls", _) => !header.classes.is_empty(),
        ("json", DataType::Utf8View) => true,
        _ => false,
    };
    let joined = header.views.iter().flat_map(|view| &view.joined).flat_map(|joined| &joined.columns);
    let decoder = header.decode.iter().flat_map(|r| r.columns.iter());
    let decoder: HashSet<&str> = decoder.chain(joined).map(|column| column.name.as_str()).collect();
    let kept = delivered.fields().iter().filter(|f| plain(f) && !decoder.contains(f.name().as_str()));
    let mut fields: Vec<Field> = kept.map(|f| f.as_ref().clone()).collect();
    fields.extend(header.decode.iter().map(|record| FieldType::Blob.field(&record.field, true)));
    sorted(fields)
}

/// The schema of rows of `schema` after encoding by `records`.
pub(crate) fn encoded_schema(schema: &SchemaRef, records: &[CodecRecord]) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::with_capacity(schema.fields().len());
    let known = records.iter().filter_map(|r| Some((r.columns.first()?.name.as_str(), r)));
    let known: HashMap<&str, &CodecRecord> = known.collect();
    for field in schema.fields() {
        fields.push(match known.get(field.name().as_str()) {
            None => field.as_ref().clone(),
            Some(record) => FieldType::Blob.field(&record.field, field.is_nullable()),
        });
    }
    let schema = sorted(fields);
    match schema.fields().windows(2).find(|pair| pair.first().map(|f| f.name()) == pair.last().map(|f| f.name())) {
        Some(pair) => Err(Error::config(format!(
            "two fields would be called {}; rename one with `field`",
            pair.first().map_or("", |f| f.name())
        ))),
        None => Ok(schema),
    }
}

/// The schema that the sink gets: after all steps, with the class list as metadata.
pub(crate) fn written_schema(transformed: &SchemaRef, header: &PlanHeader) -> Result<SchemaRef> {
    let schema = encoded_schema(transformed, &header.encode)?;
    if header.classes.is_empty() {
        return Ok(schema);
    }
    let classes = serde_json::to_string(&header.classes).map_err(|e| Error::bug(e.to_string()))?;
    let metadata: HashMap<String, String> = [(CLASSES.to_owned(), classes)].into();
    Ok(Arc::new(schema.as_ref().clone().with_metadata(metadata)))
}

/// The key first, then the fields by name.
fn sorted(mut fields: Vec<Field>) -> SchemaRef {
    fields.sort_by(|a, b| (a.name() != KEY, a.name()).cmp(&(b.name() != KEY, b.name())));
    Arc::new(Schema::new(fields))
}

/// The steps before the transforms of the plan: decoding, and conversion to the plan's types.
pub(crate) fn before(
    registry: &Registry,
    header: &PlanHeader,
    delivered: &SchemaRef,
    limits: Limits,
) -> Result<Vec<Box<dyn Transform>>> {
    let mut steps: Vec<Box<dyn Transform>> = Vec::new();
    let mut decoder = Vec::with_capacity(header.decode.len());
    for record in &header.decode {
        let fields = FieldRecord::schema(&record.columns)?.fields().iter().map(|f| f.as_ref().clone()).collect();
        decoder.push((record.field.clone(), FieldDecoder { codec: codec(registry, record, limits)?, fields }));
    }
    if !decoder.is_empty() {
        steps.push(Box::new(DecodeFields(decoder)));
    }
    if raw_schema(header, delivered) != *delivered {
        steps.push(Box::new(ConformTypes { schema: delivered.clone() }));
    }
    Ok(steps)
}

/// The steps after the transforms of the plan: encoding.
pub(crate) fn after(registry: &Registry, header: &PlanHeader, limits: Limits) -> Result<Vec<Box<dyn Transform>>> {
    let mut forms = HashMap::with_capacity(header.encode.len());
    for record in &header.encode {
        let schema = FieldRecord::schema(&record.columns)?;
        let [field] = &schema.fields()[..] else {
            return Err(Error::content("the plan's encoder does not name exactly one column"));
        };
        let form = ColumnEncoder {
            codec: codec(registry, record, limits)?,
            field: field.as_ref().clone(),
            name: record.field.clone(),
        };
        forms.insert(field.name().clone(), form);
    }
    Ok(if forms.is_empty() { Vec::new() } else { vec![Box::new(EncodeColumns(forms))] })
}

/// Shortens keys of table rows to at most this many bytes, as `long-keys=hash` does for files.
pub(crate) struct ShortenKeys(pub(crate) usize);

impl Transform for ShortenKeys {
    fn describe(&self) -> String {
        "shorten keys".to_owned()
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let keys = packhorse_core::key_column(&rows)?;
        if keys.lengths().all(|len| len as usize <= self.0) {
            return Ok(rows);
        }
        let short = keys
            .iter()
            .map(|key| key.map(|key| if key.len() > self.0 { shorten(key, self.0) } else { key.to_owned() }));
        let short: ArrayRef = Arc::new(short.collect::<StringViewArray>());
        let swap = |(field, column): (Field, ArrayRef)| match field.name() == KEY {
            true => (field, short.clone()),
            false => (field, column),
        };
        assembled(columns(&rows).map(swap).collect())
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

/// The last step: the sink's check of rows whose keys and fields scan did not check.
pub(crate) struct CheckRows(pub(crate) fn(&Rows) -> Result<()>);

impl Transform for CheckRows {
    fn describe(&self) -> String {
        "check".to_owned()
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        (self.0)(&rows).map(|()| rows)
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

fn codec(registry: &Registry, record: &CodecRecord, limits: Limits) -> Result<Box<dyn Codec>> {
    let format = registry.get(&record.format)?;
    match format.info().revision == record.revision {
        true => format.codec(&Options::new(), limits),
        false => Err(Error::config(format!(
            "the plan is for revision {} of {}, and this build has revision {}; use the build that planned, or plan again",
            record.revision,
            record.format,
            format.info().revision
        ))),
    }
}

/// Replaces encoded fields by their columns. One step for all fields: rows may have ten thousand.
struct DecodeFields(Vec<(String, FieldDecoder)>);

/// Decodes one field.
struct FieldDecoder {
    codec: Box<dyn Codec>,
    fields: Vec<Field>,
}

impl Transform for DecodeFields {
    fn describe(&self) -> String {
        self.0.iter().map(|(name, _)| format!("decode {name}")).collect::<Vec<_>>().join("; ")
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        let decoded: HashSet<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        let others = input.fields().iter().filter(|f| !decoded.contains(f.name().as_str())).map(|f| f.as_ref().clone());
        Ok(sorted(others.chain(self.0.iter().flat_map(|(_, decoder)| decoder.fields.iter().cloned())).collect()))
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let schema = rows.schema();
        let places: HashMap<&str, usize> = places(&schema);
        let key = places.get(KEY).copied();
        let mut decoded: HashSet<&str> = HashSet::with_capacity(self.0.len());
        let mut found: Vec<(Field, ArrayRef)> = Vec::with_capacity(schema.fields().len());
        for (name, decoder) in &self.0 {
            let Some(at) = places.get(name.as_str()) else { continue };
            // Codecs find their field by name.
            let alone: Vec<usize> = key.into_iter().chain([*at]).collect();
            let alone = rows.project(&alone).map_err(|e| Error::bug(e.to_string()))?;
            let arrays = decoder.codec.decode(name, &alone, &decoder.fields).map_err(|e| e.in_field(name))?;
            found.extend(decoder.fields.iter().cloned().zip(arrays));
            decoded.insert(name);
        }
        if decoded.is_empty() {
            return Ok(rows);
        }
        found.extend(columns(&rows).filter(|(field, _)| !decoded.contains(field.name().as_str())));
        assembled(found)
    }

    fn alignment_padding(&self) -> usize {
        self.0.first().map_or(0, |(_, decoder)| decoder.codec.alignment_padding())
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

/// Replaces columns by encoded fields. One step for all columns: rows may have ten thousand.
struct EncodeColumns(HashMap<String, ColumnEncoder>);

/// Encodes one column.
struct ColumnEncoder {
    codec: Box<dyn Codec>,
    field: Field,
    name: String,
}

impl Transform for EncodeColumns {
    fn describe(&self) -> String {
        format!("encode {} fields", self.0.len())
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        let swap = |f: &Arc<Field>| match self.0.get(f.name()) {
            Some(form) => FieldType::Blob.field(&form.name, f.is_nullable()),
            None => f.as_ref().clone(),
        };
        Ok(sorted(input.fields().iter().map(swap).collect()))
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let mut encoded = 0;
        let mut swap = |(field, column): (Field, ArrayRef)| -> Result<(Field, ArrayRef)> {
            let Some(form) = self.0.get(field.name()) else { return Ok((field, column)) };
            encoded += 1;
            let bytes = form.codec.encode(&form.field, &column).map_err(|e| e.in_field(field.name()))?;
            Ok((FieldType::Blob.field(&form.name, field.is_nullable()), Arc::new(bytes)))
        };
        let columns = columns(&rows).map(&mut swap).collect::<Result<Vec<_>>>()?;
        match encoded == self.0.len() {
            true => assembled(columns),
            false => Err(Error::bug("rows without a field that the plan encodes")),
        }
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

/// Converts rows to the types of the plan: columns that an input lacks become null, tensors become ragged.
struct ConformTypes {
    schema: SchemaRef,
}

impl Transform for ConformTypes {
    fn describe(&self) -> String {
        "conform".to_owned()
    }

    fn schema(&self, _: &SchemaRef) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let delivered = rows.schema();
        // Mostly so: the rest takes long where columns are thousands.
        if delivered.fields() == self.schema.fields() && delivered.metadata() == self.schema.metadata() {
            let lacks = |(field, column): &(&Arc<Field>, &ArrayRef)| column.null_count() > 0 && !field.is_nullable();
            return match self.schema.fields().iter().zip(rows.columns()).find(lacks) {
                Some((field, column)) => Err(lacking(&rows, column, field)),
                None => Ok(rows),
            };
        }
        let mut conformed = Vec::with_capacity(self.schema.fields().len());
        let places = places(&delivered);
        for field in self.schema.fields() {
            let found = places.get(field.name().as_str());
            let found = found.map(|at| (delivered.field(*at).clone(), rows.column(*at)));
            let column = match found {
                None => new_null_array(field.data_type(), rows.num_rows()),
                Some((found, column)) if same_type(&found, field) => column.clone(),
                // A blob too large for a view.
                Some((_, column)) if *column.data_type() == DataType::LargeBinary => column.clone(),
                Some((found, column)) => ragged(&found, column, field)?,
            };
            if column.null_count() > 0 && !field.is_nullable() {
                return Err(lacking(&rows, &column, field));
            }
            let field = field.as_ref().clone().with_data_type(column.data_type().clone());
            conformed.push((field, column));
        }
        assembled(conformed)
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

fn lacking(rows: &Rows, column: &ArrayRef, field: &Field) -> Error {
    let error = Error::content("is missing, and the plan expects it in every sample").with_code(Code::ColumnsDiffer);
    let error = error.subject(field.name()).in_field(field.name());
    let first = (0..column.len()).find(|i| column.is_null(*i));
    let key = packhorse_core::key_column(rows).ok().zip(first).map(|(keys, i)| keys.value(i).to_owned());
    key.into_iter().fold(error, Error::in_sample)
}

/// Tensors as ragged arrays.
fn ragged(found: &Field, column: &ArrayRef, wanted: &Field) -> Result<ArrayRef> {
    let differ = || {
        let (found, wanted_type) = (shown(found), shown(wanted));
        let error = Error::content(format!("field {} is {found} here and {wanted_type} in the plan", wanted.name()));
        error.with_code(Code::ColumnsDiffer).in_field(wanted.name())
    };
    let FieldType::Tensor { shape, element } = FieldType::of(found)? else { return Err(differ()) };
    let fits = FieldType::of(wanted)? == FieldType::Ragged { element, rank: shape.len() };
    let (Some(list), DataType::Struct(parts), true) = (column.as_fixed_size_list_opt(), wanted.data_type(), fits)
    else {
        return Err(differ());
    };
    let [data, dims] = &parts[..] else { return Err(differ()) };
    let (DataType::List(item), DataType::FixedSizeList(dim, rank)) = (data.data_type(), dims.data_type()) else {
        return Err(differ());
    };
    let size = usize::try_from(list.value_length()).unwrap_or_default();
    let bug = |e: arrow_schema::ArrowError| Error::bug(e.to_string());
    let values = list.values().slice(list.offset() * size, list.len() * size);
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(size, list.len()));
    let data = ListArray::try_new(item.clone(), offsets, values, None).map_err(bug)?;
    let numbers = shape.iter().map(|d| i32::try_from(*d).unwrap_or(i32::MAX)).collect::<Vec<_>>();
    let numbers = Int32Array::from(numbers.repeat(list.len()));
    let dims = FixedSizeListArray::try_new_with_length(dim.clone(), *rank, Arc::new(numbers), None, list.len())
        .map_err(bug)?;
    let array = StructArray::try_new(parts.clone(), vec![Arc::new(data), Arc::new(dims)], list.nulls().cloned());
    Ok(Arc::new(array.map_err(bug)?))
}

fn columns(rows: &Rows) -> impl Iterator<Item = (Field, ArrayRef)> {
    rows.schema()
        .fields()
        .iter()
        .map(|f| f.as_ref().clone())
        .collect::<Vec<_>>()
        .into_iter()
        .zip(rows.columns().to_vec())
}

/// The position of each column.
fn places(schema: &Schema) -> HashMap<&str, usize> {
    schema.fields().iter().enumerate().map(|(at, field)| (field.name().as_str(), at)).collect()
}

/// Rows of these columns, the key first, then by name.
pub(crate) fn assembled(mut columns: Vec<(Field, ArrayRef)>) -> Result<Rows> {
    columns.sort_by(|(a, _), (b, _)| (a.name() != KEY, a.name()).cmp(&(b.name() != KEY, b.name())));
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|e| Error::content(format!("rows do not fit their schema: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::UInt8Array;

    fn rows(name: &str, n: usize, shape: &[usize]) -> Rows {
        let field = FieldType::Tensor { element: DataType::UInt8, shape: shape.to_vec() }.field(name, false);
        let DataType::FixedSizeList(item, size) = field.data_type() else { unreachable!() };
        let values: Vec<u8> = (0..n * *size as usize).map(|i| i as u8).collect();
        let array = FixedSizeListArray::try_new(item.clone(), *size, Arc::new(UInt8Array::from(values)), None).unwrap();
        let keys: Vec<String> = (0..n).map(|i| format!("k{i}")).collect();
        let keys = Arc::new(StringViewArray::from_iter_values(keys));
        assembled(vec![(FieldType::Text.field(KEY, false), keys), (field, Arc::new(array))]).unwrap()
    }

    #[test]
    fn one_shape_becomes_any_shape_and_what_is_missing_null() {
        let ragged = FieldType::Ragged { element: DataType::UInt8, rank: 2 }.field("x", true);
        let other = FieldType::Scalar(DataType::Float32).field("y", true);
        let schema = sorted(vec![other, ragged, FieldType::Text.field(KEY, false)]);
        let step = ConformTypes { schema: schema.clone() };
        let found = step.apply(rows("x", 4, &[2, 3]).slice(1, 2)).unwrap();
        assert_eq!(found.schema(), schema);
        assert_eq!(found.column_by_name("y").unwrap().null_count(), 2);
        let parts = found.column_by_name("x").unwrap().as_struct();
        let values = parts.column(0).as_list::<i32>().value(1);
        assert_eq!(values.as_primitive::<arrow_array::types::UInt8Type>().values(), &[12, 13, 14, 15, 16, 17]);
        assert!(step.apply(rows("x", 1, &[6])).is_err());
    }

    #[test]
    fn what_every_sample_has_in_the_plan_must_be_there() {
        let schema =
            sorted(vec![FieldType::Scalar(DataType::Int8).field("y", false), FieldType::Text.field(KEY, false)]);
        let error = ConformTypes { schema }.apply(rows("x", 2, &[1])).unwrap_err();
        assert_eq!(error.sample(), Some("k0"));
    }
}
