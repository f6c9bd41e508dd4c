//! Checks third-party shards for what each reader (WebDataset, wids, DALI, Energon, …) would fail on.

use crate::cancellable_input::CancellableInput;
use crate::input_format::{NameRules, container, open};
use crate::refuse_view::refuse_view;
use crate::request_error::as_request_error;
use crate::scan::companions;
use packhorse_core::{Cancel, Consumer, Error, FileKind, Findings, Format, Input, Options, Registry, Result, Store};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What [`check_consumers`] found.
#[derive(Debug, Default)]
pub struct Report {
    /// Shards checked.
    pub shards: u64,
    /// Samples seen.
    pub samples: u64,
    /// One entry for each shard with findings.
    pub findings: Vec<Findings>,
}

/// Checks the shards at `paths` (files, or folders of shards) for damage and for what `consumers` can't read; `options`
/// are the format's.
pub fn check_consumers(
    registry: &Registry,
    store: &dyn Store,
    paths: &[PathBuf],
    options: &Options,
    consumers: &[Consumer],
    cancel: &Cancel,
) -> Result<Report> {
    let mut report = Report::default();
    let mut keys: HashMap<u64, usize> = HashMap::new();
    let mut names: HashMap<PathBuf, PathBuf> = HashMap::new();
    for (i, path) in shards(registry, store, paths)?.iter().enumerate() {
        cancel.check()?;
        let mut findings = Findings::new(path.display().to_string());
        let Some((format, compression)) = container(registry, &NameRules::default(), path) else {
            return Err(Error::unsupported("can't be checked: its format has no check").in_input(path.display()));
        };
        let input = CancellableInput::new(open(store, path, compression)?, cancel);
        check_one(format, &input, options, consumers, &mut findings, &mut |key| {
            report.samples += 1;
            *keys.entry(hash(key)).or_insert(i) != i
        })?;
        let base = path.file_name().map(PathBuf::from).unwrap_or_default();
        if let Some(other) = names.insert(base, path.clone()) {
            add(
                &mut findings,
                consumers,
                &[Consumer::Wids],
                None,
                &format!("has the name of {}: wids caches shards by name", other.display()),
            );
        }
        report.shards += 1;
        if !findings.is_empty() {
            report.findings.push(findings);
        }
    }
    Ok(report)
}

fn check_one(
    format: &Arc<dyn Format>,
    input: &dyn Input,
    options: &Options,
    consumers: &[Consumer],
    findings: &mut Findings,
    seen_elsewhere: &mut dyn FnMut(&str) -> bool,
) -> Result<()> {
    let mut doubles: Vec<String> = Vec::new();
    format.check(input, options, consumers, findings, &mut |key| {
        if seen_elsewhere(key) {
            doubles.push(key.to_owned());
        }
    })?;
    for key in doubles {
        let problem = "is the key of a sample in another shard: Energon refuses the dataset, others mix them up";
        add(findings, consumers, &Consumer::ALL, Some(key.as_bytes()), problem);
    }
    Ok(())
}

fn add(findings: &mut Findings, wanted: &[Consumer], who: &[Consumer], member: Option<&[u8]>, problem: &str) {
    let concerned: Vec<Consumer> = who.iter().copied().filter(|c| wanted.contains(c)).collect();
    if !concerned.is_empty() {
        findings.add(&concerned, member, problem);
    }
}

/// The files given, and the shards in the folders given, sorted.
fn shards(registry: &Registry, store: &dyn Store, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut shards = Vec::new();
    for path in paths {
        if store.stat(path, true).map_err(as_request_error)?.kind != FileKind::Directory {
            shards.push(path.clone());
            continue;
        }
        refuse_view(store, path)?;
        let mut inside = store.list(path)?;
        companions::take(registry, &mut inside);
        inside.retain(|name| is_shard(registry, name));
        inside.sort();
        shards.extend(inside.into_iter().map(|name| path.join(name)));
    }
    match shards.is_empty() {
        true => {
            Err(Error::config("holds no shard")
                .in_input(paths.first().map_or(String::new(), |p| p.display().to_string())))
        }
        false => Ok(shards),
    }
}

/// Whether the name is that of a shard; text files beside shards are not.
fn is_shard(registry: &Registry, name: &Path) -> bool {
    container(registry, &NameRules::default(), name).is_some_and(|(format, _)| format.sink(&Options::new()).is_ok())
}

fn hash(key: &str) -> u64 {
    blake3::hash(key.as_bytes()).as_bytes().first_chunk::<8>().map_or(0, |head| u64::from_le_bytes(*head))
}
