//! A range as requests of bounded size, some of them under way before they are wanted.
//!
//! A piece is received as fast as it comes and waits in memory, so no connection is ever held at the pace of who
//! reads: `RemoteOptions::ahead` pieces are all that is kept.

use super::fetch::Opened;
use super::link::Link;
use bytes::Bytes;
use packhorse_core::{Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use tokio::task::AbortHandle;

/// Reads a range from its beginning to its end.
pub(crate) struct Pieces {
    link: Arc<Link>,
    opened: Arc<Opened>,
    /// What is not asked for yet.
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
    pub(crate) fn new(link: Arc<Link>, opened: Arc<Opened>, range: Range<u64>) -> Self {
        Self { link, opened, rest: range, ahead: VecDeque::new(), failed: false }
    }

    /// The next bytes, some at least; `None` at the end. After an error there is nothing but errors.
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
            // The task looks at the end of the body before it says that all is well.
            while let Ok(after) = piece.chunks.recv() {
                after?;
            }
            self.ahead.pop_front();
            self.ask();
        }
        Ok(Some(chunk))
    }

    /// Starts as many pieces as may be under way.
    fn ask(&mut self) {
        let options = &self.link.options;
        while self.ahead.len() < options.ahead.max(1) && !self.rest.is_empty() {
            let end = self.rest.start.saturating_add(options.piece.max(1) as u64).min(self.rest.end);
            let range = self.rest.start..end;
            self.rest.start = end;
            let (sender, chunks) = mpsc::channel();
            let (opened, left) = (self.opened.clone(), range.end - range.start);
            let task = self.link.handle().spawn(async move {
                // Who asked may be gone; then this task is too, a moment later.
                let done = opened.fetch(range, |chunk| drop(sender.send(Ok(chunk)))).await;
                if let Err(error) = done {
                    let _ = sender.send(Err(error));
                }
            });
            self.ahead.push_back(Piece { chunks, left, task: task.abort_handle() });
        }
    }
}
