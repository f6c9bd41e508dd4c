//! The columns that the inputs deliver, as scan found them, and the fields to decode and to encode.

use super::{LABEL, PlanOptions};
use crate::merged_columns::{Joining, MergedColumns};
use crate::scan::{Listing, SampleRef};
use packhorse_core::{
    Code, DataType, Error, Event, Field, FieldType, HUGGINGFACE, KEY, Kind, Limits, Observer, Options, Registry,
    Result, Schema, SchemaRef, Sink, TABLE, counted, shard_number, with_metadata,
};
use packhorse_dataset::{CodecRecord, FieldRecord};
use packhorse_storage::Compression;
use packhorse_transform::Transform;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The columns of the inputs after decoding.
pub(super) struct DeliveredSchema {
    /// The key, then the columns by name; a column that some sample lacks is nullable.
    pub(super) schema: SchemaRef,
    /// The fields that are decoded.
    pub(super) decode: Vec<CodecRecord>,
}

/// Merges the columns of all inputs.
///
/// Errors: columns of one name whose types can't be merged.
pub(super) fn of(
    registry: &Registry,
    listing: &Listing,
    transforms: &[Box<dyn Transform>],
    (options, observer): (&PlanOptions<'_>, &dyn Observer),
) -> Result<DeliveredSchema> {
    let samples: u64 = listing.iter().map(|s| s.items()).sum();
    same_columns(listing, options, observer)?;
    let mut columns = MergedColumns::default();
    let counts = blob_counts(listing, samples, transforms, observer);
    warn_of_whole_tables(&counts, samples, observer);
    warn_of_one_file(listing, samples, observer);
    warn_of_tables_beside_files(listing, observer);
    // Where all pictures have one extension none are merged, and samples are not looked at again.
    if options.recipe.labels.is_some() && counts.keys().filter(|name| PICTURES.contains(name)).count() > 1 {
        warn_of_merged_pictures(listing, observer);
    }
    for (name, count) in counts.iter().filter(|(name, _)| !listing.decoded().contains_key(**name)) {
        let mut blob = FieldType::Blob.field(name, false);
        if let Some(feature) = listing.note_of_members(name, HUGGINGFACE) {
            blob = with_metadata(blob, HUGGINGFACE, feature);
        }
        columns.add([&blob].into_iter(), *count, Path::new("the inputs"), &options.joining)?;
    }
    let mut decode = Vec::new();
    let mut origins: BTreeMap<String, &str> = BTreeMap::new();
    for (name, decoded) in listing.decoded() {
        let count = counts.get(name.as_str()).copied().unwrap_or(0);
        let fields: Vec<Field> = decoded.columns.fields(count).collect();
        let nullable = |field: &Field| field.clone().with_nullable(field.is_nullable() || count < samples);
        let inside: Vec<Field> = fields.iter().map(nullable).collect();
        for field in &inside {
            if let Some(other) = origins.insert(field.name().clone(), name) {
                let message =
                    format!("samples have {} twice: decoded from their {other} and from their {name}", field.name());
                let error = Error::config(message).with_code(Code::KeyTwice).in_field(field.name());
                // The setting is for the names of files and of columns: one that is both would leave out the two.
                let drops = [other, name.as_str()].into_iter().filter(|file| file != field.name());
                let drops: Vec<String> = drops.map(|file| format!("`drop={file}`")).collect();
                let drop = if drops.is_empty() {
                    String::new()
                } else {
                    format!("leave one of them out ({}), ", drops.join(" or "))
                };
                return Err(
                    error.hint(format!("{drop}rename one in the inputs, or pack the inputs that have them apart"))
                );
            }
        }
        columns.add(inside.iter(), count, Path::new(name), &options.joining).map_err(of_plan)?;
        let revision = registry.get(decoded.format)?.info().revision;
        let records = FieldRecord::of(&Schema::new(inside));
        decode.push(CodecRecord { field: name.clone(), format: decoded.format.to_owned(), revision, columns: records });
    }
    for sample in with_rows(listing) {
        let Some(table) = sample.table() else { continue };
        check_keys(&table.schema).map_err(|e| e.in_input(sample.first_path().display()))?;
        let fields = table.schema.fields().iter().map(|f| &**f).filter(|f| f.name() != KEY);
        let path = sample.first_path();
        columns.add(fields, table.items, &path, &options.joining).map_err(|e| of_plan(e).in_input(path.display()))?;
    }
    warn_of_tables(listing, observer);
    add_joined(listing, &mut columns, &options.joining, samples)?;
    for (name, path) in columns.lost_classes() {
        let text = format!(
            "the numbers of {name} are classes with names in some inputs, such as {}, and not in all: the names are left out; give the \
             others the same ClassLabel, or pack them apart",
            path.display()
        );
        observer.event(&Event::Warning(&text));
    }
    let schema = with_given(columns.fields(samples).collect(), !listing.classes().is_empty(), listing.has_metadata())?;
    Ok(DeliveredSchema { schema, decode })
}

/// Warns of tables of several names, such as the trees of systematic variations, which have the same columns and do not belong together.
fn warn_of_tables(listing: &Listing, observer: &dyn Observer) {
    let mut names: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for sample in with_rows(listing) {
        if let Some(name) = sample.table().and_then(|table| table.schema.metadata().get(TABLE)) {
            names.entry(name).or_insert_with(|| sample.first_path());
        }
    }
    let mut found = names.iter().map(|(name, path)| format!("{name} in {}", path.display()));
    if let (Some(one), Some(other)) = (found.next(), found.next()) {
        let text = format!(
            "the rows of tables of {} names go into one dataset, such as {one} and {other}; `tree=NAME` chooses one, and \
             `packhorse pack tree=*` makes a dataset of each",
            names.len()
        );
        observer.event(&Event::Warning(&text));
    }
}

/// Refuses a column of keys that holds no text: it would be neither keys nor a field.
fn check_keys(schema: &Schema) -> Result<()> {
    let Ok(field) = schema.field_with_name(KEY) else { return Ok(()) };
    let kind = FieldType::of(field)?;
    let hint = match &kind {
        FieldType::Text => return Ok(()),
        FieldType::Scalar(element) if element.is_integer() => format!("`id-field={KEY}` takes the numbers as keys"),
        _ => "give the column another name, or leave it out where it is read".to_owned(),
    };
    Err(Error::config(format!("the column {KEY} holds {kind}, and keys are text")).in_field(KEY).hint(hint))
}

/// Adds the columns that views join to their samples, which are of one type in all views.
///
/// Errors: `Config` for the name of a field that other inputs have: one column can't be both.
fn add_joined(listing: &Listing, columns: &mut MergedColumns, joining: &Joining, samples: u64) -> Result<()> {
    let own: BTreeSet<String> = columns.fields(samples).map(|field| field.name().clone()).collect();
    let mut types: BTreeMap<String, DataType> = BTreeMap::new();
    let refused = |field: &Field, why: &str, hint: &str| {
        let error = Error::config(format!("column {} is joined by a view, and {why}", field.name()));
        Err(error.with_code(Code::ColumnsDiffer).in_field(field.name()).hint(hint))
    };
    for (sealed, joined) in listing.sealed().iter().filter_map(|sealed| Some((sealed, sealed.joined()?))) {
        let schema = FieldRecord::schema(&joined.columns)?;
        for field in schema.fields().iter().filter(|field| field.name() != KEY) {
            if own.contains(field.name()) {
                let hint = "join the column under another name, or pack these inputs apart";
                return refused(field, "other inputs have a field of that name", hint);
            }
            let known = types.entry(field.name().clone()).or_insert_with(|| field.data_type().clone());
            if known != field.data_type() {
                let why = format!("is {known} in one view and {} in another", field.data_type());
                return refused(field, &why, "join columns of one type, or pack these views apart");
            }
        }
        let (fields, path) = (schema.fields().iter().map(|field| &**field), Path::new(&joined.file.name));
        columns.add(fields, sealed.chosen.as_ref().map_or(0, |chosen| chosen.rows.len()), path, joining)?;
    }
    Ok(())
}

/// The columns of samples whose fields are bytes: so many have each of them.
///
/// Errors: as for [`of`].
pub(super) fn of_bytes(
    counts: &BTreeMap<String, u64>,
    samples: u64,
    has_classes: bool,
    options: &PlanOptions<'_>,
    observer: &dyn Observer,
) -> Result<SchemaRef> {
    let mut columns = MergedColumns::default();
    for (name, count) in counts {
        let blob = FieldType::Blob.field(name, false);
        columns.add([&blob].into_iter(), *count, Path::new("the inputs"), &options.joining)?;
    }
    let counts = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    warn_of_missing_fields(&counts, (None, &[]), samples, observer);
    if options.recipe.from.as_deref() != Some("files") {
        warn_of_whole_tables(&counts, samples, observer);
    }
    with_given(columns.fields(samples).collect(), has_classes, false)
}

/// The key, and these columns with those of labels and metadata, by name.
fn with_given(mut fields: Vec<Field>, has_classes: bool, has_metadata: bool) -> Result<SchemaRef> {
    let mut given = |name: &str, data_type: DataType| match fields.iter().any(|f| f.name() == name) {
        true => Err(Error::config(format!("the inputs have a field {name} of their own; drop one of the two"))),
        false => {
            fields.push(Field::new(name, data_type, false));
            Ok(())
        }
    };
    if has_classes {
        given("cls", LABEL)?;
    }
    if has_metadata {
        given("json", DataType::Utf8View)?;
    }
    fields.sort_by(|a, b| a.name().cmp(b.name()));
    fields.insert(0, Field::new(KEY, DataType::Utf8View, false));
    Ok(Arc::new(Schema::new(fields)))
}

/// The table inputs with rows, or all if none has any: types that are inferred from no row say nothing beside others.
fn with_rows(listing: &Listing) -> impl Iterator<Item = SampleRef<'_>> {
    let is_empty = listing.tables().iter().all(|table| table.items == 0);
    listing.iter().filter(move |sample| sample.table().is_some_and(|table| is_empty || table.items > 0))
}

/// Refuses table inputs that lack columns of others, which are most often unrelated files; warns under `fill-missing`.
/// Columns without a value are there, too.
fn same_columns(listing: &Listing, options: &PlanOptions<'_>, observer: &dyn Observer) -> Result<()> {
    let names = |sample: &SampleRef<'_>| -> BTreeSet<String> {
        let Some(table) = sample.table() else { return BTreeSet::new() };
        let read = table.schema.fields().iter().map(|field| field.name());
        let empty = table.omitted.iter().filter(|omission| omission.empty).map(|omission| &omission.field);
        let dropped = |name: &&String| options.joining.casts.drops(name);
        read.filter(|name| *name != KEY).chain(empty).filter(|name| !dropped(name)).cloned().collect()
    };
    let mut tables = with_rows(listing);
    let Some(first) = tables.next() else { return Ok(()) };
    let wanted = names(&first);
    let mut others = tables.map(|sample| (names(&sample), sample)).filter(|(names, _)| *names != wanted);
    let Some((found, other)) = others.next() else { return Ok(()) };
    let count = 1 + others.count();
    if options.recipe.fill_missing {
        let text = {
            let have = if count == 1 { "1 input has".to_owned() } else { format!("{count} inputs have") };
            format!("{have} other columns than {}; missing values are null", first.first_path().display())
        };
        observer.event(&Event::Warning(&text));
        return Ok(());
    }
    let listed = |names: &BTreeSet<String>, known: &BTreeSet<String>| {
        let mut own = names.difference(known);
        let shown = own.by_ref().take(8).cloned().collect::<Vec<_>>().join(", ");
        let more = own.count();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if shown.is_empty() { "nothing more".to_owned() } else { format!("{shown}{more}") }
    };
    let message = format!(
        "has other columns than {}: {} here, {} there ({} so)",
        first.first_path().display(),
        listed(&found, &wanted),
        listed(&wanted, &found),
        if count == 1 { "1 input differs".to_owned() } else { format!("{count} inputs differ") }
    );
    let hint = "pack them apart, choose columns that all have, or pass `fill-missing` to have nulls";
    let error = Error::config(message).with_code(Code::ColumnsDiffer).hint(hint);
    Err(error.in_input(other.first_path().display()))
}

/// Nothing can be skipped at this point: the user has to choose.
fn of_plan(error: Error) -> Error {
    error.with_kind(Kind::Config)
}

/// The number of samples that have each field of bytes.
fn blob_counts<'l>(
    listing: &'l Listing,
    samples: u64,
    transforms: &[Box<dyn Transform>],
    observer: &dyn Observer,
) -> BTreeMap<&'l str, u64> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for sample in listing.iter().filter(|sample| sample.table().is_none()) {
        for (field, _) in sample.fields() {
            *counts.entry(field).or_default() += 1;
        }
    }
    if listing.iter().all(|sample| sample.counted()) {
        // What archives of arrays hold, the rows of tables may have as well.
        let mut counts = counts.clone();
        let in_rows = |name: &str| listing.tables().iter().any(|table| table.schema.column_with_name(name).is_some());
        counts
            .retain(|name, _| listing.tables().is_empty() || !listing.decoded().contains_key(*name) && !in_rows(name));
        warn_of_missing_fields(&counts, (Some(listing), transforms), samples, observer);
    }
    counts
}

/// Warns of fields that some samples lack once they are transformed, with an example of both if there is a listing.
fn warn_of_missing_fields(
    counts: &BTreeMap<&str, u64>,
    (listing, transforms): (Option<&Listing>, &[Box<dyn Transform>]),
    samples: u64,
    observer: &dyn Observer,
) {
    let packed = |name: &str| transforms.iter().try_fold(name.to_owned(), |name, transform| transform.name_of(&name));
    let mut counts_packed: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in counts.iter().filter_map(|(name, count)| Some((packed(name)?, count))) {
        *counts_packed.entry(name).or_default() += count;
    }
    let mut lacking = counts_packed.iter().filter(|(_, count)| **count < samples);
    let Some((field, count)) = lacking.next() else { return };
    let example = |wanted: bool| {
        let has = |name: &str| packed(name).as_ref() == Some(field);
        let mut of_files = listing.into_iter().flat_map(Listing::iter).filter(|sample| sample.table().is_none());
        of_files.find(|sample| sample.fields().any(|(name, _)| has(name)) == wanted).map(|sample| sample.key())
    };
    let of_both = match (example(true), example(false)) {
        (Some(with), Some(without)) => format!(", such as {with}, and others such as {without} do not"),
        _ => String::new(),
    };
    let have = if *count == 1 { "has" } else { "have" };
    let more = match lacking.count() as u64 {
        0 => String::new(),
        n => format!(" (and {} so)", counted(n, "more field")),
    };
    observer.event(&Event::Warning(&format!(
        "only {count} of {} {have} the field {field}{of_both}{more}; readers that make batches, and Hugging Face datasets, want \
         the same fields in every sample",
        counted(samples, "sample")
    )));
}

/// Warns of tables beside samples of files, such as those with the metadata of archives: their rows become samples.
fn warn_of_tables_beside_files(listing: &Listing, observer: &dyn Observer) {
    if listing.tables().is_empty() {
        return;
    }
    let mut tables = listing.iter().filter(|sample| sample.table().is_some());
    let Some(first) = tables.next() else { return };
    if listing.iter().any(|sample| sample.table().is_none()) {
        let text = match tables.count() as u64 {
            0 => format!("the rows of {} are samples", first.first_path().display()),
            more => format!(
                "the rows of {}, such as {}, are samples",
                counted(more + 1, "table"),
                first.first_path().display()
            ),
        };
        let text = format!("{text} beside those of files and archives; `exclude` leaves tables out");
        observer.event(&Event::Warning(&text));
    }
}

/// Warns of inputs that are all tables of text, since rows of those in folders are not samples.
fn warn_of_whole_tables(counts: &BTreeMap<&str, u64>, samples: u64, observer: &dyn Observer) {
    let is_table = |field: &&str| ["csv", "tsv"].contains(&field.split('.').next().unwrap_or(field));
    if counts.keys().all(is_table) && counts.values().sum::<u64>() == samples && samples > 0 {
        let text = "every input is a table of text, and each file is packed as one sample; if their rows are the samples, \
                    pass `from=csv` (unpack archives first)";
        observer.event(&Event::Warning(text));
    }
    let is_json = |field: &str| Compression::of(field.as_bytes()).is_some_and(|(_, inside)| inside.ends_with(b"json"));
    if !counts.is_empty() && counts.keys().all(|field| is_json(field)) && samples > 0 {
        let text = "every input is compressed JSON, which is packed as it is; if it holds JSON lines, `from=jsonl` makes a sample of each, \
                    `from=text` a document";
        observer.event(&Event::Warning(text));
    }
    let is_records = |field: &&str| RECORDS.contains(&field.get(..shard_number(field.as_bytes())).unwrap_or(field));
    if !counts.is_empty() && counts.keys().all(is_records) && samples > 0 {
        let text =
            "each input is packed as bytes; if they are TFRecord files, `from=tfrecord` makes a sample of each record";
        observer.event(&Event::Warning(text));
    }
}

/// Extensions of TFRecord files that other files have too.
const RECORDS: [&str; 3] = ["record", "records", "tfr"];

/// Files of tables that other programs write, by extension, and how their rows become samples.
const OTHER_TABLES: [(&str, &str); 12] = [
    (
        "json",
        "if its lines are documents (JSON lines), pass `from=text` or call it .jsonl; if it is a list of records, make lines of them: jq -c '.[]' FILE.json > FILE.jsonl",
    ),
    ("h5ad", HDF5),
    ("loom", HDF5),
    ("mat", HDF5),
    ("nxs", HDF5),
    ("orc", PANDAS),
    ("avro", PANDAS),
    ("dta", PANDAS),
    ("sav", PANDAS),
    ("sas7bdat", PANDAS),
    ("xlsx", PANDAS),
    ("pkl", PANDAS),
];
const HDF5: &str =
    "if it is HDF5, `from=hdf5` reads it, and `datasets` chooses what has a row for each sample (`datasets=/X,/obs`)";
const PANDAS: &str = "if its rows are the samples, write it as Parquet first (with pandas or polars, for example)";

/// Warns of a file that alone is all samples though it likely is a table.
fn warn_of_one_file(listing: &Listing, samples: u64, observer: &dyn Observer) {
    let path =
        listing.sample(0).filter(|sample| samples == 1 && sample.table().is_none()).map(|sample| sample.first_path());
    let Some(path) = path else { return };
    let end = path.extension().map(|end| end.to_string_lossy().to_lowercase()).unwrap_or_default();
    if let Some((_, advice)) = OTHER_TABLES.iter().find(|(other, _)| *other == end) {
        observer.event(&Event::Warning(&format!("{} is packed as one sample; {advice}", path.display())));
    }
}

/// The extensions of torchvision's ImageFolder, for which each file is a sample.
const PICTURES: [&str; 9] = ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp"];

/// Warns of labelled samples of several pictures: files whose names differ in their extensions alone.
fn warn_of_merged_pictures(listing: &Listing, observer: &dyn Observer) {
    let pictures = |sample: &SampleRef<'_>| sample.fields().filter(|(name, _)| PICTURES.contains(name)).count();
    let files = listing.iter().filter(|sample| sample.table().is_none());
    let mut merged = files.filter(|sample| pictures(sample) > 1);
    if let Some(first) = merged.next() {
        let others = match merged.count() as u64 {
            0 => String::new(),
            more => format!(", and {} so", counted(more, "more sample")),
        };
        let text = format!(
            "the sample {} has {} pictures, whose names differ in their extensions alone{others}; if each is a sample of its own, \
             as in torchvision's ImageFolder, pass `key-ends=regex:(?i)^(.*[.]({}))$`",
            first.key(),
            pictures(&first),
            PICTURES.join("|")
        );
        observer.event(&Event::Warning(&text));
    }
}

/// The columns that `sink` can't store but a codec of this build can encode as bytes.
pub(crate) fn encoded(registry: &Registry, sink: &dyn Sink, schema: &SchemaRef) -> Result<Vec<CodecRecord>> {
    let mut records = Vec::new();
    match sink.accept(schema) {
        Ok(()) => return Ok(records),
        // It may name several fields.
        Err(refused) if refused.kind() != Kind::Unsupported => return Err(refused),
        Err(_) => {}
    }
    for field in schema.fields().iter().filter(|field| field.name() != KEY) {
        let alone = Arc::new(Schema::new(vec![field.clone()]));
        let Err(refused) = sink.accept(&alone) else { continue };
        if refused.kind() != Kind::Unsupported {
            return Err(refused);
        }
        let takes = |record: &CodecRecord| {
            let blob = FieldType::Blob.field(&record.field, field.is_nullable());
            sink.accept(&Arc::new(Schema::new(vec![blob]))).is_ok()
        };
        let Some(record) = encoder(registry, field).filter(takes) else { return Err(refused) };
        records.push(record);
    }
    Ok(records)
}

fn encoder(registry: &Registry, field: &Field) -> Option<CodecRecord> {
    registry.iter().filter(|format| !format.info().fields.is_empty()).find_map(|format| {
        let codec = format.codec(&Options::new(), Limits::default()).ok()?;
        let name = codec.encoded_column(field).ok()?;
        let info = format.info();
        let columns = FieldRecord::of(&Schema::new(vec![field.clone()]));
        Some(CodecRecord { field: name, format: info.id.to_owned(), revision: info.revision, columns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_not_text_are_refused_rather_than_dropped() {
        let check = |kind: FieldType| check_keys(&Schema::new(vec![kind.field(KEY, false)]));
        assert!(check(FieldType::Text).is_ok() && check_keys(&Schema::empty()).is_ok());
        let integers = check(FieldType::Scalar(DataType::Int32)).unwrap_err();
        assert!(integers.message().contains("the column __key__ holds Int32"), "{integers}");
        assert!(integers.hints().unwrap().contains("`id-field=__key__`"), "{integers}");
        let floats = check(FieldType::Scalar(DataType::Float64)).unwrap_err();
        assert!(!floats.hints().unwrap().contains("id-field"), "{floats}");
    }
}
