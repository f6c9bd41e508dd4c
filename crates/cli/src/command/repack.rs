//! `packhorse diagnose --repack`: what packing a dataset in another way would gain.

use super::CommandContext;
use super::bench::Load;
use packhorse_core::{Error, Kind, Result};
use packhorse_dataset::Manifest;
use packhorse_machine::TestFolder;
use packhorse_pack::{Recipe, Session};
use packhorse_read::diagnose::{Bottleneck, Diagnosis};
use packhorse_read::{Dataset, FieldOptions, LoaderOptions, OpenOptions};
use packhorse_storage::Location;
use std::path::Path;
use std::sync::Arc;

/// Bytes of samples that are packed in each way, about.
const SIZE: u64 = 64 << 20;
/// Batches of them, at least.
const BATCHES: u64 = 4;
/// Other codecs, by format: tried unasked where reading takes time.
const CODECS: [(&str, &[&str]); 3] = [
    ("hdf5", &["filter=none", "filter=lz4", "filter=zstd"]),
    ("parquet", &["compression=none", "compression=snappy", "compression=zstd"]),
    ("tfrecord", &["compression=none"]),
];

/// The ways of packing to compare with.
pub(super) struct Ways {
    /// The recipe of each, and the settings that make it another one.
    ways: Vec<(Recipe, String)>,
    /// Whether they were asked for.
    asked: bool,
}

impl Ways {
    /// Those of the flags; without any the other codecs of the dataset's format.
    ///
    /// Errors (kind `Config`): unknown settings, values that they do not take.
    pub(super) fn new(context: &CommandContext<'_>, place: &str, asked: &[String]) -> Result<Self> {
        let (store, dir) = context.stores.open(&Location::parse(place)?)?;
        let format = Manifest::read(&*store, &dir).ok().flatten().map(|manifest| manifest.format.format);
        let codecs = CODECS.iter().find(|(of, _)| format.as_deref() == Some(of)).map_or(&[][..], |(_, codecs)| codecs);
        let unasked = codecs.iter().map(|settings| (*settings).to_owned());
        let all: Vec<String> = if asked.is_empty() { unasked.collect() } else { asked.to_vec() };
        let recipe = |settings: String| Ok((recipe(place, format.as_deref(), &settings)?, settings));
        let ways = all.into_iter().map(recipe).collect::<Result<_>>()?;
        Ok(Self { ways, asked: !asked.is_empty() })
    }

    /// Adds what they would gain to a diagnosis, those that were not asked for if the loop waits for reading.
    pub(super) fn add_to(
        &self,
        found: &mut Diagnosis,
        context: &CommandContext<'_>,
        load: &Load,
        fields: &[FieldOptions],
        options: &LoaderOptions,
    ) -> Result<()> {
        let reads = [Bottleneck::Read, Bottleneck::Storage];
        let reads = found.verdict.costs.iter().any(|cost| reads.contains(&cost.stage));
        if found.verdict.bottleneck == Bottleneck::Step || !(self.asked || reads) {
            return Ok(());
        }
        let all = load.dataset.len();
        let size = (load.dataset.bytes() / all.max(1)).max(1);
        let samples = (SIZE / size).max(BATCHES * u64::from(options.batch)).min(all);
        let now = load.dataset.take(samples)?;
        for (recipe, settings) in &self.ways {
            let says = format!("pack it again with {settings}");
            let name = format!("repack {settings}");
            let mut add = || {
                let folder = TestFolder::new(&std::env::temp_dir(), "packhorse-repack", 2 * size * samples)?;
                let other = packed(context, recipe, samples, folder.path())?;
                found.add_packing(&name, &says, [&now, &other], fields, options)
            };
            match add() {
                // A codec whose plugin is not here, a full disk: it was not asked for.
                Err(e) if !self.asked && e.kind() != Kind::Cancelled => {
                    found.verdict.notes.push(format!("{settings} was not tried: {e}"));
                }
                predicted => {
                    let predicted = predicted?;
                    if self.asked && !found.remedies.iter().any(|remedy| remedy.name == name) {
                        found.verdict.notes.push(format!("{settings} would give {predicted:.2} steps/s, not more"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The recipe of these settings, `NAME=VALUE` with spaces between them, for the dataset at `place`.
fn recipe(place: &str, format: Option<&str>, settings: &str) -> Result<Recipe> {
    let mut pairs = Vec::new();
    for setting in settings.split_whitespace() {
        let pair = setting.split_once('=');
        pairs.push(pair.ok_or_else(|| Error::config(format!("--repack takes NAME=VALUE, not {setting}")))?);
    }
    let to = pairs.iter().find(|(name, _)| *name == "to").map(|(_, to)| *to).or(format);
    let to =
        to.ok_or_else(|| Error::config("--repack needs a format here, such as to=hdf5: shards of others have none"))?;
    let others = pairs.iter().filter(|(name, _)| *name != "to");
    let recipe =
        others.clone().try_fold(Recipe::new(place, to, ""), |recipe, (name, value)| recipe.with(name, value))?;
    match others.map(|(name, _)| *name).find(|name| ["out", "input", "limit"].contains(name)) {
        Some(name) => Err(Error::config(format!("--repack: {name} is not a way of packing"))),
        None => Ok(recipe),
    }
}

/// The first samples of the dataset, packed.
fn packed(context: &CommandContext<'_>, recipe: &Recipe, samples: u64, out: &Path) -> Result<Dataset> {
    let out = out.join("shards");
    let recipe = Recipe { out: Some(out.clone()), ..recipe.clone() }.limit(samples);
    let session =
        Session::new(context.registry.clone()).store(Arc::clone(&context.store)).cancel(context.cancel.clone());
    session.pack(&recipe)?;
    Dataset::open(context.registry, Arc::clone(&context.store), &out, &OpenOptions::default())
}
