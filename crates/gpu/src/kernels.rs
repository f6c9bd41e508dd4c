//! Kernels that finish batches on the GPU.
