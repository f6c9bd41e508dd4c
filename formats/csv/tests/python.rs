//! Tables are read as pandas and pyarrow read them.
//!
//! `PACKHORSE_PYTHON` names a Python with both. Without it the test is skipped.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use packhorse_core::{DataType, Format, Limits, MemoryInput, Options};
use packhorse_csv::Csv;
use packhorse_testkit::external::python;
use packhorse_testkit::typed;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;

/// Writes tables with several writers, and beside each its columns as pyarrow and pandas read them.
const SCRIPT: &str = r##"
import json, sys, random
import numpy as np
import pandas as pd, pyarrow as pa, pyarrow.csv as pc
folder, rng = sys.argv[1], random.Random(5)
words = ["", "a", "ä ö", 'say "hi"', "two\nlines", "a,b", " space ", "x" * 300]
n = 3000
table = pd.DataFrame({
    "number": [rng.randrange(-2**62, 2**62) for _ in range(n)],
    "small": [rng.randrange(10) if rng.random() < 0.9 else None for _ in range(n)],
    "x": [rng.uniform(-1e9, 1e9) for _ in range(n)],
    "tiny": [rng.random() * 10.0 ** rng.randrange(-300, 300) for _ in range(n)],
    "flag": [rng.random() < 0.5 for _ in range(n)],
    "word": [rng.choice(words[1:]) for _ in range(n)],
    "maybe": [rng.choice(words) or None for _ in range(n)],
})
table["small"] = table["small"].astype("Int64")
table.to_csv(f"{folder}/pandas.csv", index=False)
table.to_csv(f"{folder}/windows.csv", index=False, lineterminator="\r\n", quoting=1)
table.to_csv(f"{folder}/tabs.tsv", index=False, sep="\t")
table.head(0).to_csv(f"{folder}/none.csv", index=False)
pc.write_csv(pa.Table.from_pandas(table), f"{folder}/arrow.csv")
numbers = table[["x", "tiny"]].to_numpy()
np.savetxt(f"{folder}/numpy.dat", numbers, header="seed 5\nx tiny")
np.savetxt(f"{folder}/aligned.txt", numbers, fmt="%24.9g", comments="#", header="x, tiny", footer="end")
for name in ["numpy.dat", "aligned.txt"]:
    columns = {name: [v.hex() for v in values] for name, values in zip(["x", "tiny"], np.loadtxt(f"{folder}/{name}").T.tolist())}
    json.dump(columns, open(f"{folder}/{name}.json", "w"))
for name in ["pandas.csv", "windows.csv", "tabs.tsv", "none.csv", "arrow.csv"]:
    parse = pc.ParseOptions(delimiter="\t" if name.endswith("tsv") else ",", newlines_in_values=True)
    convert = pc.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=True, null_values=[""])
    read = pc.read_csv(f"{folder}/{name}", parse_options=parse, convert_options=convert)
    again = pd.read_csv(f"{folder}/{name}", sep=parse.delimiter, float_precision="round_trip", keep_default_na=False, na_values=[""])
    columns = {}
    for column in read.column_names:
        values = read[column].to_pylist()
        theirs = [None if pd.isna(v) else v for v in again[column].tolist()]
        assert [v.hex() if type(v) is float else v for v in values] == [v.hex() if type(v) is float and type(w) is float else v for v, w in zip(theirs, values)], column
        columns[column] = [v.hex() if type(v) is float else v for v in values]
    json.dump(columns, open(f"{folder}/{name}.json", "w"))
"##;

/// The values as JSON; floats by their bits.
fn values(array: &ArrayRef) -> Vec<Value> {
    let null = |i: usize| array.is_null(i);
    let value = |i: usize| match array.data_type() {
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(i)),
        DataType::Float64 => json!({"bits": array.as_primitive::<Float64Type>().value(i).to_bits()}),
        DataType::Boolean => json!(array.as_boolean().value(i)),
        _ => json!(array.as_string_view().value(i)),
    };
    (0..array.len()).map(|i| if null(i) { Value::Null } else { value(i) }).collect()
}

/// The bits of a float in the notation of Python's `float.hex`.
fn bits(hex: &str) -> Option<u64> {
    let (sign, rest) = hex.strip_prefix('-').map_or((0, hex), |rest| (1u64 << 63, rest));
    let (digits, power) = rest.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let power: i64 = power.parse().ok()?;
    let mantissa = u64::from_str_radix(&format!("{fraction:0<13}"), 16).ok()?;
    let exponent = if whole == "0" { 0 } else { u64::try_from(power + 1023).ok()? };
    Some(sign | exponent << 52 | mantissa)
}

#[test]
fn tables_are_read_as_pandas_and_pyarrow_read_them() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(python).args(["-B", "-c", SCRIPT]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = [("delimiter", "spaces"), ("comment", "#"), ("header", "comment"), ("schema", "x:float64,tiny:float64")];
    let text: Options = text.into_iter().collect();
    let plain = ["pandas.csv", "windows.csv", "tabs.tsv", "none.csv", "arrow.csv"].map(|name| (name, Options::new()));
    for (name, options) in plain.into_iter().chain(["numpy.dat", "aligned.txt"].map(|name| (name, text.clone()))) {
        let source = Csv::default().source(&options, Limits::default()).unwrap();
        let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let wanted: Value = serde_json::from_slice(&bytes(&format!("{name}.json"))).unwrap();
        let input = MemoryInput::new(name, bytes(name));
        let info = source.open(Arc::new(&input)).unwrap().info().unwrap();
        assert_eq!(info.schema.fields().len(), wanted.as_object().unwrap().len());
        let blocks = typed::read(&*source, &input, 0..info.items);
        for field in info.schema.fields() {
            let found = blocks.iter().flat_map(|rows| values(rows.column_by_name(field.name()).unwrap()));
            let wanted = wanted[field.name()].as_array().unwrap().iter();
            let wanted = wanted.map(|value| match (field.data_type(), value.as_str()) {
                (DataType::Float64, Some(hex)) => json!({"bits": bits(hex).unwrap()}),
                _ => value.clone(),
            });
            assert!(found.eq(wanted), "{name}: {}", field.name());
        }
    }
}
