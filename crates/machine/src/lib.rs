//! The limits of this machine: how fast its storage, memory and processors can be, used as packing and reading use them.
//!
//! [`measure`] fills a [`MachineLimits`]. A rate of packing or of a loader means something as a share of its limit. This
//! crate owns its test files and its clocks; it knows no dataset, no format and no GPU.

mod aligned;
mod compute;
mod interval;
mod machine_limits;
mod measure;
mod pictures;
mod probe;
mod quantity;
mod reads;
mod test_files;
mod test_folder;

pub use interval::Interval;
pub use machine_limits::{ColdReads, MachineLimit, MachineLimits};
pub use measure::{LimitsOptions, ROUNDS, measure};
pub use quantity::{Quantity, Unit};
pub use test_folder::TestFolder;
