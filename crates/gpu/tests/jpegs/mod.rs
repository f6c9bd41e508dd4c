//! Datasets of JPEGs and their decoding on a GPU, shared by tests of nvJPEG.
#![expect(unsafe_code, reason = "kernels are launched on memory of the GPU")]

pub(crate) mod real;

use crate::shards;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use packhorse_core::{Error, Result};
use packhorse_gpu::kernels::{Crop, Element, Flip, Normalize, Picks, Pixels, RaggedPictures, Resize};
use packhorse_gpu::{Backend, Cuda, DeviceBatch, Gpu, JpegOptions, Jpegs, NvJpeg, Stream, Upload};
use packhorse_order::Shuffle;
use packhorse_read::*;
use packhorse_transform::image::{Draws, JpegFacts, View, ViewDecoder};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// How a dataset is read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) memory: usize,
    /// Batches that the consumer keeps before it checks the first of them.
    pub(crate) kept: usize,
    pub(crate) epochs: u64,
    pub(crate) batch: u32,
    pub(crate) resize: Resize,
    /// `None` for the defaults.
    pub(crate) backends: Option<Vec<Backend>>,
    /// Whether pictures are optional.
    pub(crate) optional: bool,
    /// The share of the CPU.
    pub(crate) share: f32,
    /// Calls side by side.
    pub(crate) calls: usize,
}

impl Default for Request {
    fn default() -> Self {
        let crop = Crop::Random { scale: (0.2, 1.0), ratio: (0.75, 1.333) };
        let output = Pixels::normalized(Element::F32, Normalize::IMAGENET);
        let resize = Resize { channels: 3, size: (9, 12), crop, flip: Flip::Drawn(0.5), output };
        Self {
            memory: 1 << 30,
            kept: 0,
            epochs: 1,
            batch: 8,
            resize,
            backends: None,
            optional: false,
            share: 0.0,
            calls: 4,
        }
    }
}

impl Request {
    pub(crate) fn backends(&self) -> Vec<Backend> {
        self.options().backends
    }

    pub(crate) fn options(&self) -> JpegOptions {
        let usual = JpegOptions::new("jpg", self.resize.size);
        let (memory, resize) = (self.memory, self.resize);
        let backends = self.backends.clone().unwrap_or(usual.backends);
        let (required, cpu_share, calls) = (!self.optional, self.share, self.calls);
        JpegOptions { into: "image".into(), required, cpu_share, calls, memory, resize, backends, ..usual }
    }

    fn loader(&self) -> LoaderOptions {
        LoaderOptions {
            threads: 2,
            seed: 3,
            epochs: Some(self.epochs),
            shuffle: Some(Shuffle::Blocks { shards: 4 }),
            remainder: Remainder::Uneven,
            ..LoaderOptions::new(self.batch)
        }
    }
}

/// A picture of some size, with some texture.
fn picture(seed: usize, change: impl FnOnce(&mut Encoder<&mut Vec<u8>>), colors: ColorType) -> Vec<u8> {
    let (width, height) = (8 + seed * 7 % 40, 8 + seed * 11 % 33);
    let channels = match colors {
        ColorType::Luma => 1,
        ColorType::Cmyk => 4,
        _ => 3,
    };
    let value = |at: usize| (seed * 31 + at * 5 / width + at % width * 3 + at % channels * 40) as u8;
    let pixels: Vec<u8> = (0..width * height * channels).map(value).collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 85);
    change(&mut encoder);
    encoder.encode(&pixels, width as u16, height as u16, colors).unwrap();
    bytes
}

/// Pictures that the hardware decodes.
pub(crate) fn plain(many: usize) -> Vec<Vec<u8>> {
    let factors = [SamplingFactor::R_4_2_0, SamplingFactor::R_4_2_2, SamplingFactor::R_4_4_4];
    (0..many).map(|at| picture(at, |encoder| encoder.set_sampling_factor(factors[at % 3]), ColorType::Rgb)).collect()
}

/// A big-endian TIFF block with only the orientation.
fn exif(orientation: u8) -> Vec<u8> {
    let mut block = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    block.extend([orientation, 0, 0, 0, 0, 0, 0]);
    block
}

/// Pictures of all kinds, half of them supported by nvJPEG.
pub(crate) fn mixed(many: usize) -> Vec<Vec<u8>> {
    let of_kind = |at: usize| match at % 8 {
        1 => picture(at, |encoder| encoder.set_progressive(true), ColorType::Rgb),
        2 => picture(at, |_| (), ColorType::Luma),
        3 => picture(at, |encoder| encoder.set_sampling_factor(SamplingFactor::R_4_4_4), ColorType::Cmyk),
        4 => picture(at, |encoder| encoder.add_exif_metadata(&exif(1 + (at / 8 % 8) as u8)).unwrap(), ColorType::Rgb),
        5 => png(at),
        6 => [picture(at, |_| (), ColorType::Rgb), b"and more".to_vec()].concat(),
        _ => picture(at, |_| (), ColorType::Rgb),
    };
    (0..many).map(of_kind).collect()
}

fn png(seed: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 13, 10);
    encoder.set_color(png::ColorType::Rgb);
    let pixels: Vec<u8> = (0..13 * 10 * 3).map(|at| (at * 3 + seed) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

/// A JPEG that the fake library accepts and then fails to decode.
pub(crate) fn broken(bytes: &[u8]) -> Vec<u8> {
    [&bytes[..2], b"\xff\xfe\0\x08BROKEN", &bytes[2..]].concat()
}

/// A JPEG whose header has another size.
pub(crate) fn resized(bytes: &[u8], height: u16, width: u16) -> Vec<u8> {
    let frame = bytes.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
    bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
    bytes
}

/// Shards with these pictures.
pub(crate) fn dataset(dir: &Path, pictures: &[Vec<u8>]) -> Dataset {
    for (shard, pictures) in pictures.chunks(20).enumerate() {
        let sample = |(at, bytes): (usize, &Vec<u8>)| (format!("s{shard:02}-{at:04}"), vec![("jpg", bytes.clone())]);
        shards::tar(&dir.join(format!("crop-{shard:03}.tar")), pictures.iter().enumerate().map(sample));
    }
    shards::dataset(dir)
}

fn fields() -> Vec<FieldOptions> {
    vec![FieldOptions::new("jpg", FieldKind::Bytes), FieldOptions::new("draws", FieldKind::Draws)]
}

/// Height, width and pixels.
pub(crate) type Decoded = (u32, u32, Vec<u8>);

/// Decodes by the CPU.
pub(crate) fn decoded(bytes: &[u8]) -> Decoded {
    let mut decoder = ViewDecoder::new(View::default(), Default::default()).unwrap();
    let (height, width) = decoder.size(bytes).unwrap();
    let mut pixels = vec![0; 3 * (height * width) as usize];
    decoder.decode_into(bytes, Draws::default(), &mut pixels).unwrap();
    (height, width, pixels)
}

/// The pixels that the fake library makes of a JPEG that it gets, else those of the CPU.
pub(crate) fn pretended(bytes: &[u8]) -> Decoded {
    let facts = JpegFacts::read(bytes).ok();
    let facts = facts.filter(|facts| matches!(facts.components, 1 | 3) && facts.upright && facts.process <= 2);
    let Some(facts) = facts else { return decoded(bytes) };
    let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = bytes[..facts.bytes].iter().fold(0xcbf2_9ce4_8422_2325, fold);
    let value = |at: u32| {
        let (y, x, c) = (at / 3 / facts.width, at / 3 % facts.width, at % 3);
        (sum >> (8 * (c + 3))).wrapping_add(u64::from(3 * x + 7 * y)) as u8
    };
    (facts.height, facts.width, (0..3 * facts.width * facts.height).map(value).collect())
}

fn loader(gpu: &Cuda, dataset: &Dataset, request: &Request) -> (Arc<Jpegs>, Loader<Upload<Cuda>>) {
    let library = NvJpeg::load(None).unwrap();
    let jpegs = Arc::new(Jpegs::new(gpu, &library, request.options()).unwrap());
    let upload = Upload::with_transforms(gpu.clone(), vec![Arc::<Jpegs>::clone(&jpegs)]).unwrap();
    (jpegs, Loader::new(dataset.clone(), &fields(), &request.loader(), upload).unwrap())
}

/// The pictures of each batch that arrives.
pub(crate) fn found(gpu: &Cuda, dataset: &Dataset, request: &Request) -> (Arc<Jpegs>, Vec<Vec<u8>>) {
    let (jpegs, loader) = loader(gpu, dataset, request);
    let stream = gpu.stream().unwrap();
    let mut kept: VecDeque<DeviceBatch<Cuda>> = VecDeque::new();
    let mut found = Vec::new();
    for batch in loader {
        let batch = batch.unwrap();
        batch.wait(&stream).unwrap();
        kept.push_back(batch);
        if kept.len() > request.kept {
            found.push(kept.pop_front().unwrap().download("image").unwrap());
        }
    }
    found.extend(kept.iter().map(|batch| batch.download("image").unwrap()));
    (jpegs, found)
}

/// The number of batches that arrived, and the errors.
pub(crate) fn outcomes(gpu: &Cuda, dataset: &Dataset) -> (usize, Vec<Error>) {
    let (_, loader) = loader(gpu, dataset, &Request::default());
    let (good, bad): (Vec<Result<usize>>, Vec<_>) =
        loader.map(|batch| batch.map(|batch| batch.rows())).partition(Result::is_ok);
    (good.len(), bad.into_iter().map(Result::unwrap_err).collect())
}

/// The expected pictures of each batch: decoded by `decode` and resized one by one by the same kernel.
pub(crate) fn wanted(
    gpu: &Cuda,
    dataset: &Dataset,
    request: &Request,
    decode: &dyn Fn(&[u8]) -> Decoded,
) -> Vec<Vec<u8>> {
    let loader = Loader::new(dataset.clone(), &fields(), &request.loader(), Host::default()).unwrap();
    let stream = gpu.stream().unwrap();
    let key =
        |batch: &Batch<HostSlab>, row: usize| u64::from_le_bytes(batch.row("draws", row).unwrap().try_into().unwrap());
    let one = |batch: &Batch<HostSlab>, row: usize| {
        let bytes = batch.row("jpg", row).unwrap();
        resize(gpu, &stream, &request.resize, decode(bytes), key(batch, row))
    };
    loader
        .map(|batch| {
            let batch = batch.unwrap();
            (0..batch.rows()).flat_map(|row| one(&batch, row)).collect()
        })
        .collect()
}

/// Resizes one picture, synchronously.
fn resize(gpu: &Cuda, stream: &Stream, resize: &Resize, (height, width, pixels): Decoded, key: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = [0, pixels.len() as u64, key].iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend([height, width, 3, 0].iter().flat_map(|number| number.to_le_bytes()));
    let scratch = bytes.len().next_multiple_of(16);
    bytes.resize(scratch + resize.scratch(1).unwrap(), 0);
    let start = bytes.len();
    bytes.extend(&pixels);
    let output = bytes.len().next_multiple_of(16);
    let mut out = vec![0; resize.output(1).unwrap().bytes()];
    let mut pinned = gpu.pinned(bytes.len()).unwrap();
    pinned.as_mut().copy_from_slice(&bytes);
    let memory = gpu.memory(output + out.len()).unwrap();
    let at = |offset: usize| gpu.address(&memory) + offset as u64;
    let ragged = RaggedPictures { values: at(start), bytes: pixels.len() as u64, offsets: at(0), shapes: at(24) };
    let picks = Picks { keys: at(16), ..Picks::default() };
    // SAFETY: all memory is valid until the download, which waits for earlier work.
    unsafe {
        gpu.upload(pinned.as_ref(), &memory, stream).unwrap();
        for launch in resize.launch(&ragged, &picks, at(output), at(scratch), 1).unwrap() {
            gpu.launch(&launch, stream).unwrap();
        }
        gpu.drain_stream(stream).unwrap();
        gpu.download(at(output), &mut out).unwrap();
    }
    out
}
