//! The columns that views among the inputs add to their samples.

use crate::inputs::Inputs;
use crate::joined_table::rows_of;
use crate::steps::assembled;
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_select::interleave::interleave;
use packhorse_core::{Error, Field, Registry, Result, Rows};
use packhorse_dataset::{FieldRecord, JoinedRecord, PlanHeader};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The joined columns of all views of a plan, each read on first use and kept.
#[derive(Default)]
pub(crate) struct JoinedInputs {
    /// By the root of the samples.
    views: BTreeMap<u32, JoinedInput>,
}

struct JoinedInput {
    /// The root that is the folder of the view.
    folder: u32,
    record: JoinedRecord,
    rows: OnceLock<Result<Rows>>,
}

impl JoinedInputs {
    pub(crate) fn of(header: &PlanHeader) -> Self {
        let views = header.views.iter().filter_map(|view| {
            let (folder, record) = view.folder.zip(view.joined.clone())?;
            Some((view.root, JoinedInput { folder, record, rows: OnceLock::new() }))
        });
        Self { views: views.collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Adds the columns to `rows`. `places`: of each row the root of its sample and its row there; nulls without one.
    pub(crate) fn add(
        &self,
        registry: &Registry,
        inputs: &Inputs<'_>,
        rows: Rows,
        places: &[Option<(u32, u64)>],
    ) -> Result<Rows> {
        let mut tables: BTreeMap<u32, &Rows> = BTreeMap::new();
        for (root, _) in places.iter().flatten() {
            if let (None, Some(view)) = (tables.get(root), self.views.get(root)) {
                tables.insert(*root, view.rows(registry, inputs)?);
            }
        }
        let schema = rows.schema();
        let own = schema.fields().iter().map(|field| field.as_ref().clone()).zip(rows.columns().to_vec());
        let mut columns: Vec<(Field, ArrayRef)> = own.collect();
        let mut fields: BTreeMap<String, Field> = BTreeMap::new();
        for view in self.views.values() {
            let schema = FieldRecord::schema(&view.record.columns)?;
            fields.extend(schema.fields().iter().map(|field| (field.name().clone(), field.as_ref().clone())));
        }
        for field in fields.into_values() {
            let column = gathered(&field, &tables, places)?;
            columns.push((field.with_nullable(column.null_count() > 0), column));
        }
        assembled(columns)
    }
}

/// The values of `field` at these places.
fn gathered(field: &Field, tables: &BTreeMap<u32, &Rows>, places: &[Option<(u32, u64)>]) -> Result<ArrayRef> {
    let null = new_null_array(field.data_type(), 1);
    let mut arrays: Vec<&dyn Array> = vec![&*null];
    let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
    for (root, rows) in tables {
        if let Some(column) = rows.column_by_name(field.name()) {
            numbers.insert(*root, arrays.len());
            arrays.push(&**column);
        }
    }
    let place = |place: &Option<(u32, u64)>| {
        let (root, row) = (*place)?;
        Some((*numbers.get(&root)?, usize::try_from(row).ok()?))
    };
    let places: Vec<(usize, usize)> = places.iter().map(|at| place(at).unwrap_or((0, 0))).collect();
    if places.iter().any(|(table, row)| arrays.get(*table).is_none_or(|array| *row >= array.len())) {
        return Err(Error::content(format!("joined column {} lacks rows", field.name())));
    }
    interleave(&arrays, &places).map_err(|e| Error::bug(e.to_string()))
}

impl JoinedInput {
    fn rows(&self, registry: &Registry, inputs: &Inputs<'_>) -> Result<&Rows> {
        let read = || {
            let bytes = inputs.whole(self.folder, &self.record.file.name, self.record.file.bytes)?;
            rows_of(registry, &self.record, bytes)
        };
        self.rows.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}
