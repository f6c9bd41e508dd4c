//! Inputs that have another path now than when the plan was made.

use packhorse_core::{Code, Error, Result, some_of};
use packhorse_dataset::{PathText, PlanReader};
use packhorse_storage::Location;
use std::path::PathBuf;

/// A path of inputs at the time of the plan, and the one that they have now.
pub(crate) type MovedInput = (PathBuf, PathBuf);

/// Lets plans find their inputs where they are now. A plan's digest does not depend on where its inputs are.
///
/// Errors: `Config` for a path at which no plan has inputs.
pub(crate) fn find_inputs(plans: &mut [PlanReader], moved: &[MovedInput]) -> Result<()> {
    let mut found = vec![false; moved.len()];
    for root in plans.iter_mut().flat_map(PlanReader::roots_mut) {
        let path = root.to_path();
        // The first that fits, so that paths can be exchanged.
        for ((old, new), found) in moved.iter().zip(&mut found) {
            let Ok(rest) = path.strip_prefix(Location::absolute(old)) else { continue };
            let new = Location::absolute(new);
            let now = if rest.as_os_str().is_empty() { new } else { new.join(rest) };
            *root = PathText::from(now.as_os_str());
            *found = true;
            break;
        }
    }
    for ((old, _), found) in moved.iter().zip(found) {
        if !found {
            let roots: Vec<String> =
                plans.iter().flat_map(|plan| &plan.header().roots).map(PathText::to_string).collect();
            let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
            let message = format!(
                "no input of the plan is at {}, which `moved` names; they are at {}",
                old.display(),
                some_of(&roots)
            );
            return Err(Error::config(message).with_code(Code::BadSetting));
        }
    }
    Ok(())
}
