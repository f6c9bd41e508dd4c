//! Processes that were forked after the package was used. A forked child has none of its parent's threads.

#![expect(unsafe_code, reason = "a value that may not be dropped has to be dropped by hand elsewhere")]

use packhorse::core::{Error, Result};
use packhorse::read::{ReadOptions, isolated};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static FIRST: OnceLock<u32> = OnceLock::new();

/// Remembers the process that loads the package.
pub(crate) fn remember() {
    FIRST.get_or_init(std::process::id);
}

/// Whether this process was forked since.
pub(crate) fn forked() -> bool {
    FIRST.get().is_some_and(|first| *first != std::process::id())
}

/// How this process reads.
pub(crate) fn read_options() -> ReadOptions {
    ReadOptions { isolated: forked(), ..ReadOptions::default() }
}

/// Runs `work` where its parallel parts have threads.
pub(crate) fn run<R: Send>(work: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    if forked() { isolated(work)? } else { work() }
}

/// Gives a forked child threads of its own for parallel work, if its parent had none. Whether this process has some.
pub(crate) fn has_threads() -> bool {
    /// The process whose threads they are.
    static OWNER: AtomicU32 = AtomicU32::new(0);
    let here = std::process::id();
    if !forked() || OWNER.load(Ordering::Relaxed) == here {
        return true;
    }
    let made = rayon::ThreadPoolBuilder::new().build_global().is_ok();
    if made {
        OWNER.store(here, Ordering::Relaxed);
    }
    made
}

/// Refuses to pack where the threads of parallel work are those of a parent: it would wait for them without end.
pub(crate) fn may_pack() -> Result<()> {
    if has_threads() {
        return Ok(());
    }
    let message = "packing needs threads that this process lacks: it was forked after packhorse had started them";
    Err(Error::unsupported(message)
        .hint("start processes by \"spawn\" or \"forkserver\" (multiprocessing.set_start_method)"))
}

/// A value with threads or locks of the process that made it. In a forked child it is never dropped: that would wait for
/// threads that the child lacks.
pub(crate) struct Owned<T> {
    process: u32,
    value: ManuallyDrop<T>,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: ManuallyDrop::new(value) }
    }

    /// The value, in the process that made it.
    pub(crate) fn into_inner(self) -> Option<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the value is taken once.
        this.is_here().then(|| unsafe { ManuallyDrop::take(&mut this.value) })
    }

    /// Whether this is the process that made it, and not a forked child.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: it is dropped once, here, and not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
