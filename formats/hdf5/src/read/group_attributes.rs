//! Attributes of samples that are groups or datasets, and of the groups around them.

use super::attribute::{self, Attribute};
use super::group_walk::SampleWalk;
use super::object_header::ObjectHeader;
use super::path_globs::PathGlobs;
use crate::datatype::Datatype;
use packhorse_core::{Error, Kind, Omission, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What stands before the name of an attribute in the place of a field.
pub(crate) const ATTRIBUTE: char = '@';
/// Attributes that HDF5's library and netCDF make for themselves.
const OF_LIBRARIES: [&str; 7] = [
    "DIMENSION_LIST",
    "DIMENSION_LABELS",
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_NCProperties",
    "_nc3_strict",
];
/// Those that PyTables makes for itself.
const OF_PYTABLES: [&str; 7] = ["CLASS", "VERSION", "FLAVOR", "FILTERS", "PYTABLES_FORMAT_VERSION", "NROWS", "EXTDIM"];

/// The globs of attributes: of samples, and (from their path on) of groups around them.
pub(crate) struct AttributeGlobs<'a> {
    pub(crate) own: PathGlobs<'a>,
    pub(crate) outer: PathGlobs<'a>,
    pytables: bool,
    /// Attributes of the first sample by name and of the groups around it by path, where no glob chooses any.
    unread: BTreeSet<String>,
    /// The chosen attributes of a group, by its address.
    groups: BTreeMap<u64, Rc<[OuterAttribute]>>,
}

/// An attribute of a group around samples: its name, type and dimensions.
type OuterAttribute = (String, Datatype, Vec<u64>);

/// Whether the glob is one of attributes of groups around samples, which begins with their path.
pub(crate) fn is_outer(glob: &str) -> bool {
    glob.trim_start_matches('!').starts_with('/')
}

impl<'a> AttributeGlobs<'a> {
    /// `own` and `outer` are globs of names and of paths.
    pub(crate) fn new((own, outer): (&'a [String], &'a [String]), pytables: bool) -> Self {
        let (own, outer) = (PathGlobs::new(own), PathGlobs::new(outer));
        Self { own, outer, pytables, unread: BTreeSet::new(), groups: BTreeMap::new() }
    }

    /// Whether the attribute `name`, found at `path`, is a field. Those of libraries are only if a glob other than `*` matches.
    fn wants(&self, globs: &PathGlobs<'_>, name: &str, path: &str) -> bool {
        !globs.is_empty() && globs.wants(path) && (!self.is_of_a_library(name) || globs.asks_for(path))
    }

    fn is_of_a_library(&self, name: &str) -> bool {
        OF_LIBRARIES.contains(&name) || self.pytables && OF_PYTABLES.contains(&name)
    }

    /// Attributes that are not read, and globs that match none. `Config` for a name that no sample has.
    pub(crate) fn omissions(self) -> Result<Vec<Omission>> {
        let mut found = Vec::new();
        for glob in self.own.idle().chain(self.outer.idle()).filter(|glob| !glob.starts_with('!')) {
            if !glob.contains(['*', '?']) {
                let error = Error::config(format!("`attributes`: no sample has the attribute {glob}"));
                let hint = format!("if only some files have it, choose it by a pattern (`attributes={glob}*`)");
                let other = "an attribute of a group around the samples needs its path (`attributes=/data/NAME`)";
                return Err(error.hint(hint).hint(other));
            }
            if glob.trim_start_matches('/') != "*" {
                found.push((glob.to_owned(), "no attribute matches"));
            }
        }
        found.extend(self.unread.into_iter().map(|name| match is_outer(&name) {
            true => (name, "attributes of groups around the samples, which `attributes=/*` makes fields"),
            false => (name, "attributes, which `attributes=*` makes fields"),
        }));
        let omission = |(field, reason): (String, &str)| Omission { field, reason: reason.to_owned(), empty: false };
        Ok(found.into_iter().map(omission).collect())
    }
}

impl SampleWalk<'_> {
    /// Adds the values of the attributes of the sample at hand, or notes those of the first if none are chosen.
    pub(super) fn own_attributes(&mut self, object: &ObjectHeader, address: u64) -> Result<()> {
        if self.attributes.own.is_empty() {
            if self.made.samples.len() == 1 {
                self.note(object, "");
            }
            return Ok(());
        }
        attribute::all(self.file, object, &mut |name, attribute| {
            let name = name.unwrap_or_else(|| "an attribute".to_owned());
            self.visits.one()?;
            match self.attributes.wants(&self.attributes.own, &name, &name) {
                true => self.attribute(&name, attribute, address),
                false => Ok(()),
            }
        })
    }

    /// Adds the values of the attributes of the groups around the sample at hand, from the outermost on.
    pub(super) fn outer_attributes(&mut self, around: &[u64]) -> Result<()> {
        if self.attributes.outer.is_empty() && self.made.samples.len() > 1 {
            return Ok(());
        }
        let place = self.place.clone();
        let slashes = place.match_indices('/').map(|(at, _)| at);
        for (address, slash) in around.iter().zip(slashes) {
            let path = place.get(..=slash).unwrap_or_default();
            self.outer = Some(path.to_owned());
            let known = self.attributes.groups.get(address).map(Rc::clone);
            let found = known.map_or_else(|| self.chosen_of(*address, path), Ok)?;
            for (name, datatype, dims) in &*found {
                self.visits.one()?;
                self.leaves(datatype, dims, *address, &format!("{ATTRIBUTE}{name}"))?;
            }
        }
        self.outer = None;
        Ok(())
    }

    /// The chosen attributes of the group at `path`, which ends with a slash.
    fn chosen_of(&mut self, address: u64, path: &str) -> Result<Rc<[OuterAttribute]>> {
        let object = ObjectHeader::read(self.file, address)?;
        let mut found = Vec::new();
        if self.attributes.outer.is_empty() {
            self.note(&object, path);
        } else {
            attribute::all(self.file, &object, &mut |name, attribute| {
                let name = name.unwrap_or_else(|| "an attribute".to_owned());
                if self.attributes.wants(&self.attributes.outer, &name, &format!("{path}{name}")) {
                    match attribute {
                        Ok(attribute) if !attribute.space.none => {
                            found.push((name, attribute.datatype, attribute.space.dims));
                        }
                        other => self.attribute(&name, other, address)?,
                    }
                }
                Ok(())
            })?;
        }
        let found: Rc<[OuterAttribute]> = found.into();
        self.attributes.groups.insert(address, Rc::clone(&found));
        Ok(found)
    }

    /// Notes attributes that are not read: damage there costs nothing.
    fn note(&mut self, object: &ObjectHeader, path: &str) {
        let _ = attribute::all(self.file, object, &mut |name, _| {
            let name = name.filter(|name| !self.attributes.is_of_a_library(name));
            self.attributes.unread.extend(name.map(|name| format!("{path}{name}")));
            Ok(())
        });
    }

    fn attribute(&mut self, name: &str, attribute: Result<Attribute>, address: u64) -> Result<()> {
        let below = format!("{ATTRIBUTE}{name}");
        match attribute {
            Ok(attribute) if attribute.space.none => drop(self.empty.insert(self.field_name(&below))),
            Ok(Attribute { datatype, space, .. }) => self.leaves(&datatype, &space.dims, address, &below)?,
            Err(e) if matches!(e.kind(), Kind::Unsupported | Kind::Limit) => self.omit(&below, e)?,
            Err(e) => return Err(e),
        }
        Ok(())
    }
}
