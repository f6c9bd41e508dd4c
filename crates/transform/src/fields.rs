//! Field transforms: select, drop, cast, stack, rename, spread.
//!
//! Order: select and drop, then cast, then stack, then rename, then spread. All settings use the names of the inputs. Fields of bytes, or of text, that
//! get the same name become one, of which each sample has one value at most.

mod one_name;
mod spread;
mod stack;

pub(crate) use one_name::{rows as rows_of_one_name, schema as schema_of_one_name};

use crate::Transform;
use crate::casts::Casts;
use packhorse_core::{Code, ENCODING, Error, Field, KEY, Result, Rows, SchemaRef, nearest, some_of, with_metadata};
use std::collections::BTreeMap;

/// Incremented whenever the output rows change.
const REVISION: u32 = 1;

/// What to do with fields; keys are field names of the inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldsOptions {
    /// Keep only these; empty keeps all.
    pub only: Vec<String>,
    /// Drop these.
    pub drop: Vec<String>,
    /// Old name to new name.
    pub rename: BTreeMap<String, String>,
    /// Element types: `f16`, `f32`, `f64`, `i8` … `u64`, `bool`, `text`.
    pub cast: BTreeMap<String, String>,
    /// Shapes of ragged fields that become dense, such as `3x4`.
    pub stack: BTreeMap<String, String>,
    /// How many fields lists become, such as `4`: `x.0` to `x.3`.
    pub spread: BTreeMap<String, String>,
}

/// Selects, casts, stacks and renames fields.
pub struct Fields {
    options: FieldsOptions,
    casts: Casts,
    shapes: BTreeMap<String, Vec<usize>>,
    counts: BTreeMap<String, usize>,
    /// Whether it comes from a plan, of whose inputs the names were those of fields: others may lack those that are dropped.
    planned: bool,
}

impl Fields {
    /// A `Config` error for an unknown type, shape or number of fields.
    pub fn new(options: FieldsOptions) -> Result<Self> {
        let shapes = options.stack.iter().map(|(name, shape)| Ok((name.clone(), stack::shape(name, shape)?)));
        let counts = options.spread.iter().map(|(name, count)| Ok((name.clone(), spread::count(name, count)?)));
        let counts = counts.collect::<Result<_>>()?;
        let casts = Casts::new(&options.cast)?.dropping(&options.only, &options.drop);
        Ok(Self { casts, shapes: shapes.collect::<Result<_>>()?, counts, options, planned: false })
    }

    /// Whether this changes nothing.
    pub fn is_empty(&self) -> bool {
        self.options == FieldsOptions::default()
    }

    /// Parses the words of a description; `None` if they are invalid.
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
                ("spread", [name, count]) => drop(options.spread.insert(name.clone(), count.clone())),
                _ => return None,
            }
        }
        Self::new(options).ok().map(|fields| Self { planned: true, ..fields })
    }

    fn takes(&self, name: &str) -> bool {
        !self.casts.drops(name)
    }

    /// The output field for an input field, before it is spread.
    fn field(&self, field: &Field) -> Result<Field> {
        let mut field = self.casts.field(field)?;
        if let Some(shape) = self.shapes.get(field.name()) {
            field = stack::field(&field, shape)?;
        }
        match self.options.rename.get(field.name()) {
            None => Ok(field),
            Some(name) => Ok(encoding(field).with_name(name)),
        }
    }

    /// Refuses names that match no field: they are typing errors.
    fn known(&self, input: &SchemaRef) -> Result<()> {
        let options = &self.options;
        let dropped = options.drop.iter().filter(|_| !self.planned);
        let given = options.only.iter().chain(dropped).chain(options.rename.keys());
        let mut given = given.chain(options.cast.keys()).chain(options.stack.keys()).chain(options.spread.keys());
        // Of several that get one name, such as `jpg` and `png`, one is enough.
        let is_there = |name: &String| input.column_with_name(name).is_some();
        let has_twin = |name: &String| {
            let to = options.rename.get(name);
            to.is_some() && options.rename.iter().any(|(from, other)| to == Some(other) && is_there(from))
        };
        match given.find(|name| !is_there(name) && !has_twin(name) || *name == KEY) {
            None => Ok(()),
            Some(name) if name == KEY => {
                Err(Error::config(format!("{KEY} holds the keys, which are not a field")).hint(KEYS_OF))
            }
            Some(name) => {
                let known: Vec<&str> =
                    input.fields().iter().map(|f| f.name().as_str()).filter(|name| *name != KEY).collect();
                let of_struct = format!("{}.", name.trim_end_matches(".*"));
                let parts: Vec<&str> = known.iter().filter(|known| known.starts_with(&of_struct)).copied().collect();
                let error = Error::config(format!("no field is called {name}")).with_code(Code::NoSuchField);
                if let Some(to) = options.rename.get(name).filter(|to| known.contains(&to.as_str())) {
                    return Err(error.hint(format!("the name that the field has comes first: `field={to}={name}`")));
                }
                Err(error.hint(match (parts.is_empty(), nearest(name, known.iter().copied())) {
                    (false, _) => format!("its parts are fields, each with its own name: {}", some_of(&parts)),
                    (true, Some(near)) => format!("did you mean {near}? There are: {}", some_of(&known)),
                    (true, None) => format!("there are: {}", some_of(&known)),
                }))
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
        text.extend(options.spread.iter().map(|pair| two("spread", pair)));
        text.extend(options.rename.iter().map(|pair| two("field", pair)));
        text
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        self.known(input)?;
        // Of a field that keeps its name the encoding is that of the name.
        let kept_name = |to: &&String| input.column_with_name(to).is_some() && self.takes(to);
        if let Some(to) =
            self.options.rename.values().filter(kept_name).find(|to| !self.options.rename.contains_key(*to))
        {
            let error = Error::config(format!("two fields would be called {to}"));
            return Err(error.hint(match to.as_str() {
                KEY => KEYS_OF,
                _ => "give both a new name to make them one",
            }));
        }
        let mut made = Vec::with_capacity(input.fields().len());
        for field in input.fields().iter().filter(|f| self.takes(f.name())) {
            let renamed = self.field(field)?;
            match self.counts.get(field.name()) {
                Some(count) => made.extend(spread::fields(&renamed, *count)?),
                None => made.push(renamed),
            }
        }
        one_name::schema(made)
    }

    fn name_of(&self, field: &str) -> Option<String> {
        self.takes(field).then(|| self.options.rename.get(field).map_or(field, String::as_str).to_owned())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let mut columns = Vec::with_capacity(rows.num_columns());
        for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
            if !self.takes(field.name()) {
                continue;
            }
            let mut array = self.casts.column(&rows, field, column)?;
            if let Some(shape) = self.shapes.get(field.name()) {
                array = stack::apply(&rows, &self.casts.field(field)?, &array, shape)?;
            }
            // A column with a blob over 2 GiB is LargeBinary, whatever the schema says.
            let renamed = self.field(field)?;
            if let Some(count) = self.counts.get(field.name()) {
                let spread = spread::columns(&rows, field.name(), &array, *count)?;
                columns.extend(spread::fields(&renamed, *count)?.into_iter().zip(spread));
                continue;
            }
            let data_type = array.data_type().clone();
            columns.push((renamed.with_data_type(data_type), array));
        }
        one_name::rows(&rows, columns)
            .map_err(|error| error.hint("give one of two such fields another name, or leave one out with `drop`"))
    }

    fn casts(&self) -> Option<&Casts> {
        Some(&self.casts)
    }
}

/// How keys are chosen.
const KEYS_OF: &str = "`id-field` takes the keys of a table from one of its columns";

/// The encoding of the pictures in a field of this name, as its extension tells.
pub fn picture_encoding(name: &str) -> Option<&'static str> {
    let extension = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    Some(match extension.as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        _ => return None,
    })
}

/// Keeps the image encoding that the old name implied, as metadata.
fn encoding(field: Field) -> Field {
    let kept = packhorse_core::is_blob(field.data_type()) && !field.metadata().contains_key(ENCODING);
    match picture_encoding(field.name()).filter(|_| kept) {
        Some(kind) => with_metadata(field, ENCODING, kind),
        None => field,
    }
}

/// JSON without spaces: descriptions are split at spaces.
fn words(words: &[&String]) -> String {
    serde_json::to_string(words).unwrap_or_default().replace(' ', "\\u0020")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float16Type, Int64Type};
    use arrow_array::{ArrayRef, BinaryViewArray, Float64Array, StringViewArray};
    use packhorse_core::{DataType, FieldType, Schema};
    use std::sync::Arc;

    fn rows() -> Rows {
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a", "b"]));
        let cls: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([&b"3"[..], b" -12\n"]));
        let x: ArrayRef = Arc::new(Float64Array::from(vec![1.5, f64::INFINITY]));
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
    fn fields_of_one_name_become_one() {
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a", "b", "c"]));
        let blobs = |values: [Option<&[u8]>; 3]| -> ArrayRef { Arc::new(BinaryViewArray::from_iter(values)) };
        let rows = |jpg, png| {
            let schema = ["jpg", "png"].map(|name| FieldType::Blob.field(name, true));
            let fields = std::iter::once(FieldType::Text.field(KEY, false)).chain(schema).collect::<Vec<_>>();
            Rows::try_new(Arc::new(Schema::new(fields)), vec![keys.clone(), blobs(jpg), blobs(png)]).unwrap()
        };
        let rename = ["jpg", "png"].map(|name| (name.to_owned(), "image".to_owned())).into();
        let fields = Fields::new(FieldsOptions { rename, ..FieldsOptions::default() }).unwrap();
        let apart = rows([Some(b"x"), None, None], [None, Some(b"y"), None]);
        let found = fields.apply(apart.clone()).unwrap();
        assert_eq!(found.schema(), fields.schema(&apart.schema()).unwrap());
        assert!(found.schema().field(1).is_nullable() && found.schema().field(1).metadata().is_empty());
        let image: Vec<_> = found.column_by_name("image").unwrap().as_binary_view().iter().collect();
        assert_eq!(image, [Some(&b"x"[..]), Some(b"y"), None]);
        let error = fields.apply(rows([Some(b"x"), Some(b"x"), None], [None, Some(b"y"), None])).unwrap_err();
        assert!(error.to_string().contains("sample b") && error.message().contains("two fields"), "{error}");
        // A field that has the name already, and the key.
        for (from, to) in [("png", "jpg"), ("jpg", KEY)] {
            let fields = Fields::new(FieldsOptions { rename: pair(from, to), ..FieldsOptions::default() }).unwrap();
            assert!(fields.schema(&apart.schema()).unwrap_err().message().contains("two fields"), "{from} as {to}");
        }
    }

    #[test]
    fn an_unknown_field_name_is_refused() {
        let options = FieldsOptions { drop: vec!["y".to_owned()], ..FieldsOptions::default() };
        let error = Fields::new(options).unwrap().schema(&rows().schema()).unwrap_err();
        assert!(error.to_string().contains("cls, x y"), "{error}");
    }

    #[test]
    fn a_cast_error_names_the_sample() {
        let options = FieldsOptions { cast: pair("cls", "u8"), ..FieldsOptions::default() };
        let error = Fields::new(options).unwrap().apply(rows()).unwrap_err();
        assert_eq!(error.sample(), Some("b"), "{error}");
        let only = FieldsOptions { only: vec!["x y".to_owned()], ..FieldsOptions::default() };
        assert_eq!(Fields::new(only).unwrap().apply(rows()).unwrap().num_columns(), 2);
    }
}
