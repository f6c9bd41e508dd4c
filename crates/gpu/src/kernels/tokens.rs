//! Rows of tokens: inputs, labels, positions within documents, cumulative lengths.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, Launch, Module, address, optional};
use packhorse_core::{Error, Result};

/// Tokens `[rows, length]`, or one more a row, to what a language model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRows {
    /// `U16`, `I32` or `I64`: what comes in.
    pub token: Element,
    /// Inputs a row.
    pub length: u32,
    /// Whether a row has a token more, the last one's label. Without it the last label does not count.
    pub extra_token: bool,
    /// `I32` or `I64`: inputs, labels and positions. Not narrower than the tokens.
    pub output: Element,
    /// Where documents begin.
    pub documents: Documents,
    /// What labels are that do not count; -100 for torch.
    pub ignore: i64,
}

/// How to find where in a row a document begins. The first token of a row begins one in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Documents {
    /// A row is one.
    #[default]
    Whole,
    /// The token after this one.
    After(i64),
    /// A number of a segment that is not the one before: [`TokenInputs::segments`].
    Segments,
    /// Cumulative lengths: [`TokenInputs::cumulative`].
    Cumulative,
}

/// Addresses of inputs; 0 for those that are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenInputs {
    /// The tokens.
    pub tokens: u64,
    /// `UInt8 [rows, length]`: 0 where the label does not count. The loader's `loss_mask`.
    pub mask: u64,
    /// `Int32 [rows, length]`, for [`Documents::Segments`]. The loader's `segment_ids`.
    pub segments: u64,
    /// `Int32 [boundaries]`, for [`Documents::Cumulative`]: from 0, rising, to `rows · length`, the edges of rows among them. The
    /// loader's `cu_seqlens`.
    pub cumulative: u64,
    /// Entries there.
    pub boundaries: u32,
}

/// Addresses of outputs; 0 for those that are not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenOutputs {
    /// `[rows, length]` of [`TokenRows::output`]: all tokens but an extra one.
    pub inputs: u64,
    /// `[rows, length]` of [`TokenRows::output`]: the token that follows.
    pub labels: u64,
    /// `[rows, length]` of [`TokenRows::output`]: the place of a token in its document, from 0.
    pub positions: u64,
    /// `Int32 [rows · length + 1]`: cumulative lengths of the documents of all rows, from 0 to `rows · length`; what lies past the
    /// entries is left unchanged.
    pub cumulative: u64,
    /// `Int32 [1]`: how many entries `cumulative` has.
    pub entries: u64,
}

impl TokenRows {
    /// One document a row, rows with an extra token, 64 bits out.
    pub fn new(token: Element, length: u32) -> Self {
        let documents = Documents::Whole;
        Self { token, length, extra_token: true, output: Element::I64, documents, ignore: -100 }
    }

    /// What inputs, labels and positions are, each.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.check(rows)?;
        Tensor::new(self.output, &[rows.into(), self.length.into()])
    }

    /// What cumulative lengths are, if all their entries are used.
    pub fn cumulative(&self, rows: u32) -> Result<Tensor> {
        self.check(rows)?;
        Tensor::new(Element::I32, &[u64::from(rows) * u64::from(self.length) + 1])
    }

    /// Bytes that [`TokenRows::launch`] needs beside what it reads and writes.
    pub fn scratch(&self, rows: u32) -> Result<usize> {
        self.check(rows)?;
        Ok(8 * rows as usize * (self.chunks().1 as usize + 1))
    }

    /// Tokens a chunk, about as many as a row has chunks; chunks a row.
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

    /// The kernel that looks through chunks, and the one that writes.
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

    /// The launches, one after another, for `rows` rows. `scratch` has [`TokenRows::scratch`] bytes; it is used only if positions
    /// or cumulative lengths are wanted and documents are found by tokens or segments.
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
