//! Members copied in pieces equal members written from memory.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::{ArrayRef, Int64Array, LargeBinaryArray, RecordBatch, StringViewArray};
use packhorse_core::{
    DataType, Error, Field, Format, Input, InputRange, KEY, Kind, MemoryInput, Options, Result, Rows, Schema,
    ShardSummary,
};
use packhorse_testkit::memory::MemoryOutlet;
use packhorse_webdataset::WebDataset;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// A sample of a field of bytes, which may be null, and a label.
fn rows(key: &str, bytes: Option<&[u8]>) -> Rows {
    let fields = vec![
        Field::new(KEY, DataType::Utf8View, false),
        Field::new("bin", DataType::LargeBinary, true),
        Field::new("cls", DataType::Int64, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values([key])),
        Arc::new(LargeBinaryArray::from_iter([bytes])),
        Arc::new(Int64Array::from(vec![7])),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The files and the summary of a shard with one sample for each of `lens`, copied or pushed.
fn written(lens: &[usize], copied: bool) -> (BTreeMap<String, Vec<u8>>, ShardSummary) {
    let options: Options = [("index", "wids:md5,dali,energon")].into_iter().collect();
    let sink = WebDataset.sink(&options).unwrap();
    assert!(sink.copies());
    let mut outlet = MemoryOutlet::new();
    let mut writer = sink.create(&rows("a", None).schema(), &mut outlet).unwrap();
    for (i, len) in lens.iter().enumerate() {
        let bytes: Vec<u8> = (0..*len + 3).map(|at| (at * at + i) as u8).collect();
        let key = format!("key{i}");
        if copied {
            let input = MemoryInput::new("x", bytes);
            let part = InputRange { input: &input, offset: 3, len: *len as u64 };
            writer.push_parts(&rows(&key, None), &[("bin", part)]).unwrap();
        } else {
            writer.push(&rows(&key, Some(&bytes[3..]))).unwrap();
        }
    }
    let summary = writer.finish().unwrap();
    (outlet.files(), summary)
}

#[test]
fn a_copied_member_equals_a_pushed_one() {
    let lens = [0, 1, 511, 512, 513, 65_000, 65_536, 1 << 20, (1 << 20) + 1, 3_333_333, 200, 5 << 20];
    let ((files, summary), (wanted, known)) = (written(&lens, true), written(&lens, false));
    assert_eq!(files, wanted);
    assert_eq!((summary.samples, summary.bytes, summary.notes), (known.samples, known.bytes, known.notes));
    assert_eq!(summary.members, known.members);
}

/// An input that fails after its first bytes.
struct Failing;

impl Input for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn len(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    fn read_at(&self, offset: u64, _: &mut [u8]) -> Result<()> {
        match offset < 2 << 20 {
            true => Ok(()),
            false => Err(Error::new(Kind::Environment, "gave up")),
        }
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::bug("is not streamed"))
    }
}

#[test]
fn a_failed_read_of_a_copied_member_is_an_error() {
    let sink = WebDataset.sink(&Options::new()).unwrap();
    let mut outlet = MemoryOutlet::new();
    let mut writer = sink.create(&rows("a", None).schema(), &mut outlet).unwrap();
    let part = |len| InputRange { input: &Failing, offset: 0, len };
    let error = writer.push_parts(&rows("a", None), &[("bin", part(5 << 20))]).unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Environment, "gave up"));
    let error = writer.push_parts(&rows("b", None), &[("bin", part(9 << 30))]).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Limit, Some("b")));
}
