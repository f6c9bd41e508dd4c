//! Fetches one range of a remote file: retries and resumes until the last byte has arrived or the budget is used up.

use super::budget::Budget;
use super::failure::Failure;
use super::object::RemoteObject;
use super::version::Version;
use bytes::Bytes;
use packhorse_core::Result;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{sleep, timeout_at};

/// A version of a file, and facts about its server.
pub(crate) struct OpenFile {
    pub(crate) object: RemoteObject,
    pub(crate) version: Version,
    pub(crate) name: String,
    /// Whether the server ever answered a range request with a range.
    ranges: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(object: RemoteObject, version: Version) -> Self {
        let name = object.name();
        Self { object, version, name, ranges: AtomicBool::new(false) }
    }

    /// Passes the bytes of `range` to `take`, in order.
    pub(crate) async fn fetch(&self, range: Range<u64>, mut take: impl FnMut(Bytes) + Send) -> Result<()> {
        let mut budget = Budget::new(&self.object.options, &self.object.wire.outage, self.name.clone());
        let mut left = range;
        loop {
            let before = left.start;
            let tried = timeout_at(budget.deadline(), self.attempt(&mut left, &mut take)).await;
            let failure = match tried {
                // Also if the connection broke after the last byte.
                Ok(Ok(()) | Err(Failure::Again { .. })) if left.is_empty() => return Ok(()),
                Ok(Ok(())) => Failure::again("the server gave less than was asked for"),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(budget.out_of_time("the server is too slow")),
            };
            let progress = left.start.saturating_sub(before);
            let wait = budget.after(failure, progress)?;
            sleep(wait).await;
        }
    }

    /// One request; removes the received bytes from `left`.
    async fn attempt(&self, left: &mut Range<u64>, take: &mut (impl FnMut(Bytes) + Send)) -> Result<(), Failure> {
        let mut answer = self.object.get(left.clone(), &self.version).await?;
        let whole = !self.ranges.load(Ordering::Relaxed);
        let body = answer.reply.body(left, &self.version, whole)?;
        if answer.reply.status == reqwest::StatusCode::PARTIAL_CONTENT {
            self.ranges.store(true, Ordering::Relaxed);
        }
        let mut taken = Taken { left, take, held: None };
        let mut at = body.start;
        let ended = loop {
            let chunk = match answer.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            };
            let end = at.saturating_add(chunk.len() as u64);
            if end > body.end {
                // Distrust the last chunk too, so that something is left to request again.
                return Err(Failure::again("the server sent more than it said"));
            }
            taken.hold(&chunk, at);
            at = end;
        };
        taken.release();
        match at == body.end {
            true => ended,
            false => ended.and(Err(Failure::again(format!("the answer ended at byte {at} of {}", body.end)))),
        }
    }
}

/// The bytes received of a range. The last chunk is held back until it is known what follows.
struct Taken<'a, F> {
    left: &'a mut Range<u64>,
    take: F,
    held: Option<Bytes>,
}

impl<F: FnMut(Bytes)> Taken<'_, F> {
    fn hold(&mut self, chunk: &Bytes, at: u64) {
        self.release();
        self.held = cut(chunk, at, self.left);
    }

    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.left.start += held.len() as u64;
            (self.take)(held);
        }
    }
}

/// The part of a chunk at `at` that starts `left`.
fn cut(chunk: &Bytes, at: u64, left: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(left.start.checked_sub(at)?).ok()?;
    let to = usize::try_from(left.end.checked_sub(at)?).ok()?.min(chunk.len());
    (from < to).then(|| chunk.slice(from..to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_cut_to_what_is_wanted() {
        let chunk = Bytes::from_static(b"0123456789");
        for (at, left, wanted) in [
            (100, 100..110, Some("0123456789")),
            (100, 100..200, Some("0123456789")),
            (100, 104..106, Some("45")),
            (100, 109..300, Some("9")),
            (100, 110..300, None),
            (100, 90..300, None),
            (100, 100..100, None),
        ] {
            assert_eq!(cut(&chunk, at, &left).as_deref(), wanted.map(str::as_bytes), "{left:?}");
        }
    }
}
