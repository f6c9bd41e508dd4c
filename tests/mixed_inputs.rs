//! Files and rows of tables in one dataset: where both have a field, the values of both are there, in every container.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::packhorse;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const CONTAINERS: [&str; 5] = ["webdataset", "parquet", "arrow", "hdf5", "tfrecord"];

struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, bytes) in files {
            let path = place.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command in the folder, whose words have spaces between them; what it printed.
    fn runs(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        let mut program = packhorse(&words);
        program.0.current_dir(self.0.path());
        let ended = program.run();
        assert_eq!(ended.code(), 0, "{words:?}: {ended:?}");
        ended.printed
    }

    /// The fields of all samples of a dataset. A label is a number in some containers, and its text in others.
    fn samples(&self, dataset: &str) -> BTreeMap<String, Value> {
        self.runs(&format!("verify {dataset} --full"));
        let shown = self.runs(&format!("head {dataset} -n 100 --json"));
        let lines = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["key"].as_str().unwrap().to_owned(), texts(&line["fields"]))).collect()
    }
}

/// Numbers as text; fields without a value are left out.
fn texts(fields: &Value) -> Value {
    let fields = fields.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    fields
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect()
}

fn wanted(samples: &[(&str, Value)]) -> BTreeMap<String, Value> {
    samples.iter().map(|(key, fields)| ((*key).to_owned(), fields.clone())).collect()
}

fn classes() -> Place {
    let files: [(&str, &[u8]); 4] =
        [("a/cat/1.txt", b"one"), ("a/dog/2.txt", b"two"), ("b/cat/3.txt", b"three"), ("b/dog/4.txt", b"four")];
    let place = Place::new(&files);
    place.runs("pack a --labels folders --to webdataset --out members");
    place.runs("pack b --labels folders --to parquet --out rows");
    place
}

#[test]
fn labels_of_both_are_there() {
    let place = classes();
    let all = wanted(&[
        ("cat/1", json!({"cls": "0", "txt": "one"})),
        ("cat/3", json!({"cls": "0", "txt": "three"})),
        ("dog/2", json!({"cls": "1", "txt": "two"})),
        ("dog/4", json!({"cls": "1", "txt": "four"})),
    ]);
    for (number, to) in CONTAINERS.into_iter().enumerate() {
        let inputs = if number % 2 == 0 { "members rows" } else { "rows members" };
        place.runs(&format!("pack {inputs} --to {to} --out {to}"));
        assert_eq!(place.samples(to), all, "{to}");
    }
    place.runs("append rows members");
    assert_eq!(place.samples("rows"), all);
    // Members of tars stay bytes: rows become such first, as the error says.
    place.runs("pack b --labels folders --to parquet --out others");
    place.runs("pack others --to webdataset --out other-members");
    place.runs("append members other-members");
    assert_eq!(place.samples("members"), all);
}

#[test]
fn files_have_the_types_that_casts_and_tables_say() {
    let place = Place::new(&[
        ("f/1.cls", b"3"),
        ("f/1.txt", b"x"),
        ("t.csv", b"__key__,cls,n\na,7,1\nb,,2\n"),
        ("u.csv", b"__key__,txt\n2,yo\n"),
        ("g/1.txt", b"x"),
    ]);
    for to in CONTAINERS {
        for (out, cast) in [("plain", ""), ("cast", " --cast cls=i64")] {
            let out = format!("{to}-{out}");
            place.runs(&format!("pack f t.csv{cast} --to {to} --out {out}"));
            let found = place.samples(&out);
            let label = |key: &str| found[key].get("cls").cloned();
            assert_eq!(["1", "a", "b"].map(label), [Some(json!("3")), Some(json!("7")), None], "{out}");
        }
    }
    let both = wanted(&[("1", json!({"cls": "3", "txt": "x"})), ("2", json!({"txt": "yo"}))]);
    place.runs("pack f u.csv --cast txt=text --to webdataset --out texts");
    assert_eq!(place.samples("texts"), both);
    // New samples are stored as those of the dataset.
    place.runs("pack u.csv --to webdataset --out grown");
    place.runs("append grown g");
    assert_eq!(place.samples("grown"), wanted(&[("1", json!({"txt": "x"})), ("2", json!({"txt": "yo"}))]));
}

#[test]
fn a_field_that_is_dropped_is_dropped_from_both() {
    let (a, b) = (npy(&[1.0]), npy(&[2.0]));
    let place = Place::new(&[
        ("d/1.n.npy", &a),
        ("d/1.txt", b"x"),
        ("d/2.n.npy", &b),
        ("d/2.txt", b"y"),
        ("t.csv", b"__key__,n,txt\n3,1.5,z\n"),
    ]);
    place.runs("pack t.csv --to parquet --out rows");
    for to in ["webdataset", "hdf5"] {
        for rows in ["t.csv", "rows"] {
            let out = format!("{to}-{rows}");
            place.runs(&format!("pack d {rows} --to {to} --drop n --out {out}"));
            let texts = [("1", "x"), ("2", "y"), ("3", "z")].map(|(key, text)| (key, json!({"txt": text})));
            assert_eq!(place.samples(&out), wanted(&texts), "{out}");
        }
    }
}

/// A `.npy` file of one axis of `f8`, as NumPy writes it.
fn npy(values: &[f64]) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({},), }}", values.len());
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn arrays_in_files_are_cast_where_members_stay_bytes() {
    let (a, b) = (npy(&[0.0, 1.5]), npy(&[2.5, 3.0]));
    let place = Place::new(&[("n/1.npy", &a), ("n/2.npy", &b), ("m/1.x.npy", &a), ("m/2.x.npy", &b)]);
    for (input, name, file) in [("n", "npy", "1.npy"), ("m", "x", "1.x.npy")] {
        place.runs(&format!("pack {input} --cast {name}=f32 --to webdataset --out out-{input}"));
        let shard = fs::File::open(place.path(&format!("out-{input}/shard-000000.tar"))).unwrap();
        assert!(member(shard, Path::new(file)).windows(3).any(|bytes| bytes == b"<f4"), "{file}");
    }
}

fn member(shard: fs::File, name: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for found in tar::Archive::new(shard).entries().unwrap() {
        let mut found = found.unwrap();
        if found.path().unwrap() == name {
            std::io::Read::read_to_end(&mut found, &mut bytes).unwrap();
        }
    }
    bytes
}
