//! Derives from a recipe the options of scan and plan, and the transforms.

use super::Recipe;
use crate::input_format::FILES;
use crate::keyed_source::{ID_FIELD, KEYED, TABLES};
use crate::merged_columns::{Joining, Shapes};
use crate::partitioned_source::PARTITIONS;
use crate::plan::PlanOptions;
use crate::recorded_files::sealed_manifest;
use crate::request_error::as_request_error;
use crate::sample_order::{MANY, SampleOrder};
use crate::scan::{ScanOptions, SpillOptions};
use crate::{ShardBounds, Shuffle, SplitBy, Splits};
use packhorse_core::{Code, Context, Error, Format, Kind, Limits, Options, Registry, Result, Store, nearest};
use packhorse_transform::fields::{Fields, FieldsOptions};
use packhorse_transform::image::{Check, Image, ImageOptions};
use packhorse_transform::{Casts, Transform};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Other names of formats.
const ALIASES: [(&str, &str); 3] = [("wds", "webdataset"), ("tfrecords", "tfrecord"), ("megatron", "tokens")];

impl Recipe {
    /// The folder of the dataset.
    ///
    /// Errors: `Config` if none is given.
    pub fn folder(&self) -> Result<&Path> {
        match self.out.as_deref() {
            None => Err(Error::config("say where the dataset goes with `out=DIR`")),
            Some(out) if out.as_os_str() == "-" => {
                Err(Error::config("`out` is a folder, not standard output").hint("`out=./-` is a folder of that name"))
            }
            Some(out) => Ok(out),
        }
    }

    /// The options of scan. `typed`: whether the sink stores values by type.
    pub(crate) fn scanning(&self, store: &dyn Store, typed: bool, io_threads: usize) -> Result<ScanOptions<'_>> {
        if self.input.is_empty() && self.files_from.is_none() {
            return Err(Error::config(
                "there is nothing to pack; give folders or files as INPUT, or `plan=DIR` to fill a plan",
            ));
        }
        Ok(ScanOptions {
            recipe: self,
            classes: self.class_list(store)?,
            io_threads,
            count: self.counts(),
            fits: self.shard_bounds().limit().unwrap_or(0),
            typed,
            known: None,
            joining: self.joining(typed)?,
            sources: self.sources()?,
            probes: false,
            listings: None,
            spill: None,
        })
    }

    /// The options of plan. `memory`: the bytes that the limits of single values are derived from.
    pub(crate) fn planning(&self, registry: &Registry, memory: Option<u64>) -> Result<PlanOptions<'_>> {
        let format = self.format(registry)?;
        let sink = self.sink()?;
        // Invalid settings fail before the scan, which may take hours.
        let typed = registry.get(&format)?.sink(&sink)?.typed();
        self.from.iter().try_for_each(|from| registry.get(from).map(drop))?;
        Ok(PlanOptions {
            recipe: self,
            format,
            sink,
            typed,
            sources: self.sources()?,
            joining: self.joining(typed)?,
            memory,
            many: MANY,
        })
    }

    /// How inputs are spilled that are more than `many`; `None` if the recipe needs all of them in memory.
    pub(crate) fn spilling(&self, many: usize) -> Option<SpillOptions> {
        let order = match self.shuffle {
            Shuffle::No => SampleOrder(None),
            Shuffle::Global { seed } => SampleOrder(Some(seed)),
            Shuffle::Blocks { .. } => return None,
        };
        let by_number = self.split.divides() && self.split_by == SplitBy::Order;
        let lists = matches!(self.split, Splits::Lists(_));
        let whole = self.dedup || self.metadata.is_some() || by_number || lists;
        (!whole).then(|| SpillOptions { order, most: many, dir: std::env::temp_dir() })
    }

    /// Whether a setting counts samples, also those that headers do not count.
    pub(crate) fn counts(&self) -> bool {
        let blocks = matches!(self.shuffle, Shuffle::Blocks { .. });
        self.limit.is_some() || self.samples_per_shard.is_some() || self.split.divides() || blocks
    }

    /// The size of shards.
    pub(crate) fn shard_bounds(&self) -> ShardBounds {
        ShardBounds {
            bytes: self.shard_size.map(|size| size.0),
            shards: self.shard_count,
            samples: self.samples_per_shard,
        }
    }

    /// A format that does not store values by type keeps arrays of any shape.
    fn joining(&self, typed: bool) -> Result<Joining> {
        let shapes = if self.ragged || !typed { Shapes::Ragged } else { Shapes::Equal };
        let FieldsOptions { only, drop, cast, .. } = self.fields()?;
        Ok(Joining { shapes, casts: Casts::new(&cast)?.dropping(&only, &drop), ragged: BTreeMap::new() })
    }

    /// The format of the shards: `to`, or the one that the extension of `out` names (`photos.parquet`).
    ///
    /// Errors: `Config` if neither names a format, `Unsupported` for one that can't be written.
    pub fn format(&self, registry: &Registry) -> Result<String> {
        let writes = |format: &&Arc<dyn Format>| {
            format.sink(&Options::new()).map_or_else(|e| e.kind() != Kind::Unsupported, |_| true)
        };
        let formats = || registry.iter().filter(writes).map(|format| format.info().id);
        let written = || formats().collect::<Vec<_>>().join(", ");
        let to = self.to.as_deref().or_else(|| self.extension(registry)).ok_or_else(|| {
            Error::config(format!("say which format with `to`, such as `to=webdataset`; there are {}", written()))
        })?;
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(to)).map_or(to, |(_, id)| id);
        let format = registry.named(alias).map_err(|_| {
            let meant = nearest(alias, formats()).map(|name| format!("did you mean {name}?"));
            let error = Error::config(format!("no format is called \"{to}\"")).with_code(Code::NoSuchFormat);
            meant.into_iter().fold(error, Error::hint).hint(format!("`to` takes {}", written()))
        })?;
        match writes(&format) {
            true => Ok(format.info().id.to_owned()),
            false => Err(Error::unsupported(format!("{alias} can be read but not written; `to` takes {}", written()))),
        }
    }

    /// Whether documents become tokens.
    pub(crate) fn writes_tokens(&self) -> bool {
        self.tokenizer.is_some() || self.to.as_deref() == Some("tokens")
    }

    /// The extension of `out`, if it names a format.
    fn extension(&self, registry: &Registry) -> Option<&str> {
        let extension = self.out.as_deref()?.extension()?.to_str()?;
        let known = ALIASES.iter().any(|(alias, _)| *alias == extension) || registry.named(extension).is_ok();
        known.then_some(extension)
    }

    /// The class list that is given, as a file of names or as a dataset.
    pub(crate) fn class_list(&self, store: &dyn Store) -> Result<Option<Vec<String>>> {
        let (path, list): (&PathBuf, Vec<String>) = match (&self.classes, &self.classes_from) {
            (Some(path), _) => {
                let text = std::fs::read_to_string(path)
                    .context("read")
                    .map_err(|e| as_request_error(e).in_input(path.display()))?;
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                let lines = text.lines().map(|line| line.trim_end_matches('\r').to_owned());
                (path, lines.filter(|line| !line.is_empty()).collect())
            }
            (None, Some(dir)) => {
                let manifest = sealed_manifest(store, dir)?;
                let missing =
                    || Error::config("is not a sealed dataset, which has a class list").in_input(dir.display());
                (dir, manifest.ok_or_else(missing)?.classes)
            }
            (None, None) => return Ok(None),
        };
        let mut seen = BTreeSet::new();
        let twice = list.iter().find(|class| !seen.insert(*class));
        match (list.is_empty(), twice) {
            (true, _) => Err(Error::config("has no classes").in_input(path.display())),
            (_, Some(class)) => Err(Error::config(format!("lists the class {class} twice")).in_input(path.display())),
            _ => Ok(Some(list)),
        }
    }

    /// Options of table inputs, by format.
    fn sources(&self) -> Result<BTreeMap<String, Options>> {
        let skip = self.skip_header.map(|n| n.to_string());
        let rows = self.rows.then(|| "true".to_owned());
        let unread = (!self.drop.is_empty()).then(|| self.drop.join("\n"));
        let settings = [
            ("npz", "rows", &rows),
            ("npz", "arrays", &self.arrays),
            ("root", "tree", &self.tree),
            ("root", "branches", &self.branches),
            ("hdf5", "datasets", &self.datasets),
            ("hdf5", "groups", &self.groups),
            ("hdf5", "attributes", &self.attributes),
            ("parquet", "columns", &self.select),
            ("arrow", "columns", &self.select),
            ("parquet", "unread", &unread),
            ("arrow", "unread", &unread),
            ("tfrecord", "unread", &unread),
            ("root", "unsupported", &self.unsupported),
            ("parquet", "unsupported", &self.unsupported),
            ("arrow", "unsupported", &self.unsupported),
            (if self.from.as_deref() == Some("jsonl") { "jsonl" } else { "csv" }, "schema", &self.schema),
            ("record", "record", &self.record),
            ("record", "skip", &skip),
            ("text", "text-field", &self.text_field),
            ("text", "document", &self.document),
        ];
        // Records can't be read without their layout.
        let is_readable = |format: &&str| *format != "record" || self.record.is_some();
        let ids = KEYED.into_iter().filter(is_readable).map(|format| (format, ID_FIELD, &self.id_field));
        let on = self.partitions.then(|| "on".to_owned());
        let folders = TABLES.into_iter().filter(is_readable).map(|format| (format, PARTITIONS, &on));
        let mut sources: BTreeMap<String, Options> = BTreeMap::new();
        for (format, name, value) in settings.into_iter().chain(ids).chain(folders) {
            if let Some(value) = value {
                sources.entry(format.to_owned()).or_default().set(name, value);
            }
        }
        if let Some(from) = &self.from {
            if from == FILES && !self.read.is_empty() {
                return Err(Error::config(
                    "`read` has settings of a format, and with `from=files` no file is read as one",
                ));
            }
            for (name, value) in pairs("read", &self.read)? {
                sources.entry(from.clone()).or_default().set(&name, value);
            }
        }
        Ok(sources)
    }

    /// Whether a setting is about the field `name` of the inputs: it gets another name or another shape, or becomes several.
    pub(crate) fn names(&self, name: &str) -> bool {
        let is_it = |pair: &String| pair.split('=').next() == Some(name);
        self.field.iter().chain(&self.stack).chain(&self.spread).any(is_it)
    }

    /// The options of the sink, which refuses unknown ones.
    fn sink(&self) -> Result<Options> {
        let number = |n: Option<u64>| n.map(|n| n.to_string());
        let settings = [
            ("index", self.index.clone()),
            ("chunk", number(self.chunk)),
            ("filter", self.filter.clone()),
            ("shuffle", self.byte_shuffle.clone()),
            ("compression", self.compression.clone()),
            ("level", number(self.level.map(u64::from))),
            ("row-group", number(self.row_group)),
            ("tensor-ext", self.tensor_ext.then(|| "on".to_owned())),
        ];
        let mut options: Options = settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        for (name, value) in pairs("set", &self.set)? {
            options.set(&name, value);
        }
        Ok(options)
    }

    /// The transforms, in order. `check_exact`: the share of documents that the tokenizer's reference implementation
    /// encodes too.
    pub(crate) fn transforms(&self, limits: Limits, check_exact: f64) -> Result<Vec<Box<dyn Transform>>> {
        let images = self.images()?;
        let mut transforms: Vec<Box<dyn Transform>> = Vec::new();
        if !images.do_nothing() {
            transforms.push(Box::new(Image::new(images, limits)?));
        }
        let fields = Fields::new(self.fields()?)?;
        if !fields.is_empty() {
            transforms.push(Box::new(fields));
        }
        transforms.extend(self.tokenize(limits, check_exact)?);
        Ok(transforms)
    }

    fn images(&self) -> Result<ImageOptions> {
        let mut options = ImageOptions { quality: self.quality, orient: self.orient, ..ImageOptions::default() };
        for what in &self.image {
            match what.split_once('=') {
                None if what == "check" => options.check = Some(Check::Strict),
                Some(("check", "strict")) => options.check = Some(Check::Strict),
                Some(("check", "lenient")) => options.check = Some(Check::Lenient),
                Some(("resize", size)) => options.resize = Some(size.parse()?),
                Some(("keep", what)) => options.keep = what.parse()?,
                Some(("nearest", fields)) if !fields.is_empty() => {
                    options.nearest.extend(fields.split(',').map(str::to_owned));
                }
                Some(("jpeg", fields)) if !fields.is_empty() => {
                    options.jpeg.extend(fields.split(',').map(str::to_owned));
                }
                Some(("leave", fields)) if !fields.is_empty() => {
                    options.leave.extend(fields.split(',').map(str::to_owned));
                }
                _ => {
                    return Err(Error::config(format!(
                        "`image` takes check[=lenient], resize=256[,short|long|exact], resize=WxH, nearest=FIELD, jpeg=FIELD, leave=FIELD or keep=exif,icc, not \"{what}\""
                    )));
                }
            }
        }
        if self.quality != ImageOptions::default().quality && !options.may_rewrite() {
            let error = Error::config("`quality` is about pictures that are rewritten, and none is");
            return Err(error.hint("give `image=resize=256`, `image=jpeg=FIELD` or `orient` too"));
        }
        for fields in [&mut options.nearest, &mut options.jpeg, &mut options.leave] {
            fields.sort_unstable();
            fields.dedup();
        }
        if !options.nearest.is_empty() && options.resize.is_none() {
            return Err(Error::config("`image=nearest` is about how a mask is resized; give `image=resize=256` too"));
        }
        if self.image.iter().any(|what| what.starts_with("keep=")) && !options.may_rewrite() {
            return Err(Error::config(
                "`image=keep` is about pictures that are rewritten; give `image=resize=256`, `image=jpeg=FIELD` or `orient` too, or leave it out: pictures that are not rewritten keep everything",
            ));
        }
        Ok(options)
    }

    fn fields(&self) -> Result<FieldsOptions> {
        let mut options = FieldsOptions { drop: self.drop.clone(), ..FieldsOptions::default() };
        for field in &self.field {
            match field.split_once('=') {
                Some((old, new)) if !old.is_empty() && !new.is_empty() => {
                    add_pair("field", &mut options.rename, (old, new))?;
                }
                Some(_) => return Err(Error::config(format!("`field` takes NAME or OLD=NEW, not \"{field}\""))),
                None => options.only.push(field.clone()),
            }
        }
        if !options.only.is_empty() {
            options.only.extend(options.rename.keys().cloned());
        }
        (options.cast, options.stack) = (pairs("cast", &self.cast)?, pairs("stack", &self.stack)?);
        options.spread = pairs("spread", &self.spread)?;
        Ok(options)
    }

    #[cfg(feature = "tokenize")]
    fn tokenize(&self, limits: Limits, check_exact: f64) -> Result<Option<Box<dyn Transform>>> {
        use packhorse_transform::tokenize::{Tokenize, TokenizeOptions};
        let Some(path) = &self.tokenizer else {
            return match check_exact > 0.0 {
                true => Err(Error::config("`check-exact` checks what `tokenizer` makes; give that too")),
                false => Ok(None),
            };
        };
        let file = std::fs::read(path).context("read").map_err(|e| as_request_error(e.in_input(path.display())));
        let file = file.map_err(|e| match path.join("tokenizer.json").is_file() {
            true => Error::config("is a folder").in_input(path.display()).hint("give the tokenizer.json in it"),
            false => e.with_kind(Kind::Config),
        })?;
        let options = TokenizeOptions {
            special: self.special.parse()?,
            empty: self.empty.parse()?,
            append_eod: self.append_eod,
            eod: self.eod.clone(),
            bos: self.bos.clone(),
            parse_special: self.parse_special.as_ref().map(|answer| answer == "yes"),
            field: self.text_field.clone(),
            check_exact,
            pattern: self.pattern.clone(),
        };
        let name = path.display().to_string();
        Ok(Some(Box::new(Tokenize::new(&file, &name, options)?.within(limits))))
    }

    #[cfg(not(feature = "tokenize"))]
    fn tokenize(&self, _: Limits, _: f64) -> Result<Option<Box<dyn Transform>>> {
        match &self.tokenizer {
            None => Ok(None),
            Some(_) => Err(Error::unsupported("this build has no tokenizers; build it with the feature tokenize")),
        }
    }
}

/// The values by names that texts such as `tree=Events` give to the setting `setting`.
///
/// Errors: `Config` for a text without a name and a value, and for two values of one name.
pub fn pairs(setting: &str, texts: &[String]) -> Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    for text in texts {
        let pair = text.split_once('=');
        let pair = pair.ok_or_else(|| Error::config(format!("`{setting}` takes NAME=VALUE, not \"{text}\"")))?;
        add_pair(setting, &mut pairs, pair)?;
    }
    Ok(pairs)
}

/// Adds a pair of a setting; a name has one value.
fn add_pair(setting: &str, pairs: &mut BTreeMap<String, String>, (name, value): (&str, &str)) -> Result<()> {
    match pairs.insert(name.to_owned(), value.to_owned()) {
        Some(other) if other != value => {
            let message = format!("`{setting}` gives {name} two values, {other} and {value}; give one");
            Err(Error::config(message).with_code(Code::BadSetting))
        }
        _ => Ok(()),
    }
}
