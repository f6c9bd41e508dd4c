//! Datasets without inputs, and how the plan says so: samples came from a program, or shards of others were adopted. Such
//! shards can't be packed again.

use packhorse_core::{Code, Error, Kind};
use packhorse_dataset::{PlanHeader, PlanReader};
use std::collections::BTreeMap;

/// The header's choice that says where the samples came from.
const INPUT: &str = "input";
const PROGRAM: &str = "a program";
const ADOPTED: &str = "adopted shards";

/// Notes in the choices of a header that the samples come from a program.
pub(crate) fn note_program(choices: &mut BTreeMap<String, String>) {
    choices.insert(INPUT.to_owned(), PROGRAM.to_owned());
}

/// Notes in the choices of a header that the shards are those of others.
pub(crate) fn note_adopted(choices: &mut BTreeMap<String, String>) {
    choices.insert(INPUT.to_owned(), ADOPTED.to_owned());
}

/// Whether the shards of the plan were written by others, and other files of theirs may lie beside them.
pub(crate) fn is_adopted(header: &PlanHeader) -> bool {
    header.choices.get(INPUT).is_some_and(|input| input == ADOPTED)
}

/// Whether one of these plans is so.
pub(crate) fn has_adopted(plans: &[PlanReader]) -> bool {
    plans.iter().any(|plan| is_adopted(plan.header()))
}

/// Whether the plan has no inputs that its shards could be packed from.
pub(crate) fn lacks_inputs(header: &PlanHeader) -> bool {
    is_adopted(header) || header.choices.get(INPUT).is_some_and(|input| input == PROGRAM)
}

/// The error of a shard of such a plan that would have to be packed again.
pub(crate) fn gone_samples(header: &PlanHeader, shard: &str) -> Error {
    let (why, hint) = match is_adopted(header) {
        true => (
            "it was adopted from others",
            "restore its files from a copy; if adopting was stopped, run the same `packhorse adopt` again",
        ),
        false => (
            "its samples came from a program",
            "restore its files from a copy of the dataset, or run the program again into a new folder",
        ),
    };
    let message = format!("shard {shard} is missing or damaged, and {why}, so it can't be packed again");
    Error::new(Kind::Incomplete, message).with_code(Code::ShardMissing).hint(hint)
}
