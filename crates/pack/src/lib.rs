//! From inputs to a sealed dataset: scan → plan → pack → seal, and verify.
//!
//! Each step is a function with a plain value on either side. This crate owns threads, the plan and
//! read-ahead. It knows formats only through the [`Registry`](packhorse_core::Registry), and knows
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
mod recorded;
mod repair;
mod replace;
mod resume;
mod runs;
mod scan;
mod seal;
mod space;
mod status;
mod steps;
mod stoppable;
mod trial;
mod verify;
mod watched;

pub use columns::Shapes;
pub use consumers::{Report, check_consumers};
pub use inspect::{Stat, cat, files, list, stat};
pub use inspect_rows::{Columns, columns};
pub use merge::{MergeOptions, Merged, Repaired, merge, repair};
pub use metadata::Metadata;
pub use pack::{PackOptions, PackReport, Packing, pack};
pub use part::Part;
pub use plan::{Cut, LongKeys, Plan, PlanOptions, Shares, Shuffle, SplitBy, Splits, limits as plan_limits, plan};
pub use policy::Policy;
pub use recorded::{Recorded, check_file, sealed_manifest};
pub use repair::{DatasetRepair, repair_dataset};
pub use replace::{finish_replacing, plan_folder, store_plan_over};
pub use resume::{Stored, of_request, open_plan, plan_file, store_plan};
pub use scan::{Decode, FilesFrom, KeyEnds, Labels, Listing, SampleRef, Scan, ScanOptions, Symlinks, scan, tables};
pub use seal::seal;
pub use status::{Status, status};
pub use trial::{Estimate, fit};
pub use verify::{Damage, Depth, Verification, verify};
