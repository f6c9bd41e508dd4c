//! The utilisation of a GPU, as reported by NVIDIA's management library (NVML).

use crate::Cuda;
use nvml_wrapper::Nvml;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Mean utilisation, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// The share of time in which a kernel ran.
    pub compute: f64,
    /// The share of time in which memory was read or written.
    pub memory: f64,
}

/// Samples the utilisation of a GPU from its creation on.
#[derive(Debug)]
pub struct Usage {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Used>>>,
}

/// The library itself samples only a few times per second.
const EVERY: Duration = Duration::from_millis(100);

impl Usage {
    /// Starts watching this GPU; `None` if the library or its handle of the GPU is not available.
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

    /// Stops, and returns the mean.
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
