use super::*;
use packhorse_core::split_name;

fn table(values: &[&str]) -> Result<Metadata> {
    let mut rows = Metadata::empty("line", &ColumnRequest::new("id", None, Limits::default())?);
    for (at, value) in values.iter().enumerate() {
        rows.insert(value, &format!("{{\"at\":{at}}}"), at as u64 + 2)?;
    }
    Ok(rows)
}

#[test]
fn a_key_names_a_file_or_a_sample() {
    for (value, key) in [
        ("dress/0001.jpg", "dress/0001"),
        ("dress/0001", "dress/0001"),
        ("./dress//0001.seg.png", "dress/0001"),
        ("0001", "0001"),
        ("my photo", "my%20photo"),
        ("my photo.jpg", "my%20photo"),
        ("v1.2/x", "v1%2E2/x"),
        ("v1.2/x.jpg", "v1%2E2/x"),
        ("v1.2", "v1%2E2"),
        ("v1.2.jpg", "v1"),
        ("a.", "a%2E"),
        ("__x", "%5F_x"),
        ("__x.jpg", "%5F_x"),
        ("__x/y", "%5F_x/y"),
        ("a/__x", "a/__x"),
        ("größe/日本", "größe/日本"),
    ] {
        assert_eq!(canonical(value, &KeyEnds::FirstDot).as_deref(), Ok(key), "{value}");
    }
    for (value, key) in [("v1.5", "v1%2E5"), ("v1.5.jpg", "v1%2E5"), ("a.v2", "a%2Ev2"), ("v1", "v1"), ("v1.mp4", "v1")]
    {
        assert_eq!(canonical(value, &KeyEnds::LastDot).as_deref(), Ok(key), "{value}");
    }
    for value in ["", "a/", "/", "..", "a/..", ".x", "a/.x", ".git/x"] {
        assert!(canonical(value, &KeyEnds::FirstDot).is_err(), "{value}");
    }
}

#[test]
fn a_value_means_what_the_file_of_its_name_means() {
    for stem in ["a", "__a", "my photo", "x/__a", "v1.2/a", "%20", "ä/\u{a0}"] {
        let file = split_name(format!("{stem}.jpg").as_bytes()).unwrap().key;
        assert_eq!(canonical(stem, &KeyEnds::FirstDot).unwrap(), file);
        assert_eq!(canonical(&file, &KeyEnds::FirstDot).unwrap(), file, "a canonical key stands for itself");
    }
}

#[test]
fn rows_are_found_by_key_and_those_never_asked_for_are_known() {
    let names: Vec<String> = (0..1000).map(|i| format!("k/{i:04}.jpg")).collect();
    let rows = table(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert_eq!((rows.len(), rows.is_empty()), (1000, false));
    assert_eq!(rows.unused(), (1000, Some("k/0000")));
    for i in 0..130 {
        assert_eq!(rows.get(&format!("k/{i:04}")), Some(format!("{{\"at\":{i}}}").as_str()));
    }
    assert_eq!(rows.unused(), (870, Some("k/0130")));
    assert_eq!((rows.get("k/1000"), rows.get("k/0000.jpg"), rows.get("")), (None, None, None));
    (0..1000).filter(|i| *i != 640).for_each(|i| assert!(rows.get(&format!("k/{i:04}")).is_some()));
    assert_eq!(rows.unused(), (1, Some("k/0640")));
    rows.get("k/0640");
    assert_eq!(rows.unused(), (0, None));
}

#[test]
fn full_words_of_used_rows_have_no_first_unused() {
    for len in [0, 1, 63, 64, 65, 128] {
        let names: Vec<String> = (0..len).map(|i| i.to_string()).collect();
        let rows = table(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        names.iter().for_each(|name| assert!(rows.get(name).is_some()));
        assert_eq!(rows.unused(), (0, None), "{len}");
    }
}

#[test]
fn two_rows_of_a_key_are_named() {
    let error = table(&["b", "a.jpg", "c", "a"]).unwrap_err();
    assert_eq!(error.kind(), Kind::Content);
    assert!(error.message().starts_with("lines 3 and 5 have the same key \"a\""), "{error}");
    let error = table(&["b", ".a"]).unwrap_err();
    assert!(error.message().starts_with("line 3: the key \".a\" names a hidden file"), "{error}");
}

#[test]
fn threads_share_a_table() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&table(&[]).unwrap());
}

/// The metadata of the table `path`.
fn read(path: &Path, recipe: &Recipe) -> Result<Metadata> {
    Metadata::of(&Registry::new(), recipe, (path, "id"), Limits::default(), InputFolders::default())
}

#[test]
fn the_extension_says_what_a_table_is() {
    let dir = tempfile::tempdir().unwrap();
    let plain = Recipe::default();
    for (name, text) in [
        ("a.csv", "id,x\na.jpg,1\n"),
        ("a.TSV", "id\tx\na.jpg\t1\n"),
        ("a.jsonl", "{\"id\":\"a.jpg\",\"x\":1}\n"),
        ("a.json", "[{\"id\":\"a.jpg\",\"x\":1}]\n"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let rows = read(&path, &plain).unwrap();
        assert_eq!(rows.get("a"), Some(r#"{"id":"a.jpg","x":1}"#));
        let key = (&*path, "ID");
        let of = Metadata::of(&Registry::new(), &plain, key, Limits::default(), InputFolders::default());
        let error = of.unwrap_err();
        assert_eq!((error.kind(), error.input()), (Kind::Config, path.to_str()));
        assert_eq!(error.message(), r#"has no column "ID"; choose among "id", "x""#);
        let error = read(&path, &Recipe { columns: vec!["y".to_owned()], ..Recipe::default() }).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
    }
    for name in ["a", "a.xlsx", "a.txt"] {
        let error = read(&dir.path().join(name), &plain).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(error.message().contains("must end in .csv, .tsv, .jsonl, .json or"));
    }
    let list = dir.path().join("a.txt");
    std::fs::write(&list, "id x\na.jpg  1\n").unwrap();
    let spaces = Recipe { metadata_read: vec!["delimiter=spaces".to_owned()], ..Recipe::default() };
    assert_eq!(read(&list, &spaces).unwrap().get("a"), Some(r#"{"id":"a.jpg","x":1}"#));
    let error = read(&dir.path().join("none.csv"), &plain).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::Config, Some(2)));
    std::fs::create_dir(dir.path().join("d.csv")).unwrap();
    assert_eq!(read(&dir.path().join("d.csv"), &plain).unwrap_err().kind(), Kind::Content);
}

#[test]
fn rows_of_one_key_are_a_list() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a.csv", "id,x\na.jpg,1\nb.jpg,2\na.jpg,3\n"), ("b.csv", "id,x\nc,4\na,5\na,6\nb,7\n")] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let lists = Recipe { metadata_rows: MetadataRows::List, ..Recipe::default() };
    let rows = read(&dir.path().join("*.csv"), &lists).unwrap();
    let of_a = r#"[{"id":"a.jpg","x":1},{"id":"a.jpg","x":3},{"id":"a","x":5},{"id":"a","x":6}]"#;
    assert_eq!((rows.len(), rows.get("a")), (3, Some(of_a)));
    assert_eq!(rows.get("b"), Some(r#"[{"id":"b.jpg","x":2},{"id":"b","x":7}]"#));
    assert_eq!(rows.unused(), (1, Some("c")));
    let error = read(&dir.path().join("*.csv"), &Recipe::default()).unwrap_err();
    assert!(error.to_string().contains("lines 2 and 4") && error.to_string().contains("metadata-rows=list"), "{error}");
}
