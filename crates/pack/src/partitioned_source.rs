//! Tables in folders called `NAME=VALUE`, as Hive, Spark and pyarrow write them: each such folder is a column.

use crate::mapped_table::MappedTable;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, new_null_array};
use packhorse_core::{
    Code, DataType, Error, Field, FieldType, Input, InputTable, Result, Rows, Schema, SchemaRef, Source, Table,
};
use packhorse_storage::Location;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

/// The option of sources of typed rows that makes columns of folders.
pub(crate) const PARTITIONS: &str = "partitions";

/// The value of rows that have none, as Hive and pyarrow call their folder.
const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// The names and values of the folders directly around a file that have such names, from the outermost on. Values are text, with their
/// percent-encoding decoded; the value of a missing one is `None`.
pub(crate) fn partitions(path: &Path) -> Vec<(String, Option<String>)> {
    let folders = path.parent().into_iter().flat_map(Path::components).rev();
    let names = folders.map_while(|part| if let Component::Normal(name) = part { name.to_str() } else { None });
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pair = |name: &str| {
        let (name, value) = name.split_once('=')?;
        (!name.is_empty() && !value.is_empty()).then(|| (decoded(name), (value != MISSING).then(|| decoded(value))))
    };
    let mut pairs: Vec<_> = names.map_while(pair).collect();
    pairs.reverse();
    pairs
}

/// A source whose tables have their folders as columns of text.
pub(crate) struct PartitionedSource {
    pub(crate) inner: Box<dyn Source>,
    /// The only fields to read, if set.
    pub(crate) names: Option<Vec<String>>,
}

impl Source for PartitionedSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let path = Location::absolute(Path::new(input.name()));
        let inner = self.inner.open(input)?;
        let info = inner.info()?;
        let mut values: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (name, value) in partitions(&path) {
            if info.schema.field_with_name(&name).is_ok() {
                let message = format!("has a column {name}, and lies in a folder of that name (`{PARTITIONS}`)");
                let error = Error::config(message).with_code(Code::ColumnsDiffer).in_field(name);
                return Err(
                    error.hint(format!("pack it without `{PARTITIONS}`, or leave the column out where it is read"))
                );
            }
            if values.insert(name.clone(), value).is_some() {
                let message = format!("lies in two folders that are called {name}=… (`{PARTITIONS}`)");
                return Err(Error::config(message).with_code(Code::ColumnsDiffer).in_field(name));
            }
        }
        if let Some(names) = &self.names {
            values.retain(|name, _| names.contains(name));
        }
        let own = info.schema.fields().iter().cloned();
        let added = values.iter().map(|(name, value)| Arc::new(FieldType::Text.field(name, value.is_none())));
        let mut fields: Vec<Arc<Field>> = own.chain(added).collect();
        // The key stays first, and the others are in the order of their names.
        fields.sort_by(|a, b| (!is_key(a), a.name()).cmp(&(!is_key(b), b.name())));
        let schema = Arc::new(Schema::new_with_metadata(fields, info.schema.metadata().clone()));
        let partitioned = Arc::clone(&schema);
        let map = move |rows: Rows, _| with_folders(&rows, &partitioned, &values);
        Ok(Box::new(MappedTable { inner, schema, map: Box::new(map) }))
    }

    fn narrowed(&self, names: &[String]) -> Option<Box<dyn Source>> {
        let inner = self.inner.narrowed(names)?;
        Some(Box::new(Self { inner, names: Some(names.to_vec()) }))
    }

    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        self.inner.tables(input)
    }
}

fn is_key(field: &Field) -> bool {
    field.name() == packhorse_core::KEY
}

/// The block with the columns of `schema`, of which `values` has those that are not in it.
fn with_folders(rows: &Rows, schema: &SchemaRef, values: &BTreeMap<String, Option<String>>) -> Result<Rows> {
    let column = |field: &Arc<Field>| -> Result<ArrayRef> {
        match (values.get(field.name()), rows.column_by_name(field.name())) {
            (Some(value), _) => Ok(repeated(value.as_deref(), rows.num_rows())),
            (None, Some(column)) => Ok(Arc::clone(column)),
            (None, None) => Err(Error::bug(format!("a block without the column {}", field.name()))),
        }
    };
    let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
    Rows::try_new(Arc::clone(schema), columns).map_err(|e| Error::bug(e.to_string()))
}

fn repeated(value: Option<&str>, rows: usize) -> ArrayRef {
    let Some(value) = value else { return new_null_array(&DataType::Utf8View, rows) };
    let mut texts = StringViewBuilder::with_capacity(rows).with_deduplicate_strings();
    (0..rows).for_each(|_| texts.append_value(value));
    Arc::new(texts.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_names_and_values() {
        let of = |path: &str| partitions(Path::new(path));
        let pair = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        assert_eq!(of("/data/year=2024/month=05/a=b.parquet"), [pair("year", "2024"), pair("month", "05")]);
        assert_eq!(of("s3://b/city=New%20York/x.csv"), [pair("city", "New York")]);
        assert_eq!(of("/d/when=a=b/x"), [pair("when", "a=b")]);
        assert_eq!(of("/d/y=__HIVE_DEFAULT_PARTITION__/x"), [("y".to_owned(), None)]);
        assert_eq!(of("/d/=1/y=/x=1"), []);
        // What lies further out is not about these tables alone.
        assert_eq!(of("/run=3/in/year=2024/a.csv"), [pair("year", "2024")]);
        assert_eq!(of("/run=3/in/a.csv"), []);
    }
}
