//! A look at the folder of a new dataset, before there is anything to write.

use super::Session;
use crate::Recipe;
use crate::writer::check_free;
use packhorse_core::{Error, Result};

impl Session {
    /// Whether [`Session::writer`] can write to the recipe's folder: it is new, empty, or holds a dataset that is to be replaced
    /// ([`Session::replacing`]). Writes nothing; for programs whose samples take long to make.
    ///
    /// Errors: those of [`Session::writer`] about the folder; `Config` for a recipe without one.
    pub fn check_output(&self, recipe: &Recipe) -> Result<()> {
        let out = recipe.out.as_ref().ok_or_else(|| Error::config("the recipe has no `out`"))?;
        check_free(&*self.store, out, self.replaces)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("formats", &self.registry)
            .field("jobs", &self.jobs)
            .field("memory", &self.memory)
            .field("on_error", &self.on_error)
            .finish_non_exhaustive()
    }
}
