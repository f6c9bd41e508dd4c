//! Datasets whose samples came from a program: how the plan says so. Their plans have keys and no inputs, so shards can't be
//! packed again.

use packhorse_core::{Code, Error, Kind};
use packhorse_dataset::PlanHeader;
use std::collections::BTreeMap;

/// The header's choice that says where the samples came from.
const INPUT: (&str, &str) = ("input", "a program");

/// Notes in the choices of a header that the samples come from a program.
pub(crate) fn note_program(choices: &mut BTreeMap<String, String>) {
    choices.insert(INPUT.0.to_owned(), INPUT.1.to_owned());
}

/// Whether the samples of the plan came from a program.
pub(crate) fn is_of_program(header: &PlanHeader) -> bool {
    header.choices.get(INPUT.0).is_some_and(|input| input == INPUT.1)
}

/// The error of a shard that would have to be packed again.
pub(crate) fn gone_samples(shard: &str) -> Error {
    let message = format!(
        "shard {shard} is missing or damaged, and its samples came from a program, so it can't be packed again"
    );
    Error::new(Kind::Incomplete, message)
        .with_code(Code::ShardMissing)
        .hint("restore its files from a copy of the dataset, or run the program again into a new folder")
}
