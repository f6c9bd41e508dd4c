//! BlendCorpus' order: files joined to corpora, corpora blended in the order of their names.
//!
//! <https://github.com/zhenghh04/blendcorpus>, and Argonne's Megatron-DeepSpeed before it. Within a corpus the files
//! follow one another or are blended by their numbers of samples, and the result may be shuffled with the dataset's own
//! seed.

use crate::blend::check;
use crate::{Array, BlendIndex, RandomState, array::room, normalized, shuffle};
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;

/// A line of a BlendCorpus file list.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusFile {
    /// The name of the corpus the file belongs to.
    pub corpus: String,
    /// Its weight among all files.
    pub weight: f64,
}

/// How the samples of a corpus are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorpusOptions {
    /// `blend_sample_in_corpus`: blend the files by size; otherwise concatenate them.
    pub blend: bool,
    /// `shuffle_sample_in_corpus`: shuffle the result with this seed, the same as that of the files.
    pub shuffle: Option<u32>,
}

/// The samples of one corpus.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The name.
    pub name: String,
    /// Its files, as indices into the list.
    pub files: Vec<usize>,
    /// For each sample the position *within* `files`, and the sample of that file.
    pub index: BlendIndex,
    /// The permutation of those samples.
    pub shuffle: Option<Array>,
}

/// The whole order.
#[derive(Clone, Debug)]
pub struct CorpusBlend {
    /// Samples to request of each file: `ceil(size·w·1.005)`.
    pub requests: Vec<u64>,
    /// The corpora by name.
    pub corpora: Vec<Corpus>,
    /// The blend over them.
    pub index: BlendIndex,
}

impl CorpusBlend {
    /// The order over `files` for at least `size` samples; its length is the sum of the requests.
    ///
    /// Errors: no file, a weight that is not finite and above zero, not enough memory for the samples.
    pub fn build(files: &[CorpusFile], size: u64, options: CorpusOptions) -> Result<Self> {
        let weights: Vec<f64> = files.iter().map(|file| file.weight).collect();
        check(&weights)?;
        // BlendCorpus sums these sequentially, not pairwise.
        let sum = weights.iter().fold(0.0, |sum, weight| sum + weight);
        let requests: Vec<u64> =
            weights.iter().map(|weight| (size as f64 * (weight / sum) * 1.005).ceil() as u64).collect();
        let total = total(&requests)?;
        let mut names: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, file) in files.iter().enumerate() {
            names.entry(&file.corpus).or_default().push(at);
        }
        let corpora = names.into_iter().map(|(name, files)| Corpus::build(name, files, &requests, options));
        let corpora = corpora.collect::<Result<Vec<_>>>()?;
        let shares: Vec<f64> = corpora.iter().map(|corpus| corpus.index.sample.len() as f64 / total as f64).collect();
        let index = BlendIndex::wide(&normalized(&shares), total)?;
        Ok(Self { requests, corpora, index })
    }
}

impl Corpus {
    fn build(name: &str, files: Vec<usize>, requests: &[u64], options: CorpusOptions) -> Result<Self> {
        let sizes: Vec<u64> = files.iter().filter_map(|&file| requests.get(file).copied()).collect();
        let total = total(&sizes)?;
        let index = if options.blend {
            let weights: Vec<f64> = sizes.iter().map(|&size| size as f64 / total as f64).collect();
            BlendIndex::wide(&weights, total)?
        } else {
            joined(&sizes, total)?
        };
        let shuffle = options.shuffle.map(|seed| {
            let mut order: Vec<i64> = room(total, "shuffle of a corpus")?;
            order.extend(0..total as i64);
            shuffle(&mut order, &mut RandomState::new(seed));
            Ok(Array::I64(order))
        });
        Ok(Self { name: name.to_owned(), files, index, shuffle: shuffle.transpose()? })
    }
}

fn total(sizes: &[u64]) -> Result<u64> {
    let total = sizes.iter().try_fold(0u64, |sum, &size| sum.checked_add(size)).filter(|sum| sum >> 52 == 0);
    total.ok_or_else(|| Error::config("2^52 samples and more can't be blended"))
}

fn joined(sizes: &[u64], total: u64) -> Result<BlendIndex> {
    let (mut dataset, mut sample) = (room(total, "order of a corpus")?, room(total, "order of a corpus")?);
    for (file, &size) in sizes.iter().enumerate() {
        dataset.extend(std::iter::repeat_n(file as i64, size as usize));
        sample.extend(0..size as i64);
    }
    Ok(BlendIndex { dataset: Array::I64(dataset), sample: Array::I64(sample) })
}
