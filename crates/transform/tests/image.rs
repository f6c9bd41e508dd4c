//! Views against Pillow: decode, orient, crop and resize give the same pixels as common loaders.
//!
//! Needs `PACKHORSE_PYTHON` (a Python with tests/interop/requirements.txt); photographs come from
//! `PACKHORSE_TEST_DATA`. Without them these tests are skipped with a message.
#![expect(clippy::unwrap_used, reason = "a test fails on the first error and prints its results")]

use jpeg_encoder::{ColorType, Encoder};
use packhorse_core::Limits;
use packhorse_testkit::external::{data, python};
use packhorse_transform::image::{Draws, Filter, Size, View, ViewDecoder};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Largest and mean difference to Pillow for JPEGs that are only decoded; none with libjpeg-turbo.
const DECODED: (u8, f64) = if cfg!(feature = "turbojpeg") { (0, 0.0) } else { (7, 0.45) };
/// For resized images.
const RESIZED: (u8, f64) = (2, 0.5);
/// For resized JPEGs: the decoders differ, too.
const BOTH: (u8, f64) = if cfg!(feature = "turbojpeg") { RESIZED } else { (6, 0.6) };

/// Makes images that Pillow can't: YCCK, and 16-bit PNGs with several channels.
fn make(folder: &Path) {
    for (width, height) in [(16u16, 16u16), (35, 50)] {
        let cmyk: Vec<u8> = (0..usize::from(width) * usize::from(height) * 4).map(|at| (at * 5 % 241) as u8).collect();
        for (name, colors) in [("cmyk", ColorType::Cmyk), ("ycck", ColorType::CmykAsYcck)] {
            let file = folder.join(format!("made-{width}-{name}.jpg"));
            Encoder::new_file(file, 90).unwrap().encode(&cmyk, width, height, colors).unwrap();
        }
        for (name, color, channels) in [("rgb", png::ColorType::Rgb, 3), ("rgba", png::ColorType::Rgba, 4)] {
            let file = std::fs::File::create(folder.join(format!("made-{width}-{name}16.png"))).unwrap();
            let mut encoder = png::Encoder::new(file, width.into(), height.into());
            encoder.set_color(color);
            encoder.set_depth(png::BitDepth::Sixteen);
            let len = usize::from(width) * usize::from(height) * channels * 2;
            let pixels: Vec<u8> = (0..len).map(|at| (at * 7 % 253) as u8).collect();
            encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        }
    }
}

/// Extracts some photographs of a tar.
fn photographs(folder: &Path) {
    let Some(data) = data() else { return };
    let tar = std::fs::read(data.join("clothing-train.tar")).unwrap();
    let (mut at, mut found) = (0, 0);
    while at + 512 <= tar.len() && found < 25 {
        let text = |from: usize, to: usize| String::from_utf8_lossy(&tar[at + from..at + to]).into_owned();
        let (name, size) = (text(0, 100), text(124, 135));
        let Ok(size) = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8) else { return };
        if name.trim_matches('\0').ends_with(".jpg") {
            found += 1;
            std::fs::write(folder.join(format!("photo{found}.jpg")), &tar[at + 512..at + 512 + size]).unwrap();
        }
        at += 512 + size.div_ceil(512) * 512;
    }
}

fn view_of(name: &str) -> View {
    let bilinear = |size| View { size, ..View::default() };
    let (height, width) = (64, 56);
    match name {
        "keep" => View::default(),
        "squash" => bilinear(Size::Squash { height: 48, width: 60 }),
        "squash-bicubic" => View { filter: Filter::Bicubic, ..bilinear(Size::Squash { height: 48, width: 60 }) },
        "center" => bilinear(Size::Center { short: 72, height, width }),
        _ => View {
            flip: 0.5,
            ..bilinear(Size::Random { height, width, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) })
        },
    }
}

#[test]
fn views_match_pillow() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    photographs(folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image/oracle.py");
    assert!(Command::new(python).arg(script).arg(folder.path()).status().unwrap().success());
    let lines = std::fs::read_to_string(folder.path().join("oracle.jsonl")).unwrap();
    let mut worst: BTreeMap<String, (u8, f64)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let (file, view) = (line["file"].as_str().unwrap(), line["view"].as_str().unwrap());
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let expected = std::fs::read(folder.path().join(format!("{file}.{view}.rgb"))).unwrap();
        let mut decoder = ViewDecoder::new(view_of(view), Limits::default()).unwrap();
        let (height, width) = decoder.size(&bytes).unwrap();
        assert_eq!(
            (Some(u64::from(height)), Some(u64::from(width))),
            (line["height"].as_u64(), line["width"].as_u64())
        );
        let mut out = vec![0; expected.len()];
        decoder.decode_into(&bytes, Draws::new(line["key"].as_u64().unwrap()), &mut out).unwrap();
        let found = difference(&out, &expected);
        let png = file.ends_with(".png");
        let bound = match (view, png) {
            ("keep", true) => (0, 0.0),
            // Rotated images are resampled before they are rotated.
            ("squash-bicubic", _) => (BOTH.0.max(4), BOTH.1),
            (_, true) => RESIZED,
            ("keep", false) => DECODED,
            _ => BOTH,
        };
        if found.0 > bound.0 || found.1 > bound.1 {
            wrong.push(format!("{file} {view}: {found:?}, not {bound:?}"));
        }
        let kind = format!("{view} of {}", if png { "PNG" } else { "JPEG" });
        let most = worst.entry(kind).or_default();
        *most = (most.0.max(found.0), most.1.max(found.1));
    }
    println!("largest differences (any value, mean of a picture): {worst:#?}");
    assert!(wrong.is_empty(), "{} differ too much: {:#?}", wrong.len(), wrong.iter().take(20).collect::<Vec<_>>());
}

/// Reduced decoding shifts pixels only a little.
#[cfg(feature = "turbojpeg")]
#[test]
fn reduced_photographs_stay_near() {
    let folder = tempfile::tempdir().unwrap();
    photographs(folder.path());
    let view = view_of("center");
    let mut worst = (0, 0.0f64);
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let [exact, near] = [view, View { reduced: true, ..view }].map(|view| {
            let mut out = vec![0; 64 * 56 * 3];
            let mut decoder = ViewDecoder::new(view, Limits::default()).unwrap();
            decoder.decode_into(&bytes, Draws::new(0), &mut out).unwrap();
            out
        });
        let found = difference(&exact, &near);
        worst = (worst.0.max(found.0), worst.1.max(found.1));
    }
    println!("largest difference of a reduced photograph, largest mean: {worst:?}");
    assert!(worst.1 < 3.0, "{worst:?}");
}

/// Largest and mean difference.
fn difference(a: &[u8], b: &[u8]) -> (u8, f64) {
    let each = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    (each().max().unwrap_or(0), each().map(f64::from).sum::<f64>() / a.len() as f64)
}
