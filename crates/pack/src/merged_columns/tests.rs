//! Tests of merged columns.

use super::*;

fn tensor(shape: &[usize]) -> Field {
    FieldType::Tensor { element: DataType::Float32, shape: shape.to_vec() }.field("x", false)
}

fn join_all(fields: &[Field], shapes: Shapes) -> Result<Vec<Field>> {
    let mut columns = MergedColumns::default();
    for (i, field) in fields.iter().enumerate() {
        columns.add(
            [field].into_iter(),
            1,
            Path::new(&format!("{i}.npz")),
            &Joining { shapes, ..Joining::default() },
        )?;
    }
    Ok(columns.fields(fields.len() as u64).collect())
}

#[test]
fn durations_times_of_day_and_dates_are_not_merged() {
    let ticks = |numpy: &str, logical: Option<&str>| {
        let field = FieldType::Scalar(DataType::FixedSizeBinary(8)).field("t", true);
        let field = with_metadata(field, NUMPY, numpy);
        logical.map_or(field.clone(), |logical| with_metadata(field, LOGICAL, logical))
    };
    let kinds = [("<m8[us]", None), ("<m8[us]", Some("time64[us]")), ("<M8[ms]", Some("date64")), ("<M8[ms]", None)];
    for (i, a) in kinds.iter().enumerate() {
        for (k, b) in kinds.iter().enumerate() {
            let joined = join_all(&[ticks(a.0, a.1), ticks(b.0, b.1)], Shapes::Equal);
            assert_eq!(joined.is_ok(), i == k, "{a:?} {b:?}");
        }
    }
    let days = [ticks("<M8[D]", Some("date32")), ticks("<M8[D]", None)];
    assert!(join_all(&days, Shapes::Equal).is_ok());
    let text = FieldType::Text.field("t", true);
    let mixed = join_all(&[text.clone(), with_metadata(text, LOGICAL, "json")], Shapes::Equal).unwrap_err();
    assert!(mixed.to_string().contains("has JSON here and other values in 0.npz; `schema=t:json` takes"), "{mixed}");
    // A cast makes units one, not kinds.
    let cast = |to: &str, a, b| {
        let casts = Casts::new(&[("t".to_owned(), to.to_owned())].into()).unwrap();
        Joining { casts, ..Joining::default() }.join(&a, &b).is_some()
    };
    assert!(cast("timestamp[ns]", ticks("<M8[ns]", None), ticks("<M8[D]", None)));
    assert!(!cast("timestamp[ns]", ticks("<M8[ns]", None), ticks("<M8[D]", Some("date32"))));
    assert!(!cast("duration[ns]", ticks("<m8[ns]", None), ticks("<m8[us]", Some("time64[us]"))));
}

#[test]
fn columns_of_different_scales_are_not_merged() {
    let scaled = |notes: &str| with_metadata(tensor(&[2]), PACKED, notes);
    let one = scaled("{\"scale_factor\":0.1}");
    assert_eq!(join_all(&[one.clone(), one.clone()], Shapes::Equal).unwrap(), std::slice::from_ref(&one));
    for other in [scaled("{\"scale_factor\":0.2}"), tensor(&[2])] {
        let error = join_all(&[one.clone(), other], Shapes::Ragged).unwrap_err();
        assert!(error.to_string().contains("scale=apply") && error.to_string().contains("0.npz"), "{error}");
    }
}

#[test]
fn times_since_other_dates_name_what_makes_one_column_of_them() {
    let since = |units: &str| with_metadata(tensor(&[2]), PACKED, &format!("{{\"units\":\"{units}\"}}"));
    let hint =
        |a: &str, b: &str| join_all(&[since(a), since(b)], Shapes::Equal).unwrap_err().hints().unwrap().to_owned();
    assert!(hint("hours since 2019-01-01", "hours since 2020-01-01").contains("times=decode"));
    assert!(!hint("hours since 2019-01-01", "m").contains("times=decode"));
}

#[test]
fn the_type_that_the_hint_names_holds_the_numbers_of_both() {
    for (a, b, wanted) in [
        (DataType::Int32, DataType::Int64, Some("i64")),
        (DataType::Int8, DataType::UInt8, Some("i16")),
        (DataType::UInt8, DataType::UInt32, Some("u32")),
        (DataType::UInt64, DataType::Int8, Some("i64")),
        (DataType::Int16, DataType::Float16, Some("f32")),
        (DataType::Int32, DataType::Float32, Some("f64")),
        (DataType::Float16, DataType::Float64, Some("f64")),
        (DataType::Utf8View, DataType::Float64, None),
    ] {
        assert_eq!((common(&a, &b).as_deref(), common(&b, &a).as_deref()), (wanted, wanted), "{a} {b}");
    }
}

#[test]
fn types_that_differ_become_what_the_cast_says() {
    let scalar = |element| FieldType::Scalar(element).field("x", false);
    let join = |to: &str| {
        let casts = Casts::new(&[("x".to_owned(), to.to_owned())].into()).unwrap();
        Joining { casts, ..Joining::default() }.join(&scalar(DataType::Int64), &scalar(DataType::Float32))
    };
    assert_eq!(join("f64"), Some(scalar(DataType::Float64)));
    assert_eq!(join("text"), Some(FieldType::Text.field("x", false)));
    assert_eq!(join("timestamp[us]"), None, "numbers don't become times");
    let tensors = [tensor(&[2, 3]), FieldType::Tensor { element: DataType::UInt8, shape: vec![3, 2] }.field("x", true)];
    for (shapes, joined) in [(Shapes::Equal, false), (Shapes::Ragged, true)] {
        let casts = Casts::new(&[("x".to_owned(), "f32".to_owned())].into()).unwrap();
        assert_eq!(Joining { shapes, casts, ..Joining::default() }.join(&tensors[0], &tensors[1]).is_some(), joined);
    }
}

#[test]
fn equal_shapes_stay_dense() {
    assert_eq!(join_all(&[tensor(&[2, 3]), tensor(&[2, 3])], Shapes::Equal).unwrap(), [tensor(&[2, 3])]);
}

#[test]
fn other_shapes_are_refused_with_both_files_or_taken() {
    let error = join_all(&[tensor(&[2, 3]), tensor(&[2, 4])], Shapes::Equal).unwrap_err();
    let said = error.to_string();
    for part in ["Float32[2,4]", "Float32[2,3]", "0.npz", "`ragged`"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    let ragged = FieldType::Ragged { element: DataType::Float32, rank: 2 }.field("x", false);
    let fields = [tensor(&[2, 3]), tensor(&[2, 4]), tensor(&[2, 3])];
    assert_eq!(join_all(&fields, Shapes::Ragged).unwrap(), [ragged]);
    assert!(join_all(&[tensor(&[2, 3]), tensor(&[6])], Shapes::Ragged).is_err());
}

#[test]
fn lists_and_arrays_of_some_lengths_become_lists_in_any_order() {
    let list = FieldType::List { element: DataType::Float32, depth: 1 }.field("x", false);
    let (three, four) = (tensor(&[3]), tensor(&[4]));
    for order in [[&three, &list, &four], [&three, &four, &list], [&list, &three, &four]] {
        let fields = order.map(Clone::clone);
        assert_eq!(join_all(&fields, Shapes::Ragged).unwrap(), std::slice::from_ref(&list));
    }
}

#[test]
fn the_wider_text_wins_and_other_numpy_types_differ() {
    let text = |width: &str| with_metadata(FieldType::Text.field("x", false), NUMPY, width);
    assert_eq!(join_all(&[text("<U5"), text("<U12"), text("<U7")], Shapes::Equal).unwrap(), [text("<U12")]);
    let time =
        |unit: &str| with_metadata(FieldType::Scalar(DataType::FixedSizeBinary(8)).field("x", false), NUMPY, unit);
    assert!(join_all(&[time("<M8[ns]"), time("<M8[us]")], Shapes::Ragged).is_err());
}

#[test]
fn times_with_a_zone_and_without_one_are_not_joined() {
    let time = |logical: Option<&str>| {
        let field = FieldType::Scalar(DataType::FixedSizeBinary(8)).field("t", true);
        let field = with_metadata(field, NUMPY, "<M8[us]");
        logical.map_or(field.clone(), |logical| with_metadata(field, LOGICAL, logical))
    };
    let (zone, naive) = (time(Some("timestamp[us, tz=Europe/Berlin]")), time(Some("timestamp[us]")));
    for pair in [[zone.clone(), naive.clone()], [naive.clone(), zone.clone()], [time(None), zone.clone()]] {
        let refused = join_all(&pair, Shapes::Equal).unwrap_err().to_string();
        assert!(refused.contains("of the zone Europe/Berlin") && refused.contains("without a zone"), "{refused}");
    }
    assert!(join_all(&[time(None), naive], Shapes::Equal).is_ok());
}

#[test]
fn what_another_library_calls_a_column_stays_where_all_inputs_agree() {
    let label = |feature: Option<&str>| {
        let field = FieldType::Scalar(DataType::Int64).field("label", false);
        feature.map_or(field.clone(), |feature| with_metadata(field, HUGGINGFACE, feature))
    };
    let joined = |a, b| {
        let fields = join_all(&[label(a), label(b)], Shapes::Equal).unwrap();
        fields[0].metadata().get(HUGGINGFACE).cloned()
    };
    let (cats, dogs) = (Some(r#"{"names":["cat"]}"#), Some(r#"{"names":["dog"]}"#));
    assert_eq!(joined(cats, cats).as_deref(), cats);
    assert!([(cats, None), (None, cats)].into_iter().all(|(a, b)| joined(a, b).is_none()));
    let refused = |a, b| join_all(&[label(a), label(b)], Shapes::Equal).unwrap_err().to_string();
    assert!(refused(cats, dogs).contains("one number would name two classes"));
    let nested = |name| format!(r#"{{"_type":"List","feature":{{"_type":"ClassLabel","names":["{name}"]}}}}"#);
    assert!(refused(Some(&nested("cat")), Some(&nested("dog"))).contains("classes dog here and cat in"));
    // Names contradict each other also where an input between them has none, and where a cast makes types one.
    let between = join_all(&[label(cats), label(None), label(dogs)], Shapes::Equal).unwrap_err().to_string();
    assert!(between.contains("classes dog here and cat in 0.npz"), "{between}");
    assert!(join_all(&[label(None), label(cats), label(None), label(cats)], Shapes::Equal).is_ok());
    let short = with_metadata(FieldType::Scalar(DataType::Int32).field("label", false), HUGGINGFACE, dogs.unwrap());
    let add = |to: [&str; 2]| {
        let casts = Casts::new(&[(to[0].to_owned(), to[1].to_owned())].into()).unwrap();
        let (joining, mut columns) = (Joining { casts, ..Joining::default() }, MergedColumns::default());
        columns.add([&label(cats)].into_iter(), 1, Path::new("a"), &joining).unwrap();
        columns.add([&short].into_iter(), 1, Path::new("b"), &joining).map_err(|e| e.to_string())
    };
    assert!(add(["label", "i64"]).unwrap_err().contains("classes dog here and cat in a"));
}
