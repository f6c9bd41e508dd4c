//! View speed against the bare decoders, and against other libraries on the same files.
//!
//! ```text
//! PACKHORSE_PYTHON=… PACKHORSE_TEST_DATA=… cargo bench -p packhorse-transform [--features turbojpeg] --bench image
//! ```
//!
//! Single-threaded. Figures are images per second of CPU time: the best of several interleaved rounds, so that other
//! load on the machine matters little. `benches/peers/decode.py` lists its Python requirements.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails on the first error and prints its results"
)]

use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use packhorse_core::{Cancel, DataType, Field, KEY, Limits, Rows, Schema};
use packhorse_synth::{ImagesSpec, Run, images};
use packhorse_transform::Transform;
use packhorse_transform::image::{Check, Draws, Image, ImageOptions, Size, View, ViewDecoder};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

const ROUNDS: usize = 7;
const CROP: Size = Size::Random { height: 224, width: 224, scale: (0.08, 1.0), ratio: (0.75, 4.0 / 3.0) };

/// Decodes one image with a random key into the given buffer.
type Maker = Box<dyn FnMut(&[u8], u64, &mut [u8])>;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    for (name, count, side) in [("224", 300, 224), ("1024", 24, 1024)] {
        let spec = ImagesSpec { count, sides: side..=side, ..ImagesSpec::default() };
        let (jobs, cancel) = (std::num::NonZeroUsize::MIN, Cancel::default());
        images(&folder.path().join(name), &spec, &Run { jobs, cancel: &cancel, progress: &|_| () }).unwrap();
        measure(&format!("{side} × {side}, synthetic"), &folder.path().join(name));
    }
    if let Some(data) = std::env::var_os("PACKHORSE_TEST_DATA") {
        let photos = folder.path().join("photos");
        std::fs::create_dir(&photos).unwrap();
        let tar = Path::new(&data).join("clothing-train.tar");
        let members = "$(tar tf \"$0\" | grep jpg | head -200)";
        let script = format!("tar xf \"$0\" -C \"$1\" {members}");
        assert!(Command::new("sh").args(["-c", &script]).arg(tar).arg(&photos).status().unwrap().success());
        measure("photographs", &photos);
    }
}

fn measure(name: &str, folder: &Path) {
    let mut files = Vec::new();
    find(folder, &mut files);
    files.sort();
    let pictures: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let bytes: usize = pictures.iter().map(Vec::len).sum();
    println!("{name}: {} pictures of {:.1} KB", pictures.len(), bytes as f64 / 1e3 / pictures.len() as f64);

    let mut room = vec![0; 64 << 20];
    let view = |size, flip| View { size, flip, ..View::default() };
    let mut makers: Vec<(&str, Maker)> = vec![
        ("zune-jpeg, bare", Box::new(|bytes, _, out| zune(bytes, out))),
        ("Keep", maker(View::default())),
        ("Keep, all flipped", maker(view(Size::Keep, 1.0))),
        ("Squash 224", maker(view(Size::Squash { height: 224, width: 224 }, 0.0))),
        ("Center 256, 224", maker(view(Size::Center { short: 256, height: 224, width: 224 }, 0.0))),
        ("Random 224, half flipped", maker(view(CROP, 0.5))),
        ("--image check=lenient", checker(Check::Lenient)),
        ("--image check", checker(Check::Strict)),
    ];
    #[cfg(feature = "turbojpeg")]
    {
        let mut bare = turbojpeg::Decompressor::new().unwrap();
        makers.insert(1, ("libjpeg-turbo, bare", Box::new(move |bytes, _, out| turbo(&mut bare, bytes, out))));
        makers.push(("Random 224, half flipped, reduced", maker(View { reduced: true, ..view(CROP, 0.5) })));
        let center = view(Size::Center { short: 256, height: 224, width: 224 }, 0.0);
        makers.push(("Center 256, 224, reduced", maker(View { reduced: true, ..center })));
    }
    let mut best = vec![f64::MAX; makers.len()];
    for _ in 0..ROUNDS {
        for (maker, best) in makers.iter_mut().zip(&mut best) {
            let start = on_cpu();
            pictures.iter().zip(0..).for_each(|(picture, key)| (maker.1)(picture, key * 0x9e37_79b9, &mut room));
            *best = best.min((on_cpu() - start) / pictures.len() as f64);
        }
    }
    let bare = best[makers.iter().position(|(name, _)| *name == "Keep").unwrap() - 1];
    for ((name, _), best) in makers.iter().zip(&best) {
        println!("  {name:36} {:7.0}/s   {:.3} of the bare decoder", 1.0 / best, bare / best);
    }
    peers(folder);
}

fn maker(view: View) -> Maker {
    let mut decoder = ViewDecoder::new(view, Limits::default()).unwrap();
    Box::new(move |bytes, key, out| {
        let (height, width) = decoder.size(bytes).unwrap();
        let room = &mut out[..height as usize * width as usize * 3];
        decoder.decode_into(bytes, Draws::new(key), room).unwrap();
    })
}

/// The packing transform on one image, including its record batch.
fn checker(check: Check) -> Maker {
    let image = Image::new(ImageOptions { check: Some(check), ..ImageOptions::default() }, Limits::default()).unwrap();
    let fields = vec![Field::new(KEY, DataType::Utf8View, false), Field::new("jpg", DataType::BinaryView, false)];
    let schema = Arc::new(Schema::new(fields));
    Box::new(move |bytes, _, _| {
        let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
        let blobs: ArrayRef = Arc::new(BinaryViewArray::from(vec![bytes]));
        image.apply(Rows::try_new(Arc::clone(&schema), vec![keys, blobs]).unwrap()).unwrap();
    })
}

fn zune(bytes: &[u8], out: &mut [u8]) {
    let options = DecoderOptions::new_fast().set_strict_mode(true).jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().unwrap();
    let len = decoder.output_buffer_size().unwrap();
    decoder.decode_into(&mut out[..len]).unwrap();
}

#[cfg(feature = "turbojpeg")]
fn turbo(decoder: &mut turbojpeg::Decompressor, bytes: &[u8], out: &mut [u8]) {
    let header = decoder.read_header(bytes).unwrap();
    let (width, height, format) = (header.width, header.height, turbojpeg::PixelFormat::RGB);
    let pixels = &mut out[..width * height * 3];
    decoder.decompress(bytes, turbojpeg::Image { pixels, width, pitch: width * 3, height, format }).unwrap();
}

/// CPU seconds of this thread.
fn on_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "jpg") {
            files.push(path);
        }
    }
}

fn peers(folder: &Path) {
    let Some(python) = std::env::var_os("PACKHORSE_PYTHON") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/decode.py");
    Command::new(python).arg(script).arg(folder).status().unwrap();
}
