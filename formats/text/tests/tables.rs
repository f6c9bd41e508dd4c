//! Tables of JSON lines: types, values, ranges and errors.
#![expect(clippy::unwrap_used, clippy::panic, reason = "an error fails the test")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use packhorse_core::{DataType, Format, Input, Kind, Limits, MemoryInput, Result, Rows, Source, TableInfo};
use packhorse_testkit::external::python;
use packhorse_testkit::memory::StreamInput;
use packhorse_testkit::{conformance, typed};
use packhorse_text::JsonLines;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::process::Command;
use std::sync::Arc;

fn source(pairs: &[(&str, &str)]) -> Box<dyn Source> {
    JsonLines::default().source(&pairs.iter().copied().collect(), Limits::default()).unwrap()
}

fn read_as(pairs: &[(&str, &str)], text: &[u8]) -> Result<(TableInfo, Vec<Rows>)> {
    let input = MemoryInput::new("a.jsonl", text.to_vec());
    let source = source(pairs);
    let table = source.open(Arc::new(&input))?;
    let info = table.info()?;
    let blocks = table.rows(0..info.items)?.collect::<Result<Vec<_>>>()?;
    assert_eq!(blocks.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, info.items);
    Ok((info, blocks))
}

/// The columns of `text`, as `name:type`, with `?` where values may be missing.
fn types(pairs: &[(&str, &str)], text: &str) -> Vec<String> {
    let (info, _) = read_as(pairs, text.as_bytes()).unwrap();
    let missing = |nullable: bool| if nullable { "?" } else { "" };
    info.schema
        .fields()
        .iter()
        .map(|field| {
            let kind = packhorse_core::FieldType::of(field).unwrap();
            format!("{}:{kind}{}", field.name(), missing(field.is_nullable()))
        })
        .collect()
}

/// The value of a row as JSON; floats by their bits, since NaN has no JSON.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => json!({"bits": array.as_primitive::<Float64Type>().value(row).to_bits()}),
        DataType::Utf8View => json!(array.as_string_view().value(row)),
        DataType::List(_) => {
            let list = array.as_list::<i32>().value(row);
            (0..list.len()).map(|at| value(&list, at)).collect()
        }
        other => panic!("{other}"),
    }
}

/// All rows, as objects of their values.
fn rows(pairs: &[(&str, &str)], text: &[u8]) -> Vec<Map<String, Value>> {
    let (_, blocks) = read_as(pairs, text).unwrap();
    let row = |block: &RecordBatch, row: usize| {
        let schema = block.schema();
        let columns = schema.fields().iter().zip(block.columns());
        columns.map(|(field, column)| (field.name().clone(), value(column, row))).collect()
    };
    blocks.iter().flat_map(|block| (0..block.num_rows()).map(move |at| row(block, at))).collect()
}

fn bits(value: f64) -> Value {
    json!({"bits": value.to_bits()})
}

#[test]
fn a_field_gets_the_first_type_that_fits_all_values() {
    for (values, kind) in [
        (&["true", "false"][..], "x:Boolean"),
        (&["1", "-9223372036854775808"], "x:Int64"),
        (&["1", "18446744073709551615"], "x:UInt64"),
        (&["1", "2.50", "-3e-7", "NaN", "-Infinity"], "x:Float64"),
        (&["\"a\"", "\"\""], "x:text"),
        (&["[1]", "[]", "[2, 3]"], "x:list<Int64>"),
        (&["[[\"a\"], []]", "[]"], "x:list<list<Utf8View>>"),
        (&["[1, 0.5]"], "x:list<Float64>"),
        (&["1", "null"], "x:Int64?"),
        (&["[true]", "null"], "x:list<Boolean>?"),
        // Kept as JSON: several types, numbers that would be rounded, nulls and objects in lists, lists of nothing.
        (&["1", "\"1\""], "x:text"),
        (&["true", "1"], "x:text"),
        (&["-1", "18446744073709551615"], "x:text"),
        (&["36893488147419103232"], "x:text"),
        (&["1e999"], "x:text"),
        (&["9007199254740993", "0.5"], "x:text"),
        (&["0.5", "9007199254740993"], "x:text"),
        (&["[1, null]"], "x:text"),
        (&["[{\"a\": 1}]"], "x:text"),
        (&["[1]", "[[1]]"], "x:text"),
        (&["[]", "[]"], "x:text"),
        (&["{}", "{}"], "x:text"),
        (&["{\"a\": 1}", "1"], "x:text"),
    ] {
        let text: String = values.iter().map(|value| format!("{{\"x\": {value}}}\n")).collect();
        assert_eq!(types(&[], &text), [kind], "{values:?}");
        // JSON is kept as it is written.
        if kind == "x:text" && !values.iter().all(|value| value.starts_with('"')) {
            let found: Vec<Value> = rows(&[], text.as_bytes()).iter().map(|row| row["x"].clone()).collect();
            assert_eq!(found, values.iter().map(|value| json!(value)).collect::<Vec<_>>());
        }
    }
    let zero = rows(&[], b"{\"x\": -0}\n{\"x\": 18446744073709551615}");
    assert_eq!((&zero[0]["x"], &zero[1]["x"]), (&json!(0), &json!(u64::MAX)));
    assert_eq!(types(&[], "{\"x\": 9007199254740992}\n{\"x\": 0.5}"), ["x:Float64"]);
}

#[test]
fn objects_are_fields_and_missing_values_are_null() {
    let text = br#"
        {"b": {"y": 1, "z": {"w": "deep"}}, "a": [1.5, NaN], "none": null}

        {"b": null, "a": [], "\u0061b\"": "x\ud83d\ude00\n"}
        {"b": {"y": 3, "y": 4, "z": {}}, "a": [1e2], "b": {"y": 5}}
    "#;
    let wanted = ["a:list<Float64>", "ab\":text?", "b.y:Int64?", "b.z.w:text?"];
    assert_eq!(types(&[], std::str::from_utf8(text).unwrap()), wanted);
    let (info, _) = read_as(&[], text).unwrap();
    let left_out: Vec<_> = info.omitted.iter().map(|omission| (omission.field.as_str(), omission.empty)).collect();
    assert_eq!(left_out, [("none", true)]);
    let found: Vec<Value> = rows(&[], text).into_iter().map(Value::Object).collect();
    assert_eq!(
        found,
        [
            json!({"a": [bits(1.5), bits(f64::NAN)], "ab\"": null, "b.y": 1, "b.z.w": "deep"}),
            json!({"a": [], "ab\"": "x😀\n", "b.y": null, "b.z.w": null}),
            json!({"a": [bits(100.0)], "ab\"": null, "b.y": 5, "b.z.w": null}),
        ]
    );
}

#[test]
fn the_schema_option_replaces_types() {
    let text = "{\"id\": \"007\", \"n\": 1, \"m\": {\"a\": [1]}}\n{\"id\": \"8\", \"n\": 2, \"m\": {}}\n";
    assert_eq!(types(&[], text), ["id:text", "m.a:list<Int64>?", "n:Int64"]);
    let asked = [("schema", "n:float64, m.a:list<float64>")];
    assert_eq!(types(&asked, text), ["id:text", "m.a:list<Float64>?", "n:Float64"]);
    assert_eq!(rows(&asked, text.as_bytes())[0]["m.a"], json!([bits(1.0)]));
    let whole = rows(&[("schema", "m:json,n:json")], text.as_bytes());
    assert_eq!((&whole[0]["m"], &whole[1]["n"]), (&json!("{\"a\": [1]}"), &json!("2")));
    for (schema, kind, says) in [
        ("id:int64", Kind::Content, "a.jsonl: line 1: the field id: \"007\" is not of type int64"),
        ("n:list<int64>", Kind::Content, "a.jsonl: line 1: the field n: 1 is not of type list<int64>"),
        ("n:text", Kind::Content, "a.jsonl: line 1: the field n: 1 is not of type text"),
    ] {
        let error = read_as(&[("schema", schema)], text.as_bytes()).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, says));
    }
    // Another file may have the field.
    let (info, _) = read_as(&[("schema", "idd:text")], text.as_bytes()).unwrap();
    assert_eq!(info.omitted.iter().map(|omission| omission.field.as_str()).collect::<Vec<_>>(), ["idd"]);
    for bad in ["n", "n:int", "n:list<json>"] {
        let options = [("schema", bad)].into_iter().collect();
        assert!(JsonLines::default().source(&options, Limits::default()).is_err(), "{bad}");
    }
}

#[test]
fn keys_come_first_and_are_strings() {
    let text = "{\"a\": 1, \"__key__\": \"k/1\"}\n{\"__key__\": \"l\", \"a\": 2}\n";
    assert_eq!(types(&[], text), ["__key__:text", "a:Int64"]);
    for bad in ["{\"__key__\": 1}", "{\"__key__\": \"a\"}\n{\"a\": 1}"] {
        assert!(read_as(&[], bad.as_bytes()).unwrap_err().to_string().contains("__key__ is not a string in each line"));
    }
}

#[test]
fn maps_and_deep_objects_are_kept_as_json() {
    let map = |from: usize| (from..from + 600).map(|i| (format!("word{i}"), json!(i))).collect::<Map<_, _>>();
    let text = format!("{{\"counts\": {}}}\n{{\"counts\": {}}}\n", json!(map(0)), json!(map(600)));
    assert_eq!(types(&[], &text), ["counts:text"]);
    assert_eq!(rows(&[], text.as_bytes())[1]["counts"], json!(json!(map(600)).to_string()));
    let deep = format!("{{\"a\": {}1{}}}\n", "{\"a\": ".repeat(500), "}".repeat(500));
    let names = types(&[], &deep);
    assert_eq!(names, [format!("{}:text", ["a"; 32 + 1].join("."))]);
    let deep = format!("{{\"a\": {}1{}}}\n", "[".repeat(500), "]".repeat(500));
    assert_eq!(types(&[], &deep), ["a:text"]);
    let wide: Map<_, _> = (0..100_001).map(|i| (i.to_string(), Value::Null)).collect();
    let error = read_as(&[], json!(wide).to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("a.jsonl: line 1: the lines so far have more than 100000 names"), "{error}");
}

#[test]
fn a_bad_line_is_named() {
    for (text, what) in [
        (
            &b"{\"a\": 1}\n\n{\"a\": 1\n"[..],
            "line 3, byte 17: is not valid JSON: a comma or a closing brace is missing; repair or remove the line",
        ),
        (
            b"[1]\n",
            "line 1, byte 0: is not valid JSON: a list, and JSON lines are objects, one a line: `jq -c '.[]'` makes them of a list; repair or remove the line",
        ),
        (
            b"{\"a\": \"\xff\"}",
            "line 1, byte 7: is not UTF-8; convert the file (with iconv, say), or remove the document",
        ),
        (
            b"{\"a\": {\"b\": [\"x\\ud800\"]}}",
            "line 1: the field \"a.b\" holds half of a surrogate pair, which is not Unicode; repair or remove the line",
        ),
        (
            b"{\"a.b\": 1, \"a\": {\"b\": 2}}",
            "two fields are called a.b: one of them lies in the object a; `schema=a:json` keeps the object whole",
        ),
        (b"{\"\": 1}", "has a field without a name; give it one"),
    ] {
        let error = read_as(&[], text).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (Kind::Content, format!("a.jsonl: {what}")));
    }
    let limits = Limits { blob: 1000, ..Limits::default() };
    let source = JsonLines::default().source(&Default::default(), limits).unwrap();
    let long = format!("{{\"a\": \"{}\"}}\n", "x".repeat(2 << 20));
    let error = source.open(Arc::new(&MemoryInput::new("a.jsonl", long))).and_then(|table| table.info()).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
}

#[test]
fn a_file_without_lines_is_a_table_without_rows() {
    for text in ["", "\n \r\n", "\u{feff}"] {
        let (info, _) = read_as(&[], text.as_bytes()).unwrap();
        assert_eq!((info.items, info.schema.fields().len()), (0, 0));
    }
}

#[test]
fn a_range_of_rows_equals_that_slice_of_the_whole() {
    let line = |i: usize| format!("{{\"n\": {i}, \"t\": \"{}\\n{i}\", \"l\": [{i}, {i}]}}\n\n", "text ".repeat(i % 50));
    let text: String = (0..30_000).map(line).collect();
    let input = MemoryInput::new("a.jsonl.gz", text.clone().into_bytes());
    let streamed = StreamInput::new("a.jsonl.gz", text.into_bytes());
    let source = source(&[]);
    for (from, to) in [(0, 30_000), (0, 1), (29_999, 30_000), (12_345, 20_000), (30_000, 40_000)] {
        for input in [&input as &dyn Input, &streamed] {
            let found = typed::read(&*source, input, from..to);
            let numbers = found.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec());
            let numbers: Vec<i64> = numbers.collect();
            assert_eq!(numbers, (from as i64..to.min(30_000) as i64).collect::<Vec<_>>());
            let texts = found.iter().flat_map(|rows| rows.column(2).as_string_view().iter().flatten());
            assert!(texts.zip(&numbers).all(|(text, n)| text.ends_with(&format!("\n{n}"))));
        }
    }
}

#[test]
fn conforms() {
    let sample = |key: &str, a: &str| conformance::sample(key, &[("a", a.as_bytes())]);
    let known = b"{\"__key__\": \"k\", \"a\": \"x\"}\n{\"__key__\": \"l\", \"a\": \"y\"}\n";
    conformance::Suite::new(&JsonLines::default())
        .known("two.jsonl", known.to_vec(), vec![sample("k", "x"), sample("l", "y")])
        .cuts(conformance::Cuts::AreOtherFiles)
        .run();
}

/// Any JSON, with many equal names.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..3i64).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300f64).prop_map(Value::from),
        "[a-c\"\\\\é😀\n]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[xy]|é\"", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// What a row must hold for the value `wanted` of a line: itself, or its JSON.
fn is(found: &Value, wanted: &Value) -> bool {
    let number = |wanted: &Value| wanted.as_f64().map(bits);
    let same = match (found, wanted) {
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| is(found, wanted))
        }
        (Value::Object(_), wanted) => Some(found) == number(wanted).as_ref(),
        _ => found == wanted,
    };
    same || found.as_str().is_some_and(|json| serde_json::from_str::<Value>(json).is_ok_and(|json| json == *wanted))
}

proptest! {
    #[test]
    fn every_value_comes_back_as_itself_or_as_its_json(lines in prop::collection::vec(prop::collection::btree_map("[ab]", any_json(), 0..3), 1..8)) {
        let text: String = lines.iter().map(|line| json!(line).to_string() + "\n").collect();
        match read_as(&[], text.as_bytes()) {
            Err(error) => prop_assert!(error.to_string().contains("two fields are called"), "{}", error),
            Ok(_) => for (found, line) in rows(&[], text.as_bytes()).iter().zip(&lines) {
                for (name, found) in found {
                    // The deepest object whose parts are fields; nulls stand for objects that are missing.
                    let wanted = name.split('.').try_fold(&json!(line), |at, part| at.get(part)).cloned().unwrap_or_default();
                    prop_assert!(is(found, &wanted), "{} of {}: {} for {}", name, text, found, wanted);
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_give_rows_or_an_error(bytes in prop::collection::vec(prop_oneof![
        prop::sample::select(b"{}[]\",:\\\n nul01.ea".to_vec()), any::<u8>()
    ], 0..200)) {
        if let Err(error) = read_as(&[], &[b"{\"a\":", &bytes[..], b"}\n"].concat()) {
            prop_assert!(matches!(error.kind(), Kind::Content | Kind::Limit), "{}", error);
        }
    }
}

/// Lines that Python's `json` writes, and beside them each field as it reads them.
const SCRIPT: &str = r#"
import json, random, struct, sys
folder, rng = sys.argv[1], random.Random(7)
words = ["", "a", "ä ö", 'say "hi"', "two\nlines", "\u2028", "😀", "x" * 300, "\\", "\x00"]
def row(i):
    row = {
        "whole": rng.randrange(-2**63, 2**63), "large": rng.randrange(0, 2**64), "x": rng.uniform(-1e9, 1e9),
        "tiny": rng.random() * 10.0 ** rng.randrange(-300, 300), "odd": rng.choice([float("nan"), float("inf"), -0.0, 3]),
        "flag": rng.random() < 0.5, "word": rng.choice(words), "words": [rng.choice(words) for _ in range(rng.randrange(4))],
        "matrix": [[rng.random() for _ in range(2)] for _ in range(rng.randrange(3))],
        "meta": {"n": i, "lang": rng.choice(["de", "en"])}, "messages": [{"role": "user", "content": rng.choice(words)}],
    }
    if rng.random() < 0.3: row["maybe"] = rng.choice(words)
    return row
rows = [row(i) for i in range(2000)]
with open(f"{folder}/a.jsonl", "w") as lines:
    for r in rows: lines.write(json.dumps(r, ensure_ascii=rng.random() < 0.5) + "\n")
def shown(value):
    if type(value) is float: return {"bits": struct.unpack("<Q", struct.pack("<d", value))[0]}
    return [shown(v) for v in value] if type(value) is list else value
floats = {"odd"}
wanted = []
for line in open(f"{folder}/a.jsonl"):
    r = json.loads(line)
    r["odd"] = float(r["odd"])
    r |= {f"meta.{k}": v for k, v in r.pop("meta").items()}
    wanted.append({k: (v if k == "messages" else shown(v)) for k, v in r.items()})
json.dump(wanted, open(f"{folder}/wanted.json", "w"))
"#;

#[test]
fn lines_are_read_as_python_reads_them() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(python).args(["-B", "-c", SCRIPT]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let wanted: Vec<Map<String, Value>> = serde_json::from_slice(&bytes("wanted.json")).unwrap();
    let found = rows(&[], &bytes("a.jsonl"));
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        for (name, found) in found {
            let found = match name.as_str() {
                "messages" => serde_json::from_str(found.as_str().unwrap()).unwrap(),
                _ => found.clone(),
            };
            // NaN of Python and of Rust may differ in their bits' sign.
            assert_eq!(found, wanted.get(name).cloned().unwrap_or_default(), "{name}");
        }
    }
}

/// Log lines of many kinds: most columns have no value in most lines.
#[test]
fn sparse_columns_take_little_memory() {
    let text: String = (0..3000).map(|i| format!("{{\"name{i}\": {i}, \"all\": {i}}}\n")).collect();
    let (info, blocks) = read_as(&[], text.as_bytes()).unwrap();
    assert_eq!((info.items, info.schema.fields().len()), (3000, 3001));
    let slots: Vec<usize> = blocks.iter().map(|rows| rows.num_rows() * rows.num_columns()).collect();
    assert!(slots.iter().all(|slots| *slots <= (64 << 20) / 16), "{slots:?}");
    assert!(blocks.len() > 1);
}

#[test]
fn nulls_and_equal_names_beside_json_are_missing_values() {
    let map: Map<_, _> = (0..1001).map(|i| (format!("w{i}"), json!(i))).collect();
    let text = format!("{{\"c\": {}}}\n{{\"c\": null}}\n{{\"c\": {{}}}}\n", json!(map));
    assert_eq!(types(&[], &text), ["c:text?"]);
    assert_eq!(rows(&[], text.as_bytes())[1]["c"], Value::Null);
    let twice = "{\"a\": {\"b\": 1}, \"a\": {}}\n{\"a\": {\"b\": 2}}\n";
    assert_eq!(types(&[], twice), ["a.b:Int64?"]);
    assert_eq!(rows(&[], twice.as_bytes())[0]["a.b"], Value::Null);
}

#[test]
fn json_is_told_from_text() {
    let marks = |text: &str| {
        let (info, _) = read_as(&[], text.as_bytes()).unwrap();
        info.schema.field(0).metadata().get(packhorse_core::LOGICAL).cloned()
    };
    assert_eq!(marks("{\"id\": \"x\"}\n{\"id\": 3}\n"), Some("json".to_owned()));
    assert_eq!(marks("{\"id\": \"x\"}\n"), None);
}
