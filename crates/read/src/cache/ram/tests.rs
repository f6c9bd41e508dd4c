use super::*;
use packhorse_core::{Kind, MemoryInput};
use std::sync::atomic::AtomicBool;

/// A shard that counts the reads of each of its pages.
struct Counted {
    inner: MemoryInput,
    reads: Arc<Mutex<Vec<(u64, usize)>>>,
    fails: Arc<AtomicBool>,
}

impl Input for Counted {
    packhorse_core::forward_input!(inner: name len stream);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.reads.lock().unwrap().push((offset, buf.len()));
        if self.fails.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::Environment, "it rains"));
        }
        std::thread::yield_now();
        self.inner.read_at(offset, buf)
    }
}

const CHUNK: u64 = 4096;

fn bytes(shard: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i * 7 + i / 251 + shard * 13) as u8).collect()
}

fn cache(limit: u64, total: u64) -> RamCache {
    RamCache::new(&RamOptions { chunk: CHUNK, ..RamOptions::new(limit, total) }, Arc::default()).unwrap()
}

type Reads = Arc<Mutex<Vec<(u64, usize)>>>;

fn shard(number: u64, len: usize) -> (Box<dyn Input>, Reads, Arc<AtomicBool>) {
    let (reads, fails) = (Reads::default(), Arc::default());
    let inner = MemoryInput::new(format!("shard-{number}"), bytes(number, len));
    (Box::new(Counted { inner, reads: Arc::clone(&reads), fails: Arc::clone(&fails) }), reads, fails)
}

#[test]
fn any_range_is_what_it_is() {
    for limit in [0, 20_000, 1 << 30] {
        let cache = cache(limit, 50_000);
        let input = cache.wrap(3, shard(3, 50_000).0);
        let whole = bytes(3, 50_000);
        for (offset, len) in
            [(0, 0), (0, 1), (4095, 2), (0, 50_000), (8192, 4096), (49_999, 1), (50_000, 0), (1000, 30_000)]
        {
            for _ in 0..2 {
                let mut buf = vec![0; len];
                input.read_at(offset, &mut buf).unwrap();
                assert_eq!(buf, whole[offset as usize..offset as usize + len], "{offset}, {len} of {limit}");
            }
        }
        assert_eq!(input.read_all(1 << 20).unwrap(), whole);
        for (offset, len) in [(50_000, 1), (49_999, 2), (u64::MAX, 1)] {
            assert_eq!(input.read_at(offset, &mut vec![0; len]).unwrap_err().kind(), Kind::Content);
        }
        assert!(cache.counters().held <= limit);
    }
}

#[test]
fn what_fits_is_read_once() {
    let cache = cache(1 << 20, 100_000);
    let (input, reads, _) = shard(0, 100_000);
    let input = cache.wrap(0, input);
    let mut buf = vec![0; 100_000];
    for _ in 0..3 {
        input.read_at(0, &mut buf).unwrap();
    }
    assert_eq!(reads.lock().unwrap().len(), 25);
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses), (50, 25));
    assert_eq!((counters.bytes_hit, counters.bytes_read, counters.held), (200_000, 100_000, 100_000));
    // Another reader of the shard finds it.
    let (again, reads, _) = shard(0, 100_000);
    cache.wrap(0, again).read_at(5, &mut buf[..9]).unwrap();
    assert!(reads.lock().unwrap().is_empty());
}

/// Full passes over ten times the size of the cache: from the second on, a tenth comes from memory.
#[test]
fn passes_over_more_than_fits_still_hit() {
    let (shards, len, limit) = (20u64, 100 * CHUNK as usize, 200 * CHUNK);
    let cache = cache(limit, shards * len as u64);
    let inputs: Vec<_> = (0..shards).map(|number| cache.wrap(number, shard(number, len).0)).collect();
    let mut last = cache.counters();
    for pass in 0..4 {
        for input in &inputs {
            let mut buf = vec![0; 10_000];
            for offset in (0..len as u64 - 10_000).step_by(10_000) {
                input.read_at(offset, &mut buf).unwrap();
            }
        }
        let now = cache.counters();
        let ratio = (now.bytes_hit - last.bytes_hit) as f64
            / (now.bytes_hit - last.bytes_hit + now.bytes_read - last.bytes_read) as f64;
        assert!(pass == 0 || (ratio - 0.1).abs() < 0.025, "pass {pass}: {ratio}");
        assert!(now.held <= limit && now.held > limit * 3 / 4, "{now:?}");
        last = now;
    }
}

#[test]
fn many_threads_cause_one_read_a_chunk() {
    let cache = cache(1 << 30, 1);
    let (input, reads, _) = shard(1, 64 * CHUNK as usize);
    let input = cache.wrap(1, input);
    let whole = bytes(1, 64 * CHUNK as usize);
    std::thread::scope(|threads| {
        for from in 0..8u64 {
            let (input, whole) = (&input, &whole);
            threads.spawn(move || {
                for i in 0..200 {
                    let offset = (from * 31 + i * 1777) % (60 * CHUNK);
                    let mut buf = vec![0; 9000];
                    input.read_at(offset, &mut buf).unwrap();
                    assert!(buf == whole[offset as usize..offset as usize + 9000]);
                }
            });
        }
    });
    let mut reads = reads.lock().unwrap().clone();
    reads.sort_unstable();
    reads.windows(2).for_each(|two| assert_ne!(two[0].0, two[1].0));
}

#[test]
fn a_read_that_fails_takes_no_room_and_is_tried_again() {
    let cache = cache(1 << 20, 1);
    let (input, _, fails) = shard(1, 10_000);
    let input = cache.wrap(1, input);
    fails.store(true, Ordering::Relaxed);
    let mut buf = [0; 10];
    assert_eq!(input.read_at(0, &mut buf).unwrap_err().kind(), Kind::Environment);
    assert_eq!(cache.counters().held, 0);
    fails.store(false, Ordering::Relaxed);
    input.read_at(0, &mut buf).unwrap();
    assert_eq!(cache.counters().held, CHUNK);
}

#[test]
fn a_shard_that_became_another_is_read_anew() {
    let cache = cache(1 << 20, 1);
    let mut buf = [0; 10];
    cache.wrap(1, shard(1, 10_000).0).read_at(0, &mut buf).unwrap();
    let (longer, reads, _) = shard(1, 10_001);
    cache.wrap(1, longer).read_at(0, &mut buf).unwrap();
    assert_eq!((reads.lock().unwrap().len(), cache.counters().held), (1, CHUNK));
}

#[test]
fn chunks_have_a_size() {
    for chunk in [0, 4095, (1 << 30) + 1] {
        assert!(RamCache::new(&RamOptions { chunk, ..RamOptions::new(1, 1) }, Arc::default()).is_err());
    }
}
