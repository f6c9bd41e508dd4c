//! Pictures for tests.

/// A PNG of these pixels: 8-bit RGB, or 8-bit gray where there is one byte for each pixel.
pub(crate) fn encode(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    let gray = pixels.len() as u32 == width * height;
    encoder.set_color(if gray { ::png::ColorType::Grayscale } else { ::png::ColorType::Rgb });
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}
