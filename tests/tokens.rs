//! Text into token shards by the command: every document, exactly, whatever the inputs are wrapped in,
//! however the work is cut, and whatever is wrong with a line.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod process;
    pub(crate) mod tree;
}

use common::bytes::{EOD, documents, tokenizer};
use common::process::{Program, packhorse};
use common::tree::{assert_equal, assert_kept, assert_no_half_file, committed, tree};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// JSON lines in several files, plain and compressed, and what each document says.
struct Corpus {
    dir: TempDir,
    input: PathBuf,
    /// All documents in the order of the files' names.
    documents: Vec<String>,
}

/// Document `i` of file `file`: of any length from nothing to some thousand characters, with all that JSON
/// escapes.
fn document(file: usize, i: usize) -> String {
    let words = ["pack", "the \"horse\"", "wörld", "日本語", "\\", "tab\there", "line\nbreak", "😀", "\u{1}"];
    let len = (i * 7919 + file * 104_729) % 97;
    (0..len).map(|n| words[(n * n + i + file) % words.len()]).collect::<Vec<_>>().join(" ")
}

impl Corpus {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("corpus");
        std::fs::create_dir_all(input.join("more")).unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), tokenizer()).unwrap();
        let mut all = Vec::new();
        for (file, (name, count)) in
            [("a.jsonl", 150), ("b.jsonl.gz", 120), ("c.jsonl.zst", 90), ("more/d.jsonl", 40)].into_iter().enumerate()
        {
            let texts: Vec<String> = (0..count).map(|i| document(file, i)).collect();
            let lines: String =
                texts.iter().map(|t| format!("{}\n", serde_json::json!({"id": 7, "text": t}))).collect();
            std::fs::write(input.join(name), wrapped(name, lines.as_bytes())).unwrap();
            all.extend(texts);
        }
        Self { dir, input, documents: all }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, verb: &str, out: &Path, more: &[&str]) -> Program {
        let tokenizer = self.dir("tokenizer.json");
        let what = [verb, text(&self.input), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(out)];
        packhorse(&[&what[..], more].concat())
    }
}

fn wrapped(name: &str, bytes: &[u8]) -> Vec<u8> {
    if name.ends_with(".gz") {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        return encoder.finish().unwrap();
    }
    if name.ends_with(".zst") { zstd::encode_all(bytes, 1).unwrap() } else { bytes.to_vec() }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The documents of all shards, in the order of the shards.
fn packed(out: &Path) -> Vec<String> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(out).unwrap().map(|e| e.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|e| e == "bin"));
    names.sort();
    names.iter().flat_map(|path| documents(path)).map(|tokens| said(&tokens)).collect()
}

/// What the tokens say, the end left out.
fn said(tokens: &[u16]) -> String {
    String::from_utf8(tokens.iter().filter_map(|t| u8::try_from(*t).ok()).collect()).unwrap()
}

#[test]
fn every_document_is_there_in_order() {
    let corpus = Corpus::new();
    let out = corpus.dir("out");
    corpus.command("pack", &out, &["--shard-size", "20KB"]).succeed();
    assert_eq!(packed(&out), corpus.documents);
    packhorse(&["verify", "--full", text(&out)]).succeed();
}

#[test]
fn the_end_of_a_document_is_counted() {
    let corpus = Corpus::new();
    let out = corpus.dir("out");
    corpus.command("pack", &out, &["--append-eod"]).succeed();
    let shard = documents(&out.join("shard-000000.bin"));
    assert_eq!(shard.len(), corpus.documents.len());
    for (tokens, document) in shard.iter().zip(&corpus.documents) {
        // An empty document has no sequence, and so no end.
        match tokens.split_last() {
            None => assert_eq!(document, ""),
            Some((end, tokens)) => assert_eq!((*end, said(tokens)), (EOD, document.clone())),
        }
    }
    let stat = packhorse(&["stat", text(&out), "--json"]).succeed().printed;
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    let tokens: usize = shard.iter().map(Vec::len).sum();
    assert_eq!(stat["counts"]["tokens"], tokens);
    let tokenizer = corpus.dir("tokenizer.json");
    let again = ["pack", text(&corpus.input), "--to", "tokens", "--tokenizer", text(&tokenizer), "--append-eod"];
    let mut program = common::process::command(env!("CARGO_BIN_EXE_packhorse"));
    let output = program.args(again).arg("--out").arg(corpus.dir("again")).output().unwrap();
    let summary = String::from_utf8(output.stdout).unwrap();
    let line = summary.lines().find(|line| line.contains(" tokens, ")).unwrap();
    assert!(line.starts_with(&format!("  {tokens} tokens, ")) && line.ends_with(" tokens/s"), "{summary}");
    assert_eq!(stat["counts"]["documents"], shard.len());
}

#[test]
fn killed_at_any_moment_it_ends_in_the_same_bytes() {
    let corpus = Corpus::new();
    let cut = ["--shard-size", "10KB"];
    let undisturbed = corpus.dir("undisturbed");
    let took = corpus.command("pack", &undisturbed, &cut).succeed().took;
    let whole = tree(&undisturbed);
    for i in 1..=8 {
        let (out, when) = (corpus.dir(&format!("out{i}")), format!("killed after {i}/9"));
        let mut running = corpus.command("pack", &out, &cut).start();
        running.ends_within(took * i / 9);
        running.kill();
        running.end();
        assert_no_half_file(&whole, &out, &when);
        let before = committed(&out);
        corpus.command("pack", &out, &cut).succeed();
        assert_kept(&before, &out, &when);
        assert_equal(&whole, &tree(&out), &when);
    }
}

#[test]
fn shards_become_one_pair() {
    let corpus = Corpus::new();
    let (out, all) = (corpus.dir("out"), corpus.dir("all"));
    corpus.command("pack", &out, &["--shard-size", "10KB", "--append-eod"]).succeed();
    packhorse(&["merge", text(&out), "--out", text(&all)]).succeed();
    let found: Vec<String> = documents(&all.with_extension("bin")).iter().map(|tokens| said(tokens)).collect();
    assert_eq!(found, corpus.documents);
    let idx = all.with_extension("idx");
    packhorse(&["verify", text(&idx), "--vocabulary", "257", "--eod-id", "256"]).succeed();
    assert_eq!(packhorse(&["verify", text(&idx), "--vocabulary", "256"]).run().code(), 3);
    // The pair of other shards is never overwritten.
    let first = out.join("shard-000000.idx");
    let again = packhorse(&["merge", text(&first), "--out", text(&all)]).run();
    assert!(again.code() == 2 && again.said.contains("already exists"), "{again:?}");
    // The order of training over it, as files that numpy loads.
    let cache = corpus.dir("cache");
    let order = ["order", text(&all), "--seq-length", "64", "--samples", "500,10", "--out", text(&cache), "--json"];
    let order: serde_json::Value = serde_json::from_str(&packhorse(&order).succeed().printed).unwrap();
    assert_eq!(order["orders"].as_array().unwrap().len(), 2);
    assert!(order["orders"][0]["samples"].as_u64().unwrap() >= 500, "{order}");
    let npy = std::fs::read_dir(&cache).unwrap().filter(|e| e.as_ref().unwrap().path().extension().unwrap() == "npy");
    assert_eq!(npy.count(), 6);
    // A part without a sequence is told before anything is written.
    let (empty, none) = (corpus.dir("empty"), ["--split", "1,0,0", "--samples", "5,5"]);
    let refused = packhorse(&[&["order", text(&all), "--out", text(&empty)], &none[..]].concat()).run();
    assert!(refused.code() == 2 && refused.said.contains("into valid"), "{refused:?}");
    assert!(!empty.exists() || std::fs::read_dir(&empty).unwrap().next().is_none());
    // Bins of documents take no settings of samples, and those of two datasets do not overwrite each other.
    let bins = |more: &[&str]| {
        let out = corpus.dir("bins");
        packhorse(&[&["order", "--pack", "64", "--out", text(&out)], more].concat()).run()
    };
    for (more, said) in [
        (vec![text(&all), "--split", "90,5,5"], "--split"),
        (vec![text(&all), "--samples", "10"], "--samples"),
        (vec!["0.5", text(&all)], "leave out the weights"),
        (vec![text(&all), text(&all)], "so would be their files"),
    ] {
        let refused = bins(&more);
        assert!(refused.code() == 2 && refused.said.contains(said), "{refused:?}");
    }
    assert_eq!(bins(&[text(&all)]).code(), 0);
}

#[test]
fn other_layouts_and_names_of_fields_that_are_not_taken() {
    let corpus = Corpus::new();
    let out = corpus.dir("ds");
    corpus.command("pack", &out, &["--set", "layout=datatrove", "--set", "documents=off", "--append-eod"]).succeed();
    let tokens: usize = corpus.documents.iter().filter(|d| !d.is_empty()).map(|d| d.len() + 1).sum();
    assert_eq!(std::fs::metadata(out.join("shard-000000.ds")).unwrap().len(), 2 * tokens as u64);
    assert!(!out.join("shard-000000.documents.parquet").exists());
    let checked = packhorse(&["verify", text(&out.join("shard-000000.ds"))]).run();
    assert!(checked.code() == 8 && checked.said.contains("datatrove"), "{checked:?}");
    let none = corpus.dir("none");
    let refused = packhorse(&["pack", text(&corpus.input), "--to", "tokens", "--out", text(&none)]).run();
    assert!(refused.code() == 8 && refused.said.contains("field text"), "{refused:?}");
}

#[test]
fn names_with_dots_and_splits_of_documents() {
    let corpus = Corpus::new();
    std::fs::remove_dir_all(&corpus.input).unwrap();
    std::fs::create_dir(&corpus.input).unwrap();
    let line = |i: usize| format!("{}\n", serde_json::json!({"text": document(0, i)}));
    for (file, from) in [("c4.00000-of-00002.jsonl", 0), ("c4.00001-of-00002.jsonl", 60)] {
        std::fs::write(corpus.input.join(file), (from..from + 60).map(line).collect::<String>()).unwrap();
    }
    let out = corpus.dir("out");
    corpus.command("pack", &out, &["--split", "train=0.5,val=0.5"]).succeed();
    let [train, val] = ["train", "val"].map(|name| documents(&out.join(format!("{name}-000000.bin"))));
    assert!(train.len().abs_diff(val.len()) < 50, "{} {}", train.len(), val.len());
    let mut found: Vec<String> = train.iter().chain(&val).map(|tokens| said(tokens)).collect();
    let mut wanted: Vec<String> = (0..120).map(|i| document(0, i)).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    // An order over both would train on what it is validated with.
    let mixed = packhorse(&["order", text(&out), "--out", text(&corpus.dir("cache"))]).run();
    assert!(mixed.code() == 2 && mixed.said.contains("splits of its own"), "{mixed:?}");
    let doubles = corpus.command("pack", &corpus.dir("dedup"), &["--dedup"]).run();
    assert!(doubles.code() == 2 && doubles.said.contains("--dedup"), "{doubles:?}");
}

#[test]
#[cfg_attr(
    not(feature = "tokenizer-oracle"),
    ignore = "needs the feature tokenizer-oracle, as `cargo test --workspace` has it"
)]
fn what_is_filled_by_plan_is_checked_too() {
    let corpus = Corpus::new();
    let out = corpus.dir("out");
    corpus.command("plan", &out, &[]).succeed();
    packhorse(&["pack", "--plan", text(&out), "--check-exact", "1"]).succeed();
    packhorse(&["seal", text(&out)]).succeed();
    assert_eq!(packed(&out), corpus.documents);
    let refused = corpus.command("plan", &corpus.dir("other"), &["--check-exact", "1"]).run();
    assert_eq!(refused.code(), 2, "{refused:?}");
}

#[test]
fn ends_that_nobody_counted_are_counted() {
    let corpus = Corpus::new();
    let (out, all, fixed) = (corpus.dir("out"), corpus.dir("all"), corpus.dir("fixed"));
    corpus.command("pack", &out, &["--append-eod", "--empty", "eod"]).succeed();
    packhorse(&["merge", text(&out), "--out", text(&all)]).succeed();
    let good = std::fs::read(all.with_extension("idx")).unwrap();
    // As BlendCorpus wrote it: lengths without the end, and offsets that follow from them.
    let mut bad = good.clone();
    let sequences = u64::from_le_bytes(good[18..26].try_into().unwrap()) as usize;
    let mut at = 0u64;
    for i in 0..sequences {
        let length = i32::from_le_bytes(good[34 + 4 * i..][..4].try_into().unwrap()) - 1;
        bad[34 + 4 * i..][..4].copy_from_slice(&length.to_le_bytes());
        bad[34 + 4 * sequences + 8 * i..][..8].copy_from_slice(&at.to_le_bytes());
        at += 2 * length as u64;
    }
    let idx = all.with_extension("idx");
    std::fs::write(&idx, bad).unwrap();
    let found = packhorse(&["verify", text(&idx)]).run();
    assert_eq!(found.code(), 3, "{found:?}");
    let repaired = packhorse(&["repair", text(&idx), "--out", text(&fixed), "--json"]).succeed().printed;
    assert!(repaired.contains("token 256"), "{repaired}");
    assert_eq!(std::fs::read(fixed.with_extension("idx")).unwrap(), good);
}

#[test]
fn threads_parts_and_repetition_change_no_byte() {
    let corpus = Corpus::new();
    let cut = ["--shard-size", "10KB", "--shuffle", "3", "--append-eod"];
    let one = corpus.dir("one");
    corpus.command("pack", &one, &[&cut[..], &["--jobs", "1"]].concat()).succeed();
    let whole = tree(&one);
    let eight = corpus.dir("eight");
    corpus.command("pack", &eight, &[&cut[..], &["--jobs", "8", "--memory", "1MiB"]].concat()).succeed();
    assert_equal(&whole, &tree(&eight), "eight threads");
    let parts = corpus.dir("parts");
    corpus.command("plan", &parts, &cut).succeed();
    // Filling the plan does not need the tokenizer's file.
    std::fs::remove_file(corpus.dir("tokenizer.json")).unwrap();
    for part in ["2/3", "3/3", "1/3", "2/3"] {
        packhorse(&["pack", "--plan", text(&parts), "--part", part]).succeed();
    }
    packhorse(&["seal", text(&parts)]).succeed();
    assert_equal(&whole, &tree(&parts), "three parts");
    let mut found = packed(&one);
    let mut wanted = corpus.documents.clone();
    assert_ne!(found, wanted);
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn text_comes_from_any_field_and_any_container() {
    let corpus = Corpus::new();
    std::fs::remove_dir_all(&corpus.input).unwrap();
    std::fs::create_dir(&corpus.input).unwrap();
    let texts: Vec<String> = (0..20).map(|i| document(1, i + 1)).collect();
    let line = |text: &String| format!("{}\n", serde_json::json!({"meta": {"body": text}, "text": "no"}));
    std::fs::write(corpus.input.join("a.jsonl"), texts.iter().map(line).collect::<String>()).unwrap();
    let out = corpus.dir("out");
    corpus.command("pack", &out, &["--text-field", "meta.body"]).succeed();
    assert_eq!(packed(&out), texts);
    // The same through shards of other formats.
    for format in ["parquet", "webdataset"] {
        let (shards, out) = (corpus.dir(format), corpus.dir(&format!("from-{format}")));
        let input = text(&corpus.input);
        let field = ["--text-field", "meta.body", "--field", "meta.body=txt"];
        packhorse(&[&["pack", input, "--to", format, "--out", text(&shards)], &field[..]].concat()).succeed();
        let tokenizer = corpus.dir("tokenizer.json");
        let tokens = ["pack", text(&shards), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(&out)];
        packhorse(&tokens).succeed();
        assert_eq!(packed(&out), texts, "{format}");
    }
}

#[test]
fn text_comes_out_of_json_members() {
    let corpus = Corpus::new();
    let (files, tars, out) = (corpus.dir("files"), corpus.dir("tars"), corpus.dir("out"));
    std::fs::create_dir(&files).unwrap();
    let texts: Vec<String> = (0..9).map(|i| document(2, i + 1)).collect();
    for (i, text) in texts.iter().enumerate() {
        // JSON as Python writes it, beside a text that is damaged and not asked for.
        let json = format!("{{\"a\": {{\"score\": NaN, \"b\": {}}}}}", serde_json::Value::from(text.as_str()));
        std::fs::write(files.join(format!("{i}.json")), json).unwrap();
        std::fs::write(files.join(format!("{i}.txt")), b"caf\xe9").unwrap();
    }
    packhorse(&["pack", text(&files), "--to", "webdataset", "--out", text(&tars)]).succeed();
    let tokenizer = corpus.dir("tokenizer.json");
    let tokens = ["pack", text(&tars), "--to", "tokens", "--tokenizer", text(&tokenizer), "--text-field", "json.a.b"];
    packhorse(&[&tokens[..], &["--out", text(&out)]].concat()).succeed();
    assert_eq!(packed(&out), texts);
    let typo =
        packhorse(&[&tokens[..6], &["--text-field", "jsom.a", "--out", text(&corpus.dir("typo"))]].concat()).run();
    assert!(typo.code() == 2 && typo.said.contains("no field of text is called jsom.a"), "{typo:?}");
}

#[test]
fn compressed_json_is_lines_and_an_archive_is_no_text() {
    let corpus = Corpus::new();
    let (out, again) = (corpus.dir("out"), corpus.dir("again"));
    // As C4 calls its files.
    for (old, new) in [("b.jsonl.gz", "b.00000-of-00001.json.gz"), ("c.jsonl.zst", "c.JSON.zst")] {
        std::fs::rename(corpus.input.join(old), corpus.input.join(new)).unwrap();
    }
    corpus.command("pack", &out, &[]).succeed();
    assert_eq!(packed(&out), corpus.documents);
    corpus.command("pack", &again, &["--from", "text"]).succeed();
    assert_eq!(packed(&again), corpus.documents);
    std::fs::write(corpus.input.join("x.tar"), [0; 1024]).unwrap();
    let refused = corpus.command("pack", &corpus.dir("tar"), &["--from", "text"]).run();
    assert!(refused.code() == 2 && refused.said.contains("--exclude"), "{refused:?}");
    corpus.command("pack", &corpus.dir("others"), &["--from", "text", "--exclude", "*.tar"]).succeed();
}

#[test]
fn a_bad_line_costs_one_document() {
    let corpus = Corpus::new();
    let path = corpus.input.join("a.jsonl");
    let mut lines: Vec<Vec<u8>> = std::fs::read(&path).unwrap().split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    lines[3] = b"{\"text\": \"not closed".to_vec();
    lines[70] = b"{\"other\": 1}".to_vec();
    lines[100] = b"{\"text\": \"\xff\xfe\"}".to_vec();
    std::fs::write(&path, lines.join(&b'\n')).unwrap();
    let out = corpus.dir("out");
    let refused = corpus.command("pack", &out, &["--shard-size", "10KB"]).run();
    assert_eq!(refused.code(), 3, "{refused:?}");
    assert!(refused.said.contains("a.jsonl") && refused.said.contains("line 4"), "{refused:?}");
    corpus.command("pack", &out, &["--shard-size", "10KB", "--on-error", "skip"]).succeed();
    let wanted: Vec<&String> =
        corpus.documents.iter().enumerate().filter(|(i, _)| ![3, 70, 100].contains(i)).map(|(_, d)| d).collect();
    assert_eq!(packed(&out).iter().collect::<Vec<_>>(), wanted);
    let skipped = std::fs::read_to_string(out.join("skipped.jsonl")).unwrap();
    assert_eq!(skipped.lines().count(), 3, "{skipped}");
    for line in ["line 4", "line 71", "line 101"] {
        assert!(skipped.contains(line), "{skipped}");
    }
}

#[test]
fn what_counts_documents_makes_scan_count_them() {
    let corpus = Corpus::new();
    for name in ["b.jsonl.gz", "c.jsonl.zst"] {
        std::fs::remove_file(corpus.input.join(name)).unwrap();
    }
    let wanted: Vec<String> = [(0, 150), (3, 40)].iter().flat_map(|(f, n)| (0..*n).map(|i| document(*f, i))).collect();
    let out = corpus.dir("limit");
    corpus.command("pack", &out, &["--limit", "160", "--samples-per-shard", "50"]).succeed();
    assert_eq!(packed(&out), wanted[..160]);
    let lens: Vec<usize> = (0..4).map(|i| documents(&out.join(format!("shard-{i:06}.bin"))).len()).collect();
    assert_eq!(lens, [50, 50, 50, 10]);
    let shuffled = corpus.dir("shuffled");
    corpus.command("pack", &shuffled, &["--shuffle", "9,block:1"]).succeed();
    let mut found = packed(&shuffled);
    let moved = found.iter().zip(&wanted).filter(|(a, b)| a != b).count();
    assert!(moved > 150, "{moved}");
    let mut wanted = wanted;
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn layouts_without_documents_are_written_and_not_read() {
    let corpus = Corpus::new();
    for layout in ["llmc", "bare"] {
        let out = corpus.dir(layout);
        corpus.command("pack", &out, &["--set", &format!("layout={layout}")]).succeed();
        packhorse(&["verify", "--full", text(&out)]).succeed();
        let parquet = corpus.dir("parquet");
        let ended = packhorse(&["pack", text(&out), "--to", "parquet", "--out", text(&parquet)]).run();
        assert!(ended.code() == 8 && ended.said.contains(&format!("the layout {layout}")), "{ended:?}");
        assert!(packhorse::open(text(&out)).err().unwrap().to_string().contains("where documents begin"));
    }
}

#[test]
fn splits_that_become_one_file_are_warned_of() {
    let corpus = Corpus::new();
    let out = corpus.dir("out");
    corpus.command("pack", &out, &["--split", "train=0.9,val=0.1"]).succeed();
    let merge = |more: &[&str], to: &str| {
        let to = corpus.dir(to);
        let ended = packhorse(&[&["merge", text(&out), "--out", text(&to)], more].concat()).run();
        assert_eq!(ended.code(), 0, "{ended:?}");
        ended.said.contains("the splits train, val are one now")
    };
    assert!(merge(&[], "all") && !merge(&["--split", "val"], "val"));
}

#[test]
fn documents_of_two_inputs_with_one_key_are_told() {
    let corpus = Corpus::new();
    let other = corpus.dir("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a.jsonl"), "{\"id\": 8, \"text\": \"x\"}\n").unwrap();
    let said = |out: &str, more: &[&str]| {
        let ended = corpus.command("pack", &corpus.dir(out), more).run();
        assert_eq!(ended.code(), 0, "{ended:?}");
        ended.said.contains("have the same keys and sources")
    };
    assert!(said("both", &[text(&other)]) && !said("one", &[]));
    assert!(!said("ids", &[text(&other), "--id-field", "id"]), "the keys are those of the rows");
}

#[test]
fn inputs_without_documents_are_an_error() {
    let corpus = Corpus::new();
    let input = corpus.dir("blank");
    std::fs::create_dir(&input).unwrap();
    std::fs::write(input.join("a.jsonl"), "\n\n").unwrap();
    let out = corpus.dir("out");
    let tokenizer = corpus.dir("tokenizer.json");
    let what = ["pack", text(&input), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(&out)];
    let ended = packhorse(&what).run();
    assert!(ended.code() == 3 && ended.said.contains("the inputs hold no sample"), "{ended:?}");
    std::fs::write(input.join("a.jsonl"), r#"[{"text": "one"}]"#).unwrap();
    let list = corpus.dir("list");
    let ended = packhorse(&[&what[..6], &["--out", text(&list)]].concat()).run();
    assert!(ended.code() == 3 && ended.said.contains("a list, and JSON lines are objects"), "{ended:?}");
}

#[test]
fn compressed_text_that_keeps_its_order_is_warned_of() {
    let corpus = Corpus::new();
    let one = corpus.dir("one.jsonl.gz");
    let line = |i: u32| format!("{{\"text\": \"{}\"}}\n", blake3::hash(&i.to_le_bytes()).to_hex());
    std::fs::write(&one, wrapped("one.gz", (0..4000).map(line).collect::<String>().as_bytes())).unwrap();
    let shuffled = |input: &Path, out: &str| {
        let out = corpus.dir(out);
        packhorse(&["pack", text(input), "--to", "parquet", "--shuffle", "7", "--out", text(&out)]).run()
    };
    let ended = shuffled(&one, "a");
    assert!(ended.code() == 0 && ended.said.contains("is not shuffled and stays in one shard"), "{ended:?}");
    let ended = shuffled(&corpus.input.join("a.jsonl"), "b");
    assert!(ended.code() == 0 && !ended.said.contains("is not shuffled"), "{ended:?}");
}

/// Texts of several inputs may be in fields of other names: their tokens are made alike. An append does not take them from another field
/// than it is asked to.
#[test]
fn texts_of_other_fields_are_merged_and_not_appended() {
    let corpus = Corpus::new();
    let lines = |name: &str, field: &str| {
        let path = corpus.dir(name);
        let line = |i: usize| serde_json::json!({field: document(7, i), "other": "not this"}).to_string() + "\n";
        std::fs::write(&path, (0..5).map(line).collect::<String>()).unwrap();
        path
    };
    let tokenizer = corpus.dir("tokenizer.json");
    let [texts, titles] = ["text", "title"].map(|field| {
        let (input, out) = (lines(&format!("{field}.jsonl"), field), corpus.dir(&format!("of-{field}")));
        let pack = ["pack", text(&input), "--to", "tokens", "--tokenizer", text(&tokenizer), "--out", text(&out)];
        // The field `text` is the default.
        let named: &[&str] = if field == "text" { &[] } else { &["--text-field", field] };
        packhorse(&[&pack[..], named].concat()).succeed();
        out
    });
    let merged = corpus.dir("merged");
    packhorse(&["merge", text(&texts), text(&titles), "--out", text(&merged)]).succeed();
    assert_eq!(documents(&merged.with_extension("bin")).len(), 10);
    let more = lines("more.jsonl", "other");
    let refused = packhorse(&["append", text(&titles), text(&more), "--text-field", "other"]).run();
    let said = "was tokenized from the field title, and --text-field names other";
    assert!(refused.code() == 2 && refused.said.contains(said), "{refused:?}");
    packhorse(&["append", text(&titles), text(&lines("again.jsonl", "title")), "--text-field", "title"]).succeed();
    packhorse(&["append", text(&texts), text(&lines("named.jsonl", "text")), "--text-field", "text"]).succeed();
}
