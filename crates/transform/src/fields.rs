//! Fields as such: leaving some out, other names, other types of numbers, dense arrays.
//!
//! Order: fields are chosen and dropped by their names in the inputs, then cast, then stacked, then
//! renamed; `--cast` and `--stack` use the names in the inputs too.

mod cast;
mod stack;

use crate::Transform;
use packhorse_core::{DataType, ENCODING, Error, Field, KEY, Result, Rows, Schema, SchemaRef, with_metadata};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Raised whenever rows come out otherwise.
const REVISION: u32 = 1;

/// What to do with fields, by their names in the inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldsOptions {
    /// Take only these; empty means all.
    pub only: Vec<String>,
    /// Leave these out.
    pub drop: Vec<String>,
    /// New names.
    pub rename: BTreeMap<String, String>,
    /// The types that elements become: `f16`, `f32`, `f64`, `i8` … `u64`, `bool`, `text`.
    pub cast: BTreeMap<String, String>,
    /// The shapes of fields that become dense, such as `3x4`.
    pub stack: BTreeMap<String, String>,
}

/// Chooses, casts, stacks and renames fields.
pub struct Fields {
    options: FieldsOptions,
    casts: BTreeMap<String, DataType>,
    shapes: BTreeMap<String, Vec<usize>>,
}

impl Fields {
    /// A `Config` error for a type or a shape that is none.
    pub fn new(options: FieldsOptions) -> Result<Self> {
        let casts = options.cast.iter().map(|(name, to)| Ok((name.clone(), cast::element(name, to)?)));
        let shapes = options.stack.iter().map(|(name, shape)| Ok((name.clone(), stack::shape(name, shape)?)));
        Ok(Self { casts: casts.collect::<Result<_>>()?, shapes: shapes.collect::<Result<_>>()?, options })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.options == FieldsOptions::default()
    }

    /// The transform that [`Transform::describe`] gave these words for, or `None`.
    pub(crate) fn from_words<'w>(words: impl Iterator<Item = &'w str>) -> Option<Self> {
        let mut options = FieldsOptions::default();
        for word in words {
            let (what, text) = word.split_once('=')?;
            let parts: Vec<String> = serde_json::from_str(text).ok()?;
            match (what, &parts[..]) {
                ("only", [name]) => options.only.push(name.clone()),
                ("drop", [name]) => options.drop.push(name.clone()),
                ("field", [from, to]) => drop(options.rename.insert(from.clone(), to.clone())),
                ("cast", [name, to]) => drop(options.cast.insert(name.clone(), to.clone())),
                ("stack", [name, shape]) => drop(options.stack.insert(name.clone(), shape.clone())),
                _ => return None,
            }
        }
        Self::new(options).ok()
    }

    fn takes(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|n| n == name);
        name == KEY || (self.options.only.is_empty() || named(&self.options.only)) && !named(&self.options.drop)
    }

    /// What a field of the inputs becomes.
    fn field(&self, field: &Field) -> Result<Field> {
        let mut field = field.clone();
        if let Some(to) = self.casts.get(field.name()) {
            field = cast::field(&field, to)?;
        }
        if let Some(shape) = self.shapes.get(field.name()) {
            field = stack::field(&field, shape)?;
        }
        match self.options.rename.get(field.name()) {
            None => Ok(field),
            Some(name) => Ok(encoding(field).with_name(name)),
        }
    }

    /// Every name that the user gave must be that of a field, or a slip of the pen goes unseen.
    fn known(&self, input: &SchemaRef) -> Result<()> {
        let options = &self.options;
        let given = options.only.iter().chain(&options.drop).chain(options.rename.keys());
        let mut given = given.chain(options.cast.keys()).chain(options.stack.keys());
        match given.find(|name| input.column_with_name(name).is_none() || *name == KEY) {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&str> =
                    input.fields().iter().map(|f| f.name().as_str()).filter(|name| *name != KEY).collect();
                Err(Error::config(format!("no field is called {name}; there are: {}", known.join(", "))))
            }
        }
    }
}

impl Transform for Fields {
    fn describe(&self) -> String {
        let options = &self.options;
        let one = |what: &str, name: &String| format!(" {what}={}", words(&[name]));
        let two = |what: &str, pair: (&String, &String)| format!(" {what}={}", words(&[pair.0, pair.1]));
        let mut text = format!("fields/{REVISION}");
        text.extend(options.only.iter().map(|name| one("only", name)));
        text.extend(options.drop.iter().map(|name| one("drop", name)));
        text.extend(options.cast.iter().map(|pair| two("cast", pair)));
        text.extend(options.stack.iter().map(|pair| two("stack", pair)));
        text.extend(options.rename.iter().map(|pair| two("field", pair)));
        text
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        self.known(input)?;
        let kept = input.fields().iter().filter(|f| self.takes(f.name()));
        let mut fields = kept.map(|f| self.field(f)).collect::<Result<Vec<_>>>()?;
        fields.sort_by_key(order);
        match fields.windows(2).find_map(|pair| (pair.first()?.name() == pair.last()?.name()).then(|| pair.first())) {
            Some(twice) => Err(Error::config(format!("two fields would be called {}", twice.map_or("", |f| f.name())))),
            None => Ok(Arc::new(Schema::new(fields))),
        }
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let mut columns = Vec::with_capacity(rows.num_columns());
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            if !self.takes(field.name()) {
                continue;
            }
            let mut array = column.clone();
            let mut from = field.as_ref().clone();
            if let Some(to) = self.casts.get(field.name()) {
                array = cast::apply(&rows, field, &array, to)?;
                from = cast::field(&from, to)?;
            }
            if let Some(shape) = self.shapes.get(field.name()) {
                array = stack::apply(&rows, &from, &array, shape)?;
            }
            // A blob that no view can address has its own type.
            let renamed = self.field(field)?;
            let data_type = array.data_type().clone();
            columns.push((renamed.with_data_type(data_type), array));
        }
        columns.sort_by_key(|(field, _)| order(field));
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Rows::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| Error::bug(e.to_string()))
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

/// What the old name said of the bytes must be said otherwise under a new one.
fn encoding(field: Field) -> Field {
    let extension = field.name().rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let kind = match extension.as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        _ => return field,
    };
    match packhorse_core::is_blob(field.data_type()) && !field.metadata().contains_key(ENCODING) {
        true => with_metadata(field, ENCODING, kind),
        false => field,
    }
}

fn order(field: &Field) -> (bool, String) {
    (field.name() != KEY, field.name().clone())
}

/// Names as JSON without a space, since a description is split at spaces.
fn words(words: &[&String]) -> String {
    serde_json::to_string(words).unwrap_or_default().replace(' ', "\\u0020")
}

/// The error of sample `row`.
fn of_row(rows: &Rows, row: usize, message: String) -> Error {
    let error = Error::content(message);
    match packhorse_core::key_column(rows) {
        Ok(keys) if row < rows.num_rows() => error.in_sample(keys.value(row)),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float16Type, Int64Type};
    use arrow_array::{ArrayRef, BinaryViewArray, Float64Array, StringViewArray};
    use packhorse_core::FieldType;

    fn rows() -> Rows {
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a", "b"]));
        let cls: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([&b"3"[..], b" -12\n"]));
        let x: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 1e300]));
        let fields = vec![
            FieldType::Text.field(KEY, false),
            FieldType::Blob.field("cls", false),
            FieldType::Scalar(DataType::Float64).field("x y", false),
        ];
        Rows::try_new(Arc::new(Schema::new(fields)), vec![keys, cls, x]).unwrap()
    }

    fn pair(a: &str, b: &str) -> BTreeMap<String, String> {
        [(a.to_owned(), b.to_owned())].into()
    }

    #[test]
    fn names_and_types_change() {
        let options = FieldsOptions {
            rename: pair("x y", "a"),
            cast: [("cls".to_owned(), "i64".to_owned()), ("x y".to_owned(), "f16".to_owned())].into(),
            ..FieldsOptions::default()
        };
        let fields = Fields::new(options).unwrap();
        let found = fields.apply(rows()).unwrap();
        assert_eq!(found.schema(), fields.schema(&rows().schema()).unwrap());
        assert_eq!(found.column_by_name("cls").unwrap().as_primitive::<Int64Type>().values(), &[3, -12]);
        let x = found.column_by_name("a").unwrap().as_primitive::<Float16Type>();
        assert_eq!((x.value(0).to_f32(), x.value(1).to_f32()), (1.5, f32::INFINITY));
        let again = Fields::from_words(fields.describe().split(' ').skip(1)).unwrap();
        assert_eq!(again.describe(), fields.describe());
    }

    #[test]
    fn a_name_that_is_no_field_is_a_slip() {
        let options = FieldsOptions { drop: vec!["y".to_owned()], ..FieldsOptions::default() };
        let error = Fields::new(options).unwrap().schema(&rows().schema()).unwrap_err();
        assert!(error.to_string().contains("cls, x y"), "{error}");
    }

    #[test]
    fn what_is_no_number_names_the_sample() {
        let options = FieldsOptions { cast: pair("cls", "u8"), ..FieldsOptions::default() };
        let error = Fields::new(options).unwrap().apply(rows()).unwrap_err();
        assert_eq!(error.sample(), Some("b"), "{error}");
        let only = FieldsOptions { only: vec!["x y".to_owned()], ..FieldsOptions::default() };
        assert_eq!(Fields::new(only).unwrap().apply(rows()).unwrap().num_columns(), 2);
    }
}
