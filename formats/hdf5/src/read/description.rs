//! Derives from an object's messages whether it is a group or a dataset, and the dataset's properties.

use super::file::H5File;
use super::filter;
use super::message::{self, DataLayout, FilterDescription, Space};
use super::object_header::{ObjectHeader, kind};
use crate::datatype::Datatype;
use packhorse_core::{Error, Result};

/// The kind of an object.
pub(crate) enum Described {
    Group,
    /// A dataset with rows: datatype and dimensions.
    Rows(Datatype, Vec<u64>),
    /// A dataset without rows, and why.
    Single(&'static str),
}

/// The kind of `object`.
pub(crate) fn describe(file: &H5File<'_>, object: &ObjectHeader) -> Result<Described> {
    let space = match (object.first(kind::DATASPACE)?, object.message(kind::LAYOUT)) {
        (Some(space), Some(_)) => space,
        // A committed datatype has no rows either.
        (None, None) if object.message(kind::FILL).is_none() => return Ok(Described::Group),
        (None, _) => return Err(Error::content("has a dataset without a dataspace: the file is damaged")),
        (_, None) => return Err(Error::content("has a dataset without a layout: the file is damaged")),
    };
    let space = message::space(file, space)?;
    Ok(match (space.none, space.dims.is_empty()) {
        (true, _) => Described::Single("a null dataset, which has no value"),
        (_, true) => Described::Single("a scalar dataset, which has no rows"),
        _ => Described::Rows(message::datatype(file, object)?, space.dims),
    })
}

/// The properties of a dataset with rows.
pub(crate) struct Description {
    pub(crate) space: Space,
    pub(crate) datatype: Datatype,
    pub(crate) filters: Vec<FilterDescription>,
    pub(crate) layout: DataLayout,
}

impl Description {
    /// `Unsupported` if the datatype, a filter or the storage is not supported.
    pub(crate) fn of(file: &H5File<'_>, object: &ObjectHeader) -> Result<Self> {
        let none = || Error::content("is not a dataset with rows");
        let space = message::space(file, object.first(kind::DATASPACE)?.ok_or_else(none)?)?;
        if space.none || space.dims.is_empty() {
            return Err(none());
        }
        let datatype = message::datatype(file, object)?;
        let filters = object.first(kind::FILTERS)?.map(message::filters).transpose()?.unwrap_or_default();
        filter::check(&filters)?;
        if object.message(kind::EXTERNAL_FILES).is_some() {
            return Err(Error::unsupported("a dataset in external files (copy it into this file with h5repack)"));
        }
        let layout = message::layout(file, object.first(kind::LAYOUT)?.ok_or_else(none)?)?;
        if layout == DataLayout::Virtual {
            return Err(Error::unsupported("a virtual dataset (read its source files instead)"));
        }
        Ok(Self { space, datatype, filters, layout })
    }
}
