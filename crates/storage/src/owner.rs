//! Names of staging folders: they say which process owns a folder, and whether it may still run.

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::sync::atomic::{AtomicU64, Ordering};

/// `HOST,PID,START,NONCE`: identifies the owner of a staging folder and shows whether it may still run.
pub(crate) fn own_name() -> String {
    static NONCE: AtomicU64 = AtomicU64::new(0);
    let pid = std::process::id();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    format!("{},{pid},{},{now:x}-{nonce}", host(), start_time(pid).unwrap_or_default())
}

/// The name of this host; empty where it is not known.
pub fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// Host name and PID namespace: containers may share a host name but count processes separately.
pub(crate) fn host() -> String {
    let pids = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let pids: String = pids.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{pids}", host_name().replace(['/', ','], "_"))
}

/// When a process started, in clock ticks since boot (proc_pid_stat(5), field 22).
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether a process of this host that began at `start` may still run.
fn has_started(pid: u32, start: u64) -> bool {
    match start_time(pid) {
        Some(known) => known == start,
        // Processes of other users may be hidden in /proc (`hidepid`).
        None => {
            let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
            pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
        }
    }
}

/// Host name and process of a staging folder's name; `None` for other names.
pub(crate) fn owner_of(name: &str) -> Option<(&str, u32)> {
    let mut parts = name.split(',');
    let (host, pid) = (parts.next()?, parts.next()?.parse().ok()?);
    let host = host.rsplit_once('-').map_or(host, |(host, _)| host);
    (parts.count() == 2).then_some((host, pid))
}

/// The owner of a staging folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A running process of this host.
    Lives,
    /// A dead process of this host.
    Gone,
    /// A process of another host.
    Elsewhere,
    /// Not one of our names.
    Foreign,
}

pub(crate) fn owner(name: &str) -> Owner {
    let parts: Vec<&str> = name.split(',').collect();
    let &[owner, pid, start, nonce] = parts.as_slice() else { return Owner::Foreign };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse::<u64>()) else { return Owner::Foreign };
    if nonce.is_empty() || !nonce.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        return Owner::Foreign;
    }
    match owner == host() {
        false => Owner::Elsewhere,
        true if has_started(pid, start) => Owner::Lives,
        true => Owner::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_gone() {
        let own = own_name();
        assert!(matches!(owner(&own), Owner::Lives));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start = start_time(child.id()).unwrap_or(1);
        let name = format!("{},{},{start},1-0", host(), child.id());
        child.wait().unwrap();
        assert!(matches!(owner(&name), Owner::Gone));
        // The number of a process that lives, which began at another time.
        let other = format!("{},{},1,1-0", host(), std::process::id());
        assert!(matches!(owner(&other), Owner::Gone));
        assert!(matches!(owner(&format!("{},0,1,1-0", host())), Owner::Gone));
        assert!(matches!(owner("elsewhere-1,1,1,1-0"), Owner::Elsewhere));
    }
}
