//! Batches from datasets that the command made, and from those of others: the same from every container, every place
//! and every cache.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "common/bytes.rs"]
#[expect(dead_code, reason = "this test takes the tokenizer")]
mod bytes;

use packhorse::read::cache::DirOptions;
use packhorse::read::order::{Rank, Shuffle};
use packhorse::read::*;
use packhorse::transform::image::View;
use packhorse_testkit::external::python;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packhorse(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).arg("--quiet").output().unwrap();
    let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
    assert!(output.status.success(), "{args:?}\n{text}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Photos in folders of classes, packed; and the folder of the photos.
fn photos(dir: &Path, count: u32, args: &[&str]) -> (PathBuf, PathBuf) {
    let (from, to) = (dir.join("photos"), dir.join("shards"));
    packhorse(&["synth", "images", "--count", &count.to_string(), "--out", text(&from)]);
    let all = [
        "pack",
        text(&from),
        "--to",
        "webdataset",
        "--out",
        text(&to),
        "--labels",
        "folders",
        "--samples-per-shard",
        "17",
    ];
    packhorse(&[&all, args].concat());
    (from, to)
}

fn sequential(batch: u32) -> LoaderOptions {
    LoaderOptions {
        shuffle: Some(Shuffle::Sequential),
        remainder: Remainder::Uneven,
        threads: 2,
        ..LoaderOptions::new(batch)
    }
}

/// By key all fields of all samples.
fn samples(dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for batch in Loader::new(dataset.clone(), fields, options, Host::default()).unwrap() {
        let batch = batch.unwrap();
        for row in 0..batch.rows() {
            let field = |field: &FieldOptions| batch.row(&field.name, row).unwrap().to_vec();
            let before = found.insert(batch.key(row).unwrap().to_owned(), fields.iter().map(field).collect());
            assert!(before.is_none());
        }
    }
    found
}

/// All bytes of all batches.
fn stream(dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions) -> Vec<Vec<u8>> {
    bytes(Loader::new(dataset.clone(), fields, options, Host::default()).unwrap())
}

fn bytes(loader: Loader<Host>) -> Vec<Vec<u8>> {
    let layout = loader.layout().clone();
    let fields = layout.fields();
    loader
        .map(|batch| {
            let batch = batch.unwrap();
            let keys = (0..batch.rows()).flat_map(|row| batch.key(row).unwrap().bytes());
            keys.chain(fields.iter().flat_map(|field| batch.field(&field.name).unwrap().to_vec())).collect()
        })
        .collect()
}

#[test]
fn a_sealed_dataset_has_its_photos_labels_and_splits() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = photos(dir.path(), 100, &["--shuffle", "3", "--split", "train=0.8,val=0.2"]);
    let dataset = open(text(&to)).unwrap();
    let (train, val) = (dataset.split("train").unwrap(), dataset.split("val").unwrap());
    assert_eq!((dataset.len(), train.len() + val.len()), (100, 100));
    let fields = [FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
    let found = samples(&dataset, &fields, &sequential(16));
    assert_eq!(found.len(), 100);
    for (key, values) in &found {
        assert!(values[0] == std::fs::read(from.join(format!("{key}.jpg"))).unwrap());
        let class = key.split('/').next().unwrap();
        let label = i64::from_le_bytes(values[1][..].try_into().unwrap());
        assert_eq!(dataset.classes()[label as usize], class);
    }
    assert_eq!(samples(&train, &fields, &sequential(7)).len() as u64, train.len());
    assert!(train.split("test").unwrap_err().to_string().contains("train"));
}

#[test]
fn the_builder_gives_the_batches_of_the_options() {
    let dir = tempfile::tempdir().unwrap();
    let (_, to) = photos(dir.path(), 60, &["--shuffle", "1"]);
    let (dataset, view) = (open(text(&to)).unwrap(), View::random_crop(32).flip(0.5));
    let fields = [
        FieldOptions::new("image", FieldKind::Picture(view)).from("jpg;png"),
        FieldOptions::new("cls", FieldKind::Auto),
    ];
    let rank = Rank { rank: 1, world_size: 2 };
    let options = LoaderOptions { rank, seed: 7, epochs: Some(2), threads: 1, ..LoaderOptions::new(8) };
    let wanted = stream(&dataset, &fields, &options);
    let settings = dataset.loader(8).image("image", "jpg;png", view).field("cls", "cls");
    let settings = settings.rank(rank).seed(7).epochs(2).threads(2);
    assert_eq!(bytes(settings.clone().build().unwrap()), wanted);
    let mut loader = settings.clone().build().unwrap();
    loader.by_ref().take(2).for_each(|batch| drop(batch.unwrap()));
    let rest = settings.resume(&loader.state()).build().unwrap();
    assert_eq!(bytes(rest), wanted[2..]);
    let mixed = [(dataset.clone(), 2.0), (dataset, 1.0)];
    let long = Loader::mixed(&mixed, 40, &fields, &options, Host::default()).unwrap();
    let short = Dataset::mixed_loader(&mixed, 40, 8).fields(fields.clone()).configure(|all| *all = options.clone());
    assert_eq!(bytes(short.rank(rank).build().unwrap()), bytes(long));
}

#[test]
fn without_its_manifest_it_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (_, to) = photos(dir.path(), 60, &["--shuffle", "1"]);
    let fields = [FieldOptions::new("jpg", FieldKind::Bytes)];
    let options = LoaderOptions { threads: 2, shuffle: Some(Shuffle::Blocks { shards: 2 }), ..LoaderOptions::new(8) };
    let wanted = stream(&open(text(&to)).unwrap(), &fields, &options);
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    for entry in std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "tar") {
            std::fs::copy(&entry, foreign.join(entry.file_name().unwrap())).unwrap();
        }
    }
    let pattern = format!("{}/shard-{{000000..000003}}.tar", foreign.display());
    let glob = format!("{}/*.tar", foreign.display());
    let indexes = dir.path().join("indexes");
    let kept = OpenOptions { indexes: Some(indexes.clone()), ..OpenOptions::default() };
    for place in [text(&foreign), &pattern, &glob] {
        for options_of_open in [OpenOptions::default(), kept.clone(), kept.clone()] {
            let stores = packhorse::storage::Stores::default();
            let dataset = open_with(place, &stores, &options_of_open).unwrap();
            assert!(stream(&dataset, &fields, &options) == wanted, "{place}");
        }
    }
    assert_eq!(
        std::fs::read_dir(indexes)
            .unwrap()
            .filter(|e| !text(&e.as_ref().unwrap().path()).ends_with(".staging"))
            .count(),
        4
    );
}

#[test]
fn every_container_gives_the_same_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("arrays");
    packhorse(&["synth", "npz", "--count", "70", "--out", text(&from)]);
    let mut wanted: Option<BTreeMap<String, Vec<Vec<u8>>>> = None;
    for to in ["hdf5", "parquet", "arrow", "tfrecord", "webdataset"] {
        let out = dir.path().join(to);
        packhorse(&["pack", text(&from), "--to", to, "--out", text(&out), "--samples-per-shard", "25", "--ragged"]);
        let dataset = open(text(&out)).unwrap();
        let names: Vec<&str> = dataset.schema().fields().iter().map(|field| field.name().as_str()).collect();
        let named = |name: &str| names.iter().find(|known| known.split('.').next() == Some(name)).unwrap().to_string();
        let field = |name: &str, kind| FieldOptions::new(name, kind).from(&named(name));
        let fields = [field("x", FieldKind::Dense), field("y", FieldKind::Auto), field("t", FieldKind::Ragged)];
        let found = samples(&dataset, &fields, &sequential(16));
        assert_eq!((found.len(), found.values().next().unwrap()[0].len()), (70, 1024), "{to}");
        let full = ReadOptions { verify: Verify::Full, rows: 1, ..ReadOptions::default() };
        let options = LoaderOptions { shuffle: Some(Shuffle::Full), read: full, threads: 3, ..sequential(9) };
        assert!(samples(&dataset, &fields, &options) == found, "{to}");
        // What was packed as ragged is so in batches, whatever the first samples are.
        let of_t = |kind| samples(&dataset, &[field("t", kind)], &options);
        assert!(of_t(FieldKind::Auto) == of_t(FieldKind::Ragged), "{to}");
        match &wanted {
            None => wanted = Some(found),
            Some(wanted) => assert!(*wanted == found, "{to}"),
        }
    }
}

#[cfg(feature = "tokenize")]
#[test]
fn tokens_are_samples_too() {
    let dir = tempfile::tempdir().unwrap();
    let (corpus, tokenizer, out) = (dir.path().join("a.jsonl"), dir.path().join("t.json"), dir.path().join("tokens"));
    let text_of = |i: usize| format!("document {i} {}", "x".repeat(i * 7 % 50));
    std::fs::write(&corpus, (0..90).map(|i| format!("{{\"text\": \"{}\"}}\n", text_of(i))).collect::<String>())
        .unwrap();
    std::fs::write(&tokenizer, bytes::tokenizer()).unwrap();
    let args = ["pack", text(&corpus), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(&out)];
    packhorse(&[&args[..], &["--samples-per-shard", "40"]].concat());
    // Sealed, as a pattern, and one pair without a manifest.
    let pair = dir.path().join("pair");
    std::fs::create_dir(&pair).unwrap();
    for name in ["shard-000000.idx", "shard-000000.bin"] {
        std::fs::copy(out.join(name), pair.join(name)).unwrap();
    }
    let pattern = format!("{}/*.idx", out.display());
    for (place, count) in
        [(text(&out), 90), (&pattern, 90), (text(&pair), 40), (text(&pair.join("shard-000000.idx")), 40)]
    {
        let dataset = open(place).unwrap();
        if place == text(&out) {
            let size = |name: &str| std::fs::metadata(out.join(name)).unwrap().len();
            let shards = ["shard-000000", "shard-000001", "shard-000002"];
            let sizes = shards.map(|name| size(&format!("{name}.idx")) + size(&format!("{name}.bin")));
            assert_eq!(dataset.bytes(), sizes.iter().sum::<u64>());
        }
        let fields = [FieldOptions::new("tokens", FieldKind::Ragged)];
        let read = ReadOptions { verify: Verify::Full, ..ReadOptions::default() };
        let loader = Loader::new(dataset, &fields, &LoaderOptions { read, ..sequential(8) }, Host::default()).unwrap();
        let mut number = 0;
        for batch in loader {
            let batch = batch.unwrap();
            for row in 0..batch.rows() {
                let ids: Vec<u16> = text_of(number).bytes().map(u16::from).collect();
                let wanted: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                assert_eq!(batch.row("tokens", row).unwrap(), wanted, "{place} {number}");
                number += 1;
            }
        }
        assert_eq!(number, count, "{place}");
    }
}

#[test]
fn a_flipped_bit_is_named_or_nobody_looked() {
    let dir = tempfile::tempdir().unwrap();
    let (_, to) = photos(dir.path(), 20, &[]);
    let shard = to.join("shard-000000.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    let at = bytes.len() / 2 / 512 * 512 + 300;
    bytes[at] ^= 4;
    std::fs::write(&shard, &bytes).unwrap();
    let dataset = open(text(&to)).unwrap();
    let fields = [FieldOptions::new("jpg", FieldKind::Bytes)];
    let with = |verify| {
        let read = ReadOptions { verify, ..ReadOptions::default() };
        let options = LoaderOptions { read, ..sequential(1) };
        Loader::new(dataset.clone(), &fields, &options, Host::default()).unwrap().collect::<Vec<_>>()
    };
    assert!(with(Verify::Header).iter().all(Result::is_ok));
    let errors: Vec<String> = with(Verify::Full).into_iter().filter_map(|b| b.err().map(|e| e.to_string())).collect();
    assert!(errors.len() == 1 && errors[0].contains("CRC-32C"), "{errors:?}");
    // A shard that was cut is not delivered as if whole.
    std::fs::write(&shard, &bytes[..bytes.len() - 1024]).unwrap();
    let error = with(Verify::Header).into_iter().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("shard-000000.tar") && error.contains("cut short"), "{error}");
}

/// Every way to keep shards near that there is.
fn caches(dir: &Path) -> Vec<CacheOptions> {
    let folder = |limit, fraction| Some(DirOptions { limit, fraction, wait: true, ..DirOptions::new(dir) });
    let mut all = Vec::new();
    for ram in [0, 100 << 10, 1 << 30] {
        for dir in [None, folder(None, 1.0), folder(None, 0.5), folder(Some(500 << 10), 1.0)] {
            all.push(CacheOptions { ram, dir });
        }
    }
    all
}

#[test]
fn caches_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (_, to) = photos(dir.path(), 60, &["--shuffle", "1"]);
    let fields = [FieldOptions::new("jpg", FieldKind::Bytes)];
    let options = LoaderOptions { shuffle: Some(Shuffle::Blocks { shards: 2 }), epochs: Some(2), ..sequential(8) };
    let foreign = format!("{}/*.tar", to.display());
    for place in [text(&to), &foreign] {
        let dataset = open(place).unwrap();
        let wanted = stream(&dataset, &fields, &options);
        for cache in caches(&dir.path().join("near")) {
            for threads in [1, 4] {
                let options = LoaderOptions { cache: cache.clone(), threads, ..options.clone() };
                assert!(stream(&dataset, &fields, &options) == wanted, "{place} {cache:?}");
            }
        }
    }
    // A cache that holds all of it is asked, and the shards are not.
    let dataset = open(text(&to)).unwrap();
    let cache = CacheOptions { ram: 1 << 30, dir: None };
    let options = LoaderOptions { cache, epochs: Some(3), threads: 0, ..options };
    let mut loader = Loader::new(dataset.clone(), &fields, &options, Host::default()).unwrap();
    assert_eq!(loader.by_ref().map(|batch| batch.unwrap().rows()).sum::<usize>(), 180);
    let counters = loader.ram().unwrap();
    assert!(counters.hits > 0 && counters.bytes_read <= dataset.bytes(), "{counters:?}");
}

#[test]
fn shards_of_others_are_read() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/shards_of_others.py");
    let output = Command::new(python).arg(script).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fields = [FieldOptions::new("bin", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
    for kind in ["webdataset", "gnutar", "pax", "gnu"] {
        let dataset = open(text(&dir.path().join(kind))).unwrap();
        let found = samples(&dataset, &fields, &sequential(8));
        assert_eq!(found.len(), 50, "{kind}");
        for (key, values) in &found {
            let number: usize = key.rsplit('-').next().unwrap().parse().unwrap();
            assert_eq!(values[0], format!("{number};").repeat(number * 37 % 400).as_bytes(), "{kind} {key}");
            assert_eq!(values[1], (number as i64 % 10).to_le_bytes(), "{kind} {key}");
        }
    }
}

#[test]
fn a_compressed_tar_is_read_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (_, to) = photos(dir.path(), 17, &[]);
    let fields = [FieldOptions::new("jpg", FieldKind::Bytes)];
    let wanted = stream(&open(text(&to)).unwrap(), &fields, &sequential(4));
    let packed = dir.path().join("a.tar.zst");
    let bytes = std::fs::read(to.join("shard-000000.tar")).unwrap();
    std::fs::write(&packed, zstd::encode_all(&bytes[..], 1).unwrap()).unwrap();
    let loader = packhorse::read::stream(text(&packed), &fields, &sequential(4), Host::default()).unwrap();
    let found: Vec<usize> = loader.map(|batch| batch.unwrap().field("jpg").unwrap().len()).collect();
    assert_eq!(
        (found.len(), found.iter().sum::<usize>()),
        (5, {
            let keys: usize = wanted.iter().map(Vec::len).sum();
            // Offsets and keys are beside the photos there.
            let others: usize =
                samples(&open(text(&to)).unwrap(), &fields, &sequential(4)).keys().map(String::len).sum();
            keys - others - 8 * (17 + 5)
        })
    );
    let error = open(text(&packed)).unwrap_err().to_string();
    assert!(error.contains("compressed as a whole") && error.contains("pack"), "{error}");
}

#[test]
fn the_command_measures_each_stage() {
    let dir = tempfile::tempdir().unwrap();
    let (_, to) = photos(dir.path(), 40, &[]);
    for more in [&["--size", "64", "--augment"][..], &["--map", "--shuffle", "full"], &["--fields", "cls"]] {
        let args = ["bench", "read", text(&to), "--seconds", "0.1", "--batch", "8", "--json"];
        let json: serde_json::Value = serde_json::from_str(&packhorse(&[&args, more].concat())).unwrap();
        let stages = json["stages"].as_array().unwrap();
        let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
        assert_eq!(names, ["raw", "parse", "decode", "batch"]);
        assert!(stages.iter().all(|stage| stage["samples_per_s"].as_f64().unwrap() > 0.0), "{json}");
    }
}

/// Fields that batches can't hold: which, of which file, and what else can be asked for.
#[test]
fn fields_that_batches_can_not_hold_are_named_with_the_way_out() {
    use arrow_array::builder::{FixedSizeListBuilder, Int64Builder, ListBuilder, StringBuilder};
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;
    let dir = tempfile::tempdir().unwrap();
    let mut nested = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    // Text along two dimensions.
    let mut words = FixedSizeListBuilder::new(FixedSizeListBuilder::new(StringBuilder::new(), 1), 1);
    for i in 0..16 {
        words.values().values().append_value("a");
        words.values().append(true);
        words.append(true);
        nested.values().append_value([Some(i), Some(7)]);
        nested.values().append_value([Some(i)]);
        nested.append(true);
    }
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..16));
    let (nested, words): (ArrayRef, ArrayRef) = (Arc::new(nested.finish()), Arc::new(words.finish()));
    let rows = RecordBatch::try_from_iter([("list", nested), ("words", words), ("y", number)]).unwrap();
    let file = dir.path().join("nested.arrow");
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new(std::fs::File::create(&file).unwrap(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    let bench = |fields: &[&str]| {
        let args = ["bench", "read", text(&file), "--batch", "4", "--seconds", "0.05"];
        Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).args(fields).output().unwrap()
    };
    let refused = bench(&[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(8), "{said}");
    let words = ["nested.arrow: field words", "batches can't hold", "they can hold list, y", "--fields"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert!(bench(&["--fields", "list,y"]).status.success());
}

#[cfg(feature = "remote")]
mod remote {
    use super::*;
    use packhorse::storage::{RemoteOptions, Stores};
    use packhorse_testkit::web::{HttpFault, Server};
    use std::time::Duration;

    fn options(threads: usize) -> LoaderOptions {
        LoaderOptions { threads, readers: 4, shuffle: Some(Shuffle::Blocks { shards: 2 }), ..LoaderOptions::new(8) }
    }

    #[test]
    fn over_http_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (_, to) = photos(dir.path(), 60, &["--shuffle", "1"]);
        let fields = [FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
        let wanted = stream(&open(text(&to)).unwrap(), &fields, &options(2));
        let server = Server::honest(&to);
        for place in ["", "dataset.json", "shard-%7B000000..000003%7D.tar", "shard-{000000..000003}.tar"] {
            let dataset = open(&server.url(place)).unwrap_or_else(|error| panic!("{place}: {error}"));
            for threads in [1, 2, 8] {
                assert!(stream(&dataset, &fields, &options(threads)) == wanted, "{place} {threads}");
            }
            for cache in caches(&dir.path().join("near")) {
                let options = LoaderOptions { cache: cache.clone(), ..options(2) };
                assert!(stream(&dataset, &fields, &options) == wanted, "{place} {cache:?}");
            }
        }
    }

    #[test]
    fn a_fifth_of_all_requests_may_fail() {
        let dir = tempfile::tempdir().unwrap();
        let (_, to) = photos(dir.path(), 60, &["--shuffle", "1"]);
        let fields = [FieldOptions::new("jpg", FieldKind::Bytes)];
        let wanted = stream(&open(text(&to)).unwrap(), &fields, &options(2));
        let server = Server::new(&to, move |asked| match asked.number.wrapping_mul(0x9e37_79b9) >> 16 & 0xff {
            n if n >= 51 => HttpFault::None,
            n if n % 4 == 0 => HttpFault::ResetInBody,
            n if n % 4 == 1 => HttpFault::Status(503),
            n if n % 4 == 2 => HttpFault::Cut,
            _ => HttpFault::StallInBody(Duration::from_secs(5)),
        });
        let idle_timeout = Duration::from_millis(300);
        let stores = Stores::new(RemoteOptions { idle_timeout, ..RemoteOptions::default() });
        let dataset = open_with(&server.url(""), &stores, &OpenOptions::default()).unwrap();
        assert!(stream(&dataset, &fields, &options(3)) == wanted);
    }

    #[cfg(feature = "s3-tests")]
    #[test]
    fn from_s3_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s3");
        std::fs::create_dir_all(root.join("bucket")).unwrap();
        let (_, to) = photos(dir.path(), 60, &["--shuffle", "1"]);
        std::fs::rename(&to, root.join("bucket/shards")).unwrap();
        let fields = [FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
        let here = root.join("bucket/shards");
        let wanted = stream(&open(text(&here)).unwrap(), &fields, &options(2));
        let server = packhorse_testkit::s3::Server::new(&root);
        let stores = Stores::new(RemoteOptions { s3: server.settings(), ..RemoteOptions::default() });
        for place in ["s3://bucket/shards", "s3://bucket/shards/*.tar", "s3://bucket/shards/shard-{000000..000003}.tar"]
        {
            let dataset = open_with(place, &stores, &OpenOptions::default()).unwrap();
            for threads in [1, 2, 8] {
                assert!(stream(&dataset, &fields, &options(threads)) == wanted, "{place} {threads}");
            }
            for cache in caches(&dir.path().join("near")) {
                let options = LoaderOptions { cache: cache.clone(), ..options(2) };
                assert!(stream(&dataset, &fields, &options) == wanted, "{place} {cache:?}");
            }
        }
        let error = open_with("s3://bucket/nothing", &stores, &OpenOptions::default()).unwrap_err();
        assert!(error.to_string().contains("s3://bucket/nothing"), "{error}");
    }

    #[test]
    fn a_dead_server_is_one_clear_error() {
        let stores = Stores::new(RemoteOptions { tries: 3, ..RemoteOptions::default() });
        let url = packhorse_testkit::web::dead_url();
        let error = open_with(&url, &stores, &OpenOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&url) && error.contains("given up after 3 requests"), "{error}");
    }
}
