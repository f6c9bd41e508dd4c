//! What is asked of JPEGs on the GPU.

use super::Backend;
use crate::kernels::Resize;
use packhorse_core::Limits;

/// Which field holds JPEGs, and what becomes of them.
#[derive(Clone, Debug)]
pub struct JpegOptions {
    /// The loader's field: bytes as they are ([`Make::Bytes`](packhorse_read::Make::Bytes)). Default: `jpg`.
    pub field: String,
    /// The name of what is made of it. Default: `image`.
    pub output: String,
    /// Size, part, mirroring and elements of what is made; of three channels, and no flips that are given. Which part is shown is
    /// drawn as [`View`](packhorse_transform::image::View) draws it on the CPU, from the same key, if the seed is the same.
    pub resize: Resize,
    /// The loader's seed. Default: 0.
    pub seed: u64,
    /// Who is asked to decode, in this order; what they refuse the CPU decodes. Default: hardware, then multiprocessors.
    pub backends: Vec<Backend>,
    /// Bytes of decoded pictures in the GPU's memory at a time, twice: a batch of more is done in parts. Only a picture that is
    /// larger takes more. Default: 512 MiB.
    pub memory: usize,
    /// Of pictures. Default: 256 megapixels.
    pub limits: Limits,
}

impl JpegOptions {
    /// The defaults.
    pub fn new(resize: Resize) -> Self {
        Self {
            field: "jpg".into(),
            output: "image".into(),
            resize,
            seed: 0,
            backends: vec![Backend::Hardware, Backend::Hybrid],
            memory: 512 << 20,
            limits: Limits::default(),
        }
    }
}
