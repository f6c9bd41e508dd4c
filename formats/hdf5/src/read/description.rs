//! What an object's messages say that it is.

use super::file::H5File;
use super::filter;
use super::message::{self, Filter, Layout, Space};
use super::object::{Object, kind};
use crate::datatype::Datatype;
use packhorse_core::{Error, Result};

/// What an object is.
pub(crate) enum Described {
    Group,
    /// A dataset of rows.
    Rows(Datatype, Vec<u64>),
    /// A dataset of none, and why.
    Single(&'static str),
}

/// What `object` is.
pub(crate) fn describe(file: &H5File<'_>, object: &Object) -> Result<Described> {
    let (Some(space), true) = (object.first(kind::DATASPACE)?, object.message(kind::LAYOUT).is_some()) else {
        return Ok(Described::Group);
    };
    let space = message::space(file, space)?;
    Ok(match (space.none, space.dims.is_empty()) {
        (true, _) => Described::Single("no value at all"),
        (_, true) => Described::Single("a single value, and no rows"),
        _ => Described::Rows(message::datatype(file, object)?, space.dims),
    })
}

/// What the messages of a dataset of rows say of its elements.
pub(crate) struct Description {
    pub(crate) space: Space,
    pub(crate) datatype: Datatype,
    pub(crate) filters: Vec<Filter>,
    pub(crate) layout: Layout,
}

impl Description {
    /// `Unsupported` where the elements are of a kind, or in a place, that is not read.
    pub(crate) fn of(file: &H5File<'_>, object: &Object) -> Result<Self> {
        let none = || Error::content("is no dataset of rows");
        let space = message::space(file, object.first(kind::DATASPACE)?.ok_or_else(none)?)?;
        if space.none || space.dims.is_empty() {
            return Err(none());
        }
        let datatype = message::datatype(file, object)?;
        let filters = object.first(kind::FILTERS)?.map(message::filters).transpose()?.unwrap_or_default();
        filter::check(&filters)?;
        if object.message(kind::EXTERNAL_FILES).is_some() {
            return Err(Error::unsupported("a dataset in external files (h5repack brings it into this one)"));
        }
        let layout = message::layout(file, object.first(kind::LAYOUT)?.ok_or_else(none)?)?;
        if layout == Layout::Virtual {
            return Err(Error::unsupported("a virtual dataset (read the files that it is made of)"));
        }
        Ok(Self { space, datatype, filters, layout })
    }
}
