use super::super::samples::{exif, jpeg, jpeg_of, png, png_of};
use super::super::{Size, decode};
use super::*;
use jpeg_encoder::ColorType;
use packhorse_core::Kind::{Config, Content, Limit, Unsupported};

fn view(size: Size) -> View {
    View { size, ..View::default() }
}

fn made(view: View, bytes: &[u8], key: u64) -> Result<(u32, u32, Vec<u8>)> {
    let mut decoder = ViewDecoder::new(view, Limits::default())?;
    let (height, width) = decoder.size(bytes)?;
    let mut out = vec![0; height as usize * width as usize * 3];
    assert_eq!(decoder.decode_into(bytes, Draws::new(key), &mut out)?, (height, width));
    Ok((height, width, out))
}

fn mirrored(mut pixels: Vec<u8>, width: u32) -> Vec<u8> {
    for row in pixels.chunks_exact_mut(3 * width as usize) {
        row.as_chunks_mut::<3>().0.reverse();
    }
    pixels
}

/// The most that two JPEG decoders may differ by.
const DECODERS: u8 = if cfg!(feature = "turbojpeg") { 3 } else { 0 };

fn assert_near(a: &[u8], b: &[u8], most: u8) {
    assert_eq!(a.len(), b.len());
    let found = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(found <= Some(most), "they differ by {found:?}, not by at most {most}");
}

#[test]
fn kept_pictures_are_what_decode_gives() {
    for bytes in [jpeg(40, 25), png(33, 20), jpeg_of(17, 30, ColorType::Luma, 0, b"")] {
        let pixels = decode(&bytes, &Limits::default()).unwrap();
        let (height, width, out) = made(View::default(), &bytes, 0).unwrap();
        assert_eq!((width, height), (pixels.width, pixels.height));
        let repeat = if pixels.channels == 1 { 3 } else { 1 };
        let expected: Vec<u8> = pixels.data.iter().flat_map(|v| std::iter::repeat_n(*v, repeat)).collect();
        assert_near(&out, &expected, DECODERS);
    }
}

#[test]
fn every_png_becomes_rgb() {
    use ::png::{BitDepth::*, ColorType::*};
    for (color, depth) in [
        (Grayscale, One),
        (Grayscale, Four),
        (Grayscale, Eight),
        (Grayscale, Sixteen),
        (GrayscaleAlpha, Eight),
        (GrayscaleAlpha, Sixteen),
        (Indexed, Two),
        (Indexed, Eight),
        (Rgb, Eight),
        (Rgb, Sixteen),
        (Rgba, Eight),
        (Rgba, Sixteen),
    ] {
        let bytes = png_of((13, 9), color, depth, |info| {
            info.palette =
                (color == Indexed).then(|| (0..=255u8).flat_map(|v| [v, 255 - v, 7]).collect::<Vec<_>>().into());
        });
        let pixels = decode(&bytes, &Limits::default()).unwrap();
        let (_, _, out) = made(View::default(), &bytes, 0).unwrap();
        let gray = pixels.channels == 1;
        let expected: Vec<u8> = if gray { pixels.data.iter().flat_map(|v| [*v; 3]).collect() } else { pixels.data };
        assert_eq!(out, expected, "{color:?} {depth:?}");
    }
}

#[test]
fn orientations_and_flips_come_together() {
    for size in [Size::Keep, Size::Squash { height: 30, width: 21 }, Size::Center { short: 16, height: 14, width: 12 }]
    {
        for number in 1..=8 {
            let bytes = jpeg_of(24, 40, ColorType::Rgb, number, b"");
            let stored = decode(&bytes, &Limits::default()).unwrap();
            let raster = super::super::raster::Raster::new(24, 40, 3, false, stored.data).unwrap();
            let shown = Orientation::from_number(number.into()).apply(raster);
            // The losslessly stored upright image must give nearly the same view.
            let mut upright = Vec::new();
            let mut encoder = ::png::Encoder::new(&mut upright, shown.width, shown.height);
            encoder.set_color(::png::ColorType::Rgb);
            encoder.write_header().unwrap().write_image_data(&shown.data).unwrap();
            let (height, width, expected) = made(view(size), &upright, 0).unwrap();
            let (h, w, out) = made(view(size), &bytes, 0).unwrap();
            assert_eq!((h, w), (height, width));
            assert_near(&out, &expected, DECODERS + u8::from(size != Size::Keep));
            let (_, _, flipped) = made(View { flip: 1.0, ..view(size) }, &bytes, 0).unwrap();
            assert_eq!(flipped, mirrored(out, width), "{size:?} {number}");
        }
    }
    let bytes = png_of((9, 5), ::png::ColorType::Rgb, ::png::BitDepth::Eight, |info| {
        info.exif_metadata = Some(exif(8).into());
    });
    assert_eq!(made(View::default(), &bytes, 0).unwrap().0, 9);
}

#[test]
fn flips_come_as_often_as_asked() {
    let bytes = png(5, 4);
    let (_, width, upright) = made(View::default(), &bytes, 0).unwrap();
    let flipped = mirrored(upright, width);
    let half = View { flip: 0.25, ..View::default() };
    let many = (0..4000).filter(|key| made(half, &bytes, *key).unwrap().2 == flipped).count();
    assert!((900..1100).contains(&many), "{many}");
    let pinned: Vec<u64> = (0..20).filter(|key| made(half, &bytes, *key).unwrap().2 == flipped).collect();
    assert_eq!(pinned, [3, 10, 18]);
}

#[test]
fn the_same_key_crops_a_picture_and_its_mask_alike() {
    let size = Size::Random { height: 12, width: 16, scale: (0.2, 0.9), ratio: (0.5, 2.0) };
    let (a, b) = (png(60, 50), png(60, 50));
    for key in 0..50 {
        assert_eq!(made(view(size), &a, key).unwrap(), made(view(size), &b, key).unwrap());
    }
    assert_ne!(made(view(size), &a, 1).unwrap(), made(view(size), &a, 2).unwrap());
}

#[test]
fn one_decoder_makes_all_pictures_as_a_fresh_one_does() {
    let size = Size::Random { height: 32, width: 32, scale: (0.08, 1.0), ratio: (0.75, 1.333) };
    let mut decoder = ViewDecoder::new(View { flip: 0.5, ..view(size) }, Limits::default()).unwrap();
    let pictures = [jpeg(400, 300), png(30, 20), jpeg_of(90, 200, ColorType::Luma, 6, b""), jpeg(33, 32)];
    let mut out = vec![0xa5; 32 * 32 * 3];
    for key in 0..40 {
        let bytes = &pictures[key as usize % 4];
        decoder.decode_into(bytes, Draws::new(key), &mut out).unwrap();
        assert_eq!(out, made(View { flip: 0.5, ..view(size) }, bytes, key).unwrap().2);
    }
}

#[test]
fn errors_have_the_right_kind() {
    let kind = |view, bytes: &[u8]| made(view, bytes, 0).unwrap_err().kind();
    let squash = view(Size::Squash { height: 4, width: 4 });
    let other = if cfg!(feature = "image") { Content } else { Unsupported };
    assert_eq!(kind(View::default(), b"GIF89a"), other);
    assert_eq!(kind(squash, b""), Content);
    assert_eq!(kind(view(Size::Exact { height: 4, width: 4 }), &png(4, 5)), Content);
    assert_eq!(kind(View { flip: 2.0, ..View::default() }, &png(4, 5)), Config);
    let mut decoder = ViewDecoder::new(squash, Limits { pixels: 16, ..Limits::default() }).unwrap();
    assert_eq!(decoder.decode_into(&png(5, 4), Draws::new(0), &mut [0; 48]).unwrap_err().kind(), Limit);
    assert_eq!(decoder.decode_into(&png(4, 4), Draws::new(0), &mut [0; 47]).unwrap_err().kind(), Config);
}

/// Decoding damaged bytes is an error, or gives the same pixels whatever `out` held before.
fn sound(bytes: &[u8], decoders: &mut [ViewDecoder]) -> usize {
    let mut accepted = 0;
    for decoder in decoders {
        let Ok((height, width)) = decoder.size(bytes) else { continue };
        let room = height as usize * width as usize * 3;
        let (mut black, mut white) = (vec![0; room], vec![255; room]);
        let one = decoder.decode_into(bytes, Draws::new(1), &mut black).is_ok();
        let two = decoder.decode_into(bytes, Draws::new(1), &mut white).is_ok();
        assert_eq!(one, two);
        assert!(!one || black == white, "old memory shows");
        accepted += usize::from(one);
    }
    accepted
}

fn decoders() -> Vec<ViewDecoder> {
    let limits = Limits { pixels: 1 << 18, ..Limits::default() };
    [
        Size::Keep,
        Size::Center { short: 10, height: 8, width: 9 },
        Size::Random { height: 8, width: 9, scale: (0.1, 1.0), ratio: (0.5, 2.0) },
    ]
    .map(|size| ViewDecoder::new(view(size), limits).unwrap())
    .into()
}

fn victims() -> Vec<Vec<u8>> {
    let mut progressive = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut progressive, 90);
    encoder.set_progressive(true);
    encoder.encode(&super::super::samples::pattern(33, 21, 3), 33, 21, ColorType::Rgb).unwrap();
    let cmyk = jpeg_of(17, 20, ColorType::CmykAsYcck, 0, b"");
    vec![jpeg(40, 30), progressive, jpeg_of(19, 24, ColorType::Luma, 6, b""), cmyk, png(20, 15)]
}

#[test]
fn every_cut_is_refused() {
    let mut decoders = decoders();
    for whole in victims() {
        assert_eq!(sound(&whole, &mut decoders), 3);
        for cut in 0..whole.len() {
            assert_eq!(sound(&whole[..cut], &mut decoders), 0, "cut at {cut} of {}", whole.len());
        }
    }
}

#[test]
fn ten_thousand_flipped_bits_do_no_harm() {
    let mut decoders = decoders();
    let victims = victims();
    for at in 0..10_000 {
        let mut bytes = victims[at % victims.len()].clone();
        let bit = (Draws::new(at as u64).unit(9) * bytes.len() as f64 * 8.0) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        sound(&bytes, &mut decoders);
    }
}

#[cfg(not(feature = "turbojpeg"))]
#[test]
fn reduced_decoding_needs_its_decoder() {
    let error = made(View { reduced: true, ..View::default() }, &png(4, 4), 0).unwrap_err();
    assert_eq!(error.kind(), Unsupported);
}

#[cfg(feature = "turbojpeg")]
#[test]
fn reduced_pictures_stay_near() {
    let random = Size::Random { height: 60, width: 80, scale: (0.3, 1.0), ratio: (0.75, 1.333) };
    for size in [Size::Squash { height: 90, width: 70 }, Size::Center { short: 100, height: 90, width: 95 }, random] {
        for number in 1..=8 {
            let bytes = jpeg_of(801, 603, ColorType::Rgb, number, b"");
            for key in 0..4 {
                let (_, _, exact) = made(View { flip: 0.5, ..view(size) }, &bytes, key).unwrap();
                let (_, _, near) = made(View { flip: 0.5, reduced: true, ..view(size) }, &bytes, key).unwrap();
                assert_ne!(exact, near);
                let sum: u64 = exact.iter().zip(&near).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
                let mean = sum as f64 / exact.len() as f64;
                assert!(mean < 1.0, "{size:?} {number} {key}: {mean}");
            }
        }
    }
    let bytes = jpeg_of(801, 603, ColorType::CmykAsYcck, 0, b"");
    let reduced = View { reduced: true, ..view(Size::Squash { height: 9, width: 7 }) };
    assert_near(
        &made(reduced, &bytes, 0).unwrap().2,
        &made(View { reduced: false, ..reduced }, &bytes, 0).unwrap().2,
        3,
    );
}
