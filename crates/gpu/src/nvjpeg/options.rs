//! Settings of JPEGs on the GPU.

use super::Backend;
use crate::kernels::{Flip, Part, Resize};
use packhorse_core::Limits;
use std::thread::available_parallelism;

/// Which field holds JPEGs, and what becomes of them.
#[derive(Clone, Debug)]
pub struct JpegOptions {
    /// The field that they are in: bytes as they are ([`FieldKind::Bytes`](packhorse_read::FieldKind::Bytes)).
    pub from: String,
    /// Whether a sample that has none, or an empty one, is an error; else its picture is black.
    pub required: bool,
    /// The field that is made.
    pub into: String,
    /// What becomes of them, as for [`Resized`](crate::transforms::Resized).
    pub resize: Resize,
    /// The field of keys that is drawn from ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
    /// Who is asked to decode, in this order; what they refuse the CPU decodes. Those that the GPU does not have are left out.
    pub backends: Vec<Backend>,
    /// Bytes of decoded pictures in the GPU's memory at a time, twice: a batch of more is done in parts. Only a picture that is
    /// larger takes more.
    pub memory: usize,
    /// Threads that decode the CPU's share, including the one that takes the batches.
    pub threads: usize,
    /// Of pictures.
    pub limits: Limits,
}

impl JpegOptions {
    /// The JPEGs in the field `from` to this height and width, as [`Resized::new`](crate::transforms::Resized::new) does it: the
    /// middle of each, `bf16`, channels first, normalised for ImageNet, under the same name. By hardware, else by
    /// multiprocessors, in twice 512 MiB; each sample must have one; the CPU's by at most eight threads; none above 256 megapixels.
    pub fn new(from: impl Into<String>, size: (u32, u32)) -> Self {
        let resized = crate::transforms::Resized::new(from, size);
        Self {
            from: resized.from,
            required: true,
            into: resized.into,
            resize: resized.resize,
            draws: resized.draws,
            backends: vec![Backend::Hardware, Backend::Hybrid],
            memory: 512 << 20,
            threads: available_parallelism().map_or(1, usize::from).min(8),
            limits: Limits::default(),
        }
    }

    /// Whether anything is drawn.
    pub(super) fn drawn(&self) -> bool {
        matches!(self.resize.part, Part::Random { .. }) || matches!(self.resize.flip, Flip::Drawn(_))
    }
}
