//! Tokens: tokenized text as flat arrays of token ids, with an index of documents beside them.
//!
//! * **Specification**: Megatron-LM,
//!   [`indexed_dataset.py`](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/datasets/indexed_dataset.py).
//! * **Who else reads it**: Megatron-LM, Megatron-DeepSpeed, NeMo, GPT-NeoX, BlendCorpus; with other
//!   layouts datatrove and nanotron, llm.c, nanoGPT.
//! * **The bytes**, all little-endian:
//!
//!   ```text
//!   .bin          the tokens, nothing else
//!   .idx  0       "MMIDIDX\0\0"
//!         9       u64     version = 1
//!         17      u8      type: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
//!         18      u64     S, how many sequences
//!         26      u64     D, entries of the document index: documents + 1
//!         34      i32[S]  sequence lengths in tokens
//!         34+4S   i64[S]  byte offsets of sequences in .bin: an exclusive scan
//!         34+12S  i64[D]  document k is sequences [k] to [k+1]; the first is 0, the last S
//!         34+12S+8D  i8[S]  modes, of multimodal files only; read where all are 0
//!   ```
//!
//!   Lengths wait in scratch until the shard ends, eight bytes a document: memory does not grow with it.
//! * **A row is a document**: `tokens`, a list of ids of the file's type. Where some document is other
//!   than one sequence that is not empty, or no sequence at all, there is also `lengths`, the lengths of
//!   its sequences (`Int32`). An empty document without `lengths` is written as no sequence. There are no
//!   keys in a file; keys that are written go to the table of documents.
//! * **Other layouts**:
//!
//!   ```text
//!   datatrove  .ds: tokens (u16, u32); .ds.index: u64 a document, where it ends, in tokens;
//!              .ds.metadata: tokenizer|bytes a token, tokens, tokens for people: three lines
//!   llmc       .bin: 256 i32: 20240520, 1, tokens (u16) or 20240801, 7, tokens (u32); tokens
//!   bare       .bin: tokens of any type, as nanoGPT has them (u16)
//!   ```
//!
//!   The last two list no documents: their rows are so many tokens each, the last one fewer.
//! * **Beside each shard** `.documents.parquet` (feature `documents`): a row a document, `document`
//!   (its number), `key`, `source` and `offset` (the key's parts around its last slash, where the latter
//!   is a number), `tokens`, `digest` ([XXH3](https://xxhash.com), 128 bits, big-endian, of the document's bytes:
//!   it tells equal documents, and is no proof against forgers).
//!   Receipts and the manifest count documents, sequences and tokens, in all and for each source (the first part
//!   of the keys).
//!   **Beside a dataset** `data-path.txt` (`data-path.SPLIT.txt` a split): `TOKENS PREFIX` a line, which is
//!   what Megatron's `--data-args-path` takes, for a job that runs in the dataset's folder.
//! * **Anybody's pair**: [`verify`] checks every number of it, [`repair`] writes the `.idx` anew where
//!   what went wrong is known, [`MergePlan`] makes one pair of many.
//!
//! # Options
//!
//! | of the sink | values | default |
//! | --- | --- | --- |
//! | `layout` | `megatron`, `datatrove`, `llmc`, `bare` | `megatron` |
//! | `documents` | `on`, `off`: the table of documents | `on` |
//! | `vocabulary` | how many ids there are; a token outside is an error | not checked |
//! | `tokenizer` | the name in `.ds.metadata` | `Unknown Tokenizer` |
//!
//! | of the source | values | default |
//! | --- | --- | --- |
//! | `layout` | `megatron`, `datatrove`, `llmc`, `bare` | `.ds` is datatrove's, all else Megatron's |
//! | `dtype` | of `bare`: `u16`, `u32`, `i32`, … | `u16` |
//! | `length` | tokens a row where no documents are listed | 2048 |
//!
//! | of checking and repairing | values | default |
//! | --- | --- | --- |
//! | `vocabulary` | how many ids there are; a token outside is damage | not checked |
//! | `eod` | the id of the token that ends each document that is not empty | found out where it matters |
//!
//! **Revisions**: 1, the first; 2, the table of documents has XXH3 and is written as differences.

mod column;
#[cfg(feature = "documents")]
mod companion;
#[cfg(not(feature = "documents"))]
#[path = "companion_off.rs"]
mod companion;
mod dtype;
mod header;
mod lengths;
mod merge;
mod numbers;
mod options;
mod pair;
mod read;
mod repair;
mod seal;
mod sequences;
mod shape;
mod verdict;
mod verify;
mod write;

pub use dtype::Dtype;
pub use header::Header;
pub use lengths::lengths;
pub use merge::{Body, MergePlan, Section};
pub use repair::{Repaired, repair};
pub use verdict::{Cure, Look, Problem, Verdict};
pub use verify::verify;

use packhorse_core::{
    Consumer, Findings, Format, FormatInfo, Input, Limits, Options, Outlet, Result, ShardSummary, Sink, Source,
};

/// The format `tokens`. It remembers of each local file it has read through what its index is like, so
/// that a file that is read in many runs is looked through once.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    seen: shape::Seen,
}

static INFO: FormatInfo = FormatInfo { id: "tokens", revision: 2, extensions: &["idx", "ds"], fields: &[] };

impl Format for Tokens {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn companions(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("idx", "bin"),
            ("idx", "documents.parquet"),
            ("ds", "ds.index"),
            ("ds", "ds.metadata"),
            ("ds", "documents.parquet"),
        ]
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let options = options::Reading::parse(options)?;
        Ok(Box::new(read::TokenSource { options, limits, seen: self.seen.clone() }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(write::TokenSink { options: options::Writing::parse(options)? }))
    }

    fn check(
        &self,
        input: &dyn Input,
        options: &Options,
        _: &[Consumer],
        findings: &mut Findings,
        _: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let verdict = verify(input, &options::look(options)?)?;
        verdict
            .problems
            .iter()
            .for_each(|problem| findings.add(&[], Some(pair::base(&problem.file).as_bytes()), &problem.to_string()));
        Ok(())
    }

    fn merge(&self, inputs: &[&dyn Input], out: &mut dyn Outlet) -> Result<ShardSummary> {
        merge::merge(inputs, out)
    }

    fn repair(&self, input: &dyn Input, options: &Options, out: &mut dyn Outlet) -> Result<Option<Vec<String>>> {
        let mut idx = out.stream(".idx")?;
        let Some(repaired) = repair(input, &options::look(options)?, &mut idx)? else { return Ok(None) };
        let found = repaired.verdict.problems.iter().map(ToString::to_string);
        Ok(Some(found.chain([repaired.cure.to_string()]).collect()))
    }
}
