//! Synthetic fields.

use super::Fields;
use super::{Commands, DeviceTransform, Output, batch, made, rows};
use crate::kernels::{Launch, Origin, SyntheticPictures, SyntheticTokens, Tensor};
use packhorse_core::{Error, Result};
use packhorse_read::Layout;

/// A field generated on the GPU, a function of seed, epoch and position. With
/// [`NullLoader`](packhorse_read::NullLoader) it makes batches that cost no reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// The field to make.
    pub into: String,
    /// The content of the field.
    pub what: SyntheticField,
    /// The seed of the samples.
    pub seed: u64,
}

/// The kind of a synthetic field.
#[derive(Clone, Debug, PartialEq)]
pub enum SyntheticField {
    /// Noise or letters.
    Pictures(SyntheticPictures),
    /// Rows of tokens.
    Tokens(SyntheticTokens),
}

impl Synthetic {
    /// Makes pictures as the field `into`.
    pub fn pictures(into: impl Into<String>, pictures: SyntheticPictures) -> Self {
        Self { into: into.into(), what: SyntheticField::Pictures(pictures), seed: 0 }
    }

    /// Makes tokens as the field `into`.
    pub fn tokens(into: impl Into<String>, tokens: SyntheticTokens) -> Self {
        Self { into: into.into(), what: SyntheticField::Tokens(tokens), seed: 0 }
    }

    fn tensor(&self, rows: u32) -> Result<Tensor> {
        match &self.what {
            SyntheticField::Pictures(pictures) => pictures.output(rows),
            SyntheticField::Tokens(tokens) => tokens.output(rows),
        }
    }

    fn launch(&self, origin: &Origin, to: u64, rows: u32) -> Result<Launch> {
        match &self.what {
            SyntheticField::Pictures(pictures) => pictures.launch(origin, to, rows),
            SyntheticField::Tokens(tokens) => tokens.launch(origin, to, rows),
        }
    }
}

// SAFETY: the kernel writes the promised field, whose size it gets, and reads nothing.
unsafe impl DeviceTransform for Synthetic {
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let dense = layout.fields().iter().find(|field| !field.ragged && !field.name.ends_with(".offsets"));
        let rows =
            batch(dense.ok_or_else(|| Error::config("batches have no field that says how many rows they have"))?)?;
        // Refuses invalid settings early.
        self.launch(&Origin::default(), 256, 1)?;
        Ok(vec![Output::rows(&self.into, self.tensor(rows)?)])
    }

    fn run(&self, fields: &Fields<'_>, _: u64, commands: &mut dyn Commands) -> Result<()> {
        let metadata = fields.metadata();
        let origin = Origin { seed: self.seed, step: metadata.epoch(), first: metadata.positions().start };
        commands.launch(&self.launch(&origin, made(fields, &self.into)?.address, rows(fields))?)
    }
}
