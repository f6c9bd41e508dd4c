//! Images for tests.

use jpeg_encoder::{ColorType, Encoder};

/// A smooth pattern with some texture, `channels` bytes per pixel.
pub(crate) fn pattern(width: usize, height: usize, channels: usize) -> Vec<u8> {
    let value = |i: usize| {
        let (x, y, c) = (i / channels % width, i / channels / width, i % channels);
        (40 + x * 120 / width + y * 60 / height + c * 10 + (x * 7 + y * 13) % 9) as u8
    };
    (0..width * height * channels).map(value).collect()
}

/// A JPEG with the given colours, EXIF orientation (0: none) and ICC profile (empty: none).
pub(crate) fn jpeg_of(width: u16, height: u16, colors: ColorType, orientation: u8, icc: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, 92);
    if orientation > 0 {
        encoder.add_exif_metadata(&exif(orientation)).unwrap();
    }
    if !icc.is_empty() {
        encoder.add_icc_profile(icc).unwrap();
    }
    let channels = match colors {
        ColorType::Luma => 1,
        ColorType::Rgb => 3,
        _ => 4,
    };
    let pixels = pattern(width.into(), height.into(), channels);
    encoder.encode(&pixels, width, height, colors).unwrap();
    out
}

pub(crate) fn jpeg(width: u16, height: u16) -> Vec<u8> {
    jpeg_of(width, height, ColorType::Rgb, 0, b"")
}

/// A big-endian TIFF block with only an orientation.
pub(crate) fn exif(orientation: u8) -> Vec<u8> {
    let mut block = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    block.extend([orientation, 0, 0, 0, 0, 0, 0]);
    block
}

/// A PNG of the given header and raw lines; `change` may add chunks.
pub(crate) fn png_of(
    (width, height): (u32, u32),
    color: png::ColorType,
    depth: png::BitDepth,
    change: impl FnOnce(&mut png::Info<'static>),
) -> Vec<u8> {
    let mut info = png::Info::with_size(width, height);
    info.color_type = color;
    info.bit_depth = depth;
    change(&mut info);
    let lines = pattern(info.raw_row_length() - 1, height as usize, 1);
    let mut out = Vec::new();
    let mut writer = png::Encoder::with_info(&mut out, info).unwrap().write_header().unwrap();
    writer.write_image_data(&lines).unwrap();
    writer.finish().unwrap();
    out
}

pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    png_of((width, height), png::ColorType::Rgb, png::BitDepth::Eight, |_| {})
}

/// An ICC profile with the only header field that is read here: its colour space.
pub(crate) fn icc(space: &[u8; 4], len: usize) -> Vec<u8> {
    let mut profile = vec![0; len];
    profile[16..20].copy_from_slice(space);
    profile
}

/// FNV-1a, to pin bytes.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
