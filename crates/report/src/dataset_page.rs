//! The report on a dataset: one page to look at before training.

use crate::DiagnosisResult;
use crate::chart::number;
use crate::sample_cards::SampleCards;
use crate::survey::{Place, Survey, brief, survey};
use crate::{Card, Chart, Page};
use packhorse_core::{Cancel, Result, Store};
use packhorse_dataset::{Manifest, PathText, SKIPPED, SkipRecord};
use packhorse_read::Dataset;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

/// Samples that are shown.
const SHOWN: u64 = 48;

/// Classes that are shown; the others are counted together.
const CLASSES: usize = 40;

/// Rows of a table.
const ROWS: usize = 50;

/// A report, and what it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetReport {
    /// The page.
    pub html: String,
    /// Samples that were looked at.
    pub looked_at: u64,
    /// Samples and pictures that can't be read.
    pub faulty: u64,
    /// Groups of samples with equal content.
    pub doubles: u64,
    /// Samples with less than a hundredth of the median's bytes.
    pub nearly_empty: u64,
}

/// Looks at some of the samples of `dataset` and describes them on a page. `name` is its title. `sealed` is the manifest of a
/// sealed dataset and the folder it is in: its provenance, shards and skipped inputs. `diagnosis` is that of a training loop on it.
///
/// Errors: a shard that can't be opened; a damaged list of skipped inputs; `Cancelled`.
pub fn dataset_report(
    name: &str,
    dataset: &Dataset,
    sealed: Option<(&dyn Store, &Path, &Manifest)>,
    diagnosis: Option<&DiagnosisResult>,
    cancel: &Cancel,
) -> Result<DatasetReport> {
    let found = survey(dataset, cancel)?;
    let cards = SampleCards::new(dataset);
    let mut page = Page::new(name);
    page.facts(&facts(dataset, sealed.map(|(_, _, manifest)| manifest), &found));
    let step = (dataset.len() / SHOWN).max(1);
    let shown: Vec<Card> = (0..SHOWN.min(dataset.len())).map(|i| cards.card(i * step)).collect();
    page.cards("Samples", &shown);
    cancel.check()?;
    classes(&mut page, dataset, &found);
    let charts: Vec<Chart> = found
        .measures
        .iter()
        .filter_map(|(what, measure)| measure.histogram(format!("{what} ({} samples)", measure.len())))
        .collect();
    if !charts.is_empty() {
        page.heading("Sizes, shapes and values");
        page.charts(&charts);
        if !found.unmeasured.is_empty() {
            page.text(&format!("{} more kinds of values are not shown.", found.unmeasured.len()));
        }
    }
    if let Some((store, dir, manifest)) = sealed {
        shards(&mut page, manifest);
        skipped(&mut page, store, dir, manifest)?;
    }
    unusual(&mut page, &found);
    diagnosis.into_iter().for_each(|diagnosis| diagnosis.show(&mut page));
    Ok(DatasetReport {
        html: page.render(),
        looked_at: found.looked_at,
        faulty: found.faulty.len() as u64,
        doubles: found.doubles.len() as u64,
        nearly_empty: found.nearly_empty,
    })
}

fn facts(dataset: &Dataset, manifest: Option<&Manifest>, found: &Survey) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("samples", dataset.len().to_string()),
        ("looked at", found.looked_at.to_string()),
        ("bytes of shards", number(dataset.bytes() as f64)),
    ];
    if !dataset.classes().is_empty() {
        facts.push(("classes", dataset.classes().len().to_string()));
    }
    let Some(manifest) = manifest else { return facts };
    facts.push(("format", manifest.format.format.clone()));
    facts.push(("shards", manifest.shards.len().to_string()));
    for split in &manifest.splits {
        facts.push(("split", format!("{}: {}", split.name, split.samples)));
    }
    for transform in &manifest.transforms {
        facts.push(("transform", transform.clone()));
    }
    facts.push(("root digest", manifest.root.to_string()));
    facts.push(("plan", brief(&manifest.plan)));
    facts
}

/// How many samples of each class each split has.
fn classes(page: &mut Page, dataset: &Dataset, found: &Survey) {
    let mut numbers: Vec<u64> = found.splits.iter().flat_map(|split| split.classes.keys().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return;
    }
    let others = numbers.split_off(numbers.len().min(CLASSES));
    let name = |class: &u64| {
        let name = usize::try_from(*class).ok().and_then(|class| dataset.classes().get(class));
        name.map_or_else(|| class.to_string(), |name| format!("{class} {name}"))
    };
    let mut labels: Vec<String> = numbers.iter().map(name).collect();
    if !others.is_empty() {
        labels.push(format!("{} others", others.len()));
    }
    let series = found.splits.iter().map(|split| {
        let count = |class: &u64| split.classes.get(class).copied().unwrap_or(0) as f64;
        let mut values: Vec<f64> = numbers.iter().map(count).collect();
        if !others.is_empty() {
            values.push(others.iter().map(count).sum());
        }
        (if split.name.is_empty() { "samples".to_owned() } else { split.name.clone() }, values)
    });
    page.heading("Classes");
    page.charts(&[Chart {
        title: "Samples of each class".to_owned(),
        labels,
        series: series.collect(),
        upright: false,
    }]);
}

/// How even the shards are.
fn shards(page: &mut Page, manifest: &Manifest) {
    let mut measures = [("samples in a shard", Vec::new()), ("bytes of a shard", Vec::new())];
    for shard in &manifest.shards {
        for ((_, values), value) in measures.iter_mut().zip([shard.samples, shard.bytes]) {
            values.push(value as f64);
        }
    }
    let chart = |(what, values): (&str, Vec<f64>)| {
        let mut measure = crate::histogram::Measure::default();
        values.into_iter().for_each(|value| measure.push(value));
        let chart = measure.histogram(format!("{what} ({} shards)", measure.len()))?;
        Some(Chart {
            series: chart.series.into_iter().map(|(_, values)| ("shards".to_owned(), values)).collect(),
            ..chart
        })
    };
    page.heading("Shards");
    page.charts(&measures.into_iter().filter_map(chart).collect::<Vec<_>>());
}

/// The inputs that were left out, and why.
fn skipped(page: &mut Page, store: &dyn Store, dir: &Path, manifest: &Manifest) -> Result<()> {
    if manifest.skipped == 0 && manifest.omitted.is_empty() {
        return Ok(());
    }
    page.heading("Left out");
    let path = |path: &Option<PathText>| path.as_ref().map(PathText::to_string).unwrap_or_default();
    if manifest.skipped > 0 {
        let input = store.open(&dir.join(SKIPPED))?;
        let lines = BufReader::new(input.stream()?).lines().map_while(std::io::Result::ok);
        let records: Vec<SkipRecord> = lines.filter_map(|line| serde_json::from_str(&line).ok()).take(ROWS).collect();
        page.text(&format!("{} inputs or samples were skipped; the first {ROWS}:", manifest.skipped));
        let row = |record: &SkipRecord| {
            let sample = record.sample.clone().unwrap_or_default();
            vec![path(&record.input), sample, record.samples.to_string(), record.reason.clone()]
        };
        let rows: Vec<_> = records.iter().map(row).collect();
        page.table(&["input", "sample", "samples", "why"], &rows);
    }
    if !manifest.omitted.is_empty() {
        page.text("Fields of the inputs that can't be read:");
        let rows = manifest.omitted.iter().take(ROWS);
        let rows: Vec<_> = rows
            .map(|omitted| {
                vec![
                    omitted.field.clone(),
                    omitted.inputs.to_string(),
                    omitted.first.to_string(),
                    omitted.reason.clone(),
                ]
            })
            .collect();
        page.table(&["field", "inputs", "first", "why"], &rows);
    }
    Ok(())
}

/// Samples to look at: bad, equal, very small and very large ones.
fn unusual(page: &mut Page, found: &Survey) {
    let card = |place: Place, (name, value): (&str, String)| {
        let mut card = found.card(place);
        card.lines.insert(0, (name.to_owned(), value));
        card
    };
    if !found.faulty.is_empty() {
        page.heading("Can't be read");
        page.text(&format!("{} of the samples that were looked at; the first {ROWS}:", found.faulty.len()));
        page.table(&["why"], &found.faulty.iter().take(ROWS).map(|why| vec![why.clone()]).collect::<Vec<_>>());
    }
    if !found.doubles.is_empty() {
        let (groups, samples) =
            (found.doubles.len(), found.doubles.iter().map(|(_, _, count)| count - 1).sum::<usize>());
        page.heading("Equal content");
        page.text(&format!("{samples} of the samples that were looked at repeat another one, in {groups} groups."));
        let pair = |(first, second, count): &(Place, Place, usize)| {
            let first = card(*first, ("in the group", count.to_string()));
            let second = card(*second, ("equal to", first.title.clone()));
            [first, second]
        };
        let shown: Vec<Card> = found.doubles.iter().take(6).flat_map(pair).collect();
        page.cards("The first groups", &shown);
    }
    let extremes = |ends: &[(Place, u64)]| -> Vec<Card> {
        ends.iter().map(|(place, bytes)| card(*place, ("bytes", bytes.to_string()))).collect()
    };
    if found.nearly_empty > 0 {
        page.text(&format!("{} samples have less than a hundredth of the median's bytes.", found.nearly_empty));
    }
    page.cards("The smallest samples", &extremes(&found.smallest));
    page.cards("The largest samples", &extremes(&found.largest));
}
