//! Synthetic documents. Owns files and lines; words are in `vocabulary`, sentences in `prose`.

mod prose;
mod vocabulary;

use crate::file_generator::FileGenerator;
use crate::rng::Rng;
use crate::{Run, Written, write};
use packhorse_core::{Error, Result};
use prose::Prose;
use std::path::Path;

/// A corpus of JSON lines, `part-00001.jsonl`, each line `{"id":"doc-000000001","text":"…"}`.
///
/// Words follow Zipf's law: common function words and 20,000 invented ones. Lengths are log-normal. Documents contain
/// paragraphs (`\n\n`), quotation marks and letters outside ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSpec {
    /// Number of documents.
    pub count: u64,
    /// Determines every byte.
    pub seed: u64,
    /// Documents per file; the last file may have fewer.
    pub per_file: u64,
    /// Median document length in words.
    pub words: u32,
}

impl Default for TextSpec {
    /// 10,000 documents with a median of 200 words, 10,000 per file.
    fn default() -> Self {
        Self { count: 10_000, seed: 0, per_file: 10_000, words: 200 }
    }
}

/// Writes the corpus of `spec` into `dir`. A `Config` error if the folder holds other files.
pub fn text(dir: &Path, spec: &TextSpec, run: &Run<'_>) -> Result<Written> {
    if spec.per_file == 0 || spec.words == 0 {
        return Err(Error::config("a file of 0 documents or a document of 0 words; give at least 1"));
    }
    write::write(dir, &Documents { spec: *spec, prose: Prose::new(spec.seed) }, run)
}

struct Documents {
    spec: TextSpec,
    prose: Prose,
}

impl FileGenerator for Documents {
    fn files(&self) -> u64 {
        self.spec.count.div_ceil(self.spec.per_file)
    }

    fn name(&self, index: u64) -> String {
        format!("part-{:05}.jsonl", index + 1)
    }

    fn fill(&self, index: u64, out: &mut Vec<u8>) -> Result<()> {
        let first = index * self.spec.per_file;
        for document in first..(first + self.spec.per_file).min(self.spec.count) {
            out.extend_from_slice(format!("{{\"id\":\"doc-{:09}\",\"text\":\"", document + 1).as_bytes());
            self.prose.document(&mut Rng::new(self.spec.seed, 2, document), self.spec.words, out);
            out.extend_from_slice(b"\"}\n");
        }
        Ok(())
    }
}
