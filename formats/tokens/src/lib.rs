//! Tokens: tokenized text as flat arrays of token ids, with an index of documents.
//!
//! * **Specification**: Megatron-LM,
//!   [`indexed_dataset.py`](https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/datasets/indexed_dataset.py).
//! * **Who else reads it**: Megatron-LM, Megatron-DeepSpeed, NeMo, GPT-NeoX, BlendCorpus; the other layouts: datatrove
//!   and nanotron, llm.c, nanoGPT.
//! * **The bytes**, all little-endian:
//!
//!   ```text
//!   .bin          the tokens, nothing else
//!   .idx  0       "MMIDIDX\0\0"
//!         9       u64     version = 1
//!         17      u8      type: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
//!         18      u64     S, the number of sequences
//!         26      u64     D, entries of the document index: documents + 1
//!         34      i32[S]  sequence lengths in tokens
//!         34+4S   i64[S]  byte offsets of sequences in .bin: the exclusive scan of lengths
//!         34+12S  i64[D]  document k is sequences [k] to [k+1]; the first is 0, the last S
//!         34+12S+8D  i8[S]  modes, in multimodal files only; accepted if all are 0
//!   ```
//!
//!   Lengths are kept in scratch until the shard ends, eight bytes per document: memory does not grow with the shard.
//! * **A row is a document**: `tokens`, a list of ids of the file's type. `lengths`, the lengths of its sequences
//!   (`Int32`), exists only if some document of the file has several sequences or an empty one. Without `lengths` an
//!   empty document is written without a sequence. A pair holds no keys; keys are written to the table of documents.
//! * **Other layouts**:
//!
//!   ```text
//!   datatrove  .ds: tokens (u16, u32); .ds.index: for each document a u64, its end in tokens;
//!              .ds.metadata: three lines: tokenizer|bytes per token, tokens, tokens human-readable
//!   llmc       .bin: 256 i32: 20240520, 1, tokens (u16) or 20240801, 7, tokens (u32); tokens
//!   bare       .bin: tokens of any type, as of nanoGPT (u16)
//!   ```
//!
//!   The last two do not list documents: each row has `length` tokens, the last row fewer.
//! * **Companions of a shard**: `.documents.parquet` (feature `documents`), a row for each document: `document` (its
//!   number), `key`, `source` and `offset` (the key's parts around its last slash, if the latter is a number),
//!   `tokens`, `digest` ([XXH3](https://xxhash.com), 128 bits, big-endian, of the document's bytes; it finds equal
//!   documents but is not cryptographic). Receipts and the manifest count documents, sequences and tokens, in total and
//!   for each source (the first part of the keys).
//! * **Companions of a dataset**: `data-path.txt` (`data-path.SPLIT.txt` for each split), lines of `TOKENS PREFIX` for
//!   Megatron's `--data-args-path`, for a job that runs in the dataset's folder.
//! * **Third-party pairs**: [`verify`] checks every number, [`repair`] rewrites the `.idx` if the defect is a known
//!   one, [`MergePlan`] concatenates pairs.
//!
//! # Options
//!
//! | sink | values | default |
//! | --- | --- | --- |
//! | `layout` | `megatron`, `datatrove`, `llmc`, `bare` | `megatron` |
//! | `documents` | `on`, `off`: the table of documents | `on` |
//! | `vocabulary` | the number of ids; a token outside is an error | not checked |
//! | `tokenizer` | the name in `.ds.metadata` | `Unknown Tokenizer` |
//!
//! | source | values | default |
//! | --- | --- | --- |
//! | `layout` | `megatron`, `datatrove`, `llmc`, `bare` | datatrove for `.ds`, else Megatron |
//! | `dtype` | of `bare`: `u16`, `u32`, `i32`, … | `u16` |
//! | `length` | tokens per row, if the file does not list documents | 2048 |
//!
//! | `verify` and `repair` | values | default |
//! | --- | --- | --- |
//! | `vocabulary` | the number of ids; a token outside is damage | not checked |
//! | `eod` | the id of the token that ends each non-empty document | inferred where needed |
//!
//! **Revisions**: 1, the first; 2, the table of documents has XXH3 digests and delta encodings.

#[cfg(feature = "documents")]
mod document_table;
#[cfg(not(feature = "documents"))]
#[path = "document_table_off.rs"]
mod document_table;
mod dtype;
mod index_header;
mod index_summary;
mod lengths;
mod lists;
mod merge;
mod numbers;
mod options;
mod pair;
mod pair_report;
mod read;
mod repair;
mod seal;
mod sequences;
mod verify;
mod write;

pub use dtype::Dtype;
pub use index_header::IndexHeader;
pub use lengths::lengths;
pub use merge::{BinPlacement, IndexSection, MergePlan};
pub use pair_report::{PairReport, Problem, RepairKind, VerifyOptions};
pub use repair::{RepairReport, repair};
pub use verify::verify;

use packhorse_core::{
    Consumer, Findings, Format, FormatInfo, Input, Limits, Options, Outlet, Result, ShardSummary, Sink, Source,
};

/// The format `tokens`. It caches a summary of the index of each local file, so that reading a file in many ranges
/// scans its index once.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    seen: index_summary::SummaryCache,
}

static INFO: FormatInfo = FormatInfo { id: "tokens", revision: 2, extensions: &["idx", "ds"], fields: &[] };

impl Format for Tokens {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn data_file(&self) -> Option<(&'static str, &'static str)> {
        Some(("idx", "bin"))
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
        let options = options::TokenSourceOptions::parse(options)?;
        Ok(Box::new(read::TokenSource { options, limits, seen: self.seen.clone() }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(write::TokenSink { options: options::TokenSinkOptions::parse(options)? }))
    }

    fn check(
        &self,
        input: &dyn Input,
        options: &Options,
        consumers: &[Consumer],
        findings: &mut Findings,
        _: &mut dyn FnMut(&str),
    ) -> Result<()> {
        if !consumers.is_empty() {
            findings.add(consumers, None, "holds tokens, and this reader takes tars (webdataset)");
        }
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
