//! Kernels that finish batches on the GPU, and their launch parameters. Owns PTX and its parameters; calls no driver.
//!
//! * **Kernels** convert the bytes of a loader's slab (pixels, tokens, bits, ragged values) to tensors for a network,
//!   each in one pass over memory. Every kernel is a struct of settings. Its `launch` takes device addresses and
//!   returns a [`Launch`] for `cuLaunchKernel`; `output` gives the resulting tensor, so that its memory can be
//!   reserved.
//! * **The sources** are `crates/gpu/kernels/*.cu`; next to them is the PTX that NVRTC 12.0 compiles from them
//!   (`compile.py`; ISA 8.0, for compute capability 7.5 and later), which drivers from 525 on translate. No CUDA
//!   toolkit is needed.
//! * **Addresses** are those of the driver (`CUdeviceptr`), 0 for none. Each must be aligned to the size of its
//!   elements, as fields of a slab are. No values that a kernel reads from memory (offsets, shapes, corners) make it
//!   access memory outside of the given arrays, but for the addresses of [`Gathered`], which are those of the pieces.
//! * **Random numbers** are SplitMix64 of one key per sample, as in `packhorse-order`: lane 0 for mirroring, lanes 1 to
//!   40 for crops, lanes from 64 on for colours, erased parts, mixes, rotations and blurs. With the same keys the CPU loader makes the same picture.
//! * **Errors** are of kind `Config` and name the invalid setting or address.
//! * **Revision**: 2. Revision 1 normalised by a factor and a summand, which rounds otherwise.

mod augment;
mod bits;
mod checksum;
mod element;
mod exercise;
mod gather;
mod image;
mod launch;
mod pad;
mod pixels;
mod resize;
mod spin;
mod synthetic;
mod tokens;

pub use augment::{Augment, Blur, Erase, Jitter, Mix, MixedLabels, Rotate};
pub use bits::Bits;
pub use checksum::{Checksum, checksum};
pub use element::{Element, Tensor};
pub use exercise::Exercise;
pub use gather::Gathered;
pub use image::{CropPosition, Flip, Image, Picks};
pub use launch::{Args, Launch, Module};
pub use pad::{Pad, RaggedValues};
pub use pixels::{Axes, Normalize, Pixels};
pub use resize::{Crop, RaggedPictures, Resize};
pub use spin::Spin;
pub use synthetic::{Motif, Origin, SyntheticPictures, SyntheticTokens};
pub use tokens::{Documents, TokenInputs, TokenOutputs, TokenRows};

#[cfg(test)]
mod tests;
