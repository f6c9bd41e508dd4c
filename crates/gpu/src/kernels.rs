//! Kernels that finish batches on the GPU: what there is to launch, and with which arguments. Owns PTX and its parameters;
//! calls no driver.
//!
//! * **What it is**: bytes as a loader leaves them in a slab (pixels, tokens, bits, ragged values) to tensors as a network takes
//!   them, in one pass over memory each. Every kernel is a struct of settings, whose `launch` takes addresses on the device and
//!   gives a [`Launch`] for `cuLaunchKernel`; `output` says what tensor comes out, so that its memory can be reserved.
//! * **The sources** are `crates/gpu/kernels/*.cu`; beside them lies the PTX that NVRTC 12.0 makes of them (`compile.py`; ISA 8.0,
//!   for compute capability 7.5 and later), which drivers from 525 on translate. No toolkit is needed.
//! * **Addresses** are those of the driver (`CUdeviceptr`), 0 for none. Each must be a multiple of the size of what lies there;
//!   fields of a slab are. Nothing that a kernel reads from memory (offsets, shapes, corners) makes it touch memory outside of
//!   what it was told of.
//! * **Random numbers** are SplitMix64 of a key a sample, as `packhorse-order` draws them: lane 0 for mirroring, 1 to 40 for parts
//!   of pictures. With the same keys the CPU's loader makes the same picture.
//! * **Errors** are of kind `Config`, and say which setting or address is wrong.
//! * **Revision**: 1, the first.

mod bits;
mod checksum;
mod element;
mod image;
mod launch;
mod pad;
mod pixels;
mod resize;
mod spin;
mod synthetic;
mod tokens;

pub use bits::Bits;
pub use checksum::{Checksum, checksum};
pub use element::{Element, Tensor};
pub use image::{Flip, Image, Picks, Place};
pub use launch::{Args, Launch, Module};
pub use pad::{Pad, RaggedValues};
pub use pixels::{Axes, Normalize, Pixels};
pub use resize::{Part, RaggedPictures, Resize};
pub use spin::Spin;
pub use synthetic::{Motif, Origin, SyntheticPictures, SyntheticTokens};
pub use tokens::{Documents, TokenInputs, TokenOutputs, TokenRows};

#[cfg(test)]
mod tests;
