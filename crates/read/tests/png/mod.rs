//! Pictures for tests.

/// A PNG of these pixels, 8-bit RGB.
pub(crate) fn encode(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    of(::png::ColorType::Rgb, width, height, pixels)
}

/// A PNG of these grays, of 8 bits.
#[allow(dead_code, reason = "some tests have colours alone")]
pub(crate) fn encode_gray(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    of(::png::ColorType::Grayscale, width, height, pixels)
}

fn of(color: ::png::ColorType, width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}
