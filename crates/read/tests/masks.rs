//! Masks in batches are numbers, cut and mirrored as the images beside them.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "png/mod.rs"]
mod png;
#[path = "shards/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod shards;

use packhorse_core::{DataType, Kind};
use packhorse_read::*;
use packhorse_transform::image::View;
use shards::*;

/// Samples with an image, whose red is ten times the number of the mask.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sample = |i: usize| {
        let (width, height) = (40 + i % 7, 60 - i % 5);
        let numbers: Vec<u8> =
            (0..width * height).map(|at| ((at % width) / 10 + 5 * (at / width / 10) + i) as u8 % 25).collect();
        let pixels: Vec<u8> = numbers.iter().flat_map(|number| [number * 10, 0, 0]).collect();
        let image = png::encode(width as u32, height as u32, &pixels);
        let mask = png::encode(width as u32, height as u32, &numbers);
        let fields = if i == 5 { vec![] } else { vec![("mask.png", mask)] };
        (format!("k{i:02}"), [vec![("png", image)], fields].concat())
    };
    tar(&dir.path().join("a.tar"), (0..24).map(sample));
    dir
}

fn field(name: &str, from: &str, kind: FieldKind) -> FieldOptions {
    FieldOptions { required: false, ..FieldOptions::new(name, kind).from(from) }
}

#[test]
fn masks_match_their_images() {
    let (dir, view) = (folder(), View::random_crop(24).flip(0.5));
    let fields = [
        field("image", "png", FieldKind::Picture(view)),
        field("mask", "mask.png", FieldKind::Mask(view, DataType::UInt8)),
        field("wide", "mask.png", FieldKind::Mask(view, DataType::UInt16)),
        field("whole", "mask.png", FieldKind::Mask(View::default(), DataType::UInt8)),
    ];
    let options = LoaderOptions { threads: 2, epochs: Some(2), ..LoaderOptions::new(6) };
    let loader = Loader::new(dataset(dir.path()), &fields, &options, Host::default()).unwrap();
    let found = |name| loader.layout().field(name).map(|field| (field.data_type.clone(), field.shape.clone())).unwrap();
    assert_eq!(found("mask"), (DataType::UInt8, vec![6, 24, 24]));
    assert_eq!(found("wide"), (DataType::UInt16, vec![6, 24, 24]));
    assert_eq!(found("whole.shape"), (DataType::Int32, vec![6, 2]));
    let (mut same, mut all, mut empty) = (0, 0, 0);
    for batch in loader {
        let batch = batch.unwrap();
        for row in 0..batch.rows() {
            let of = |name| batch.row(name, row).unwrap();
            let number: usize = batch.key(row).unwrap()[1..].parse().unwrap();
            let wide: Vec<u8> = of("wide").chunks(2).map(|two| two[0]).collect();
            assert_eq!(wide, of("mask"));
            if number == 5 {
                assert!(of("whole").is_empty() && wide.iter().all(|value| *value == 0));
                empty += 1;
                continue;
            }
            let shape: Vec<usize> =
                of("whole.shape").as_chunks().0.iter().map(|side| i32::from_le_bytes(*side) as usize).collect();
            assert_eq!(shape, [60 - number % 5, 40 + number % 7]);
            assert_eq!(of("whole").len(), shape[0] * shape[1]);
            let reds = of("image").iter().step_by(3);
            same += reds.zip(of("mask")).filter(|(red, number)| red.abs_diff(**number * 10) <= 5).count();
            all += wide.len();
        }
    }
    // At the borders of blocks the image's colours mix.
    assert!(same as f64 / all as f64 > 0.75, "{same} of {all}");
    assert_eq!(empty, 2);
}

#[test]
fn other_types_are_refused() {
    let dir = folder();
    let fields = [field("mask", "mask.png", FieldKind::Mask(View::default(), DataType::Int64))];
    let error =
        Loader::new(dataset(dir.path()), &fields, &LoaderOptions::new(6), Host::default()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().contains("field mask is a mask, of bytes (uint8) or of 16 bits"), "{error}");
}
