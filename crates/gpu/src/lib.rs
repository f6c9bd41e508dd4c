//! Batches to GPUs: one copy a batch, hidden behind compute.

mod bench;
mod cuda;
mod device_batch;
mod dlpack;
mod driver;
pub mod finish;
mod gpu;
pub mod kernels;
mod line;
mod nvjpeg;
mod ring;
mod simulated;
mod sync;
mod upload;
mod usage;
mod view;

pub use bench::{Staged, UploadBench, UploadMeasured};
pub use cuda::{Cuda, DeviceMemory, Pinned, Stream};
pub use device_batch::DeviceBatch;
pub use dlpack::{DlDataType, DlDevice, DlManagedTensor, DlTensor, DlVersion, Exported};
pub use finish::{Commands, Finish, Output};
pub use gpu::Gpu;
pub use kernels::Element;
pub use line::Fields;
pub use nvjpeg::{Backend, JpegCounts, JpegOptions, Jpegs, NvJpeg};
pub use simulated::Simulated;
pub use upload::Upload;
pub use usage::{Usage, Used};
pub use view::View;
