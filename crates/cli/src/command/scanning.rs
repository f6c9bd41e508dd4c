//! From flags to a listing, transforms and a plan: what `pack` and `plan` share.

use super::Context;
use super::pack::packing;
use crate::planning::{Planning, Work};
use packhorse_core::{Context as _, Error, Format, InputTable, Kind, Options, Registry, Result};
use packhorse_pack::{
    Cut, Estimate, FilesFrom, Listing, Metadata, Part, Plan, PlanOptions, Scan, ScanOptions, Shuffle, Splits, fit,
    of_request, plan, scan, sealed_manifest,
};
use packhorse_transform::Transform;
use packhorse_transform::fields::Fields;
use packhorse_transform::image::{Check, Image, ImageOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A plan that was made, and what it was made with.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) transforms: Vec<Box<dyn Transform>>,
    /// The sizes of shards, where a trial was to show them.
    pub(super) estimate: Option<Estimate>,
}

/// Scans and plans.
pub(super) fn make_plan(context: &Context<'_>, args: &Planning, work: &Work) -> Result<Planned> {
    let transforms = transforms(context, args)?;
    let mut options = plan_options(context.registry, args)?;
    options.memory = work.memory;
    // Settings are checked before hours go into a scan.
    let typed = context.registry.get(&options.format)?.sink(&options.sink)?.typed();
    options.shapes = args.reading.shapes(typed);
    for (format, options) in &options.sources {
        context.registry.get(format)?.source(options, context.limits)?;
    }
    let mut listing = scan(scanning(context), &scan_options(context, args, work, typed)?)?;
    if let (Some(table), Some(key)) = (&args.metadata, &args.key) {
        attach(context, args, &mut listing, table, key)?;
    }
    let mut plan = plan(context.registry, listing, &transforms, &options, &context.progress)?;
    let estimate = fit(&packing(context, &transforms, work, Part::ALL, args.on_error).0, &mut plan)?;
    Ok(Planned { plan, transforms, estimate })
}

/// The trees of all inputs, by the paths of these.
pub(super) fn trees(context: &Context<'_>, args: &Planning, work: &Work) -> Result<BTreeMap<PathBuf, Vec<InputTable>>> {
    packhorse_pack::tables(scanning(context), &scan_options(context, args, work, true)?)
}

fn scanning<'a>(context: &'a Context<'_>) -> Scan<'a> {
    Scan {
        registry: context.registry,
        store: &*context.store,
        limits: context.limits,
        observer: &context.progress,
        cancel: &context.cancel,
    }
}

fn scan_options(context: &Context<'_>, args: &Planning, work: &Work, typed: bool) -> Result<ScanOptions> {
    if args.input.is_empty() && args.files_from.is_none() {
        return Err(Error::config(
            "there is nothing to pack; give folders or files as INPUT, or --plan DIR to fill a plan",
        ));
    }
    let files_from = args.files_from.as_ref().map(|list| match list.as_path() == Path::new("-") {
        true => FilesFrom::Stdin,
        false => FilesFrom::Path(list.clone()),
    });
    Ok(ScanOptions {
        roots: args.input.clone(),
        files_from,
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        symlinks: args.symlinks,
        key_ends: args.key_ends.clone(),
        output: args.out.clone(),
        labels: args.labels,
        classes: classes(context, args)?,
        split_folders: args.split == Some(Splits::Folders),
        dedup: args.dedup,
        policy: args.on_error,
        io_threads: usize::from(work.io_threads),
        from: args.reading.from.clone(),
        rows: args.reading.rows,
        lines: args.tokenizing.tokenizer.is_some(),
        count: args.limit.is_some()
            || args.samples_per_shard.is_some()
            || args.split.as_ref().is_some_and(Splits::divides)
            || matches!(args.shuffle, Some(Shuffle::Blocks { .. })),
        in_order: args.shuffle.is_none_or(|shuffle| shuffle == Shuffle::No),
        fits: cut(args).limit().unwrap_or(0),
        decode: args.reading.decode,
        typed,
        shapes: args.reading.shapes(typed),
        sources: sources(args)?,
    })
}

fn cut(args: &Planning) -> Cut {
    Cut { bytes: args.shard_size, shards: args.shard_count, samples: args.samples_per_shard }
}

/// The class list that was given: a file of names, or that of a dataset.
fn classes(context: &Context<'_>, args: &Planning) -> Result<Option<Vec<String>>> {
    let (path, list) = match (&args.classes, &args.classes_from) {
        (Some(path), _) => {
            let text =
                std::fs::read_to_string(path).context("read").map_err(|e| of_request(e).in_input(path.display()))?;
            (path, text.lines().map(|line| line.trim_end_matches('\r').to_owned()).filter(|l| !l.is_empty()).collect())
        }
        (None, Some(dir)) => {
            let manifest = sealed_manifest(&*context.store, dir)?;
            let missing = || Error::config("is not a sealed dataset, which has a class list").in_input(dir.display());
            (dir, manifest.ok_or_else(missing)?.classes)
        }
        (None, None) => return Ok(None),
    };
    let list: Vec<String> = list;
    let mut seen = BTreeSet::new();
    let twice = list.iter().find(|class| !seen.insert(*class));
    match (list.is_empty(), twice) {
        (true, _) => Err(Error::config("has no classes").in_input(path.display())),
        (_, Some(class)) => Err(Error::config(format!("lists the class {class} twice")).in_input(path.display())),
        _ => Ok(Some(list)),
    }
}

/// How inputs of typed rows are read, by format.
fn sources(args: &Planning) -> Result<BTreeMap<String, Options>> {
    let mut sources = args.reading.sources(&args.fielding.drop)?;
    let text = args.tokenizing.source();
    if text.iter().next().is_some() {
        let known = sources.entry("text".to_owned()).or_default();
        for (name, value) in text.iter() {
            known.set(name, value);
        }
    }
    Ok(sources)
}

fn attach(context: &Context<'_>, args: &Planning, listing: &mut Listing, table: &Path, key: &str) -> Result<()> {
    let columns = (!args.columns.is_empty()).then_some(&args.columns[..]);
    let metadata = Metadata::read(context.registry, table, key, columns, &args.key_ends, &context.limits)?;
    listing.attach_metadata(&metadata, args.on_error, &context.progress)
}

/// What people call formats that have another name.
const ALIASES: [(&str, &str); 3] = [("wds", "webdataset"), ("tfrecords", "tfrecord"), ("megatron", "tokens")];

/// The format of the shards, as `--to` names it.
fn format(registry: &Registry, to: Option<&str>) -> Result<String> {
    let writes = |format: &&Arc<dyn Format>| {
        format.sink(&Options::new()).map_or_else(|e| e.kind() != Kind::Unsupported, |_| true)
    };
    let written = || registry.iter().filter(writes).map(|format| format.info().id).collect::<Vec<_>>().join(", ");
    let to = to.ok_or_else(|| {
        Error::config(format!("say which format with --to, such as --to webdataset; there are {}", written()))
    })?;
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(to)).map_or(to, |(_, id)| id);
    let format = registry.named(alias)?;
    match writes(&format) {
        true => Ok(format.info().id.to_owned()),
        false => Err(Error::unsupported(format!("{alias} is read and not written; --to takes {}", written()))),
    }
}

fn plan_options(registry: &Registry, args: &Planning) -> Result<PlanOptions> {
    let format = format(registry, args.to.as_deref())?;
    let sink = args.writing.options(args.index.as_deref())?;
    Ok(PlanOptions {
        format,
        sink,
        name: args.name.clone(),
        shuffle: args.shuffle.unwrap_or(Shuffle::No),
        cut: cut(args),
        splits: args.split.clone().unwrap_or_default(),
        split_by: args.split_by,
        limit: args.limit,
        long_keys: args.long_keys,
        fill_missing: args.fill_missing,
        policy: args.on_error,
        sources: sources(args)?,
        shapes: packhorse_pack::Shapes::default(),
        memory: None,
    })
}

fn transforms(context: &Context<'_>, args: &Planning) -> Result<Vec<Box<dyn Transform>>> {
    let mut options = ImageOptions { quality: args.quality, orient: args.orient, ..ImageOptions::default() };
    for what in &args.image {
        match what.split_once('=') {
            None if what == "check" => options.check = Some(Check::Strict),
            Some(("check", "strict")) => options.check = Some(Check::Strict),
            Some(("check", "lenient")) => options.check = Some(Check::Lenient),
            Some(("resize", size)) => options.resize = Some(size.parse()?),
            Some(("keep", what)) => options.keep = what.parse()?,
            _ => {
                return Err(Error::config(format!(
                    "--image takes check[=lenient], resize=256[,short|long|exact], resize=WxH or keep=exif,icc, not \"{what}\""
                )));
            }
        }
    }
    if args.image.iter().any(|what| what.starts_with("keep=")) && options.resize.is_none() && !options.orient {
        return Err(Error::config(
            "--image keep= is about pictures that are rewritten; give --image resize=256 or --orient too, or leave it out: what is not rewritten keeps everything",
        ));
    }
    let mut transforms: Vec<Box<dyn Transform>> = Vec::new();
    if options.check.is_some() || options.orient || options.resize.is_some() {
        transforms.push(Box::new(Image::new(options, context.limits)?));
    }
    let fields = Fields::new(args.fielding.options()?)?;
    if !fields.is_empty() {
        transforms.push(Box::new(fields));
    }
    transforms.extend(args.tokenizing.transform(context.limits)?);
    Ok(transforms)
}
