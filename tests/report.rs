//! `packhorse report`: the page describes a dataset, and needs nothing but itself.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::packhorse;
use packhorse_testkit::external;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The page of a dataset, and what the command says of it.
fn report(dataset: &Path, dir: &Path) -> (String, Value) {
    let page = dir.join("report.html");
    let said = packhorse(&["report", text(dataset), "-o", text(&page), "--json"]).succeed();
    (std::fs::read_to_string(page).unwrap(), serde_json::from_str(&said.printed).unwrap())
}

/// The rows of all tables of a page, as text of their cells.
fn rows(html: &str) -> Vec<Vec<String>> {
    let cells =
        |row: &str| row.split("<td>").skip(1).map(|cell| cell.split("</td>").next().unwrap().to_owned()).collect();
    html.split("<tr>")
        .map(|row| cells(row.split("</tr>").next().unwrap()))
        .filter(|row: &Vec<_>| !row.is_empty())
        .collect()
}

/// Photos of ten classes in two splits, with an empty file, a broken picture and two equal ones, which are 42 in all.
fn photos(dir: &Path) -> PathBuf {
    let (photos, out) = (dir.join("photos"), dir.join("out"));
    packhorse(&["synth", "images", "--count", "39", "--out", text(&photos)]).succeed();
    let some = std::fs::read_dir(photos.join("cat")).unwrap().next().unwrap().unwrap().path();
    std::fs::copy(&some, photos.join("cat/copy.jpg")).unwrap();
    std::fs::write(photos.join("cat/broken.jpg"), vec![7; 9000]).unwrap();
    std::fs::write(photos.join("cat/tiny.jpg"), "x").unwrap();
    let flags = ["pack", text(&photos), "--to", "webdataset", "--out", text(&out), "--labels", "folders"];
    packhorse(&[&flags[..], &["--split", "train=0.7,val=0.3", "--samples-per-shard", "8"]].concat()).succeed();
    out
}

#[test]
fn it_counts_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let out = photos(dir.path());
    let (html, said) = report(&out, dir.path());
    for (name, count) in [("samples", 42), ("looked_at", 42), ("faulty", 2), ("doubles", 1), ("nearly_empty", 1)] {
        assert_eq!(said[name], count, "{name}: {said}");
    }
    // The classes of each split, counted from the samples themselves.
    let mut counted: BTreeMap<(String, i64), u64> = BTreeMap::new();
    let dataset = packhorse::open(text(&out)).unwrap();
    for split in ["train", "val"] {
        let loader = dataset.split(split).unwrap().loader(1).field("label", "cls").threads(0).build().unwrap();
        for batch in loader {
            *counted.entry((split.to_owned(), batch.unwrap().integers("label").next().unwrap())).or_default() += 1;
        }
    }
    let rows = rows(&html);
    for (class, name) in (0..).zip(dataset.classes()) {
        let count = |split: &str| counted.get(&(split.to_owned(), class)).copied().unwrap_or(0).to_string();
        assert!(
            rows.contains(&vec![format!("{class} {name}"), count("train"), count("val")]),
            "{class} {name}: {rows:?}"
        );
    }
    for part in ["width of jpg (40 samples)", "bytes of jpg (42 samples)", "cat/broken", "equal to", "root digest"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.matches("<img ").count() >= 40, "a thumbnail of every picture");
}

#[test]
fn it_needs_nothing_but_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (html, _) = report(&photos(dir.path()), dir.path());
    for part in ["http:", "https:", "<script", "<link", "url(", "@import", "src=\"/"] {
        assert!(!html.contains(part), "{part}");
    }
    let images = html.matches("<img ").count();
    assert_eq!(html.matches(" alt=\"").count(), images, "every picture has a text");
    let charts = html.matches("<svg ").count();
    assert!(charts > 4, "{charts}");
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), charts, "every chart has a text");
    assert!(html.len() < 3 << 20, "{} bytes", html.len());
}

#[test]
fn what_was_left_out_is_there_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (photos, out) = (dir.path().join("photos"), dir.path().join("out"));
    packhorse(&["synth", "images", "--count", "12", "--out", text(&photos)]).succeed();
    std::fs::create_dir_all(photos.join("cat")).unwrap();
    std::fs::write(photos.join("cat/broken.jpg"), vec![7; 9000]).unwrap();
    let flags = ["pack", text(&photos), "--to", "webdataset", "--out", text(&out), "--image", "check"];
    packhorse(&[&flags[..], &["--on-error", "skip"]].concat()).succeed();
    let (html, said) = report(&out, dir.path());
    assert_eq!((&said["samples"], &said["faulty"]), (&12.into(), &0.into()), "{said}");
    assert!(rows(&html).iter().any(|row| row[0].ends_with("cat/broken.jpg") && row.len() == 4), "{:?}", rows(&html));
}

#[test]
fn arrays_are_drawn_and_measured() {
    let dir = tempfile::tempdir().unwrap();
    let (arrays, out) = (dir.path().join("arrays"), dir.path().join("out"));
    packhorse(&["synth", "npz", "--count", "40", "--out", text(&arrays)]).succeed();
    packhorse(&["pack", text(&arrays), "--to", "hdf5", "--out", text(&out), "--ragged"]).succeed();
    let (html, said) = report(&out, dir.path());
    assert_eq!((&said["looked_at"], &said["doubles"]), (&40.into(), &0.into()));
    assert!(html.contains("<polyline points="), "{html}");
}

/// The cards below a heading: titles and the values of a line.
fn cards(html: &str, heading: &str, line: &str) -> Vec<(String, Option<String>)> {
    let section = html.split(&format!("<h2>{heading}</h2>")).nth(1).unwrap().split("</ol>").next().unwrap();
    let text = |card: &str, open: &str, close: &str| {
        card.split(open).nth(1).map(|rest| rest.split(close).next().unwrap().to_owned())
    };
    let card = |card| (text(card, "<h3>", "</h3>").unwrap(), text(card, &format!("<dt>{line}</dt><dd>"), "</dd>"));
    section.split("<li>").skip(1).map(card).collect()
}

#[test]
fn samples_are_found_again_where_splits_alternate() {
    // Each append adds shards of both splits after those that are there.
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    for part in 0..3 {
        let folder = dir.path().join(format!("in{part}"));
        std::fs::create_dir(&folder).unwrap();
        for i in 0..30 {
            let own = part * 30 + i;
            let content =
                if [7, 83].contains(&own) { "the same in two places".to_owned() } else { "x".repeat(100 + own) };
            std::fs::write(folder.join(format!("{own:02}.txt")), content).unwrap();
        }
        match part {
            0 => {
                std::fs::rename(&folder, &input).unwrap();
                let flags = ["pack", text(&input), "--to", "webdataset", "--out", text(&out)];
                packhorse(&[&flags[..], &["--split", "train=0.5,val=0.5", "--samples-per-shard", "5"]].concat())
                    .succeed();
            }
            _ => drop(packhorse(&["append", text(&out), text(&folder)]).succeed()),
        }
    }
    let (html, said) = report(&out, dir.path());
    assert_eq!((&said["samples"], &said["doubles"]), (&90.into(), &1.into()), "{said}");
    let pair = cards(&html, "The first groups", "equal to");
    let mut keys: Vec<&str> = pair.iter().map(|(title, _)| title.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["07", "83"], "{pair:?}");
    let largest: Vec<String> = cards(&html, "The largest samples", "bytes").into_iter().map(|card| card.0).collect();
    assert_eq!(largest, ["89", "88", "87", "86", "85", "84"]);
}

#[test]
fn a_table_of_many_columns_has_a_small_page() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    let line = |cell: &dyn Fn(usize) -> String| (0..2000).map(cell).collect::<Vec<_>>().join(",") + "\n";
    let rows: String = (0..20).map(|row| line(&|column| (row * column % 97).to_string())).collect();
    std::fs::write(&table, line(&|column| format!("c{column}")) + &rows).unwrap();
    packhorse(&["pack", text(&table), "--to", "parquet", "--out", text(&out)]).succeed();
    let (html, said) = report(&out, dir.path());
    assert_eq!(said["looked_at"], 20);
    assert!(html.contains("1940 more kinds of values are not shown."));
    assert!(html.len() < 3 << 20, "{} bytes", html.len());
}

#[test]
fn a_value_in_another_column_is_not_the_same_content() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("t.jsonl"), dir.path().join("out"));
    std::fs::write(&table, "{\"a\":1,\"b\":null}\n{\"a\":null,\"b\":1}\n{\"a\":1,\"b\":null}\n").unwrap();
    packhorse(&["pack", text(&table), "--from", "jsonl", "--to", "parquet", "--out", text(&out)]).succeed();
    let (_, said) = report(&out, dir.path());
    assert_eq!(said["doubles"], 1, "{said}");
}

#[test]
fn third_party_shards_are_described_too() {
    let dir = tempfile::tempdir().unwrap();
    let out = photos(dir.path());
    std::fs::remove_file(out.join("dataset.json")).unwrap();
    let (html, said) = report(&out.join("*.tar"), dir.path());
    assert_eq!((&said["samples"], &said["doubles"]), (&42.into(), &1.into()), "{said}");
    assert!(!html.contains("root digest") && html.contains("Samples of each class"));
}

#[test]
fn a_browser_finds_no_fault() {
    let Some(chromium) = external::chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (out, batch) = (photos(dir.path()), dir.path().join("batch.html"));
    report(&out, dir.path());
    packhorse(&["batch", text(&out), "--step", "0", "--batch", "24", "-o", text(&batch)]).succeed();
    let mut node = std::process::Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/page.js")).arg(chromium);
    let output = node.arg(dir.path().join("report.html")).arg(&batch).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 8, "two pages in light and dark, wide and narrow");
    for line in lines.lines() {
        let found: Value = serde_json::from_str(line).unwrap();
        for list in ["errors", "requests", "violations"] {
            assert_eq!(found[list], Value::Array(Vec::new()), "{list}: {line}");
        }
        assert!(found["overflow"].as_i64().unwrap() <= 0 && found["broken"] == 0, "{line}");
    }
}
