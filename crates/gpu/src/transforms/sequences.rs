//! Converts rows of tokens for a language model.

use super::Fields;
use super::{Commands, DeviceTransform, Output, batch, beside, element, field, made, rows, side, view};
use crate::kernels::{Documents, Element, Tensor, TokenInputs, TokenOutputs, TokenRows};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::Layout;

/// The field `tokens` of a [`TokenLoader`](packhorse_read::TokenLoader) as `inputs` and `labels`, and on request
/// `positions` and `cumulative` (with the number of its entries as `cumulative.entries`, `Int32 [1]`).
///
/// If the batch has a `loss_mask`, masked labels become [`ignore`](Sequences::ignore).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// The type of inputs, labels and positions: `I32` or `I64`.
    pub output: Element,
    /// How document boundaries are found: by a token, or by the fields `segment_ids` or `cu_seqlens` of the batch.
    pub documents: Documents,
    /// Whether rows have one token more than inputs, which is the loader's default.
    pub extra_token: bool,
    /// The value of masked labels.
    pub ignore: i64,
    /// Whether to make `positions`: positions within documents, from 0.
    pub positions: bool,
    /// Whether to make `cumulative`: cumulative lengths of documents from 0, for variable-length attention kernels.
    pub cumulative: bool,
}

impl Default for Sequences {
    /// `inputs` and `labels` of 64 bits, -100 for masked labels; each row is one document.
    fn default() -> Self {
        let documents = Documents::Whole;
        Self { output: Element::I64, documents, extra_token: true, ignore: -100, positions: false, cumulative: false }
    }
}

impl Sequences {
    fn kernel(&self, layout: &Layout) -> Result<(TokenRows, u32)> {
        let tokens = field(layout, "tokens", &[DataType::UInt16, DataType::Int32, DataType::Int64])?;
        let width = side(tokens.shape.get(1).copied().unwrap_or_default())?;
        let length = width.checked_sub(u32::from(self.extra_token)).filter(|length| *length > 0);
        let length = length.ok_or_else(|| Error::config(format!("rows of {width} tokens have no inputs")))?;
        let &Self { output, documents, extra_token, ignore, .. } = self;
        Ok((TokenRows { token: element(tokens)?, length, extra_token, output, documents, ignore }, batch(tokens)?))
    }
}

// SAFETY: the kernel accesses only the arrays whose addresses and sizes it is given, which are those of the fields.
unsafe impl DeviceTransform for Sequences {
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let (kernel, rows) = self.kernel(layout)?;
        match self.documents {
            Documents::Segments => beside(layout, "segment_ids", DataType::Int32, rows, &[kernel.length as usize])?,
            Documents::Cumulative => drop(field(layout, "cu_seqlens", &[DataType::Int32])?),
            Documents::Whole | Documents::After(_) => {}
        }
        if layout.field("loss_mask").is_some() {
            beside(layout, "loss_mask", DataType::UInt8, rows, &[kernel.length as usize])?;
        }
        if self.cumulative && self.documents == Documents::Cumulative {
            return Err(Error::config("the batch has cu_seqlens already: take those"));
        }
        let tensor = kernel.output(rows)?;
        let mut outputs = vec![Output::rows("inputs", tensor.clone()), Output::rows("labels", tensor.clone())];
        outputs.extend(self.positions.then(|| Output::rows("positions", tensor)));
        if self.cumulative {
            let entries = Tensor { element: Element::I32, shape: vec![1] };
            let made = [("cumulative", kernel.cumulative(rows)?), ("cumulative.entries", entries)];
            outputs.extend(made.map(|(name, tensor)| Output { name: name.to_owned(), tensor, by_row: false }));
        }
        Ok(outputs)
    }

    fn scratch(&self, layout: &Layout) -> Result<usize> {
        let (kernel, rows) = self.kernel(layout)?;
        kernel.scratch(rows)
    }

    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()> {
        let (kernel, _) = self.kernel(fields.layout())?;
        let came = |name: &str| fields.came(name).map_or(0, |view| view.address);
        let mut from =
            TokenInputs { tokens: view(fields, "tokens")?.address, mask: came("loss_mask"), ..TokenInputs::default() };
        match self.documents {
            Documents::Segments => from.segments = came("segment_ids"),
            Documents::Cumulative => {
                let lengths = view(fields, "cu_seqlens")?;
                from.cumulative = lengths.address;
                from.boundaries = side(lengths.shape.first().copied().unwrap_or_default())?;
            }
            Documents::Whole | Documents::After(_) => {}
        }
        let at = |name: &str, wanted: bool| if wanted { made(fields, name).map(|view| view.address) } else { Ok(0) };
        let to = TokenOutputs {
            inputs: at("inputs", true)?,
            labels: at("labels", true)?,
            positions: at("positions", self.positions)?,
            cumulative: at("cumulative", self.cumulative)?,
            entries: at("cumulative.entries", self.cumulative)?,
        };
        kernel.launch(&from, &to, scratch, rows(fields))?.iter().try_for_each(|launch| commands.launch(launch))
    }
}
