use super::super::samples::{exif as exif_of, fnv, icc, jpeg, jpeg_of, pattern};
use super::super::{Pixels, decode as decode_public};
use super::header::SOS;
use super::*;
use packhorse_core::{Kind, Limits};
use proptest::prelude::*;

fn same(raster: Raster) -> Result<Raster> {
    Ok(raster)
}

/// Mean absolute difference of two images.
fn distance(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
}

#[test]
fn pixels_come_back_as_gray_or_rgb() {
    for (colors, channels) in [(ColorType::Luma, 1), (ColorType::Rgb, 3)] {
        let raster = decode(&jpeg_of(40, 25, colors, 0, b"")).unwrap();
        assert_eq!((raster.width, raster.height, raster.channels), (40, 25, channels));
        assert!(distance(&raster.data, &pattern(40, 25, channels.into())) < 5.0);
    }
}

#[test]
fn cmyk_becomes_rgb_as_adobe_inverts_it() {
    for colors in [ColorType::Cmyk, ColorType::CmykAsYcck] {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 95);
        encoder.set_sampling_factor(SamplingFactor::R_4_4_4);
        encoder.encode(&[200, 120, 40, 255].repeat(16 * 16), 16, 16, colors).unwrap();
        let raster = decode(&bytes).unwrap();
        // Which CMYK convention the encoder uses does not matter here.
        assert_eq!(raster.channels, 3);
        let out = rewrite(&bytes, 90, Keep::default(), same).unwrap();
        assert_eq!(JpegHeader::read(&out).unwrap().components, 3);
        assert!(distance(&raster.data, &decode(&out).unwrap().data) < 4.0);
    }
}

/// `jpeg(24, 16)` with or without JFIF, with Adobe's segment, and with these names of its channels.
fn signed(jfif: bool, adobe: Option<u8>, names: [u8; 3]) -> Vec<u8> {
    let plain = jpeg(24, 16);
    let mut bytes = plain[..2].to_vec();
    let adobe = adobe.map(|transform| [b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0", &[transform][..]].concat());
    bytes.extend(adobe.unwrap_or_default());
    bytes.extend(&plain[if jfif { 2 } else { 20 }..]);
    let renamed = |bytes: &mut [u8], marker: u8, at: usize, step: usize| {
        let found = bytes.windows(2).position(|two| two == [0xff, marker]).unwrap();
        (0..3).for_each(|part| bytes[found + at + part * step] = names[part]);
    };
    renamed(&mut bytes, 0xc0, 10, 3);
    renamed(&mut bytes, 0xda, 5, 2);
    bytes
}

#[test]
fn jfif_then_adobe_then_the_names_of_channels_decide_the_colours() {
    let ycc = decode(&jpeg(24, 16)).unwrap().data;
    let rgb = decode(&signed(false, None, *b"RGB")).unwrap().data;
    assert!(distance(&ycc, &rgb) > 10.0);
    for jfif in [true, false] {
        for adobe in [None, Some(0), Some(1), Some(2), Some(7)] {
            for names in [[1, 2, 3], [0, 1, 2], *b"RGB", *b"rgb"] {
                let bytes = signed(jfif, adobe, names);
                let is_rgb = !jfif && adobe.map_or(names == *b"RGB", |transform| transform == 0);
                let wanted = if is_rgb { &rgb } else { &ycc };
                assert!(decode(&bytes).unwrap().data == *wanted, "{jfif} {adobe:?} {names:?}");
                let mut out = vec![0; 24 * 16 * 3];
                JpegReader::new().unwrap().decode(&bytes, &mut out).unwrap();
                assert!(cfg!(feature = "turbojpeg") || out == *wanted, "{jfif} {adobe:?} {names:?}");
                let facts = JpegFacts::read(&bytes).unwrap();
                assert!(!is_rgb || !facts.luma_chroma, "{jfif} {adobe:?} {names:?}");
            }
        }
    }
}

#[test]
fn every_cut_is_refused() {
    let mut progressive = Vec::new();
    let mut encoder = Encoder::new(&mut progressive, 90);
    encoder.set_progressive(true);
    encoder.encode(&pattern(33, 21, 3), 33, 21, ColorType::Rgb).unwrap();
    for whole in [jpeg(40, 30), progressive] {
        assert!(decode(&whole).is_ok());
        for cut in 0..whole.len() {
            let error = decode_public(&whole[..cut], &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Content, "{cut}: {error}");
        }
    }
}

#[test]
fn trailing_bytes_are_ignored() {
    let mut bytes = jpeg(20, 20);
    bytes.extend_from_slice(b"\0\0trailing \xff\xd8 things");
    assert!(decode(&bytes).is_ok());
}

#[test]
fn an_icc_profile_travels_in_chunks_while_its_colours_stay() {
    let profile = icc(b"RGB ", 150_000);
    let out = rewrite(&jpeg_of(16, 16, ColorType::Rgb, 6, &profile), 90, Keep::default(), same).unwrap();
    let header = JpegHeader::read(&out).unwrap();
    assert_eq!((header.icc(), header.exif), (Some(profile), None));
    let out = rewrite(&jpeg_of(16, 16, ColorType::Cmyk, 0, &icc(b"CMYK", 500)), 90, Keep::default(), same).unwrap();
    assert_eq!(JpegHeader::read(&out).unwrap().icc(), None);
    // Without its last chunk there is none.
    let mut bytes = jpeg_of(16, 16, ColorType::Rgb, 0, &icc(b"RGB ", 150_000));
    let last = bytes.windows(12).rposition(|name| name == b"ICC_PROFILE\0").unwrap();
    bytes[last] = b'X';
    assert_eq!(JpegHeader::read(&bytes).unwrap().icc(), None);
}

#[test]
fn exif_that_no_segment_holds_is_left_out() {
    let raster = Raster::new(16, 16, 3, false, pattern(16, 16, 3)).unwrap();
    for (len, kept) in [(LONGEST_EXIF, true), (LONGEST_EXIF + 1, false)] {
        let mut block = exif_of(1);
        block.resize(len, 0);
        let notes = ImageNotes { icc: None, exif: Some(block.into()) };
        let out = write(&raster, 90, Keep { icc: true, exif: true }, &notes).unwrap();
        assert_eq!(JpegHeader::read(&out).unwrap().exif.map(<[u8]>::len), kept.then_some(len));
    }
}

#[test]
fn a_decompression_bomb_is_refused_before_decoding() {
    let mut bytes = jpeg(16, 16);
    let frame = bytes.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    let error = decode_public(&bytes, &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit);
    assert!(error.message().starts_with("is 65535 × 65535 pixels, over the limit"), "{error}");
}

#[test]
fn sizes_need_not_be_multiples_of_a_block() {
    for (width, height) in [(1, 1), (7, 9), (17, 1), (1, 33), (16, 16), (31, 15)] {
        for colors in [ColorType::Luma, ColorType::Rgb] {
            let out = rewrite(&jpeg_of(width, height, colors, 0, b""), 90, Keep::default(), same).unwrap();
            let raster = decode(&out).unwrap();
            assert_eq!((raster.width, raster.height), (width.into(), height.into()));
        }
    }
}

/// If these bytes change, increment `REVISION`.
#[test]
fn encoded_bytes_are_pinned() {
    let raster = Raster::new(24, 16, 3, false, pattern(24, 16, 3)).unwrap();
    let bytes = encode(&raster, 90, None, None).unwrap();
    assert_eq!((bytes.len(), fnv(&bytes)), PINNED);
}

const PINNED: (usize, u64) = (731, 9_627_222_734_360_984_553);

proptest! {
    #[test]
    fn no_damage_makes_it_panic(flips in prop::collection::vec((0usize..2000, any::<u8>()), 1..6)) {
        let mut bytes = jpeg(40, 30);
        let len = bytes.len();
        for (at, value) in flips {
            bytes[at % len] = value;
        }
        let limits = Limits { pixels: 1 << 20, ..Limits::default() };
        if let Ok(Pixels { width, height, channels, data }) = decode_public(&bytes, &limits) {
            prop_assert_eq!(data.len(), width as usize * height as usize * usize::from(channels));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = b"\xff\xd8".to_vec();
        bytes.extend(tail);
        prop_assert!(decode_public(&bytes, &Limits::default()).is_err());
    }
}

#[test]
fn missing_pixels_never_show_old_memory() {
    use super::reader::JpegReader;
    let whole = jpeg(64, 64);
    let scan = whole.windows(2).position(|two| two == [0xff, 0xda]).unwrap() + 14;
    let mut left_out = 0;
    // A comment inside a scan: the decoder accepts the part before it.
    for at in scan..whole.len() - 2 {
        let bytes = [&whole[..at], b"\xff\xfe\x00\x02", &whole[at..]].concat();
        let made = [0, 255].map(|before| {
            let mut out = vec![before; 64 * 64 * 3];
            JpegReader::new().unwrap().decode(&bytes, &mut out).ok().map(|()| out)
        });
        assert!(made[0] == made[1], "{at}");
        left_out += u32::from(made[0].as_ref().is_some_and(|out| out.ends_with(&[128; 3 * 64 * 8])));
    }
    assert!(left_out > 10, "{left_out}");
}

/// zune-jpeg decodes them to noise.
#[test]
fn channels_in_scans_of_their_own_are_refused() {
    let of = |factor, restarts: bool| {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 90);
        encoder.set_sampling_factor(factor);
        restarts.then(|| encoder.set_restart_interval(2));
        encoder.encode(&pattern(32, 16, 3), 32, 16, ColorType::Rgb).unwrap();
        let scan = bytes.windows(2).position(|two| two == [0xff, SOS]).unwrap();
        bytes[scan + 4] = 1;
        JpegHeader::read(&bytes).unwrap().require_joined()
    };
    for (factor, restarts) in [(SamplingFactor::R_4_2_0, false), (SamplingFactor::R_4_4_4, true)] {
        let error = of(factor, restarts).unwrap_err();
        assert!(error.to_string().contains("with one scan after another for its channels"), "{error}");
    }
    of(SamplingFactor::R_4_4_4, false).unwrap();
}

/// zune-jpeg decodes them to noise.
#[test]
fn channels_with_more_samples_than_the_first_are_refused() {
    let mut bytes = jpeg(32, 16);
    let frame = bytes.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    // Horizontal and vertical factors of the three channels.
    [0x11, 0x22, 0x22].into_iter().enumerate().for_each(|(part, factors)| bytes[frame + 11 + 3 * part] = factors);
    let refused = |error: Error| error.to_string().contains("whose first channel has fewer samples than another");
    assert!(refused(require_usual(&bytes).unwrap_err()) && refused(decode(&bytes).unwrap_err()));
    bytes[frame + 11] = 0x22;
    require_usual(&bytes).unwrap();
    // Black with more samples than cyan, as this encoder divides inks.
    let inks = |factor| {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 90);
        encoder.set_sampling_factor(factor);
        encoder.encode(&[90; 4 * 16 * 16], 16, 16, ColorType::Cmyk).unwrap();
        decode(&bytes)
    };
    assert!(refused(inks(SamplingFactor::R_4_2_0).unwrap_err()));
    inks(SamplingFactor::R_4_4_4).unwrap();
}
