//! Settings of JPEG decoding on the GPU.

use super::Backend;
use crate::kernels::{Crop, Flip, Resize};
use packhorse_core::Limits;
use std::thread::available_parallelism;

/// The field that holds JPEGs, and how they are decoded.
#[derive(Clone, Debug)]
pub struct JpegOptions {
    /// The field to read, of undecoded bytes ([`FieldKind::Bytes`](packhorse_read::FieldKind::Bytes)).
    pub from: String,
    /// Whether a missing or empty JPEG is an error; else its picture is black.
    pub required: bool,
    /// The field to make.
    pub into: String,
    /// How pictures are resized, as for [`Resized`](crate::transforms::Resized).
    pub resize: Resize,
    /// The field of keys for random draws ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
    /// The backends to try, in this order; the CPU decodes the rest. Backends that the GPU does not have are ignored.
    pub backends: Vec<Backend>,
    /// Threads that read headers and call nvJPEG side by side for a batch, which takes longer than decoding on the GPU. Each call has
    /// memory of its own there, and at least 64 pictures, so small batches take fewer.
    pub calls: usize,
    /// The share of a batch's rows whose pictures the CPU decodes although a backend could, meanwhile: 0 to 1. A batch takes the time
    /// of the slower of the two, so the best share is that of the CPU in the sum of both rates. These rows are spread evenly and have
    /// the CPU's pixels: which samples they are depends on the batch.
    pub cpu_share: f32,
    /// Bytes of decoded pictures in each of two lanes of GPU memory: larger batches are decoded in parts. Only a single
    /// larger picture takes more.
    pub memory: usize,
    /// Threads that decode pictures on the CPU.
    pub threads: usize,
    /// Limits on pictures.
    pub limits: Limits,
}

impl JpegOptions {
    /// Resizes the JPEGs of the field `from` to this height and width, like
    /// [`Resized::new`](crate::transforms::Resized::new): the centre, `bf16`, channels first, normalised for ImageNet,
    /// under the same name. Decodes by hardware, else by multiprocessors, in two lanes of 512 MiB; what they can't, with at most
    /// eight CPU threads. Each sample must have a picture, of at most 256 megapixels.
    pub fn new(from: impl Into<String>, size: (u32, u32)) -> Self {
        let resized = crate::transforms::Resized::new(from, size);
        Self {
            from: resized.from,
            required: true,
            into: resized.into,
            resize: resized.resize,
            draws: resized.draws,
            backends: vec![Backend::Hardware, Backend::Hybrid],
            calls: 4,
            cpu_share: 0.0,
            memory: 512 << 20,
            threads: available_parallelism().map_or(1, usize::from).min(8),
            limits: Limits::default(),
        }
    }

    /// Whether anything is random.
    pub(super) fn drawn(&self) -> bool {
        matches!(self.resize.crop, Crop::Random { .. }) || matches!(self.resize.flip, Flip::Drawn(_))
    }
}
