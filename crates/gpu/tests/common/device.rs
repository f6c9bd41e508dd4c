//! Kernels on a GPU, through the driver.
#![expect(unsafe_code, reason = "memory of the GPU is read and written")]

use super::Runner;
use cudarc::driver::result;
use packhorse_gpu::kernels::Launch;
use packhorse_gpu::{Cuda, DeviceMemory, Gpu, Stream};

/// The first GPU, and the memory of kernels.
pub(crate) struct Device {
    gpu: Cuda,
    stream: Stream,
    blocks: Vec<DeviceMemory>,
}

impl Device {
    /// `None` unless `PACKHORSE_GPU` is set.
    pub(crate) fn new() -> Option<Self> {
        std::env::var_os("PACKHORSE_GPU")?;
        let gpu = Cuda::new(0).unwrap();
        // SAFETY: the GPU exists, and its context is kept to the end of the process.
        unsafe { result::ctx::set_current(result::primary_ctx::retain(0).unwrap()) }.unwrap();
        Some(Self { stream: gpu.stream().unwrap(), gpu, blocks: Vec::new() })
    }
}

impl Runner for Device {
    fn alloc(&mut self, bytes: usize) -> u64 {
        self.blocks.push(self.gpu.memory(bytes).unwrap());
        self.gpu.address(self.blocks.last().unwrap())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        self.gpu.drain().unwrap();
        // SAFETY: all addresses come from `alloc`, with space for these bytes, and no kernel runs; the context is
        // current.
        unsafe { result::memcpy_htod_sync(address, bytes) }.unwrap();
    }

    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        self.gpu.drain().unwrap();
        // SAFETY: all addresses come from `alloc`, with space for these bytes, and no kernel runs.
        unsafe { self.gpu.download(address, &mut found) }.unwrap();
        found
    }

    fn launch(&mut self, launch: &Launch) {
        // SAFETY: the tests check that kernels stay within their memory.
        unsafe { self.gpu.launch(launch, &self.stream) }.unwrap();
    }

    fn free(&mut self) {
        self.gpu.drain().unwrap();
        self.blocks.clear();
    }
}
