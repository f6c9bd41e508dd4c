//! Properties of every order: each token once per epoch, ranks share the samples, invalid arrays are errors.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_order::*;
use proptest::prelude::*;

fn all(order: &dyn Order) -> Vec<Vec<Segment>> {
    (0..order.len())
        .map(|k| {
            let mut segments = Vec::new();
            order.sample(k, &mut segments).unwrap();
            segments
        })
        .collect()
}

/// How often each token of each sequence occurs.
fn tokens(lengths: &[i32], samples: &[Vec<Segment>]) -> Vec<Vec<u32>> {
    let mut seen: Vec<Vec<u32>> = lengths.iter().map(|&length| vec![0; length as usize]).collect();
    for segment in samples.iter().flatten() {
        for token in segment.offset..segment.offset + segment.length {
            seen[segment.sequence as usize][token as usize] += 1;
        }
    }
    seen
}

fn lengths() -> impl Strategy<Value = Vec<i32>> {
    prop::collection::vec(prop_oneof![Just(0), 1..20, 1..300i32], 1..80)
}

proptest! {
    #[test]
    fn every_token_comes_once_an_epoch(lengths in lengths(), length in 1..70u32, share in 0.0..3.5f64, seed: u32) {
        let total: i32 = lengths.iter().sum();
        prop_assume!(total > 0);
        let samples = Some((share * f64::from(total) / f64::from(length)) as u64);
        let options = GptOptions { extra_token: false, ..GptOptions::new(seed, length, samples) };
        let index = GptIndex::build(&lengths, 0..lengths.len() as u32, &options).unwrap();
        let order = GptOrder::over(&index, &lengths, &options).unwrap();
        let samples = all(&order);
        prop_assert!(samples.iter().all(|sample| sample.iter().map(|s| s.length).sum::<u32>() == length));
        let seen = tokens(&lengths, &samples);
        let epochs = index.plan.epochs as u32;
        prop_assert!(seen.iter().flatten().all(|&times| times <= epochs));
        let times: u64 = seen.iter().flatten().map(|&times| u64::from(times)).sum();
        prop_assert_eq!(times, u64::from(length) * index.plan.samples);
        // Less than a sample of tokens is missing.
        prop_assert!(u64::from(epochs) * total as u64 - times < u64::from(length));
    }

    #[test]
    fn the_extra_token_is_the_next_samples_first(lengths in lengths(), length in 1..70u32, seed: u32) {
        prop_assume!(lengths.iter().sum::<i32>() > 0);
        let options = GptOptions { drop_last: false, ..GptOptions::new(seed, length, None) };
        let index = GptIndex::build(&lengths, 0..lengths.len() as u32, &options).unwrap();
        let order = GptOrder::over(&index, &lengths, &options).unwrap();
        // In the order of the sample index, not of the shuffle.
        let mut samples = vec![Vec::new(); order.len() as usize];
        for (k, segments) in all(&order).into_iter().enumerate() {
            samples[index.shuffle.view().get(k).unwrap() as usize] = segments;
        }
        for pair in samples.windows(2) {
            let (last, first) = (pair[0].last().unwrap(), pair[1].first().unwrap());
            prop_assert_eq!(pair[0].iter().map(|s| s.length).sum::<u32>(), length + 1);
            prop_assert_eq!((last.sequence, last.offset + last.length - 1), (first.sequence, first.offset));
        }
        let left = samples.last().map_or(0, |sample| sample.iter().map(|s| s.length).sum());
        prop_assert!(left <= length + 1);
    }

    #[test]
    fn a_packing_holds_every_token_once(lengths in lengths(), capacity in 1..400u32, seed: u32) {
        let index = PackIndex::build(&lengths, capacity).unwrap();
        let shuffle = index.shuffle(seed).unwrap();
        let order = PackOrder::over(&index).shuffled(Some(shuffle.view()));
        let samples = all(&order);
        prop_assert_eq!(samples.len() as u64, index.bins());
        prop_assert!(tokens(&lengths, &samples).iter().flatten().all(|&times| times == 1));
        prop_assert!(samples.iter().all(|bin| bin.iter().map(|s| s.length).sum::<u32>() <= capacity));
        // Only documents longer than a bin are cut, and only their last pieces are short.
        for segment in samples.iter().flatten() {
            let whole = lengths[segment.sequence as usize] as u32;
            let rest = whole - segment.offset;
            prop_assert!(segment.length == rest.min(capacity) && segment.offset % capacity == 0);
        }
        let used: u64 = lengths.iter().map(|&n| n as u64).sum();
        prop_assert_eq!(index.padding(), index.bins() * u64::from(capacity) - used);
    }

    #[test]
    fn masks_agree(lengths in prop::collection::vec(1..40u32, 0..20), tokens in 0..300u32) {
        let segments: Vec<Segment> =
            lengths.iter().map(|&length| Segment { dataset: 0, sequence: 0, offset: 0, length }).collect();
        let (mut ends, mut positions, mut numbers) = (Vec::new(), vec![0; tokens as usize], vec![0; tokens as usize]);
        cu_seqlens(&segments, tokens, &mut ends);
        position_ids(&segments, &mut positions);
        segment_ids(&segments, &mut numbers);
        prop_assert_eq!(*ends.last().unwrap(), tokens as i32);
        prop_assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
        for (at, pair) in ends.windows(2).enumerate() {
            let run = pair[0] as usize..pair[1] as usize;
            prop_assert!(positions[run.clone()].iter().zip(0..).all(|(&position, place)| position == place));
            let number = if at < segments.len() { at as i32 } else { -1 };
            prop_assert!(numbers[run].iter().all(|&n| n == number));
        }
    }

    #[test]
    fn wrong_arrays_are_errors_not_panics(
        document in prop::collection::vec(any::<i32>(), 0..9), sample in prop::collection::vec(-3..9i32, 0..24),
        shuffle in prop::collection::vec(0..12u32, 0..9), lengths in prop::collection::vec(-2..9i32, 0..9),
        bin in prop::collection::vec(any::<i64>(), 0..9), k: u64,
    ) {
        let mut out = Vec::new();
        let arrays = [IntView::I32(&document), IntView::I32(&sample), IntView::U32(&shuffle)];
        if let Ok(order) = GptOrder::new(arrays, IntView::I32(&lengths), &GptOptions::new(1, 5, None)) {
            for k in (0..order.len()).chain([k]) {
                let _ = order.sample(k, &mut out);
            }
        }
        let order = PackOrder::new(IntView::I64(&bin), IntView::I32(&sample), 20).shuffled(Some(IntView::U32(&shuffle)));
        for k in (0..order.len()).chain([k]) {
            let _ = order.sample(k, &mut out);
        }
        let order = BlendOrder::new(IntView::I64(&bin), IntView::I64(&bin), vec![Box::new(order)]).unwrap();
        for k in (0..order.len()).chain([k]) {
            let _ = order.sample(k, &mut out);
        }
    }

    #[test]
    fn foreign_npy_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_npy(&bytes);
        let _ = read_npy(&[b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i4', 'fortran_order': False, 'shape': (", &bytes[..]].concat());
    }
}

#[test]
fn a_blend_of_a_blend_reads_through() {
    let lengths = [vec![100; 30], vec![7; 400], vec![1; 90]];
    let options = GptOptions::new(5, 9, None);
    let indices: Vec<GptIndex> =
        lengths.iter().map(|l| GptIndex::build(l, 0..l.len() as u32, &options).unwrap()).collect();
    let gpt = |at: usize| -> Box<dyn Order + '_> {
        Box::new(GptOrder::over(&indices[at], &lengths[at], &options).unwrap().numbered(at as u32))
    };
    let sizes = [indices[0].plan.samples, indices[1].plan.samples];
    let inner = BlendIndex::exhaustive(&sizes).unwrap();
    let blended = BlendOrder::over(&inner, vec![gpt(0), gpt(1)]).unwrap();
    let outer = BlendIndex::exhaustive(&[blended.len(), indices[2].plan.samples]).unwrap();
    let order = BlendOrder::over(&outer, vec![Box::new(blended), gpt(2)]).unwrap();
    let samples = all(&order);
    assert_eq!(samples.len() as u64, indices.iter().map(|index| index.plan.samples).sum::<u64>());
    for (at, index) in indices.iter().enumerate() {
        let of = samples.iter().filter(|sample| sample[0].dataset == at as u32).count();
        assert_eq!(of as u64, index.plan.samples);
    }
    assert!(order.sample(order.len(), &mut Vec::new()).is_err());
}

#[test]
fn threads_change_nothing() {
    let lengths: Vec<i32> = (0..200_000).map(|i| i * 7919 % 613).collect();
    let options = GptOptions::new(3, 128, Some(900_000));
    let build = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| GptIndex::build(&lengths, 10..190_000, &options).unwrap())
    };
    let (one, four) = (build(1), build(4));
    assert_eq!((one.document, one.sample, one.shuffle), (four.document, four.sample, four.shuffle));
}

/// Change these only with the revision in the crate's head.
#[test]
fn golden() {
    let lengths: Vec<i32> = (0..20_000).map(|i| i * 7919 % 1613).collect();
    let mut options = GptOptions::new(1234, 512, Some(70_000));
    options.drop_last = false;
    let index = GptIndex::build(&lengths, 100..19_000, &options).unwrap();
    let blend = BlendIndex::weighted(&[0.3, 5.0, 1e-3, 2.0], 5000).unwrap();
    let packed = PackIndex::build(&lengths, 1000).unwrap();
    let digest = |arrays: &[(&Array, usize)]| {
        let mut bytes = Vec::new();
        for (array, columns) in arrays {
            array.write_npy(*columns, &mut bytes).unwrap();
        }
        blake3::hash(&bytes).to_hex()[..16].to_owned()
    };
    let gpt = digest(&[(&index.document, 1), (&index.sample, 2), (&index.shuffle, 1)]);
    let blend = digest(&[(&blend.dataset, 1), (&blend.sample, 1)]);
    let packed = digest(&[(&packed.bin, 1), (&packed.piece, 3)]);
    assert_eq!([gpt, blend, packed], ["6c72c8949a15424c", "9d253e752e06504b", "d13ec59a0a60fd5d"]);
}
