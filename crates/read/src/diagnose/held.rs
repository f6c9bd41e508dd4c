//! A set of batches in memory that represents the sizes of all.

use crate::batch_metadata::BatchMetadata;
use crate::sample_work::{SampleWork, WorkerState};
use crate::work::Work as _;
use crate::{Dataset, SampleBlock};
use packhorse_core::{Error, Result, counted};

/// Batches to hold, if they are small enough.
const MOST: u64 = 8;
/// Bytes of slabs, and of samples as they are stored, that may be held; one batch always is.
const ROOM: usize = 256 << 20;

/// Batches from all over the first epoch, as stored and as decoded.
pub(super) struct HeldBatches {
    /// Their steps.
    pub(super) steps: Vec<u64>,
    pub(super) blocks: Vec<SampleBlock>,
    pub(super) slabs: Vec<(Vec<u8>, BatchMetadata)>,
    /// The mean stored size of the held samples in that of all samples; 1 for rows.
    pub(super) representative: f64,
}

impl HeldBatches {
    /// Reads and decodes them.
    ///
    /// Errors: fewer samples than a batch (kind `Config`); those of reading and decoding.
    pub(super) fn new(work: &SampleWork, dataset: &Dataset) -> Result<Self> {
        let steps = work.steps.in_first;
        if steps == 0 {
            let message = format!("the dataset has {}, fewer than a batch", counted(dataset.len(), "sample"));
            return Err(Error::config(message).hint("make `batch` smaller"));
        }
        let wanted = steps.min(MOST);
        let mut held = Self { steps: Vec::new(), blocks: Vec::new(), slabs: Vec::new(), representative: 1.0 };
        let (mut kept, mut stored, mut held_bytes, mut samples) = (WorkerState::default(), 0, 0, 0u64);
        // From the middle of each of as many equal parts of the epoch.
        for step in (0..wanted).map(|number| (2 * number + 1) * steps / (2 * wanted)) {
            let Some(block) = work.fetch(step, &mut kept)? else { break };
            let slab = decode(work, step, &block, &mut kept)?;
            held_bytes += block.weight().max(slab.0.len());
            if !held.steps.is_empty() && held_bytes > ROOM {
                break;
            }
            stored += weight(&block);
            samples += block.len() as u64;
            held.steps.push(step);
            held.blocks.push(block);
            held.slabs.push(slab);
        }
        let mean = stored as f64 / samples.max(1) as f64;
        let all = dataset.mean() as f64;
        // Rows are not as large as they are stored.
        let has_rows = held.blocks.iter().any(|block| block.row_bytes() > 0);
        held.representative = if mean > 0.0 && all > 0.0 && !has_rows { mean / all } else { 1.0 };
        Ok(held)
    }

    /// The number of the held batch that takes the place of step `step`.
    pub(super) fn at(&self, step: u64) -> usize {
        (step % self.steps.len().max(1) as u64) as usize
    }
}

/// The bytes of the fields of a block.
pub(super) fn weight(block: &SampleBlock) -> usize {
    let bytes: usize = block.spans.iter().flatten().map(|span| span.len).sum();
    bytes + block.row_bytes() as usize
}

fn decode(
    work: &SampleWork,
    step: u64,
    block: &SampleBlock,
    kept: &mut WorkerState,
) -> Result<(Vec<u8>, BatchMetadata)> {
    let (mut slab, mut filled) = (vec![0; work.collate.layout.bytes()], BatchMetadata::default());
    while let Some(bytes) = work.isolation.run(|| work.collate(step, block, &mut slab, &mut filled, kept))? {
        slab.resize(bytes, 0);
    }
    slab.truncate(filled.used().max(1));
    Ok((slab, filled))
}
