//! A range as requests of bounded size, some of them sent ahead.
//!
//! Pieces are received at full speed into memory, so that a slow reader never holds a connection open. At most
//! `RemoteOptions::ahead` pieces are kept.

use super::fetch::OpenFile;
use super::link::Link;
use bytes::Bytes;
use packhorse_core::{Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use tokio::task::AbortHandle;

/// Reads a range sequentially.
pub(crate) struct Pieces {
    link: Arc<Link>,
    opened: Arc<OpenFile>,
    /// The part not requested yet.
    rest: Range<u64>,
    ahead: VecDeque<Piece>,
    failed: bool,
}

struct Piece {
    chunks: mpsc::Receiver<Result<Bytes>>,
    left: u64,
    task: AbortHandle,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pieces {
    pub(crate) fn new(link: Arc<Link>, opened: Arc<OpenFile>, range: Range<u64>) -> Self {
        Self { link, opened, rest: range, ahead: VecDeque::new(), failed: false }
    }

    /// The next bytes, at least one; `None` at the end. After an error every call fails.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>> {
        if self.failed {
            return Err(Error::bug("a read after one that failed").in_input(&self.opened.name));
        }
        let next = self.received();
        self.failed = next.is_err();
        if self.failed {
            self.ahead.clear();
        }
        next
    }

    fn received(&mut self) -> Result<Option<Bytes>> {
        self.ask();
        let Some(piece) = self.ahead.front_mut() else { return Ok(None) };
        let lost = |_| Err(Error::bug("a thread of the network ended").in_input(&self.opened.name));
        let chunk = piece.chunks.recv().unwrap_or_else(lost)?;
        piece.left = piece.left.saturating_sub(chunk.len() as u64);
        if piece.left == 0 {
            // The task verifies the end of the body before it finishes.
            while let Ok(after) = piece.chunks.recv() {
                after?;
            }
            self.ahead.pop_front();
            self.ask();
        }
        Ok(Some(chunk))
    }

    /// Sends requests up to the limit.
    pub(crate) fn ask(&mut self) {
        let options = &self.link.options;
        while self.ahead.len() < options.ahead.max(1) && !self.rest.is_empty() {
            let end = self.rest.start.saturating_add(options.piece.max(1) as u64).min(self.rest.end);
            let range = self.rest.start..end;
            self.rest.start = end;
            let (sender, chunks) = mpsc::channel();
            let (opened, left) = (self.opened.clone(), range.end - range.start);
            let task = self.link.handle().spawn(async move {
                // The reader may be gone; it then aborts this task.
                let done = opened.fetch(range, |chunk| drop(sender.send(Ok(chunk)))).await;
                if let Err(error) = done {
                    let _ = sender.send(Err(error));
                }
            });
            self.ahead.push_back(Piece { chunks, left, task: task.abort_handle() });
        }
    }
}
