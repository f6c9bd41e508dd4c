//! Batches to GPUs: one copy a batch, hidden behind compute.

pub mod kernels;
