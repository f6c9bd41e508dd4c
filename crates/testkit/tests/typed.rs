//! The typed corpus contains what its documentation says.

use packhorse_core::FieldType;
use packhorse_testkit::typed;

#[test]
fn every_kind_of_field_is_in_the_corpus() {
    let kinds: Vec<String> = typed::corpus()
        .iter()
        .flat_map(|(_, rows)| {
            rows.schema().fields().iter().map(|f| FieldType::of(f).unwrap().to_string()).collect::<Vec<_>>()
        })
        .collect();
    for kind in ["Float16", "Boolean[3,4]", "UInt8[?,?]", "list<list<Int32>>", "list<Utf8View>", "blob", "text"] {
        assert!(kinds.iter().any(|k| k == kind), "no {kind} in {kinds:?}");
    }
}

#[test]
#[should_panic(expected = "field __key__ differs")]
fn different_values_are_detected() {
    let (_, rows) = typed::corpus().into_iter().find(|(name, _)| *name == "scalars").unwrap();
    typed::same(&[rows.slice(1, 3)], &rows.slice(2, 3), "shifted");
}
