//! Groups as samples, in a file that h5py wrote: `tests/data/make.py`. The comparison with h5py's values is in `interop.rs`.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type, UInt8Type};
use packhorse_core::{FieldType, Format, Limits, MemoryInput, Options, Result, Rows, Source, TableInfo};
use packhorse_hdf5::Hdf5;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

fn source(pairs: &[(&str, &str)]) -> Box<dyn Source> {
    Hdf5.source(&pairs.iter().copied().collect::<Options>(), Limits::default()).unwrap()
}

fn read(source: &dyn Source, items: Range<u64>) -> Result<(TableInfo, Vec<Rows>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/groups.h5");
    let input = MemoryInput::new("groups.h5", std::fs::read(path).unwrap());
    let table = source.open(Arc::new(&input))?;
    let rows = table.rows(items)?.collect::<Result<_>>()?;
    Ok((table.info()?, rows))
}

fn types(info: &TableInfo) -> Vec<String> {
    let one = |field: &Arc<packhorse_core::Field>| format!("{} {}", field.name(), FieldType::of(field).unwrap());
    info.schema.fields().iter().map(one).collect()
}

#[test]
fn each_group_is_a_sample() {
    let (info, rows) = read(&*source(&[("groups", "/data/*")]), 0..u64::MAX).unwrap();
    let wanted = [
        "path text",
        "done Boolean",
        "goal Int64[2]",
        "note text",
        "obs.x Float32[?,?]",
        "table.n Int32[?]",
        "table.x Float64[?]",
        "task text",
    ];
    assert_eq!((types(&info), info.items, rows.len()), (wanted.map(str::to_owned).to_vec(), 12, 1));
    // Only reading tells how long texts are: shards are planned by the size of the file.
    assert!(info.bytes > 30_000, "{}", info.bytes);
    let rows = &rows[0];
    let text = |name: &str| rows.column_by_name(name).unwrap().as_string_view().clone();
    // In the order of their paths.
    assert_eq!((text("path").value(2), text("task").value(2)), ("data/demo_10", "task 10"));
    assert_eq!(
        rows.column_by_name("goal").unwrap().as_fixed_size_list().value(2).as_primitive::<Int64Type>().values(),
        &[10, 11]
    );
    assert_eq!((text("note").is_null(2), text("note").value(3)), (true, "note 11"));
    let x = rows.column_by_name("obs.x").unwrap().as_struct();
    let (values, shape) = (x.column(0).as_list::<i32>().value(3), x.column(1).as_fixed_size_list().value(3));
    assert_eq!(shape.as_primitive::<Int32Type>().values(), &[15, 3]);
    assert_eq!(values.as_primitive::<Float32Type>().values().to_vec(), (0..45u8).map(f32::from).collect::<Vec<_>>());
}

#[test]
fn attributes_are_fields_where_they_are_chosen() {
    let (info, rows) = read(&*source(&[("groups", "/data/*"), ("attributes", "*,!a*")]), 0..u64::MAX).unwrap();
    assert!(info.omitted.is_empty());
    let text = |name: &str| rows[0].column_by_name(name).unwrap().as_string_view().value(9).to_owned();
    assert_eq!((text("path"), text("env")), ("data/demo_7".to_owned(), "env 1".to_owned()));
    assert_eq!(rows[0].column_by_name("seed").unwrap().as_primitive::<Int64Type>().value(9), 107);
    // One group has so many that they are stored elsewhere.
    let (info, rows) = read(&*source(&[("groups", "/data/*"), ("attributes", "a8,seed")]), 5..9).unwrap();
    assert!(info.schema.field_with_name("env").is_err());
    let a8 = rows[0].column_by_name("a8").unwrap();
    assert_eq!((a8.null_count(), a8.as_primitive::<UInt8Type>().value(2)), (3, 8));
    // Without the option they are told.
    let (info, _) = read(&*source(&[("groups", "/data/*")]), 0..1).unwrap();
    let omitted: Vec<&str> = info.omitted.iter().map(|omission| omission.field.as_str()).collect();
    assert_eq!(omitted, ["env", "seed"]);
    assert!(Hdf5.source(&[("attributes", "*")].into_iter().collect(), Limits::default()).is_err());
}

#[test]
fn ranges_and_chosen_fields_are_read_alone() {
    let chosen = source(&[("groups", "data/*"), ("datasets", "*,!*/table")]).narrowed(&["goal".to_owned()]).unwrap();
    let (info, rows) = read(&*chosen, 3..5).unwrap();
    assert_eq!((types(&info), rows[0].num_rows()), (vec!["goal Int64[2]".to_owned()], 2));
    let goals = rows[0].column(0).as_fixed_size_list();
    assert_eq!(goals.values().as_primitive::<Int64Type>().values(), &[11, 12, 2, 3]);
    let (_, none) = read(&*chosen, 12..40).unwrap();
    assert!(none.is_empty());
}

#[test]
fn the_file_is_a_sample() {
    let (info, rows) = read(&*source(&[("groups", "/"), ("datasets", "*/goal,*/note")]), 0..u64::MAX).unwrap();
    // Without a path: it is the file.
    assert_eq!((info.items, rows[0].num_rows(), info.schema.fields().len()), (1, 1, 18));
    let note = rows[0].column_by_name("data.demo_11.note").unwrap();
    assert_eq!(note.as_string_view().value(0), "note 11");
}

#[test]
fn a_dataset_is_a_sample() {
    let (info, rows) = read(&*source(&[("groups", "/data/*/goal")]), 0..u64::MAX).unwrap();
    assert_eq!(types(&info), ["path text", "value Int64[2]"]);
    assert_eq!(rows[0].column(0).as_string_view().value(1), "data/demo_1/goal");
}

#[test]
fn what_matches_nothing_is_refused() {
    for (pairs, text) in [
        (&[("groups", "/dat/*")][..], "`groups`: no group or dataset matches /dat/*"),
        (&[("groups", "/data/*"), ("datasets", "*/gaol")], "no dataset of the groups matches */gaol"),
        (&[("groups", "/data/*"), ("attributes", "seed,sede")], "`attributes`: no sample has the attribute sede"),
        (&[("groups", "/data/*,!/data/demo*")], "no group or dataset matches /data/*,!/data/demo*"),
    ] {
        let error = read(&*source(pairs), 0..1).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let scale: Options = [("groups", "*"), ("scale", "apply")].into_iter().collect();
    assert!(Hdf5.source(&scale, Limits::default()).is_err());
}
