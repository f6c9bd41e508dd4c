//! Selects a table of a file and its columns.

use crate::file::{Item, RootFile};
use crate::interpret::{BranchColumn, interpret};
use crate::ntuple::{self, LeafField, Node, Ntuple};
use crate::options::Wanted;
use crate::report::BranchReport;
use crate::streamer::Streamers;
use crate::tree::TTree;
use crate::trial;
use packhorse_core::{Error, Input, Limits, Omission, Result, Schema, SchemaRef, TABLE, nearest, some_of};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An open table of a file.
pub(crate) struct RootTable<'a> {
    pub(crate) file: RootFile<'a>,
    /// Its path in the file.
    pub(crate) name: String,
    pub(crate) data: Data,
    /// One per branch, in file order.
    pub(crate) reports: Vec<BranchReport>,
    /// The wanted branches that can't be read, in file order.
    pub(crate) omitted: Vec<Omission>,
}

/// A tree or an RNTuple, and its selected columns, sorted by name.
pub(crate) enum Data {
    Tree(TTree, Vec<BranchColumn>),
    Ntuple(Ntuple, Vec<(String, Node)>),
}

const CLASSES: [&str; 4] = ["TTree", "TNtuple", "TNtupleD", ntuple::CLASS];

/// The most trees that an error names.
const LISTED: usize = 20;

/// All trees of a file, sorted by path, then by cycle, highest first.
pub(crate) fn tables(file: &RootFile<'_>) -> Result<Vec<Item>> {
    let mut found: Vec<Item> =
        file.items()?.into_iter().filter(|item| CLASSES.contains(&item.key.class.as_str())).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path).then(b.key.cycle.cmp(&a.key.cycle)));
    Ok(found)
}

/// The tree that `wanted` names, or else the only one.
fn choose(file: &RootFile<'_>, wanted: Option<&str>) -> Result<Item> {
    let all = tables(file)?;
    let (name, cycle) = match wanted.and_then(|name| name.rsplit_once(';')) {
        Some((name, cycle)) if cycle.parse::<u16>().is_ok() => (Some(name), cycle.parse::<u16>().ok()),
        _ => (wanted, None),
    };
    let name = name.map(|name| name.trim_matches('/'));
    let of_cycle = |item: &&Item| cycle.is_none_or(|cycle| item.key.cycle == cycle);
    let by_path = |item: &&Item| name.is_none_or(|name| item.path == name);
    let by_name = |item: &&Item| name.is_none_or(|name| item.key.name == name);
    let mut found: Vec<&Item> = all.iter().filter(by_path).filter(of_cycle).collect();
    if found.is_empty() {
        found = all.iter().filter(by_name).filter(of_cycle).collect();
    }
    let paths: BTreeSet<&str> = found.iter().map(|item| item.path.as_str()).collect();
    match (found.first(), paths.len(), wanted) {
        (Some(item), 1, _) => Ok((*item).clone()),
        (None, _, wanted) if wanted.is_none() || all.is_empty() => Err(Error::content("holds no tree")),
        (None, _, Some("*")) => Err(Error::config(format!(
            "to read one of its trees, name it: {} (`packhorse pack tree=*` makes a dataset of each)",
            listed(file, &all)
        ))),
        (None, _, Some(name)) => Err(Error::config(format!("holds no tree {name} for `tree`: {}", listed(file, &all)))),
        _ => Err(Error::config(format!(
            "holds several trees: {}; choose one with `tree=NAME` (`packhorse pack tree=*` makes a dataset of each)",
            listed(file, &all)
        ))),
    }
}

/// Lists the trees with their numbers of entries, for errors.
fn listed(file: &RootFile<'_>, all: &[Item]) -> String {
    let mut names = BTreeMap::new();
    all.iter().for_each(|item| _ = names.entry(item.path.as_str()).or_insert(item));
    let streamers = Streamers::read(file);
    let entries = |item: &Item| match (item.key.class.as_str(), &streamers) {
        (ntuple::CLASS, _) => Ntuple::read(file, &item.key).map(|ntuple| ntuple.entries).ok(),
        (_, Ok(streamers)) => TTree::read(file, &item.key, streamers).map(|tree| tree.entries).ok(),
        _ => None,
    };
    let shown = names.iter().take(LISTED).map(|(name, item)| match entries(item) {
        Some(1) => format!("{name} (1 entry)"),
        Some(n) => format!("{name} ({n} entries)"),
        None => (*name).to_owned(),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl<'a> RootTable<'a> {
    /// Opens the table of `input` that `wanted` selects, with its readable columns.
    pub(crate) fn open(input: Arc<dyn Input + 'a>, wanted: &Wanted, limits: Limits) -> Result<Self> {
        let file = RootFile::open(input, limits)?;
        let item = choose(&file, wanted.tree.as_deref())?;
        let mut reports = Vec::new();
        let data = match item.key.class.as_str() {
            ntuple::CLASS => {
                let ntuple = Ntuple::read(&file, &item.key)?;
                let columns = fields(ntuple::leaves(&ntuple.records), &mut reports);
                Data::Ntuple(ntuple, columns)
            }
            _ => {
                let streamers = Streamers::read(&file)?;
                let tree = TTree::read(&file, &item.key, &streamers)?;
                let columns = branches(&tree, &streamers, &mut reports);
                Data::Tree(tree, columns)
            }
        };
        let mut table = Self { file, name: item.path, data, reports, omitted: Vec::new() };
        table.select(wanted)?;
        Ok(table)
    }

    /// Keeps the wanted columns.
    fn select(&mut self, wanted: &Wanted) -> Result<()> {
        let names = self.reports.iter().map(|report| report.name.as_str());
        if let Some(glob) = wanted.unmatched(names.clone()) {
            let known: Vec<&str> = names.collect();
            let meant = nearest(glob.trim_matches('*'), known.iter().copied());
            let meant = meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            let message = format!("`branches`: no branch matches {glob}{meant} (there are {})", some_of(&known));
            return Err(Error::config(message));
        }
        match &mut self.data {
            Data::Tree(_, columns) => columns.retain(|column| wanted.takes(&column.name)),
            Data::Ntuple(_, columns) => columns.retain(|(name, _)| wanted.takes(name)),
        }
        self.try_objects()?;
        let taken = self.reports.iter().filter(|report| wanted.takes(&report.name));
        self.omitted = taken.filter_map(BranchReport::omission).collect();
        let refused = self.reports.iter().filter(|report| wanted.insists(&report.name));
        let mut refused = refused.filter_map(|report| Some((report, report.holds.as_ref().err()?)));
        match refused.next() {
            Some((report, reason)) => {
                let what = format!("branch {} of type {}: {reason}", report.name, report.type_name);
                Err(Error::unsupported(what))
            }
            None => Ok(()),
        }
    }

    /// Drops the columns of objects that do not match their class descriptions.
    fn try_objects(&mut self) -> Result<()> {
        let Data::Tree(tree, columns) = &mut self.data else { return Ok(()) };
        let failures = trial::failures(&self.file, tree, columns)?;
        let failed = |column: &BranchColumn| Some((column.name.clone(), failures.get(&column.branch)?.clone()));
        let names: BTreeMap<String, String> = columns.iter().filter_map(failed).collect();
        columns.retain(|column| !failures.contains_key(&column.branch));
        for report in &mut self.reports {
            if let Some(reason) = names.get(&report.name) {
                report.holds = Err(format!("its objects do not match their class description: {reason}"));
            }
        }
        Ok(())
    }

    /// The schema, sorted by name; `Unsupported` if there are no columns.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        let fields: Vec<_> = match &self.data {
            Data::Tree(_, columns) => columns.iter().map(|column| column.holds.field(&column.name, false)).collect(),
            Data::Ntuple(_, columns) => columns.iter().map(|(name, node)| node.holds().field(name, false)).collect(),
        };
        if !fields.is_empty() {
            let name = (TABLE.to_owned(), self.name.clone());
            return Ok(Arc::new(Schema::new(fields).with_metadata(BTreeMap::from([name]))));
        }
        let mut refused = self.reports.iter().filter_map(|report| Some((report, report.holds.as_ref().err()?)));
        Err(Error::unsupported(match refused.next() {
            Some((first, reason)) => {
                format!("no branch can be read; {} of type {}: {reason}", first.name, first.type_name)
            }
            None => "a tree without branches".to_owned(),
        }))
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> u64 {
        match &self.data {
            Data::Tree(tree, _) => tree.entries,
            Data::Ntuple(ntuple, _) => ntuple.entries,
        }
    }

    /// Approximate uncompressed bytes of the columns.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.data {
            Data::Tree(tree, columns) => {
                let numbers: BTreeSet<usize> = columns.iter().map(|column| column.branch).collect();
                let bytes =
                    numbers.into_iter().filter_map(|number| tree.branches.get(number)).map(|branch| branch.bytes);
                bytes.fold(0, u64::saturating_add)
            }
            Data::Ntuple(ntuple, columns) => {
                let numbers: Vec<usize> = columns.iter().flat_map(|(_, node)| node.columns()).collect();
                ntuple.bytes(&numbers)
            }
        }
    }
}

/// The columns of a tree; appends a report for each branch.
fn branches(tree: &TTree, streamers: &Streamers, reports: &mut Vec<BranchReport>) -> Vec<BranchColumn> {
    let (mut names, mut columns) = (Names::default(), Vec::new());
    for (number, branch) in tree.branches.iter().enumerate() {
        let Some(found) = interpret(tree, number, streamers) else { continue };
        let mut report = |name, holds| reports.push(BranchReport { name, type_name: found.type_name.clone(), holds });
        match found.columns {
            Ok(found) => {
                for mut column in found {
                    column.name = names.unique(&column.name);
                    report(column.name.clone(), Ok(column.holds.clone()));
                    columns.push(column);
                }
            }
            Err(reason) => report(names.unique(&branch.path), Err(reason)),
        }
    }
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    columns
}

/// The columns of an RNTuple; appends a report for each field.
fn fields(leaves: Vec<LeafField>, reports: &mut Vec<BranchReport>) -> Vec<(String, Node)> {
    let (mut names, mut columns) = (Names::default(), Vec::new());
    for leaf in leaves {
        let name = names.unique(&leaf.name);
        let holds = leaf.node.as_ref().map(Node::holds).map_err(Clone::clone);
        reports.push(BranchReport { name: name.clone(), type_name: leaf.type_name, holds });
        columns.extend(leaf.node.ok().map(|node| (name, node)));
    }
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    columns
}

/// Makes names unique: repeated names get a number.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let mut found = name.to_owned();
        while self.0.contains_key(&found) {
            let count = self.0.entry(name.to_owned()).or_insert(1);
            *count += 1;
            found = format!("{name}#{count}");
        }
        self.0.insert(found.clone(), 1);
        found
    }
}
