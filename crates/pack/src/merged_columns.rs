//! Merges the column types of many inputs into one schema.

use packhorse_core::{
    Code, DataType, Error, Field, FieldType, HUGGINGFACE, LOGICAL, NUMPY, PACKED, Result, SchemaRef, UNTYPED,
    class_names, common_number, number_kind, numpy_type, with_metadata,
};
use packhorse_transform::Casts;
use packhorse_transform::kinds::{JSON, common_time, same_kind, time_zone, value_kind};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do with arrays of one name whose shapes differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shapes {
    /// All samples have one shape, and batches are dense; another shape is a bad input.
    #[default]
    Equal,
    /// Each sample has a shape of its own.
    Ragged,
}

/// How columns of one name that differ become one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joining {
    pub(crate) shapes: Shapes,
    /// The element types that the recipe asks for: types that differ become these.
    pub(crate) casts: Casts,
    /// The columns with arrays of any shape, and with lists, of the dataset that the samples are added to, by name.
    pub(crate) ragged: BTreeMap<String, Field>,
}

impl Joining {
    /// A column of arrays of one shape, or of one value, as arrays of any shape or lists where those of the dataset are.
    fn widened<'f>(&self, field: &'f Field) -> Cow<'f, Field> {
        let other = self.ragged.get(field.name()).filter(|known| !same_type(field, known));
        let joined = other.and_then(|known| join(field, known, Shapes::Ragged));
        let Some(joined) = joined else { return Cow::Borrowed(field) };
        let notes = [PACKED, LOGICAL].into_iter().filter_map(|name| Some((name, field.metadata().get(name)?)));
        let joined = notes.fold(joined, |joined, (name, note)| with_metadata(joined, name, note));
        Cow::Owned(joined.with_nullable(field.is_nullable()))
    }

    /// A column that holds the values of both; `None` if they don't fit together.
    fn join(&self, a: &Field, b: &Field) -> Option<Field> {
        let joined = join(a, b, self.shapes).or_else(|| {
            self.casts
                .get(a.name())
                .filter(|_| same_kind(a, b) || numpy_type(a).is_none() || numpy_type(b).is_none())?;
            let (a, b) = (self.casts.field(a).ok()?, self.casts.field(b).ok()?);
            let joined = join(&a, &b, self.shapes)?;
            // The same ticks may be those of times with a zone and without one.
            match (a.metadata().get(LOGICAL), b.metadata().get(LOGICAL)) {
                (None, None) => Some(joined),
                (Some(here), Some(there)) if here == there => Some(with_metadata(joined, LOGICAL, here)),
                _ => None,
            }
        })?;
        // Units and scales are equal in both.
        Some(match a.metadata().get(PACKED) {
            Some(notes) => with_metadata(joined, PACKED, notes),
            None => joined,
        })
    }
}

/// The columns of a schema that have arrays of any shape, or lists.
pub(crate) fn ragged(schema: &SchemaRef) -> BTreeMap<String, Field> {
    let is_ragged =
        |field: &&Arc<Field>| matches!(FieldType::of(field), Ok(FieldType::Ragged { .. } | FieldType::List { .. }));
    schema.fields().iter().filter(is_ragged).map(|field| (field.name().clone(), field.as_ref().clone())).collect()
}

/// The columns of the inputs added so far, by name.
#[derive(Debug, Default)]
pub(crate) struct MergedColumns {
    columns: BTreeMap<String, Column>,
}

#[derive(Debug)]
struct Column {
    field: Field,
    /// Samples that have it.
    count: u64,
    /// The input that had it first, for errors.
    first: PathBuf,
    /// The first feature of another library that has names of classes, and its input.
    classes: Option<(String, PathBuf)>,
}

impl MergedColumns {
    /// Merges the fields of `samples` samples of the input `path`; on an error nothing is merged.
    ///
    /// Errors: `Content` for types that can't be merged, naming both types and the input with the other. Pass a
    /// relative `path` if the error may be stored in a plan.
    pub(crate) fn add<'f>(
        &mut self,
        fields: impl Iterator<Item = &'f Field>,
        samples: u64,
        path: &Path,
        joining: &Joining,
    ) -> Result<()> {
        let mut merged = Vec::new();
        for field in fields {
            let (feature, field) = (field.metadata().get(HUGGINGFACE), &*joining.widened(field));
            if let Some(known) = self.columns.get(field.name())
                && !joining.casts.drops(field.name())
            {
                other_classes(known, field.name(), feature)?;
            }
            let field = match self.columns.get(field.name()) {
                None => field.clone(),
                Some(known) if joining.casts.drops(field.name()) && !alike(&known.field, field) => dropped(field),
                Some(known) if is_untyped(field) != is_untyped(&known.field) && are_lists(&known.field, field) => {
                    let typed = if is_untyped(field) { &known.field } else { field };
                    typed.clone().with_nullable(known.field.is_nullable() || field.is_nullable())
                }
                Some(known) if known.field.metadata().get(PACKED) != field.metadata().get(PACKED) => {
                    return Err(packed(known, field));
                }
                Some(known) if same_type(&known.field, field) && same_numpy(&known.field, field) => {
                    let joined = known.field.clone().with_nullable(known.field.is_nullable() || field.is_nullable());
                    if let Some(error) = other_times(known, field) {
                        return Err(error);
                    }
                    // Numbers that stand for names in one input alone have none.
                    match feature_of_both(&known.field, field) {
                        Some(feature) => with_metadata(joined, HUGGINGFACE, feature),
                        None => without(joined, HUGGINGFACE),
                    }
                }
                Some(known) => joining.join(&known.field, field).ok_or_else(|| differ(known, field))?,
            };
            merged.push((field, feature));
        }
        for (field, feature) in merged {
            let new = || Column { field: field.clone(), count: 0, first: path.to_owned(), classes: None };
            let column = self.columns.entry(field.name().clone()).or_insert_with(new);
            column.count += samples;
            column.field = field;
            let known = column.classes.as_ref().map(|(known, _)| known);
            if feature != known
                && class_names(feature).map(|names| names.len()) > class_names(known).map(|names| names.len())
            {
                column.classes = feature.map(|feature| (feature.clone(), path.to_owned()));
            }
        }
        Ok(())
    }

    /// Notes of the columns of text that `is_json` names that each value is JSON.
    pub(crate) fn note_json(&mut self, is_json: impl Fn(&str) -> bool) {
        for (name, column) in &mut self.columns {
            if *column.field.data_type() == DataType::Utf8View && is_json(name) {
                column.field = with_metadata(column.field.clone(), LOGICAL, "json");
            }
        }
    }

    /// Columns whose numbers stand for names in some inputs alone, so that the names are lost, with the first such input.
    pub(crate) fn lost_classes(&self) -> impl Iterator<Item = (&str, &Path)> {
        let columns = self.columns.iter().filter(|(_, column)| !column.field.metadata().contains_key(HUGGINGFACE));
        columns.filter_map(|(name, column)| Some((name.as_str(), column.classes.as_ref()?.1.as_path())))
    }

    /// The columns by name; those that some of `samples` samples lack are nullable.
    pub(crate) fn fields(&self, samples: u64) -> impl Iterator<Item = Field> {
        self.columns
            .values()
            .map(move |column| column.field.clone().with_nullable(column.field.is_nullable() || column.count < samples))
            .map(|field| if field.metadata().contains_key(UNTYPED) { without(field, UNTYPED) } else { field })
    }
}

/// Whether a field has lists that are all empty, of a type that nothing tells.
pub(crate) fn is_untyped(field: &Field) -> bool {
    field.metadata().get(UNTYPED).is_some_and(|what| what == "lists")
}

/// A column for the values of both, where the type of one is only what its values looked like: single values are lists of one where the
/// other has lists, and lists of text are lists of bytes where the other has those.
fn join_seen(a: &Field, b: &Field) -> Option<Field> {
    let looked = |field: &Field| field.metadata().get(UNTYPED).filter(|what| *what != "lists").cloned();
    let (seen, other, what) = match (looked(a), looked(b)) {
        (Some(what), None) => (a, b, what),
        (None, Some(what)) => (b, a, what),
        (Some(what), Some(_)) if what == "one" => (a, b, what),
        (Some(_), Some(what)) => (b, a, what),
        (None, None) => return None,
    };
    let (held, kind) = (FieldType::of(seen).ok()?, FieldType::of(other).ok()?);
    let blobs = || FieldType::List { element: DataType::BinaryView, depth: 1 };
    let joined = match (what.as_str(), &held, &kind) {
        ("text", _, kind) if *kind == blobs() => blobs(),
        ("one", FieldType::Blob, FieldType::List { element: DataType::Utf8View, depth: 1 }) => kind,
        ("one", FieldType::Blob, kind) if *kind == blobs() => blobs(),
        ("one", FieldType::Scalar(element), FieldType::List { element: listed, depth: 1 }) if element == listed => kind,
        ("one", FieldType::Scalar(element), FieldType::Tensor { element: listed, shape })
            if element == listed && shape.len() == 1 =>
        {
            FieldType::List { element: element.clone(), depth: 1 }
        }
        _ => return None,
    };
    let field = joined.field(a.name(), a.is_nullable() || b.is_nullable());
    // Lists of text may still turn out to be of bytes.
    let is_text = joined.element() == Some(&DataType::Utf8View);
    Some(
        looked(other)
            .filter(|what| is_text && what == "text")
            .map_or(field.clone(), |what| with_metadata(field, UNTYPED, &what)),
    )
}

fn are_lists(a: &Field, b: &Field) -> bool {
    [a, b].into_iter().all(|field| matches!(FieldType::of(field), Ok(FieldType::List { .. })))
}

fn without(field: Field, name: &str) -> Field {
    let kept = field.metadata().iter().filter(|(known, _)| *known != name);
    let kept: BTreeMap<String, String> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    field.with_metadata(kept)
}

/// Whether two columns have one type. Their Arrow types do not tell: tensors of 2×3 and of 6 values have the same.
pub(crate) fn same_type(a: &Field, b: &Field) -> bool {
    a.data_type() == b.data_type() && FieldType::of(a).ok() == FieldType::of(b).ok()
}

/// Whether two columns have one type and say the same of their values.
fn alike(a: &Field, b: &Field) -> bool {
    same_type(a, b) && a.metadata() == b.metadata()
}

/// A column of a type that is not read, since its fields differ and are dropped: all of it is null.
fn dropped(field: &Field) -> Field {
    FieldType::Blob.field(field.name(), true)
}

/// Whether a field may be one that [`dropped`] made.
pub(crate) fn is_dropped(field: &Field) -> bool {
    field.is_nullable() && *field == dropped(field)
}

fn same_numpy(a: &Field, b: &Field) -> bool {
    numpy_type(a) == numpy_type(b)
}

/// A column that holds the values of both; `None` if they don't fit together.
fn join(a: &Field, b: &Field, shapes: Shapes) -> Option<Field> {
    let nullable = a.is_nullable() || b.is_nullable();
    if let Some(joined) = join_seen(a, b) {
        return Some(joined);
    }
    let (one, other) = (FieldType::of(a).ok()?, FieldType::of(b).ok()?);
    // The width of NumPy text does not matter.
    let text = one.element() == Some(&DataType::Utf8View) || one == FieldType::Text;
    if !text && !same_numpy(a, b) || one.element() != other.element() {
        return None;
    }
    let joined = match (&one, &other) {
        _ if one == other => one,
        // Lists whose type says their length, and lists whose type does not.
        (FieldType::List { depth: 1, .. }, FieldType::Tensor { shape, .. }) if shape.len() == 1 => one,
        (FieldType::Tensor { shape, .. }, FieldType::List { depth: 1, .. }) if shape.len() == 1 => other,
        _ if shapes == Shapes::Equal => return None,
        (FieldType::List { depth: 1, .. }, FieldType::Ragged { rank: 1, .. }) => one,
        (FieldType::Ragged { rank: 1, .. }, FieldType::List { depth: 1, .. }) => other,
        _ => {
            let (rank, element) = (rank(&one)?, one.element()?.clone());
            (rank == self::rank(&other)?).then_some(FieldType::Ragged { element, rank })?
        }
    };
    let field = joined.field(a.name(), nullable);
    let numpy = [numpy_type(a), numpy_type(b)].into_iter().flatten().max_by_key(|name| (name.len(), *name));
    Some(numpy.map_or(field.clone(), |name| with_metadata(field, NUMPY, name)))
}

fn rank(kind: &FieldType) -> Option<usize> {
    match kind {
        FieldType::Tensor { shape, .. } => Some(shape.len()),
        FieldType::Ragged { rank, .. } => Some(*rank),
        _ => None,
    }
}

/// How many lists are inside each other; 0 where there are none.
fn depth(kind: &FieldType) -> usize {
    if let FieldType::List { depth, .. } = kind { *depth } else { 0 }
}

fn differ(known: &Column, field: &Field) -> Error {
    let types = FieldType::of(&known.field).ok().zip(FieldType::of(field).ok());
    let hint = types.and_then(|(a, b)| match a.element() == b.element() {
        true => (rank(&a).is_some() && rank(&a) == rank(&b))
            .then(|| "pass `ragged` to keep a shape for each sample".to_owned()),
        false => common(a.element()?, b.element()?)
            .filter(|_| (rank(&a), depth(&a)) == (rank(&b), depth(&b)))
            .map(|to| format!("pass `cast={}={to}` to make them one type", field.name())),
    });
    let (name, first) = (field.name(), known.first.display());
    let cast = |to: String| format!("pass `cast={name}={to}` to make them one type");
    let hint = common_time(&known.field, field).map(cast).or(hint);
    // Types of such tables are inferred from their values.
    let is_inferred = [".csv", ".tsv", ".jsonl", ".ndjson"];
    let is_inferred = is_inferred.iter().any(|end| known.first.to_string_lossy().contains(end));
    let types = "text, int64, float64, bool; of JSON lines also list<int64> and the like, or json";
    let schema = || format!("`schema={name}:TYPE` sets one type for all files: {types}");
    let hint = hint.or_else(|| match is_inferred {
        true => Some(schema()),
        false => as_text(&known.field, field).map(cast),
    });
    // Of records the first ones tell whether a feature has one value or several.
    let is_records = known.first.to_string_lossy().contains(".tfrec");
    let hint = hint
        .or_else(|| is_records.then(|| "a features.json beside the files describes the features of all".to_owned()));
    let is_array = known.first.extension().is_some_and(|extension| extension == "npy");
    let hint = hint.or_else(|| {
        is_array
            .then(|| "with `rows`, arrays whose rows belong together go into one .npz file (`numpy.savez`)".to_owned())
    });
    let message = format!("field {name} is {} here and {} in {first}", shown(field), shown(&known.field));
    let error = Error::content(message).with_code(Code::ColumnsDiffer).in_field(name);
    hint.into_iter().fold(error, Error::hint)
}

/// `text`, where one of both is text and the other numbers, or both are NumPy's bytes.
fn as_text(a: &Field, b: &Field) -> Option<String> {
    let is_number = |field: &Field| match FieldType::of(field).ok()? {
        FieldType::Text => Some(false),
        FieldType::Scalar(element) => Some(element.is_numeric() || element == DataType::Boolean),
        kind => matches!(kind.element(), Some(DataType::FixedSizeBinary(_))).then_some(false),
    };
    let is_texts = |field: &Field| numpy_type(field).is_none_or(|name| name.starts_with("|S"));
    let numbers = is_number(a)? && is_number(b)?;
    (!numbers && is_texts(a) && is_texts(b)).then(|| "text".to_owned())
}

/// A type, as the setting `cast` calls it, for the numbers of both.
fn common(a: &DataType, b: &DataType) -> Option<String> {
    // Booleans are the smallest numbers.
    let number = |kind: &DataType| if *kind == DataType::Boolean { DataType::UInt8 } else { kind.clone() };
    let (a, b) = (number(a), number(b));
    // Few integers of 64 bits without a sign are too large for one with it.
    let signed = || (a.is_integer() && b.is_integer()).then_some(DataType::Int64);
    let (kind, size) = number_kind(&common_number(&a, &b).or_else(signed)?)?;
    Some(format!("{kind}{}", 8 * size))
}

/// The error of two columns of times that are not of one kind, or of which one alone tells its time zone: without one, nothing says
/// which moment a time is.
fn other_times(known: &Column, field: &Field) -> Option<Error> {
    let (here, there) = (value_kind(field), value_kind(&known.field));
    if !same_kind(&known.field, field) {
        let (name, first) = (field.name(), known.first.display());
        let error = Error::content(format!("field {name} has {here} here and {there} in {first}"));
        let hint = match [here, there].contains(&JSON) {
            true => format!(
                "`schema={name}:json` takes the values of all JSON lines as JSON, `from=parquet` with `read=json={name}` those of tables"
            ),
            false => "pack the inputs apart".to_owned(),
        };
        return Some(error.with_code(Code::ColumnsDiffer).in_field(name).hint(hint));
    }
    let (message, first) = (format!("field {} has times", field.name()), known.first.display());
    let message = match (time_zone(field), time_zone(&known.field)) {
        (Some(zone), None) => format!("{message} of the zone {zone} here and without a zone in {first}"),
        (None, Some(zone)) => format!("{message} without a zone here and of the zone {zone} in {first}"),
        _ => return None,
    };
    let error = Error::content(message).with_code(Code::ColumnsDiffer).in_field(field.name());
    Some(error.hint("give all of them a zone, or pack the inputs apart"))
}

/// What both columns say that they are, beyond their types; of lists of classes the longer one.
fn feature_of_both<'f>(one: &'f Field, other: &'f Field) -> Option<&'f String> {
    let (one, other) = (one.metadata().get(HUGGINGFACE), other.metadata().get(HUGGINGFACE));
    // Lists may be long, and are mostly the same.
    if one == other {
        return one;
    }
    let (a, b) = (class_names(one)?, class_names(other)?);
    if a.len() > b.len() { one } else { other }
}

/// Errors: `Config` for numbers of a column that stand for other names of classes here.
fn other_classes(known: &Column, name: &str, feature: Option<&String>) -> Result<()> {
    let Some((first, path)) = known.classes.as_ref().filter(|(first, _)| feature != Some(first)) else { return Ok(()) };
    let (Some(there), Some(here)) = (class_names(Some(first)), class_names(feature)) else { return Ok(()) };
    let shown = |names: &[String]| match names {
        [first, second, third, _, ..] => format!("{first}, {second}, {third}, …"),
        names => names.join(", "),
    };
    // A list that goes on gives the numbers of the other one the same names.
    if there.starts_with(&here) || here.starts_with(&there) {
        return Ok(());
    }
    let (here, there, path) = (shown(&here), shown(&there), path.display());
    let message = format!(
        "field {name} has the classes {here} here and {there} in {path}: one number would name two classes; pack the inputs apart, or `drop` the field"
    );
    Err(Error::config(message).with_code(Code::ColumnsDiffer).in_field(name))
}

/// The error of columns whose equal numbers stand for different values.
fn packed(known: &Column, field: &Field) -> Error {
    let notes = |field: &Field| field.metadata().get(PACKED).map_or("none", String::as_str).to_owned();
    let (here, there, name) = (notes(field), notes(&known.field), field.name());
    let message =
        format!("field {name} has units, scale or fill values {here} here and {there} in {}", known.first.display());
    // Units stay where values are unpacked.
    let units = |notes: &str| serde_json::from_str::<Value>(notes).unwrap_or_default().get("units").cloned();
    let is_time = |notes: &str| units(notes).and_then(|units| Some(units.as_str()?.contains(" since "))) == Some(true);
    let error = match (units(&here) == units(&there), is_time(&here) && is_time(&there)) {
        (true, _) => Error::content(message).hint("NetCDF: unpack it with `from=hdf5` `read=scale=apply`"),
        (false, true) => {
            Error::content(message).hint("NetCDF: make times of both with `from=hdf5` `read=times=decode`")
        }
        (false, false) => Error::content(message),
    };
    error.hint(format!("`drop={name}` leaves it out"))
}

/// The type, as messages show it.
pub(crate) fn shown(field: &Field) -> String {
    let kind = FieldType::of(field).map_or_else(|_| field.data_type().to_string(), |kind| kind.to_string());
    match numpy_type(field) {
        Some(numpy) => format!("{kind} ({numpy})"),
        None => kind,
    }
}

#[cfg(test)]
mod tests;
