//! The content of token batches: tokens, companions, padding; and invalid input.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod common;

use common::{encode, gpt, idx, loader, made_up, open, token_file};
use packhorse_core::{Code, Kind, MemoryInput};
use packhorse_order::{
    BlendIndex, BlendOrder, GptIndex, GptOptions, GptOrder, Order, PackIndex, PackOrder, Rank, Segment,
};
use packhorse_read::*;
use packhorse_tokens::Dtype;
use std::sync::Arc;

const LENGTHS: [i32; 7] = [5, 0, 17, 3, 40, 1, 30];

/// An `.idx` and `.bin` pair in memory, with generated tokens.
fn in_memory(dtype: Dtype, lengths: &[i32]) -> TokenFile {
    let tokens = lengths.iter().sum::<i32>() as usize;
    let bin = MemoryInput::new("a.bin", encode(dtype, (0..tokens).map(made_up)));
    let idx = MemoryInput::new("a.idx", idx(dtype, lengths));
    token_file(&idx, Arc::new(bin), Access::Map).unwrap()
}

/// The tokens of a sample, read one by one.
fn plainly(lengths: &[i32], order: &dyn Order, sample: u64) -> Vec<i64> {
    let mut segments = Vec::new();
    order.sample(sample, &mut segments).unwrap();
    let start = |sequence: u32| lengths[..sequence as usize].iter().sum::<i32>() as usize;
    let tokens = |s: &Segment| (0..s.length).map(|i| made_up(start(s.sequence) + (s.offset + i) as usize)).collect();
    segments.iter().flat_map::<Vec<i64>, _>(tokens).collect()
}

#[test]
fn every_type_of_tokens_arrives() {
    let order = gpt(&LENGTHS, 8, None);
    for dtype in [Dtype::U8, Dtype::I8, Dtype::I16, Dtype::U16, Dtype::I32, Dtype::I64] {
        let tokens = Arc::new(Tokens::new(vec![in_memory(dtype, &LENGTHS)]).unwrap());
        let mut rows = 0;
        for batch in loader(&tokens, &order, &TokenOptions::new(3, 8)) {
            let batch = batch.unwrap();
            let wanted: Vec<i64> = batch.positions().flat_map(|k| plainly(&LENGTHS, &*order, k)).collect();
            assert_eq!(batch.integers("tokens").collect::<Vec<_>>(), wanted, "{dtype:?}");
            assert_eq!(batch.field("tokens").unwrap().len(), 3 * 9 * tokens.token_type().width());
            rows += batch.rows() as u64;
        }
        assert_eq!(rows, order.len() / 3 * 3);
    }
}

#[test]
fn what_can_not_be_read_is_refused() {
    let error = |file: packhorse_core::Result<TokenFile>| file.map(|_| ()).unwrap_err();
    let bytes = encode(Dtype::U16, (0..96).map(made_up));
    let index = MemoryInput::new("a.idx", idx(Dtype::U16, &LENGTHS));
    let bin = |bytes: &[u8]| Arc::new(MemoryInput::new("a.bin", bytes.to_vec()));
    assert!(token_file(&index, bin(&bytes), Access::Map).is_ok());
    let cut = error(token_file(&index, bin(&bytes[..190]), Access::Map));
    assert!(cut.to_string().starts_with("a.bin: is cut short"), "{cut}");
    // An index of a wider type needs more bytes than the file has.
    let wide = MemoryInput::new("a.idx", idx(Dtype::I32, &LENGTHS));
    assert_eq!(error(token_file(&wide, bin(&bytes), Access::Map)).kind(), Kind::Content);
    let floats = MemoryInput::new("a.idx", idx(Dtype::F32, &LENGTHS));
    assert_eq!(error(token_file(&floats, bin(&bytes), Access::Map)).kind(), Kind::Unsupported);
    // Lengths alone suffice.
    let lengths = IntArray::from(LENGTHS.to_vec());
    let file = |lengths: IntArray, pointers| {
        TokenFile::new(bin(&bytes), &packhorse_core::DataType::UInt16, lengths, pointers, Access::Map)
    };
    assert_eq!(file(lengths.clone(), None).unwrap().sequences(), 7);
    assert!(file(lengths.clone(), Some(IntArray::from(vec![1]))).is_err());
    assert!(file(IntArray::from(vec![-1]), None).is_err());
    assert!(file(IntArray::from(vec![3]), Some(IntArray::from(vec![-2]))).is_err());
    assert!(Tokens::new(Vec::new()).is_err());
}

#[test]
fn a_segment_that_is_not_there_names_file_and_sample() {
    struct Wrong(Segment);
    impl Order for Wrong {
        fn len(&self) -> u64 {
            4
        }
        fn sample(&self, k: u64, out: &mut Vec<Segment>) -> packhorse_core::Result<()> {
            let right = Segment { dataset: 0, sequence: 0, offset: 0, length: 5 };
            out.push(if k == 2 { self.0 } else { right });
            Ok(())
        }
    }
    let tokens = Arc::new(Tokens::new(vec![in_memory(Dtype::U16, &LENGTHS)]).unwrap());
    for (segment, word) in [
        ([0, 7, 0, 5], "has no sequence 7"),
        ([0, u32::MAX, 0, 5], "has no sequence"),
        ([0, 0, 1, 5], "tokens 1 to 6 of it"),
        ([0, 2, u32::MAX, 5], "has 17 tokens"),
        ([0, 2, u32::MAX, u32::MAX], "a row 5"),
        ([1, 0, 0, 5], "dataset 1 of 1"),
        ([0, 2, 0, 6], "a row 5"),
        ([0, 2, 0, 4], "token to pad with"),
    ] {
        let [dataset, sequence, offset, length] = segment;
        let order: Arc<dyn Order> = Arc::new(Wrong(Segment { dataset, sequence, offset, length }));
        for threads in [0, 2] {
            let options = TokenOptions { extra_token: false, threads, ..TokenOptions::new(1, 5) };
            let batches: Vec<_> = loader(&tokens, &order, &options).collect();
            let errors: Vec<_> = batches.iter().filter_map(|batch| batch.as_ref().err()).collect();
            assert_eq!((batches.len(), errors.len(), errors[0].sample()), (4, 1, Some("2")));
            assert!(errors[0].to_string().contains(word), "{}", errors[0]);
        }
    }
}

#[test]
fn packed_rows_have_padding_positions_masks_and_boundaries() {
    // Bins of 10: [10], [7, 3], [6, 4 of which the last is padding…
    let lengths = [7, 3, 10, 6, 2];
    let order: Arc<dyn Order> = Arc::new(PackOrder::<IntArray>::of(PackIndex::build(&lengths, 10).unwrap()));
    let tokens = Arc::new(Tokens::new(vec![in_memory(Dtype::U16, &lengths)]).unwrap());
    let companions =
        Companions { position_ids: true, segment_ids: true, loss_mask: LossMask::Documents, cu_seqlens: true };
    let options = TokenOptions { pad: Some(999), companions, ..TokenOptions::new(3, 9) };
    let batch = loader(&tokens, &order, &options).next().unwrap().unwrap();
    assert_eq!((batch.rows(), batch.longest()), (3, 9));
    let rows: Vec<i64> = batch.integers("tokens").collect();
    let wanted = [(10..20, 0), (0..10, 0), (20..28, 2)];
    let wanted: Vec<i64> = wanted.into_iter().flat_map(|(at, pad)| at.map(made_up).chain(vec![999; pad])).collect();
    assert_eq!(rows, wanted);
    let of = |name| batch.integers(name).collect::<Vec<_>>();
    assert_eq!(of("position_ids"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 0, 1, 0, 1, 2, 3, 4, 5, 0, 1, 0]);
    assert_eq!(of("segment_ids"), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, -1]);
    assert_eq!(of("loss_mask"), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0]);
    assert_eq!(of("cu_seqlens"), [0, 9, 16, 18, 24, 26, 27]);
    assert_eq!(batch.used(), batch.layout().field("cu_seqlens").unwrap().offset + 28);
    assert!(batch.layout().fields().iter().all(|field| field.offset % ALIGN == 0));
    assert_eq!(batch.slab().as_ptr().addr() % ALIGN, 0);

    let whole = Companions { loss_mask: LossMask::Padding, ..Companions::default() };
    let options = TokenOptions { companions: whole, ..options };
    let batch = loader(&tokens, &order, &options).next().unwrap().unwrap();
    assert_eq!(batch.integers("loss_mask").sum::<i64>(), 9 + 9 + 7);
    assert!(batch.field("cu_seqlens").is_none() && batch.longest() == 0);
}

#[test]
fn what_is_left_is_dropped_padded_or_uneven() {
    let lengths = [21];
    let (order, tokens) = (gpt(&lengths, 2, None), Tokens::new(vec![in_memory(Dtype::I32, &lengths)]).unwrap());
    let tokens = Arc::new(tokens);
    assert_eq!(order.len(), 10);
    let rows = |rank, remainder| {
        let companions = Companions { loss_mask: LossMask::Padding, ..Companions::default() };
        let options =
            TokenOptions { rank: Rank { rank, world_size: 2 }, remainder, companions, ..TokenOptions::new(2, 2) };
        let mut loader = loader(&tokens, &order, &options);
        let left = loader.remaining();
        let rows: Vec<_> = loader.by_ref().map(|batch| batch.unwrap().rows()).collect();
        assert_eq!((left as usize, loader.remaining()), (rows.len(), 0));
        rows
    };
    assert_eq!((rows(0, Remainder::Drop), rows(1, Remainder::Drop)), (vec![2, 2], vec![2, 2]));
    assert_eq!((rows(0, Remainder::Pad), rows(1, Remainder::Pad)), (vec![2, 2, 2], vec![2, 2, 2]));
    assert_eq!((rows(0, Remainder::Uneven), rows(1, Remainder::Uneven)), (vec![2, 2, 2], vec![2, 2, 0]));
}

#[test]
fn rows_of_padding_count_for_nothing() {
    let lengths = [21];
    let (order, tokens) = (gpt(&lengths, 2, None), Tokens::new(vec![in_memory(Dtype::I32, &lengths)]).unwrap());
    let companions =
        Companions { loss_mask: LossMask::Padding, segment_ids: true, cu_seqlens: true, ..Companions::default() };
    let options = TokenOptions { remainder: Remainder::Pad, pad: Some(99), companions, ..TokenOptions::new(4, 2) };
    let batch = loader(&Arc::new(tokens), &order, &options).last().unwrap().unwrap();
    assert_eq!((batch.rows(), batch.positions()), (4, 8..10));
    assert_eq!(batch.integers("tokens").skip(6).collect::<Vec<_>>(), [99; 6]);
    assert_eq!(batch.integers("loss_mask").collect::<Vec<_>>(), [1, 1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(batch.integers("segment_ids").skip(4).collect::<Vec<_>>(), [-1; 4]);
    assert_eq!(batch.integers("cu_seqlens").last(), Some(8));
}

#[test]
fn blends_take_the_widest_type() {
    let (a, b) = ([30, 20], [44, 9]);
    let orders: Vec<Box<dyn Order>> = [&a[..], &b[..]]
        .into_iter()
        .zip(0..)
        .map(|(lengths, number)| {
            let options = GptOptions::new(1, 4, None);
            let index = GptIndex::build(lengths, 0..2, &options).unwrap();
            let order = GptOrder::of(index, IntArray::from(lengths.to_vec()), &options).unwrap().numbered(number);
            Box::new(order) as Box<dyn Order>
        })
        .collect();
    let order: Arc<dyn Order> =
        Arc::new(BlendOrder::<IntArray>::of(BlendIndex::weighted(&[0.5, 0.5], 20).unwrap(), orders).unwrap());
    let files = vec![in_memory(Dtype::U16, &a), in_memory(Dtype::I32, &b)];
    let tokens = Arc::new(Tokens::new(files).unwrap());
    assert_eq!(tokens.token_type(), TokenType::I32);
    let mut segments = Vec::new();
    for batch in loader(&tokens, &order, &TokenOptions::new(4, 4)) {
        let batch = batch.unwrap();
        let mut wanted = Vec::new();
        for k in batch.positions() {
            segments.clear();
            order.sample(k, &mut segments).unwrap();
            for s in &segments {
                let start = [&a, &b][s.dataset as usize][..s.sequence as usize].iter().sum::<i32>() as usize;
                wanted.extend((0..s.length).map(|i| made_up(start + (s.offset + i) as usize)));
            }
        }
        assert_eq!(batch.integers("tokens").collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn options_that_make_no_sense() {
    let tokens = Arc::new(Tokens::new(vec![in_memory(Dtype::U16, &LENGTHS)]).unwrap());
    let order = gpt(&LENGTHS, 8, None);
    let right = TokenOptions::new(3, 8);
    for options in [
        TokenOptions::new(0, 8),
        TokenOptions::new(3, 0),
        TokenOptions::new(u32::MAX, u32::MAX),
        TokenOptions { rank: Rank { rank: 1, world_size: 1 }, ..right.clone() },
        TokenOptions { consumed: 1000, ..right.clone() },
        TokenOptions { pad: Some(65_536), ..right.clone() },
        TokenOptions { pad: Some(-1), ..right },
    ] {
        let made = TokenLoader::tokens(Arc::clone(&tokens), Arc::clone(&order), &options, Host::default());
        assert_eq!(made.map(|_| ()).unwrap_err().kind(), Kind::Config, "{options:?}");
    }
}

#[test]
fn a_state_of_another_order_is_refused() {
    let tokens = Arc::new(Tokens::new(vec![in_memory(Dtype::U16, &LENGTHS)]).unwrap());
    let settings = |samples| Arc::clone(&tokens).loader(3, 8).rank(Rank::default()).samples(samples);
    let mut loader = settings(40).build().unwrap();
    loader.next().unwrap().unwrap();
    let state = loader.state();
    let next = settings(40).resume(&state).build().unwrap().next().unwrap().unwrap();
    assert_eq!(next.positions(), 3..6);
    let error = settings(90).resume(&state).build().map(|_| ()).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Config, Code::StateDiffers));
    assert!(error.message().contains(&state.samples.to_string()), "{error}");
}

#[test]
fn a_file_on_disk_is_mapped_or_read() {
    let dir = tempfile::tempdir().unwrap();
    let stem = dir.path().join("a");
    std::fs::write(stem.with_extension("idx"), idx(Dtype::U16, &LENGTHS)).unwrap();
    std::fs::write(stem.with_extension("bin"), encode(Dtype::U16, (0..96).map(made_up))).unwrap();
    assert!(open(&stem, Access::Map).unwrap().is_mapped());
    assert!(!open(&stem, Access::Ranges { gap: 0 }).unwrap().is_mapped());
    // Replaces it by another file.
    let file = open(&stem, Access::Map).unwrap();
    let other = dir.path().join("b");
    std::fs::write(&other, b"").unwrap();
    std::fs::rename(&other, stem.with_extension("bin")).unwrap();
    let mut out = [0; 10];
    let segment = Segment { dataset: 0, sequence: 0, offset: 0, length: 5 };
    assert_eq!(Tokens::new(vec![file]).unwrap().read(&[segment], &mut out).unwrap(), 10);
    assert_eq!(out[..], encode(Dtype::U16, (0..5).map(made_up))[..]);
    assert_eq!(open(&stem, Access::Map).map(|_| ()).unwrap_err().kind(), Kind::Content);
}

#[test]
fn a_file_that_was_replaced_is_not_mapped() {
    use packhorse_core::Store;
    let dir = tempfile::tempdir().unwrap();
    let (bin, other) = (dir.path().join("a.bin"), dir.path().join("b"));
    std::fs::write(&bin, [0; 4]).unwrap();
    let input = packhorse_storage::Local.open(&bin).unwrap();
    assert!(IntArray::read(&*input, "<i4", 0, 1, Access::Map).is_ok());
    std::fs::write(&other, [0; 4]).unwrap();
    std::fs::rename(&other, &bin).unwrap();
    assert_eq!(IntArray::read(&*input, "<i4", 0, 1, Access::Map).unwrap_err().kind(), Kind::Changed);
    assert!(IntArray::read(&*input, "<i4", 0, 1, Access::Ranges { gap: 0 }).is_ok());
}

#[test]
fn a_panic_of_an_order_ends_the_run_with_an_error() {
    struct Panics;
    impl Order for Panics {
        fn len(&self) -> u64 {
            40
        }
        fn sample(&self, k: u64, out: &mut Vec<Segment>) -> packhorse_core::Result<()> {
            assert!(k != 5, "on purpose");
            out.push(Segment { dataset: 0, sequence: 0, offset: 0, length: 5 });
            Ok(())
        }
    }
    let tokens = Arc::new(Tokens::new(vec![in_memory(Dtype::U16, &LENGTHS)]).unwrap());
    let order: Arc<dyn Order> = Arc::new(Panics);
    for threads in [1, 3] {
        let mut kinds = loader(&tokens, &order, &TokenOptions { threads, ..TokenOptions::new(1, 4) })
            .map(|batch| batch.map(|_| ()).map_err(|error| error.kind()))
            .collect::<Vec<_>>();
        assert_eq!((kinds.len(), kinds.pop()), (6, Some(Err(Kind::Bug))));
        assert!(kinds.iter().all(Result::is_ok));
    }
}
