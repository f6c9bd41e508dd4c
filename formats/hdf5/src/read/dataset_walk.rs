//! Finds the datasets of a file: those that can be read, and the reasons why others can't.

use super::dataset::named;
use super::description::{Described, Description, describe};
use super::element::{Made, field_type};
use super::file::H5File;
use super::group::{Link, links};
use super::leaf_member::{LeafMember, leaves};
use super::netcdf::{Dimension, dimension};
use super::object_header::ObjectHeader;
use super::path_globs::{PathGlobs, field_name};
use crate::datatype::Datatype;
use packhorse_core::{Error, Kind, Omission, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The deepest nesting of groups, and the most objects in a file.
pub(crate) const DEEPEST: usize = 64;
const MOST: usize = 100_000;

/// A dataset with at least one readable field.
pub(crate) struct FoundDataset {
    pub(crate) path: String,
    pub(crate) address: u64,
    pub(crate) object: ObjectHeader,
    pub(crate) dims: Vec<u64>,
    /// Its leaves and their field types.
    pub(crate) fields: Vec<(LeafMember, Made)>,
}

impl FoundDataset {
    pub(crate) fn rows(&self) -> u64 {
        self.dims.first().copied().unwrap_or_default()
    }
}

/// A walk over the datasets of a file.
pub(crate) struct DatasetWalk<'a> {
    file: &'a H5File<'a>,
    pub(crate) wanted: PathGlobs<'a>,
    /// Whether PyTables wrote the file.
    pytables: bool,
    seen: BTreeSet<u64>,
    pub(crate) found: Vec<FoundDataset>,
    pub(crate) omitted: Vec<Omission>,
    /// Dimension scales by address.
    pub(crate) dimensions: BTreeMap<u64, Dimension>,
    /// Whether rows are NetCDF's records.
    pub(crate) records: bool,
}

impl<'a> DatasetWalk<'a> {
    /// Walks the groups below `root`.
    pub(crate) fn of(file: &'a H5File<'a>, root: &ObjectHeader, wanted: &'a [String], pytables: bool) -> Result<Self> {
        let (seen, found, omitted, dimensions) = (BTreeSet::from([file.root]), Vec::new(), Vec::new(), BTreeMap::new());
        let wanted = PathGlobs::new(wanted);
        let mut walk = Self { file, wanted, pytables, seen, found, omitted, dimensions, records: false };
        walk.group(root, "", 0)?;
        Ok(walk)
    }

    fn group(&mut self, group: &ObjectHeader, path: &str, depth: usize) -> Result<()> {
        let links = match links(self.file, group) {
            Err(e) if e.kind() == Kind::Unsupported => return self.omit(path, e),
            links => links.map_err(|e| named(path, e))?,
        };
        for (name, link) in links {
            let path = format!("{path}/{name}");
            // Indexes of columns are named so. They hold data only for those that ask for them.
            if self.pytables && self.wanted.is_empty() && name.starts_with("_i_") {
                continue;
            }
            match link {
                // An object with several links is read under the first.
                Link::Object(address) if self.seen.insert(address) => self.object(address, &path, depth)?,
                // It is there, under another name.
                Link::Object(_) => drop(self.wanted.wants(&path)),
                Link::Path => {}
                Link::Outside => self.omit(&path, Error::unsupported("a link to another file"))?,
            }
        }
        Ok(())
    }

    fn object(&mut self, address: u64, path: &str, depth: usize) -> Result<()> {
        if depth >= DEEPEST || self.seen.len() > MOST {
            return Err(Error::unsupported(format!("more than {MOST} objects, or groups more than {DEEPEST} deep")));
        }
        match self.dataset_or_group(address, path, depth) {
            // With a field it is of a dataset that an option names, and the groups around it are not left out for it.
            Err(e) if e.kind() == Kind::Unsupported && e.field().is_none() => self.omit(path, e),
            done => done,
        }
    }

    fn dataset_or_group(&mut self, address: u64, path: &str, depth: usize) -> Result<()> {
        let (file, wrong) = (self.file, |e| if is_unsupported(&e) { e } else { named(path, e) });
        let object = ObjectHeader::read(file, address).map_err(wrong)?;
        match describe(file, &object).map_err(wrong)? {
            Described::Group => self.group(&object, path, depth + 1),
            Described::Datatype => Ok(()),
            Described::Scalar => self.omit(path, Error::unsupported("a scalar dataset, which has no rows")),
            Described::Null => self.omit(path, Error::unsupported("a null dataset, which has no value")),
            Described::Rows(datatype, dims) => {
                if let Some(dimension) = dimension(file, &object, path).map_err(wrong)? {
                    let bare = dimension.bare;
                    self.dimensions.insert(address, dimension);
                    if bare {
                        return Ok(());
                    }
                }
                if !self.wanted.wants(path) {
                    // Another link may be wanted.
                    self.seen.remove(&address);
                    return Ok(());
                }
                Description::of(file, &object).map_err(wrong)?;
                self.dataset(path, (address, object), datatype, dims)
            }
        }
    }

    fn dataset(&mut self, path: &str, at: (u64, ObjectHeader), datatype: Datatype, dims: Vec<u64>) -> Result<()> {
        let datatype = if self.pytables { datatype.of_pytables() } else { datatype };
        let (mut fields, mut omitted) = (Vec::new(), Vec::new());
        for leaf in leaves(&datatype, &dims) {
            match field_type(&leaf.datatype, &leaf.dims) {
                Ok(made) => fields.push((leaf, made)),
                Err(why) => omitted.push((format!("{path}{}", leaf.name), why)),
            }
        }
        if let (true, Some((_, why))) = (fields.is_empty(), omitted.first()) {
            self.refuse_named(path, Error::unsupported(why.clone()))?;
        }
        // The options name the dataset, so its members are wanted too.
        let omission = |(path, reason): (String, String)| Omission { field: field_name(&path), reason, empty: false };
        self.omitted.extend(omitted.into_iter().map(omission));
        if !fields.is_empty() {
            let (address, object) = at;
            self.found.push(FoundDataset { path: path.to_owned(), address, object, dims, fields });
        }
        Ok(())
    }

    /// Notes that `path` can't be read; an error if an option names it exactly.
    pub(crate) fn omit(&mut self, path: &str, error: Error) -> Result<()> {
        let reason = error.text().into_owned();
        self.refuse_named(path, error)?;
        if self.wanted.wants(path) {
            self.omitted.push(Omission { field: field_name(path), reason, empty: false });
        }
        Ok(())
    }

    /// `error` if an option names `path` exactly.
    fn refuse_named(&self, path: &str, error: Error) -> Result<()> {
        match self.wanted.name(path) {
            true => Err(error.context(format_args!("dataset {path} can't be read")).in_field(field_name(path))),
            false => Ok(()),
        }
    }
}

fn is_unsupported(error: &Error) -> bool {
    error.kind() == Kind::Unsupported
}
