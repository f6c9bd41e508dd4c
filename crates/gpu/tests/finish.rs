//! Fields made on the GPU equal those that the loader makes on the CPU: over a simulated GPU that runs the kernels,
//! compiled for the host.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

#[expect(dead_code, reason = "shared by checks of kernels")]
mod common;
mod computing;
#[path = "../../read/tests/common/mod.rs"]
#[expect(dead_code, reason = "shared by tests of the reader")]
mod pairs;
mod pictures;
#[path = "../../read/tests/shards/mod.rs"]
#[expect(dead_code, reason = "shared by tests of the reader")]
mod shards;

use packhorse_core::{Kind, MemoryInput};
use packhorse_gpu::kernels::{Axes, Crop, Documents, Flip, Motif, Normalize, Pixels, SyntheticPictures};
use packhorse_gpu::transforms::{Augmented, Padded, Pictures, Resized, Sequences, Synthetic, Unpacked};
use packhorse_gpu::{DeviceBatch, DeviceTransform, Element, Resident, Simulated, Upload};
use packhorse_order::Rank;
use packhorse_read::*;
use packhorse_tokens::Dtype;
use packhorse_transform::image::{Size, View};
use pictures::png;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A simulated GPU that runs the kernels; `None` without a C++ compiler.
fn gpu() -> Option<Simulated> {
    computing::simulated(1, Duration::from_micros(50))
}

/// Pictures of many sizes, words of many lengths.
fn samples(dir: &Path) -> Dataset {
    let sample = |i: u32| {
        let words = "packhorse ".repeat(i as usize % 9).into_bytes();
        (format!("{i:03}"), vec![("png", png(20 + i % 37, 30 + i * 7 % 41, i)), ("txt", words)])
    };
    shards::tar(&dir.join("a.tar"), (0..50).map(sample));
    shards::dataset(dir)
}

fn options() -> LoaderOptions {
    LoaderOptions { threads: 2, seed: 9, epochs: Some(2), remainder: Remainder::Uneven, ..LoaderOptions::new(8) }
}

/// The batches made by the GPU.
fn with_transforms(
    gpu: &Simulated,
    dataset: &Dataset,
    fields: &[FieldOptions],
    transforms: Vec<Arc<dyn DeviceTransform>>,
) -> Vec<DeviceBatch<Simulated>> {
    let upload = Upload::with_transforms(gpu.clone(), transforms).unwrap();
    Loader::new(dataset.clone(), fields, &options(), upload).unwrap().map(Result::unwrap).collect()
}

/// The batches made by the CPU.
fn by_host(dataset: &Dataset, fields: &[FieldOptions]) -> Vec<Batch<HostSlab>> {
    Loader::new(dataset.clone(), fields, &options(), Host::default()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn pictures_are_cut_and_mirrored_as_by_the_loader() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path());
    let (scale, ratio) = ((0.08, 1.0), (0.75, 4.0 / 3.0));
    // The loader adds the random keys of the step.
    let raw = [FieldOptions::new("png", FieldKind::Picture(View::default()))];
    for (crop, size) in [
        (Crop::Random { scale, ratio }, Size::Random { height: 24, width: 18, scale, ratio }),
        (Crop::Center { short: 28 }, Size::Center { short: 28, height: 24, width: 18 }),
    ] {
        let view = View { size, flip: 0.5, ..View::default() };
        let wanted = by_host(&dataset, &[FieldOptions::new("png", FieldKind::Picture(view))]);
        let resized = Resized::new("png", (24, 18));
        let resize =
            packhorse_gpu::kernels::Resize { crop, flip: Flip::Drawn(0.5), output: Pixels::BYTES, ..resized.resize };
        let found = with_transforms(&gpu, &dataset, &raw, vec![Arc::new(Resized { resize, ..resized })]);
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found.unordered_view("png").unwrap().shape, [wanted.rows(), 24, 18, 3]);
            assert_eq!(found.metadata().unwrap().numbers(), wanted.numbers());
            let (found, wanted) = (found.download("png").unwrap(), wanted.field("png").unwrap());
            assert!(found.iter().zip(wanted).all(|(found, wanted)| found.abs_diff(*wanted) <= 2));
        }
    }
}

#[test]
fn pictures_of_one_size_are_normalised() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path());
    let view = View { size: Size::Center { short: 20, height: 16, width: 20 }, ..View::default() };
    let fields = [FieldOptions::new("image", FieldKind::Picture(view)).from("png")];
    let output = Pixels { element: Element::F32, axes: Axes::Chw, normalize: Normalize::IMAGENET };
    let pictures = Pictures { into: "pixels".to_owned(), output, ..Pictures::new("image") };
    let normalized = FieldOptions::new("pixels", FieldKind::Normalized(view, packhorse_read::Normalize::IMAGENET));
    let wanted = by_host(&dataset, &[fields[0].clone(), normalized.from("png")]);
    for (found, wanted) in with_transforms(&gpu, &dataset, &fields, vec![Arc::new(pictures)]).iter().zip(&wanted) {
        assert_eq!(found.names(), ["pixels", "image"]);
        assert_eq!(found.unordered_view("pixels").unwrap().shape, [wanted.rows(), 3, 16, 20]);
        assert!(found.download("image").unwrap() == wanted.field("image").unwrap());
        // Bit for bit.
        assert!(found.download("pixels").unwrap() == wanted.field("pixels").unwrap());
    }
}

/// What happens to a picture depends on seed, epoch and sample alone: not on the rank, the batch, or whether it is kept on the GPU.
#[test]
fn colors_are_drawn_for_each_sample() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path());
    let view = View { size: Size::Center { short: 20, height: 16, width: 20 }, ..View::default() };
    let fields = [FieldOptions::new("image", FieldKind::Picture(view)).from("png")];
    let steps = || -> Vec<Arc<dyn DeviceTransform>> {
        let augmented = Augmented::new("image").random_crop(12).flip(0.5).jitter(0.4, 0.4, 0.2, 0.1, 0.8);
        vec![Arc::new(Augmented { output: Pixels::BYTES, ..augmented.grayscale(0.2).erase(0.25) })]
    };
    let resident = Arc::new(Resident::load(&gpu, &dataset, &fields, &options()).unwrap());
    let mut seen = std::collections::BTreeMap::new();
    for (batch, world_size, kept) in [(8, 1, false), (5, 2, false), (7, 3, true)] {
        for rank in 0..world_size {
            let options = LoaderOptions { rank: Rank { rank, world_size }, batch, ..options() };
            let upload = match kept {
                true => Upload::resident(&resident, steps()).unwrap(),
                false => Upload::with_transforms(gpu.clone(), steps()).unwrap(),
            };
            for batch in Loader::new(dataset.clone(), &fields, &options, upload).unwrap() {
                let batch = batch.unwrap();
                let (metadata, pixels) = (batch.metadata().unwrap(), batch.download("image").unwrap());
                for (number, pixels) in metadata.numbers().iter().zip(pixels.chunks(3 * 12 * 12)) {
                    let known = seen.entry((metadata.epoch(), *number)).or_insert_with(|| pixels.to_vec());
                    assert!(known == pixels, "sample {number} of epoch {}", metadata.epoch());
                }
            }
        }
    }
    // 50 samples in two epochs, all different.
    let all: std::collections::BTreeSet<_> = seen.values().collect();
    assert_eq!((seen.len(), all.len()), (100, 100));
    for wrong in [
        Augmented::new("image").grayscale(1.5),
        Augmented::new("image").erase(-0.1),
        Augmented::new("image").jitter(0.4, 0.4, 0.4, 0.6, 1.0),
        Augmented::new("image").random_crop(17),
        Augmented::new("words"),
    ] {
        let upload = Upload::with_transforms(gpu.clone(), vec![Arc::new(wrong.clone())]).unwrap();
        let refused = Loader::new(dataset.clone(), &fields, &options(), upload).err().unwrap();
        assert_eq!(refused.kind(), Kind::Config, "{wrong:?}");
    }
}

#[test]
fn ragged_values_are_padded() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path());
    let fields = [FieldOptions::new("txt", FieldKind::Bytes)];
    let padded = Padded { pad: 32, ..Padded::new("txt", "words", 45) };
    let wanted = by_host(&dataset, &fields);
    for (found, wanted) in with_transforms(&gpu, &dataset, &fields, vec![Arc::new(padded)]).iter().zip(&wanted) {
        let (words, lengths) = (found.download("words").unwrap(), found.download("words.lengths").unwrap());
        assert_eq!(words.len(), 45 * wanted.rows());
        for row in 0..wanted.rows() {
            let mut text = wanted.row("txt", row).unwrap().to_vec();
            text.truncate(45);
            assert_eq!(lengths[8 * row..8 * row + 8], (text.len() as i64).to_le_bytes());
            text.resize(45, 32);
            assert_eq!(words[45 * row..45 * row + 45], text);
        }
    }
}

#[test]
fn tokens_become_inputs_and_labels() {
    let Some(gpu) = gpu() else { return };
    let lengths = [5, 17, 3, 40, 1, 30, 60];
    let bytes = pairs::encode(Dtype::U16, (0..lengths.iter().sum::<i32>() as usize).map(pairs::made_up));
    let index = MemoryInput::new("a.idx", pairs::idx(Dtype::U16, &lengths));
    let file = pairs::token_file(&index, Arc::new(MemoryInput::new("a.bin", bytes)), Access::Map).unwrap();
    let tokens = Arc::new(Tokens::new(vec![file]).unwrap());
    let order = pairs::gpt(&lengths, 12, Some(40));
    let companions =
        Companions { position_ids: true, segment_ids: true, cu_seqlens: true, loss_mask: LossMask::Documents };
    let options = TokenOptions { companions, ..TokenOptions::new(3, 12) };
    for documents in [Documents::Segments, Documents::Cumulative] {
        let cumulative = documents == Documents::Segments;
        let made = Sequences { documents, positions: true, cumulative, ..Sequences::default() };
        let upload = Upload::with_transforms(gpu.clone(), vec![Arc::new(made)]).unwrap();
        let found = TokenLoader::tokens(Arc::clone(&tokens), Arc::clone(&order), &options, upload).unwrap();
        let wanted = pairs::loader(&tokens, &order, &options);
        for (found, wanted) in found.zip(wanted) {
            let (found, wanted) = (found.unwrap(), wanted.unwrap());
            let numbers = |name: &str| -> Vec<i64> {
                found.download(name).unwrap().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
            };
            let tokens: Vec<i64> = wanted.integers("tokens").collect();
            let mask: Vec<i64> = wanted.integers("loss_mask").collect();
            let (mut inputs, mut labels) = (Vec::new(), Vec::new());
            for (row, mask) in tokens.chunks(13).zip(mask.chunks(12)) {
                inputs.extend(&row[..12]);
                labels
                    .extend(row[1..].iter().zip(mask).map(|(token, counts)| if *counts == 0 { -100 } else { *token }));
            }
            assert_eq!((numbers("inputs"), numbers("labels")), (inputs, labels));
            assert_eq!(numbers("positions"), wanted.integers("position_ids").collect::<Vec<_>>(), "{documents:?}");
            if cumulative {
                let entries = found.download("cumulative.entries").unwrap();
                let entries = i32::from_le_bytes(entries.try_into().unwrap()) as usize;
                let lengths = found.download("cumulative").unwrap();
                let lengths = lengths.as_chunks().0.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes)));
                assert!(lengths.take(entries).eq(wanted.integers("cu_seqlens")));
            }
        }
    }
}

/// Synthetic samples do not depend on the number of ranks.
#[test]
fn pictures_are_made_of_nothing() {
    let Some(gpu) = gpu() else { return };
    let pictures =
        SyntheticPictures { motif: Motif::Letters { dot: 2 }, size: (30, 40), channels: 3, output: Pixels::BYTES };
    let made = |rank, batch| -> Vec<Vec<u8>> {
        let options = LoaderOptions { rank, ..LoaderOptions::new(batch) };
        let upload =
            Upload::with_transforms(gpu.clone(), vec![Arc::new(Synthetic::pictures("image", pictures))]).unwrap();
        let batches = Ahead::new(NullLoader::null(24, &options, upload).unwrap(), 2).unwrap();
        batches.map(|batch| batch.unwrap().download("image").unwrap()).collect()
    };
    let whole = made(Rank::default(), 12).concat();
    let ranks = [0, 1].map(|rank| made(Rank { rank, world_size: 2 }, 4));
    let mixed: Vec<u8> = ranks[0].iter().zip(&ranks[1]).flat_map(|(a, b)| [a.clone(), b.clone()].concat()).collect();
    assert_eq!(whole.len(), 24 * 30 * 40 * 3);
    assert!(mixed == whole && whole.chunks(3600).skip(1).all(|picture| *picture != whole[..3600]));
}

/// Two steps must not make fields of the same name.
#[test]
fn steps_that_make_one_field_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let fields = [FieldOptions::new("txt", FieldKind::Bytes)];
    let steps: Vec<Arc<dyn DeviceTransform>> =
        vec![Arc::new(Padded::new("txt", "a.lengths", 4)), Arc::new(Padded::new("txt", "a", 4))];
    let upload = Upload::with_transforms(Simulated::new(), steps).unwrap();
    let error = Loader::new(samples(dir.path()), &fields, &options(), upload).map(|_| ()).unwrap_err();
    assert!(error.kind() == Kind::Config && error.to_string().contains("two steps make a field a.lengths"), "{error}");
}

/// Invalid settings are errors when the loader is made, and name the field.
#[test]
fn steps_that_fit_no_batch_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let header = format!("{:<117}\n", "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }");
    let complex = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[0; 8]].concat();
    shards::tar(&dir.path().join("b.tar"), std::iter::once(("b".to_owned(), vec![("npy", complex)])));
    let dataset = samples(dir.path());
    let fields = [
        FieldOptions::new("txt", FieldKind::Bytes),
        FieldOptions::new("png", FieldKind::Picture(View::default())),
        FieldOptions::new("npy", FieldKind::Ragged),
    ];
    let drawn = Pictures { place: packhorse_gpu::kernels::CropPosition::Drawn, ..Pictures::new("png") };
    for (step, wanted) in [
        (Arc::new(Pictures::new("jpg")) as Arc<dyn DeviceTransform>, "no field jpg; they have: txt, txt.offsets, png"),
        (Arc::new(drawn), "field png has no pictures of one size"),
        (Arc::new(Resized::new("txt", (8, 8))), "field txt has no pictures of their own sizes"),
        (Arc::new(Resized::new("png", (0, 8))), "0"),
        (Arc::new(Padded::new("cls", "x", 4)), "no ragged field cls"),
        (Arc::new(Padded::new("npy", "x", 4)), "no ragged field npy of single numbers"),
        (Arc::new(Padded::new("txt", "x", 0)), "padded to no values"),
        (Arc::new(Unpacked::new("txt", &[9], Element::F32)), "not of 9 bits"),
        (Arc::new(Sequences::default()), "no field tokens"),
    ] {
        let upload = Upload::with_transforms(Simulated::new(), vec![step]).unwrap();
        let error = Loader::new(dataset.clone(), &fields, &options(), upload).map(|_| ()).unwrap_err();
        assert!(error.kind() == Kind::Config && error.to_string().contains(wanted), "{error}");
    }
}
