//! The threads that read and transform blocks for the writers of shards.
//!
//! A writer requests blocks of consecutive samples ahead and receives them in order. Reading threads wait for the file
//! system and are separate from those that compute: on storage with latency their number decides the speed, not the
//! number of cores.

use crate::block_reader::BlockReader;
use crate::elastic_pool;
use crate::sample_block::SampleBlock;
use crate::spans;
use crossbeam_channel::{Receiver, Sender};
use packhorse_core::{Error, Result};
use packhorse_dataset::PlanEntry;

/// Receives a requested block.
pub(crate) type PendingBlock = Receiver<Result<SampleBlock>>;

struct ReadJob {
    entries: Vec<PlanEntry>,
    reply: Sender<Result<SampleBlock>>,
}

/// The writers' end of the feed.
#[derive(Clone)]
pub(crate) struct Feed {
    requests: Sender<ReadJob>,
    unfinished: Sender<TransformJob>,
}

/// The threads' end of the feed: they run until all writers are gone.
pub(crate) struct FeedWorkers {
    requests: Receiver<ReadJob>,
    unfinished: (Sender<TransformJob>, Receiver<TransformJob>),
}

struct TransformJob {
    block: SampleBlock,
    reply: Sender<Result<SampleBlock>>,
}

impl Feed {
    pub(crate) fn new() -> (Self, FeedWorkers) {
        let (requests, receiver) = crossbeam_channel::unbounded();
        let unfinished = crossbeam_channel::unbounded();
        let raw = unfinished.0.clone();
        (Self { requests, unfinished: raw }, FeedWorkers { requests: receiver, unfinished })
    }

    /// Requests a block. The caller bounds its number of requests.
    pub(crate) fn request(&self, entries: Vec<PlanEntry>) -> Result<PendingBlock> {
        let (reply, promise) = crossbeam_channel::bounded(1);
        spans::read_queue(self.requests.len() + 1);
        self.requests.send(ReadJob { entries, reply }).map_err(|_| Error::bug("the readers are gone"))?;
        Ok(promise)
    }

    /// Hands a block over to be transformed. The caller bounds its number of blocks.
    pub(crate) fn transform(&self, block: SampleBlock) -> Result<PendingBlock> {
        let (reply, promise) = crossbeam_channel::bounded(1);
        spans::transform_queue(self.unfinished.len() + 1);
        self.unfinished
            .send(TransformJob { block, reply })
            .map_err(|_| Error::bug("the transforming threads are gone"))?;
        Ok(promise)
    }
}

impl FeedWorkers {
    /// Starts at most `readers` threads that read, and `transformers` that transform if there are transforms. One of
    /// each starts at once, the others on demand. They end when every [`Feed`] is dropped.
    pub(crate) fn start<'scope, 'env>(
        self,
        threads: &'scope std::thread::Scope<'scope, 'env>,
        reader: &'env BlockReader<'env>,
        readers: usize,
        transformers: usize,
    ) {
        let (raw, unfinished) = self.unfinished;
        let (to_read, to_transform) = (self.requests.clone(), unfinished.clone());
        elastic_pool::run(threads, "packhorse-read", self.requests, readers, move |request| {
            spans::read_queue(to_read.len());
            reader.serve(request, &raw);
        });
        if !reader.transforms.is_empty() {
            elastic_pool::run(threads, "packhorse-transform", unfinished, transformers, move |raw| {
                spans::transform_queue(to_transform.len());
                reader.finish(raw);
            });
        }
    }
}

impl BlockReader<'_> {
    fn serve(&self, request: ReadJob, transformers: &Sender<TransformJob>) {
        let ReadJob { entries, reply } = request;
        match self.read(entries) {
            Ok(block) if !self.transforms.is_empty() => {
                spans::transform_queue(transformers.len() + 1);
                let _ = transformers.send(TransformJob { block, reply });
            }
            // The receiver is gone if its writer failed.
            done => drop(reply.send(done)),
        }
    }

    fn finish(&self, raw: TransformJob) {
        drop(raw.reply.send(self.transformed(raw.block)));
    }
}
