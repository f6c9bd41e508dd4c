//! Batches to GPUs: one copy a batch, hidden behind compute, finished there by small kernels.
//!
//! ```text
//! Loader (pinned slabs) ─Upload→ copy · kernels · event ─→ DeviceBatch ─wait→ the consumer's stream
//!                          ↑                                    │
//!                          └────── slot, after the last use ←─drop
//! ```
//!
//! * [`Upload`] is the device of a loader: it gives pinned memory and sends what was put together there. [`DeviceTransform`] steps make
//!   fields on the GPU. With [`packhorse_read::Ahead`] batches are sent before they are asked for.
//! * [`DeviceBatch`] has typed [`View`]s of its fields. A stream waits for it on the GPU; dropping it gives the memory back for
//!   use after that stream's work. Nothing waits on the host, and no memory of slabs or slots is taken in a steady state.
//! * [`Cuda`] is NVIDIA's driver, loaded at run time: without one, [`Cuda::new`] is an error of kind `Unsupported`. [`Simulated`]
//!   does the same with threads.
//! * [`kernels`] describes launches, for code that has addresses and a stream. [`Exported`] is a field for other libraries
//!   (DLPack).
//! * Memory that the GPU uses is handed to it by `unsafe` code here and in the modules of [`Gpu`]s; the public safe interface can
//!   neither free nor change memory that is in use.

mod bench;
mod cuda;
mod device_batch;
mod dlpack;
mod driver;
mod gpu;
pub mod kernels;
mod nvjpeg;
mod ring;
mod simulated;
mod sync;
pub mod transforms;
mod upload;
mod upload_stream;
mod usage;
mod view;

pub use bench::{Staged, UploadBench, UploadMeasured};
pub use cuda::{Cuda, DeviceMemory, Pinned, Stream};
pub use device_batch::DeviceBatch;
pub use dlpack::{DlDataType, DlDevice, DlManagedTensor, DlTensor, DlVersion, Exported};
pub use gpu::Gpu;
pub use kernels::Element;
pub use nvjpeg::{Backend, JpegCounts, JpegOptions, Jpegs, NvJpeg};
pub use simulated::Simulated;
pub use transforms::{Commands, DeviceTransform, Output};
pub use upload::Upload;
pub use upload_stream::Fields;
pub use usage::{Usage, Used};
pub use view::View;
