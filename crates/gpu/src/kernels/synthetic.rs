//! Batches generated on the device, as an upper bound for measurements of loaders and for trial runs of a training.
//!
//! Sample `i` of a step is a function of seed, step and `i`, independent of the batch: its key is output `i` of
//! SplitMix64 seeded with output `step` of SplitMix64 seeded with a number derived from the seed and the kind of
//! sample.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, Launch, Module, address};
use super::pixels::Pixels;
use packhorse_core::{Error, Result, SplitMix64};

/// Identifies the samples to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The seed.
    pub seed: u64,
    /// The training step.
    pub step: u64,
    /// The number of the first sample in the batch, for example 64 for rank 1 with batches of 64.
    pub first: u64,
}

impl Origin {
    fn key(&self, tag: &[u8; 8]) -> u64 {
        SplitMix64::at(SplitMix64::at(self.seed, u64::from_le_bytes(*tag)), self.step)
    }
}

/// Synthetic pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticPictures {
    /// Their content.
    pub motif: Motif,
    /// Height and width.
    pub size: (u32, u32),
    /// 1, 3 or 4.
    pub channels: u32,
    /// The format of the output.
    pub output: Pixels,
}

/// The content of a synthetic picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Motif {
    /// Uniformly random pixels: channel `c` of pixel `i` is byte `c`, lowest first, of output `i` of SplitMix64.
    #[default]
    Noise,
    /// Letters and digits, five dots wide and seven high, in many colours on a plain background.
    Letters {
        /// Pixels per dot, 1 to 1024.
        dot: u32,
    },
}

impl SyntheticPictures {
    /// The output of `rows` pictures.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.output.tensor(rows, self.size, self.channels)
    }

    /// The launch that makes `rows` samples at `output`.
    pub fn launch(&self, origin: &Origin, output: u64, rows: u32) -> Result<Launch> {
        let (key, dot) = match self.motif {
            Motif::Noise => (origin.key(b"noise..."), 0),
            Motif::Letters { dot: dot @ 1..=1024 } => (origin.key(b"letters."), dot),
            Motif::Letters { dot } => {
                return Err(Error::config(format!("letters of {dot} pixels a dot: give 1 to 1024")));
            }
        };
        let args = self.output.args(output, rows, self.size, self.channels)?;
        let args = args.u64(key).u64(origin.first).u32(dot).u32(0).finish(120)?;
        let entry = self.output.entry(["pictures_u8", "pictures_f16", "pictures_bf16", "pictures_f32"])?;
        Launch::pictures(Module::Synthetic, entry, self.size, rows, args)
    }
}

/// Synthetic tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticTokens {
    /// `U16`, `I32` or `I64`.
    pub token: Element,
    /// Tokens per row, at least 1.
    pub width: u32,
    /// Tokens are uniform below this; at least 1.
    pub vocabulary: u64,
    /// The token that ends documents, and the mean number of tokens per document, at least 1.
    pub end: Option<(i64, u64)>,
}

impl SyntheticTokens {
    /// The output of `rows` rows.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.entry()?;
        Tensor::new(self.token, &[rows.into(), self.width.into()])
    }

    /// The kernel and the largest token of the type.
    fn entry(&self) -> Result<(&'static str, i64)> {
        Ok(match self.token {
            Element::U16 => ("drawn_tokens_u16", u16::MAX.into()),
            Element::I32 => ("drawn_tokens_i32", i32::MAX.into()),
            Element::I64 => ("drawn_tokens_i64", i64::MAX),
            other => return Err(Error::config(format!("tokens can't be {}: ask for u16, i32 or i64", other.name()))),
        })
    }

    /// The launch that makes `rows` samples at `output`.
    pub fn launch(&self, origin: &Origin, output: u64, rows: u32) -> Result<Launch> {
        self.output(rows)?;
        let ((entry, most), (end, every)) = (self.entry()?, self.end.unwrap_or((0, 0)));
        if self.vocabulary == 0 || self.vocabulary - 1 > most as u64 || !(0..=most).contains(&end) {
            let message = format!("{} tokens, {end} among them: give 1 to {most}, all of {}", self.vocabulary, entry);
            return Err(Error::config(message));
        }
        if self.end.is_some() && every == 0 {
            return Err(Error::config("documents end after 0 tokens: give 1 at least"));
        }
        let args = Args::new()
            .u64(address("output", output, self.token.width())?)
            .u64(origin.key(b"tokens.."))
            .u64(origin.first)
            .u64(self.vocabulary)
            .u64(every)
            .i64(end)
            .u32(rows)
            .u32(self.width)
            .finish(56)?;
        Launch::rows(Module::Synthetic, entry, self.width.into(), rows, args)
    }
}
