//! NetCDF-4: HDF5 files with named axes.
//!
//! Specification: [the NetCDF-4
//! format](https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html), and HDF5's [dimension
//! scales](https://support.hdfgroup.org/documentation/hdf5/latest/_h5_d_s__u_g.html). A dimension is a scale: a dataset
//! marked by its attribute `CLASS`. A variable's `DIMENSION_LIST` refers to the scale of each axis. A scale is its own
//! first axis; one with several axes lists their numbers in `_Netcdf4Coordinates`. Scales of dimensions that are not
//! variables hold no data and are skipped.
//!
//! The samples of a file are the records of one dimension; the fields are the variables whose first axis it is.

use super::attribute::{find, text_attribute};
use super::dataset_walk::{DatasetWalk, FoundDataset};
use super::element::field_type;
use super::file::H5File;
use super::message;
use super::object_header::{ObjectHeader, kind};
use super::packed::Packing;
use crate::bytes::UNDEFINED;
use crate::datatype::{Datatype, Padding};
use packhorse_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The start of the attribute `NAME` of scales that are not variables.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable";

/// A dimension's scale.
#[derive(Debug)]
pub(crate) struct Dimension {
    path: String,
    unlimited: bool,
    /// Its number in the file.
    id: Option<i128>,
    /// Whether it is a dimension without a variable.
    pub(crate) bare: bool,
}

/// The options for NetCDF-4 files.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetcdfOptions {
    /// The dimension whose records are the samples; `None` to choose it.
    pub(crate) dimension: Option<String>,
    /// Whether packed values are unpacked.
    pub(crate) unpack: bool,
    /// Whether numbers since a date become times.
    pub(crate) times: bool,
}

/// The dimension if `object` is a dimension scale.
pub(crate) fn dimension(file: &H5File<'_>, object: &ObjectHeader, path: &str) -> Result<Option<Dimension>> {
    if text_attribute(file, object, "CLASS")?.as_deref() != Some("DIMENSION_SCALE") {
        return Ok(None);
    }
    let space = object.first(kind::DATASPACE)?.map(|bytes| message::space(file, bytes)).transpose()?;
    let unlimited = space.is_some_and(|space| space.most.first() == Some(&UNDEFINED));
    let id = find(file, object, "_Netcdf4Dimid")?.and_then(|id| id.integers().first().copied());
    let bare = text_attribute(file, object, "NAME")?.is_some_and(|name| name.starts_with(NO_VARIABLE));
    Ok(Some(Dimension { path: path.to_owned(), unlimited, id, bare }))
}

/// The datasets of a NetCDF-4 file whose rows are records; the others are omitted. For other files, all datasets. A file is one if
/// NetCDF's library wrote it, or if it has dimension scales and the name of one, or an option that is about them.
///
/// Errors: such an option for a file without dimension scales (kind `Config`).
pub(crate) fn records(
    file: &H5File<'_>,
    root: &ObjectHeader,
    walk: &mut DatasetWalk<'_>,
    reading: &NetcdfOptions,
) -> Result<Vec<FoundDataset>> {
    let found = std::mem::take(&mut walk.found);
    let numbered = walk.dimensions.values().any(|dimension| dimension.id.is_some());
    let named = || Ok::<_, Error>(find(file, root, "_NCProperties")?.is_some());
    let asked = reading.dimension.is_some() || reading.unpack || reading.times;
    if walk.dimensions.is_empty() && asked {
        let option = match reading {
            NetcdfOptions { unpack: true, .. } => "scale",
            NetcdfOptions { times: true, .. } => "times",
            _ => "dimension",
        };
        let message = format!("option {option} is about NetCDF files, and this one has no dimension scales");
        return Err(Error::config(message));
    }
    if walk.dimensions.is_empty() || !(asked || numbered || has_netcdf_name(file.name()) || named()?) {
        return Ok(found);
    }
    let axes = found.iter().map(|found| axes(file, found, &walk.dimensions)).collect::<Result<Vec<_>>>()?;
    if !(asked || numbered || axes.iter().any(|axes| axes.first().is_some_and(Option::is_some))) {
        return Ok(found);
    }
    let record = match &reading.dimension {
        Some(name) => by_name(name, &walk.dimensions)?,
        None => record(&found, &axes, &walk.dimensions)?,
    };
    let name = walk.dimensions.get(&record).map(|dimension| dimension.path.trim_start_matches('/').to_owned());
    let name = name.unwrap_or_default();
    walk.records = true;
    let bounds = if reading.times { bounds(file, &found)? } else { BTreeMap::new() };
    let mut kept = Vec::new();
    for (found, axes) in found.into_iter().zip(axes) {
        let why = match axes.iter().position(|axis| *axis == Some(record)) {
            Some(0) => {
                let parent = bounds.get(&found.path).map(|parent| &**parent);
                kept.push(variable(file, found, reading, parent)?);
                continue;
            }
            Some(axis) => format!("has the record dimension {name} as axis {axis} instead of first"),
            None => format!("does not have the record dimension {name}: its values belong to no sample"),
        };
        walk.omit(&found.path, Error::unsupported(why))?;
    }
    Ok(kept)
}

/// Whether the name is that of a NetCDF file.
fn has_netcdf_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| ["nc", "nc4", "cdf"].contains(&&*extension))
}

/// The addresses of the scales of a variable's axes.
fn axes(file: &H5File<'_>, found: &FoundDataset, dimensions: &BTreeMap<u64, Dimension>) -> Result<Vec<Option<u64>>> {
    if let Some(ids) = find(file, &found.object, "_Netcdf4Coordinates")? {
        let of = |id| dimensions.iter().find(|(_, dimension)| dimension.id == Some(id)).map(|(address, _)| *address);
        return Ok(ids.integers().into_iter().map(of).collect());
    }
    if dimensions.contains_key(&found.address) {
        return Ok(vec![Some(found.address)]);
    }
    match find(file, &found.object, "DIMENSION_LIST")? {
        Some(list) => list.references(file),
        None => Ok(Vec::new()),
    }
}

fn by_name(name: &str, dimensions: &BTreeMap<u64, Dimension>) -> Result<u64> {
    let path = format!("/{}", name.trim_start_matches('/'));
    let whole = dimensions.iter().find(|(_, dimension)| dimension.path == path);
    let inside = || dimensions.iter().find(|(_, dimension)| dimension.path.ends_with(&path));
    let Some((address, _)) = whole.or_else(inside) else {
        let names = names(dimensions.keys().copied().collect(), dimensions);
        return Err(Error::config(format!(
            "`read=dimension={name}`: there is no dimension {name}; choose one of {names}"
        )));
    };
    Ok(*address)
}

/// The only unlimited dimension that is the first axis of a variable, or else the only first axis.
fn record(found: &[FoundDataset], axes: &[Vec<Option<u64>>], dimensions: &BTreeMap<u64, Dimension>) -> Result<u64> {
    let first = |coordinates: bool| -> BTreeSet<u64> {
        let both = found.iter().zip(axes);
        let chosen = both.filter(|(found, _)| coordinates || !dimensions.contains_key(&found.address));
        chosen.filter_map(|(_, axes)| axes.first().copied().flatten()).collect()
    };
    // Coordinate variables count only if there are no others.
    let variables = first(false);
    let candidates = if variables.is_empty() { first(true) } else { variables };
    let is_unlimited = |address: &&u64| dimensions.get(address).is_some_and(|dimension| dimension.unlimited);
    let unlimited: Vec<u64> = candidates.iter().filter(is_unlimited).copied().collect();
    match (unlimited.as_slice(), candidates.len(), candidates.first()) {
        ([one], _, _) => Ok(*one),
        ([], 1, Some(one)) => Ok(*one),
        _ => Err(Error::content(format!(
            "has variables over the dimensions {}: name the one whose records are the samples, with `from=hdf5` and `read=dimension=NAME`",
            names(candidates, dimensions)
        ))),
    }
}

fn names(of: BTreeSet<u64>, dimensions: &BTreeMap<u64, Dimension>) -> String {
    let names = of.iter().filter_map(|address| dimensions.get(address));
    names.map(|dimension| dimension.path.trim_start_matches('/')).collect::<Vec<_>>().join(", ")
}

/// By their paths the variables that are the bounds of times, with the attributes of these, which count for them too.
fn bounds(file: &H5File<'_>, found: &[FoundDataset]) -> Result<BTreeMap<String, Rc<Packing>>> {
    let mut bounds = BTreeMap::new();
    for found in found {
        let packing = Packing::of(file, &found.object)?;
        if !packing.is_time() {
            continue;
        }
        let (packing, group) = (Rc::new(packing), found.path.rsplit_once('/').map_or("", |(group, _)| group));
        for name in ["bounds", "climatology"] {
            if let Some(name) = text_attribute(file, &found.object, name)? {
                bounds.insert(format!("{group}/{name}"), Rc::clone(&packing));
            }
        }
    }
    Ok(bounds)
}

/// Applies NetCDF's conventions to a variable: arrays of characters are text, and numbers may be packed.
fn variable(
    file: &H5File<'_>,
    mut found: FoundDataset,
    reading: &NetcdfOptions,
    parent: Option<&Packing>,
) -> Result<FoundDataset> {
    let mut packing = Packing::of(file, &found.object)?;
    parent.into_iter().for_each(|parent| packing.inherit(parent));
    for (leaf, made) in &mut found.fields {
        if leaf.place.is_some() {
            continue;
        }
        match (&leaf.datatype, leaf.dims.as_slice()) {
            (Datatype::Fixed { size: 1, utf8, .. }, [_, .., last]) if (1..=u64::from(u32::MAX)).contains(last) => {
                let (size, utf8) = (*last as u32, *utf8);
                let datatype = Datatype::Fixed { size, utf8, padding: Padding::Zeros };
                let dims = leaf.dims.get(..leaf.dims.len() - 1).unwrap_or_default().to_vec();
                if let Ok(text) = field_type(&datatype, &dims) {
                    (*made, leaf.joined, leaf.datatype, leaf.dims) = (text, true, datatype, dims);
                }
            }
            (Datatype::Integer { size: 1, .. }, _) if packing.boolean => {
                leaf.datatype = Datatype::Boolean;
                *made = field_type(&leaf.datatype, &leaf.dims).map_err(Error::unsupported)?;
            }
            _ => {
                let times = if reading.times { packing.times(&leaf.datatype) } else { Ok(None) };
                if let Some(times) = times.map_err(|e| e.context(format_args!("variable {}", found.path)))? {
                    *made = field_type(&times.becomes(), &leaf.dims).map_err(Error::unsupported)?;
                    leaf.unpack = Some(times);
                    continue;
                }
                leaf.unpack = reading.unpack.then(|| packing.unpacker(&leaf.datatype)).flatten();
                if let Some(unpack) = &leaf.unpack {
                    *made = field_type(&unpack.becomes(), &leaf.dims).map_err(Error::unsupported)?;
                }
                let other = packing.other_sign(&leaf.datatype).filter(|_| reading.unpack && leaf.unpack.is_none());
                leaf.notes = packing.notes(leaf.unpack.is_some() || other.is_some());
                if let Some(other) = other {
                    leaf.datatype = other;
                    *made = field_type(&leaf.datatype, &leaf.dims).map_err(Error::unsupported)?;
                }
            }
        }
    }
    Ok(found)
}
