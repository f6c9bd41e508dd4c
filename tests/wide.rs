//! Tables of very many columns take time by the number of their columns, not by its square.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use arrow_array::{ArrayRef, Float32Array, RecordBatch, StringViewArray};
use packhorse::core::{DataType, FieldType, KEY, Options, Schema};
use packhorse_testkit::program;
use packhorse_testkit::typed;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const COLUMNS: usize = 10_000;

/// Three rows of so many numbers.
fn table(dir: &Path) {
    let mut fields = vec![FieldType::Text.field(KEY, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from_iter_values(["a", "b", "c"]))];
    for i in 0..COLUMNS {
        fields.push(FieldType::Scalar(DataType::Float32).field(&format!("column{i:05}"), false));
        columns.push(Arc::new(Float32Array::from(vec![i as f32, 0.5, -(i as f32)])));
    }
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let sink = packhorse::registry().get("arrow").unwrap().sink(&Options::new()).unwrap();
    let (_, bytes) =
        typed::write(&*sink, &rows, &[3]).into_iter().find(|(suffix, _)| *suffix == sink.suffix()).unwrap();
    std::fs::create_dir(dir).unwrap();
    std::fs::write(dir.join("wide.arrow"), bytes).unwrap();
}

fn pack(input: &Path, to: &str, out: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command.arg("pack").arg(input).args(["--quiet", "--to", to, "--out"]).arg(out);
    // An unoptimized build takes some seconds; by the square of the columns it would take many minutes.
    let ran = program::run(&mut command, Duration::from_secs(100));
    assert_eq!(ran.code, Some(0), "to {to}: {}", ran.stderr);
}

#[test]
fn ten_thousand_columns_go_into_webdataset_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    table(&at("in"));
    pack(&at("in"), "webdataset", &at("tars"));
    pack(&at("tars"), "arrow", &at("back"));
    pack(&at("in"), "arrow", &at("straight"));
    let bytes = |name: &str| std::fs::read(at(name).join("shard-000000.arrow")).unwrap();
    assert!(bytes("back") == bytes("straight"), "the values that came back are others");
}
