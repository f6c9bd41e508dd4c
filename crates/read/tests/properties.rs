//! Properties for any data, ranks, threads and resume positions.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod common;

use common::{encode, gpt, idx, loader, made_up, open};
use packhorse_order::{Order, Rank};
use packhorse_read::*;
use packhorse_tokens::Dtype;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Samples and bytes of a batch.
type Seen = Vec<(Range<u64>, Vec<u8>)>;

fn seen(loader: &mut TokenLoader<Host>, batches: usize) -> Seen {
    loader
        .take(batches)
        .map(|batch| {
            let batch = batch.unwrap();
            (batch.positions(), batch.slab()[..batch.used()].to_vec())
        })
        .collect()
}

/// A pair on disk, both mapped and read, and an order.
fn made(lengths: &[i32], length: u32) -> ([Arc<Tokens>; 2], Arc<dyn Order>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let stem = dir.path().join("a");
    let tokens = lengths.iter().sum::<i32>() as usize;
    std::fs::write(stem.with_extension("idx"), idx(Dtype::U16, lengths)).unwrap();
    std::fs::write(stem.with_extension("bin"), encode(Dtype::U16, (0..tokens).map(made_up))).unwrap();
    let both = [Access::Map, Access::Ranges { gap: lengths.len() as u32 % 3 * 20 }];
    let both = both.map(|access| Arc::new(Tokens::new(vec![open(&stem, access).unwrap()]).unwrap()));
    (both, gpt(lengths, length, None), dir)
}

fn options(batch: u32, length: u32) -> TokenOptions {
    let companions =
        Companions { position_ids: true, segment_ids: true, loss_mask: LossMask::Documents, cu_seqlens: true };
    TokenOptions { companions, remainder: Remainder::Uneven, ..TokenOptions::new(batch, length) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ranks_share_all_samples(
        lengths in prop::collection::vec(0..60i32, 1..40),
        length in 1..20u32,
        batch in 1..6u32,
        ranks in 1..5u32,
    ) {
        prop_assume!(lengths.iter().sum::<i32>() > length as i32);
        let ([tokens, _], order, _dir) = made(&lengths, length);
        let mut all: Vec<u64> = Vec::new();
        for rank in 0..ranks {
            let options = TokenOptions { rank: Rank { rank, world_size: ranks }, ..options(batch, length) };
            all.extend(seen(&mut loader(&tokens, &order, &options), usize::MAX).into_iter().flat_map(|(samples, _)| samples));
        }
        all.sort_unstable();
        prop_assert_eq!(all, (0..order.len()).collect::<Vec<_>>());
    }

    #[test]
    fn threads_and_access_change_nothing(
        lengths in prop::collection::vec(0..60i32, 1..40),
        length in 1..20u32,
        batch in 1..6u32,
        threads in 1..4usize,
        ahead in 1..6usize,
    ) {
        prop_assume!(lengths.iter().sum::<i32>() > length as i32);
        let ([mapped, read], order, _dir) = made(&lengths, length);
        let options = options(batch, length);
        let plain = seen(&mut loader(&mapped, &order, &TokenOptions { threads: 0, ..options.clone() }), usize::MAX);
        for tokens in [mapped, read] {
            let options = TokenOptions { threads, ahead, ..options.clone() };
            prop_assert_eq!(&seen(&mut loader(&tokens, &order, &options), usize::MAX), &plain);
        }
    }

    #[test]
    fn resuming_goes_on_exactly(
        lengths in prop::collection::vec(1..60i32, 5..40),
        length in 1..9u32,
        batch in 1..6u32,
        ranks in [1..4u32, 1..4u32],
        stop in 0..20usize,
    ) {
        prop_assume!(lengths.iter().sum::<i32>() > length as i32);
        let ([tokens, _], order, _dir) = made(&lengths, length);
        let [before, after] = ranks;
        let first = TokenOptions { rank: Rank { rank: 0, world_size: before }, threads: 2, ..options(batch, length) };
        let mut whole = loader(&tokens, &order, &first);
        seen(&mut whole, stop);
        let text = whole.state().to_json();
        let consumed = TokenState::from_json(&text).unwrap().consumed;
        let resumed = TokenOptions { consumed, ..first.clone() };
        prop_assert_eq!(seen(&mut loader(&tokens, &order, &resumed), usize::MAX), seen(&mut whole, usize::MAX));
        // Other ranks take the remaining samples.
        let mut rest: Vec<u64> = Vec::new();
        for rank in 0..after {
            let options = TokenOptions { rank: Rank { rank, world_size: after }, consumed, ..first.clone() };
            rest.extend(seen(&mut loader(&tokens, &order, &options), usize::MAX).into_iter().flat_map(|(samples, _)| samples));
        }
        rest.sort_unstable();
        prop_assert_eq!(rest, (consumed..order.len()).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn whatever_an_index_says_tokens_are_right_or_refused(
        sequences in prop::collection::vec((prop_oneof![-1..20i32, any::<i32>()], prop_oneof![-2..40i64, any::<i64>()]), 1..6),
        segments in prop::collection::vec((0..2u32, 0..7u32, prop_oneof![0..20u32, any::<u32>()], prop_oneof![0..20u32, any::<u32>()]), 0..4),
    ) {
        let bin: Vec<u8> = (0..40).collect();
        let (lengths, pointers): (Vec<i32>, Vec<i64>) = sequences.iter().copied().unzip();
        let numbers = |numbers: Vec<i64>| IntArray::from(packhorse_order::Array::I64(numbers));
        let input = Arc::new(packhorse_core::MemoryInput::new("a.bin", bin.clone()));
        let file = TokenFile::new(
            input, &packhorse_core::DataType::UInt16, lengths.clone().into(), Some(numbers(pointers.clone())), Access::Map,
        );
        let Ok(tokens) = file.and_then(|file| Tokens::new(vec![file])) else { return Ok(()) };
        let segments: Vec<_> = segments
            .into_iter()
            .map(|(dataset, sequence, offset, length)| packhorse_order::Segment { dataset, sequence, offset, length })
            .collect();
        let mut out = vec![0; 100];
        let Ok(len) = tokens.read(&segments, &mut out) else { return Ok(()) };
        let mut wanted = Vec::new();
        for segment in &segments {
            let start = pointers[segment.sequence as usize] as usize + 2 * segment.offset as usize;
            prop_assert!(i64::from(segment.offset) + i64::from(segment.length) <= i64::from(lengths[segment.sequence as usize]));
            wanted.extend_from_slice(&bin[start..start + 2 * segment.length as usize]);
        }
        prop_assert_eq!(&out[..len], &wanted[..]);
    }
}

#[test]
fn a_loader_that_is_dropped_early_ends_its_threads() {
    let lengths = vec![50; 200];
    let ([tokens, _], order, _dir) = made(&lengths, 10);
    for taken in 0..4 {
        let mut loader = loader(&tokens, &order, &TokenOptions { threads: 3, ..options(2, 10) });
        let held: Vec<_> = loader.by_ref().take(taken).collect();
        drop(loader);
        assert_eq!(held.len(), taken);
    }
    assert_eq!(Arc::strong_count(&tokens), 1);
}

#[test]
fn steady_state_takes_no_slabs() {
    struct Counting(Host, Arc<std::sync::atomic::AtomicUsize>);
    impl Device for Counting {
        type Host = HostSlab;
        type Batch = Batch<HostSlab>;
        fn host(&mut self, bytes: usize) -> packhorse_core::Result<HostSlab> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.host(bytes)
        }
        fn upload(&mut self, batch: Batch<HostSlab>) -> packhorse_core::Result<Batch<HostSlab>> {
            Ok(batch)
        }
    }
    let lengths = vec![50; 200];
    let ([tokens, _], order, _dir) = made(&lengths, 10);
    let count = Arc::default();
    let device = Counting(Host::default(), Arc::clone(&count));
    let options = TokenOptions { threads: 2, ahead: 3, ..options(2, 10) };
    let loader = TokenLoader::tokens(tokens, order, &options, device).unwrap();
    let mut held = std::collections::VecDeque::new();
    for batch in loader {
        held.push_back(batch.unwrap());
        if held.len() > 2 {
            held.pop_front();
        }
    }
    assert!(count.load(std::sync::atomic::Ordering::Relaxed) <= 5);
}
