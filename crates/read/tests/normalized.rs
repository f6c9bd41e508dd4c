//! Normalised pictures are the pixels of the same view, through the formula.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "png/mod.rs"]
mod png;
#[path = "shards/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod shards;

use packhorse_core::{DataType, Kind};
use packhorse_read::*;
use packhorse_transform::image::{Size, View};
use shards::*;

const SIZE: (usize, usize) = (9, 7);

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let picture = |i: usize| {
        let (width, height) = (20 + i % 7, 30 - i % 5);
        let pixels: Vec<u8> = (0..width * height * 3).map(|at| (at * 31 + at / 7 + i * 17) as u8).collect();
        let fields = if i == 5 { vec![] } else { vec![("png", png::encode(width as u32, height as u32, &pixels))] };
        (format!("k{i:02}"), [vec![("cls", b"1".to_vec())], fields].concat())
    };
    tar(&dir.path().join("a.tar"), (0..24).map(picture));
    dir
}

fn field(name: &str, kind: FieldKind) -> FieldOptions {
    FieldOptions { required: false, ..FieldOptions::new(name, kind).from("png") }
}

#[test]
fn every_value_is_that_of_the_formula() {
    let dir = folder();
    let (height, width) = SIZE;
    let size = Size::Random { height: height as u32, width: width as u32, scale: (0.1, 1.0), ratio: (0.5, 2.0) };
    let view = View { size, flip: 0.5, ..View::default() };
    let first = Normalize { mean: [0.5, 0.25, -1.0], std: [0.5, -2.0, 0.1], axes: Axes::Chw };
    let last = Normalize { axes: Axes::Hwc, ..Normalize::IMAGENET };
    let fields = [
        field("bytes", FieldKind::Picture(view)),
        field("chw", FieldKind::Normalized(view, first)),
        field("hwc", FieldKind::Normalized(view, last)),
    ];
    let options = LoaderOptions { threads: 2, epochs: Some(2), ..LoaderOptions::new(6) };
    let loader = Loader::new(dataset(dir.path()), &fields, &options, Host::default()).unwrap();
    let found = |name| loader.layout().field(name).map(|field| (field.data_type.clone(), field.shape.clone())).unwrap();
    assert_eq!(found("chw"), (DataType::Float32, vec![6, 3, height, width]));
    assert_eq!(found("hwc"), (DataType::Float32, vec![6, height, width, 3]));
    let (mut rows, mut empty) = (0, 0);
    for batch in loader {
        let batch = batch.unwrap();
        for row in 0..batch.rows() {
            let of = |name| batch.row(name, row).unwrap();
            let value = |name, at: usize| f32::from_le_bytes(of(name).as_chunks().0[at]);
            rows += 1;
            if batch.key(row) == Some("k05") {
                assert!([of("bytes"), of("chw"), of("hwc")].iter().all(|bytes| bytes.iter().all(|byte| *byte == 0)));
                empty += 1;
                continue;
            }
            for (at, byte) in of("bytes").iter().enumerate() {
                let (pixel, channel) = (at / 3, at % 3);
                let wanted = |n: Normalize| ((f32::from(*byte) / 255.0 - n.mean[channel]) / n.std[channel]).to_bits();
                assert_eq!(value("chw", channel * height * width + pixel).to_bits(), wanted(first));
                assert_eq!(value("hwc", at).to_bits(), wanted(last));
            }
        }
    }
    assert_eq!((rows, empty), (48, 2));
}

#[test]
fn what_can_not_be_normalised_is_said() {
    let dir = folder();
    let refused = |kind| {
        let options = LoaderOptions::new(6);
        let loader = Loader::new(dataset(dir.path()), &[field("image", kind)], &options, Host::default());
        let error = loader.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        error.message().to_owned()
    };
    let message = refused(FieldKind::Normalized(View::default(), Normalize::NONE));
    assert!(message.contains("field image can't be normalised") && message.contains("a view of one size"), "{message}");
    let flat = Normalize { std: [1.0, 0.0, 1.0], ..Normalize::NONE };
    let message = refused(FieldKind::Normalized(View::squash(4), flat));
    assert!(message.contains("no std of 0"), "{message}");
}
