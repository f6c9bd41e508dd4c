//! The content of a dataset: classes, sizes, shapes, lengths, doubles and extremes, from some of its samples.

use crate::Card;
use crate::histogram::Measure;
use crate::numbers::{blobs, content as contents, length, numbers};
use crate::sample_cards::{SampleCards, is_picture};
use arrow_array::Array;
use packhorse_core::{Cancel, Error, FieldType, KEY, Limits, Result, Rows, Sample, rows_bytes};
use packhorse_dataset::Digest;
use packhorse_read::Dataset;
use packhorse_transform::image::{View, ViewDecoder};
use std::collections::{BTreeMap, BTreeSet};

/// The most samples that are looked at.
const SAMPLES: u64 = 10_000;

/// The most bytes of samples that are looked at.
const BYTES: u64 = 512 << 20;

/// The most samples that are read at a time, and about the bytes that they may have.
const AT_ONCE: u64 = 256;
const ROOM: u64 = 64 << 20;

/// The smallest and the largest samples that are shown.
const EXTREMES: usize = 6;

/// The most kinds of values that are measured: a table may have thousands of columns.
const MEASURES: usize = 60;

/// A sample is nearly empty if it has less than this share of the median's bytes.
const NEARLY_EMPTY: f64 = 0.01;

/// A sample: the number of its split, and its number in that.
pub(crate) type Place = (usize, u64);

/// What [`survey`] found.
#[derive(Default)]
pub(crate) struct Survey {
    /// The number of samples that were looked at.
    pub(crate) looked_at: u64,
    /// The splits in order; one without a name if there are none.
    pub(crate) splits: Vec<SurveyedSplit>,
    /// Measured values by what they are: `bytes of jpg`, `width of jpg`, `length of x`.
    pub(crate) measures: BTreeMap<String, Measure>,
    /// Kinds of values beyond [`MEASURES`].
    pub(crate) unmeasured: BTreeSet<String>,
    /// Samples with equal content: the first two of each group, and the size of the group.
    pub(crate) doubles: Vec<(Place, Place, usize)>,
    /// The smallest and the largest samples, with their bytes.
    pub(crate) smallest: Vec<(Place, u64)>,
    pub(crate) largest: Vec<(Place, u64)>,
    /// How many samples are nearly empty.
    pub(crate) nearly_empty: u64,
    /// Why samples and pictures could not be read.
    pub(crate) faulty: Vec<String>,
    sizes: Vec<(u64, Place)>,
    contents: BTreeMap<[u8; 32], (Place, Option<Place>, usize)>,
}

/// A split that was looked at.
pub(crate) struct SurveyedSplit {
    pub(crate) name: String,
    /// The samples of each class.
    pub(crate) classes: BTreeMap<u64, u64>,
    cards: SampleCards,
}

/// Looks at up to 10,000 samples of `dataset`, or fewer of large ones, evenly over each split.
///
/// Errors: a shard that can't be opened. A sample that can't be read is in the result.
pub(crate) fn survey(dataset: &Dataset, cancel: &Cancel) -> Result<Survey> {
    let mut found = Survey::default();
    let mean = dataset.bytes() / dataset.len().max(1);
    let most = SAMPLES.min(BYTES / mean.max(1)).max(1);
    let names = dataset.splits();
    let splits: Vec<(String, Dataset)> = match names.is_empty() {
        true => vec![(String::new(), dataset.clone())],
        false => names.into_iter().map(|name| Ok((name.clone(), dataset.split(&name)?))).collect::<Result<_>>()?,
    };
    for (name, split) in splits {
        let share = u128::from(most) * u128::from(split.len()) / u128::from(dataset.len().max(1));
        let wanted = u64::try_from(share).unwrap_or(most).clamp(1, split.len().max(1)).min(split.len());
        let cards = SampleCards::new(&split);
        found.splits.push(SurveyedSplit { name, classes: BTreeMap::new(), cards });
        found.look(split.len(), wanted, cancel)?;
    }
    found.conclude();
    Ok(found)
}

impl Survey {
    /// The card of a sample.
    pub(crate) fn card(&self, (split, number): Place) -> Card {
        self.splits.get(split).map_or_else(Card::default, |split| split.cards.card(number))
    }

    /// Looks at `wanted` of the `samples` samples of the last split.
    fn look(&mut self, samples: u64, wanted: u64, cancel: &Cancel) -> Result<()> {
        let split = self.splits.len().saturating_sub(1);
        let mut decoder = ViewDecoder::new(View::default(), Limits::default())?;
        let number =
            |i: u64| u64::try_from(u128::from(i) * u128::from(samples) / u128::from(wanted.max(1))).unwrap_or(0);
        // Values may be far larger than files store them.
        let (mut to, mut at_once) = (0, 1);
        while to < wanted {
            cancel.check()?;
            let from = to;
            to = wanted.min(from + at_once);
            if let Ok(rows) = self.rows(split, (from..to).map(number)) {
                (from..to).zip(0..).for_each(|(i, row)| self.add(&rows, row, (split, number(i)), &mut decoder));
                let each = rows_bytes(&rows) as u64 / (to - from);
                at_once = (ROOM / each.max(1)).clamp(1, AT_ONCE.min(2 * at_once));
                continue;
            }
            // One of them is bad: which?
            for number in (from..to).map(number) {
                match self.rows(split, std::iter::once(number)) {
                    Ok(rows) => self.add(&rows, 0, (split, number), &mut decoder),
                    Err(e) => self.faulty.push(e.to_string()),
                }
            }
        }
        self.looked_at += wanted;
        Ok(())
    }

    fn rows(&self, split: usize, numbers: impl Iterator<Item = u64> + Send) -> Result<Rows> {
        let split = self.splits.get(split).ok_or_else(|| Error::bug("a split that is not there"))?;
        split.cards.rows(numbers)
    }

    fn add(&mut self, rows: &Rows, row: usize, place: Place, decoder: &mut ViewDecoder) {
        let Some(sample) = Sample::new(rows, row) else { return };
        let (mut bytes, mut content) = (0u64, blake3::Hasher::new());
        let schema = rows.schema_ref();
        for (at, (field, column)) in schema.fields().iter().zip(rows.columns()).enumerate() {
            if field.name() == KEY {
                continue;
            }
            let (Ok(kind), true) = (FieldType::of(field), column.is_valid(row)) else { continue };
            content.update(&(at as u64).to_le_bytes());
            let name = field.name();
            if let Some(value) = sample.bytes_at(at) {
                bytes += value.len() as u64;
                content.update(&(value.len() as u64).to_le_bytes()).update(value);
                self.measure(format!("bytes of {name}"), value.len() as f64);
                self.blob(name, value, &sample, decoder);
                continue;
            }
            let hashed = contents(&kind, column, row, &mut |part| {
                content.update(part);
            });
            bytes += hashed.unwrap_or(0);
            for value in blobs(&kind, column, row).iter().flatten().flatten() {
                self.blob(name, value, &sample, decoder);
            }
            if hashed.is_none() {
                // Of such types doubles are not known.
                content.update(&place.0.to_le_bytes()).update(&place.1.to_le_bytes());
            }
            if let Some(length) = length(&kind, column, row) {
                self.measure(format!("length of {name}"), length as f64);
            }
            if let (FieldType::Scalar(_), Some([value])) = (&kind, numbers(&kind, column, row, 1).as_deref()) {
                self.scalar(name, *value);
            }
        }
        self.sizes.push((bytes, place));
        let known = self.contents.entry(*content.finalize().as_bytes()).or_insert((place, None, 0));
        known.2 += 1;
        if known.2 > 1 {
            known.1.get_or_insert(place);
        }
    }

    fn blob(&mut self, name: &str, value: &[u8], sample: &Sample<'_>, decoder: &mut ViewDecoder) {
        if is_picture(name) {
            match decoder.size(value) {
                Ok((height, width)) => {
                    self.measure(format!("width of {name}"), width.into());
                    self.measure(format!("height of {name}"), height.into());
                    self.measure(format!("width / height of {name}"), f64::from(width) / f64::from(height.max(1)));
                }
                Err(e) => self.faulty.push(e.in_sample(sample.key().unwrap_or_default()).in_field(name).to_string()),
            }
        } else if let Ok(text) = std::str::from_utf8(value) {
            match (name, text.trim().parse::<f64>()) {
                (_, Ok(value)) => self.scalar(name, value),
                ("json", _) => {}
                _ => self.measure(format!("characters of {name}"), text.chars().count() as f64),
            }
        }
    }

    fn scalar(&mut self, name: &str, value: f64) {
        match self.splits.last_mut() {
            Some(split) if name == "cls" && value >= 0.0 && value.fract() == 0.0 => {
                *split.classes.entry(value as u64).or_default() += 1;
            }
            _ => self.measure(name.to_owned(), value),
        }
    }

    fn measure(&mut self, what: String, value: f64) {
        match self.measures.len() < MEASURES || self.measures.contains_key(&what) {
            true => self.measures.entry(what).or_default().push(value),
            false => drop(self.unmeasured.insert(what)),
        }
    }

    /// Finds what only all samples together show.
    fn conclude(&mut self) {
        let mut sizes = std::mem::take(&mut self.sizes);
        sizes.sort_unstable();
        let median = sizes.get(sizes.len() / 2).map_or(0, |(bytes, _)| *bytes);
        let empty = sizes.partition_point(|(bytes, _)| (*bytes as f64) < median as f64 * NEARLY_EMPTY);
        self.nearly_empty = empty as u64;
        let turned = |(bytes, place): &(u64, Place)| (*place, *bytes);
        self.smallest = sizes.iter().take(EXTREMES).map(turned).collect();
        self.largest = sizes.iter().rev().take(EXTREMES).map(turned).collect();
        let contents = std::mem::take(&mut self.contents).into_values();
        self.doubles = contents.filter_map(|(first, second, count)| Some((first, second?, count))).collect();
        self.doubles.sort_unstable();
    }
}

/// The digest of a document of a dataset, shortened.
pub(crate) fn brief(digest: &Digest) -> String {
    digest.to_string().chars().take(16).collect()
}
