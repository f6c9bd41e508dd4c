//! Megatron's cache files: their names, descriptions and contents.
//!
//! Megatron looks for `{md5}-{class}-{split}-{what}` in its `--data-cache-path`, or, without one, below
//! `{prefix}/cache/GPTDataset_indices`. The MD5 is that of the description, which is written beside the indices and is
//! all that Megatron compares. It does not notice changes of what the description leaves out (the extra token, whether
//! a last sample is kept, the lengths themselves): a cache is valid for one state of the data.

use crate::json::Json;
use crate::{Array, BlendIndex, GptIndex, Split, Splits};
use md5::{Digest, Md5};
use packhorse_core::{Context, Result};
use std::io::Write;

/// The description that names the cache of a GPT dataset. Each value must equal Megatron's to the letter.
#[derive(Clone, Debug, PartialEq)]
pub struct GptDescription {
    /// The prefix of `.bin` and `.idx`, as given to Megatron.
    pub dataset_path: String,
    /// The requested number of samples.
    pub samples: Option<u64>,
    /// The split.
    pub split: Split,
    /// The seed.
    pub seed: u32,
    /// Tokens per sample.
    pub sequence_length: u32,
    /// `None` if each split has datasets of its own (`--train-data-path` and the like).
    pub splits: Option<Splits>,
    /// The tokenizer's `unique_identifiers`.
    pub tokenizer: Json,
}

/// The description that names the cache of a blend.
#[derive(Clone, Debug, PartialEq)]
pub struct BlendDescription {
    /// The datasets in their order.
    pub datasets: Vec<GptDescription>,
    /// The split, the same as that of the datasets.
    pub split: Split,
    /// The weights, normalised twice; the sizes of an exhaustive blend.
    pub weights: BlendWeights,
}

/// The weights in the description of a blend.
#[derive(Clone, Debug, PartialEq)]
pub enum BlendWeights {
    /// Weights and the blend's size.
    Weighted(Vec<f64>, u64),
    /// The sizes of an exhaustive blend.
    Exhaustive(Vec<u64>),
}

/// A file of a cache.
#[derive(Debug)]
pub struct CacheFile<'a> {
    /// Its name.
    pub name: String,
    content: Content<'a>,
}

#[derive(Debug)]
enum Content<'a> {
    Text(String),
    Npy(&'a Array, usize),
}

impl CacheFile<'_> {
    /// Writes its content.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        match &self.content {
            Content::Text(text) => out.write_all(text.as_bytes()).context("write the description of a cache"),
            Content::Npy(array, columns) => array.write_npy(*columns, out),
        }
    }
}

impl GptDescription {
    /// The text of the description.
    pub fn text(&self) -> String {
        self.json().dumps()
    }

    /// The files of `index`, the description first: publish that one last.
    pub fn files<'a>(&self, index: &'a GptIndex) -> Vec<CacheFile<'a>> {
        let arrays = [
            ("document_index", &index.document, 1),
            ("sample_index", &index.sample, 2),
            ("shuffle_index", &index.shuffle, 1),
        ];
        files(self.text(), "GPTDataset", self.split, &arrays)
    }

    fn json(&self) -> Json {
        let splits = self.splits.as_ref();
        let text = |text: &str| Json::Text(text.to_owned());
        let pairs = [
            ("class", text("GPTDataset")),
            ("dataset_path", text(&self.dataset_path)),
            ("num_samples", self.samples.map_or(Json::Null, |samples| Json::Int(samples as i64))),
            ("index_split", text(self.split.name())),
            ("random_seed", Json::Int(self.seed.into())),
            ("sequence_length", Json::Int(self.sequence_length.into())),
            ("split", splits.map_or(Json::Null, |splits| text(splits.text()))),
            ("split_matrix", splits.map_or(Json::Null, matrix)),
            ("tokenizer", self.tokenizer.clone()),
        ];
        object(pairs)
    }
}

impl BlendDescription {
    /// The text of the description.
    pub fn text(&self) -> String {
        let (weights, size) = match &self.weights {
            BlendWeights::Weighted(weights, size) => {
                (weights.iter().map(|&weight| Json::Float(weight)).collect(), Json::Int(*size as i64))
            }
            BlendWeights::Exhaustive(sizes) => (sizes.iter().map(|&size| Json::Int(size as i64)).collect(), Json::Null),
        };
        let pairs = [
            ("class", Json::Text("BlendedDataset".to_owned())),
            ("datasets", Json::List(self.datasets.iter().map(GptDescription::json).collect())),
            ("split", Json::Text(self.split.name().to_owned())),
            ("weights", Json::List(weights)),
            ("size", size),
        ];
        object(pairs).dumps()
    }

    /// The files of `index`, the description first.
    pub fn files<'a>(&self, index: &'a BlendIndex) -> Vec<CacheFile<'a>> {
        let arrays = [("dataset_index", &index.dataset, 1), ("dataset_sample_index", &index.sample, 1)];
        files(self.text(), "BlendedDataset", self.split, &arrays)
    }
}

fn object<const N: usize>(pairs: [(&str, Json); N]) -> Json {
    Json::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The first bound is Python's integer 0, which JSON writes as `0`, not `0.0`.
fn matrix(splits: &Splits) -> Json {
    let part = |(at, range): (usize, Option<(f64, f64)>)| match range {
        Some((begin, end)) => {
            Json::List(vec![if at == 0 { Json::Int(0) } else { Json::Float(begin) }, Json::Float(end)])
        }
        None => Json::Null,
    };
    Json::List(splits.matrix().into_iter().enumerate().map(part).collect())
}

fn files<'a>(text: String, class: &str, split: Split, arrays: &[(&str, &'a Array, usize)]) -> Vec<CacheFile<'a>> {
    let md5: String = Md5::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = |what: &str| format!("{md5}-{class}-{}-{what}", split.name());
    let mut files = vec![CacheFile { name: name("description.txt"), content: Content::Text(text) }];
    files.extend(arrays.iter().map(|&(what, array, columns)| CacheFile {
        name: name(&format!("{what}.npy")),
        content: Content::Npy(array, columns),
    }));
    files
}
