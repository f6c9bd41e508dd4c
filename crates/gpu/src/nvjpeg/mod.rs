//! Decodes JPEGs on the GPU by nvJPEG, if it is installed.
//!
//! * **Purpose**: a [`DeviceTransform`](crate::DeviceTransform) from a field of JPEG bytes to a dense field of pictures
//!   of one size, decoded by nvJPEG, then cropped, resampled, mirrored and normalised by
//!   [`Resize`](crate::kernels::Resize). The library is loaded on request ([`NvJpeg::load`]) and is not a dependency:
//!   without it there is one error of kind `Unsupported`.
//! * **The decoder** is chosen for each picture by its header: the first of [`JpegOptions::backends`] that accepts it,
//!   else the CPU. nvJPEG gets upright grayscale or YCbCr pictures with 8 bits per channel and Huffman coding: the
//!   hardware those that are baseline with one scan, the multiprocessors also progressive ones. The CPU decodes CMYK,
//!   RGB, arithmetic coding, pictures rotated by EXIF, and PNGs. If a call fails, all pictures of that backend in the batch
//!   go to the next one, then to the CPU. [`Jpegs::counts`] has the number of pictures per decoder.
//! * **Memory**: nvJPEG reads the bytes from the batch's own pinned slab, which the ring keeps until the batch's
//!   `ready` event, recorded after all this, has passed. Decoded pictures are in one of two *lanes*, which are separate
//!   from the slots because they are in use only while decoding: `memory` bytes each, or one picture, grown when needed
//!   and never shrunk. A batch that needs more is decoded in parts, in alternating lanes.
//! * **Order**: everything is queued on the stream of transforms, so the proofs of the ring's model hold unchanged.
//! * **The host waits** for a lane's last kernel before it reuses the lane, two parts later. nvJPEG's hardware backend
//!   writes pictures *when it is called*, ahead of work that is queued on the stream, without waiting for it
//!   (meta-pytorch/torchcodec#1634, nvJPEG 12.3 to 13.2): memory must be unused on the GPU at that time, and only the
//!   host can know.
//! * **Errors** name field and sample: `Content` for pictures that are truncated or that no decoder supports, `Limit`
//!   for too many pixels, `Environment` for a GPU without memory.
//! * **Pixels** are not bit-identical to those of the CPU decoder, and nvJPEG is less strict about damage inside of a
//!   scan (docs/nvjpeg.md).

#![expect(unsafe_code, reason = "a C library is loaded and called, and given addresses of the GPU's memory")]

mod callers;
mod calls;
mod chunk;
mod cpu;
mod decoded;
mod engine;
mod jpegs;
mod lane;
mod lane_batch;
mod library;
mod options;
mod source;
mod state;
mod survey;

pub use decoded::{decodable, decoded};
pub use engine::Backend;
pub use jpegs::{JpegCounts, Jpegs};
pub use library::NvJpeg;
pub use options::JpegOptions;
