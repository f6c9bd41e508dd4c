//! Simulated GPUs that compute.

use crate::common::Runner;
use crate::common::host::Host;
use packhorse_gpu::Simulated;
use std::sync::Mutex;
use std::time::Duration;

/// A simulated GPU that runs the kernels, compiled for the host. Each of its steps takes up to `jitter`. `None` without a C++
/// compiler.
pub(crate) fn simulated(seed: u64, jitter: Duration) -> Option<Simulated> {
    let kernels = Mutex::new(Host::new()?);
    Some(Simulated::with_jitter(seed, jitter).with_kernels(move |launch| {
        kernels.lock().unwrap().launch(launch);
        Ok(())
    }))
}
