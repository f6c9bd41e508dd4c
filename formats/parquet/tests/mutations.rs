//! Thousands of damaged files in a process with little memory: each gives an error or rows. A reader that allocates the
//! sizes that a file declares would end the process.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use nix::sys::resource::{Resource, setrlimit};
use packhorse_core::{Format, Kind, Limits, MemoryInput, Options, Result, Source, is_contained};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::external::data;
use packhorse_testkit::typed;
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The address space of this process, including stacks and the allocator's reserves.
const MEMORY: u64 = 4 << 30;

/// The number of panics outside of `contained`.
static PANICS: AtomicU32 = AtomicU32::new(0);

/// A deterministic random generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Damages `bytes` in one to three places, half of them near the end, where the metadata is.
fn damage(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(3) {
        let tail = bytes.len().min(600);
        let at = if random.below(2) == 0 { random.below(bytes.len()) } else { bytes.len() - 1 - random.below(tail) };
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at] = 0xff,
            // The bytes of a long varint.
            _ => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = [0xff, 0x7f, 0x80, 0][random.below(4)]),
        }
    }
}

/// Reads all, a part, and as a table.
fn read(source: &dyn Source, bytes: Vec<u8>) -> Result<()> {
    let input = MemoryInput::new("damaged", bytes);
    let open = source.open(Arc::new(&input))?;
    let info = open.info()?;
    for items in [0..u64::MAX, info.items / 3..info.items / 2] {
        open.rows(items)?.take(1000).try_for_each(|rows| rows.map(drop))?;
    }
    let table = source.columns(&input, &mut |schema| Ok((0..schema.fields().len()).collect()))?;
    table.into_iter().flatten().take(1000).try_for_each(|rows| rows.map(drop))
}

fn withstands(format: &dyn Format, whole: &[u8], rounds: usize, random: &mut Random) {
    let limits = Limits { blob: 128 << 20, ..Limits::default() };
    let source = format.source(&[("unsupported", "skip")].into_iter().collect(), limits).unwrap();
    for round in 0..rounds {
        let mut bytes = whole.to_vec();
        if round > 0 {
            damage(&mut bytes, random);
        }
        if let Err(error) = read(&*source, bytes) {
            let kinds = [Kind::Content, Kind::Unsupported, Kind::Limit, Kind::Config];
            assert!(kinds.contains(&error.kind()), "{:?} {error}", error.kind());
        }
    }
}

/// Options by name.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// Our own files: every kind of field, compressed and plain pages.
fn ours() -> Vec<(&'static dyn Format, Vec<u8>)> {
    let mut files = Vec::new();
    let settings: [(&'static dyn Format, Pairs<'_>); 5] = [
        (&Parquet, &[]),
        (&Parquet, &[("compression", "none"), ("row-group", "4")]),
        (&Parquet, &[("compression", "snappy")]),
        (&ArrowIpc, &[("compression", "lz4")]),
        (&ArrowIpc, &[("stream", "on"), ("batch", "3")]),
    ];
    for (format, pairs) in settings {
        let sink = format.sink(&pairs.iter().copied().collect()).unwrap();
        for (_, rows) in typed::corpus() {
            let rows = rows.slice(0, rows.num_rows().min(60));
            let bytes = typed::write(&*sink, &rows, &[rows.num_rows()]).remove(sink.suffix()).unwrap();
            if bytes.len() < 100_000 {
                files.push((format, bytes));
            }
        }
    }
    files
}

/// The valid and the damaged files of the Parquet project, if available.
fn public() -> Vec<(&'static dyn Format, Vec<u8>)> {
    let Some(data) = data() else { return Vec::new() };
    let folders = ["data", "bad_data"].map(|folder| Path::new(&data).join("parquet-testing").join(folder));
    let names = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    let mut paths: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files = paths.iter().filter(|path| path.extension().is_some_and(|end| end == "parquet"));
    let files = files.map(|path| (&Parquet as &'static dyn Format, std::fs::read(path).unwrap()));
    files.filter(|(_, bytes)| bytes.len() < 100_000).collect()
}

/// A column of text in this encoding, uncompressed.
fn encoded(encoding: Encoding, version: WriterVersion) -> Vec<u8> {
    let text: ArrayRef = Arc::new((0..500).map(|i| Some(format!("key{i:05}"))).collect::<StringArray>());
    let rows = RecordBatch::try_from_iter([("text", text)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
    let properties = properties.set_writer_version(version).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn impossible_numbers_of_values_are_refused() {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).unwrap();
    let source = Parquet.source(&Options::new(), Limits::default()).unwrap();
    for encoding in [Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let whole = encoded(encoding, version);
            read(&*source, whole.clone()).unwrap();
            // 128 values per block, 4 miniblocks, 500 values.
            let header = [0x80, 1, 4, 0xf4, 3];
            let places: Vec<usize> = (0..whole.len() - 16).filter(|at| whole[*at..].starts_with(&header)).collect();
            assert!(!places.is_empty());
            for at in places {
                let mut bytes = whole.clone();
                bytes[at + 3..at + 11].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
                assert_eq!(read(&*source, bytes).unwrap_err().kind(), Kind::Content);
            }
        }
    }
}

#[test]
fn a_footer_with_more_columns_than_bytes_is_refused() {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).unwrap();
    let root = [0x48, 1, b'r', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0];
    let footer = [&[0x15, 2, 0x19, 0x1c][..], &root, &[0x16, 0, 0x19, 0x0c, 0]].concat();
    let bytes = [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat();
    let source = Parquet.source(&Options::new(), Limits::default()).unwrap();
    assert_eq!(read(&*source, bytes).unwrap_err().kind(), Kind::Content);
}

#[test]
fn no_damage_ends_the_process_or_panics() {
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !is_contained() {
            PANICS.fetch_add(1, Ordering::Relaxed);
            hook(info);
        }
    }));
    let rounds = std::env::var("PACKHORSE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut random = Random(0x5eed);
    for (format, whole) in ours().into_iter().chain(public()) {
        withstands(format, &whole, rounds, &mut random);
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}
