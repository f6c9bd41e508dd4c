//! Binds threads to CPUs.

use packhorse_core::{Error, Event, Observer, Result};

/// Binds the calling thread to this set of CPUs; does nothing if the list is empty.
#[cfg(target_os = "linux")]
pub(crate) fn bind(cores: &[usize]) -> Result<()> {
    use nix::sched::{CpuSet, sched_setaffinity};
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core).map_err(|_| Error::config(format!("there is no CPU {core}")))?;
    }
    sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).map_err(|error| {
        let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
        Error::config(format!("this process may not run on the CPUs {}: {error}", cores.join(", ")))
    })
}

/// Other systems can't bind threads: an error unless the list is empty.
#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(cores: &[usize]) -> Result<()> {
    match cores.is_empty() {
        true => Ok(()),
        false => Err(Error::unsupported("threads are bound to CPUs on Linux only")),
    }
}

/// The CPUs that this process may run on, as its launcher bound it; empty where the system does not tell.
pub fn allowed_cpus() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        use nix::sched::{CpuSet, sched_getaffinity};
        let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap_or_default();
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
    }
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// The number of CPUs of the machine.
pub(crate) fn online() -> usize {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    online.ok().flatten().and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
}

/// Warns if the process may run on one CPU only, often a mistake in the binding of its launcher, or has more threads
/// than CPUs.
pub(crate) fn look(threads: usize, cores: &[usize], observer: &dyn Observer) {
    let allowed = match cores.len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores,
    };
    if cores.is_empty() && allowed == 1 && online() > 1 {
        let message = format!(
            "this process may run on one of the machine's {} CPUs, and so may all its threads: ask the launcher for more (of srun: \
             cpus-per-task, cpu-bind=none)",
            online()
        );
        observer.event(&Event::Warning(&message));
    } else if threads > allowed {
        let message = format!(
            "{threads} threads are to fill batches and this process may run on {allowed} CPUs: ask the launcher for more (of srun: \
             cpus-per-task, cpu-bind=none), or for fewer threads"
        );
        observer.event(&Event::Warning(&message));
    }
}
