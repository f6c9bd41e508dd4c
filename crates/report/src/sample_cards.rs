//! Samples of a dataset as cards: their values as text, a picture, an array as a line.

use crate::numbers::numbers;
use crate::{Card, thumbnail};
use arrow_array::Array;
use packhorse_core::{Error, FieldType, KEY, Limits, Result, Rows, Sample, Schema, SchemaRef, counted};
use packhorse_pack::Preview;
use packhorse_read::{Column, Dataset, ReadOptions, Reader, SampleBlock, Wants};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Extensions of fields that hold pictures.
const PICTURES: [&str; 11] = ["jpg", "jpeg", "png", "webp", "tif", "tiff", "bmp", "gif", "ppm", "pgm", "pbm"];

/// The longer side of a picture, in pixels.
const SIDE: u32 = 160;

/// Numbers of an array that are drawn: fewer say more as text.
const DRAWN: RangeInclusive<usize> = 8..=200;

/// Fields on a card.
const FIELDS: usize = 12;

/// Whether a field of this name holds pictures, by its extension.
pub fn is_picture(name: &str) -> bool {
    PICTURES.contains(&name.rsplit('.').next().unwrap_or_default())
}

/// Makes cards of the samples of a dataset.
pub struct SampleCards {
    dataset: Dataset,
    reader: Reader,
    schema: SchemaRef,
}

impl SampleCards {
    /// Cards of the samples of `dataset`.
    pub fn new(dataset: &Dataset) -> Self {
        let fields = dataset.schema().fields();
        let columns = fields.iter().map(|field| Column(vec![field.name().clone()])).collect();
        let key = Arc::new(FieldType::Text.field(KEY, false));
        let all: Vec<_> = std::iter::once(key).chain(fields.iter().cloned()).collect();
        Self {
            reader: Reader::new(dataset.clone(), columns, ReadOptions::in_order()),
            schema: Arc::new(Schema::new(all)),
            dataset: dataset.clone(),
        }
    }

    /// The samples with these numbers, as rows: keys, then the fields of the dataset.
    ///
    /// Errors: those of reading them.
    pub fn rows(&self, numbers: impl Iterator<Item = u64> + Send) -> Result<Rows> {
        let mut block = SampleBlock::default();
        self.reader.read(numbers, &mut Wants::default(), &mut block)?;
        block.rows(&self.schema)
    }

    /// The card of a sample; if it can't be read, the card says why.
    pub fn card(&self, number: u64) -> Card {
        match self.rows(std::iter::once(number)) {
            Ok(rows) => self.card_of(&rows, 0),
            Err(error) => Card { lines: vec![("error".to_owned(), error.to_string())], ..Card::default() },
        }
    }

    /// The card of row `row` of rows that [`rows`](Self::rows) read. A picture that can't be decoded is an error on it.
    pub fn card_of(&self, rows: &Rows, row: usize) -> Card {
        let mut card = Card::default();
        if let Err(error) = self.look(rows, row, &mut card) {
            card.lines.push(("error".to_owned(), error.to_string()));
        }
        card
    }

    fn look(&self, rows: &Rows, row: usize, card: &mut Card) -> Result<()> {
        let sample = Sample::new(rows, row).ok_or_else(|| Error::bug("a row is missing"))?;
        let Preview { key, fields } = Preview::new(self.dataset.registry(), rows, row, row)?;
        card.title = key;
        let more = fields.len().saturating_sub(FIELDS);
        for (name, value) in fields.into_iter().take(FIELDS) {
            let class =
                (name == "cls").then(|| self.dataset.classes().get(value.trim().parse::<usize>().ok()?)).flatten();
            let value = class.map_or_else(|| value.clone(), |class| format!("{value} ({class})"));
            card.lines.push((name, value));
        }
        if more > 0 {
            card.lines.push((String::new(), format!("and {}", counted(more as u64, "more field"))));
        }
        let fields = self.schema.fields();
        let picture =
            fields.iter().filter(|field| is_picture(field.name())).find_map(|field| sample.bytes(field.name()));
        if let Some(bytes) = picture {
            card.picture = Some(thumbnail(bytes, SIDE, Limits::default())?);
            return Ok(());
        }
        let array = fields.iter().zip(rows.columns()).find_map(|(field, column)| {
            let kind = FieldType::of(field).ok().filter(|kind| !matches!(kind, FieldType::Scalar(_)))?;
            column
                .is_valid(row)
                .then(|| numbers(&kind, column, row, *DRAWN.end()))?
                .filter(|values| values.len() >= *DRAWN.start())
        });
        card.plot = array.unwrap_or_default();
        Ok(())
    }
}
