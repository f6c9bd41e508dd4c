//! Refuses views where a dataset with shards of its own is needed.

use packhorse_core::{Result, Store};
use packhorse_dataset::DatasetView;
use std::path::Path;

/// Refuses a view in the folder `dir`, for requests that need a dataset with shards of its own.
///
/// Errors: `Config` for a view; those of [`DatasetView::read`].
pub(crate) fn refuse_view(store: &dyn Store, dir: &Path) -> Result<()> {
    match DatasetView::read(store, dir)? {
        Some(view) => Err(view.refusal().in_input(dir.display())),
        None => Ok(()),
    }
}
