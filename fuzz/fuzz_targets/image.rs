//! Pictures: decoded, checked, resized. A panic of a decoder must come out as bad content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::Limits;
use packhorse_transform::image::decode;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { pixels: 1 << 20, ..Limits::default() };
    if let Ok(pixels) = decode(bytes, &limits) {
        assert_eq!(pixels.data.len(), pixels.width as usize * pixels.height as usize * usize::from(pixels.channels));
    }
});
