//! WebP, TIFF, BMP, GIF and PNM: pixels match Pillow's, and damaged files never panic.
//!
//! Needs `PACKHORSE_PYTHON` (a Python with tests/interop/requirements.txt), which makes the images. Without it these
//! tests are skipped with a message.
#![cfg(feature = "image")]
#![expect(clippy::unwrap_used, reason = "a test fails on the first error and prints its results")]

use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use packhorse_core::{KEY, Limits};
use packhorse_testkit::external::python;
use packhorse_transform::Transform;
use packhorse_transform::image::{Check, Draws, Image, ImageOptions, Keep, View, ViewDecoder};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Peak memory of this process in bytes; 0 if unknown.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok()).unwrap_or_default() << 10
}

/// Serializes these tests: memory and panics are counted per process.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes images and Pillow's decoded pixels in a folder.
fn made() -> Option<tempfile::TempDir> {
    let python = python()?;
    let folder = tempfile::tempdir().unwrap();
    assert!(script(&python, folder.path()).status().unwrap().success());
    Some(folder)
}

fn script(python: &Path, folder: &Path) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image/kinds.py");
    let mut command = Command::new(python);
    command.arg(script).arg(folder);
    command
}

fn lines(folder: &Path) -> Vec<serde_json::Value> {
    let lines = std::fs::read_to_string(folder.join("kinds.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn pixels_match_pillow() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(folder) = made() else { return };
    let mut decoder = ViewDecoder::new(View::default(), Limits::default()).unwrap();
    let (mut wrong, mut worst) = (Vec::new(), BTreeMap::<String, (u8, f64)>::new());
    let mut count = 0;
    for line in lines(folder.path()) {
        let file = line["file"].as_str().unwrap();
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let expected = std::fs::read(folder.path().join(format!("{file}.rgb"))).unwrap();
        let mut out = vec![0; expected.len()];
        let shape = match decoder.size(&bytes) {
            Ok(shape) => shape,
            Err(error) => {
                wrong.push(format!("{file}: {error}"));
                continue;
            }
        };
        if (Some(u64::from(shape.0)), Some(u64::from(shape.1))) != (line["height"].as_u64(), line["width"].as_u64()) {
            wrong.push(format!("{file}: {shape:?}"));
            continue;
        }
        if let Err(error) = decoder.decode_into(&bytes, Draws::new(0), &mut out) {
            wrong.push(format!("{file}: {error}"));
            continue;
        }
        count += 1;
        let each = || out.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b));
        let found = (each().max().unwrap_or(0), each().map(f64::from).sum::<f64>() / out.len() as f64);
        if u64::from(found.0) > line["most"].as_u64().unwrap() {
            wrong.push(format!("{file}: {found:?}"));
        }
        let kind = format!("{}, {}", file.rsplit('.').next().unwrap(), line["most"]);
        let most = worst.entry(kind).or_default();
        *most = (most.0.max(found.0), most.1.max(found.1));
    }
    println!("{count} pictures; largest differences by kind and bound (any value, mean of a picture): {worst:#?}");
    assert!(wrong.is_empty(), "{} differ: {:#?}", wrong.len(), wrong.iter().take(60).collect::<Vec<_>>());
}

/// Runs the image transform on one image.
fn transformed(options: ImageOptions, limits: Limits, bytes: &[u8]) -> packhorse_core::Result<Vec<u8>> {
    let fields = vec![Field::new(KEY, DataType::Utf8View, false), Field::new("webp", DataType::BinaryView, false)];
    let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from(vec![bytes]));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![keys, blobs]).unwrap();
    let rows = Image::new(options, limits)?.apply(rows)?;
    let column = rows.column(1).as_any().downcast_ref::<BinaryViewArray>().unwrap();
    Ok(column.value(0).to_vec())
}

fn decoded(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut decoder = ViewDecoder::new(View::default(), Limits::default()).unwrap();
    let (height, width) = decoder.size(bytes).unwrap();
    let mut out = vec![0; height as usize * width as usize * 3];
    decoder.decode_into(bytes, Draws::new(0), &mut out).unwrap();
    (height, width, out)
}

#[test]
fn resized_images_keep_their_format_and_pillow_reads_them() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(folder) = made() else { return };
    let resized = tempfile::tempdir().unwrap();
    for line in lines(folder.path()) {
        let file = line["file"].as_str().unwrap();
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        let options = ImageOptions {
            resize: Some("9x6".parse().unwrap()),
            check: Some(Check::Strict),
            keep: Keep { icc: true, exif: true },
            ..ImageOptions::default()
        };
        let new = transformed(options, Limits::default(), &bytes).unwrap_or_else(|error| panic!("{file}: {error}"));
        let kind = |bytes: &[u8]| match bytes[0] {
            b'M' => b'I',
            b'R' => bytes[8],
            first => first,
        };
        assert_eq!(kind(&new), kind(&bytes), "{file}");
        if ["-palette", "-few", "-bits", "-interlaced", "-clear"].iter().any(|mode| file.contains(mode))
            && !file.ends_with(".webp")
        {
            let (old, new) = (decoded(&bytes), decoded(&new));
            let colours: std::collections::BTreeSet<&[u8]> = old.2.chunks(3).collect();
            assert!(new.2.chunks(3).all(|colour| colours.contains(colour)), "{file} has new colours");
        }
        std::fs::write(resized.path().join(file), new).unwrap();
    }
    let python = python().unwrap();
    assert!(script(&python, resized.path()).arg("read").status().unwrap().success());
    for line in lines(resized.path()) {
        let file = line["file"].as_str().unwrap();
        let expected = std::fs::read(resized.path().join(format!("{file}.rgb"))).unwrap();
        let (height, width, pixels) = decoded(&std::fs::read(resized.path().join(file)).unwrap());
        let most = pixels.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max();
        assert_eq!((height, width, expected.len()), (6, 9, pixels.len()), "{file}");
        assert!(most <= Some(if file.contains("meta.jpg") { 12 } else { 0 }), "{file}: {most:?}");
        if file.contains("-meta.") {
            let has = (line["icc"].as_bool().unwrap(), line["exif"].as_bool().unwrap());
            assert_eq!(has, (true, !file.ends_with("tif")), "{file}");
        }
    }
}

/// SplitMix64.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % below as u64) as usize
}

fn mutated(state: &mut u64, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random(state, 3) {
        let len = bytes.len();
        if len == 0 {
            return bytes;
        }
        // Hit headers as often as the rest.
        let within = if random(state, 2) == 0 { len.min(64) } else { len };
        let at = random(state, within);
        match random(state, 5) {
            0 => bytes.truncate(at),
            1 => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << random(state, 8)),
            2 => bytes.get_mut(at..).into_iter().flatten().take(1 + random(state, 4)).for_each(|byte| *byte = 0xff),
            3 => bytes.get_mut(at..).into_iter().flatten().take(1 + random(state, 40)).for_each(|byte| *byte = 0),
            _ => drop(bytes.drain(at..(at + random(state, 40)).min(len))),
        }
    }
    bytes
}

#[test]
fn a_thousand_mutations_of_each_format_never_panic() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(folder) = made() else { return };
    // Counts panics inside decoders, even if caught.
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    std::panic::set_hook(Box::new(|info| {
        PANICS.fetch_add(1, Relaxed);
        println!("{info}");
    }));
    let limits = Limits { pixels: 1 << 17, ..Limits::default() };
    let files: Vec<String> =
        lines(folder.path()).iter().map(|line| line["file"].as_str().unwrap().to_owned()).collect();
    let mut decoder = ViewDecoder::new(View::default(), Limits::default()).unwrap();
    let mut state = 7;
    let before = most_memory();
    for kind in ["webp", "tif", "bmp", "gif", "ppm", "pgm", "pbm", "pnm"] {
        let files: Vec<&String> =
            files.iter().filter(|file| file.ends_with(kind) && !file.starts_with("1x1")).collect();
        let mut pictures = 0;
        for number in 0..1000 {
            let file = files[number % files.len()];
            let bytes = mutated(&mut state, &std::fs::read(folder.path().join(file)).unwrap());
            let resize = (number % 2 == 0).then(|| "9x6".parse().unwrap());
            let options = ImageOptions { check: Some(Check::Strict), resize, ..ImageOptions::default() };
            // Decoded pixels are bounded, whatever a damaged header claims.
            if let Ok(picture) = transformed(options, limits, &bytes) {
                let (height, width) = decoder.size(&picture).unwrap();
                let pixels = u64::from(height) * u64::from(width);
                assert!(pixels <= if resize.is_some() { 9 * 6 } else { limits.pixels }, "{file}: {width} x {height}");
                pictures += 1;
            }
        }
        println!("{kind}: {pictures} of 1000 mutations are pictures");
        assert!(pictures > 0, "{kind}");
    }
    let _ = std::panic::take_hook();
    let grown = most_memory() - before;
    println!("{} panics; memory grew by {grown} bytes at most", PANICS.load(Relaxed));
    assert_eq!(PANICS.load(Relaxed), 0);
    // 32 bytes per allowed pixel, plus allocator overhead.
    assert!(grown < (32 << 17) + (32 << 20), "{grown}");
}
