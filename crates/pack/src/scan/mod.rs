//! scan: finds the inputs, groups them into samples, and reads headers only.

pub(crate) mod companions;
mod compressed;
mod container;
mod decode;
mod dedup;
mod files_from;
mod folder_walk;
mod label;
mod listing;
mod merged_pictures;
mod roots;
mod sealed;
mod work_queue;

pub use decode::Decode;
pub(crate) use decode::Decoded;
pub(crate) use files_from::FilesFrom;
pub use folder_walk::Symlinks;
pub use label::Labels;
pub(crate) use listing::Items;
pub use listing::{Listing, SampleRef};

use crate::{KeyEnds, OnError, Shapes};
use listing::ListingBuilder;
use packhorse_core::{Cancel, Error, Event, InputTable, Limits, Observer, Options, Registry, Result, Store};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What to scan, and what to make of it: what follows from a recipe.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScanOptions {
    /// Folders and files. Keys are relative to them.
    pub(crate) roots: Vec<PathBuf>,
    /// A list of files to take instead of walking the roots.
    pub(crate) files_from: Option<FilesFrom>,
    /// Globs of relative paths to take; empty means all. `*` matches `/` too.
    pub(crate) include: Vec<String>,
    /// Globs of relative paths to leave out, stronger than `include`.
    pub(crate) exclude: Vec<String>,
    /// What to do with symbolic links.
    pub(crate) symlinks: Symlinks,
    /// How names are split into keys and fields. Part of the plan.
    pub(crate) key_ends: KeyEnds,
    /// The folder that the dataset goes to: passed over if it lies among the inputs.
    pub(crate) output: Option<PathBuf>,
    /// Where labels come from.
    pub(crate) labels: Option<Labels>,
    /// The class list that labels are positions in; without it, the classes that are there, sorted.
    pub(crate) classes: Option<Vec<String>>,
    /// Whether the first folder of a path names the split ([`Splits::Folders`](crate::Splits::Folders)), so that the
    /// class is the folder after it.
    pub(crate) split_folders: bool,
    /// Whether to keep only the first of samples with equal content.
    pub(crate) dedup: bool,
    /// What to do with bad inputs.
    pub(crate) on_error: OnError,
    /// Threads that wait for the file system.
    pub(crate) io_threads: usize,
    /// The format of all files, whatever their names.
    pub(crate) from: Option<String>,
    /// Whether files of encoded arrays (`.npz`) are tables: each index of the first axis is a sample.
    pub(crate) rows: bool,
    /// Whether compressed files of JSON (`.json.gz`) hold JSON lines, not a field of a sample.
    pub(crate) lines: bool,
    /// Whether to count samples where headers do not say how many there are: reads such inputs whole.
    pub(crate) count: bool,
    /// Whether ranges of inputs will be read in their order. Compressed text may be cut by places in it then: going
    /// back in it would mean to decompress it again.
    pub(crate) in_order: bool,
    /// So many bytes of text fit into a shard: compressed text that is no more is not cut if that has its price.
    pub(crate) fits: u64,
    /// Which encoded fields become columns.
    pub(crate) decode: Decode,
    /// Whether the dataset's format stores values by type ([`Sink::typed`](packhorse_core::Sink::typed)).
    pub(crate) typed: bool,
    /// What to do with arrays of one name whose shapes differ.
    pub(crate) shapes: Shapes,
    /// How inputs of typed rows are read: settings by the name of the format.
    pub(crate) sources: BTreeMap<String, Options>,
}

/// What scanning needs from outside.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    /// The formats.
    pub(crate) registry: &'a Registry,
    /// The file system.
    pub(crate) store: &'a dyn Store,
    /// Bounds on what foreign headers may cost.
    pub(crate) limits: Limits,
    /// Receives progress events.
    pub(crate) observer: &'a dyn Observer,
    /// The request to stop.
    pub(crate) cancel: &'a Cancel,
}

/// Finds all inputs and groups them into samples, sorted by key and field.
///
/// The outcome does not depend on threads or on the order in which a folder lists its entries.
/// Bad inputs are `Content` errors: under [`OnError::Fail`] the first is returned with a count of the
/// others, under [`OnError::Skip`] all are recorded in the listing.
pub(crate) fn scan(context: Scan<'_>, options: &ScanOptions) -> Result<Listing> {
    let mut builder = ListingBuilder::new(options.key_ends.clone());
    roots::collect(context, options, &mut builder)?;
    let mut listing = builder.finish();
    if let Some(labels) = options.labels {
        label::apply(labels, options, &mut listing, context.observer)?;
    }
    if options.dedup {
        if let Some(table) = listing.iter().find(|sample| sample.table().is_some()) {
            let message = "holds many samples, and `dedup` compares files; leave it out, or pack without `dedup`";
            return Err(Error::config(message).in_input(table.first_path().display()));
        }
        dedup::apply(context, options.io_threads, &mut listing)?;
    }
    if options.decode == Decode::Auto {
        decode::apply(context, options.typed, options.shapes, options.io_threads, &mut listing)?;
    }
    listing.sort_faults();
    listing.report(context.observer);
    settle(options.on_error, &listing, context.observer)?;
    if listing.samples() == 0 {
        return Err(Error::config(format!("found no sample in {}; {}", places(options), listing.ignored())));
    }
    Ok(listing)
}

/// The tables that each input holds by its path, where inputs hold several: which trees ROOT files have. Plain files
/// are passed over; an input of a format without tables to choose from is `Unsupported`.
pub(crate) fn tables(context: Scan<'_>, options: &ScanOptions) -> Result<BTreeMap<PathBuf, Vec<InputTable>>> {
    roots::tables(context, options)
}

fn places(options: &ScanOptions) -> String {
    match options.files_from {
        Some(_) => "the list of files".to_owned(),
        None => options.roots.iter().map(|r| r.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

fn settle(on_error: OnError, listing: &Listing, observer: &dyn Observer) -> Result<()> {
    let faults = listing.faults();
    if let (OnError::Fail, Some(first)) = (on_error, faults.first()) {
        let more = match faults.len() {
            1 => "this input can't be packed".to_owned(),
            n => format!("{n} inputs can't be packed, this is the first"),
        };
        return Err(first.clone().remark(more).hint("pass `on-error=skip` to leave such inputs out"));
    }
    faults.iter().for_each(|fault| observer.event(&Event::Skipped(fault)));
    Ok(())
}
