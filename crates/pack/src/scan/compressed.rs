//! Compressed text that is cut by places in it: how much is inside, and where it can be entered.

use super::folder_walk::FolderWalk;
use crate::OnError;
use crate::cancellable_input::CancellableInput;
use packhorse_core::{Context, Event, Input, Kind, Result};
use packhorse_storage::{Compression, Frames, Inside, decompressed};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A smaller file is a stream: cutting it is worth no second look.
const LEAST: u64 = 1 << 20;

/// So many times larger than its file text is at most, as a rule.
const RATIO: u64 = 16;

/// Frames up to this size are entered in any order for little more than it costs to read them in theirs.
const SHORT: u64 = 4 << 20;

impl FolderWalk<'_> {
    /// Where the compressed text at `path`, of `size` bytes that hold `about` so many, can be entered; `None` where it
    /// is not cut, and so is one item.
    ///
    /// What headers don't say is found by decompressing the file once: only where ranges are read in their order, which
    /// costs no more than the file then, and where it may be more than one shard holds.
    pub(super) fn frames(
        &self,
        path: &Path,
        compression: Compression,
        size: u64,
        about: u64,
    ) -> Result<Option<Frames>> {
        if size < LEAST && !self.count {
            return Ok(None);
        }
        let file = CancellableInput::new(self.context.store.open(path)?, self.context.cancel);
        let frames = Frames::of(&file, compression)?;
        if !self.in_order {
            let short = frames.filter(|frames| frames.longest() <= SHORT && !self.count);
            if short.is_none() && about > self.fits && !self.said.swap(true, Ordering::Relaxed) {
                self.say_uncut(path, about);
            }
            return Ok(short);
        }
        let most = || Ok(Frames::most(&file, compression)?.unwrap_or(size.saturating_mul(RATIO)));
        if frames.is_some() || (!self.count && most()? <= self.fits) {
            return Ok(frames);
        }
        // One for each core, and no more: decoders take memory.
        match rayon::scope(|_| inside(Box::new(file), compression)) {
            Ok(len) => Ok(Some(Frames::whole(len))),
            // What comes before the damage can be packed.
            Err(e) if e.kind() == Kind::Content && self.on_error == OnError::Skip && !self.count => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The bytes inside of the file at `path`, readable at any place.
    pub(super) fn entered(&self, path: &Path, compression: Compression, frames: &Frames) -> Result<Box<dyn Input>> {
        let file = CancellableInput::new(self.context.store.open(path)?, self.context.cancel);
        Ok(Box::new(Inside::new(Box::new(file), compression, frames.inside(), frames.at(0))))
    }

    fn say_uncut(&self, path: &Path, about: u64) {
        let text = format!(
            "{} is compressed as a whole and so can't be cut where the order is shuffled: its text, about {:.1} GB, stays \
             in one shard; decompress it, or leave `shuffle` out (files like it are not named)",
            path.display(),
            about as f64 / 1e9
        );
        self.context.observer.event(&Event::Warning(&text));
    }
}

/// How many bytes are inside of `file`.
fn inside(file: Box<dyn Input>, compression: Compression) -> Result<u64> {
    let input = decompressed(file, compression);
    let mut stream = input.stream()?;
    let (mut buf, mut len) = (vec![0; 256 << 10], 0);
    loop {
        match stream.read(&mut buf).context("read") {
            Ok(0) => return Ok(len),
            Ok(n) => len += n as u64,
            Err(e) => return Err(e.in_input(input.name())),
        }
    }
}
