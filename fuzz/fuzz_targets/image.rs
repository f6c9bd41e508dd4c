//! Pictures: decoded, and made into views. A panic of a decoder must come out as bad content, and nothing of
//! what the memory held before may show.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::Limits;
use packhorse_transform::image::{Draws, JpegFacts, Size, View, ViewDecoder, decode};

const SIZES: [Size; 3] = [
    Size::Keep,
    Size::Center { short: 20, height: 16, width: 12 },
    Size::Random { height: 12, width: 16, scale: (0.08, 1.0), ratio: (0.5, 2.0) },
];

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { pixels: 1 << 20, ..Limits::default() };
    if let Ok(pixels) = decode(bytes, &limits) {
        assert_eq!(pixels.data.len(), pixels.width as usize * pixels.height as usize * usize::from(pixels.channels));
        if bytes.starts_with(b"\xff\xd8") {
            let facts = JpegFacts::read(bytes).expect("what is decoded is known");
            assert!((facts.width, facts.height) == (pixels.width, pixels.height) && facts.bytes <= bytes.len());
        }
    }
    let _ = JpegFacts::read(bytes);
    for size in SIZES {
        let view = View { size, flip: 0.5, ..View::default() };
        let mut decoder = ViewDecoder::new(view, limits).expect("a sound view");
        let Ok((height, width)) = decoder.size(bytes) else { continue };
        let draws = Draws::new(bytes.len() as u64);
        let mut made = |before: u8| {
            let mut out = vec![before; height as usize * width as usize * 3];
            decoder.decode_into(bytes, draws, &mut out).ok().map(|_| out)
        };
        assert!(made(0) == made(255), "what was there before shows");
    }
});
