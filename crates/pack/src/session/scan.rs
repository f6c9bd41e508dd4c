//! Scans in parts: listings for a plan.

use super::Session;
use crate::kept_tables::KeptTables;
use crate::request_error::as_output_error;
use crate::scan::{ScanOptions, Scanned, prepare, progress, scan_part};
use crate::stored_plan::refuse_strangers;
use crate::{Decode, Part, Recipe};
use packhorse_core::{Event, Observer, Outlet, Result};
use packhorse_dataset::listing_name;
use packhorse_storage::{Location, Staging};
use std::io::BufWriter;
use std::sync::Arc;

impl Session {
    /// Finds one part of the inputs of a recipe, and publishes what it found as a listing in the recipe's folder. Any number
    /// of processes may do this at once, each for a part of its own. When the listings of all parts are there, a session
    /// [from listings](Session::from_listings) makes the same plan of them as one process makes of the inputs. Sealing the
    /// dataset removes them.
    ///
    /// Every part lists the upper folders, and looks at its share of the names in them; once there are 64 folders for each
    /// part, a folder goes with all below it to one part. Memory grows with the widest folder, not with the number of inputs.
    ///
    /// The inputs must not change until all parts are listed. Plans refuse listings of other upper folders, of one that a part
    /// could not read, of other lists of files and of other views; files that come and go are not noticed.
    ///
    /// Errors: bad inputs, unless the recipe skips them; invalid settings. Then the part has no listing.
    pub fn scan_part(&self, recipe: &Recipe, part: Part) -> Result<Scanned> {
        recipe.check()?;
        let out = recipe.folder()?;
        Location::holds_objects(out)?;
        let typed = recipe.planning(&self.registry, None)?.typed;
        let options = recipe.scanning(&*self.store, typed, self.io_threads)?;
        let options = ScanOptions { probes: recipe.decode != Decode::Never, ..options };
        let tables = KeptTables::none();
        let prepared = prepare(self.scanning(&tables), &options)?;
        refuse_strangers(&*self.store, out, &|_| false).map_err(|e| as_output_error(e, out))?;
        Staging::sweep(&*self.store, out, false);
        let staging = Staging::open(self.store.clone(), out).map_err(|e| as_output_error(e, out))?;
        let name = listing_name(part.index(), part.count());
        // The listing of an earlier scan must not stand in for one that fails.
        let below = self.store.beneath(out)?.unwrap_or_else(|| Arc::clone(&self.store));
        below.remove(&out.join(&name))?;
        let mut stage = staging.stage(&name)?;
        let mut file = BufWriter::with_capacity(256 << 10, stage.stream("")?);
        let scanned = scan_part(self.scanning(&tables), &options, (prepared, part), &mut file)?;
        drop(file);
        stage.publish()?;
        let listed = progress(&*self.store, out).map_or(0, |(listed, _)| listed);
        Ok(Scanned { listed, ..scanned })
    }

    /// Warns where a scan of all inputs was made in parts and is made again.
    pub(super) fn tell_of_listings(&self, recipe: &Recipe) {
        let local = recipe.out.as_deref().filter(|out| Location::url(out).is_none());
        if let Some(out) = local
            && let Some((listed, parts)) = progress(&*self.store, out)
            && listed == parts
        {
            let text = format!(
                "the inputs are looked at again, though {} has the listings of all {parts} parts; `from-listings` takes them",
                out.display()
            );
            self.observer.event(&Event::Warning(&text));
        }
    }
}
