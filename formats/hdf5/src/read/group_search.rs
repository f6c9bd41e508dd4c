//! Searches a file for the groups and datasets that are samples.

use super::dataset::named;
use super::dataset_walk::DEEPEST;
use super::description::{Described, describe};
use super::file::H5File;
use super::group::{Link, links};
use super::object_header::ObjectHeader;
use super::path_globs::{PathGlobs, field_name};
use packhorse_core::{Error, Kind, Omission, Result, some_of};
use std::rc::Rc;

/// The most links that are followed in a file: so many, and more in a larger file, where each has its own bytes.
const LINKS: u64 = 100_000;
const MOST_LINKS: u64 = 10_000_000;
/// The most groups that an error counts.
const PASSED: usize = 1000;
/// A group or dataset that is a sample.
pub(crate) struct SampleObject {
    pub(crate) path: String,
    pub(crate) address: u64,
    pub(crate) is_group: bool,
    /// The addresses of the groups around it, from the root on.
    pub(crate) around: Rc<[u64]>,
}

/// The search for the outermost objects that the globs take.
pub(crate) struct Search<'a> {
    file: &'a H5File<'a>,
    pytables: bool,
    wanted: PathGlobs<'a>,
    /// The groups around the objects at hand, which these can't hold.
    around: Vec<u64>,
    pub(crate) visits: Visits,
    pub(crate) found: Vec<SampleObject>,
    /// The first groups that were passed on the way, for errors.
    passed: Vec<String>,
    /// Objects that the globs take and that can't be read.
    pub(crate) omitted: Vec<Omission>,
}

/// Counts the links of a file that are followed. Groups with several links are followed several times.
pub(crate) struct Visits {
    left: u64,
}

impl Visits {
    fn of(file: &H5File<'_>) -> Self {
        Self { left: LINKS.saturating_add(file.len()).min(MOST_LINKS) }
    }

    pub(crate) fn one(&mut self) -> Result<()> {
        let many = || Error::new(Kind::Limit, "has too many links between groups, some of them to the same ones");
        self.left = self.left.checked_sub(1).ok_or_else(many)?;
        Ok(())
    }
}

impl<'a> Search<'a> {
    pub(crate) fn new(file: &'a H5File<'a>, groups: &'a [String], pytables: bool) -> Self {
        let (wanted, visits) = (PathGlobs::new(groups), Visits::of(file));
        let (around, found, passed, omitted) = (vec![file.root], Vec::new(), Vec::new(), Vec::new());
        Self { file, pytables, wanted, around, visits, found, passed, omitted }
    }

    /// Searches `group`.
    pub(crate) fn group(&mut self, group: &ObjectHeader, path: &str) -> Result<()> {
        if self.around.len() > DEEPEST {
            return Err(too_deep());
        }
        let around: Rc<[u64]> = self.around.as_slice().into();
        for (name, link) in links(self.file, group).map_err(|e| named(path, e))? {
            self.visits.one()?;
            let path = format!("{path}/{name}");
            match (link, self.wanted.wants(&path)) {
                (Link::Object(address), true) => self.take(path, address, &around)?,
                (Link::Object(address), false) => {
                    let is_index = self.pytables && name.starts_with("_i_");
                    if !is_index && !self.wanted.leaves_out(&path) && !self.around.contains(&address) {
                        self.enter(path, address)?;
                    }
                }
                (Link::Path, true) => self.omit(&path, "a soft link"),
                (Link::Outside, true) => self.omit(&path, "a link to another file"),
                (Link::Path | Link::Outside, false) => {}
            }
        }
        Ok(())
    }

    /// Notes a sample.
    fn take(&mut self, path: String, address: u64, around: &Rc<[u64]>) -> Result<()> {
        let object = ObjectHeader::read(self.file, address);
        match object.and_then(|object| describe(self.file, &object)) {
            Ok(Described::Datatype) => {}
            Ok(described) => {
                let (is_group, around) = (matches!(described, Described::Group), Rc::clone(around));
                self.found.push(SampleObject { path, address, is_group, around });
            }
            Err(e) if e.kind() == Kind::Unsupported => self.omit(&path, &e.text()),
            Err(e) => return Err(named(&path, e)),
        }
        Ok(())
    }

    /// Searches the object, if it is a group.
    fn enter(&mut self, path: String, address: u64) -> Result<()> {
        let read =
            ObjectHeader::read(self.file, address).and_then(|object| Ok((describe(self.file, &object)?, object)));
        match read {
            Ok((Described::Group, object)) => {
                self.around.push(address);
                self.group(&object, &path)?;
                self.around.pop();
                if self.passed.len() < PASSED {
                    self.passed.push(path);
                }
                Ok(())
            }
            Err(e) if e.kind() != Kind::Unsupported => Err(named(&path, e)),
            _ => Ok(()),
        }
    }

    fn omit(&mut self, path: &str, reason: &str) {
        self.omitted.push(Omission { field: field_name(path), reason: reason.to_owned(), empty: false });
    }

    /// Refuses globs that take nothing.
    pub(crate) fn check(&self, globs: &[String]) -> Result<()> {
        let all = globs.join(",");
        let glob = match (self.wanted.unmatched(), self.found.is_empty()) {
            (Some(glob), _) => glob,
            (None, true) => &all,
            (None, false) => return Ok(()),
        };
        if let (true, Some(first)) = (self.found.is_empty(), self.omitted.first()) {
            return Err(Error::unsupported(format!(
                "{} is {}, which is not read as a sample",
                first.field, first.reason
            )));
        }
        let groups: Vec<&str> = self.passed.iter().map(String::as_str).collect();
        let error = Error::config(format!("`groups`: no group or dataset matches {glob}"));
        Err(match groups.as_slice() {
            [] => error,
            groups => error.hint(format!("there are the groups {}", some_of(groups))),
        })
    }
}

pub(crate) fn too_deep() -> Error {
    Error::new(Kind::Limit, format!("has groups more than {DEEPEST} deep"))
}
