//! Rows of tokens: inputs, labels, positions within documents, cumulative lengths.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, Launch, Module, address, optional};
use packhorse_core::{Error, Result};

/// Converts tokens `[rows, length]`, or one more per row, to the inputs of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRows {
    /// The type of the input: `U16`, `I32` or `I64`.
    pub token: Element,
    /// Inputs per row.
    pub length: u32,
    /// Whether a row has one more token, the label of the last input. Without it the last label is masked.
    pub extra_token: bool,
    /// The type of inputs, labels and positions: `I32` or `I64`, not narrower than the tokens.
    pub output: Element,
    /// How document boundaries are found.
    pub documents: Documents,
    /// The value of masked labels; -100 for torch.
    pub ignore: i64,
}

/// How the beginnings of documents in a row are found. The first token of a row always begins one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Documents {
    /// Each row is one document.
    #[default]
    Whole,
    /// After each occurrence of this token.
    After(i64),
    /// Where the segment id changes: [`TokenInputs::segments`].
    Segments,
    /// By cumulative lengths: [`TokenInputs::cumulative`].
    Cumulative,
}

/// Addresses of inputs; 0 for those that are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenInputs {
    /// The tokens.
    pub tokens: u64,
    /// `UInt8 [rows, length]`: 0 where the label is masked. The loader's `loss_mask`.
    pub mask: u64,
    /// `Int32 [rows, length]`, for [`Documents::Segments`]. The loader's `segment_ids`.
    pub segments: u64,
    /// `Int32 [boundaries]`, for [`Documents::Cumulative`]: increasing from 0 to `rows · length`, including the row
    /// boundaries. The loader's `cu_seqlens`.
    pub cumulative: u64,
    /// The number of entries in `cumulative`.
    pub boundaries: u32,
}

/// Addresses of outputs; 0 for those that are not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenOutputs {
    /// `[rows, length]` of [`TokenRows::output`]: all tokens except the extra one.
    pub inputs: u64,
    /// `[rows, length]` of [`TokenRows::output`]: the next token.
    pub labels: u64,
    /// `[rows, length]` of [`TokenRows::output`]: the position of a token in its document, from 0.
    pub positions: u64,
    /// `Int32 [rows · length + 1]`: cumulative lengths of the documents of all rows, from 0 to `rows · length`; the
    /// rest of the array is left unchanged.
    pub cumulative: u64,
    /// `Int32 [1]`: the number of entries in `cumulative`.
    pub entries: u64,
}

impl TokenRows {
    /// One document per row, rows with an extra token, 64-bit output.
    pub fn new(token: Element, length: u32) -> Self {
        let documents = Documents::Whole;
        Self { token, length, extra_token: true, output: Element::I64, documents, ignore: -100 }
    }

    /// The tensor of inputs, labels or positions.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.check(rows)?;
        Tensor::new(self.output, &[rows.into(), self.length.into()])
    }

    /// The tensor of cumulative lengths at its maximum size.
    pub fn cumulative(&self, rows: u32) -> Result<Tensor> {
        self.check(rows)?;
        Tensor::new(Element::I32, &[u64::from(rows) * u64::from(self.length) + 1])
    }

    /// Bytes of scratch memory that [`TokenRows::launch`] needs.
    pub fn scratch(&self, rows: u32) -> Result<usize> {
        self.check(rows)?;
        Ok(8 * rows as usize * (self.chunks().1 as usize + 1))
    }

    /// Tokens per chunk and chunks per row, which are about equal.
    fn chunks(&self) -> (u32, u32) {
        let chunk = self.length.isqrt().next_power_of_two().clamp(16, 1024);
        (chunk, self.length.div_ceil(chunk))
    }

    fn check(&self, rows: u32) -> Result<()> {
        if i32::try_from(u64::from(rows) * u64::from(self.length)).is_err() || rows == 0 || self.length == 0 {
            let message = format!("{rows} rows of {} tokens: give 1 to 2^31 - 1 in all", self.length);
            return Err(Error::config(message));
        }
        self.entries().map(|_| ())
    }

    /// The kernel that scans chunks, and the one that writes the outputs.
    fn entries(&self) -> Result<(&'static str, &'static str)> {
        Ok(match (self.token, self.output) {
            (Element::U16, Element::I32) => ("tokens_chunks_u16", "tokens_u16_i32"),
            (Element::U16, Element::I64) => ("tokens_chunks_u16", "tokens_u16_i64"),
            (Element::I32, Element::I32) => ("tokens_chunks_i32", "tokens_i32_i32"),
            (Element::I32, Element::I64) => ("tokens_chunks_i32", "tokens_i32_i64"),
            (Element::I64, Element::I64) => ("tokens_chunks_i64", "tokens_i64_i64"),
            (from, to) => {
                let message = format!("tokens of type {} can't become {}", from.name(), to.name());
                return Err(Error::config(format!("{message}: from u16 and i32 ask for i32 or i64, from i64 for i64")));
            }
        })
    }

    /// The consecutive launches for `rows` rows. `scratch` has [`TokenRows::scratch`] bytes; it is used only if
    /// positions or cumulative lengths are wanted and documents are found by tokens or segments.
    pub fn launch(&self, from: &TokenInputs, to: &TokenOutputs, scratch: u64, rows: u32) -> Result<Vec<Launch>> {
        self.check(rows)?;
        let starts = to.cumulative != 0;
        if starts && self.documents == Documents::Cumulative {
            return Err(Error::config("cumulative lengths are there already: use those"));
        }
        if to.entries != 0 && !starts {
            return Err(Error::config("a number of cumulative lengths without them: reserve memory for both"));
        }
        let told = matches!(self.documents, Documents::After(_) | Documents::Segments);
        let scan = starts || to.positions != 0 && told;
        let scratch = if scan { address("scratch", scratch, 4)? } else { 0 };
        let args = self.args(from, to, scratch, rows)?;
        let (chunks, write) = self.entries()?;
        let mut launches = Vec::with_capacity(4);
        if scan {
            launches.push(Launch::rows(Module::Tokens, chunks, self.chunks().1.into(), rows, args.clone())?);
            launches.push(Launch::flat(Module::Tokens, "tokens_rows", rows.into(), args.clone())?);
        }
        if starts {
            launches.push(Launch::flat(Module::Tokens, "tokens_bases", rows.into(), args.clone())?);
        }
        launches.push(Launch::rows(Module::Tokens, write, self.length.into(), rows, args)?);
        Ok(launches)
    }

    fn args(&self, from: &TokenInputs, to: &TokenOutputs, scratch: u64, rows: u32) -> Result<Args> {
        let (mode, end) = match self.documents {
            Documents::Whole => (0, 0),
            Documents::After(end) => (1, end),
            Documents::Segments => (2, 0),
            Documents::Cumulative => (3, 0),
        };
        let segments = if mode == 2 { address("segments", from.segments, 4)? } else { 0 };
        let cumulative = if mode == 3 { address("cumulative", from.cumulative, 4)? } else { 0 };
        if mode == 3 && from.boundaries < 2 {
            return Err(Error::config("fewer than two cumulative lengths: give 0 and the end at least"));
        }
        let (chunk, chunks) = self.chunks();
        let width = self.output.width();
        let part = 4 * u64::from(rows) * u64::from(chunks);
        let [last, before, counts, bases] = match scratch {
            0 => [0; 4],
            at => [at, at + part, at + 2 * part, at + 2 * part + 4 * u64::from(rows)],
        };
        Args::new()
            .u64(address("tokens", from.tokens, self.token.width())?)
            .u64(from.mask)
            .u64(segments)
            .u64(cumulative)
            .u64(optional("inputs", to.inputs, width)?)
            .u64(optional("labels", to.labels, width)?)
            .u64(optional("positions", to.positions, width)?)
            .u64(optional("cumulative lengths", to.cumulative, 4)?)
            .u64(optional("entries", to.entries, 4)?)
            .u64(last)
            .u64(before)
            .u64(counts)
            .u64(bases)
            .i64(end)
            .i64(self.ignore)
            .u32(rows)
            .u32(self.length)
            .u32(self.length + u32::from(self.extra_token))
            .u32(chunk)
            .u32(chunks)
            .u32(from.boundaries)
            .u32(mode)
            .u32(0)
            .finish(152)
    }
}
