//! The CPUs near a GPU, as NVIDIA's management library (NVML) knows them.

use crate::Cuda;
use nvml_wrapper::Nvml;
use packhorse_read::allowed_cpus;

/// Words of a mask that NVML fills: 4,096 CPUs.
const WORDS: usize = 64;

impl Cuda {
    /// The CPUs on the GPU's NUMA node that this process may run on, for
    /// [`LoaderOptions::cores`](packhorse_read::LoaderOptions::cores): on a machine with several nodes, threads there write to
    /// memory that is near the GPU. `None` if the library or its handle of the GPU is not available, or if the process may run
    /// on none of them.
    #[cfg(target_os = "linux")]
    pub fn near_cpus(&self) -> Option<Vec<usize>> {
        let nvml = Nvml::init().ok()?;
        let device = nvml.device_by_uuid(self.uuid()?.as_str()).ok()?;
        near(&device.cpu_affinity(WORDS).ok()?, &allowed_cpus())
    }

    /// Other systems do not say.
    #[cfg(not(target_os = "linux"))]
    pub fn near_cpus(&self) -> Option<Vec<usize>> {
        None
    }
}

/// Those of the CPUs `allowed` that are in a mask; `None` if none is.
fn near(mask: &[u64], allowed: &[usize]) -> Option<Vec<usize>> {
    let is_near = |cpu: &usize| mask.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1);
    let found: Vec<usize> = allowed.iter().copied().filter(is_near).collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_the_node_that_the_process_may_use() {
        let mask = [0xff00_0000_0000_00f0, 0b101];
        assert_eq!(near(&mask, &[0, 3, 4, 7, 8, 56, 64, 65, 66, 200]), Some(vec![4, 7, 56, 64, 66]));
        assert_eq!(near(&mask, &[0, 1]), None);
        assert!(!allowed_cpus().is_empty());
    }
}
