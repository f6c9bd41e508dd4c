//! The compiled part of the Python package `packhorse`: datasets, loaders, arrays, converters.
//!
//! It owns what must be fast or exact; the files in `packhorse/` own the words for Python, epochs and adapters. It knows
//! neither NumPy nor torch: arrays are buffers and DLPack tensors.

mod array;
mod arrow_stream;
mod batch;
mod columns;
mod dataset;
mod device;
mod diagnose;
mod dlpack;
mod element;
mod error;
mod fields;
mod fork;
mod gpu;
mod handover;
mod loader;
mod nested_lists;
mod numbers;
mod pack;
mod running;
mod tokens;
mod trace;
mod values;
mod watch;
mod writer;

use packhorse::storage::Location;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command line; returns its exit code.
#[pyfunction]
fn run(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| {
        let code = packhorse_cli::run(&packhorse::registry(), &packhorse::features(), args);
        (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
    })
}

/// The optional features of this build.
#[pyfunction]
fn features() -> Vec<&'static str> {
    packhorse::features()
}

/// Rank and world size, as the launcher's environment variables say.
#[pyfunction]
fn environment_rank() -> error::Result<(u32, u32)> {
    let rank = packhorse::read::order::Rank::from_environment(&|name| std::env::var(name).ok())?;
    Ok((rank.rank, rank.world_size))
}

/// A place as messages and pages show it: a URL without a user, a password and a query.
#[pyfunction]
fn shown_place(place: &str) -> String {
    Location::parse(place).map_or_else(|_| place.to_owned(), |place| place.to_string())
}

#[pymodule(gil_used = false)]
fn _packhorse(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::remember();
    packhorse::core::silence_contained();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<array::PyArray>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<dataset::PyDataset>()?;
    module.add_class::<dataset::Decoder>()?;
    module.add_class::<gpu::PyGpu>()?;
    module.add_class::<gpu::PyResident>()?;
    module.add_class::<loader::PyPipeline>()?;
    module.add_class::<tokens::PyTokens>()?;
    module.add_class::<tokens::TokenPipeline>()?;
    module.add_class::<trace::PyTrace>()?;
    module.add_class::<writer::Writer>()?;
    module.add_function(wrap_pyfunction!(array::array_of, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(features, module)?)?;
    module.add_function(wrap_pyfunction!(environment_rank, module)?)?;
    module.add_function(wrap_pyfunction!(shown_place, module)?)?;
    module.add_function(wrap_pyfunction!(diagnose::diagnose_loader, module)?)?;
    module.add_function(wrap_pyfunction!(diagnose::diagnose_iterable, module)?)?;
    module.add_function(wrap_pyfunction!(loader::no_stats, module)?)?;
    module.add_function(wrap_pyfunction!(loader::prometheus, module)?)?;
    module.add_function(wrap_pyfunction!(trace::leave_trace, module)?)?;
    module.add_function(wrap_pyfunction!(pack::pack, module)?)?;
    module.add_function(wrap_pyfunction!(pack::append, module)?)?;
    module.add_function(wrap_pyfunction!(pack::verify, module)?)?;
    module.add_function(wrap_pyfunction!(pack::repair, module)?)?;
    module.add_function(wrap_pyfunction!(pack::stat, module)?)?;
    module.add_function(wrap_pyfunction!(pack::settings, module)?)
}
