//! A builder of loaders. Owns the defaults of a training process; refuses to know how samples are read.

use crate::diagnose::{DiagnoseOptions, Diagnosis, TrainingStep, diagnose};
use crate::{
    CacheOptions, Column, Dataset, Device, FieldKind, FieldOptions, Host, Loader, LoaderOptions, OnError, Remainder,
    Verify,
};
use packhorse_core::{DataType, Error, Event, Observer, Result};
use packhorse_order::{OrderState, Rank, Shuffle};
use packhorse_transform::image::View;
use std::sync::Arc;

/// Settings of a [`Loader`], made by [`Dataset::loader`]. Settings that are not given have the values of
/// [`LoaderOptions::new`]; rank and world size come from the environment of the process, and batches stay in host
/// memory.
///
/// ```
/// use packhorse_core::Result;
/// use packhorse_read::Dataset;
///
/// fn count(dataset: &Dataset) -> Result<usize> {
///     let loader = dataset.loader(32).field("label", "cls").seed(7).epochs(1).build()?;
///     loader.map(|batch| Ok(batch?.rows())).sum()
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call build() to get the loader"]
pub struct LoaderBuilder<D = Host> {
    samples: Samples,
    fields: Vec<FieldOptions>,
    options: LoaderOptions,
    rank: Option<Rank>,
    skip: Vec<String>,
    device: D,
}

#[derive(Clone, Debug)]
enum Samples {
    Of(Dataset),
    Mixed(Vec<(Dataset, f64)>, u64),
}

impl Samples {
    /// All samples as one dataset.
    fn all(&self) -> Result<Dataset> {
        match self {
            Samples::Of(dataset) => Ok(dataset.clone()),
            Samples::Mixed(datasets, _) => {
                Dataset::concat(&datasets.iter().map(|(dataset, _)| dataset.clone()).collect::<Vec<_>>())
            }
        }
    }
}

impl Dataset {
    /// Starts the settings of a [`Loader`] with `batch` samples per batch and rank.
    pub fn loader(&self, batch: u32) -> LoaderBuilder {
        LoaderBuilder::new(Samples::Of(self.clone()), batch)
    }

    /// The same over several datasets by weight, with epochs of `samples` samples: see [`Loader::mixed`].
    pub fn mixed_loader(datasets: &[(Dataset, f64)], samples: u64, batch: u32) -> LoaderBuilder {
        LoaderBuilder::new(Samples::Mixed(datasets.to_vec(), samples), batch)
    }
}

impl LoaderBuilder {
    fn new(samples: Samples, batch: u32) -> Self {
        let options = LoaderOptions::new(batch);
        Self { samples, fields: Vec::new(), options, rank: None, skip: Vec::new(), device: Host::default() }
    }
}

impl<D: Device> LoaderBuilder<D> {
    /// Adds the field `name`: pictures as pixels, read from the first of the fields `from` (`jpg;png`) that a sample has.
    pub fn image(self, name: &str, from: &str, view: View) -> Self {
        self.field_as(name, from, FieldKind::Picture(view))
    }

    /// Adds the field `name`: masks as numbers of one byte, read from the first of the fields `from` (`seg.png;mask.png`) that
    /// a sample has. With the view of an image of the same size they match it, pixel by pixel ([`FieldKind::Mask`]).
    pub fn mask(self, name: &str, from: &str, view: View) -> Self {
        self.field_as(name, from, FieldKind::Mask(view, DataType::UInt8))
    }

    /// Adds the field `name` in the form that the type of `from` suggests ([`FieldKind::Auto`]).
    pub fn field(self, name: &str, from: &str) -> Self {
        self.field_as(name, from, FieldKind::Auto)
    }

    /// Adds the field `name`, made from `from` as `kind` says.
    pub fn field_as(self, name: &str, from: &str, kind: FieldKind) -> Self {
        self.fields([FieldOptions { from: Column::from(from), ..FieldOptions::new(name, kind) }])
    }

    /// Adds these fields. A loader without any gives all fields of its dataset.
    pub fn fields(mut self, fields: impl IntoIterator<Item = FieldOptions>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// The seed of the order and of all augmentation.
    pub fn seed(self, seed: u64) -> Self {
        self.configure(|options| options.seed = seed)
    }

    /// How samples are shuffled, in the place of [`Dataset::default_shuffle`].
    pub fn shuffle(self, shuffle: Shuffle) -> Self {
        self.configure(|options| options.shuffle = Some(shuffle))
    }

    /// Ends after epoch `epochs - 1`, wherever the loader begins.
    pub fn epochs(self, epochs: u64) -> Self {
        self.configure(|options| options.epochs = Some(epochs))
    }

    /// Repeats epochs without an end.
    pub fn endless(self) -> Self {
        self.configure(|options| options.epochs = None)
    }

    /// Resumes from `state`, which a loader of the same dataset, shuffle and seed returned on any number of ranks.
    pub fn resume(self, state: &OrderState) -> Self {
        self.configure(|options| options.state = Some(*state))
    }

    /// Loads the share of this rank, whatever the environment says.
    pub fn rank(self, rank: Rank) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// What happens to the samples at the end of an epoch that do not fill a batch on every rank.
    pub fn remainder(self, remainder: Remainder) -> Self {
        self.configure(|options| options.remainder = remainder)
    }

    /// Skips bad samples, and those of missing and damaged shards, and reports them to the observer; by default they are errors.
    pub fn skip_bad(self) -> Self {
        self.configure(|options| options.on_error = OnError::Skip)
    }

    /// Leaves out the samples with these keys. The order, and states from before, stay valid: batches with such samples
    /// have fewer rows. Building the loader reads the keys of all samples once to find them.
    pub fn skip_keys(mut self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.skip.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Fills batches on this many threads, and two batches more ahead than threads. With 0 the caller's thread does all
    /// work when it takes a batch.
    pub fn threads(self, threads: usize) -> Self {
        self.configure(|options| {
            options.threads = threads;
            options.ahead = threads.saturating_add(2);
        })
    }

    /// Whether shards are read whole into the page cache before their samples are wanted: [`LoaderOptions::readahead`].
    pub fn readahead(self, readahead: bool) -> Self {
        self.configure(|options| options.readahead = readahead)
    }

    /// Caches shards in memory or in a local folder.
    pub fn cache(self, cache: CacheOptions) -> Self {
        self.configure(|options| options.cache = cache)
    }

    /// How thoroughly reads are checked.
    pub fn verify(self, verify: Verify) -> Self {
        self.configure(|options| options.read.verify = verify)
    }

    /// Sends warnings, and the samples that are left out, to `observer`.
    pub fn observe(self, observer: Arc<dyn Observer>) -> Self {
        self.configure(|options| options.observer = observer)
    }

    /// Changes any other setting. The rank is set by [`rank`](Self::rank) alone.
    pub fn configure(mut self, change: impl FnOnce(&mut LoaderOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Sends batches to `device`.
    pub fn on<E: Device>(self, device: E) -> LoaderBuilder<E> {
        let Self { samples, fields, options, rank, skip, .. } = self;
        LoaderBuilder { samples, fields, options, rank, skip, device }
    }

    /// Finds what the loop `for batch in loader { step(batch) }` waits for: see [`crate::diagnose`].
    ///
    /// ```no_run
    /// use packhorse_core::Result;
    /// use packhorse_read::Dataset;
    /// use packhorse_read::diagnose::DiagnoseOptions;
    ///
    /// fn look(dataset: &Dataset, mut train: impl FnMut(&[u8])) -> Result<()> {
    ///     let mut step = |batch: &packhorse_read::Batch<_>| {
    ///         train(batch.field("label").unwrap_or_default());
    ///         Ok(())
    ///     };
    ///     let found = dataset.loader(256).field("label", "cls").diagnose(&mut step, &DiagnoseOptions::default())?;
    ///     println!("the loop waits for: {}", found.verdict.bottleneck);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Errors: those of [`build`](Self::build) and of [`diagnose`](crate::diagnose::diagnose); several datasets
    /// (kind `Unsupported`).
    pub fn diagnose<S>(self, step: &mut S, how: &DiagnoseOptions) -> Result<Diagnosis>
    where
        D: Clone + 'static,
        S: TrainingStep<D::Batch>,
    {
        let options = LoaderOptions { rank: rank_or_environment(self.rank)?, ..self.options };
        let Samples::Of(dataset) = &self.samples else {
            return Err(Error::unsupported("datasets that are mixed are diagnosed one by one"));
        };
        let device = self.device;
        diagnose(dataset, &self.fields, &options, &mut || Ok(device.clone()), step, how)
    }

    /// Starts the loader.
    ///
    /// Errors: those of [`Loader::new`] and [`Loader::mixed`]; ranks in the environment that contradict each other; a
    /// key to skip that no sample has; fewer samples than a step takes, of which no epoch would have a batch, and
    /// [endless](Self::endless) epochs of no samples (kind `Config`).
    pub fn build(self) -> Result<Loader<D>> {
        let mut options = LoaderOptions { rank: rank_or_environment(self.rank)?, ..self.options };
        if !self.skip.is_empty() {
            options.skip = self.samples.all()?.numbers_of_keys(&self.skip)?.into();
        }
        if let Samples::Of(dataset) = &self.samples
            && let splits = dataset.splits()
            && splits.len() > 1
        {
            let text =
                format!("batches have samples of all splits ({}); `split` takes those of one", splits.join(", "));
            options.observer.event(&Event::Warning(&text));
        }
        let is_empty = match &self.samples {
            Samples::Of(dataset) => dataset.is_empty(),
            Samples::Mixed(_, samples) => *samples == 0,
        };
        let loader = match self.samples {
            Samples::Of(dataset) => Loader::new(dataset, &self.fields, &options, self.device),
            Samples::Mixed(datasets, samples) => Loader::mixed(&datasets, samples, &self.fields, &options, self.device),
        }?;
        if loader.steps_per_epoch() == 0 {
            let (batch, ranks) = (options.batch, options.rank.world_size);
            let message = format!("an epoch has no batch: a step takes {batch} samples on each of {ranks} ranks");
            let advice = "take smaller batches, or keep the remainder";
            if !is_empty || options.epochs.is_none() {
                return Err(Error::config(message).hint(advice));
            }
            options.observer.event(&Event::Warning(&message));
        }
        Ok(loader)
    }
}

/// `rank`, or the one from the environment of this process.
pub(crate) fn rank_or_environment(rank: Option<Rank>) -> Result<Rank> {
    rank.map_or_else(|| Rank::from_environment(&|name| std::env::var(name).ok()), Ok)
}
