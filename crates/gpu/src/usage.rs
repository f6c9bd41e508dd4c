//! How busy a GPU is, as NVIDIA's management library says.

use crate::Cuda;
use nvml_wrapper::Nvml;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shares of time, 0 to 1, over a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// In which a kernel ran.
    pub compute: f64,
    /// In which memory was read or written.
    pub memory: f64,
}

/// Watches a GPU from its making on.
#[derive(Debug)]
pub struct Usage {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Used>>>,
}

/// The library samples a few times a second itself.
const EVERY: Duration = Duration::from_millis(100);

impl Usage {
    /// Watches this GPU; `None` where the management library or the GPU in it is not to be had.
    pub fn watch(gpu: &Cuda) -> Option<Self> {
        let nvml = Nvml::init().ok()?;
        let uuid = gpu.uuid()?;
        nvml.device_by_uuid(uuid.as_str()).ok()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("packhorse-usage".to_owned());
        let thread = thread.spawn(move || {
            let device = nvml.device_by_uuid(uuid.as_str()).ok()?;
            let (mut compute, mut memory, mut samples) = (0.0, 0.0, 0.0);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(EVERY);
                let rates = device.utilization_rates().ok()?;
                compute += f64::from(rates.gpu) / 100.0;
                memory += f64::from(rates.memory) / 100.0;
                samples += 1.0;
            }
            Some(Used { compute: compute / samples, memory: memory / samples }).filter(|used| used.compute.is_finite())
        });
        Some(Self { stop, thread: Some(thread.ok()?) })
    }

    /// The mean so far.
    pub fn end(mut self) -> Option<Used> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
