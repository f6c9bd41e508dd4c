//! In steady state nothing is allocated for a batch: slabs, buffers and metadata are reused.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]
#![expect(unsafe_code, reason = "implementing an allocator is inherently unsafe")]

#[path = "shards/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod shards;

use packhorse_order::Shuffle;
use packhorse_read::*;
use std::alloc::{GlobalAlloc, Layout as Sizes, System};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, sizes: Sizes) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(sizes.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's guarantee is forwarded.
        unsafe { System.alloc(sizes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, sizes: Sizes) {
        // SAFETY: the caller's guarantee is forwarded.
        unsafe { System.dealloc(at, sizes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steady_state_allocates_nothing_per_batch() {
    let dir = tempfile::tempdir().unwrap();
    shards::shards(dir.path(), &[900, 900, 900, 900]);
    let dataset = shards::dataset(dir.path());
    for (threads, readers) in [(0, 0), (2, 0), (2, 2)] {
        let shuffle = Shuffle::Blocks { shards: 4 };
        let options = LoaderOptions {
            threads,
            readers,
            shuffle: Some(shuffle),
            epochs: Some(6),
            ahead: 4,
            ..LoaderOptions::new(16)
        };
        let mut loader = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
        // In the first epochs buffers grow.
        for batch in loader.by_ref().take(4 * 225) {
            batch.unwrap();
        }
        let before = (COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
        let batches = loader.by_ref().take(400).map(|batch| batch.unwrap().rows() as u64).sum::<u64>() / 16;
        let count = COUNT.load(Ordering::Relaxed) - before.0;
        let bytes = BYTES.load(Ordering::Relaxed) - before.1;
        // Each epoch builds a new order, and a buffer may still grow for the largest batch.
        assert!(batches == 400 && count < 40, "{threads} {readers}: {count} allocations, {bytes} bytes");
    }
}
