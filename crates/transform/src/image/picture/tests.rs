use super::super::Resize;
use super::super::samples::{exif, jpeg, jpeg_of, png, png_of};
use super::*;
use arrow_array::builder::{BinaryViewBuilder, ListBuilder};
use arrow_array::{Array, RecordBatch, StringViewArray, UInt32Array};
use arrow_schema::{Field, Schema};
use jpeg_encoder::ColorType;
use packhorse_core::{DataType, KEY};

fn image(options: ImageOptions) -> Image {
    Image::new(options, Limits::default()).unwrap()
}

fn resize(text: &str) -> Image {
    image(ImageOptions { resize: Some(text.parse().unwrap()), ..ImageOptions::default() })
}

fn rows(field: &str, blobs: &[Option<&[u8]>]) -> Rows {
    let keys: Vec<_> = (0..blobs.len()).map(|i| format!("a/{i}")).collect();
    let schema = Schema::new(vec![
        Field::new(KEY, DataType::Utf8View, false),
        Field::new("cls", DataType::UInt32, false),
        Field::new(field, DataType::BinaryView, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(&keys)),
        Arc::new(UInt32Array::from_iter_values(0..blobs.len() as u32)),
        Arc::new(BinaryViewArray::from_iter(blobs.iter().copied())),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Width and height of the image in `row` of the last column.
fn size(rows: &Rows, row: usize) -> (u32, u32) {
    let pixels = super::super::decode(rows.column(2).as_binary_view().value(row), &Limits::default()).unwrap();
    (pixels.width, pixels.height)
}

#[test]
fn a_small_image_keeps_its_bytes_and_its_buffer() {
    let (small, large) = (jpeg(30, 20), jpeg(90, 60));
    let before = rows("jpg", &[Some(&small), None, Some(&large)]);
    let after = resize("32,short").apply(before.clone()).unwrap();
    let (old, new) = (before.column(2).as_binary_view(), after.column(2).as_binary_view());
    assert_eq!(new.value(0), small);
    assert!(new.is_null(1));
    assert_eq!(size(&after, 2), (48, 32));
    assert_eq!(old.views()[0], new.views()[0]);
    assert_eq!(old.data_buffers()[0].as_ptr(), new.data_buffers()[0].as_ptr());
    assert_eq!((after.column(0), after.column(1)), (before.column(0), before.column(1)));
}

#[test]
fn each_resize_mode_gives_its_size() {
    for (text, expected) in [("20,short", (40, 20)), ("20,long", (20, 10)), ("20,exact", (20, 20)), ("90x7", (90, 7))] {
        assert_eq!(size(&resize(text).apply(rows("jpg", &[Some(&jpeg(80, 40))])).unwrap(), 0), expected);
        assert_eq!(size(&resize(text).apply(rows("seg.png", &[Some(&png(80, 40))])).unwrap(), 0), expected);
    }
}

#[test]
fn other_columns_pass_and_rows_without_images_are_refused() {
    let before = rows("txt", &[Some(b"not a picture")]);
    assert_eq!(resize("8").apply(before.clone()).unwrap(), before);
    let error = resize("8").schema(&before.schema()).unwrap_err();
    assert_eq!(error.kind(), packhorse_core::Kind::Config);
    assert!(error.message().ends_with(": cls, txt"), "{error}");
    assert!(resize("8").schema(&rows("a.WEBP", &[]).schema()).is_ok());
}

#[test]
fn undecodable_blobs_in_image_columns_are_refused() {
    let junk: [(&[u8], &str); 4] = [
        (b"junk", "is not a known image"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "is an AVIF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "is a HEIC"),
        (b"RIFF\x04\0\0\0WEBP", ""),
    ];
    let check = image(ImageOptions { check: Some(Check::Lenient), ..ImageOptions::default() });
    for field in ["webp", "tif", "bmp", "gif", "pgm", "avif", "heic", "jxl", "jp2", "jpg"] {
        for (bytes, text) in junk {
            for transform in [&check, &resize("8")] {
                let error = transform.apply(rows(field, &[Some(bytes)])).unwrap_err();
                let right = [packhorse_core::Kind::Content, packhorse_core::Kind::Unsupported].contains(&error.kind());
                assert!(right && error.message().starts_with(&format!("{field} {text}")), "{error}");
            }
        }
    }
}

#[test]
fn content_decides_the_format() {
    let after = resize("8").apply(rows("jpg", &[Some(&png(20, 30))])).unwrap();
    let bytes = after.column(2).as_binary_view().value(0);
    assert_eq!((ImageFormat::of(bytes).unwrap(), size(&after, 0)), (ImageFormat::Png, (8, 12)));
}

#[test]
fn unchanged_and_rewritten_images_are_counted() {
    let (small, large) = (jpeg(8, 8), jpeg(40, 20));
    let mut counts = Counts::new();
    let transform = resize("10");
    transform.apply_counted(rows("jpg", &[Some(&small), Some(&large), None, Some(&small)]), &mut counts).unwrap();
    transform.apply_counted(rows("png", &[Some(&large)]), &mut counts).unwrap();
    assert_eq!(counts, [(UNCHANGED.to_owned(), 2), (WRITTEN.to_owned(), 2)].into());
}

#[test]
fn exif_is_kept_on_request_with_orientation_reset() {
    let bytes = jpeg_of(40, 24, ColorType::Rgb, 6, b"");
    let keep = |text: &str| {
        let options =
            ImageOptions { keep: text.parse().unwrap(), resize: Some(Resize::Short(12)), ..Default::default() };
        image(options).apply(rows("jpg", &[Some(&bytes)])).unwrap()
    };
    for (text, has_exif) in [("icc", false), ("exif", true), ("none", false)] {
        let after = keep(text);
        let new = after.column(2).as_binary_view().value(0);
        assert_eq!(size(&after, 0), (12, 20));
        assert_eq!(new.windows(6).any(|six| six == b"Exif\0\0"), has_exif, "{text}");
        assert!(jpeg::header(new).unwrap().2.is_upright());
    }
}

#[test]
fn xmp_orientation_is_applied() {
    let plain = jpeg(24, 16);
    let packet = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta tiff:Orientation=\"6\"/>";
    let mut bytes = plain[..2].to_vec();
    bytes.extend([0xff, 0xe1, 0, packet.len() as u8 + 2]);
    bytes.extend(packet);
    bytes.extend(&plain[2..]);
    let after = image(ImageOptions { orient: true, ..Default::default() }).apply(rows("jpg", &[Some(&bytes)])).unwrap();
    assert_eq!(size(&after, 0), (16, 24));
}

#[test]
fn arithmetic_coding_is_refused_by_name() {
    let mut bytes = jpeg(24, 16);
    let frame = bytes.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    bytes[frame + 1] = 0xc9;
    for transform in
        [resize("100"), resize("8"), image(ImageOptions { check: Some(Check::Lenient), ..Default::default() })]
    {
        let error = transform.apply(rows("jpg", &[Some(&bytes)])).unwrap_err();
        assert!(error.message().starts_with("jpg is an arithmetic-coded JPEG"), "{error}");
    }
}

/// Lists of pictures; a null list where there is none.
fn several(samples: &[Option<&[&[u8]]>]) -> Rows {
    let mut lists = ListBuilder::new(BinaryViewBuilder::new());
    for sample in samples {
        sample.iter().flat_map(|pictures| pictures.iter()).for_each(|picture| lists.values().append_value(picture));
        lists.append(sample.is_some());
    }
    let whole = rows("jpg", &vec![None; samples.len()]);
    let lists: ArrayRef = Arc::new(lists.finish());
    let told = Field::new("images", lists.data_type().clone(), true);
    let told = with_metadata(told, HUGGINGFACE, r#"{"_type":"List","feature":{"_type":"Image"}}"#);
    let schema = Schema::new(vec![whole.schema().field(0).clone(), told]);
    RecordBatch::try_new(Arc::new(schema), vec![whole.column(0).clone(), lists]).unwrap()
}

#[test]
fn pictures_in_lists_are_resized_and_their_errors_name_the_sample() {
    let (small, large) = (jpeg(8, 8), jpeg(40, 20));
    let before = several(&[Some(&[&small]), None, Some(&[&large, &small]), Some(&[]), Some(&[&large])]);
    let sizes = |rows: &Rows| {
        let lists = rows.column(1).as_list::<i32>();
        let size =
            |picture: &[u8]| super::super::decode(picture, &Limits::default()).map(|p| (p.width, p.height)).unwrap();
        let of = |row: usize| {
            let pictures = lists.value(row);
            pictures.as_binary_view().iter().flatten().map(size).collect::<Vec<_>>()
        };
        (0..lists.len()).map(|row| lists.is_valid(row).then(|| of(row))).collect::<Vec<_>>()
    };
    let mut counts = Counts::new();
    let after = resize("10").apply_counted(before.clone(), &mut counts).unwrap();
    let wanted = [Some(vec![(8, 8)]), None, Some(vec![(20, 10), (8, 8)]), Some(vec![]), Some(vec![(20, 10)])];
    assert_eq!((sizes(&after), counts[WRITTEN]), (wanted.to_vec(), 2));
    assert_eq!(sizes(&resize("10").apply(before.slice(2, 3)).unwrap()), wanted[2..]);
    let bad = several(&[Some(&[&small]), Some(&[]), Some(&[&small, b"<!DOCTYPE"])]);
    for rows in [bad.clone(), bad.slice(1, 2)] {
        let error = resize("10").apply(rows).unwrap_err();
        assert_eq!((error.sample(), error.field()), (Some("a/2"), Some("images")));
        assert!(error.message().starts_with("picture 1 of images is a web page"), "{error}");
    }
}

#[test]
fn an_error_names_sample_and_field() {
    let good = jpeg(10, 10);
    let error = resize("8").apply(rows("jpg", &[Some(&good), Some(b"<!DOCTYPE"), Some(b"")])).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (packhorse_core::Kind::Content, Some("a/1")));
    assert!(error.message().starts_with("jpg is a web page, "), "{error}");
}

#[test]
fn check_finds_damage_behind_the_header() {
    let whole = jpeg(64, 64);
    let cut = rows("jpg", &[Some(&whole[..whole.len() - 1])]);
    assert!(resize("64").apply(cut.clone()).is_ok());
    let check = image(ImageOptions { check: Some(Check::Strict), ..ImageOptions::default() });
    assert!(check.apply(cut).unwrap_err().message().contains("is cut short"));
    let kept = check.apply(rows("jpg", &[Some(&whole)])).unwrap();
    assert_eq!(kept.column(2).as_binary_view().value(0), whole);
}

#[test]
fn orient_rewrites_only_rotated_images() {
    let orient = image(ImageOptions { orient: true, ..ImageOptions::default() });
    for number in 0..=8 {
        let bytes = jpeg_of(24, 16, ColorType::Rgb, number, b"");
        let after = orient.apply(rows("jpg", &[Some(&bytes)])).unwrap();
        let new = after.column(2).as_binary_view().value(0);
        assert_eq!(new == bytes, number < 2, "orientation {number}");
        assert_eq!(size(&after, 0), if number < 5 { (24, 16) } else { (16, 24) });
        assert!(jpeg::header(new).unwrap().2.is_upright());
    }
    let bytes = png_of((9, 5), ::png::ColorType::Rgb, ::png::BitDepth::Eight, |info| {
        info.exif_metadata = Some(exif(8).into());
    });
    assert_eq!(size(&orient.apply(rows("png", &[Some(&bytes)])).unwrap(), 0), (5, 9));
}

#[test]
fn resizing_makes_upright_and_unresized_images_stay() {
    let bytes = jpeg_of(60, 40, ColorType::Luma, 6, b"");
    let after = resize("30x10").apply(rows("jpg", &[Some(&bytes)])).unwrap();
    assert_eq!(size(&after, 0), (30, 10));
    let shown = super::super::decode(after.column(2).as_binary_view().value(0), &Limits::default()).unwrap();
    assert_eq!(shown.channels, 1);
    // The stored image brightens to the right; rotated clockwise, it brightens downwards.
    let line = |y: usize| shown.data[y * 30..][..30].iter().map(|v| u32::from(*v)).sum::<u32>();
    assert!(line(9) > line(0) + 30 * 60);
    let kept = resize("64").apply(rows("jpg", &[Some(&bytes)])).unwrap();
    assert_eq!(kept.column(2).as_binary_view().value(0), bytes);
}

#[test]
fn the_description_is_canonical() {
    let full = ImageOptions {
        check: Some(Check::Strict),
        resize: Some(Resize::Short(256)),
        quality: 85,
        orient: true,
        ..Default::default()
    };
    assert_eq!(image(full).describe(), "image/4 check resize=256,short quality=85 orient");
    let keep = ImageOptions { keep: "icc,exif".parse().unwrap(), orient: true, ..ImageOptions::default() };
    assert_eq!(image(keep).describe(), "image/4 quality=90 orient keep=exif,icc");
    let lenient = ImageOptions { check: Some(Check::Lenient), ..ImageOptions::default() };
    assert_eq!(image(lenient).describe(), "image/4 check=lenient");
    assert_eq!(resize("64x64").describe(), "image/4 resize=64x64 quality=90");
    assert_eq!(
        image(ImageOptions { check: Some(Check::Strict), quality: 5, ..ImageOptions::default() }).describe(),
        "image/4 check"
    );
}

#[test]
fn masks_are_resized_to_the_nearest_pixel_where_they_are_named() {
    let mask = png_of((16, 16), ::png::ColorType::Grayscale, ::png::BitDepth::Eight, |_| {});
    let options = ImageOptions { resize: Some("8x8".parse().unwrap()), ..ImageOptions::default() };
    let named = image(ImageOptions { nearest: vec!["seg.png".into()], ..options.clone() });
    assert_eq!(named.describe(), "image/4 resize=8x8 quality=90 nearest=seg.png");
    let pixels = |image: &Image| {
        let done = image.apply(rows("seg.png", &[Some(&mask)])).unwrap();
        super::super::decode(done.column(2).as_binary_view().value(0), &Limits::default()).unwrap().data
    };
    let stored = super::super::decode(&mask, &Limits::default()).unwrap().data;
    let nearest: Vec<u8> = (0..64).map(|at| stored[(at / 8 * 2 + 1) * 16 + at % 8 * 2 + 1]).collect();
    assert_eq!(pixels(&named), nearest);
    assert_ne!(pixels(&image(options)), nearest);
    let error = named.schema(&rows("mask.png", &[Some(&mask)]).schema()).unwrap_err().to_string();
    assert!(error.contains("no sample has a picture in the field seg.png; pictures are in: mask.png"), "{error}");
}

/// A bilevel picture is black and white, a bilevel mask 0 and 1.
#[cfg(feature = "image")]
#[test]
fn bilevel_masks_keep_their_numbers() {
    let mask = b"P4\n16 4\n\xf0\x0f\xf0\x0f\xf0\x0f\xf0\x0f";
    let options = ImageOptions { resize: Some("8x2".parse().unwrap()), ..ImageOptions::default() };
    let pixels = |nearest: &[&str]| {
        let nearest = nearest.iter().map(|name| (*name).to_owned()).collect();
        let done = image(ImageOptions { nearest, ..options.clone() }).apply(rows("seg.pbm", &[Some(mask)])).unwrap();
        super::super::decode(done.column(2).as_binary_view().value(0), &Limits::default()).unwrap().data
    };
    let line = [0, 0, 1, 1, 1, 1, 0, 0];
    assert_eq!(pixels(&["seg.pbm"]), [line, line].concat());
    assert_eq!(pixels(&[]), [line, line].concat().iter().map(|bit| bit * 255).collect::<Vec<_>>());
}

#[test]
fn invalid_options_are_refused() {
    let limits = Limits { pixels: 100, ..Limits::default() };
    for options in [
        ImageOptions { quality: 0, ..ImageOptions::default() },
        ImageOptions { quality: 101, ..ImageOptions::default() },
        ImageOptions { resize: Some(Resize::Long(0)), ..ImageOptions::default() },
        ImageOptions { resize: Some(Resize::Exact { width: 11, height: 11 }), ..ImageOptions::default() },
    ] {
        assert_eq!(Image::new(options, limits).unwrap_err().kind(), packhorse_core::Kind::Config);
    }
}

#[test]
fn the_factor_is_about_a_typical_photograph() {
    assert_eq!(resize("4000").factor(), 1.0);
    assert_eq!(image(ImageOptions::default()).factor(), 1.0);
    assert!((0.4..0.5).contains(&resize("256,short").factor()));
}
