//! Memory for writing and reading does not grow with the shard.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use arrow_array::{ArrayRef, BinaryViewArray, Int64Array, RecordBatch, StringViewArray};
use packhorse_core::{DataType, Error, FieldType, Format, Input, KEY, Limits, Options, Result, Rows, Schema};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::memory::FolderOutlet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};

struct Opened(Mutex<File>, u64);

impl Input for Opened {
    fn name(&self) -> &str {
        "shard.h5"
    }

    fn len(&self) -> Option<u64> {
        Some(self.1)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut file = self.0.lock().unwrap();
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.read_exact(buf).unwrap();
        Ok(())
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::bug("HDF5 is read by position"))
    }
}

/// 64 samples of two pictures, together 4 MiB.
fn batch(number: usize) -> Rows {
    let blob = |seed: usize| {
        let blobs = (0..64).map(move |i| vec![(number + i + seed) as u8; 32 << 10]);
        Arc::new(BinaryViewArray::from_iter_values(blobs)) as ArrayRef
    };
    let columns: Vec<(&str, FieldType, ArrayRef)> = vec![
        (KEY, FieldType::Text, Arc::new((0..64).map(|i| Some(format!("{number}/{i}"))).collect::<StringViewArray>())),
        ("cls", FieldType::Scalar(DataType::Int64), Arc::new((0..64).collect::<Int64Array>())),
        ("jpg", FieldType::Blob, blob(0)),
        ("png", FieldType::Blob, blob(99)),
    ];
    let fields: Vec<_> = columns.iter().map(|(name, kind, _)| kind.field(name, false)).collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Peak memory of this process in MiB; 0 if the system does not report it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) >> 10
}

#[test]
fn memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Hdf5.sink(&Options::new()).unwrap();
    let mut writer = sink.create(&batch(0).schema(), &mut FolderOutlet(dir.path().join("shard"))).unwrap();
    let batches = 75;
    (0..batches).for_each(|number| writer.push(&batch(number)).unwrap());
    let summary = writer.finish().unwrap();
    assert!(summary.bytes > 300 << 20);
    let path = dir.path().join("shard.h5");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), summary.bytes);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside the shard");
    let input = Opened(Mutex::new(File::open(path).unwrap()), summary.bytes);
    let source = Hdf5.source(&Options::new(), Limits::default()).unwrap();
    let rows: usize =
        source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap().map(|rows| rows.unwrap().num_rows()).sum();
    assert_eq!(rows, 64 * batches);
    assert!(peak() < 120, "{} MiB", peak());
}
