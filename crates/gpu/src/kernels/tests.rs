//! Invalid settings are errors before anything is launched.

use super::*;
use packhorse_core::{Kind, Result};

fn refused<T: std::fmt::Debug>(outcome: Result<T>, beginning: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::Config, "{error}");
    assert!(error.message().starts_with(beginning), "{error}");
}

/// 64 × 48 in colour, to f32.
fn image() -> Image {
    Image::new((64, 48), 3, Pixels::normalized(Element::F32, Normalize::IMAGENET))
}

fn launch(image: Image) -> Result<Launch> {
    image.launch(256, &Picks::default(), 512, 2)
}

#[test]
fn a_picture_that_makes_sense() {
    let launch = launch(image()).unwrap();
    assert_eq!(
        (launch.module, launch.entry, launch.grid, launch.block),
        (Module::Image, "image_f32", [1, 2, 1], [192, 1, 1])
    );
    assert_eq!(image().output(2).unwrap(), Tensor { element: Element::F32, shape: vec![2, 3, 64, 48] });
    assert_eq!(image().output(2).unwrap().bytes(), 2 * 3 * 64 * 48 * 4);
}

#[test]
fn pixels_are_made_in_whole_groups_where_they_can_be() {
    let entry = |image: Image, output| image.launch(256, &Picks::default(), output, 2).unwrap();
    let brain = Image { output: Pixels::normalized(Element::Bf16, Normalize::IMAGENET), ..image() };
    let half = Image { output: Pixels { element: Element::F16, ..brain.output }, ..brain };
    let launch = entry(brain, 512);
    assert_eq!((launch.entry, launch.grid), ("planes_bf16", [2, 2, 1]));
    assert_eq!(entry(half, 512).entry, "planes_f16");
    let last = Pixels { axes: Axes::Hwc, ..brain.output };
    assert_eq!(entry(Image { output: last, ..brain }, 512).entry, "image_bf16");
    let bytes = Image { output: Pixels::BYTES, ..brain };
    let launch = entry(bytes, 512);
    assert_eq!((launch.entry, launch.grid, launch.block), ("move_u8", [2, 2, 1], [256, 1, 1]));
    assert_eq!(entry(Image { crop: (64, 44), ..bytes }, 512).entry, "image_u8");
    // Gray, a crop or an address between groups, pictures that end inside a word, a division, elements of four bytes.
    let divided = Normalize { mean: [0.0; 4], std: [f32::MAX; 4] };
    assert_eq!(entry(Image { channels: 1, ..brain }, 512).entry, "image_bf16");
    assert_eq!(entry(Image { crop: (64, 44), ..brain }, 512).entry, "image_bf16");
    assert_eq!(entry(brain, 520).entry, "image_bf16");
    assert_eq!(entry(Image { size: (65, 49), ..brain }, 512).entry, "image_bf16");
    assert_eq!(entry(Image { output: Pixels::normalized(Element::F16, divided), ..brain }, 512).entry, "image_f16");
    assert_eq!(entry(image(), 512).entry, "image_f32");
}

#[test]
fn senseless_pictures() {
    refused(image().launch(0, &Picks::default(), 512, 2), "input has no address");
    refused(image().launch(257, &Picks::default(), 512, 2), "input is at 0x101: put it at a multiple of 4");
    refused(image().launch(256, &Picks::default(), 514, 2), "output is at 0x202: put it at a multiple of 4");
    refused(image().launch(256, &Picks::default(), 512, 0), "image_f32 has nothing to do");
    refused(launch(Image { channels: 2, ..image() }), "pixels of 2 channels: give 1, 3 or 4");
    refused(launch(Image { crop: (65, 1), ..image() }), "65 × 1 pixels can't be cut from 64 × 48");
    refused(launch(Image { crop: (0, 1), ..image() }), "pictures of 0 × 1 pixels");
    refused(launch(Image { size: (1 << 16, 1 << 16), ..image() }), "pictures of 65536 × 65536 pixels");
    refused(launch(Image { flip: Flip::Drawn(1.5), ..image() }), "flip is 1.5");
    refused(launch(Image { flip: Flip::Drawn(0.5), ..image() }), "keys has no address");
    refused(launch(Image { flip: Flip::Given, ..image() }), "flips has no address");
    refused(launch(Image { place: CropPosition::Given, ..image() }), "corners has no address");
    refused(launch(Image { place: CropPosition::Drawn, ..image() }), "keys has no address");
    let output = |element, std| Pixels {
        normalize: Normalize { mean: [0.5; 4], std: [std; 4] },
        ..Pixels::normalized(element, Normalize::NONE)
    };
    refused(launch(Image { output: output(Element::I32, 1.0), ..image() }), "pixels can't be i32");
    refused(launch(Image { output: output(Element::U8, 1.0), ..image() }), "bytes can't be normalised");
    refused(launch(Image { output: output(Element::F16, 0.0), ..image() }), "mean");
    refused(Pixels::BYTES.tensor(u32::MAX, (1 << 15, 1 << 15), 4), "a tensor of the shape");
}

#[test]
fn senseless_parts() {
    let launch = |crop, from: RaggedPictures| {
        let request = Resize { channels: 3, size: (20, 30), crop, flip: Flip::Never, output: Pixels::BYTES };
        request.launch(&from, &Picks::default(), 256, 256, 2)
    };
    let from = RaggedPictures { values: 1, bytes: 10, offsets: 8, shapes: 4 };
    launch(Crop::Squash, from).unwrap();
    refused(
        launch(Crop::Center { short: 29 }, from),
        "a shorter side of 29 pixels can't be cut to 20 × 30; give at least 30",
    );
    refused(launch(Crop::Random { scale: (0.0, 1.0), ratio: (1.0, 1.0) }, from), "scale is 0 to 1");
    refused(launch(Crop::Random { scale: (0.1, 1.0), ratio: (1.0, f32::NAN) }, from), "ratio is 1 to NaN");
    refused(launch(Crop::Random { scale: (0.1, 1.0), ratio: (1.0, 1.0) }, from), "keys has no address");
    refused(
        launch(Crop::Squash, RaggedPictures { offsets: 4, ..from }),
        "offsets is at 0x4: put it at a multiple of 8",
    );
}

#[test]
fn senseless_tokens() {
    let (from, to) = (
        TokenInputs { tokens: 256, ..TokenInputs::default() },
        TokenOutputs { inputs: 256, ..TokenOutputs::default() },
    );
    let rows = TokenRows::new(Element::U16, 8);
    assert_eq!(rows.launch(&from, &to, 0, 2).unwrap().len(), 1);
    refused(rows.launch(&from, &to, 0, 0), "0 rows of 8 tokens");
    refused(rows.launch(&from, &to, 0, 1 << 28), "268435456 rows of 8 tokens");
    let narrow = TokenRows { token: Element::I64, output: Element::I32, ..rows };
    refused(narrow.launch(&from, &to, 0, 2), "tokens of type i64 can't become i32");
    let told = TokenRows { documents: Documents::After(0), ..rows };
    refused(told.launch(&from, &TokenOutputs { positions: 256, ..to }, 0, 2), "scratch has no address");
    refused(
        rows.launch(&from, &TokenOutputs { entries: 256, ..to }, 0, 2),
        "a number of cumulative lengths without them",
    );
    let told = TokenRows { documents: Documents::Cumulative, ..rows };
    refused(told.launch(&TokenInputs { cumulative: 4, boundaries: 1, ..from }, &to, 0, 2), "fewer than two cumulative");
    refused(told.launch(&from, &TokenOutputs { cumulative: 4, ..to }, 256, 2), "cumulative lengths are there already");
    let told = TokenRows { documents: Documents::Segments, ..rows };
    refused(told.launch(&from, &to, 0, 2), "segments has no address");
}

#[test]
fn other_senseless_requests() {
    refused(Bits::new(9, Element::I64).launch(1, 256, 1), "bits can't become i64");
    refused(Bits::new(0, Element::U8).launch(1, 256, 1), "bits_u8 has nothing to do");
    let from = RaggedValues { values: 256, entries: 9, offsets: 256 };
    refused(Pad::new(3, 9).launch(&from, 256, 0, 1), "elements of 3 bytes can't be padded");
    refused(Pad { pad: 256, ..Pad::new(1, 9) }.launch(&from, 256, 0, 1), "padding of 0x100 does not fit 1 bytes");
    refused(Pad { lengths: Element::F32, ..Pad::new(1, 9) }.launch(&from, 256, 0, 1), "lengths can't be f32");
    refused(Pad { inner: 1 << 62, ..Pad::new(8, 9) }.launch(&from, 256, 0, 1), "a tensor of the shape");
    refused(Spin { nanoseconds: 1, blocks: 0, threads: 32 }.launch(), "0 blocks of 32 threads");
    refused(Exercise { reads: 1, sweeps: 1 }.launch(16, 48, 4), "48 bytes to read");
    refused(Exercise { reads: 1, sweeps: 1 }.launch(8, 64, 4), "data is at 0x8");
    refused(Checksum { bytes: 1 << 63 }.launch(8, 8, 8, 2), "2 rows of");
    let tokens = SyntheticTokens { token: Element::U16, width: 8, vocabulary: 1 << 16, end: None };
    tokens.launch(&Origin::default(), 256, 1).unwrap();
    refused(SyntheticTokens { vocabulary: (1 << 16) + 1, ..tokens }.launch(&Origin::default(), 256, 1), "65537 tokens");
    refused(
        SyntheticTokens { end: Some((0, 0)), ..tokens }.launch(&Origin::default(), 256, 1),
        "documents end after 0",
    );
    let letters =
        SyntheticPictures { motif: Motif::Letters { dot: 0 }, size: (8, 8), channels: 1, output: Pixels::BYTES };
    refused(letters.launch(&Origin::default(), 256, 1), "letters of 0 pixels");
}
