//! The documents of `docs/documents.md`, as golden files. If these bytes change, the layout version must.
//!
//! `PACKHORSE_BLESS=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a test ends where something fails")]

use packhorse_core::{DataType, Error, Field, FieldType, KEY, Limits, Members, MemoryInput, Schema};
use packhorse_dataset::*;
use std::path::PathBuf;

fn golden(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/golden").join(name);
    if std::env::var_os("PACKHORSE_BLESS").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == bytes, "{name} is not as documented:\n{}", String::from_utf8_lossy(bytes));
}

fn stored(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/golden").join(name)).unwrap()
}

#[test]
fn a_partial_listing_is_as_documented() {
    let settings = [("exclude".into(), "*.tmp".into())].into();
    let table_settings = [("columns".into(), "x".into())].into();
    let text_settings = [("samples".into(), "not counted".into())].into();
    let roots = vec![PathText::new(b"/data/photos")];
    let header = ListingHeader {
        packhorse_listing: 1,
        part: "3/64".into(),
        roots,
        inputs: Digest::of(b"inputs"),
        settings,
        table_settings,
        text_settings,
    };
    let files = vec![(PathText::new(b"0001.jpg"), 7, 1_700_000_000_000_000_000), (PathText::new(b"\xff.jpg"), 0, -1)];
    let members = vec![(PathText::new(b"a/0001.jpg"), 512, 7)];
    let fault = Error::content("is cut short").hint("leave it out").in_sample("a/0001");
    let table = ListedTable {
        root: 0,
        path: PathText::new(b"more/x.jsonl.zst"),
        size: 40,
        mtime: 2,
        format: "text".into(),
        schema: FieldRecord::of(&Schema::new(vec![Field::new("text", DataType::Utf8View, false)])),
        metadata: [("classes".into(), "[]".into())].into(),
        items: 3,
        bytes: 99,
        kind: TableKind::Counted { positions: 99 },
        frames: Some((99, vec![(0, 0), (20, 50)])),
        omitted: vec![("x".into(), "a map".into())],
        empty: Default::default(),
    };
    let first = PathText::new(b".hidden");
    let records = [
        ListingRecord::Columns(FieldRecord::of(&Schema::new(vec![
            FieldType::Scalar(DataType::Float32).field("x", false),
        ]))),
        ListingRecord::Files(ListedFiles {
            root: 0,
            folder: PathText::new(b"dress"),
            files,
            columns: vec![None, Some(0)],
        }),
        ListingRecord::Members(ListedMembers { root: 0, path: PathText::new(b"x.tar"), size: 2048, mtime: 1, members }),
        ListingRecord::Table(Box::new(table)),
        ListingRecord::Starts(vec![0, 30, 30]),
        ListingRecord::Sealed(ListedDataset { root: 0, folder: PathText::new(b"shards"), whole: true }),
        ListingRecord::Chosen { root: 0, places: vec![(1, 2, 3, 4)] },
        ListingRecord::Fault(Box::new(ListedFault::of(&fault, Some((0, "dress/0002.jpg"))))),
        ListingRecord::Ignored { why: "hidden".into(), inputs: 2, first },
    ];
    let mut bytes = Vec::new();
    let mut writer = ListingWriter::new(&mut bytes, &header).unwrap();
    records.iter().for_each(|record| writer.record(record).unwrap());
    writer.finish(Digest::of(b"")).unwrap();
    golden("listing.jsonl", &zstd::decode_all(&bytes[..]).unwrap());
}

fn codec(field: &str, column: &str, kind: FieldType) -> CodecRecord {
    let columns = FieldRecord::of(&Schema::new(vec![kind.field(column, true)]));
    CodecRecord { field: field.into(), format: "npz".into(), revision: 1, columns }
}

fn header() -> PlanHeader {
    let schema = Schema::new(vec![
        Field::new(KEY, DataType::Utf8View, false),
        Field::new("cls", DataType::Int64, false),
        Field::new("jpg", DataType::BinaryView, false),
        Field::new("json", DataType::Utf8View, true),
    ]);
    PlanHeader {
        packhorse_plan: PlanHeader::VERSION,
        name: "photos".into(),
        sink: SinkRecord {
            format: "webdataset".into(),
            revision: 1,
            options: [("index".into(), "wids,dali".into())].into(),
        },
        transforms: vec!["image/1 resize=256,short quality=90".into()],
        files: Vec::new(),
        choices: [("shuffle".into(), "7".into())].into(),
        sources: vec![SourceRecord { format: "parquet".into(), options: [("columns".into(), "jpg".into())].into() }],
        decode: vec![codec("view.npz", "view", FieldType::Ragged { element: DataType::Float32, rank: 2 })],
        encode: vec![codec("view.npy", "view", FieldType::Ragged { element: DataType::Float32, rank: 2 })],
        schema: FieldRecord::of(&schema),
        omitted: Vec::new(),
        classes: vec!["cat".into(), "dog".into()],
        splits: vec!["train".into()],
        views: Vec::new(),
        roots: vec![PathText::new(b"/data/photos")],
    }
}

fn source(field: &str, path: &[u8], size: u64, extent: Option<(u64, u64)>) -> FieldSource {
    FieldSource {
        field: field.into(),
        root: 0,
        path: PathText::new(path),
        size,
        mtime: 1_700_000_000_000_000_000,
        extent,
        items: None,
        by_position: false,
        samples: None,
        seek_point: None,
    }
}

fn entries() -> Vec<PlanEntry> {
    let row = serde_json::value::RawValue::from_string(r#"{"caption":"a dog"}"#.into()).unwrap();
    vec![
        PlanEntry {
            key: "cat/1".into(),
            cls: Some(0),
            json: None,
            joined: None,
            fields: vec![source("jpg", b"cat/1.jpg", 14_000, None)],
        },
        PlanEntry {
            key: "dog/%FF".into(),
            cls: Some(1),
            json: Some(row),
            joined: None,
            fields: vec![source("jpg", b"dog/\xff.jpg", 9, None)],
        },
        PlanEntry {
            key: "dog/2".into(),
            cls: Some(1),
            json: None,
            joined: None,
            fields: vec![source("jpg", b"more.tar", 20_480, Some((512, 900)))],
        },
        PlanEntry {
            key: "table".into(),
            cls: Some(1),
            json: None,
            joined: None,
            fields: vec![FieldSource {
                items: Some((100, 107, 700)),
                ..source("parquet", b"table.parquet", 4_000, None)
            }],
        },
    ]
}

fn skips() -> Vec<SkipRecord> {
    vec![SkipRecord { input: Some(PathText::new(b"cat/fifo")), sample: None, reason: "is a FIFO".into(), samples: 1 }]
}

fn plan(entries: Vec<PlanEntry>, roots: &[u8]) -> (Vec<u8>, Digest, Digest) {
    let mut bytes = Vec::new();
    let header = PlanHeader { roots: vec![PathText::new(roots)], ..header() };
    let mut writer = PlanWriter::new(&mut bytes, &header).unwrap();
    let (first, second) = entries.split_at(2);
    writer.shard("train-000000", Some("train"), first.iter().cloned().map(Ok)).unwrap();
    writer.shard("train-000001", Some("train"), second.iter().cloned().map(Ok)).unwrap();
    let (digest, mtime_digest) = writer.finish(&skips()).unwrap();
    (bytes, digest, mtime_digest)
}

fn read(bytes: Vec<u8>) -> packhorse_core::Result<(PlanReader, Vec<PlanEntry>)> {
    let reader = PlanReader::open(Box::new(MemoryInput::new("plan.jsonl.zst", bytes)))?;
    let mut entries = Vec::new();
    for shard in reader.shards() {
        for entry in reader.entries(shard)? {
            entries.push(entry?);
        }
    }
    reader.skipped()?;
    Ok((reader, entries))
}

#[test]
fn plan_lines() {
    let (bytes, digest, _) = plan(entries(), b"/data/photos");
    golden("plan.jsonl", &zstd::decode_all(&bytes[..]).unwrap());
    assert_eq!(digest.to_string(), "ed0270c3f50b79f7921408f2a1e57269670fc692ac740cf55d0c5d3e8dfb5b91");
}

#[test]
fn what_nobody_counted_has_no_number_of_samples() {
    let text =
        FieldSource { items: Some((0, 4_000, 4_000)), by_position: true, ..source("text", b"a.jsonl", 4_000, None) };
    let (bytes, ..) =
        plan(vec![entries().remove(0), PlanEntry { fields: vec![text], ..entries().remove(3) }], b"/data");
    let (reader, read) = read(bytes).unwrap();
    assert!(read[1].uncounted() && read[1].samples() == 0);
    assert_eq!(reader.samples(), None);
    assert_eq!(reader.shards().len(), 2);
    assert!(reader.shards()[0].uncounted && reader.shards()[0].holds(17) && !reader.shards()[0].holds(0));
}

#[test]
fn a_shard_goes_on_where_the_one_before_begins_in_its_frame() {
    let at = |path: &[u8], offset, items| {
        let seek_point = Some(SeekPoint { len: 9_000, offset, start: offset * 4 });
        let text =
            FieldSource { items: Some(items), by_position: true, seek_point, ..source("text", path, 2_000, None) };
        PlanEntry { key: "a".into(), cls: None, json: None, joined: None, fields: vec![text] }
    };
    let shards = [
        (at(b"a.jsonl.gz", 0, (0, 10, 10)), false),
        (at(b"a.jsonl.gz", 0, (10, 20, 10)), true),
        (at(b"a.jsonl.gz", 100, (20, 30, 10)), false),
        (at(b"a.jsonl.gz", 100, (30, 40, 10)), true),
        (at(b"b.jsonl.gz", 100, (40, 50, 10)), false),
        (at(b"b.jsonl.gz", 100, (5, 15, 10)), false),
        (entries().remove(3), false),
        (entries().remove(3), false),
    ];
    let mut bytes = Vec::new();
    let mut writer = PlanWriter::new(&mut bytes, &header()).unwrap();
    for (entry, _) in &shards {
        // Only the first entry of a shard counts.
        writer.shard("x", None, [entry.clone(), at(b"c.jsonl.gz", 0, (1, 2, 1))].into_iter().map(Ok)).unwrap();
    }
    writer.finish(&[]).unwrap();
    let (reader, read) = read(bytes).unwrap();
    let found: Vec<bool> = reader.shards().iter().map(|shard| shard.goes_on).collect();
    assert_eq!(found, shards.iter().map(|(_, goes_on)| *goes_on).collect::<Vec<_>>());
    assert_eq!(read[4].fields[0].seek_point, Some(SeekPoint { len: 9_000, offset: 100, start: 400 }));
}

#[test]
fn a_plan_written_long_ago_is_read() {
    if std::env::var_os("PACKHORSE_BLESS").is_some() {
        golden("plan.jsonl.zst", &plan(entries(), b"/data/photos").0);
    }
    let (reader, read) = read(stored("plan.jsonl.zst")).unwrap();
    assert_eq!(reader.header(), &header());
    assert_eq!(reader.digest(), plan(entries(), b"/data/photos").1);
    assert_eq!(reader.skipped().unwrap(), skips());
    let keys: Vec<_> = read.iter().map(|e| (e.key.as_str(), e.bytes())).collect();
    assert_eq!(keys, [("cat/1", 14_000), ("dog/%FF", 9), ("dog/2", 900), ("table", 700)]);
    assert_eq!((read[3].samples(), reader.samples()), (7, Some(10)));
    assert_eq!(read[1].fields[0].path.to_bytes(), b"dog/\xff.jpg");
}

#[test]
fn the_digest_holds_what_decides_bytes_and_nothing_else() {
    let (_, digest, mtime_digest) = plan(entries(), b"/data/photos");
    let (_, moved, same_stamps) = plan(entries(), b"/elsewhere");
    assert_eq!((digest, mtime_digest), (moved, same_stamps));
    let mut touched = entries();
    touched[0].fields[0].mtime += 1;
    let (_, same, other_stamps) = plan(touched, b"/data/photos");
    assert_eq!(digest, same);
    assert_ne!(mtime_digest, other_stamps);
    let changes: [fn(&mut Vec<PlanEntry>); 5] = [
        |e| e.swap(0, 1),
        |e| e[0].key.push('x'),
        |e| e[0].cls = None,
        |e| e[1].json = None,
        |e| e[2].fields[0].extent = Some((512, 901)),
    ];
    for change in changes {
        let mut entries = entries();
        change(&mut entries);
        assert_ne!(plan(entries, b"/data/photos").1, digest);
    }
}

#[test]
fn a_plan_that_is_cut_or_damaged_is_refused() {
    let (good, digest, _) = plan(entries(), b"/data/photos");
    for len in 0..good.len() {
        assert!(read(good[..len].to_vec()).is_err(), "cut to {len}");
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        if let Ok((reader, entries)) = read(bad) {
            // A few bits in frame headers are unused; the decoded plan must still be equal.
            let same = (reader.digest(), entries.len(), reader.header()) == (digest, 4, &header());
            assert!(same, "byte {at}");
        }
    }
}

#[test]
fn receipt() {
    let file = |name: &str, bytes| FileRecord { name: name.into(), bytes, blake3: Digest::of(name.as_bytes()) };
    let receipt = Receipt {
        packhorse_receipt: Receipt::VERSION,
        plan: Digest::of(b"plan"),
        shard: "train-000000".into(),
        split: Some("train".into()),
        samples: 2,
        input_bytes: 14_909,
        files: vec![file("train-000000.tar", 30_720), file("train-000000.members", 210)],
        notes: [("md5".into(), "9e107d9d372bb6826bd81d3542a419d6".into())].into(),
        counts: Default::default(),
        skipped: vec![SkipRecord {
            input: None,
            sample: Some("dog/2".into()),
            reason: "jpg is cut short".into(),
            samples: 1,
        }],
    };
    golden("receipt.json", &receipt.encode().unwrap());
    assert_eq!(Receipt::decode(&stored("receipt.json")).unwrap(), receipt);
}

#[test]
fn error_of_a_task() {
    let error = packhorse_core::Error::content("is cut short").in_input("photos/dog/2.jpg").in_sample("dog/2");
    let note = PartError::new(&error, Digest::of(b"plan"), "3/8".into(), 1_700_000_000, ("node12".into(), 4711));
    golden("error.json", &note.encode().unwrap());
    assert_eq!(PartError::decode(&stored("error.json")).unwrap(), note);
}

#[test]
fn manifest() {
    let shard = |i: u64| ShardRecord {
        name: format!("train-{i:06}"),
        split: Some("train".into()),
        file: format!("train-{i:06}.tar"),
        samples: 2 - i,
        counts: Default::default(),
        bytes: 30_720,
        blake3: Digest::of(&[i as u8]),
        receipt: Digest::of(b"receipt"),
    };
    let mut manifest = Manifest {
        packhorse_dataset: Manifest::VERSION,
        name: "photos".into(),
        format: header().sink,
        transforms: Vec::new(),
        root: Digest::of(b""),
        samples: 3,
        counts: Default::default(),
        bytes: 61_440,
        skipped: 1,
        schema: header().schema,
        omitted: Vec::new(),
        classes: header().classes,
        splits: vec![SplitRecord { name: "train".into(), shards: 2, samples: 3 }],
        plan: Digest::of(b"plan"),
        files: vec![FileRecord { name: "skipped.jsonl".into(), bytes: 70, blake3: Digest::of(b"skipped") }],
        appended: Vec::new(),
        part_of: None,
        shards: vec![shard(0), shard(1)],
    };
    manifest.root = manifest.root_of_shards();
    golden("dataset.json", &manifest.encode().unwrap());
    assert_eq!(Manifest::decode(&stored("dataset.json")).unwrap(), manifest);
}

#[test]
fn view() {
    let runs = [SampleRun { shard: 1, first: 0, len: 1 }, SampleRun { shard: 0, first: 1, len: 1 }];
    let fields = vec!["cls".into(), "jpg".into()];
    let base = (2, Digest::of(b"the shards"));
    let (view, selection) = DatasetView::new("../photos".into(), base, Some(fields), &runs, None);
    golden("view.json", &view.encode().unwrap());
    golden("selection.bin", &selection);
    assert_eq!(DatasetView::decode(&stored("view.json")).unwrap(), view);
    assert_eq!(decode_selection(&stored("selection.bin")).unwrap(), runs);
}

#[test]
fn members() {
    let mut members = Members::new(vec!["cls".into(), "jpg".into()]);
    members.push_sample("cat/1");
    members.push_member(0, 512, 1, 0x1234_5678);
    members.push_member(1, 1536, 14_000, 0x9abc_def0);
    members.push_sample("dog/%FF");
    members.push_member(1, 16_384, 9, 0xffff_ffff);
    golden("shard.members", &encode_index(&members));
    assert_eq!(decode_index(&stored("shard.members"), &Limits::default()).unwrap(), members);
}

#[test]
fn saved_index() {
    let mut members = Members::new(vec!["jpg".into(), "CLS".into()]);
    members.push_sample("v1.2/cat");
    members.push_member(0, 1536, 14_000, 0);
    members.push_member(1, 16_384, 1, 0);
    let members = members.with_bounds(vec![512, 17_408]);
    let saved = SavedIndex {
        bytes: 20_480,
        mtime: 1_700_000_000_000_000_000,
        index: "wids,dali".into(),
        files: vec![FileRecord { name: "x.idx".into(), bytes: 60, blake3: Digest::of(b"idx") }],
        notes: Default::default(),
    };
    let (bytes, digest) = saved.encode(&members).unwrap();
    golden("shard.saved", &bytes);
    assert_eq!(SavedIndex::decode(&stored("shard.saved"), &Limits::default()).unwrap(), (saved, members, digest));
}
