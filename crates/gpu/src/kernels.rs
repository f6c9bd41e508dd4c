//! Kernels that finish batches on the GPU.

/// A kernel with its arguments.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Where it is.
    pub module: Module,
    /// Its name.
    pub entry: &'static str,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
}

/// PTX.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// A name for it.
    pub name: &'static str,
    /// The text.
    pub ptx: &'static str,
}

impl Launch {
    /// No kernel has more arguments.
    pub const MOST: usize = 32;

    /// The bytes of each.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::empty()
    }
}
