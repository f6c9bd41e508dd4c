//! scan: finds the inputs and groups them into samples. Reads headers only.

pub(crate) mod companions;
mod compressed;
mod container;
mod decode;
mod dedup;
mod division;
mod files_from;
mod folder_walk;
mod inventory;
mod inventory_columns;
mod inventory_values;
mod inventory_walk;
mod label;
mod listing;
mod metadata_names;
mod part_listing;
mod part_listings;
mod recipe_tables;
mod roots;
mod sealed;
mod split_lists;
mod split_names;
mod twins;
mod view_walk;
mod work_queue;

pub(crate) use decode::columns_of;
pub(crate) use label::{deeper_folder, part_by_folder, warn_of_classes};
pub(crate) use listing::{Decoded, Found, Items, KeptSamples, OddInputs, SpillOptions, Spilled, TableInput};
pub use listing::{Listing, SampleRef};
pub(crate) use metadata_names::{check_columns, name_in, no_value};
pub use part_listing::Scanned;
pub(crate) use part_listing::{prepare, scan_part};
pub(crate) use part_listings::{forget, progress};
pub(crate) use roots::matched;
pub(crate) use split_names::{SPLITS, of_two_splits, path_of, split_of, split_of_folders};

use crate::inputs::Inputs;
use crate::kept_tables::KeptTables;
use crate::keyed_source::{ID_FIELD, KEYED, TABLES};
use crate::merged_columns::Joining;
use crate::spans::TARGET;
use crate::{Decode, Labels, OnError, Recipe};
pub(crate) use label::other_field;
use listing::ListingBuilder;
use packhorse_core::{
    Cancel, Code, Error, Event, InputTable, KEY, Limits, Observer, Options, Registry, Result, Schema, SchemaRef, Store,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recipe, and what a scan takes from elsewhere or derives from it.
pub(crate) struct ScanOptions<'a> {
    pub(crate) recipe: &'a Recipe,
    /// The class list that labels are positions in; `None` for all classes found, sorted.
    pub(crate) classes: Option<Vec<String>>,
    /// Threads that wait for the file system.
    pub(crate) io_threads: usize,
    /// Whether to count samples that headers do not count: reads such inputs whole.
    pub(crate) count: bool,
    /// The bytes of text that fit into a shard. Compressed text of at most this size is not divided if that is
    /// expensive.
    pub(crate) fits: u64,
    /// Whether the dataset's format stores values by type ([`Sink::typed`](packhorse_core::Sink::typed)).
    pub(crate) typed: bool,
    /// The columns of the dataset that samples are added to.
    pub(crate) known: Option<SchemaRef>,
    /// How fields of one name that differ become one.
    pub(crate) joining: Joining,
    /// Options of table inputs, by format.
    pub(crate) sources: BTreeMap<String, Options>,
    /// Whether the walk looks at the headers of encoded fields. If not, they are looked at when all inputs are known.
    pub(crate) probes: bool,
    /// The dataset's folder whose partial listings take the place of a walk.
    pub(crate) listings: Option<&'a Path>,
    /// Where inputs go that are too many for memory; `None` if all are kept.
    pub(crate) spill: Option<SpillOptions>,
}

impl ScanOptions<'_> {
    /// An empty listing.
    fn builder(&self) -> ListingBuilder {
        let has_ids = self.sources.get("text").is_some_and(|text| text.get(ID_FIELD).is_some());
        ListingBuilder::new(self.recipe, has_ids)
    }
}

/// The services that a scan uses.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    /// The formats.
    pub(crate) registry: &'a Registry,
    /// The file system.
    pub(crate) store: &'a dyn Store,
    /// Bounds on the memory that headers may claim.
    pub(crate) limits: Limits,
    /// Receives progress events.
    pub(crate) observer: &'a dyn Observer,
    /// The request to stop.
    pub(crate) cancel: &'a Cancel,
    /// Takes opened tables for later steps.
    pub(crate) kept: &'a KeptTables,
    /// Whether shards of sealed datasets are compared with their recorded digests before they are read.
    pub(crate) verifies: bool,
}

impl<'a> Scan<'a> {
    /// Opens inputs below `roots`, whose streams are unpacked in `scratch`.
    fn inputs(&self, roots: &'a [PathBuf], scratch: &'a Path) -> Inputs<'a> {
        Inputs::new(self.store, roots, scratch, self.limits, self.cancel).verifying(self.verifies)
    }
}

/// Finds all inputs and groups them into samples, sorted by key and field.
///
/// The result does not depend on threads or on the order in which a folder lists its entries. Too many inputs for memory
/// ([`ScanOptions::spill`]) come as they were found: see [`Spilled`].
///
/// Errors: under [`OnError::Fail`] the first bad input, with a count of the others; under [`OnError::Skip`] bad inputs
/// are recorded in the listing.
pub(crate) fn scan(context: Scan<'_>, options: &ScanOptions<'_>) -> Result<Found> {
    let span = tracing::debug_span!(target: TARGET, "scan", samples = tracing::field::Empty).entered();
    let mut builder = options.builder().spilling(options.spill.clone());
    match &options.listings {
        None => roots::collect(context, options, &mut builder)?,
        Some(out) => part_listings::collect(context, options, out, &mut builder)?,
    }
    let listing = match builder.found()? {
        Found::Whole(listing) => listing,
        Found::Spilled(mut spilled) => {
            let listing = spilled.first()?;
            let decodes = options.recipe.decode != Decode::Never && decode::splits_files(context, options, &listing)?;
            if !decodes {
                spilled.pass_over_cards(options.recipe, context.cancel)?;
                idle_setting(options.recipe, &spilled.rest)?;
                return Ok(Found::Spilled(spilled));
            }
            spilled.whole()?
        }
    };
    let listing = complete(context, options, listing)?;
    span.record("samples", listing.samples());
    Ok(Found::Whole(listing))
}

/// Labels samples, looks into files where that is needed, and says what was found.
fn complete(context: Scan<'_>, options: &ScanOptions<'_>, mut listing: Listing) -> Result<Listing> {
    listing.pass_over_cards(options.recipe);
    let found = listing.samples();
    if let Some(labels @ (Labels::Folders | Labels::Parent)) = &options.recipe.labels {
        label::by_folder(labels, options, &mut listing, context.observer)?;
    }
    if found > 0 {
        metadata_names::take_metadata(context, options, &mut listing)?;
    }
    if options.recipe.dedup {
        if let Some(table) = listing.iter().find(|sample| sample.table().is_some()) {
            let message = "holds many samples, and `dedup` compares files; leave it out, or pack without `dedup`";
            return Err(Error::config(message).in_input(table.first_path().display()));
        }
        dedup::apply(context, options.io_threads, &mut listing)?;
    }
    if options.recipe.decode != Decode::Never {
        decode::apply(context, options, &mut listing)?;
    }
    listing.sort_faults();
    listing.report(context.observer);
    if let (None, Some(warning)) = (&options.recipe.groups, listing::like_groups::warning(&listing)) {
        context.observer.event(&Event::Warning(&warning));
    }
    if options.recipe.writes_tokens() && options.recipe.id_field.is_none() {
        let warning = listing::same_names::of_documents(&listing);
        warning.into_iter().for_each(|text| context.observer.event(&Event::Warning(&text)));
    }
    settle(options.recipe.on_error, &listing, context.observer)?;
    if found == 0 {
        let error = Error::config(format!("found no sample in {}; {}", places(options), listing.ignored()));
        let whole = "`key-ends=whole:NAME` makes each file a sample with a field of that name, such as whole:dcm";
        return Err(if listing.has_nameless() { error.hint(whole) } else { error });
    }
    // Where every sample was left out, plan says so.
    if listing.samples() > 0 {
        idle_setting(options.recipe, &listing)?;
        // An append has the rule of its dataset.
        if options.known.is_none() {
            idle_key_ends(options.recipe, &listing)?;
        }
    }
    Ok(listing)
}

/// Refuses settings of table formats that no input has: what they should leave out would be packed.
fn idle_setting(recipe: &Recipe, listing: &Listing) -> Result<()> {
    let has_members =
        listing.iter().any(|sample| sample.is_member() && sample.table().is_none() && sample.shard().is_none());
    let settings: [(&str, bool, &[&str], &str); 11] = [
        ("record", recipe.record.is_some(), &["record"], ", or read files so with `from=record`"),
        ("id-field", recipe.id_field.is_some(), &KEYED, "; files are named by their keys"),
        ("partitions", recipe.partitions, &TABLES, ""),
        ("document", recipe.document.is_some(), &["text"], ""),
        ("select", recipe.select.is_some(), &["parquet", "arrow"], "; `field` chooses fields of any input"),
        ("datasets", recipe.datasets.is_some(), &["hdf5"], "; `field` chooses fields of any input"),
        ("groups", recipe.groups.is_some(), &["hdf5"], ""),
        ("branches", recipe.branches.is_some(), &["root"], "; `field` chooses fields of any input"),
        ("tree", recipe.tree.is_some(), &["root"], ""),
        ("schema", recipe.schema.is_some(), &["csv", "jsonl"], "; `cast` changes types of any input"),
        (
            "rows",
            recipe.rows,
            &["npz"],
            if has_members { "; files in an archive are whole samples: unpack it first" } else { "" },
        ),
    ];
    let has = |formats: &[&str]| listing.tables().iter().any(|table| formats.contains(&table.format));
    // What could not be opened may have been such an input.
    let idle =
        settings.into_iter().find(|(_, given, formats, _)| *given && !has(formats) && listing.faults().is_empty());
    match idle {
        None => Ok(()),
        Some(("schema", ..)) if has(&["text"]) => {
            let error =
                Error::config("`schema` has no effect where JSON lines are documents").with_code(Code::BadSetting);
            Err(error.hint("`from=jsonl` makes a field of each of theirs"))
        }
        Some((name, _, formats, hint)) => {
            let formats = match formats {
                [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
                formats => formats.concat(),
            };
            let message = format!("`{name}` has no effect: it is for inputs of {formats}, and there is none");
            Err(Error::config(message).with_code(Code::BadSetting).hint(format!("leave it out{hint}")))
        }
    }
}

/// Refuses a rule for names of files where all inputs are tables, whose rows are called by the table's name and their position.
fn idle_key_ends(recipe: &Recipe, listing: &Listing) -> Result<()> {
    let is_idle = !recipe.key_ends.is_default() && recipe.metadata.is_none() && listing.faults().is_empty();
    if !is_idle || listing.iter().any(|sample| sample.table().is_none()) {
        return Ok(());
    }
    let message =
        "`key-ends` has no effect: it is for names of files and of members of archives, and all inputs are tables";
    Err(Error::config(message).with_code(Code::BadSetting).hint("leave it out"))
}

/// The tables of each input, by path: the trees of ROOT files. Plain files are ignored.
///
/// Errors: `Unsupported` for an input of a format without several tables.
pub(crate) fn tables(context: Scan<'_>, options: &ScanOptions<'_>) -> Result<BTreeMap<PathBuf, Vec<InputTable>>> {
    roots::tables(context, options)
}

fn places(options: &ScanOptions<'_>) -> String {
    match (&options.recipe.files_from, &options.recipe.inventory) {
        (Some(_), _) => "the list of files".to_owned(),
        (_, Some(inventory)) => inventory.display().to_string(),
        _ => options.recipe.input.iter().map(|r| r.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}

pub(crate) fn settle(on_error: OnError, listing: &Listing, observer: &dyn Observer) -> Result<()> {
    let faults = listing.faults();
    if let (OnError::Fail, Some(first)) = (on_error, faults.first()) {
        return Err(listing::refusal(first, faults.len()));
    }
    faults.iter().for_each(|fault| observer.event(&Event::Skipped(fault)));
    Ok(())
}

/// The columns of `schema` that are keys or have one of these names.
fn narrowed(schema: &SchemaRef, fields: &[String]) -> SchemaRef {
    let kept = schema.fields().iter().filter(|field| field.name() == KEY || fields.contains(field.name()));
    Arc::new(Schema::new_with_metadata(kept.cloned().collect::<Vec<_>>(), schema.metadata().clone()))
}
