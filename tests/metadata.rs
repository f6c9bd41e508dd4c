//! The metadata of an input is parsed once a job, that of a shard once a loader; and rows of shards are decoded once while they fit the cache.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::core::{
    ArchiveMember, Blocks, Format, FormatInfo, Input, InputTable, Limits, Options, Registry, Result, Schema, Source,
    Table, TableInfo,
};
use packhorse::read::{Dataset, OpenOptions, ReadOptions};
use packhorse::storage::Local;
use packhorse::{Recipe, Session};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

static FORMATS: LazyLock<Registry> = LazyLock::new(packhorse::registry);

/// Opened inputs, and reads of their rows.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicUsize; 2]>);

impl Counts {
    fn opened(&self) -> usize {
        self.0[0].load(Ordering::Relaxed)
    }

    fn decoded(&self) -> usize {
        self.0[1].load(Ordering::Relaxed)
    }
}

/// A format whose opened inputs and reads of rows are counted.
struct Counted(&'static str, Counts);

impl Counted {
    fn format(&self) -> &'static dyn Format {
        &**FORMATS.get(self.0).unwrap()
    }
}

impl Format for Counted {
    fn info(&self) -> &'static FormatInfo {
        self.format().info()
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(CountedSource(self.format().source(options, limits)?, self.1.clone())))
    }
}

struct CountedSource(Box<dyn Source>, Counts);

struct CountedTable<'a>(Box<dyn Table + 'a>, Counts);

impl Table for CountedTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        self.0.info()
    }

    fn starts(&self, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        self.0.starts(each)
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        self.1.0[1].fetch_add(1, Ordering::Relaxed);
        self.0.rows(items)
    }
}

impl Source for CountedSource {
    fn list(&self, input: &dyn Input, each: &mut dyn FnMut(ArchiveMember<'_>) -> Result<()>) -> Result<()> {
        self.0.list(input, each)
    }

    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        self.1.0[0].fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(CountedTable(self.0.open(input)?, self.1.clone())))
    }

    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        self.0.tables(input)
    }

    fn columns<'a>(
        &'a self,
        input: &'a dyn Input,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Option<Blocks<'a>>> {
        self.0.columns(input, choose)
    }
}

/// Formats that read `id` and write TFRecord, and the counts of `id`.
fn counted(id: &'static str) -> (Registry, Counts) {
    let counts = Counts::default();
    let formats = Registry::new().with(packhorse_tfrecord::TfRecord).with(Counted(id, counts.clone()));
    (formats, counts)
}

/// A dataset of format `id` in three shards.
fn dataset(dir: &Path, id: &str) -> PathBuf {
    let (files, out) = (dir.join("files"), dir.join(id));
    std::fs::create_dir_all(&files).unwrap();
    for i in 0..300 {
        std::fs::write(files.join(format!("{i:03}.txt")), format!("sample {i} ").repeat(40)).unwrap();
    }
    let recipe = Recipe::new(&files, id, &out).with("samples-per-shard", "100").unwrap();
    packhorse::session().pack(&recipe).unwrap();
    out
}

/// `path` from the working folder, as users name inputs.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap();
    let up = here.ancestors().skip(1).map(|_| "..").collect::<PathBuf>();
    up.join(path.strip_prefix("/").unwrap())
}

#[test]
fn an_input_is_parsed_once_a_job() {
    let dir = tempfile::tempdir().unwrap();
    for id in ["hdf5", "parquet", "arrow", "root"] {
        let inputs = match id {
            "root" => {
                let trees = dir.path().join("trees");
                std::fs::create_dir(&trees).unwrap();
                for name in ["tree-lz4", "tree-zlib", "tree-zstd"] {
                    let tree = format!("{}/formats/root/tests/data/{name}.root", env!("CARGO_MANIFEST_DIR"));
                    std::fs::copy(tree, trees.join(name).with_extension("root")).unwrap();
                }
                trees
            }
            // Its shards alone, as files of unknown origin.
            _ => {
                let whole = dataset(dir.path(), id);
                for file in std::fs::read_dir(&whole).unwrap().map(|file| file.unwrap().path()) {
                    let name = file.file_name().unwrap().to_str().unwrap();
                    if !name.starts_with("shard-") || name.ends_with(".json") {
                        std::fs::remove_file(file).unwrap();
                    }
                }
                whole
            }
        };
        let (formats, counts) = counted(id);
        // Sizes are found by a trial, in which some inputs are read too.
        let recipe = Recipe::new(relative(&inputs), "tfrecord", dir.path().join(format!("{id} to tfrecord")));
        let recipe = recipe.with("shard-size", "4KiB").unwrap();
        let packed = Session::new(formats).jobs(4).pack(&recipe).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert!(packed.report.samples >= 60 && packed.report.shards > 1, "{id}: {:?}", packed.report);
        assert_eq!(counts.opened(), 3, "{id}");
    }
}

#[test]
fn a_shard_is_parsed_once_a_loader() {
    let dir = tempfile::tempdir().unwrap();
    for id in ["hdf5", "parquet", "arrow"] {
        let shards = dataset(dir.path(), id);
        let (formats, counts) = counted(id);
        let dataset = Dataset::open(&formats, Arc::new(Local), &shards, &OpenOptions::default()).unwrap();
        let loader = dataset.loader(20).field("text", "txt").seed(1).epochs(3).threads(2).build().unwrap();
        let samples: usize = loader.map(|batch| batch.unwrap().rows()).sum();
        assert_eq!((samples, counts.opened()), (900, 3), "{id}");
    }
}

/// Columns of a record batch share its memory, which counts once.
#[test]
fn rows_of_many_columns_stay_in_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("table.csv");
    let head: Vec<String> = (0..40).map(|column| format!("c{column:02}")).collect();
    let line = |row: usize| (0..40).map(|column| format!("{row}.{column}")).collect::<Vec<_>>().join(",");
    let lines: Vec<String> = std::iter::once(head.join(",")).chain((0..3000).map(line)).collect();
    std::fs::write(&table, lines.join("\n") + "\n").unwrap();
    for id in ["hdf5", "parquet", "arrow", "tfrecord"] {
        let out = dir.path().join(id);
        let recipe = Recipe::new(&table, id, &out).with("samples-per-shard", "500").unwrap();
        packhorse::session().pack(&recipe).unwrap();
        let (formats, counts) = if id == "tfrecord" {
            let counts = Counts::default();
            (Registry::new().with(Counted(id, counts.clone())), counts)
        } else {
            counted(id)
        };
        let dataset = Dataset::open(&formats, Arc::new(Local), &out, &OpenOptions::default()).unwrap();
        // A megabyte of numbers in all, with the room of their decoders some more: six shards, each of them a block.
        let read = ReadOptions { rows: 16 << 20, ..ReadOptions::default() };
        let loader = dataset.loader(20).field("x", "c07").seed(1).configure(|options| options.read = read);
        let samples: usize = loader.epochs(2).threads(2).build().unwrap().map(|batch| batch.unwrap().rows()).sum();
        assert_eq!((samples, counts.decoded()), (6000, 6), "{id}");
    }
}

/// A shuffle in windows decodes each run of rows once, with a cache of a small part of the rows.
#[test]
fn rows_that_are_shuffled_in_windows_are_decoded_once() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("table.csv");
    let line = |row: usize| format!("{row},{}\n", "some text ".repeat(1 + row % 7));
    std::fs::write(&table, "n,t\n".to_owned() + &(0..40_000).map(line).collect::<String>()).unwrap();
    for (id, threads) in [("hdf5", 0), ("parquet", 2), ("arrow", 2)] {
        let out = dir.path().join(id);
        packhorse::session().pack(&Recipe::new(&table, id, &out).with("samples-per-shard", "9950").unwrap()).unwrap();
        let (formats, counts) = counted(id);
        let dataset = Dataset::open(&formats, Arc::new(Local), &out, &OpenOptions::default()).unwrap();
        let read = ReadOptions { rows: 2 << 20, ..ReadOptions::default() };
        let loader =
            dataset.loader(100).field("n", "n").field("t", "t").shuffle("blocks:2:window:6400".parse().unwrap());
        let loader =
            loader.configure(|options| (options.read, options.seed) = (read, 5)).threads(threads).build().unwrap();
        let mut found: Vec<i64> = loader.flat_map(|batch| batch.unwrap().integers("n").collect::<Vec<_>>()).collect();
        assert!(!found.is_sorted());
        found.sort_unstable();
        assert_eq!(found, (0..40_000).collect::<Vec<_>>(), "{id}");
        // Four shards of 99 whole runs of 100 rows and of 50 more, and one of 200 rows.
        assert_eq!(counts.decoded(), 4 * 99 + 4 + 2, "{id}");
    }
}

/// Shards of rows that are too large to be decoded together are shuffled in windows; files never are.
#[test]
fn large_tables_are_shuffled_in_windows() {
    let dir = tempfile::tempdir().unwrap();
    let array = |name: &str, rows: u64| {
        // Rows of 1 MiB of zeros.
        let path = dir.path().join(name);
        let mut head = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({rows}, 1048576), }}").into_bytes();
        head.resize(117, b' ');
        std::fs::write(&path, [&b"\x93NUMPY\x01\x00\x76\x00"[..], &head, b"\n"].concat()).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(128 + (rows << 20)).unwrap();
        path
    };
    let (large, small) = (array("large.npy", 250), array("small.npy", 20));
    let shuffle = |input: &Path, to: &str, rows: bool| {
        let out = dir.path().join(format!("{to}-{}", input.file_stem().unwrap().display()));
        let mut recipe = Recipe { rows, ..Recipe::new(input, to, &out).with("shard-size", "100MiB").unwrap() };
        if to == "hdf5" {
            recipe = recipe.with("filter", "none").unwrap();
        }
        packhorse::session().pack(&recipe).unwrap();
        packhorse::open(out.to_str().unwrap()).unwrap().default_shuffle().to_string()
    };
    // Of rows with their metadata, slightly more than 1 MiB each, 120 MiB have less than two runs of 64.
    assert_eq!(shuffle(&large, "hdf5", true), "blocks:16:window:64");
    assert_eq!(shuffle(&small, "hdf5", true), "blocks:16");
    assert_eq!(shuffle(&large, "webdataset", false), "blocks:16");
}
