//! Loads kernels: the driver compiles the PTX of a module when one of its kernels is first launched.

use super::fault::CudaResultExt as _;
use crate::kernels::{Launch, Module};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// The loaded modules.
#[derive(Default)]
pub(super) struct Modules {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    modules: Vec<(Module, Handle<sys::CUmodule>)>,
    functions: BTreeMap<&'static str, Handle<sys::CUfunction>>,
}

#[derive(Clone, Copy)]
struct Handle<T>(T);

// SAFETY: modules and functions may be used from any thread of their context.
unsafe impl<T> Send for Handle<T> {}

impl Modules {
    /// The function of `launch`. The context must be current.
    pub(super) fn function(&self, launch: &Launch) -> Result<sys::CUfunction> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = state.functions.get(launch.entry) {
            return Ok(found.0);
        }
        let module = match state.modules.iter().find(|(module, _)| *module == launch.module) {
            Some((_, module)) => module.0,
            None => {
                let text = CString::new(launch.module.ptx()).map_err(|_| Error::bug("PTX with a zero in it"))?;
                // SAFETY: PTX is text that ends in a zero.
                let module = unsafe { result::module::load_data(text.as_ptr().cast()) };
                let module = module.context(&format!("compile the kernels {}", launch.module.name()))?;
                state.modules.push((launch.module, Handle(module)));
                module
            }
        };
        let name = CString::new(launch.entry).map_err(|_| Error::bug("a name with a zero in it"))?;
        // SAFETY: the module stays loaded.
        let function = unsafe { result::module::get_function(module, name) };
        let function = function.context(&format!("find the kernel {}", launch.entry))?;
        state.functions.insert(launch.entry, Handle(function));
        Ok(function)
    }

    /// Unloads all modules when `idle` says that none of their kernels runs; else they go with the context. The context
    /// must be current.
    pub(super) fn unload(&self, idle: impl FnOnce() -> bool) {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if state.modules.is_empty() || !idle() {
            return;
        }
        for (_, module) in state.modules {
            // SAFETY: loaded by `function`, and all its functions are forgotten.
            let _ = unsafe { result::module::unload(module.0) };
        }
    }
}

/// Queues a kernel.
///
/// # Safety
///
/// `function` must be that of `launch`, and the memory that the arguments point to must stay valid until the
/// kernel has finished.
pub(super) unsafe fn launch(
    function: sys::CUfunction,
    launch: &Launch,
    stream: sys::CUstream,
) -> std::result::Result<(), DriverError> {
    let mut arguments = [launch.args.as_ptr().cast_mut()];
    let [grid, block] = [launch.grid, launch.block].map(|[x, y, z]| (x, y, z));
    // SAFETY: the function has one parameter, which the driver reads during the call.
    unsafe { result::launch_kernel(function, grid, block, 0, stream, &mut arguments) }
}
