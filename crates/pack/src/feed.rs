//! Ordered read-ahead: many small reads in flight, blocks of rows out in the order of the plan.
//!
//! A shard's writer asks for blocks of consecutive samples some way ahead and takes them in order.
//! Readers, who wait for the file system, are threads apart from those who compute: on storage with
//! latency it is their number that counts, not the number of cores.

use crate::block_reader::BlockReader;
use crate::elastic_pool;
use crate::sample_block::SampleBlock;
use crossbeam_channel::{Receiver, Sender};
use packhorse_core::{Error, Result};
use packhorse_dataset::PlanEntry;

/// A block that was asked for: it comes through this channel.
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

/// The threads' end: work until all writers are gone.
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

    /// Asks for a block. The caller bounds how many it has asked for.
    pub(crate) fn ask(&self, entries: Vec<PlanEntry>) -> Result<PendingBlock> {
        let (reply, promise) = crossbeam_channel::bounded(1);
        self.requests.send(ReadJob { entries, reply }).map_err(|_| Error::bug("the readers are gone"))?;
        Ok(promise)
    }

    /// Has a block transformed. The caller bounds how many it has given away.
    pub(crate) fn transform(&self, block: SampleBlock) -> Result<PendingBlock> {
        let (reply, promise) = crossbeam_channel::bounded(1);
        self.unfinished.send(TransformJob { block, reply }).map_err(|_| Error::bug("those who transform are gone"))?;
        Ok(promise)
    }
}

impl FeedWorkers {
    /// Lets `readers` threads read, and `transformers` transform where there is anything to transform: one of
    /// each starts, and the others when there is work for them. They end when every [`Feed`] is dropped.
    pub(crate) fn start<'scope, 'env>(
        self,
        threads: &'scope std::thread::Scope<'scope, 'env>,
        reader: &'env BlockReader<'env>,
        readers: usize,
        transformers: usize,
    ) {
        let (raw, unfinished) = self.unfinished;
        elastic_pool::work(threads, self.requests, readers, move |request| reader.serve(request, &raw));
        if !reader.transforms.is_empty() {
            elastic_pool::work(threads, unfinished, transformers, |raw| reader.finish(raw));
        }
    }
}

impl BlockReader<'_> {
    fn serve(&self, request: ReadJob, transformers: &Sender<TransformJob>) {
        let ReadJob { entries, reply } = request;
        match self.read(entries) {
            Ok(block) if !self.transforms.is_empty() => {
                let _ = transformers.send(TransformJob { block, reply });
            }
            // A writer that gave up does not wait for its blocks.
            done => drop(reply.send(done)),
        }
    }

    fn finish(&self, raw: TransformJob) {
        drop(raw.reply.send(self.transformed(raw.block)));
    }
}
