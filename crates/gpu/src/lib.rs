//! Batches to GPUs: one copy per batch, overlapped with compute, then finished by small kernels.
//!
//! ```text
//! Loader (pinned slabs) ─Upload→ copy · kernels · event ─→ DeviceBatch ─on→ the consumer's stream
//!                          ↑                                    │
//!                          └────── slot, after the last use ←─drop
//! ```
//!
//! * [`Upload`] is the device of a loader: it provides pinned memory and sends the batches filled there.
//!   [`DeviceTransform`] steps make fields on the GPU. With [`packhorse_read::Ahead`] batches are sent before they are
//!   requested.
//! * [`DeviceBatch`] has typed [`View`]s of its fields. Streams wait for it on the GPU; dropping it releases the memory
//!   for reuse after the work of those streams. The host never waits, and in steady state no slab or slot is allocated.
//! * [`Cuda`] is NVIDIA's driver, loaded at run time: without one, [`Cuda::new`] is an error of kind `Unsupported`.
//!   [`Simulated`] does the same with host threads.
//! * [`Resident`] is a dataset in the memory of a GPU, for loaders that read it there.
//! * [`kernels`] describes launches, for code with its own addresses and stream. [`Exported`] is a field for other
//!   libraries (DLPack).
//! * `unsafe` code passes memory to the GPU only in this crate; the safe public interface can neither free nor change
//!   memory that the GPU uses.

mod bench;
mod cuda;
mod device_batch;
mod diagnosis;
mod dlpack;
mod driver;
mod fixed_work;
mod gpu;
pub mod kernels;
mod nvjpeg;
mod resident;
mod ring;
mod simulated;
mod sync;
mod timeline;
pub mod transforms;
mod upload;
mod upload_stream;
mod usage;
mod view;

pub use bench::{Staged, UploadBench, UploadMeasured};
pub use cuda::{Copied, Cuda, DeviceMemory, Pinned, Stream};
pub use device_batch::{DeviceBatch, OnStream};
pub use diagnosis::diagnose_on_gpu;
pub use dlpack::{DlDataType, DlDevice, DlManagedTensor, DlTensor, DlVersion, Exported};
pub use fixed_work::FixedSteps;
pub use gpu::Gpu;
pub use kernels::Element;
pub use nvjpeg::{Backend, JpegCounts, JpegOptions, Jpegs, NvJpeg, decodable, decoded};
pub use resident::Resident;
pub use simulated::Simulated;
pub use transforms::{Commands, DeviceTransform, Fields, Output};
pub use upload::Upload;
pub use usage::{Usage, Used};
pub use view::View;
