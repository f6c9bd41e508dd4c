//! Which of a file's tables is meant, and what its columns are.

use crate::file::{Item, RootFile};
use crate::interpret::{Column, interpret};
use crate::options::Wanted;
use crate::report::BranchReport;
use crate::streamer::Streamers;
use crate::tree::Tree;
use packhorse_core::{Error, Limits, Input, Result, Schema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An open table of a file.
pub(crate) struct Table<'a> {
    pub(crate) file: RootFile<'a>,
    pub(crate) tree: Tree,
    pub(crate) columns: Vec<Column>,
    pub(crate) reports: Vec<BranchReport>,
}

const TREES: [&str; 3] = ["TTree", "TNtuple", "TNtupleD"];

/// All trees of a file, in the order of their paths; the highest cycle first.
pub(crate) fn tables(file: &RootFile<'_>) -> Result<Vec<Item>> {
    let mut found: Vec<Item> = file.items()?.into_iter().filter(|item| TREES.contains(&item.key.class.as_str())).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path).then(b.key.cycle.cmp(&a.key.cycle)));
    Ok(found)
}

/// The one that is meant by `wanted`.
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
    let listed = || all.iter().map(|item| item.path.as_str()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
    match (found.first(), paths.len(), wanted) {
        (Some(item), 1, _) => Ok((*item).clone()),
        (None, _, None) => Err(Error::content("holds no tree")),
        (None, _, Some(name)) => Err(Error::config(format!("option tree: no tree {name}; there are: {}", listed()))),
        _ => Err(Error::config(format!("holds several trees; choose one by the option tree: {}", listed()))),
    }
}

impl<'a> Table<'a> {
    /// The table of `input` that `wanted` means, with the columns that can be read.
    pub(crate) fn open(input: &'a dyn Input, wanted: &Wanted, limits: Limits) -> Result<Self> {
        let file = RootFile::open(input, limits)?;
        let item = choose(&file, wanted.tree.as_deref())?;
        let streamers = Streamers::read(&file)?;
        let tree = Tree::read(&file, &item.key, &streamers)?;
        let mut table = Self { file, tree, columns: Vec::new(), reports: Vec::new() };
        table.interpret(&streamers);
        table.select(wanted)?;
        Ok(table)
    }

    fn interpret(&mut self, streamers: &Streamers) {
        let mut names = Names::default();
        for (number, branch) in self.tree.branches.iter().enumerate() {
            let Some(found) = interpret(&self.tree, number, streamers) else { continue };
            let report = |name, holds| BranchReport { name, type_name: found.type_name.clone(), holds };
            match found.columns {
                Ok(columns) => {
                    for mut column in columns {
                        column.name = names.unique(&column.name);
                        self.reports.push(report(column.name.clone(), Ok(column.holds.clone())));
                        self.columns.push(column);
                    }
                }
                Err(reason) => self.reports.push(report(names.unique(&branch.path), Err(reason))),
            }
        }
        self.reports.sort_by(|a, b| a.name.cmp(&b.name));
        self.columns.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Keeps the columns that are wanted.
    fn select(&mut self, wanted: &Wanted) -> Result<()> {
        let names = self.reports.iter().map(|report| report.name.as_str());
        if let Some(glob) = wanted.vain(names) {
            return Err(Error::config(format!("option branches: nothing is called {glob}")));
        }
        self.columns.retain(|column| wanted.takes(&column.name));
        let refused = self.reports.iter().filter(|report| wanted.takes(&report.name));
        let mut refused = refused.filter_map(|report| Some((report, report.holds.as_ref().err()?)));
        if let Some((report, reason)) = refused.clone().find(|(report, _)| wanted.insists(&report.name)) {
            let what = format!("branch {} of type {}: {reason}", report.name, report.type_name);
            return Err(Error::unsupported(what));
        }
        match refused.next() {
            Some((report, reason)) if self.columns.is_empty() => {
                let what = format!("no branch that can be read; {} of type {}: {reason}", report.name, report.type_name);
                Err(Error::unsupported(what))
            }
            _ => Ok(()),
        }
    }

    /// The columns as a schema, in the order of their names.
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields: Vec<_> = self.columns.iter().map(|column| column.holds.field(&column.name, false)).collect();
        Arc::new(Schema::new(fields))
    }

    /// About how many bytes the columns are.
    pub(crate) fn bytes(&self) -> u64 {
        let branches: BTreeSet<usize> = self.columns.iter().map(|column| column.branch).collect();
        let bytes = branches.into_iter().filter_map(|number| self.tree.branches.get(number)).map(|branch| branch.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// Names that were given; a second one gets a number.
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
