//! A file of tokens, and the positions of its sequences.

use crate::mapping::Mapping;
use crate::token_type::{convert, token_type};
use crate::{Access, IntArray, TokenType};
use packhorse_core::{DataType, Error, Input, Kind, Result};
use packhorse_order::{IntView, Segment};
use std::ops::Range;
use std::sync::Arc;

/// A file of tokens, and the positions of its sequences.
pub struct TokenFile {
    input: Arc<dyn Input>,
    map: Option<Mapping>,
    gap: u64,
    element: DataType,
    width: usize,
    token_type: TokenType,
    len: u64,
    lengths: IntArray,
    pointers: Pointers,
}

/// The start of each sequence, in bytes.
enum Pointers {
    Given(IntArray),
    Summed(Vec<u64>),
}

const PAIR: &str = "`packhorse verify` says more of the pair, and `packhorse repair` mends what it can";

impl TokenFile {
    /// The tokens in `bin`, of the Arrow type `tokens`, little-endian; `lengths` of its sequences in tokens; and
    /// `pointers`, their first bytes: without them the sequences are contiguous from byte 0.
    ///
    /// Checks that the file ends with the last sequence, and with contiguous sequences so holds all of them. Every segment is
    /// checked against the length of its sequence and of the file when it is read.
    ///
    /// Errors: a stream, another type, arrays of different lengths, a file that ends elsewhere.
    pub fn new(
        bin: Arc<dyn Input>,
        tokens: &DataType,
        lengths: IntArray,
        pointers: Option<IntArray>,
        access: Access,
    ) -> Result<Self> {
        let named = |error: Error| error.in_input(bin.name());
        let len =
            bin.len().ok_or_else(|| named(Error::unsupported("can't be read as a stream; decompress it first")))?;
        let token_type = token_type(tokens).map_err(named)?;
        let width = tokens.primitive_width().unwrap_or_default();
        let pointers = match pointers {
            Some(pointers) if pointers.view().len() == lengths.view().len() => Pointers::Given(pointers),
            Some(pointers) => {
                let (pointers, lengths) = (pointers.view().len(), lengths.view().len());
                return Err(named(Error::content(format!(
                    "has {lengths} lengths and {pointers} pointers of sequences"
                ))));
            }
            None => Pointers::Summed(summed(lengths.view(), width).map_err(named)?),
        };
        let map = if access.maps() { Mapping::of(&*bin)? } else { None };
        let element = tokens.clone();
        let file = Self { map, gap: access.gap(), element, width, token_type, len, lengths, pointers, input: bin };
        file.check_last()?;
        Ok(file)
    }

    fn check_last(&self) -> Result<()> {
        let Some(last) = self.lengths.view().len().checked_sub(1) else { return Ok(()) };
        let length = self.lengths.view().get(last).unwrap_or_default();
        let length = u32::try_from(length).map_err(|_| self.fault(format!("has a sequence of {length} tokens")))?;
        let sequence = u32::try_from(last).map_err(|_| {
            let message = format!("has {} sequences, which is over 2^32", last + 1);
            Error::unsupported(message).in_input(self.name())
        })?;
        let end = self.place(&Segment { dataset: 0, sequence, offset: 0, length })?.end;
        if end != self.len {
            // Tokens that the lengths don't count make all sequences wrong (Megatron-LM#431).
            let message = format!("is {} bytes long where its index ends at byte {end}", self.len);
            return Err(self.fault(message).hint(PAIR));
        }
        Ok(())
    }

    /// The range of a segment's bytes, which the file has. Its sequence ends where the next one begins.
    pub(crate) fn place(&self, segment: &Segment) -> Result<Range<u64>> {
        let at = segment.sequence as usize;
        let Some((length, start)) = self.lengths.view().get(at).zip(self.start(at)) else {
            let message = format!("has no sequence {at}, for there are {}", self.sequences());
            return Err(self.fault(message));
        };
        let (from, to) = (u64::from(segment.offset), u64::from(segment.offset) + u64::from(segment.length));
        if i64::try_from(to).is_ok_and(|to| to > length) {
            let message = format!("has {length} tokens in sequence {at}, and tokens {from} to {to} of it are wanted");
            return Err(self.fault(format!("{message}: the order is of other data")));
        }
        let width = self.width as u64;
        let end = u64::try_from(length).ok().and_then(|length| length.checked_mul(width)?.checked_add_signed(start));
        let next = if matches!(self.pointers, Pointers::Given(_)) { self.start(at + 1) } else { None };
        if let Some(next) = next.filter(|next| u64::try_from(*next).ok() != end) {
            let message =
                format!("has {length} tokens in sequence {at} from byte {start} on, and the next at byte {next}");
            return Err(self.fault(format!("{message}: its index is damaged")).hint(PAIR));
        }
        let bytes = u64::try_from(start)
            .ok()
            .and_then(|start| Some(start.checked_add(from * width)?..start.checked_add(to * width)?));
        bytes.filter(|bytes| bytes.end <= self.len).ok_or_else(|| {
            let message = format!("is cut short: sequence {at} has {length} tokens from byte {start} on");
            self.fault(format!("{message}, and the file has {} bytes; fetch it again", self.len))
        })
    }

    fn start(&self, at: usize) -> Option<i64> {
        match &self.pointers {
            Pointers::Given(pointers) => pointers.view().get(at),
            Pointers::Summed(starts) => i64::try_from(*starts.get(at)?).ok(),
        }
    }

    fn fault(&self, message: String) -> Error {
        Error::new(Kind::Content, message).in_input(self.name())
    }

    /// The bytes that [`TokenFile::place`] found, if the file is mapped.
    #[inline]
    pub(crate) fn mapped(&self, place: &Range<u64>) -> Option<&[u8]> {
        // A range is inside the file, which is mapped as a whole.
        self.map.as_ref()?.bytes().get(place.start as usize..place.end as usize)
    }

    /// The file that is read where it is not mapped.
    pub(crate) fn input(&self) -> &dyn Input {
        &*self.input
    }

    /// Converts tokens of the file to tokens of a batch.
    #[inline]
    pub(crate) fn convert(&self, from: &[u8], token_type: TokenType, out: &mut [u8]) -> Result<()> {
        convert(&self.element, from, token_type, out).map_err(|error| error.in_input(self.name()))
    }

    pub(crate) fn is_plain(&self, token_type: TokenType) -> bool {
        self.element == token_type.data_type()
    }

    pub(crate) fn gap(&self) -> u64 {
        self.gap
    }

    /// Its name for users.
    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// The number of sequences.
    pub fn sequences(&self) -> u64 {
        self.lengths.view().len() as u64
    }

    /// The lengths of its sequences, from which orders are built.
    pub fn lengths(&self) -> &IntArray {
        &self.lengths
    }

    /// The type of its tokens in a batch of only this file.
    pub(crate) fn token_type(&self) -> TokenType {
        self.token_type
    }

    /// Whether its bytes are mapped rather than read.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }
}

/// The first byte of each sequence.
fn summed(lengths: IntView<'_>, width: usize) -> Result<Vec<u64>> {
    let mut starts = Vec::new();
    if starts.try_reserve_exact(lengths.len()).is_err() {
        let message = format!("no memory for where {} sequences begin", lengths.len());
        return Err(Error::new(Kind::Limit, message));
    }
    let mut at = 0u64;
    for sequence in 0..lengths.len() {
        let length = lengths.get(sequence).unwrap_or_default();
        starts.push(at);
        let bytes = u64::try_from(length).ok().and_then(|length| length.checked_mul(width as u64)?.checked_add(at));
        at = bytes.ok_or_else(|| Error::content(format!("has {length} tokens in sequence {sequence}")))?;
    }
    Ok(starts)
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenFile")
            .field("name", &self.name())
            .field("mapped", &self.is_mapped())
            .finish_non_exhaustive()
    }
}
