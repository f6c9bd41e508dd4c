//! Files without a schema document: inference, and errors for records that don't match it.

use crate::common::source;
use arrow_array::Array as _;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use packhorse_core::{Error, FieldType, Input, Kind, MemoryInput, Rows, crc32c};
use packhorse_testkit::memory::CountedInput;
use std::sync::Arc;

fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend(bytes);
    out
}

/// An entry of the feature map with one list.
fn feature(name: &str, tag: u8, list: &[u8]) -> Vec<u8> {
    field(0x0a, &[field(0x0a, name.as_bytes()), field(0x12, &field(tag, list))].concat())
}

fn ints(name: &str, values: &[u8]) -> Vec<u8> {
    feature(name, 0x1a, &field(0x0a, values))
}

/// Not packed, as by old writers.
fn floats(name: &str, values: &[f32]) -> Vec<u8> {
    let list: Vec<u8> = values.iter().flat_map(|v| [&[0x0d][..], &v.to_le_bytes()].concat()).collect();
    feature(name, 0x12, &list)
}

fn bytes(name: &str, values: &[&[u8]]) -> Vec<u8> {
    feature(name, 0x0a, &values.iter().flat_map(|v| field(0x0a, v)).collect::<Vec<_>>())
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    let crc = crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn file(records: &[Vec<Vec<u8>>]) -> MemoryInput {
    of_records(&records.iter().map(|features| field(0x0a, &features.concat())).collect::<Vec<_>>())
}

fn of_records(records: &[Vec<u8>]) -> MemoryInput {
    let mut out = Vec::new();
    for record in records {
        let len = (record.len() as u64).to_le_bytes();
        out.extend([&len[..], &masked(&len), record, &masked(record)].concat());
    }
    MemoryInput::new("foreign.tfrecord", out)
}

fn read(input: &MemoryInput, options: &[(&str, &str)]) -> Result<Vec<Rows>, Error> {
    let source = source(options);
    let info = source.open(Arc::new(input))?.info()?;
    let rows: Vec<Rows> = source.open(Arc::new(input))?.rows(0..u64::MAX)?.collect::<Result<_, _>>()?;
    assert_eq!(info.items, rows.iter().map(|rows| rows.num_rows() as u64).sum::<u64>());
    assert!(rows.iter().all(|rows| rows.schema() == info.schema));
    Ok(rows)
}

#[test]
fn a_schema_is_inferred() {
    let record = |i: u8| {
        let mut features = vec![
            bytes("image", &[&[0xff, i]]),
            ints("label", &[i]),
            ints("box", &[1, 2, 3, i]),
            floats("scores", &vec![0.5; usize::from(i)]),
            bytes("words", &[&b"a"[..], b"b"][..usize::from(i)]),
            bytes("__key__", &[format!("k{i}").as_bytes()]),
        ];
        if i == 1 {
            features.push(floats("weight", &[1.5]));
        }
        features
    };
    let rows = read(&file(&[record(0), record(1), record(2)]), &[]).unwrap();
    let rows = &rows[0];
    let kinds: Vec<String> = rows
        .schema()
        .fields()
        .iter()
        .map(|f| format!("{} {}{}", f.name(), FieldType::of(f).unwrap(), if f.is_nullable() { "?" } else { "" }))
        .collect();
    let wanted = [
        "__key__ text",
        "box Int64[4]",
        "image blob",
        "label Int64",
        "scores list<Float32>",
        "weight Float32?",
        "words list<Utf8View>",
    ];
    assert_eq!(kinds, wanted);
    assert_eq!(rows.column(3).as_primitive::<Int64Type>().values(), &[0, 1, 2]);
    assert_eq!(rows.column(4).as_list::<i32>().value(2).as_primitive::<Float32Type>().values(), &[0.5, 0.5]);
    assert_eq!(rows.column(5).null_count(), 2);
}

#[test]
fn headers_are_scanned_once_for_a_file_read_in_parts() {
    let many: &dyn Input = &file(&vec![vec![ints("x", &[7])]; 40_000]);
    let bytes = many.read_all(1 << 30).unwrap();
    let (len, input) = (bytes.len() as u64, CountedInput::new("many.tfrecord", bytes));
    let source = source(&[]);
    let table = source.open(Arc::new(&input)).unwrap();
    let read = |first| {
        let rows = table.rows(first..first + 1).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(rows.iter().map(Rows::num_rows).sum::<usize>(), 1);
        input.take_read()
    };
    // The start of a late record is found by the headers before it, and those of later ones go on from there.
    assert!(read(30_000) > len / 2);
    assert!(read(39_999) < len / 2);
    assert!(read(20_000) < len / 4 + (256 << 10));
    assert_eq!(table.info().unwrap().items, 40_000);
}

#[test]
fn a_record_that_does_not_match_is_named() {
    let base = || vec![ints("label", &[1]), bytes("image", &[b"x"])];
    let cases = [
        (
            vec![ints("label", &[1, 2]), bytes("image", &[b"x"])],
            "record 3: feature label: has 2 values where Int64 has 1",
        ),
        (vec![ints("label", &[1])], "record 3: feature image: is missing"),
        (
            vec![floats("label", &[1.0]), bytes("image", &[b"x"])],
            "record 3: feature label: is a float_list where Int64",
        ),
        ([base(), vec![ints("more", &[1])]].concat(), "record 3: feature more is not in the schema"),
    ];
    for (broken, wanted) in cases {
        let input = file(&[base(), base(), base(), broken]);
        let error = read(&input, &[("infer", "3")]).unwrap_err();
        assert_eq!(error.kind(), Kind::Content);
        let text = error.to_string();
        assert!(text.contains(wanted) && text.contains("read=infer="), "{text}");
        assert_eq!(error.input(), Some("foreign.tfrecord"));
    }
}

#[test]
fn records_that_fit_no_schema_are_refused() {
    let both = file(&[vec![ints("x", &[1])], vec![floats("x", &[1.0])]]);
    assert!(read(&both, &[]).unwrap_err().to_string().contains("record 1: feature x: is a float_list"));
    let key = file(&[vec![ints("__key__", &[1])]]);
    assert_eq!(read(&key, &[]).unwrap_err().kind(), Kind::Unsupported);
    let twice = file(&[vec![bytes("__key__", &[b"a"])], vec![]]);
    assert_eq!(read(&twice, &[]).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn empty_files_and_records_are_read() {
    let source = source(&[]);
    let info = source.open(Arc::new(&file(&[]))).unwrap().info().unwrap();
    assert_eq!((info.items, info.schema.fields().len()), (0, 0));
    let rows = read(&file(&[vec![], vec![]]), &[]).unwrap();
    assert_eq!((rows[0].num_rows(), rows[0].num_columns()), (2, 0));
}

/// Episodes of RLDS have the pictures of all their steps in one feature.
#[test]
fn several_values_that_are_not_text_are_lists_of_bytes() {
    let steps = |values: &[&[u8]]| vec![bytes("steps/image", values)];
    let rows = read(&file(&[steps(&[&[0xff], b"a"]), steps(&[]), steps(&[&[0xfe, 0]])]), &[]).unwrap();
    let lists = rows[0]["steps/image"].as_list::<i32>();
    assert_eq!(lists.value_offsets(), [0, 2, 2, 3]);
    let values: Vec<_> = lists.values().as_binary_view().iter().flatten().collect();
    assert_eq!(values, [&[0xff][..], b"a", &[0xfe, 0]]);
}

/// A record with feature lists: those of YouTube-8M, AudioSet and im2txt.
fn sequence(context: &[Vec<u8>], lists: &[(&str, Vec<Option<Vec<u8>>>)]) -> Vec<u8> {
    let entry = |(name, steps): &(&str, Vec<Option<Vec<u8>>>)| {
        let steps = steps.iter().flat_map(|list| field(0x0a, list.as_deref().unwrap_or_default())).collect::<Vec<_>>();
        field(0x0a, &[field(0x0a, name.as_bytes()), field(0x12, &steps)].concat())
    };
    [field(0x0a, &context.concat()), field(0x12, &lists.iter().flat_map(entry).collect::<Vec<_>>())].concat()
}

#[test]
fn the_feature_lists_of_sequences_are_lists() {
    let one = |value: &[u8]| Some(field(0x0a, &field(0x0a, value)));
    let numbers = |values: &[u8]| Some(field(0x1a, &field(0x0a, values)));
    let records = [
        sequence(
            &[ints("id", &[7])],
            &[
                ("frames", vec![one(&[0xff, 1]), one(b"b")]),
                ("words", vec![one(b"the"), one(b"end")]),
                ("label", vec![numbers(&[1]), numbers(&[2])]),
                ("boxes", vec![numbers(&[1, 2]), None]),
                ("none", vec![]),
            ],
        ),
        sequence(&[ints("id", &[8])], &[("frames", vec![]), ("label", vec![numbers(&[3])]), ("boxes", vec![])]),
        sequence(&[ints("id", &[9])], &[("frames", vec![one(b"")]), ("words", vec![one(b"a")]), ("label", vec![])]),
    ];
    let input = of_records(&records);
    let rows = read(&input, &[]).unwrap();
    let lists = |name: &str| rows[0][name].as_list::<i32>().clone();
    assert_eq!(rows[0]["id"].as_primitive::<Int64Type>().values(), &[7, 8, 9]);
    assert_eq!(lists("frames").value_offsets(), [0, 2, 2, 3]);
    let frames: Vec<_> = lists("frames").values().as_binary_view().iter().flatten().map(<[u8]>::to_vec).collect();
    assert_eq!(frames, [&[0xff, 1][..], b"b", b""]);
    let words: Vec<_> = lists("words").values().as_string_view().iter().flatten().map(str::to_owned).collect();
    assert_eq!((words, lists("words").is_null(1)), (["the", "end", "a"].map(str::to_owned).to_vec(), true));
    assert_eq!(lists("label").values().as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    // Steps of several values, and of none.
    let boxes = lists("boxes");
    assert_eq!((boxes.value_offsets(), boxes.is_null(2)), (&[0, 2, 2, 2][..], true));
    let inner = boxes.values().as_list::<i32>();
    assert_eq!(inner.value_offsets(), [0, 2, 2]);
    assert_eq!(inner.values().as_primitive::<Int64Type>().values(), &[1, 2]);
    assert!(rows[0].column_by_name("none").is_none());
    // A later record whose steps have more values, and one with a feature of that name.
    let more = sequence(&[ints("id", &[1])], &[("label", vec![numbers(&[1, 2])])]);
    let other = field(0x0a, &[ints("id", &[1]), ints("label", &[1])].concat());
    for (record, said) in [(more, "a step of 2 values"), (other, "is a feature, and a feature list")] {
        let records = [sequence(&[ints("id", &[7])], &[("label", vec![numbers(&[1])])]), record];
        let error = read(&of_records(&records), &[("infer", "1")]).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("read=infer="), "{error}");
        let whole = read(&of_records(&records), &[]);
        assert_eq!(whole.is_ok(), said.contains("step"), "{said}");
    }
    let key = sequence(&[], &[("__key__", vec![one(b"a")])]);
    assert!(read(&of_records(&[key]), &[]).is_err());
}

/// TFDS and others write the feature of a picture that is not there as an empty list.
#[test]
fn an_empty_list_of_bytes_is_a_missing_value() {
    let picture = |values: &[&[u8]]| vec![bytes("image", values), bytes("name", &[b"a"])];
    let rows = read(&file(&[picture(&[&[0xff, 1]]), picture(&[]), picture(&[&[0xff]])]), &[]).unwrap();
    let image = rows[0]["image"].as_binary_view();
    assert_eq!(image.iter().collect::<Vec<_>>(), [Some(&[0xff, 1][..]), None, Some(&[0xff])]);
    assert_eq!(rows[0]["name"].null_count(), 0);
    // Of text an empty list is a list still.
    let texts = read(&file(&[vec![bytes("words", &[b"a"])], vec![bytes("words", &[])]]), &[]).unwrap();
    assert_eq!(texts[0]["words"].as_list::<i32>().iter().map(|words| words.unwrap().len()).sum::<usize>(), 1);
    // A missing value that only a later record lacks does not fit the schema that was inferred without it.
    let late = file(&[picture(&[&[0xff]]), picture(&[])]);
    assert!(read(&late, &[("infer", "1")]).unwrap_err().to_string().contains("is missing"));
}

#[test]
fn features_that_can_not_be_read_are_null_where_they_are_not_wanted() {
    let frames = |i: u8| vec![ints("label", &[i]), bytes("frames", &[&[0xff, i], &[0xfe]]), ints("n", &[i, i])];
    let input = file(&(0..5).map(frames).collect::<Vec<_>>());
    let rows = read(&input, &[("unread", "frames\nother")]).unwrap();
    let labels: Vec<i64> = rows[0]["label"].as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(labels, [0, 1, 2, 3, 4]);
    assert_eq!((rows[0]["frames"].null_count(), rows[0]["n"].null_count()), (5, 0));
    // Also where it is of another kind in each record.
    let mixed = file(&[vec![ints("label", &[1]), ints("x", &[1])], vec![ints("label", &[2]), floats("x", &[1.0])]]);
    let rows = read(&mixed, &[("unread", "x")]).unwrap();
    assert_eq!((rows[0].num_rows(), rows[0]["x"].null_count()), (2, 2));
}

/// 18 MiB of records before one of another length.
#[test]
fn a_schema_is_inferred_from_as_many_records_as_are_asked_for() {
    let large = vec![1; 3 << 20];
    let mut records = vec![vec![bytes("x", &[&large]), ints("n", &[1])]; 6];
    records.push(vec![bytes("x", &[&large]), ints("n", &[1, 2])]);
    let input = file(&records);
    assert!(read(&input, &[]).unwrap_err().to_string().contains("read=infer="));
    assert_eq!(read(&input, &[("infer", "7")]).unwrap().iter().map(|rows| rows.num_rows()).sum::<usize>(), 7);
}
