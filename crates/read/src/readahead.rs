//! Reads the shards of a block from begin to end, before their samples are wanted in any order.
//!
//! The samples of a shuffled block are short reads at random places, which storage serves at a fraction of the rate of long
//! reads in order: half on a local disk, far less where each read crosses a network. So a thread reads whole shards, a block before the loader
//! needs them, and drops the bytes: they stay in the page cache, which all ranks of a node share. Pieces that are there already
//! are not read.
//!
//! It does nothing where that would not pay: for samples in stored order, shards that are not files of this machine's file systems, ranks
//! on several nodes that all read from the same shards, a part of the samples or of their fields, blocks that the memory can't hold.

use crate::LoaderOptions;
use crate::count::Count;
use crate::epoch_order::{EpochOrder, ShardBlock};
use crate::memory;
use crate::reader::Reader;
use crate::spans::TARGET;
use packhorse_order::{Shuffle, is_on_one_node};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of one read.
const PIECE: usize = 2 << 20;
/// The distance of the bytes that show whether a piece is in the page cache.
const PROBE: usize = 128 << 10;
/// Of smaller datasets the first batches read most pages anyway.
const LEAST: u64 = 8 << 20;

/// An epoch and a position in it.
type At = (u64, u64);

/// The thread's instructions, and how far the loader is.
pub(crate) struct Readahead {
    /// The node whose shards are read, if nodes have their own.
    node: u32,
    /// Of each block this rank reads shard `first`, and every `every`-th from there.
    first: usize,
    every: usize,
    progress: Mutex<Progress>,
    moved: Condvar,
}

struct Progress {
    /// The furthest step that was begun, by its first position.
    at: At,
    stopped: bool,
}

impl Readahead {
    /// For a loader that begins at `from`; `None` where reading ahead does not pay.
    pub(crate) fn new(options: &LoaderOptions, reader: &Reader, from: At) -> Option<Self> {
        let dataset = reader.dataset();
        let has_threads = options.threads > 0 && options.readers > 0;
        let is_cached = options.cache.ram > 0 || options.cache.dir.is_some();
        if !options.readahead || !has_threads || is_cached || dataset.bytes() < LEAST {
            return None;
        }
        let ranks = options.rank.world_size;
        let (node, first, every) = match options.shuffle {
            Some(Shuffle::Sequential) => return None,
            Some(Shuffle::Nodes { nodes, .. }) => {
                let ranks = ranks.checked_div(nodes).filter(|ranks| *ranks > 0)?;
                (options.rank.rank / ranks, options.rank.rank % ranks, ranks)
            }
            _ if is_on_one_node(ranks, &|name| std::env::var(name).ok()) => (0, options.rank.rank, ranks),
            _ => return None,
        };
        if !reader.takes_half_of_files() {
            return None;
        }
        let progress = Mutex::new(Progress { at: from, stopped: false });
        Some(Self { node, first: first as usize, every: every as usize, progress, moved: Condvar::new() })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the step at `at` was begun.
    pub(crate) fn reached(&self, at: At) {
        let mut progress = self.progress();
        if at > progress.at {
            progress.at = at;
            drop(progress);
            self.moved.notify_one();
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn stop(&self) {
        self.progress().stopped = true;
        self.moved.notify_one();
    }

    /// Whether the loader needs nothing before `at` any more.
    fn is_past(&self, at: At) -> bool {
        let progress = self.progress();
        progress.stopped || progress.at >= at
    }

    /// Waits for the step at `at` to begin; false if it was stopped.
    fn wait(&self, at: At) -> bool {
        let mut progress = self.progress();
        while !progress.stopped && progress.at < at {
            progress = self.moved.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        !progress.stopped
    }

    /// Reads the shards of a loader's blocks, up to the one after the block that it is in, until it is stopped or epoch `end` begins. Counts
    /// the bytes. What can't be read is left to the loader, which says why.
    pub(crate) fn run(&self, reader: &Reader, order: &EpochOrder, end: u64, read: &Count) {
        let mut buffer = vec![0; PIECE];
        let dataset = reader.dataset();
        let shard = |run: u32| Some(dataset.runs().get(run as usize)?.shard);
        let bytes = |(run, samples): (u32, u64)| {
            let shard = dataset.shards().get(shard(run)? as usize)?;
            (2 * samples >= shard.samples).then_some(shard.bytes)
        };
        let from = self.progress().at;
        self.blocks(order, from, end, memory::available, bytes, |run, until| {
            if let Some(shard) = shard(run) {
                self.read(reader, shard, until, &mut buffer, read);
            }
        });
    }

    /// Calls `read` for a run of each shard from `from` on, with where it is no longer needed. `bytes` is the size of shards that are worth it.
    fn blocks(
        &self,
        order: &EpochOrder,
        (mut epoch, mut position): At,
        end: u64,
        memory: impl Fn() -> u64,
        bytes: impl Fn((u32, u64)) -> Option<u64>,
        mut read: impl FnMut(u32, At),
    ) {
        let (mut before, mut bytes_before) = ((epoch, position), 0);
        while epoch < end {
            let Ok(block) = order.block(epoch, position, self.node) else { return };
            let Some(ShardBlock { positions, shards }) = block else {
                if position == 0 {
                    return;
                }
                (epoch, position) = (epoch + 1, 0);
                continue;
            };
            if !self.wait(before) {
                return;
            }
            let all: u64 = shards.iter().filter_map(|shard| bytes(*shard)).sum();
            if all + bytes_before <= memory() / 2 {
                let until = (epoch, positions.end);
                let own = shards.iter().skip(self.first).step_by(self.every);
                own.filter(|shard| bytes(**shard).is_some()).for_each(|(run, _)| read(*run, until));
            }
            (before, bytes_before, position) = ((epoch, positions.start), all, positions.end);
        }
    }

    /// Reads a shard up to its end, or until it is no longer needed.
    fn read(&self, reader: &Reader, shard: u32, until: At, buffer: &mut [u8], read: &Count) {
        if self.is_past(until) {
            return;
        }
        let Ok(input) = reader.input(shard) else { return };
        let Some(file) = input.local_path().and_then(|path| File::open(path).ok()) else { return };
        let span = tracing::debug_span!(target: TARGET, "readahead", fname = input.name(), size = input.len());
        let _span = span.entered();
        let (mut at, len) = (0, input.len().unwrap_or(0));
        while at < len && !self.is_past(until) {
            let piece = buffer.len().min(usize::try_from(len - at).unwrap_or(usize::MAX));
            if !is_cached(&file, at, piece) {
                match file.read_at(buffer.get_mut(..piece).unwrap_or_default(), at) {
                    Ok(1..) => read.add(piece as u64),
                    _ => return,
                }
            }
            at += piece as u64;
        }
    }
}

/// Whether the page cache seems to hold a piece of a file: some of its bytes can be read without waiting.
#[cfg(target_os = "linux")]
fn is_cached(file: &File, at: u64, piece: usize) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};
    use std::io::IoSliceMut;
    (0..piece as u64).step_by(PROBE).all(|probe| {
        let mut byte = [0];
        // Where a file system does not know the flag, nothing seems to be there.
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], at + probe, ReadWriteFlags::NOWAIT).is_ok()
    })
}

/// Other systems don't tell.
#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: u64, _: usize) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::SampleRun;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    const SAMPLES: u64 = 10;

    fn order(shards: u32, shuffle: Shuffle) -> EpochOrder {
        let run = |shard| SampleRun { shard, first: 0, len: SAMPLES };
        EpochOrder::new(&(0..shards).map(run).collect::<Vec<_>>(), shuffle, 3).unwrap()
    }

    fn readahead(node: u32, first: usize, every: usize, at: At) -> Readahead {
        let progress = Mutex::new(Progress { at, stopped: false });
        Readahead { node, first, every, progress, moved: Condvar::new() }
    }

    /// The runs of the blocks of an epoch.
    fn blocks(order: &EpochOrder, epoch: u64, node: u32) -> Vec<Vec<u32>> {
        let block = |at| order.block(epoch, at, node).unwrap();
        let all = std::iter::successors(block(0), |before| block(before.positions.end));
        all.map(|block| block.shards.iter().map(|(run, _)| *run).collect()).collect()
    }

    fn now(from: &Receiver<(u32, At)>, count: usize) -> Vec<u32> {
        (0..count).map(|_| from.recv_timeout(Duration::from_secs(60)).unwrap().0).collect()
    }

    #[test]
    fn it_is_a_block_ahead_and_no_more() {
        let order = order(8, Shuffle::Blocks { shards: 2 });
        let readahead = readahead(0, 0, 1, (0, 5));
        let (to, from) = channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                readahead.blocks(
                    &order,
                    (0, 5),
                    2,
                    || 1 << 40,
                    |_| Some(1),
                    |run, until| to.send((run, until)).unwrap(),
                );
                drop(to);
            });
            let (first, second) = (blocks(&order, 0, 0).concat(), blocks(&order, 1, 0).concat());
            assert_eq!(now(&from, 4), first[..4]);
            for step in [(0, 10), (0, 15)] {
                readahead.reached(step);
            }
            assert!(from.recv_timeout(Duration::from_millis(20)).is_err());
            readahead.reached((0, 25));
            assert_eq!(from.recv_timeout(Duration::from_secs(60)).unwrap(), (first[4], (0, 60)));
            assert_eq!(now(&from, 1), first[5..6]);
            // A loader that is faster than its storage.
            readahead.reached((1, 0));
            assert_eq!(now(&from, 6), [&first[6..], &second[..4]].concat());
            assert!(from.recv_timeout(Duration::from_millis(20)).is_err());
            readahead.reached((0, 70));
            readahead.reached((1, 45));
            assert_eq!(now(&from, 4), second[4..]);
            assert!(from.recv().is_err());
        });
    }

    #[test]
    fn it_can_be_stopped_while_it_waits() {
        let (order, readahead) = (order(8, Shuffle::Blocks { shards: 1 }), readahead(0, 0, 1, (0, 0)));
        std::thread::scope(|threads| {
            let run = threads.spawn(|| readahead.blocks(&order, (0, 0), u64::MAX, || 1 << 40, |_| Some(1), |_, _| ()));
            std::thread::sleep(Duration::from_millis(10));
            readahead.stop();
            run.join().unwrap();
        });
    }

    /// The runs of one epoch that are read for a loader that is ahead of it.
    fn all(
        order: &EpochOrder,
        readahead: &Readahead,
        memory: u64,
        bytes: impl Fn((u32, u64)) -> Option<u64>,
    ) -> Vec<u32> {
        let mut read = Vec::new();
        readahead.reached((9, 0));
        readahead.blocks(order, (0, 0), 1, || memory, bytes, |run, _| read.push(run));
        read
    }

    #[test]
    fn ranks_of_a_node_share_the_shards() {
        let order = order(9, Shuffle::Blocks { shards: 3 });
        let ranks = (0..2).map(|rank| all(&order, &readahead(0, rank, 2, (0, 0)), 1 << 40, |_| Some(1)));
        let wanted = blocks(&order, 0, 0);
        let of = |rank: usize| {
            wanted.iter().flat_map(|block| block.iter().copied().skip(rank).step_by(2)).collect::<Vec<u32>>()
        };
        assert_eq!(ranks.collect::<Vec<_>>(), [of(0), of(1)]);
    }

    #[test]
    fn nodes_read_their_own() {
        let order = order(8, Shuffle::Nodes { nodes: 2, shards: 2, window: None, epochs: 1 });
        let mut nodes: Vec<Vec<u32>> =
            (0..2).map(|node| all(&order, &readahead(node, 0, 1, (0, 0)), 1 << 40, |_| Some(1))).collect();
        assert_eq!(nodes, [blocks(&order, 0, 0).concat(), blocks(&order, 0, 1).concat()]);
        let first = order.block(0, 0, 1).unwrap().unwrap();
        assert_eq!(first.positions, 0..2 * 2 * SAMPLES);
        nodes.iter_mut().for_each(|node| node.sort());
        let mut both = nodes.concat();
        both.sort();
        assert_eq!((nodes[0].len(), both), (4, (0..8).collect()));
    }

    #[test]
    fn two_blocks_fit_half_of_the_memory() {
        let order = order(6, Shuffle::Blocks { shards: 2 });
        let of = |memory| all(&order, &readahead(0, 0, 1, (0, 0)), memory, |_| Some(100)).len();
        // The first block fits with nothing before it.
        assert_eq!([of(399), of(400), of(799), of(800)], [0, 2, 2, 6]);
        // A shard of which little is wanted is left out.
        let whole = |(run, samples)| (run != 3 && samples == SAMPLES).then_some(100);
        let read = all(&order, &readahead(0, 0, 1, (0, 0)), 800, whole);
        assert!(read.len() == 5 && !read.contains(&3));
    }

    #[test]
    fn the_page_cache_is_asked() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[1; 300_000]).unwrap();
        // File systems that do not tell say that nothing is there.
        assert!(is_cached(&file, 0, 300_000) || !is_cached(&file, 0, 1));
        let pipe = std::io::pipe().unwrap();
        assert!(!is_cached(&File::from(std::os::fd::OwnedFd::from(pipe.0)), 0, 1));
    }
}
