//! GPUs.
#![expect(dead_code, unused_variables, reason = "compiled, not run: there may be no GPU")]

use packhorse::core::Result;
use packhorse::gpu::kernels::{CropPosition, Element, Flip, Image, Normalize, Picks, Pixels};
use packhorse::gpu::transforms::Pictures;
use packhorse::gpu::{Cuda, DeviceTransform, Gpu, JpegOptions, Jpegs, NvJpeg, Resident, Upload};
use packhorse::read::{Ahead, FieldKind, FieldOptions, Loader, LoaderOptions};
use packhorse::transform::image::View;
use std::sync::Arc;

fn gpu() -> Result<()> {
    let gpu = Cuda::from_environment()?;
    let transforms: Vec<Arc<dyn DeviceTransform>> = vec![Arc::new(Pictures::new("image"))];
    let settings = packhorse::open("shards")?.loader(256).image("image", "jpg", View::random_crop(224).flip(0.5));
    let loader = settings.on(Upload::with_transforms(gpu.clone(), transforms)?).build()?;
    let mut batches = Ahead::new(loader, 2)?;
    let stream = gpu.stream()?;
    while let Some(batch) = batches.next().transpose()? {
        let pixels = batch.on(&stream)?.view("image")?;
    }
    Ok(())
}

fn resident() -> Result<()> {
    let gpu = Cuda::from_environment()?;
    let dataset = packhorse::open("shards")?;
    let fields =
        [FieldOptions::new("jpg", FieldKind::Picture(View::squash(256))), FieldOptions::new("cls", FieldKind::Auto)];
    let options = LoaderOptions { epochs: None, seed: 7, ..LoaderOptions::new(256) };
    let resident = Arc::new(Resident::load(&gpu, &dataset, &fields, &options)?);
    let pictures = Pictures::new("jpg").random_crop(224).flip(0.5);
    let upload = Upload::resident(&resident, vec![Arc::new(pictures)])?;
    let stream = gpu.stream()?;
    for batch in Ahead::new(Loader::new(dataset, &fields, &options, upload)?, 2)? {
        let pixels = batch?.on(&stream)?.view("jpg")?;
    }
    Ok(())
}

fn nvjpeg() -> Result<()> {
    let gpu = Cuda::new(0)?;
    let library = NvJpeg::load(None)?;
    let jpegs = Arc::new(Jpegs::new(&gpu, &library, JpegOptions::new("jpg", (224, 224)))?);
    let stream = gpu.stream()?;
    let upload = Upload::with_transforms(gpu, vec![jpegs.clone()])?;
    let settings = packhorse::open("shards")?.loader(256).field_as("jpg", "jpg", FieldKind::Bytes).field("cls", "cls");
    for batch in Ahead::new(settings.on(upload).build()?, 2)? {
        let batch = batch?;
        let pixels = batch.on(&stream)?.view("jpg")?;
    }
    jpegs.counts();
    Ok(())
}

fn kernels(pixels: u64, keys: u64, output: u64) -> Result<()> {
    let image = Image {
        crop: (224, 224),
        place: CropPosition::Drawn,
        flip: Flip::Drawn(0.5),
        ..Image::new((256, 256), 3, Pixels::normalized(Element::Bf16, Normalize::IMAGENET))
    };
    image.output(64)?;
    let launch = image.launch(pixels, &Picks { keys, ..Picks::default() }, output, 64)?;
    Ok(())
}
