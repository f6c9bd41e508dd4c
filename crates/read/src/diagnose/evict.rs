//! Drops files from the page cache.

use crate::Reader;

/// Asks the system to drop the shards that are files of this machine from the page cache. It keeps pages that are
/// mapped or not written yet; what it can't open it keeps too.
#[cfg(target_os = "linux")]
pub(super) fn evict(reader: &Reader) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    use std::fs::File;
    for number in 0..reader.dataset().shards().len() as u32 {
        let Ok(input) = reader.input(number) else { continue };
        if let Some(file) = input.local_path().and_then(|path| File::open(path).ok()) {
            // Advice: a system that does not follow it measures warm files, which the result shows.
            let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
    }
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn evict(_: &Reader) {}
