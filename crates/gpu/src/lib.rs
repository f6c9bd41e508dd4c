//! Batches to GPUs: one copy a batch, hidden behind compute.

mod cuda;
mod device_batch;
mod driver;
mod element;
mod finish;
mod gpu;
pub mod kernels;
mod line;
mod nvjpeg;
mod ring;
mod simulated;
mod sync;
mod upload;
mod view;

pub use cuda::{Cuda, DeviceMemory, Pinned, Stream};
pub use device_batch::DeviceBatch;
pub use element::Element;
pub use finish::{Commands, Finish, Output};
pub use gpu::Gpu;
pub use line::Fields;
pub use nvjpeg::{Backend, JpegCounts, JpegOptions, Jpegs, NvJpeg};
pub use simulated::Simulated;
pub use upload::Upload;
pub use view::View;
