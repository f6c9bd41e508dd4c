//! Text normalization before segmentation: the model's character map, and spaces. A port of SentencePiece's
//! `normalizer.cc`.
//!
//! The map is `[u32 length][double array of that many bytes][replacements, each ended by 0]`. The double array
//! (Darts-clone's) maps the longest matching string to the offset of its replacement.

use super::model::{Model, PieceType};
use super::trie::Trie;
use super::width;
use packhorse_core::{Error, Result};

const SPACE: &[u8] = "▁".as_bytes();

/// Normalizes text.
pub(super) struct Normalizer {
    units: Vec<u32>,
    texts: Vec<u8>,
    /// Symbols that are not normalized.
    user_defined: Trie,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    space: &'static [u8],
    escape: bool,
    suffix: bool,
}

impl Normalizer {
    /// A `Config` error for an inconsistent map.
    pub(super) fn new(model: &Model) -> Result<Self> {
        let damaged = || Error::config("the SentencePiece model's character map is damaged");
        let (units, texts) = match model.charsmap.split_first_chunk::<4>() {
            None if model.charsmap.is_empty() => (Vec::new(), Vec::new()),
            None => return Err(damaged()),
            Some((length, rest)) => {
                let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| damaged())?;
                let (units, texts) = rest.split_at_checked(length).ok_or_else(damaged)?;
                let units = units.chunks_exact(4).map(|unit| unit.try_into().map_or(0, u32::from_le_bytes));
                (units.collect(), texts.to_vec())
            }
        };
        // Replacements must be UTF-8, because the output is.
        if !texts.split(|byte| *byte == 0).all(|text| std::str::from_utf8(text).is_ok()) {
            return Err(damaged());
        }
        Ok(Self {
            units,
            texts,
            user_defined: user_defined(model),
            add_dummy_prefix: model.add_dummy_prefix,
            remove_extra_whitespaces: model.remove_extra_whitespaces,
            space: if model.escape_whitespaces { SPACE } else { b" " },
            escape: model.escape_whitespaces,
            suffix: model.whitespace_as_suffix,
        })
    }

    /// Normalizes `text` into `out`, replacing its content.
    pub(super) fn apply(&self, mut text: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if self.remove_extra_whitespaces {
            while let Some((b" ", taken)) = self.prefix(text) {
                text = text.get(taken..).unwrap_or_default();
            }
        }
        if text.is_empty() {
            return;
        }
        if self.add_dummy_prefix && !self.suffix {
            out.extend_from_slice(self.space);
        }
        let mut after_space = self.remove_extra_whitespaces;
        while let Some((mut piece, taken)) = self.prefix(text) {
            while let (true, Some(rest)) = (after_space, piece.strip_prefix(b" ")) {
                piece = rest;
            }
            if let Some(last) = piece.last() {
                after_space = *last == b' ' && self.remove_extra_whitespaces;
                self.push(piece, out);
            }
            text = text.get(taken..).unwrap_or_default();
        }
        if self.remove_extra_whitespaces {
            while let Some(rest) = out.strip_suffix(self.space) {
                out.truncate(rest.len());
            }
        }
        if self.add_dummy_prefix && self.suffix {
            out.extend_from_slice(self.space);
        }
    }

    fn push(&self, piece: &[u8], out: &mut Vec<u8>) {
        if !self.escape || !piece.contains(&b' ') {
            return out.extend_from_slice(piece);
        }
        for byte in piece {
            match byte {
                b' ' => out.extend_from_slice(SPACE),
                byte => out.push(*byte),
            }
        }
    }

    /// The replacement for a prefix of `text`, and that prefix's length; `None` at the end.
    fn prefix<'a>(&'a self, text: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let first = text.first()?;
        if let Some((length, _)) = self.user_defined.prefixes(text).last() {
            return Some((text.get(..length)?, length));
        }
        if let Some((length, place)) = self.longest(text) {
            let rest = self.texts.get(place..).unwrap_or_default();
            return Some((rest.split(|byte| *byte == 0).next()?, length));
        }
        let length = width(*first).min(text.len());
        Some((text.get(..length)?, length))
    }

    /// The longest prefix of `text` in the map: its length and the offset of its replacement.
    fn longest(&self, text: &[u8]) -> Option<(usize, usize)> {
        let unit = |at: u32| self.units.get(usize::try_from(at).ok()?).copied();
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let mut at = offset(unit(0)?);
        let mut longest = None;
        // SentencePiece stops after 32 matches; no string in its maps is that long.
        for (length, byte) in (1..).zip(text) {
            at ^= u32::from(*byte);
            let Some(here) = unit(at) else { break };
            if here & (1 << 31 | 0xff) != u32::from(*byte) {
                break;
            }
            at ^= offset(here);
            if here >> 8 & 1 == 1 {
                let value = unit(at).map_or(0, |leaf| leaf & (u32::MAX >> 1));
                longest = Some((length, usize::try_from(value).ok()?));
            }
        }
        // A match must not split a character.
        longest.filter(|(length, _)| text.get(*length).is_none_or(|next| next & 0xc0 != 0x80))
    }
}

/// The model's user-defined symbols, which always match.
pub(super) fn user_defined(model: &Model) -> Trie {
    let symbols = (0u32..).zip(&model.pieces).filter(|(_, piece)| piece.kind == PieceType::UserDefined);
    Trie::new(symbols.map(|(id, piece)| (&piece.text[..], id)).collect())
}
