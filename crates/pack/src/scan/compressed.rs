//! Divides compressed text by positions: finds its decompressed length and its seek points.

use super::ScanOptions;
use super::folder_walk::FolderWalk;
use crate::cancellable_input::CancellableInput;
use crate::{OnError, Shuffle};
use packhorse_core::{Event, Input, Kind, Result};
use packhorse_storage::{Compression, Frames, Inside, decompressed_len};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Smaller files are read as a stream.
const LEAST: u64 = 1 << 20;

/// Compressed files from this size on are named if they are not shuffled.
const WARNED: u64 = 64 << 10;

/// The usual upper bound of a compression ratio of text.
const RATIO: u64 = 16;

/// Frames up to this size are cheap to read in any order.
const SHORT: u64 = 4 << 20;

impl FolderWalk<'_> {
    /// The seek points of the compressed text `path`, of `size` bytes and `about` bytes decompressed; `None` if it is
    /// not divided.
    ///
    /// If headers do not give the decompressed length, decompresses the file once: only if ranges will be read in
    /// order, and the text may be larger than a shard.
    pub(super) fn frames(
        &self,
        path: &Path,
        compression: Compression,
        size: u64,
        about: u64,
    ) -> Result<Option<Frames>> {
        let ScanOptions { recipe, count, fits, .. } = *self.options;
        if size < LEAST && !count {
            self.warn_of_order(path, size, about);
            return Ok(None);
        }
        let file = CancellableInput::new(self.context.store.open(path)?, self.context.cancel);
        let frames = Frames::of(&file, compression)?;
        // To go back in text without frames means to decompress again from the start.
        if recipe.shuffle != Shuffle::No {
            let short = frames.filter(|frames| frames.longest() <= SHORT && !count);
            if short.is_none() {
                self.warn_of_order(path, size, about);
            }
            return Ok(short);
        }
        let most = || Ok(Frames::most(&file, compression)?.unwrap_or(size.saturating_mul(RATIO)));
        if frames.is_some() || (!count && most()? <= fits) {
            return Ok(frames);
        }
        // On the compute pool, since decoders take memory.
        match rayon::scope(|_| decompressed_len(Box::new(file), compression)) {
            Ok(len) => Ok(Some(Frames::whole(len))),
            // Found again where it is read, which tells of it.
            Err(e) if e.kind() == Kind::Content && recipe.on_error == OnError::Skip && !count => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Decompresses the file `path` if bad inputs are left out: of one that is damaged, what comes before the damage may be altered.
    pub(super) fn check_stream(&self, path: &Path, compression: Option<Compression>) -> Result<()> {
        let skips = self.options.recipe.on_error == OnError::Skip;
        let Some(compression) = compression.filter(|_| skips) else { return Ok(()) };
        let file = CancellableInput::new(self.context.store.open(path)?, self.context.cancel);
        rayon::scope(|_| decompressed_len(Box::new(file), compression)).map(drop)
    }

    /// The decompressed bytes of the file `path`, with random access.
    pub(super) fn entered(&self, path: &Path, compression: Compression, frames: &Frames) -> Result<Box<dyn Input>> {
        let file = CancellableInput::new(self.context.store.open(path)?, self.context.cancel);
        Ok(Box::new(Inside::new(Box::new(file), compression, frames.inside(), frames.at(0))))
    }

    /// Warns once if the documents of a file keep their order where it is to be shuffled. Of small files the order of the files counts.
    fn warn_of_order(&self, path: &Path, size: u64, about: u64) {
        let is_shuffled = self.options.recipe.shuffle != Shuffle::No;
        if !is_shuffled || size < WARNED || self.said.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!(
            "{} is compressed as a whole and so can't be cut: its text, about {:.1} MB, is not shuffled and stays in one \
             shard; decompress it first (only the first such file is named)",
            path.display(),
            about as f64 / 1e6
        );
        self.context.observer.event(&Event::Warning(&text));
    }
}
