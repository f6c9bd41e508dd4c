//! From inputs to a sealed dataset: scan → plan → pack → seal, and verify.
//!
//! A [`Recipe`] says all that decides bytes, a [`Session`] all that does not; the verbs are the session's methods, with a
//! plain value on either side. This crate owns threads, the plan and read-ahead. It knows formats only through the [`Registry`](packhorse_core::Registry), and knows
//! neither a terminal nor Slurm.

mod ahead;
mod budget;
mod chains;
mod columns;
mod consumers;
mod conversion;
mod distance;
mod doubles;
mod feed;
mod fill;
mod glob;
mod hands;
mod inputs;
mod insides;
mod inspect;
mod inspect_rows;
mod large;
mod merge;
mod metadata;
mod opened;
mod pack;
mod part;
mod plan;
mod policy;
mod recipe;
mod recorded;
mod repair;
mod replace;
mod resume;
mod runs;
mod scan;
mod seal;
mod session;
mod space;
mod status;
mod steps;
mod stoppable;
mod trial;
mod verify;
mod watched;

pub(crate) use columns::Shapes;
pub use consumers::{Report, check_consumers};
pub use inspect::{Stat, cat, files, list};
pub use inspect_rows::{Columns, columns};
pub use merge::{MergeOptions, Merged, Repaired, merge, repair};
pub use pack::PackReport;
pub use part::Part;
pub(crate) use plan::Cut;
pub use plan::{LongKeys, Plan, Shares, Shuffle, SplitBy, Splits};
pub use policy::Policy;
pub use recipe::{ByteSize, Recipe, Setting, Takes, parse_bytes};
pub use recorded::{Recorded, check_file, sealed_manifest};
pub use repair::DatasetRepair;
pub use resume::{Stored, of_request};
pub use scan::{Decode, KeyEnds, Labels, Listing, SampleRef, Symlinks};
pub use session::{Packed, Session};
pub use status::Status;
pub use trial::Estimate;
pub use verify::{Damage, Depth, Verification};
