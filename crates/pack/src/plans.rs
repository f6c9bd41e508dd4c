//! The plans of a dataset: that of the first shards, and one for each time that shards were added.

use crate::plan::first_stray;
use crate::refuse_view::refuse_view;
use crate::scan::progress;
use crate::without_inputs::has_adopted;
use packhorse_core::{Code, Error, Kind, Result, Store};
use packhorse_dataset::{Digest, MANIFEST, PlanReader, plan_name, staged};
use std::path::Path;

/// Opens the plan in the folder `out`; if shards were added, the last one, which is the one that may be unfinished.
///
/// Errors: `Config` for a folder without a plan.
pub(crate) fn open_plan(store: &dyn Store, out: &Path) -> Result<PlanReader> {
    let last = count_plans(store, out)?.saturating_sub(1);
    let plan = stored(store, out, last).map_err(|e| if e.is_not_found() { no_plan(store, out) } else { e })?;
    // A damaged one before it is not its fault.
    if let Ok(mut before) = (0..last).map(|number| stored(store, out, number)).collect::<Result<Vec<_>>>() {
        before.push(plan);
        check_order(out, &before)?;
        return before.pop().ok_or_else(|| no_plan(store, out));
    }
    Ok(plan)
}

/// Opens all plans in the folder `out`, in order: that of the first shards, and one for each time that shards were added.
///
/// Errors: `Config` for a folder without a plan.
pub(crate) fn open_plans(store: &dyn Store, out: &Path) -> Result<Vec<PlanReader>> {
    let plans = read_plans(store, out)?;
    check_order(out, &plans)?;
    Ok(plans)
}

/// The same, also where they are not of one dataset.
pub(crate) fn read_plans(store: &dyn Store, out: &Path) -> Result<Vec<PlanReader>> {
    match count_plans(store, out)? {
        0 => Err(no_plan(store, out)),
        plans => (0..plans).map(|number| stored(store, out, number)).collect(),
    }
}

/// Errors (kind `Incomplete`): a plan of other shards, such as one that was there before another dataset was copied into the folder.
pub(crate) fn check_order(out: &Path, plans: &[PlanReader]) -> Result<()> {
    if has_adopted(plans) {
        return Ok(());
    }
    let Some(number) = first_stray(plans) else { return Ok(()) };
    let message = "is the plan of an append to another dataset: its shards do not follow those of the plans before it";
    let hint = "if one dataset was copied over another, remove this file, then `packhorse verify` names the files of shards to remove";
    let error = Error::new(Kind::Incomplete, message).with_code(Code::PlanDiffers).hint(hint);
    Err(error.in_input(out.join(plan_name(number)).display()))
}

/// The number of plans in the folder `out`.
pub(crate) fn count_plans(store: &dyn Store, out: &Path) -> Result<usize> {
    for number in 0.. {
        match store.stat(&out.join(plan_name(number)), true) {
            Ok(_) => {}
            // Buckets deny a missing name to those who may not list.
            Err(e) if e.is_absent() || number > 0 && e.is_denied() => return Ok(number),
            Err(e) => return Err(e),
        }
    }
    Ok(0)
}

fn no_plan(store: &dyn Store, out: &Path) -> Error {
    if let Err(view) = refuse_view(store, out) {
        return view;
    }
    if let Some(staged) = staged(store, out) {
        return staged;
    }
    let error = Error::config(missing_plan(store, out)).with_code(Code::NoPlan);
    let error = match progress(store, out) {
        Some((listed, parts)) if listed == parts => {
            let error = error.remark(format!("the inputs are listed, all {parts} parts"));
            error.hint("`packhorse plan from-listings` makes one")
        }
        Some((listed, parts)) => {
            let error = error.remark(format!("{listed} of {parts} parts of the inputs are listed"));
            error.hint("when all are, `packhorse plan from-listings` makes one")
        }
        None => error.hint("`packhorse plan` and `packhorse pack` make one, also again for a dataset that has lost its own, with its inputs and settings"),
    };
    error.in_input(out.display())
}

fn missing_plan(store: &dyn Store, out: &Path) -> &'static str {
    match store.stat(&out.join(MANIFEST), true) {
        Ok(_) => "holds a dataset without its plan",
        Err(_) => "holds no plan and no dataset",
    }
}

/// The bytes of the file with this digest (hexadecimal), which a transform of the plan in `out` needs.
///
/// Errors: `Content` if the file has other bytes.
pub(crate) fn plan_file(store: &dyn Store, out: &Path, plan: &PlanReader, digest: &str) -> Result<Vec<u8>> {
    let Some(file) = plan.header().files.iter().find(|file| file.blake3.to_string() == digest) else {
        return Err(Error::content(format!("the plan has no file {digest}")).in_input(out.display()));
    };
    let path = out.join(&file.name);
    let bytes = store.open(&path)?.read_all(file.bytes)?;
    match Digest::of(&bytes) == file.blake3 {
        true => Ok(bytes),
        false => {
            let error = Error::content("is not the file that the plan was made with");
            Err(error.hint("restore it from a copy").in_input(path.display()))
        }
    }
}

/// Opens plan `number` in the folder `out`.
pub(crate) fn stored(store: &dyn Store, out: &Path, number: usize) -> Result<PlanReader> {
    PlanReader::open(store.open(&out.join(plan_name(number)))?).map_err(|e| match e.kind() {
        // An append goes on with a sealed dataset only.
        Kind::Content if number > 0 && store.stat(&out.join(MANIFEST), true).is_err_and(|e| e.is_not_found()) => e
            .hint(
                "restore it from a copy, or remove it and run `packhorse seal`, which says what to do with its shards",
            ),
        Kind::Content => e.hint(made_again(number)),
        _ => e,
    })
}

/// How to make the plan `number` of a dataset again.
pub(crate) fn made_again(number: usize) -> &'static str {
    match number {
        0 => "restore it from a copy, or run `packhorse pack` again with its inputs and settings",
        _ => "restore it from a copy, or run that `packhorse append` again, with its inputs and settings",
    }
}
