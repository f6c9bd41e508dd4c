//! SentencePiece models (`.model`), BPE and Unigram, by SentencePiece's own procedure.
//!
//! Specification: the source of <https://github.com/google/sentencepiece> (`normalizer.cc`, `bpe_model.cc`,
//! `unigram_model.cc`). This is a port and no conversion, since `tokenizer.json` can't say it all: BPE
//! merges equal scores from the left, whatever their halves; Unigram adds scores in 32 bits along the
//! whole text, so that roundings decide what is nearly equal; control symbols and bytes are never found in text. Models of
//! type `word` and `char` are not read.
//!
//! This module owns the engine; its children the file, the normalizer and the two procedures.

mod bpe;
mod model;
mod normalizer;
mod trie;
mod unigram;

use super::engine::{About, Engine, Id, Ids};
use bpe::Bpe;
use model::{Kind, Model};
use normalizer::Normalizer;
use packhorse_core::{Error, Kind as ErrorKind, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use unigram::Unigram;

/// A model ready to encode.
pub(super) struct SentencePiece {
    pieces: Pieces,
    normalizer: Normalizer,
    algorithm: Algorithm,
    /// What a thread leaves for the next: buffers, and words already cut.
    idle: Mutex<Vec<Scratch>>,
}

enum Algorithm {
    Bpe(Bpe),
    Unigram(Unigram),
}

#[derive(Default)]
struct Scratch {
    normalized: Vec<u8>,
    bpe: bpe::Scratch,
    unigram: unigram::Scratch,
}

/// A model's pieces, by number and by text.
struct Pieces {
    model: Model,
    /// Pieces that text can become.
    normal: HashMap<Vec<u8>, u32>,
    /// Pieces that it can't: control symbols, bytes, the unknown.
    reserved: HashMap<Vec<u8>, u32>,
    unknown: u32,
    /// The pieces of the 256 bytes, where there are such.
    bytes: Option<Vec<u32>>,
}

impl SentencePiece {
    /// From a serialized `ModelProto`. A file that is none, or whose pieces contradict each other, is a
    /// `Config` error; a model of another type `Unsupported`.
    pub(super) fn new(file: &[u8]) -> Result<Self> {
        let pieces = Pieces::new(Model::new(file)?)?;
        let normalizer = Normalizer::new(&pieces.model)?;
        let algorithm = match pieces.model.bpe {
            true => Algorithm::Bpe(Bpe::new(&pieces)),
            false => Algorithm::Unigram(Unigram::new(&pieces)),
        };
        Ok(Self { pieces, normalizer, algorithm, idle: Mutex::default() })
    }

    /// How many pieces there are.
    pub(super) fn vocabulary(&self) -> u32 {
        u32::try_from(self.pieces.model.pieces.len()).unwrap_or(u32::MAX)
    }

    /// Every piece's number; the usual names for begin and end where the model calls them otherwise.
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
            return Err(Error::new(ErrorKind::Limit, "a document of 4 GiB and more can't be tokenized"));
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
        // The model's own table normalizes; no table of Unicode takes part.
        About { name: "packhorse-sentencepiece", version: "1", unicode: "none" }
    }
}

/// Where pieces go: what is unknown becomes bytes, or one unknown piece a run.
struct End<'a> {
    pieces: &'a Pieces,
    out: &'a mut Ids,
    /// Whether the piece before was unknown.
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
            if piece.kind == Kind::Unknown && unknown.replace(id).is_some() {
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

    fn kind(&self, id: u32) -> Kind {
        let piece = usize::try_from(id).ok().and_then(|id| self.model.pieces.get(id));
        piece.map_or(Kind::Unknown, |piece| piece.kind)
    }

    fn score(&self, id: u32) -> f32 {
        usize::try_from(id).ok().and_then(|id| self.model.pieces.get(id)).map_or(0.0, |piece| piece.score)
    }

    /// The piece of exactly this text, or the unknown one.
    fn find(&self, text: &[u8]) -> u32 {
        self.reserved.get(text).or_else(|| self.normal.get(text)).copied().unwrap_or(self.unknown)
    }
}

/// How many bytes the character has that starts with `first`.
fn width(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}
