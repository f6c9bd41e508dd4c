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
    /// A dataset of one element without dimensions.
    Scalar,
    /// A dataset without an element.
    Null,
    /// A datatype that has a name.
    Datatype,
}

/// The kind of `object`.
pub(crate) fn describe(file: &H5File<'_>, object: &ObjectHeader) -> Result<Described> {
    let space = match (object.first(kind::DATASPACE)?, object.message(kind::LAYOUT)) {
        (Some(space), Some(_)) => space,
        (None, None) if object.message(kind::FILL).is_none() => {
            let is_datatype = object.message(kind::DATATYPE).is_some();
            return Ok(if is_datatype { Described::Datatype } else { Described::Group });
        }
        (None, _) => return Err(Error::content("has a dataset without a dataspace: the file is damaged")),
        (_, None) => return Err(Error::content("has a dataset without a layout: the file is damaged")),
    };
    let space = message::space(file, space)?;
    Ok(match (space.none, space.dims.is_empty()) {
        (true, _) => Described::Null,
        (_, true) => Described::Scalar,
        _ => Described::Rows(message::datatype(file, object)?, space.dims),
    })
}

/// The properties of a dataset. A scalar is one row.
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
        let mut space = message::space(file, object.first(kind::DATASPACE)?.ok_or_else(none)?)?;
        if space.none {
            return Err(none());
        }
        if space.dims.is_empty() {
            (space.dims, space.most) = (vec![1], vec![1]);
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
