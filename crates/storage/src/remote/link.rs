//! The two threads that serve a network, and how the others wait for them.

use super::wire::Wire;
use crate::RemoteOptions;
use packhorse_core::{Context, Error, Result};
use std::sync::mpsc;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that send and receive. What is received is copied by those who asked.
const THREADS: usize = 2;

/// What all remote stores of one [`Stores`](crate::Stores) share.
pub(crate) struct Link {
    runtime: Option<Runtime>,
    handle: Handle,
    pub(crate) wire: Wire,
    pub(crate) options: RemoteOptions,
}

impl Link {
    pub(crate) fn new(options: &RemoteOptions) -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("packhorse-net").enable_all().build();
        let runtime = runtime.context("start threads")?;
        let handle = runtime.handle().clone();
        // The client remembers the runtime it was made in.
        let wire = {
            let _inside = handle.enter();
            Wire::new(options)?
        };
        Ok(Self { runtime: Some(runtime), handle, wire, options: options.clone() })
    }

    /// Where work is started.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Does `work` over there, and waits for it here.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, result) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Who asked may be gone.
            let _ = done.send(work.await);
        });
        result.recv().unwrap_or_else(|_| Err(Error::bug("a thread of the network ended")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Waiting for its end is forbidden on threads that belong to it or to another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
