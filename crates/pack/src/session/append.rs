//! Appending: new shards for a sealed dataset.

use super::{Packed, Session, Transforms};
use crate::append::{Base, Place, check_sealed};
use crate::kept_tables::KeptTables;
use crate::moved_inputs::find_inputs;
use crate::pack::{pack, pack_again};
use crate::plan::{Allowed, Plan};
use crate::plans::open_plans;
use crate::request_error::as_request_error;
use crate::scan::matched;
use crate::shard_packer::Redo;
use crate::stored_plan::{Stored, mend_plan};
use crate::{PackReport, Part, Recipe};
use packhorse_core::{Error, Result};
use packhorse_dataset::{Digest, Manifest};
use packhorse_storage::Location;
use packhorse_transform::casts_of;
use std::any::Any;
use std::path::Path;

impl Session {
    /// Adds samples to the sealed dataset in `dir`: new shards, numbered after those that it has. After an interruption
    /// the same call resumes; when they are part of the dataset, it changes nothing.
    ///
    /// `recipe`: the inputs and how they are read. The format and its settings, transforms, sizes, order and splits are
    /// those of the dataset unless the recipe says otherwise; the ones that all samples share can't be said otherwise.
    /// Numbers of labels and the splits of samples stay. Until the dataset is sealed again readers see the old one, and
    /// its shards are never written.
    ///
    /// Errors: `Config` if there is no sealed dataset, for samples with other columns, for keys that the dataset has, for
    /// classes that contradict its list, and while another append is not sealed, unless that one is dropped
    /// ([`Session::replacing`]); `Incomplete` if the dataset is damaged.
    pub fn append(&self, dir: impl AsRef<Path>, recipe: &Recipe) -> Result<Packed> {
        let (dir, tables) = (dir.as_ref(), self.tables());
        let _alone = self.alone_with(dir)?;
        let (plan, base, transforms, place) = self.decide_append(dir, recipe, &tables)?;
        let (stored, digest) = self.place_plan(&plan, &base, place)?;
        let skipped_before = base.manifest.skipped;
        drop((plan, base));
        let (context, options) = (self.packing(&transforms, &tables), self.options(Part::ALL, recipe.on_error));
        let report = match place {
            Place::Next => pack(&context, dir, &options)?,
            Place::Sealed(_, digest) => {
                let mut plans = open_plans(&*self.store, dir)?;
                plans.retain(|plan| plan.digest() == digest);
                find_inputs(&mut plans, context.moved)?;
                let plan = plans.first().ok_or_else(|| Error::bug("a plan of the dataset is gone"))?;
                pack_again(&context, dir, plan, &options, &Redo::new())?
            }
        };
        let manifest = match place {
            Place::Next => self.sealing(&transforms, dir).seal()?,
            Place::Sealed(..) => self.seal_known(dir, &transforms)?,
        };
        check_sealed(dir, &manifest, digest)?;
        let report = PackReport { skipped: manifest.skipped.saturating_sub(skipped_before), ..report };
        Ok(Packed { report, manifest, stored })
    }

    /// Seals the sealed dataset in `dir` again, without shards that are being added. While another of its plans is lost it stays as
    /// it is.
    fn seal_known(&self, dir: &Path, transforms: &Transforms) -> Result<Manifest> {
        let base = Base::open(&self.store, dir)?;
        if base.lacks_plan() {
            return Ok(base.manifest);
        }
        self.sealing(transforms, dir).plans(&base.plans, None)
    }

    /// The plan of [`Session::append`]; writes nothing.
    pub fn plan_append(&self, dir: impl AsRef<Path>, recipe: &Recipe) -> Result<Plan> {
        self.decide_append(dir.as_ref(), recipe, &self.tables()).map(|(plan, ..)| plan)
    }

    /// Publishes the plan of [`Session::append`] in `dir`, so that processes can fill parts of it ([`Session::fill`]) and
    /// one can seal it.
    pub fn store_append(&self, dir: impl AsRef<Path>, recipe: &Recipe) -> Result<(Plan, Stored)> {
        let dir = dir.as_ref();
        let _alone = self.alone_with(dir)?;
        let (plan, base, _, place) = self.decide_append(dir, recipe, &self.tables())?;
        let (stored, _) = self.place_plan(&plan, &base, place)?;
        Ok((plan, stored))
    }

    /// Drops an append to the dataset in `dir` that is not sealed: its plan, and the shards that were packed for it. The dataset is what it
    /// was before. Returns how many shards would have been added, or `None` without such an append. No process may be
    /// packing into `dir` meanwhile.
    ///
    /// Errors: `Config` if there is no sealed dataset; `Incomplete` if it is damaged; `Environment` while another process of this
    /// machine appends to it or repairs it.
    pub fn drop_append(&self, dir: impl AsRef<Path>) -> Result<Option<u64>> {
        let dir = dir.as_ref();
        let _alone = self.alone_with(dir)?;
        let dropped = Base::open(&self.store, dir)?.drop_pending(&self.store)?;
        // An interrupted seal may have written the indexes for other readers with the new shards.
        self.seal(dir)?;
        Ok(dropped)
    }

    /// Stores the plan of an append, if it is not sealed already, and returns its digest.
    fn place_plan(&self, plan: &Plan, base: &Base, place: Place) -> Result<(Stored, Digest)> {
        match place {
            Place::Next => base.store(&self.store, plan, self.replaces),
            Place::Sealed(number, digest) => {
                mend_plan(&self.store, &base.dir, number, plan)?;
                Ok((Stored::Resumed, digest))
            }
        }
    }

    /// Keeps other processes of this machine from changing the dataset too.
    pub(super) fn alone_with(&self, dir: &Path) -> Result<Option<Box<dyn Any + Send>>> {
        // Folders of object stores are not locked, and one that lists late does not know them yet.
        if Location::url(dir).is_none() {
            self.store.stat(dir, true).map_err(as_request_error)?;
        }
        self.store.lock(dir)
    }

    fn decide_append(
        &self,
        dir: &Path,
        recipe: &Recipe,
        tables: &KeptTables,
    ) -> Result<(Plan, Base, Transforms, Place)> {
        let base = Base::open(&self.store, dir)?;
        let inputs = matched(&*self.store, &recipe.input)?;
        if let Some(own) = inputs.iter().find(|input| Location::absolute(input) == Location::absolute(dir)) {
            let error = Error::config("is the dataset that samples are added to, and can't be an input as well");
            return Err(error.in_input(own.display()));
        }
        let recipe = base.recipe(recipe, &self.registry)?;
        let (mut plan, transforms) = self.decide(&recipe, Some(&base), tables)?;
        let members = !recipe.planning(&self.registry, None)?.typed;
        let (casts, fill_missing) = (&casts_of(&transforms), recipe.fill_missing);
        let allowed = Allowed { casts, fill_missing, members, transforms: &transforms };
        let place = base.place(&*self.store, &mut plan, &allowed, &self.cancel)?;
        Ok((plan, base, transforms, place))
    }
}
