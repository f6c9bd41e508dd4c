use super::super::samples::{jpeg, pattern};
use super::super::{Check, Draws, Image, ImageOptions, MaskDecoder, View, decode};
use crate::{Counts, Transform};
use ::gif::{Encoder, Frame};
use ::tiff::encoder::TiffEncoder;
use ::tiff::encoder::colortype::{Gray8, Gray16, Gray32Float, GrayI16, RGB8};
use ::tiff::tags::Tag;
use arrow_array::cast::AsArray;
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

/// A TIFF of `side` × `side` pixels of one number, in tiles of 32 × 32 by LZW, with a map of colours.
fn tiled(side: usize, photometric: u32, pixel: impl Fn(usize, usize) -> u8) -> Vec<u8> {
    const TILE: usize = 32;
    let across = side.div_ceil(TILE);
    let (mut bytes, mut offsets, mut lengths) = (b"II*\0\0\0\0\0".to_vec(), Vec::new(), Vec::new());
    for tile in 0..across * across {
        let (left, top) = (tile % across * TILE, tile / across * TILE);
        let pixels: Vec<u8> = (0..TILE * TILE).map(|i| pixel(left + i % TILE, top + i / TILE)).collect();
        let packed = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&pixels).unwrap();
        offsets.push(bytes.len() as u32);
        lengths.push(packed.len() as u32);
        bytes.extend(packed);
    }
    let places = [&offsets, &lengths].map(|list| {
        let place = bytes.len() as u32;
        list.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        place
    });
    let map = bytes.len() as u32;
    (0..768u16).for_each(|value| bytes.extend((value * 80).to_le_bytes()));
    let directory = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&directory.to_le_bytes());
    let tiles = (across * across) as u32;
    let entries =
        [(256u16, 1, side as u32), (257, 1, side as u32), (258, 1, 8), (259, 1, 5), (262, 1, photometric), (277, 1, 1)];
    let entries = entries.into_iter().chain([
        (320, 768, map),
        (322, 1, 32),
        (323, 1, 32),
        (324, tiles, places[0]),
        (325, tiles, places[1]),
    ]);
    bytes.extend(11u16.to_le_bytes());
    for (tag, count, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(if tag == 320 { 3u16 } else { 4u16 }.to_le_bytes());
        bytes.extend(u32::to_le_bytes(count));
        bytes.extend(u32::to_le_bytes(value));
    }
    bytes.extend([0; 4]);
    bytes
}

#[test]
fn tiles_of_lzw_beyond_the_image_are_read() {
    for pixel in
        [|_, _| 7, |x: usize, y: usize| (x / 9 + y / 7) as u8, |x: usize, y: usize| ((x * 31) ^ (y * 17)) as u8]
    {
        for side in [33, 40, 63, 70] {
            let bytes = tiled(side, 1, pixel);
            let raster = decode(&bytes, &Limits::default()).unwrap();
            let wanted: Vec<u8> = (0..side * side).map(|i| pixel(i % side, i / side)).collect();
            assert!(raster.data == wanted, "{side}");
            // A tile that is not whole is an error still.
            let mut cut = bytes.clone();
            let at = cut.len() - 4 - 12 + 8;
            let lengths = u32::from_le_bytes(cut[at..at + 4].try_into().unwrap()) as usize;
            let length = u32::from_le_bytes(cut[lengths..lengths + 4].try_into().unwrap());
            cut[lengths..lengths + 4].copy_from_slice(&(length / 2).to_le_bytes());
            assert!(decode(&cut, &Limits::default()).is_err(), "{side}");
        }
    }
}

#[test]
fn tiffs_of_palettes_are_rewritten() {
    let bytes = tiled(40, 3, |x, y| (x / 9 + y / 7) as u8);
    let rewritten = Counts::from([("pictures rewritten".to_owned(), 1)]);
    assert_eq!(counted("tif", &bytes), rewritten);
}

/// Tiles may share their bytes in a file that is made to take long.
#[test]
fn tiles_of_lzw_that_share_bytes_are_refused_at_once() {
    let mut bytes = tiled(63, 1, |x, y| ((x * 31) ^ (y * 17)) as u8);
    let lists = bytes.len() - 4 - 2 * 12;
    let at =
        |entry: usize| u32::from_le_bytes(bytes[lists + entry * 12 + 8..lists + entry * 12 + 12].try_into().unwrap());
    let (offsets, lengths) = (at(0) as usize, at(1) as usize);
    for list in [offsets, lengths] {
        let first: [u8; 4] = bytes[list..list + 4].try_into().unwrap();
        (1..4).for_each(|tile| bytes[list + 4 * tile..list + 4 * tile + 4].copy_from_slice(&first));
    }
    // More bytes than the file has, all tiles together.
    let all = (bytes.len() as u32 / 3).to_le_bytes();
    (0..4).for_each(|tile| bytes[lengths + 4 * tile..lengths + 4 * tile + 4].copy_from_slice(&all));
    assert!(super::tiff::with_longer_tiles(&bytes, 32 * 32).is_none());
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

/// A gray TIFF of 4 × 2 numbers.
fn gray_tiff<N: ::tiff::encoder::colortype::ColorType>(numbers: &[N::Inner], white_is_zero: bool) -> Vec<u8>
where
    [N::Inner]: ::tiff::encoder::TiffValue,
{
    let mut out = Cursor::new(Vec::new());
    TiffEncoder::new(&mut out).unwrap().write_image::<N>(4, 2, numbers).unwrap();
    let mut bytes = out.into_inner();
    // The photometric interpretation: tag 262, one number of 16 bits.
    let entry = [&b"\x06\x01\x03\x00"[..], &1u32.to_le_bytes(), &1u16.to_le_bytes()].concat();
    let at = bytes.windows(entry.len()).position(|found| found == entry).unwrap();
    bytes[at + 8] = u8::from(!white_is_zero);
    bytes
}

/// Numbers of a mask, and of what it is resized to.
fn numbers(field: &str, bytes: &[u8]) -> (Vec<u16>, Vec<u16>) {
    let of = |bytes: &[u8]| {
        let decoder = MaskDecoder::new(View::default(), true, Limits::default()).unwrap();
        let (height, width) = decoder.size(bytes).unwrap();
        let mut out = vec![0; 2 * height as usize * width as usize];
        decoder.decode_into(bytes, &[], Draws::new(0), &mut out).unwrap();
        out.as_chunks().0.iter().map(|two| u16::from_le_bytes(*two)).collect()
    };
    let options = ImageOptions {
        resize: Some("2x1".parse().unwrap()),
        nearest: vec![field.to_owned()],
        ..ImageOptions::default()
    };
    (of(bytes), of(&rewritten(field, bytes, options).unwrap()))
}

/// What becomes of a picture.
fn rewritten(field: &str, bytes: &[u8], options: ImageOptions) -> Result<Vec<u8>> {
    let fields = vec![Field::new(KEY, DataType::Utf8View, false), Field::new(field, DataType::BinaryView, false)];
    let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from(vec![bytes]));
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![keys, blobs]).unwrap();
    let done = Image::new(options, Limits::default())?.apply(rows)?;
    Ok(done.column(1).as_binary_view().value(0).to_vec())
}

#[test]
fn masks_have_the_numbers_of_their_files() {
    // Nearest of 2 × 1 are the second row's numbers 1 and 3.
    let depths: [u16; 8] = [0, 60, 120, 3999, 4000, 7, 8, 1234];
    let ids = depths.map(|depth| (depth % 21) as u8);
    let wide = |ids: [u8; 8]| ids.map(u16::from).to_vec();
    for most in [20, 100, 200, 254] {
        let pgm = [format!("P5\n4 2\n{most}\n").as_bytes(), &ids].concat();
        assert_eq!(numbers("pgm", &pgm), (wide(ids), vec![u16::from(ids[5]), u16::from(ids[7])]), "{most}");
    }
    let plain = |numbers: &[u16]| numbers.iter().map(|number| format!("{number}\n")).collect::<String>();
    let pgm = format!("P2\n# a comment\n4 2\n4000\n{}", plain(&depths)).into_bytes();
    assert_eq!(numbers("pgm", &pgm), (depths.to_vec(), vec![7, 1234]));
    // Every number that fits, of types for which scaling and back is not exact.
    for most in [65_530u16, 65_533, 65_534] {
        let all: Vec<u16> = (0..=most).step_by(7).collect();
        let bytes: Vec<u8> = all.iter().flat_map(|number| number.to_be_bytes()).collect();
        let pgm = [format!("P5\n{} 1\n{most}\n", all.len()).as_bytes(), &bytes].concat();
        let decoder = MaskDecoder::new(View::default(), true, Limits::default()).unwrap();
        let mut out = vec![0; 2 * all.len()];
        decoder.decode_into(&pgm, &[], Draws::new(0), &mut out).unwrap();
        assert!(out.as_chunks().0.iter().map(|two| u16::from_le_bytes(*two)).eq(all), "{most}");
    }
    for most in [4000, 30_000, 65_534, 65_535] {
        let bytes: Vec<u8> = depths.iter().flat_map(|depth| depth.to_be_bytes()).collect();
        let pgm = [format!("P5\n4 2\n{most}\n").as_bytes(), &bytes].concat();
        assert_eq!(numbers("pgm", &pgm), (depths.to_vec(), vec![7, 1234]), "{most}");
        let options = ImageOptions {
            resize: Some("2x1".parse().unwrap()),
            nearest: vec!["pgm".to_owned()],
            ..ImageOptions::default()
        };
        assert!(rewritten("pgm", &pgm, options).unwrap().starts_with(format!("P5\n2 1\n{most}\n").as_bytes()));
    }
    for white_is_zero in [false, true] {
        assert_eq!(numbers("tif", &gray_tiff::<Gray16>(&depths, white_is_zero)), (depths.to_vec(), vec![7, 1234]));
        let wanted = (wide(ids), vec![ids[5].into(), ids[7].into()]);
        assert_eq!(numbers("tif", &gray_tiff::<Gray8>(&ids, white_is_zero)), wanted);
        // A picture looks as before.
        let shown = decode(&gray_tiff::<Gray8>(&ids, white_is_zero), &Limits::default()).unwrap();
        assert_eq!(shown.data, ids.map(|id| if white_is_zero { 255 - id } else { id }));
    }
}

#[test]
fn pictures_of_other_numbers_are_refused_or_left_as_they_are() {
    let depths = gray_tiff::<Gray32Float>(&[0.5; 8], false);
    let resize = || ImageOptions { resize: Some("2x1".parse().unwrap()), ..ImageOptions::default() };
    let error = rewritten("depth.tif", &depths, resize()).unwrap_err().to_string();
    assert!(error.contains("is a TIFF of floating-point numbers") && error.contains("image=leave=FIELD"), "{error}");
    let signed = rewritten("tif", &gray_tiff::<GrayI16>(&[-1; 8], false), resize()).unwrap_err().to_string();
    assert!(signed.contains("signed integers"), "{signed}");
    let leave = ImageOptions { leave: vec!["depth.tif".to_owned()], ..resize() };
    assert_eq!(rewritten("depth.tif", &depths, leave.clone()).unwrap(), depths);
    let schema = Arc::new(Schema::new(vec![Field::new("tif", DataType::BinaryView, false)]));
    let unknown = Image::new(leave, Limits::default()).unwrap().schema(&schema).unwrap_err().to_string();
    assert!(unknown.contains("`image=leave=depth.tif`: no sample has a picture"), "{unknown}");
    let both = ImageOptions { leave: vec!["tif".to_owned()], nearest: vec!["tif".to_owned()], ..resize() };
    assert!(rewritten("tif", &depths, both).unwrap_err().to_string().contains("both name tif"));
}

/// A TIFF of `side` × `side` pixels of four samples, in tiles of 32 × 32, not compressed; `extra` says what the fourth is.
/// The tiles are of all samples, or `planar`: of one each.
fn tiled_in_four(side: usize, planar: bool, extra: u32, pixel: impl Fn(usize, usize) -> [u8; 4]) -> Vec<u8> {
    const TILE: usize = 32;
    let across = side.div_ceil(TILE);
    let mut bytes = b"II*\0\0\0\0\0".to_vec();
    let (planes, samples) = if planar { (4, 1) } else { (1, 4) };
    for tile in 0..planes * across * across {
        let (plane, tile) = (tile / (across * across), tile % (across * across));
        let (left, top) = (tile % across * TILE, tile / across * TILE);
        let of = |i: usize| pixel(left + i % TILE, top + i / TILE).into_iter().skip(plane).take(samples);
        bytes.extend((0..TILE * TILE).flat_map(of));
    }
    let (tiles, length) = (planes * across * across, TILE * TILE * samples);
    let places = bytes.len();
    (0..tiles).for_each(|tile| bytes.extend(((8 + tile * length) as u32).to_le_bytes()));
    let lengths = bytes.len();
    (0..tiles).for_each(|_| bytes.extend((length as u32).to_le_bytes()));
    let depths = bytes.len();
    (0..4).for_each(|_| bytes.extend(8u16.to_le_bytes()));
    let directory = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&directory.to_le_bytes());
    let side = side as u32;
    let list = |place: usize, one: u32| if tiles == 1 { one } else { place as u32 };
    let entries: [(u16, u16, u32, u32); 12] = [
        (256, 4, 1, side),
        (257, 4, 1, side),
        (258, 3, 4, depths as u32),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (277, 3, 1, 4),
        (284, 3, 1, if planar { 2 } else { 1 }),
        (322, 4, 1, 32),
        (323, 4, 1, 32),
        (324, 4, tiles as u32, list(places, 8)),
        (325, 4, tiles as u32, list(lengths, 4096)),
        (338, 3, 1, extra),
    ];
    bytes.extend((entries.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in entries {
        bytes.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        bytes.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
    }
    bytes.extend([0; 4]);
    bytes
}

/// Near infrared beside the colours, as satellites see it.
#[test]
fn a_fourth_channel_of_tiles_is_left_out_or_alpha() {
    let colours = |x: usize, y: usize| [(x * 3) as u8, (y * 5) as u8, (x + y) as u8];
    for (side, planar) in [32, 33, 64, 70].into_iter().flat_map(|side| [(side, false), (side, true)]) {
        for extra in [0, 2] {
            let bytes = tiled_in_four(side, planar, extra, |x, y| {
                let [r, g, b] = colours(x, y);
                [r, g, b, 200]
            });
            let raster = decode(&bytes, &Limits::default()).unwrap();
            let wanted = (0..side * side).flat_map(|i| colours(i % side, i / side));
            assert!(raster.data.into_iter().eq(wanted), "{side}, {planar}, {extra}");
        }
    }
    // Colours that were multiplied by alpha; Pillow's pixel of the same file.
    let bytes = tiled_in_four(32, false, 1, |_, _| [50, 25, 12, 64]);
    assert_eq!(decode(&bytes, &Limits::default()).unwrap().data[..3], [199, 99, 47]);
    let options = ImageOptions { resize: Some("8x8,exact".parse().unwrap()), ..ImageOptions::default() };
    let small = decode(&rewritten("tif", &bytes, options).unwrap(), &Limits::default()).unwrap();
    assert!(small.data.iter().zip([199u8, 99, 47]).all(|(a, b)| a.abs_diff(b) < 2), "{:?}", &small.data[..3]);
}

/// A BMP of 4 × 2 pixels with a palette whose colours 1 and 2 are equal.
fn bmp(bits: u16, compression: u32, rows: &[u8]) -> Vec<u8> {
    let colours = 1u32 << bits;
    let offset = 54 + 4 * colours;
    let mut bytes = [&b"BM"[..], &(offset + rows.len() as u32).to_le_bytes(), &[0; 4], &offset.to_le_bytes()].concat();
    bytes.extend([40u32.to_le_bytes(), 4u32.to_le_bytes(), 2u32.to_le_bytes()].concat());
    bytes.extend([1u16.to_le_bytes(), bits.to_le_bytes()].concat());
    bytes.extend([compression, rows.len() as u32, 0, 0, 0, 0].map(u32::to_le_bytes).concat());
    (0..colours).for_each(|_| bytes.extend([0, 0, 255, 0]));
    bytes.extend(rows);
    bytes
}

#[test]
fn masks_of_bmp_keep_numbers_of_equal_colours() {
    let wanted = [3, 0, 1, 2, 0, 1, 2, 3];
    let four = bmp(4, 0, &[0x01, 0x23, 0, 0, 0x30, 0x12, 0, 0]);
    let eight = bmp(8, 0, &[0, 1, 2, 3, 3, 0, 1, 2]);
    // Runs: the first row is absolute, of the second two pixels are passed over.
    let runs = bmp(8, 1, &[0, 4, 0, 1, 2, 3, 0, 0, 1, 3, 0, 2, 2, 0, 1, 2, 0, 1]);
    for (name, bytes, wanted) in
        [("4", &four, wanted), ("8", &eight, wanted), ("runs", &runs, [3, 0, 0, 2, 0, 1, 2, 3])]
    {
        assert_eq!(numbers("bmp", bytes).0, wanted, "{name}");
    }
    let two = numbers("bmp", &bmp(1, 0, &[0b0110_0000, 0, 0, 0, 0b1001_0000, 0, 0, 0])).0;
    assert_eq!(two, [1, 0, 0, 1, 0, 1, 1, 0]);
    // An index beyond the palette: of four colours, a label to be ignored.
    let mut ignored = eight.clone();
    ignored[46..50].copy_from_slice(&4u32.to_le_bytes());
    *ignored.last_mut().unwrap() = 255;
    assert_eq!(numbers("bmp", &ignored).0[3], 255);
    // Pixels begin where the palette of 16 colours would go on.
    let mut short = bmp(4, 0, &[0x01, 0x23, 0, 0, 0x30, 0x12, 0, 0]);
    short.drain(54 + 4 * 4..54 + 4 * 16);
    short[10..14].copy_from_slice(&(54 + 4 * 4u32).to_le_bytes());
    short.extend([0; 64]);
    assert_eq!(numbers("bmp", &short).0, wanted);
    // The pixels are said to begin where the palette does.
    let mut early = eight.clone();
    early[10..14].copy_from_slice(&54u32.to_le_bytes());
    assert_eq!(numbers("bmp", &early).0, wanted);
}
