//! The model file: `ModelProto` of `sentencepiece_model.proto`, a protocol buffer. Reads the few fields that encoding
//! needs and skips the others.

use packhorse_core::{Error, Result};

/// The parts of a model file that encoding needs.
pub(super) struct Model {
    pub(super) pieces: Vec<ModelPiece>,
    /// BPE; otherwise Unigram.
    pub(super) bpe: bool,
    pub(super) byte_fallback: bool,
    pub(super) whitespace_as_suffix: bool,
    pub(super) begin: Vec<u8>,
    pub(super) end: Vec<u8>,
    pub(super) charsmap: Vec<u8>,
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    pub(super) escape_whitespaces: bool,
}

/// A piece of the vocabulary.
pub(super) struct ModelPiece {
    pub(super) text: Vec<u8>,
    pub(super) score: f32,
    pub(super) kind: PieceType,
}

/// The type of a piece (`ModelProto.SentencePiece.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl PieceType {
    fn new(number: u64) -> Option<Self> {
        match number {
            1 => Some(PieceType::Normal),
            2 => Some(PieceType::Unknown),
            3 => Some(PieceType::Control),
            4 => Some(PieceType::UserDefined),
            5 => Some(PieceType::Unused),
            6 => Some(PieceType::Byte),
            _ => None,
        }
    }

    /// Whether this piece can match text.
    pub(super) fn is_of_text(self) -> bool {
        matches!(self, PieceType::Normal | PieceType::UserDefined | PieceType::Unused)
    }
}

impl Model {
    /// Parses `file`; a `Config` error if it is not a SentencePiece model.
    pub(super) fn new(file: &[u8]) -> Result<Self> {
        let mut model = Self {
            pieces: Vec::new(),
            bpe: false,
            byte_fallback: false,
            whitespace_as_suffix: false,
            begin: b"<s>".to_vec(),
            end: b"</s>".to_vec(),
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        };
        for field in Fields(file) {
            match field? {
                (1, Value::Bytes(bytes)) => model.pieces.push(piece(bytes)?),
                (2, Value::Bytes(bytes)) => model.trainer(bytes)?,
                (3, Value::Bytes(bytes)) => model.normalizer(bytes)?,
                _ => {}
            }
        }
        match model.pieces.len() {
            0 => Err(Error::config(
                "the tokenizer is neither a tokenizer.json, a tiktoken vocabulary nor a SentencePiece model",
            )),
            n if i32::try_from(n).is_err() => Err(Error::config("the SentencePiece model has too many pieces")),
            _ => Ok(model),
        }
    }

    fn trainer(&mut self, bytes: &[u8]) -> Result<()> {
        for field in Fields(bytes) {
            match field? {
                (3, Value::Number(1)) => self.bpe = false,
                (3, Value::Number(2)) => self.bpe = true,
                (3, _) => {
                    return Err(Error::unsupported("a SentencePiece model whose type is neither unigram nor bpe"));
                }
                (24, Value::Number(on)) => self.whitespace_as_suffix = on != 0,
                (35, Value::Number(on)) => self.byte_fallback = on != 0,
                (46, Value::Bytes(text)) => self.begin = text.to_vec(),
                (47, Value::Bytes(text)) => self.end = text.to_vec(),
                _ => {}
            }
        }
        Ok(())
    }

    fn normalizer(&mut self, bytes: &[u8]) -> Result<()> {
        for field in Fields(bytes) {
            match field? {
                (2, Value::Bytes(map)) => self.charsmap = map.to_vec(),
                (3, Value::Number(on)) => self.add_dummy_prefix = on != 0,
                (4, Value::Number(on)) => self.remove_extra_whitespaces = on != 0,
                (5, Value::Number(on)) => self.escape_whitespaces = on != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

fn piece(bytes: &[u8]) -> Result<ModelPiece> {
    let mut piece = ModelPiece { text: Vec::new(), score: 0.0, kind: PieceType::Normal };
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(text)) => piece.text = text.to_vec(),
            // Adding 0 turns -0 into +0, so that scores compare equal in every order.
            (2, Value::Float(score)) => piece.score = score + 0.0,
            (3, Value::Number(kind)) => piece.kind = PieceType::new(kind).ok_or_else(damaged)?,
            _ => {}
        }
    }
    match piece.score.is_finite() && std::str::from_utf8(&piece.text).is_ok() {
        true => Ok(piece),
        false => Err(damaged()),
    }
}

fn damaged() -> Error {
    Error::config("the SentencePiece model is damaged, or is not one")
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Float(f32),
    /// Eight bytes; no field read here has this wire type.
    Other,
}

/// Iterates over (number, value) of a message's fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(damaged))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Other)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Float(f32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
