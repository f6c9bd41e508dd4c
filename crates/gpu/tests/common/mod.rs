//! Shared by checks of kernels: memory with canaries, and the runners of launches.
//!
//! The checks themselves (`image.rs`, …) are functions of a [`Runner`], implemented by `host.rs` for the host and by
//! `device.rs` for a GPU.

pub(crate) mod augment;
pub(crate) mod checksum;
pub(crate) mod compiled;
pub(crate) mod device;
pub(crate) mod edge;
pub(crate) mod exercise;
pub(crate) mod host;
pub(crate) mod image;
pub(crate) mod ragged;
pub(crate) mod random;
pub(crate) mod resize;
pub(crate) mod synthetic;
pub(crate) mod tokens;
pub(crate) mod views;

use packhorse_gpu::kernels::Launch;
pub(crate) use random::Random;

/// Memory, and kernels that use it.
pub(crate) trait Runner {
    /// Reserves memory, aligned to 256.
    fn alloc(&mut self, bytes: usize) -> u64;
    /// Reserves memory aligned to eight, such that reads past its end fault; `None` if not supported.
    fn edge(&mut self, _bytes: usize) -> Option<u64> {
        None
    }
    /// Copies to the device.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// Copies from the device, after all launches so far have finished.
    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8>;
    /// Launches a kernel.
    fn launch(&mut self, launch: &Launch);
    /// Frees all reserved memory.
    fn free(&mut self);
}

/// Bytes of canaries before and after each block.
const GUARD: usize = 256;
const CANARY: u8 = 0xc5;
/// The content of memory that was not written.
pub(crate) const BLANK: u8 = 0xa7;

/// Blocks of device memory with checks.
pub(crate) struct Bench<'r> {
    runner: &'r mut dyn Runner,
    blocks: Vec<Block>,
}

struct Block {
    address: u64,
    bytes: usize,
    /// The content that kernels must not change.
    input: Option<Vec<u8>>,
    /// Whether it is surrounded by canaries.
    guarded: bool,
}

impl<'r> Bench<'r> {
    pub(crate) fn new(runner: &'r mut dyn Runner) -> Self {
        Self { runner, blocks: Vec::new() }
    }

    /// Memory that kernels may write.
    pub(crate) fn reserve(&mut self, bytes: usize) -> u64 {
        self.block(bytes, 0, None)
    }

    /// Memory that kernels may read, with a fault past its end if supported.
    pub(crate) fn upload(&mut self, bytes: &[u8]) -> u64 {
        let Some(address) = self.runner.edge(bytes.len()) else { return self.block(bytes.len(), 0, Some(bytes)) };
        self.runner.write(address, bytes);
        self.blocks.push(Block { address, bytes: bytes.len(), input: Some(bytes.to_vec()), guarded: false });
        address
    }

    /// The same at `skew` bytes past a multiple of 256, with canaries.
    pub(crate) fn upload_at(&mut self, skew: usize, bytes: &[u8]) -> u64 {
        if skew == 0 { self.upload(bytes) } else { self.block(bytes.len(), skew, Some(bytes)) }
    }

    /// The same for numbers.
    pub(crate) fn numbers<const N: usize, T: Copy>(&mut self, numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> u64 {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| bytes(*number)).collect();
        self.upload(&bytes)
    }

    /// Memory that kernels may write, at `skew` bytes past a multiple of 256.
    pub(crate) fn reserve_at(&mut self, skew: usize, bytes: usize) -> u64 {
        self.block(bytes, skew, None)
    }

    fn block(&mut self, bytes: usize, skew: usize, input: Option<&[u8]>) -> u64 {
        let mut filled = vec![CANARY; 2 * GUARD + skew + bytes];
        let inner = &mut filled[GUARD + skew..GUARD + skew + bytes];
        match input {
            Some(input) => inner.copy_from_slice(input),
            None => inner.fill(BLANK),
        }
        let start = self.runner.alloc(filled.len());
        self.runner.write(start, &filled);
        let address = start + (GUARD + skew) as u64;
        self.blocks.push(Block { address, bytes, input: input.map(<[u8]>::to_vec), guarded: true });
        address
    }

    pub(crate) fn run<'l>(&mut self, launches: impl IntoIterator<Item = &'l Launch>) {
        for launch in launches {
            assert_eq!(parameter(launch), Some(launch.args.bytes().len()), "the parameter of {}", launch.entry);
            let mut launch = launch.clone();
            // Sometimes one block does all the work.
            if launch.args.bytes().iter().fold(0, |sum, byte| sum + u32::from(*byte)).is_multiple_of(3) {
                launch.grid = [1; 3];
            }
            self.runner.launch(&launch);
        }
    }

    /// The whole block at `address`.
    pub(crate) fn download(&mut self, address: u64) -> Vec<u8> {
        let block = self.blocks.iter().find(|block| block.address == address).unwrap();
        self.runner.read(address, block.bytes)
    }

    /// Asserts that canaries and inputs are unchanged.
    pub(crate) fn finish(mut self) {
        for block in std::mem::take(&mut self.blocks) {
            let guards = [(block.address - GUARD as u64, "before"), (block.address + block.bytes as u64, "after")];
            for (guard, place) in guards.into_iter().filter(|_| block.guarded) {
                let guard = self.runner.read(guard, GUARD);
                assert!(guard.iter().all(|byte| *byte == CANARY), "written {place} a block of {}", block.bytes);
            }
            if let Some(input) = block.input {
                assert!(self.runner.read(block.address, block.bytes) == input, "an input was changed");
            }
        }
        self.runner.free();
    }
}

/// The size of a kernel's one parameter according to the PTX.
fn parameter(launch: &Launch) -> Option<usize> {
    let text = format!(".param .align 8 .b8 {}_param_0[", launch.entry);
    let (_, size) = launch.module.ptx().split_once(&text)?;
    size.split_once(']')?.0.parse().ok()
}

/// Decodes numbers from bytes.
pub(crate) fn numbers<const N: usize, T>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|bytes| number(*bytes)).collect()
}
