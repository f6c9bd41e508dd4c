//! Pictures of arbitrary bytes: decoded, made into views, and checked and resized as in packing. A panic of a decoder
//! must become a `Content` error, and a view must not depend on what its memory held before.
#![no_main]

use arrow_array::cast::AsArray;
use arrow_array::{BinaryViewArray, StringViewArray};
use libfuzzer_sys::fuzz_target;
use packhorse_core::{DataType, Field, KEY, Limits, Rows, Schema};
use packhorse_transform::Transform;
use packhorse_transform::image::{
    Check, Draws, Image, ImageOptions, JpegFacts, Keep, Resize, Size, View, ViewDecoder, decode,
};
use std::sync::Arc;

const SIZES: [Size; 3] = [
    Size::Keep,
    Size::Center { short: 20, height: 16, width: 12 },
    Size::Random { height: 12, width: 16, scale: (0.08, 1.0), ratio: (0.5, 2.0) },
];

/// What `options` make of a picture; `None` where they refuse it.
fn made(bytes: &[u8], options: ImageOptions, limits: Limits) -> Option<Vec<u8>> {
    let fields = vec![Field::new(KEY, DataType::Utf8View, false), Field::new("jpg", DataType::BinaryView, false)];
    let keys = Arc::new(StringViewArray::from(vec!["a"]));
    let blobs = Arc::new(BinaryViewArray::from(vec![bytes]));
    let rows = Rows::try_new(Arc::new(Schema::new(fields)), vec![keys, blobs]).expect("a valid row");
    let done = Image::new(options, limits).expect("valid options").apply(rows).ok()?;
    Some(done.column(1).as_binary_view().value(0).to_vec())
}

/// Checks strictly and resizes, as packing does; and makes a JPEG, which must decode.
fn packed(bytes: &[u8], limits: Limits) {
    let resize = Some(Resize::Exact { width: 9, height: 6 });
    let _ = made(bytes, ImageOptions { check: Some(Check::Strict), resize, ..ImageOptions::default() }, limits);
    let jpeg = vec!["jpg".to_owned()];
    let keep = Keep { icc: true, exif: true };
    if let Some(jpeg) = made(bytes, ImageOptions { jpeg, keep, ..ImageOptions::default() }, limits)
        && jpeg != bytes
    {
        decode(&jpeg, &limits).expect("a JPEG of a picture that decodes");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { pixels: 1 << 20, ..Limits::default() };
    if let Ok(pixels) = decode(bytes, &limits) {
        assert_eq!(pixels.data.len(), pixels.width as usize * pixels.height as usize * usize::from(pixels.channels));
        if bytes.starts_with(b"\xff\xd8") {
            let facts = JpegFacts::read(bytes).expect("a picture that decodes has facts");
            assert!((facts.width, facts.height) == (pixels.width, pixels.height) && facts.bytes <= bytes.len());
        }
    }
    let _ = JpegFacts::read(bytes);
    packed(bytes, limits);
    for size in SIZES {
        let view = View { size, flip: 0.5, ..View::default() };
        let mut decoder = ViewDecoder::new(view, limits).expect("a valid view");
        let Ok((height, width)) = decoder.size(bytes) else { continue };
        let draws = Draws::new(bytes.len() as u64);
        let mut made = |before: u8| {
            let mut out = vec![before; height as usize * width as usize * 3];
            decoder.decode_into(bytes, draws, &mut out).ok().map(|_| out)
        };
        assert!(made(0) == made(255), "a view shows what its memory held before");
    }
});
