//! Inputs that notice writes to the file while it is open.

use packhorse_core::{Error, FileStat, Input, Kind, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// An open input with its state when it was opened. [`Input::stat`] is a `Changed` error once the file was written to,
/// even if its modification time was restored.
pub(crate) struct WatchedInput {
    input: Box<dyn Input>,
    opened: Option<FileStat>,
    read: AtomicU64,
}

impl WatchedInput {
    pub(crate) fn new(input: Box<dyn Input>) -> Result<Self> {
        let opened = input.stat()?;
        Ok(Self { input, opened, read: AtomicU64::new(0) })
    }

    /// How many bytes were read by position.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl Input for WatchedInput {
    packhorse_core::forward_input!(input: name len stream sibling pinned local_path);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.input.read_at(offset, buf)
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        if self.input.pinned() {
            return Ok(self.opened);
        }
        let now = self.input.stat()?;
        let state = |stat: FileStat| (stat.id, stat.size, stat.ctime);
        match now.map(state) == self.opened.map(state) {
            true => Ok(now),
            false => Err(Error::new(
                Kind::Changed,
                "was written to, or its owner or mode changed, while it was read; run again when nothing changes it",
            )
            .in_input(self.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_buffer::BlockBuffer;
    use crate::inputs::Inputs;
    use packhorse_core::{Cancel, Limits, Store};
    use packhorse_dataset::{FieldSource, PathText};
    use packhorse_storage::Local;
    use std::io::Write;
    use std::path::Path;

    /// Overwrites the start of a file and restores its modification time.
    fn overwrite(path: &Path) {
        let time = std::fs::metadata(path).unwrap().modified().unwrap();
        // File times have a granularity of some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all(b"54321").unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn a_member_of_an_archive_that_was_written_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, b"1234567890").unwrap();
        let stat = Local.stat(&path, true).unwrap();
        let (roots, cancel) = ([dir.path().to_owned()], Cancel::default());
        let inputs = Inputs::new(&Local, &roots, dir.path(), Limits::default(), &cancel);
        let piece = FieldSource {
            field: "txt".to_owned(),
            root: 0,
            path: PathText::new(b"a.tar"),
            size: stat.size,
            mtime: stat.mtime,
            extent: Some((0, 5)),
            items: None,
            by_position: false,
            samples: None,
            seek_point: None,
        };
        let read = || {
            let mut space = BlockBuffer::default();
            inputs.read(&piece, &mut space).map(|()| space.filled().to_vec())
        };
        assert_eq!(read().unwrap(), b"12345");
        overwrite(&path);
        assert_eq!(Local.stat(&path, true).map(|now| (now.size, now.mtime)).unwrap(), (stat.size, stat.mtime));
        assert_eq!(read().unwrap_err().kind(), Kind::Changed);
    }

    #[test]
    fn a_write_is_noticed_even_if_the_modification_time_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        std::fs::write(&path, b"12345").unwrap();
        let watched = WatchedInput::new(Local.open(&path).unwrap()).unwrap();
        let before = watched.stat().unwrap();
        overwrite(&path);
        let after = Local.stat(&path, true).unwrap();
        assert_eq!(before.map(|stat| (stat.size, stat.mtime)), Some((after.size, after.mtime)));
        assert_eq!(watched.stat().unwrap_err().kind(), Kind::Changed);
    }
}
