//! The two network threads, and how callers wait for them.

use super::wire::Wire;
use crate::RemoteOptions;
use packhorse_core::{Context, Error, Result};
use std::sync::{Arc, mpsc};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

/// Threads that send and receive. Callers copy the received bytes themselves.
const THREADS: usize = 2;

/// The shared part of all remote stores of one [`Stores`](crate::Stores).
pub(crate) struct Link {
    runtime: Option<Runtime>,
    handle: Handle,
    pub(crate) wire: Wire,
    pub(crate) options: RemoteOptions,
    /// Room for parts of objects on their way to a server.
    pub(crate) sending: Arc<Semaphore>,
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
        let sending = Arc::new(Semaphore::new(options.parts_at_once.max(1)));
        Ok(Self { runtime: Some(runtime), handle, wire, options: options.clone(), sending })
    }

    /// The runtime that runs the requests.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `work` on the network threads and waits for it.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, result) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // The caller may be gone.
            let _ = done.send(work.await);
        });
        result.recv().unwrap_or_else(|_| Err(Error::bug("a thread of the network ended")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Blocking on the shutdown would panic on a runtime's own threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
