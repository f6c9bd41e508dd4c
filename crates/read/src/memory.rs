//! The memory that this process can still have.

use std::path::Path;

/// Bytes of memory that this process can have: what the system can give, or what its control groups (cgroup v2) still allow, whichever is
/// less. Pages of files that can be dropped are free. 0 if unknown.
pub(crate) fn available() -> u64 {
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    system().min(allowed(Path::new("/sys/fs/cgroup"), group))
}

/// What the system can give without swapping.
fn system() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// What a control group and those that contain it still allow. Slurm limits the group of a job or of a step, and processes are in one below it.
fn allowed(root: &Path, group: &str) -> u64 {
    Path::new(group).ancestors().filter_map(|group| left(&root.join(group))).min().unwrap_or(u64::MAX)
}

/// What the limit of one group leaves; `None` if it has no limit.
fn left(group: &Path) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let (most, now) = (number("memory.max")?, number("memory.current")?);
    let stat = text("memory.stat").unwrap_or_default();
    let files = stat.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        matches!(name, "active_file" | "inactive_file").then(|| bytes.parse::<u64>().ok())?
    });
    Some(most.saturating_sub(now.saturating_sub(files.sum())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts_and_files_are_free() {
        let root = tempfile::tempdir().unwrap();
        let group = |name: &str, files: &[(&str, &str)]| {
            let folder = root.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in files {
                std::fs::write(folder.join(name), text).unwrap();
            }
        };
        assert_eq!(allowed(root.path(), "job/step/task"), u64::MAX);
        group("job", &[("memory.max", "1000\n"), ("memory.current", "700\n")]);
        let stat = "anon 100\nactive_file 200\ninactive_file 300\nshmem 7\n";
        group("job/step", &[("memory.max", "900\n"), ("memory.current", "650\n"), ("memory.stat", stat)]);
        group("job/step/task", &[("memory.max", "max\n"), ("memory.current", "650\n")]);
        assert_eq!(allowed(root.path(), "job/step/task"), 300);
        group("job", &[("memory.max", "5000\n")]);
        assert_eq!(allowed(root.path(), "job/step/task"), 750);
        assert_eq!(allowed(root.path(), ""), u64::MAX);
    }
}
