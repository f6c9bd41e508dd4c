use crate::image::samples::{exif, icc, jpeg, png, png_of};
use crate::image::{Image, ImageOptions, decode, jpeg as codec};
use crate::{Counts, Transform};
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use packhorse_core::{ENCODING, FieldType, KEY, Limits, Rows, Schema, with_metadata};
use png::{BitDepth, ColorType};
use std::sync::Arc;

fn image(fields: &[&str], options: ImageOptions) -> Image {
    let jpeg = fields.iter().map(|&name| name.to_owned()).collect();
    Image::new(ImageOptions { jpeg, ..options }, Limits::default()).unwrap()
}

/// Samples a and b, with a value or none of each field.
fn rows(fields: &[(&str, [Option<&[u8]>; 2])]) -> Rows {
    let key = FieldType::Text.field(KEY, false);
    let schema = std::iter::once(key).chain(fields.iter().map(|(name, _)| FieldType::Blob.field(name, true)));
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a", "b"]));
    let blobs = fields.iter().map(|(_, values)| Arc::new(BinaryViewArray::from_iter(*values)) as ArrayRef);
    RecordBatch::try_new(
        Arc::new(Schema::new(schema.collect::<Vec<_>>())),
        std::iter::once(keys).chain(blobs).collect(),
    )
    .unwrap()
}

/// The JPEG that `bytes` become, and what was counted.
fn converted(bytes: &[u8], options: ImageOptions) -> (Vec<u8>, Counts) {
    let mut counts = Counts::new();
    let transform = image(&["png"], options);
    let before = rows(&[("png", [Some(bytes), None])]);
    let after = transform.apply_counted(before.clone(), &mut counts).unwrap();
    assert_eq!(after.schema(), transform.schema(&before.schema()).unwrap());
    let column = after.column_by_name("jpg").unwrap().as_binary_view();
    assert!(column.is_null(1) && after.num_columns() == 2);
    (column.value(0).to_vec(), counts)
}

#[test]
fn every_layout_of_a_png_becomes_a_jpeg_with_its_colours() {
    let palette = |info: &mut png::Info<'static>| {
        info.palette = Some((0..=255u8).flat_map(|at| [at, 255 - at, at / 2]).collect::<Vec<u8>>().into());
    };
    for (color, depth) in [
        (ColorType::Grayscale, BitDepth::Two),
        (ColorType::Grayscale, BitDepth::Sixteen),
        (ColorType::GrayscaleAlpha, BitDepth::Eight),
        (ColorType::Indexed, BitDepth::Eight),
        (ColorType::Rgb, BitDepth::Sixteen),
        (ColorType::Rgba, BitDepth::Eight),
    ] {
        let bytes = png_of((40, 24), color, depth, |info| {
            if color == ColorType::Indexed {
                palette(info);
            }
        });
        let (made, counts) = converted(&bytes, ImageOptions { quality: 100, ..ImageOptions::default() });
        let (shown, found) = (decode(&bytes, &Limits::default()).unwrap(), decode(&made, &Limits::default()).unwrap());
        assert!(made.starts_with(b"\xff\xd8"));
        assert_eq!((found.width, found.height, found.channels), (40, 24, shown.channels), "{color:?} {depth:?}");
        let far = shown.data.iter().zip(&found.data).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>();
        // Colours have a fourth of the samples.
        assert!(far < shown.data.len() as u64 * 12, "{color:?} {depth:?}: {far}");
        let is_transparent = matches!(color, ColorType::GrayscaleAlpha | ColorType::Rgba);
        assert_eq!(counts.contains_key("pictures that lost transparency"), is_transparent);
        assert_eq!(counts["pictures rewritten"], 1);
    }
}

#[test]
fn a_converted_picture_is_upright_resized_and_keeps_what_was_asked() {
    let profile = icc(b"RGB ", 200);
    let bytes = png_of((40, 24), ColorType::Rgb, BitDepth::Eight, |info| {
        info.exif_metadata = Some(exif(6).into());
        info.icc_profile = Some(profile.clone().into());
    });
    for (keep, has_icc, has_exif) in [("icc", true, false), ("exif", false, true), ("none", false, false)] {
        let resize = Some("12".parse().unwrap());
        let (made, _) =
            converted(&bytes, ImageOptions { resize, keep: keep.parse().unwrap(), ..ImageOptions::default() });
        let (width, height, orientation) = codec::header(&made).unwrap();
        assert_eq!((width, height, orientation.is_upright()), (12, 20, true), "{keep}");
        assert_eq!(made.windows(12).any(|bytes| bytes == b"ICC_PROFILE\0"), has_icc, "{keep}");
        assert_eq!(made.windows(6).any(|bytes| bytes == b"Exif\0\0"), has_exif, "{keep}");
    }
}

#[test]
fn fields_that_become_jpegs_join_the_field_that_holds_some() {
    let (photo, drawing) = (jpeg(16, 16), png(16, 16));
    let transform = image(&["png"], ImageOptions::default());
    assert_eq!(transform.describe(), "image/4 quality=90 jpeg=png");
    let apart = rows(&[("jpg", [Some(&photo), None]), ("png", [None, Some(&drawing)])]);
    let after = transform.apply(apart.clone()).unwrap();
    assert_eq!(after.schema(), transform.schema(&apart.schema()).unwrap());
    let column = after.column_by_name("jpg").unwrap().as_binary_view();
    assert_eq!(column.value(0), photo);
    assert!(column.value(1).starts_with(b"\xff\xd8") && after.num_columns() == 2);
    // A JPEG that is called a PNG has its right name now, and its bytes.
    let named = transform.apply(rows(&[("png", [Some(&photo), None])])).unwrap();
    assert_eq!(named.column_by_name("jpg").unwrap().as_binary_view().value(0), photo);
    let both = rows(&[("jpg", [Some(&photo), None]), ("png", [Some(&drawing), None])]);
    let error = transform.apply(both).unwrap_err().to_string();
    assert!(error.contains("sample a: has two fields that become jpg"), "{error}");
    let field = with_metadata(FieldType::Blob.field("image.png", true), ENCODING, "image/png");
    let schema = Arc::new(Schema::new(vec![FieldType::Text.field(KEY, false), field]));
    let made = image(&["image.png"], ImageOptions::default()).schema(&schema).unwrap();
    assert_eq!((made.field(1).name().as_str(), &*made.field(1).metadata()[ENCODING]), ("image.jpg", "image/jpeg"));
}

#[test]
fn contradictory_and_unknown_fields_are_refused() {
    for both in [
        ImageOptions { nearest: vec!["png".to_owned()], ..ImageOptions::default() },
        ImageOptions { leave: vec!["png".to_owned()], ..ImageOptions::default() },
    ] {
        let options = ImageOptions { jpeg: vec!["png".to_owned()], ..both };
        let error = Image::new(options, Limits::default()).unwrap_err().to_string();
        assert!(error.contains("both name png"), "{error}");
    }
    let jpegs = rows(&[("jpg", [None, None])]);
    let png = image(&["png"], ImageOptions::default());
    assert_eq!(png.schema(&jpegs.schema()).unwrap(), jpegs.schema());
    assert!(png.remark(&jpegs.schema()).unwrap().contains("no sample has a picture in the field png"));
    assert_eq!(png.remark(&rows(&[("png", [None, None])]).schema()), None);
    let error = image(&["webp"], ImageOptions::default()).schema(&rows(&[("png", [None, None])]).schema());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`image=jpeg=webp`: no sample has a picture in the field webp"), "{error}");
}

#[cfg(feature = "image")]
#[test]
fn a_gif_that_loses_transparency_is_counted() {
    let mut bytes = Vec::new();
    let mut encoder = gif::Encoder::new(&mut bytes, 4, 2, &[255, 0, 0, 0, 0, 255]).unwrap();
    let frame = gif::Frame {
        width: 4,
        height: 2,
        transparent: Some(1),
        buffer: vec![0, 0, 1, 0, 0, 0, 0, 0].into(),
        ..gif::Frame::default()
    };
    encoder.write_frame(&frame).unwrap();
    drop(encoder);
    assert_eq!(converted(&bytes, ImageOptions::default()).1["pictures that lost transparency"], 1);
}

#[cfg(feature = "image")]
#[test]
fn a_webp_a_tiff_and_a_gif_become_jpegs() {
    let pixels = crate::image::samples::pattern(30, 20, 3);
    for format in [image::ImageFormat::WebP, image::ImageFormat::Tiff, image::ImageFormat::Gif, image::ImageFormat::Bmp]
    {
        let picture = image::RgbImage::from_raw(30, 20, pixels.clone()).unwrap();
        let mut bytes = std::io::Cursor::new(Vec::new());
        image::DynamicImage::from(picture).write_to(&mut bytes, format).unwrap();
        let (made, counts) = converted(bytes.get_ref(), ImageOptions { quality: 100, ..ImageOptions::default() });
        assert!(!counts.contains_key("pictures that lost transparency"));
        let found = decode(&made, &Limits::default()).unwrap();
        assert_eq!((found.width, found.height, found.channels), (30, 20, 3), "{format:?}");
        let far = pixels.iter().zip(&found.data).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>();
        assert!(far < pixels.len() as u64 * 12, "{format:?}: {far}");
    }
}
