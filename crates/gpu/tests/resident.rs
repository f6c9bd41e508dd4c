//! Batches of samples that a GPU holds equal those of a loader that reads them: over a simulated GPU that runs the kernels,
//! compiled for the host.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

#[expect(dead_code, reason = "shared by checks of kernels")]
mod common;
mod computing;
mod pictures;
#[path = "../../read/tests/shards/mod.rs"]
#[expect(dead_code, reason = "shared by tests of the reader")]
mod shards;

use packhorse_core::Kind;
use packhorse_gpu::transforms::{Pictures, Resized};
use packhorse_gpu::{DeviceBatch, DeviceTransform, Element, Resident, Simulated, Upload};
use packhorse_order::{Rank, Shuffle};
use packhorse_read::*;
use packhorse_transform::image::View;
use pictures::png;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A simulated GPU that runs the kernels; `None` without a C++ compiler.
fn gpu() -> Option<Simulated> {
    computing::simulated(1, Duration::from_micros(50))
}

/// Pictures of many sizes, words of many lengths, numbers; in shards of 7 samples. `bad` has a picture that can't be decoded.
fn samples(dir: &Path, count: u32, bad: Option<u32>) -> Dataset {
    let sample = |i: u32| {
        let words = "packhorse ".repeat(i as usize % 9).into_bytes();
        let picture = if Some(i) == bad { b"no picture".to_vec() } else { png(20 + i % 7, 30 + i * 7 % 11, i) };
        (format!("{i:03}"), vec![("png", picture), ("txt", words), ("cls", (i * i).to_string().into_bytes())])
    };
    for first in (0..count).step_by(7) {
        shards::tar(&dir.join(format!("{first:03}.tar")), (first..count.min(first + 7)).map(sample));
    }
    shards::dataset(dir)
}

fn fields() -> Vec<FieldOptions> {
    vec![
        FieldOptions::new("png", FieldKind::Picture(View::default())),
        FieldOptions::new("image", FieldKind::Picture(View::squash(9))).from("png"),
        FieldOptions::new("txt", FieldKind::Bytes),
        FieldOptions::new("cls", FieldKind::Auto),
    ]
}

fn options(batch: u32) -> LoaderOptions {
    let shuffle = Some(Shuffle::Blocks { shards: 3 });
    LoaderOptions {
        threads: 2,
        seed: 9,
        epochs: Some(3),
        remainder: Remainder::Uneven,
        shuffle,
        ..LoaderOptions::new(batch)
    }
}

fn upload(resident: &Arc<Resident<Simulated>>) -> Upload<Simulated> {
    Upload::resident(resident, Vec::new()).unwrap()
}

/// Asserts that a batch on the GPU is one of the host.
fn assert_same(found: &DeviceBatch<Simulated>, wanted: &Batch<HostSlab>) {
    let metadata = found.metadata().unwrap();
    assert_eq!((metadata.epoch(), metadata.positions()), (wanted.epoch(), wanted.positions()));
    assert_eq!(metadata.numbers(), wanted.numbers());
    for field in wanted.layout().fields() {
        assert!(found.download(&field.name).unwrap() == wanted.field(&field.name).unwrap(), "field {}", field.name);
    }
    (0..wanted.rows()).for_each(|row| assert_eq!(metadata.key(row), wanted.key(row)));
}

/// The batches and states of a loader, on the GPU and in the host's memory.
fn assert_equal(
    resident: &Arc<Resident<Simulated>>,
    dataset: &Dataset,
    fields: &[FieldOptions],
    options: &LoaderOptions,
) {
    let mut found = Loader::new(dataset.clone(), fields, options, upload(resident)).unwrap();
    let mut wanted = Loader::new(dataset.clone(), fields, options, Host::default()).unwrap();
    assert_eq!(found.remaining(), wanted.remaining());
    let mut kept = Vec::new();
    while let Some(batch) = wanted.next() {
        kept.push((found.next().unwrap().unwrap(), batch.unwrap()));
        assert_eq!(found.state(), wanted.state());
        if kept.len() > 2 {
            let (found, wanted) = kept.remove(0);
            assert_same(&found, &wanted);
        }
    }
    assert!(found.next().is_none());
    kept.iter().for_each(|(found, wanted)| assert_same(found, wanted));
}

#[test]
fn batches_and_states_are_those_of_a_loader_that_reads() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path(), 60, None);
    // Kept in batches of another size.
    // Kept whatever that loader would leave out.
    let loading = LoaderOptions { skip: vec![1, 2].into(), ..options(11) };
    let resident = Arc::new(Resident::load(&gpu, &dataset, &fields(), &loading).unwrap());
    assert_eq!(resident.samples().len(), 60);
    for (remainder, shuffle, world_size) in [
        (Remainder::Uneven, Shuffle::Blocks { shards: 3 }, 1),
        (Remainder::Pad, Shuffle::Full, 3),
        (Remainder::Drop, Shuffle::Sequential, 2),
    ] {
        for rank in 0..world_size {
            let rank = Rank { rank, world_size };
            let options = LoaderOptions { remainder, shuffle: Some(shuffle), rank, ..options(8) };
            assert_equal(&resident, &dataset, &fields(), &options);
            assert_equal(&resident, &dataset, &fields()[2..], &options);
        }
    }
    // It goes on from a state, and leaves samples out.
    let mut loader = Loader::new(dataset.clone(), &fields(), &options(8), upload(&resident)).unwrap();
    loader.by_ref().take(10).for_each(|batch| drop(batch.unwrap()));
    let later = LoaderOptions { state: Some(loader.state()), skip: vec![3, 4, 5, 59].into(), ..options(8) };
    assert_equal(&resident, &dataset, &fields(), &later);
    // Any batch by its number.
    let access = loader.random_access(upload(&resident)).unwrap();
    let host = Loader::new(dataset, &fields(), &options(8), Host::default()).unwrap();
    for step in [0, 17, 1000] {
        assert_same(&access.at(step, Rank::default()).unwrap(), &host.at(step, Rank::default()).unwrap());
    }
    assert_eq!(loader.at(0, Rank::default()).unwrap_err().kind(), Kind::Config);
    assert_eq!(loader.random_access(Host::default()).unwrap_err().kind(), Kind::Config);
}

#[test]
fn bad_samples_have_no_row() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path(), 30, Some(12));
    let error = Resident::load(&gpu, &dataset, &fields(), &options(8)).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("012")), "{error}");
    let options = LoaderOptions { on_error: OnError::Skip, ..options(8) };
    let resident = Arc::new(Resident::load(&gpu, &dataset, &fields(), &options).unwrap());
    assert_eq!(resident.samples().len(), 29);
    assert_equal(&resident, &dataset, &fields(), &options);
}

/// Crops and flips are drawn for each epoch, as for pictures that are sent.
#[test]
fn pictures_are_cut_and_mirrored_in_each_epoch() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dataset = samples(dir.path(), 40, None);
    let resident = Arc::new(Resident::load(&gpu, &dataset, &fields(), &options(8)).unwrap());
    let pictures = Pictures { into: "small".to_owned(), ..Pictures::new("image") }.random_crop(6).flip(0.5);
    let resized = Resized::new("png", (8, 8));
    let crop = packhorse_gpu::kernels::Crop::Random { scale: (0.3, 1.0), ratio: (0.75, 1.3) };
    let resized = Resized {
        resize: packhorse_gpu::kernels::Resize {
            crop,
            flip: packhorse_gpu::kernels::Flip::Drawn(0.5),
            ..resized.resize
        },
        ..resized
    };
    let steps: Vec<Arc<dyn DeviceTransform>> = vec![Arc::new(pictures), Arc::new(resized)];
    let sent = Upload::with_transforms(gpu.clone(), steps.clone()).unwrap();
    let sent = Loader::new(dataset.clone(), &fields(), &options(8), sent).unwrap();
    let held = Upload::resident(&resident, steps).unwrap();
    let mut held = Loader::new(dataset, &fields(), &options(8), held).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for sent in sent {
        let (sent, held) = (sent.unwrap(), held.next().unwrap().unwrap());
        for name in ["small", "png", "cls", "draws", "txt"] {
            assert!(sent.download(name).unwrap() == held.download(name).unwrap(), "{name}");
        }
        assert_eq!(held.unordered_view("small").unwrap().element, Element::Bf16);
        seen.insert(held.download("small").unwrap());
    }
    // Five batches in each of three epochs, all different.
    assert_eq!((seen.len(), held.next().is_none()), (15, true));
}

#[test]
fn what_can_not_be_held_is_refused() {
    let Some(gpu) = gpu() else { return };
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dataset, other) = (samples(dir.path(), 20, None), samples(other.path(), 21, None));
    let random = [FieldOptions::new("png", FieldKind::Picture(View::random_crop(16)))];
    let error = Resident::load(&gpu, &dataset, &random, &options(8)).unwrap_err();
    assert_eq!(error.kind(), Kind::Config, "{error}");
    assert!(error.to_string().contains("field png is cut or mirrored at random"), "{error}");
    let resident = Arc::new(Resident::load(&gpu, &dataset, &fields()[1..3], &options(8)).unwrap());
    let refused = |dataset: &Dataset, fields: &[FieldOptions]| {
        let error = Loader::new(dataset.clone(), fields, &options(8), upload(&resident)).err().unwrap();
        assert_eq!(error.kind(), Kind::Config, "{error}");
        error.to_string()
    };
    assert!(refused(&other, &fields()[1..3]).contains("another dataset"));
    assert!(refused(&dataset.take(10).unwrap(), &fields()[1..3]).contains("another dataset"));
    assert!(refused(&dataset, &fields()[1..]).contains("does not hold the field cls"));
    // Of the same form, and made another way.
    for other in [
        FieldOptions::new("image", FieldKind::Picture(View::random_crop(9))).from("png"),
        FieldOptions::new("image", FieldKind::Picture(View::squash(9).flip(0.5))).from("png"),
        FieldOptions::new("image", FieldKind::Picture(View::center_crop(9))).from("png"),
        FieldOptions { required: false, ..fields()[1].clone() },
    ] {
        assert!(refused(&dataset, &[other]).contains("does not hold the field image, or in another form"));
    }
    // Samples of another load are not those of a loader.
    let again = Arc::new(Resident::load(&gpu, &dataset, &fields()[1..3], &options(8)).unwrap());
    let loader = Loader::new(dataset.clone(), &fields()[1..3], &options(8), upload(&resident)).unwrap();
    assert_eq!(loader.random_access(upload(&again)).unwrap_err().kind(), Kind::Config);
    let cancel = packhorse_core::Cancel::default();
    cancel.cancel();
    let stopped = Resident::load_until(&gpu, &dataset, &fields()[1..3], &options(8), &cancel);
    assert_eq!(stopped.unwrap_err().kind(), Kind::Cancelled);
    let larger = [FieldOptions::new("image", FieldKind::Picture(View::squash(10))).from("png")];
    assert!(refused(&dataset, &larger).contains("or in another form"));
    let mut step = |_: &DeviceBatch<Simulated>| Ok(());
    let how = diagnose::DiagnoseOptions::default();
    let mut device = || Ok(upload(&resident));
    let found = diagnose::diagnose(&dataset, &fields()[1..3], &options(8), &mut device, &mut step, &how);
    assert_eq!(found.unwrap_err().kind(), Kind::Unsupported);
}
