//! Pictures for tests.

#[path = "../../../read/tests/png/mod.rs"]
mod png;

/// A PNG of `height` × `width` pixels, which differ from those of another `seed`.
pub(crate) fn png(height: u32, width: u32, seed: u32) -> Vec<u8> {
    let pixel = |i: u32| ((i / 3 % width * 3 + i / 3 / width * 2 + seed * 40 + i % 3 * 70) % 256) as u8;
    png::encode(width, height, &(0..3 * height * width).map(pixel).collect::<Vec<_>>())
}
