//! The most memory that this process had.

/// The largest resident set so far, in bytes, where the system says (proc_pid_status(5)).
pub(crate) fn peak_memory() -> Option<u64> {
    in_status(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn in_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_line_of_the_status() {
        assert_eq!(in_status("Name:\tx\nVmHWM:\t   1200 kB\nVmRSS:\t 3 kB\n"), Some(1_228_800));
        assert_eq!(in_status("Name:\tx\n"), None);
        assert!(peak_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
