use super::super::samples::{jpeg, pattern};
use super::super::{Check, Image, ImageOptions};
use crate::{Counts, Transform};
use ::gif::{Encoder, Frame};
use ::tiff::encoder::{TiffEncoder, colortype::RGB8};
use ::tiff::tags::Tag;
use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use packhorse_core::{DataType, Field, KEY, Kind, Limits, Result, Schema};
use std::io::Cursor;
use std::sync::Arc;

/// The counts of checking an image and resizing it to 5 × 4.
fn packed(field: &str, bytes: &[u8], limits: Limits) -> Result<Counts> {
    let fields = vec![Field::new(KEY, DataType::Utf8View, false), Field::new(field, DataType::BinaryView, false)];
    let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from(vec![bytes]));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![keys, blobs]).unwrap();
    let resize = Some("5x4".parse().unwrap());
    let options = ImageOptions { check: Some(Check::Strict), resize, ..ImageOptions::default() };
    let mut counts = Counts::new();
    Image::new(options, limits)?.apply_counted(rows, &mut counts).map(|_| counts)
}

fn counted(field: &str, bytes: &[u8]) -> Counts {
    packed(field, bytes, Limits::default()).unwrap()
}

/// A TIFF with `images` images, each with `tag` if given.
fn tiff(images: u32, tag: Option<Tag>) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut out).unwrap();
    for _ in 0..images {
        let mut image = encoder.new_image::<RGB8>(9, 7).unwrap();
        if let Some(tag) = tag {
            image.encoder().write_tag(tag, 1u32).unwrap();
        }
        image.write_data(&pattern(9, 7, 3)).unwrap();
    }
    out.into_inner()
}

fn gif(frames: usize, side: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, side, side, &[0, 0, 0, 255, 0, 0]).unwrap();
    let buffer = vec![1; usize::from(side) * usize::from(side)];
    for _ in 0..frames {
        let frame = Frame { width: side, height: side, buffer: (&buffer).into(), ..Frame::default() };
        encoder.write_frame(&frame).unwrap();
    }
    drop(encoder);
    out
}

#[test]
fn dropped_frames_are_counted() {
    let one = Counts::from([("pictures rewritten".to_owned(), 1)]);
    let many =
        Counts::from([("pictures cut to their first frame".to_owned(), 1), ("pictures rewritten".to_owned(), 1)]);
    for (images, counts) in [(1, &one), (3, &many)] {
        assert_eq!(&counted("tif", &tiff(images, None)), counts);
        assert_eq!(&counted("gif", &gif(images as usize, 20)), counts);
    }
}

#[test]
fn thumbnails_of_camera_raw_files_are_refused() {
    let message = |field: &str, bytes: &[u8]| packed(field, bytes, Limits::default()).unwrap_err().message().to_owned();
    for tag in [Tag::NewSubfileType, Tag::Unknown(50_706)] {
        assert!(message("tif", &tiff(1, Some(tag))).contains("thumbnail"));
    }
    assert!(message("nef", &tiff(1, None)).contains("raw picture"));
}

#[test]
fn an_embedded_jpeg_larger_than_declared_is_refused() {
    let of_size = |side: u16, said: u32| {
        let mut out = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut out).unwrap();
        let mut image = encoder.image_directory().unwrap();
        let bytes = jpeg(side, side);
        let at = u32::try_from(image.write_data(&*bytes).unwrap()).unwrap();
        for (tag, value) in [
            (Tag::ImageWidth, said),
            (Tag::ImageLength, said),
            (Tag::Compression, 7),
            (Tag::PhotometricInterpretation, 6),
            (Tag::SamplesPerPixel, 3),
            (Tag::StripOffsets, at),
            (Tag::StripByteCounts, bytes.len() as u32),
            (Tag::RowsPerStrip, said),
        ] {
            image.write_tag(tag, value).unwrap();
        }
        image.write_tag(Tag::BitsPerSample, &[8u16; 3][..]).unwrap();
        image.finish().unwrap();
        out.into_inner()
    };
    assert!(packed("tif", &of_size(32, 32), Limits::default()).is_ok());
    let error = packed("tif", &of_size(64, 32), Limits::default()).unwrap_err();
    assert!(error.message().contains("contradict each other"), "{error}");
}

#[test]
fn the_total_size_of_frames_is_limited() {
    let limits = Limits { pixels: 400, ..Limits::default() };
    assert!(packed("gif", &gif(16, 20), limits).is_ok());
    assert_eq!(packed("gif", &gif(17, 20), limits).unwrap_err().kind(), Kind::Limit);
}
