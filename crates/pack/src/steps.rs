//! The conversions around the transforms of a plan: encoded fields are decoded, columns get the types of the plan, and
//! columns that the sink can't store are encoded.

mod conform;
mod mixed;

use crate::long_keys::shorten;
use crate::merged_columns::is_dropped;
use arrow_array::{Array as _, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray, make_array, new_null_array};
use conform::ConformTypes;
use packhorse_core::{
    CLASSES, Code, Codec, DataType, Error, Field, FieldType, KEY, Limits, Options, Registry, Result, RowCheck, Rows,
    Schema, SchemaRef, key_column,
};
use packhorse_dataset::{CodecRecord, FieldRecord, PlanHeader};
use packhorse_transform::{Casts, Transform};
use std::borrow::Cow;
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

/// The schema of rows of `schema` after all transforms.
pub(crate) fn transformed_schema(schema: SchemaRef, transforms: &[Box<dyn Transform>]) -> Result<SchemaRef> {
    transforms.iter().try_fold(schema, |schema, transform| transform.schema(&schema))
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
        Some(pair) if pair.first().is_some_and(|field| field.name() == KEY) => {
            let error = Error::config(format!("a field would be called {KEY}, as the keys are"));
            Err(error.hint("rename it in its files"))
        }
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

/// The steps before the transforms of the plan: decoding, and conversion to the plan's types, also by `casts`, which are
/// the plan's.
pub(crate) fn before(
    registry: &Registry,
    header: &PlanHeader,
    delivered: &SchemaRef,
    limits: Limits,
    casts: &Casts,
) -> Result<Vec<Box<dyn Transform>>> {
    let mut steps: Vec<Box<dyn Transform>> = Vec::new();
    let mut decoder = Vec::with_capacity(header.decode.len());
    for record in &header.decode {
        let fields = FieldRecord::schema(&record.columns)?;
        let fields = fields.fields().iter().map(|f| f.as_ref().clone());
        let mut plain = fields.clone().map(|field| is_text_or_number(&field) && casts.drops(field.name()));
        let all = plain.all(|plain| plain);
        let (unread, fields) = fields.partition(|field| all || is_dropped(field) && casts.drops(field.name()));
        decoder.push((record.field.clone(), FieldDecoder { codec: codec(registry, record, limits)?, fields, unread }));
    }
    if !decoder.is_empty() {
        steps.push(Box::new(DecodeFields { fields: decoder, casts: casts.clone() }));
    }
    if raw_schema(header, delivered) != *delivered {
        steps.push(conform(delivered, casts));
    }
    Ok(steps)
}

/// Conversion to the plan's types: what [`before`] ends with unless files have these types as they are. Rows of tables may lack columns also
/// then.
pub(crate) fn conform(delivered: &SchemaRef, casts: &Casts) -> Box<dyn Transform> {
    Box::new(ConformTypes { schema: delivered.clone(), casts: casts.clone() })
}

/// Whether a field that is left out needs no decoding: its place is taken by empty texts or zeros.
fn is_text_or_number(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8View | DataType::Int64)
}

/// A column of nulls, or where the field has none, of empty texts or zeros.
fn left_out(field: &Field, rows: usize) -> Result<ArrayRef> {
    let nulls = new_null_array(field.data_type(), rows);
    match field.is_nullable() {
        true => Ok(nulls),
        false => {
            let data = nulls.to_data().into_builder().nulls(None).build();
            data.map(make_array).map_err(|e| Error::bug(e.to_string()))
        }
    }
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

/// A key as a sink writes it.
pub(crate) type WrittenKey = fn(&str) -> Result<Cow<'_, str>>;

/// Shortens keys of table rows to at most this many written bytes, as `long-keys=hash` does for files.
pub(crate) struct ShortenKeys(pub(crate) usize, pub(crate) WrittenKey);

impl Transform for ShortenKeys {
    fn describe(&self) -> String {
        "shorten keys".to_owned()
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let keys = packhorse_core::key_column(&rows)?;
        // A written key is at most three times as long.
        if keys.lengths().all(|len| len as usize * 3 <= self.0) {
            return Ok(rows);
        }
        let short = |key: &str| match (self.1)(key) {
            Ok(written) if written.len() > self.0 => shorten(&written, self.0),
            // What can't be written is told by the check of rows.
            _ => key.to_owned(),
        };
        let short: ArrayRef = Arc::new(keys.iter().map(|key| key.map(short)).collect::<StringViewArray>());
        let swap = |(field, column): (Field, ArrayRef)| match field.name() == KEY {
            true => (field, short.clone()),
            false => (field, column),
        };
        assembled(columns(&rows).map(swap).collect())
    }
}

/// The last step: the sink's check of rows whose keys and fields scan did not check.
pub(crate) struct CheckRows(pub(crate) RowCheck);

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
}

/// The sink's check of keys, before rows are encoded.
pub(crate) struct CheckKeys {
    check: RowCheck,
    /// The key and the fields that are written, all as bytes.
    schema: SchemaRef,
}

impl CheckKeys {
    pub(crate) fn new(check: RowCheck, written: &Schema) -> Self {
        let fields = written.fields().iter().filter(|field| field.name() != KEY);
        let fields = fields.map(|field| FieldType::Blob.field(field.name(), false));
        let fields: Vec<Field> = std::iter::once(FieldType::Text.field(KEY, false)).chain(fields).collect();
        Self { check, schema: Arc::new(Schema::new(fields)) }
    }
}

impl Transform for CheckKeys {
    fn describe(&self) -> String {
        "check keys".to_owned()
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let keys: ArrayRef = Arc::new(key_column(&rows)?.clone());
        let nothing: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(std::iter::repeat_n(b"", rows.num_rows())));
        let fields = self.schema.fields().len() - 1;
        let columns = std::iter::once(keys).chain(std::iter::repeat_n(nothing, fields)).collect();
        let bare = Rows::try_new(Arc::clone(&self.schema), columns).map_err(|e| Error::bug(e.to_string()))?;
        (self.check)(&bare).map(|()| rows)
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
struct DecodeFields {
    fields: Vec<(String, FieldDecoder)>,
    casts: Casts,
}

/// Decodes one field.
struct FieldDecoder {
    codec: Box<dyn Codec>,
    fields: Vec<Field>,
    /// Those that are left out, and not decoded: of several types, or all of them texts or numbers.
    unread: Vec<Field>,
}

impl Transform for DecodeFields {
    fn describe(&self) -> String {
        self.fields.iter().map(|(name, _)| format!("decode {name}")).collect::<Vec<_>>().join("; ")
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        let decoded: HashSet<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
        let others = input.fields().iter().filter(|f| !decoded.contains(f.name().as_str())).map(|f| f.as_ref().clone());
        Ok(sorted(
            others
                .chain(
                    self.fields.iter().flat_map(|(_, decoder)| decoder.fields.iter().chain(&decoder.unread).cloned()),
                )
                .collect(),
        ))
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let schema = rows.schema();
        let places: HashMap<&str, usize> = places(&schema);
        let key = places.get(KEY).copied();
        let mut decoded: HashSet<&str> = HashSet::with_capacity(self.fields.len());
        let mut found: Vec<(Field, ArrayRef)> = Vec::with_capacity(schema.fields().len());
        for (name, decoder) in &self.fields {
            let Some(at) = places.get(name.as_str()) else { continue };
            // Rows of tables among the inputs have columns of these names, which are decoded already.
            if !matches!(rows.column(*at).data_type(), DataType::BinaryView | DataType::LargeBinary) {
                continue;
            }
            if !decoder.fields.is_empty() {
                // Codecs find their field by name.
                let alone: Vec<usize> = key.into_iter().chain([*at]).collect();
                let alone = rows.project(&alone).map_err(|e| Error::bug(e.to_string()))?;
                let arrays = decoder.codec.decode(name, &alone, &decoder.fields);
                let arrays = arrays.or_else(|error| match error.code() == Code::ColumnsDiffer {
                    true => mixed::decode(&*decoder.codec, name, &alone, &decoder.fields, &self.casts)?.ok_or(error),
                    false => Err(error),
                });
                let arrays = arrays.map_err(|e| e.in_field(name))?;
                found.extend(decoder.fields.iter().cloned().zip(arrays));
            }
            for field in &decoder.unread {
                found.push((field.clone(), left_out(field, rows.num_rows())?));
            }
            decoded.insert(name);
        }
        if decoded.is_empty() {
            return Ok(rows);
        }
        found.extend(columns(&rows).filter(|(field, _)| !decoded.contains(field.name().as_str())));
        assembled(found)
    }

    fn alignment_padding(&self) -> usize {
        self.fields.first().map_or(0, |(_, decoder)| decoder.codec.alignment_padding())
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
