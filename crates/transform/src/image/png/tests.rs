use super::super::decode as decode_public;
use super::super::samples::{exif as block, fnv, icc, png, png_of};
use super::super::scale;
use super::*;
use packhorse_core::Limits;
use proptest::prelude::*;

/// Resizes to 5 × 4; returns the new header and pixels.
fn resized(bytes: &[u8]) -> (Info<'static>, Raster) {
    let out = rewrite(bytes, Keep::default(), false, |raster, exact| {
        if exact { scale::nearest(&raster, 5, 4) } else { scale::smooth(raster, 5, 4) }
    })
    .unwrap();
    let reader = decoder(&out).read_info().unwrap();
    let info = reader.info().clone();
    (info, decode(&out, true).unwrap())
}

#[test]
fn every_layout_is_kept() {
    use {BitDepth::*, ColorType::*};
    for (color, depth, new_depth) in [
        (Grayscale, One, One),
        (Grayscale, Two, Eight),
        (Grayscale, Four, Eight),
        (Grayscale, Eight, Eight),
        (Grayscale, Sixteen, Sixteen),
        (GrayscaleAlpha, Eight, Eight),
        (GrayscaleAlpha, Sixteen, Sixteen),
        (Rgb, Eight, Eight),
        (Rgb, Sixteen, Sixteen),
        (Rgba, Eight, Eight),
        (Rgba, Sixteen, Sixteen),
    ] {
        let (info, raster) = resized(&png_of((13, 9), color, depth, |_| {}));
        assert_eq!((info.width, info.height, info.color_type, info.bit_depth), (5, 4, color, new_depth));
        assert!(raster.data.iter().any(|v| *v > 0), "{color:?} {depth:?} is all black");
    }
}

/// What a mask holds are numbers, however few bits they have.
#[test]
fn numbers_of_few_bits_stay() {
    for depth in [BitDepth::One, BitDepth::Two, BitDepth::Four, BitDepth::Eight] {
        let bytes = png_of((13, 9), ColorType::Grayscale, depth, |info| info.trns = Some(vec![0, 1].into()));
        let stored = numbers(&bytes).unwrap();
        let out = rewrite(&bytes, Keep::default(), true, |raster, _| scale::nearest(&raster, 5, 4)).unwrap();
        let reader = decoder(&out).read_info().unwrap();
        let transparent = reader.info().trns.as_deref() == Some(&[1]) || depth == BitDepth::Eight;
        assert!(reader.info().bit_depth == depth && transparent, "{depth:?}");
        let wanted = scale::nearest(&stored, 5, 4).unwrap();
        let found = numbers(&out).unwrap();
        let gray = |raster: &Raster| raster.data.chunks(raster.stride()).map(|pixel| pixel[0]).collect::<Vec<_>>();
        assert_eq!(gray(&found), gray(&wanted), "{depth:?}");
        // Turned without a change of size, it stays as it is.
        let turned = rewrite(&bytes, Keep::default(), true, |raster, _| Ok(raster)).unwrap();
        assert_eq!(gray(&numbers(&turned).unwrap()), gray(&stored), "{depth:?}");
    }
}

#[test]
fn a_palette_keeps_its_colours_and_its_transparency() {
    for (depth, colours) in [(BitDepth::One, 2), (BitDepth::Two, 4), (BitDepth::Four, 16), (BitDepth::Eight, 256)] {
        let palette: Vec<u8> = (0..colours * 3).map(|v| v as u8).collect();
        let bytes = png_of((13, 9), ColorType::Indexed, depth, |info| {
            info.palette = Some(palette.clone().into());
            info.trns = Some(vec![7; 2].into());
        });
        let (info, raster) = resized(&bytes);
        assert_eq!((info.color_type, info.palette.as_deref()), (ColorType::Indexed, Some(&palette[..])));
        assert_eq!((info.trns.as_deref(), raster.channels), (Some(&[7, 7][..]), 4));
        assert!(raster.data.chunks_exact(4).all(|p| palette.chunks_exact(3).any(|c| c == &p[..3])));
    }
}

#[test]
fn a_transparent_colour_becomes_alpha() {
    let bytes = png_of((13, 9), ColorType::Rgb, BitDepth::Eight, |info| info.trns = Some(vec![0; 6].into()));
    assert_eq!(resized(&bytes).0.color_type, ColorType::Rgba);
}

#[test]
fn colour_management_survives_and_exif_does_not() {
    let bytes = png_of((13, 9), ColorType::Rgb, BitDepth::Eight, |info| {
        info.icc_profile = Some(icc(b"RGB ", 400).into());
        info.exif_metadata = Some(block(6).into());
    });
    assert_eq!(header(&bytes).unwrap(), (13, 9, Orientation::from_number(6)));
    let (info, _) = resized(&bytes);
    assert_eq!((info.icc_profile.as_deref(), info.exif_metadata), (Some(&icc(b"RGB ", 400)[..]), None));
}

#[test]
fn every_cut_is_refused() {
    for whole in [png(40, 30), png(1, 1), png_of((9, 9), ColorType::Grayscale, BitDepth::Sixteen, |_| {})] {
        assert!(decode(&whole, true).is_ok());
        for cut in 0..whole.len() {
            let error = decode_public(&whole[..cut], &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Content, "{cut}: {error}");
        }
    }
}

#[test]
fn every_flipped_bit_after_the_signature_is_found() {
    let whole = png(6, 5);
    for bit in 64..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_public(&bytes, &Limits::default()).is_err(), "bit {bit}");
    }
}

#[test]
fn a_decompression_bomb_is_refused_before_decoding() {
    let mut out = Vec::new();
    let mut info = Info::with_size(1 << 20, 1 << 20);
    info.color_type = ColorType::Rgb;
    std::mem::forget(Encoder::with_info(&mut out, info).unwrap().write_header().unwrap());
    out.extend_from_slice(b"\0\0\0\0IDAT\x35\xaf\x06\x1e");
    assert_eq!(decode_public(&out, &Limits::default()).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn an_animation_is_not_flattened() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, 4, 4);
    encoder.set_animated(2, 0).unwrap();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[1; 16]).unwrap();
    writer.write_image_data(&[2; 16]).unwrap();
    writer.finish().unwrap();
    assert!(decode(&out, true).is_ok());
    assert!(
        rewrite(&out, Keep::default(), false, |raster, _| Ok(raster))
            .unwrap_err()
            .message()
            .starts_with("is an animated PNG")
    );
}

/// If these bytes change, increment `REVISION`.
#[test]
fn encoded_bytes_are_pinned() {
    let out = rewrite(&png(24, 16), Keep::default(), false, |raster, _| scale::smooth(raster, 12, 8)).unwrap();
    assert_eq!((out.len(), fnv(&out)), PINNED);
}

const PINNED: (usize, u64) = (156, 12_352_920_060_676_128_103);

proptest! {
    #[test]
    fn no_damage_makes_it_panic(flips in prop::collection::vec((8usize..5000, any::<u8>()), 1..6)) {
        let mut bytes = png(20, 15);
        let len = bytes.len();
        for (at, value) in flips {
            bytes[8 + at % (len - 8)] = value;
        }
        let limits = Limits { pixels: 1 << 20, ..Limits::default() };
        let _ = decode_public(&bytes, &limits);
        let _ = rewrite(&bytes, Keep::default(), false, |raster, _| Ok(raster));
    }
}

#[test]
fn exif_is_kept_wherever_programs_write_it() {
    let plain = png(8, 8);
    let hex: String = block(6).iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("Raw profile type exif\0\nexif\n{:8}\n{hex}\n", block(6).len());
    let body = [b"tEXt", text.as_bytes()].concat();
    let mut sum = flate2::Crc::new();
    sum.update(&body);
    // Behind the header.
    let (head, tail) = plain.split_at(33);
    let length = (text.len() as u32).to_be_bytes();
    let png = [head, &length, &body, &sum.sum().to_be_bytes(), tail].concat();
    let keep = |exif| rewrite(&png, Keep { icc: true, exif }, false, |raster, _| Ok(raster)).unwrap();
    assert_eq!(Notes::of(&keep(true)).exif.as_deref(), Some(&block(1)[..]));
    assert_eq!(Notes::of(&keep(false)).exif, None);
}
