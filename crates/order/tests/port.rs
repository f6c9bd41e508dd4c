//! Compares every number with an independent port in numpy (`port.py`), and with Megatron's own C++ helper where
//! `MEGATRON_CORE` names an unpacked wheel of megatron-core.
//!
//! `PACKHORSE_PYTHON` names a Python with numpy; without it these tests are skipped with a message.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_order::*;
use packhorse_testkit::external::python;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Asserts that `array` is written as the same bytes as numpy's `{name}.npy`.
fn same(dir: &Path, name: &str, array: &Array, columns: usize) {
    let theirs = std::fs::read(dir.join(format!("{name}.npy"))).unwrap();
    let mut ours = Vec::new();
    array.write_npy(columns, &mut ours).unwrap();
    assert!(ours == theirs, "{name}: {} and {} bytes", ours.len(), theirs.len());
}

/// Floats are stored as 64-bit patterns.
fn floats(value: &Value) -> Vec<f64> {
    wholes(value).into_iter().map(f64::from_bits).collect()
}

fn wholes(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
}

fn options(case: &Value) -> GptOptions {
    GptOptions {
        seed: case["seed"].as_u64().unwrap() as u32,
        sequence_length: case["seq"].as_u64().unwrap() as u32,
        samples: case["wanted"].as_u64(),
        extra_token: case["extra"] == 1,
        drop_last: case["drop_last"] == true,
        wide: case["wide"] == true,
    }
}

fn lengths(dir: &Path, name: &str) -> Vec<i32> {
    let bytes = std::fs::read(dir.join(format!("gpt-{name}-lengths.npy"))).unwrap();
    let (view, _) = read_npy(&bytes).unwrap();
    (0..view.len()).map(|at| view.get(at).unwrap() as i32).collect()
}

fn gpt(dir: &Path, case: &Value) {
    let name = case["name"].as_str().unwrap();
    let lengths = lengths(dir, name);
    let splits = Splits::parse(case["split"].as_str().unwrap()).unwrap();
    let part = Split::ALL[case["part"].as_u64().unwrap() as usize];
    let ids = splits.range(part, lengths.len() as u32).unwrap();
    assert_eq!(wholes(&case["ids"]), [u64::from(ids.start), u64::from(ids.end)], "{name}");
    let index = GptIndex::build(&lengths, ids, &options(case)).unwrap();
    same(dir, &format!("gpt-{name}-document"), &index.document, 1);
    same(dir, &format!("gpt-{name}-sample"), &index.sample, 2);
    same(dir, &format!("gpt-{name}-shuffle"), &index.shuffle, 1);
}

fn blend(dir: &Path, case: &Value) {
    let name = case["name"].as_str().unwrap();
    let size = case["size"].as_u64().unwrap();
    let weights = floats(&case["weights"]);
    assert_eq!(normalized(&floats(&case["once"])), floats(&case["twice"]));
    // The requested size is not among the case's values: the least one that gives this index.
    let request = (1..=size).map(|asked| BlendRequest::new(&weights, asked, SURPLUS).unwrap());
    let request = request.into_iter().find(|request| request.size == size).unwrap();
    assert_eq!((request.weights.clone(), request.requests), (floats(&case["once"]), wholes(&case["asked"])));
    let index = BlendIndex::weighted(&request.weights, size).unwrap();
    both(dir, &format!("blend-{name}"), &index);
}

fn both(dir: &Path, name: &str, index: &BlendIndex) {
    same(dir, &format!("{name}-dataset"), &index.dataset, 1);
    same(dir, &format!("{name}-sample"), &index.sample, 1);
}

fn corpus(dir: &Path, case: &Value) {
    let name = case["name"].as_str().unwrap();
    let files: Vec<CorpusFile> = case["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| CorpusFile { weight: floats(&file[0])[0], corpus: file[1].as_str().unwrap().to_owned() })
        .collect();
    let shuffle = case["seed"].as_u64().map(|seed| seed as u32);
    let options = CorpusOptions { blend: case["blended"] == true, shuffle };
    let order = CorpusBlend::build(&files, case["wanted"].as_u64().unwrap(), options).unwrap();
    assert_eq!(order.requests, wholes(&case["asked"]));
    both(dir, &format!("corpus-{name}"), &order.index);
    let names: Vec<&str> = order.corpora.iter().map(|corpus| corpus.name.as_str()).collect();
    assert_eq!(serde_json::to_value(names).unwrap(), case["names"]);
    for corpus in &order.corpora {
        both(dir, &format!("corpus-{name}-{}", corpus.name), &corpus.index);
        if let Some(shuffle) = &corpus.shuffle {
            same(dir, &format!("corpus-{name}-{}-order", corpus.name), shuffle, 1);
        }
    }
}

fn split(case: &Value) {
    let splits = Splits::parse(case["text"].as_str().unwrap()).unwrap();
    let count = case["count"].as_u64().unwrap() as u32;
    for (at, part) in Split::ALL.into_iter().enumerate() {
        let range = splits.range(part, count).map(|range| serde_json::json!([range.start, range.end]));
        assert_eq!(range.unwrap_or(Value::Null), case["ranges"][at], "{case}");
        let range = Some(splits.range_by_sizes(part, count)).filter(|range| !range.is_empty());
        let range = range.map(|range| serde_json::json!([range.start, range.end]));
        assert_eq!(range.unwrap_or(Value::Null), case["by_size"][at], "{case}");
    }
}

fn draws(case: &Value) {
    let mut random = RandomState::new(case["seed"].as_u64().unwrap() as u32);
    let draws: Vec<u64> = wholes(&case["tops"]).into_iter().map(|top| random.at_most(top)).collect();
    assert_eq!(draws, wholes(&case["draws"]), "{case}");
}

fn dataset(case: &Value, tokenizer: Json) -> GptDescription {
    GptDescription {
        dataset_path: case["path"].as_str().unwrap().to_owned(),
        samples: case["wanted"].as_u64(),
        split: Split::ALL[case["part"].as_u64().unwrap() as usize],
        seed: case["seed"].as_u64().unwrap() as u32,
        sequence_length: case["seq"].as_u64().unwrap() as u32,
        splits: case["split"].as_str().map(|text| Splits::parse(text).unwrap()),
        tokenizer,
    }
}

fn blend_description(case: &Value, datasets: &[GptDescription]) {
    let weights = match case["size"].as_u64() {
        Some(size) => BlendWeights::Weighted(floats(&case["weights"]), size),
        None => BlendWeights::Exhaustive(wholes(&case["weights"])),
    };
    let description = BlendDescription { datasets: datasets.to_vec(), split: Split::Train, weights };
    assert_eq!(description.text(), case["text"].as_str().unwrap());
    let index = BlendIndex::exhaustive(&[2, 2]).unwrap();
    let md5 = case["md5"].as_str().unwrap();
    assert_eq!(description.files(&index)[2].name, format!("{md5}-BlendedDataset-train-dataset_sample_index.npy"));
}

#[test]
fn every_number_is_the_ports() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/port.py");
    let output = Command::new(python).arg(script).arg("cases").arg(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut datasets, mut counts) = (Vec::new(), std::collections::BTreeMap::<String, u32>::new());
    let lines = std::fs::read_to_string(dir.join("cases.jsonl")).unwrap();
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let kind = case["kind"].as_str().unwrap();
        *counts.entry(kind.to_owned()).or_default() += 1;
        match kind {
            "gpt" => gpt(dir, &case),
            "blend" => blend(dir, &case),
            "exhaustive" => {
                let name = format!("exhaustive-{}", case["name"].as_str().unwrap());
                both(dir, &name, &BlendIndex::exhaustive(&wholes(&case["sizes"])).unwrap());
            }
            "corpus" => corpus(dir, &case),
            "sum" => assert_eq!(pairwise_sum(&floats(&case["values"])), floats(&case["sum"])[0]),
            "split" => split(&case),
            "draws" => draws(&case),
            "description" => {
                let whole: Json = serde_json::from_str(line).unwrap();
                let Json::Object(pairs) = whole else { panic!("{line}") };
                let tokenizer = pairs.into_iter().find(|pair| pair.0 == "tokenizer").unwrap().1;
                let description = dataset(&case, tokenizer);
                assert_eq!(description.text(), case["text"].as_str().unwrap());
                datasets.push(description);
            }
            "blend description" => blend_description(&case, &datasets),
            other => panic!("{other}"),
        }
    }
    println!("{counts:?}");
    assert!(counts["gpt"] >= 60 && counts["blend"] >= 20 && counts["exhaustive"] >= 5 && counts["corpus"] >= 8);
}
