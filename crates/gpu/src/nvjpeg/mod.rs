//! JPEGs that are decoded on the GPU, by nvJPEG where it is installed.
//!
//! * **What it is**: a [`DeviceTransform`](crate::DeviceTransform): of a field of JPEG bytes it makes a dense field of pictures of one size, decoded
//!   by nvJPEG, then cut, resampled, mirrored and normalised by [`Resize`](crate::kernels::Resize). The library is loaded when it is
//!   asked for ([`NvJpeg::load`]) and is not a dependency: without it there is one error of kind `Unsupported`.
//! * **Who decodes what** is decided for each picture, from its header: the first of [`JpegOptions::backends`] that takes it, else
//!   the CPU's decoder. nvJPEG gets upright pictures, gray or of luma and chroma, 8 bits a channel, coded by Huffman: baseline
//!   ones of one scan the hardware, also progressive ones the multiprocessors. CMYK, RGB, arithmetic coding, pictures that EXIF
//!   turns and PNGs are the CPU's. What a call fails at goes to the next backend with the pictures of the same call, then to the CPU. [`Jpegs::counts`] says how many
//!   went which way.
//! * **Where things are**: nvJPEG reads the bytes from the batch's own pinned slab, which the ring keeps until the batch's `ready`
//!   event, recorded after all this, is over. Decoded pictures lie in one of two *lanes*, which belong to this and not to the slots
//!   (they are used for as long as it takes to decode, not for as long as a consumer keeps a batch): `memory` bytes each, or one
//!   picture, grown when more is needed and never shrunk. A batch that needs more is done in parts, one lane after the other.
//! * **In which order**: everything is queued on the stream of the copies, and what the ring's model proves holds as it is. A
//!   stream of its own would let the next batch's copy begin earlier; compressed bytes are a tenth of the pixels, so that gains
//!   little, and the calls themselves (parsing; Huffman codes of what the GPU does not do alone) keep the host busy meanwhile.
//! * **The host waits** for a lane's last kernel before it uses the lane again, two parts later. nvJPEG's hardware backend writes
//!   pictures *when it is called*, ahead of work that is queued on the stream, whatever the stream waits for
//!   (meta-pytorch/torchcodec#1634, nvJPEG 12.3 to 13.2): memory must be unused on the GPU at that time, and only the host can know.
//! * **Errors** name field and sample: `Content` for what no decoder takes or is cut short, `Limit` for too many pixels,
//!   `Environment` for a GPU without memory.
//! * **Pixels** are not those of the CPU to the last bit; nvJPEG is not as strict as our decoder about damage inside of a scan
//!   (docs/nvjpeg.md).

#![expect(unsafe_code, reason = "a C library is loaded and called, and given addresses of the GPU's memory")]

mod calls;
mod chunk;
mod cpu;
mod engine;
mod jpegs;
mod lane;
mod library;
mod options;
mod part;
mod source;
mod state;

pub use engine::Backend;
pub use jpegs::{JpegCounts, Jpegs};
pub use library::NvJpeg;
pub use options::JpegOptions;
