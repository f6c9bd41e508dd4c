//! SentencePiece models (`.model`): BPE and Unigram by SentencePiece's own algorithms.
//!
//! Specification: the source of <https://github.com/google/sentencepiece> (`normalizer.cc`, `bpe_model.cc`,
//! `unigram_model.cc`). This is a port, not a conversion, because `tokenizer.json` can't express all of it. BPE
//! merges equal scores from the left, whatever their halves. Unigram sums scores in 32 bits over the whole text, so
//! rounding decides near ties. Control and byte pieces never match text. Models of type `word` and `char` are not
//! supported.
//!
//! This module owns the engine; its children own the file, the normalizer and the two algorithms.

mod bpe;
mod model;
mod normalizer;
mod trie;
mod unigram;

use super::engine::{About, Engine, Id, Ids};
use bpe::{Bpe, BpeBuffers};
use model::{Model, PieceType};
use normalizer::Normalizer;
use packhorse_core::{Error, Kind, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use unigram::{Unigram, UnigramBuffers};

/// A loaded model.
pub(super) struct SentencePiece {
    pieces: Pieces,
    normalizer: Normalizer,
    algorithm: Algorithm,
    /// Per-thread scratch, returned after use: buffers and cached words.
    idle: Mutex<Vec<Scratch>>,
}

enum Algorithm {
    Bpe(Bpe),
    Unigram(Unigram),
}

#[derive(Default)]
struct Scratch {
    normalized: Vec<u8>,
    bpe: BpeBuffers,
    unigram: UnigramBuffers,
}

/// A model's pieces by id and by text.
struct Pieces {
    model: Model,
    /// Pieces that can match text.
    normal: HashMap<Vec<u8>, u32>,
    /// Pieces that can't: control, byte, unknown.
    reserved: HashMap<Vec<u8>, u32>,
    unknown: u32,
    /// The 256 byte pieces, with byte fallback.
    bytes: Option<Vec<u32>>,
}

impl SentencePiece {
    /// From a serialized `ModelProto`. A `Config` error for an invalid file or contradictory pieces, `Unsupported`
    /// for another model type.
    pub(super) fn new(file: &[u8]) -> Result<Self> {
        let pieces = Pieces::new(Model::new(file)?)?;
        let normalizer = Normalizer::new(&pieces.model)?;
        let algorithm = match pieces.model.bpe {
            true => Algorithm::Bpe(Bpe::new(&pieces)),
            false => Algorithm::Unigram(Unigram::new(&pieces)),
        };
        Ok(Self { pieces, normalizer, algorithm, idle: Mutex::default() })
    }

    /// Number of pieces.
    pub(super) fn vocabulary(&self) -> u32 {
        u32::try_from(self.pieces.model.pieces.len()).unwrap_or(u32::MAX)
    }

    /// The id of every piece; also under the usual names of begin and end if the model names them differently.
    pub(super) fn special(&self) -> BTreeMap<String, u32> {
        let model = &self.pieces.model;
        let number = |text: &[u8]| self.pieces.reserved.get(text).or_else(|| self.pieces.normal.get(text)).copied();
        let usual = [("<s>", &model.begin), ("</s>", &model.end)];
        let usual = usual.into_iter().filter_map(|(name, piece)| Some((name.to_owned(), number(piece)?)));
        let all = self.pieces.normal.iter().chain(&self.pieces.reserved);
        usual.chain(all.filter_map(|(text, id)| Some((String::from_utf8(text.clone()).ok()?, *id)))).collect()
    }
}

impl Engine for SentencePiece {
    fn encode(&self, text: &str, _template: bool, out: &mut Ids) -> Result<()> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = idle().pop().unwrap_or_default();
        self.normalizer.apply(text.as_bytes(), &mut scratch.normalized);
        if u32::try_from(scratch.normalized.len()).is_err() {
            return Err(Error::new(Kind::Limit, "a document of 4 GiB and more can't be tokenized"));
        }
        let mut end = End { pieces: &self.pieces, out, unknown: false };
        match &self.algorithm {
            Algorithm::Bpe(bpe) => bpe.encode(&self.pieces, &scratch.normalized, &mut scratch.bpe, &mut end),
            Algorithm::Unigram(unigram) => {
                unigram.encode(&self.pieces, &scratch.normalized, &mut scratch.unigram, &mut end);
            }
        }
        idle().push(scratch);
        Ok(())
    }

    fn about(&self) -> About {
        // The model's own table normalizes; no Unicode table is used.
        About { name: "packhorse-sentencepiece", version: "1", unicode: "none" }
    }
}

/// The output: unknown text becomes bytes, or one unknown piece per run.
struct End<'a> {
    pieces: &'a Pieces,
    out: &'a mut Ids,
    /// Whether the previous piece was unknown.
    unknown: bool,
}

impl End<'_> {
    fn push(&mut self, text: &[u8], id: u32) {
        let unknown = id == self.pieces.unknown;
        match &self.pieces.bytes {
            Some(bytes) if unknown => {
                self.out.extend(text.iter().filter_map(|byte| bytes.get(usize::from(*byte)).copied().map(Id::from)));
            }
            _ if unknown && self.unknown => {}
            _ => self.out.push(id.into()),
        }
        self.unknown = unknown;
    }
}

impl Pieces {
    fn new(model: Model) -> Result<Self> {
        let bad = |what: String| Error::config(format!("the SentencePiece model {what}"));
        let (mut normal, mut reserved) = (HashMap::new(), HashMap::new());
        let mut unknown = None;
        for (id, piece) in (0u32..).zip(&model.pieces) {
            let map = if piece.kind.is_of_text() { &mut normal } else { &mut reserved };
            if piece.text.is_empty() || map.insert(piece.text.clone(), id).is_some() {
                return Err(bad(format!("has piece {id} empty or twice")));
            }
            if piece.kind == PieceType::Unknown && unknown.replace(id).is_some() {
                return Err(bad("has two unknown pieces".to_owned()));
            }
        }
        let unknown = unknown.ok_or_else(|| bad("has no unknown piece".to_owned()))?;
        let byte = |byte: u8| reserved.get(format!("<0x{byte:02X}>").as_bytes()).copied();
        let bytes = match model.byte_fallback {
            false => None,
            true => {
                let all: Option<Vec<u32>> = (0..=u8::MAX).map(byte).collect();
                Some(all.ok_or_else(|| bad("lacks pieces for some bytes".to_owned()))?)
            }
        };
        Ok(Self { model, normal, reserved, unknown, bytes })
    }

    fn kind(&self, id: u32) -> PieceType {
        let piece = usize::try_from(id).ok().and_then(|id| self.model.pieces.get(id));
        piece.map_or(PieceType::Unknown, |piece| piece.kind)
    }

    fn score(&self, id: u32) -> f32 {
        usize::try_from(id).ok().and_then(|id| self.model.pieces.get(id)).map_or(0.0, |piece| piece.score)
    }

    /// The piece with exactly this text, or the unknown piece.
    fn find(&self, text: &[u8]) -> u32 {
        self.reserved.get(text).or_else(|| self.normal.get(text)).copied().unwrap_or(self.unknown)
    }
}

/// The UTF-8 length of a character that starts with `first`.
fn width(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}
