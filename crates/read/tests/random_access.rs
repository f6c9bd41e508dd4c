//! Batches out of turn: any samples by number, and the batch of any step and rank; equal to those of loaders.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "png/mod.rs"]
mod png;
#[path = "shards/mod.rs"]
mod shards;

use packhorse_core::Kind;
use packhorse_order::{Rank, Shuffle};
use packhorse_read::*;
use packhorse_transform::image::View;
use shards::*;
use std::collections::HashMap;

const COUNTS: [usize; 4] = [40, 3, 77, 12];
const TOTAL: u64 = 132;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    shards::shards(dir.path(), &COUNTS);
    dir
}

fn options(batch: u32) -> LoaderOptions {
    LoaderOptions { threads: 2, seed: 5, shuffle: Some(Shuffle::Blocks { shards: 2 }), ..LoaderOptions::new(batch) }
}

/// A folder with pictures of differing sizes, and a label each.
fn pictures() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let picture = |i: usize| {
        let (width, height) = (20 + i % 7, 30 - i % 5);
        let pixels: Vec<u8> = (0..width * height * 3).map(|at| (at * 31 + i * 17) as u8).collect();
        let bytes = png::encode(width as u32, height as u32, &pixels);
        (format!("k{i:02}"), vec![("png", bytes), ("cls", format!("{i}").into_bytes())])
    };
    tar(&dir.path().join("a.tar"), (0..30).map(picture));
    dir
}

#[test]
fn any_step_of_any_rank_is_what_its_loader_returned() {
    let dir = folder();
    let dataset = dataset(dir.path());
    for remainder in [Remainder::Drop, Remainder::Pad, Remainder::Uneven] {
        for ranks in [1, 3] {
            let of = |rank| {
                let rank = Rank { rank, world_size: ranks };
                LoaderOptions { rank, remainder, epochs: Some(3), ..options(7) }
            };
            // This one has taken a few batches, has fewer epochs, and its threads are busy.
            let mut asked =
                Loader::new(dataset.clone(), &[], &LoaderOptions { epochs: Some(1), ..of(0) }, Host::default())
                    .unwrap();
            let first = seen(&asked.next().unwrap().unwrap());
            for rank in 0..ranks {
                let batches = all(&dataset, &[], &of(rank));
                assert_eq!(batches.len() as u64, 3 * asked.steps_per_epoch());
                let rank = Rank { rank, world_size: ranks };
                for (step, wanted) in batches.iter().enumerate().rev() {
                    assert!(seen(&asked.at(step as u64, rank).unwrap()) == *wanted, "{step} {rank:?} {remainder:?}");
                }
            }
            let rest = asked.by_ref().map(|batch| seen(&batch.unwrap()));
            let own: Vec<_> = std::iter::once(first).chain(rest).collect();
            assert!(own == all(&dataset, &[], &LoaderOptions { epochs: Some(1), ..of(0) }));
        }
    }
}

#[test]
fn a_step_does_not_depend_on_where_the_loader_began() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let mut loader = Loader::new(dataset.clone(), &[], &options(7), Host::default()).unwrap();
    let batches: Vec<_> = loader.by_ref().map(|batch| seen(&batch.unwrap())).collect();
    let state = Some(loader.state());
    let other = LoaderOptions { state, epochs: Some(2), threads: 0, ..options(7) };
    let resumed = Loader::new(dataset.clone(), &[], &other, Host::default()).unwrap();
    assert!(seen(&resumed.at(3, Rank::default()).unwrap()) == batches[3]);

    let (one, rank) = (Rank::default(), Rank { rank: 2, world_size: 2 });
    assert_eq!(resumed.at(3, rank).unwrap_err().kind(), Kind::Config);
    let wide = Rank { rank: 0, world_size: 100 };
    assert!(resumed.at(0, wide).unwrap_err().message().contains("132 samples don't fill a step of 700"));
    let far = resumed.at(u64::MAX, one).unwrap();
    assert_eq!((far.rows(), far.epoch()), (7, u64::MAX / 18));
}

/// Batches on a device of their own, after the loader has moved to another thread and when it is gone.
#[test]
fn steps_outlive_their_loader() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let of = || Loader::new(dataset.clone(), &[], &options(7), Host::default()).unwrap();
    let wanted = all(&dataset, &[], &options(7));
    let loader = of();
    let access = loader.random_access(Host::default()).unwrap();
    assert_eq!((access.layout(), access.steps_per_epoch()), (loader.layout(), loader.steps_per_epoch()));
    let mut ahead = Ahead::new(loader, 2).unwrap();
    assert!(seen(&ahead.next().unwrap().unwrap()) == wanted[0]);
    assert_eq!(access.remaining_in_epoch(&ahead.state()), wanted.len() as u64 - 1);
    for step in [5, 0, 17] {
        assert!(seen(&access.at(step as u64, Rank::default()).unwrap()) == wanted[step]);
    }
    drop(ahead);
    let kept = access.at(3, Rank::default()).unwrap();
    assert!(seen(&access.at(4, Rank::default()).unwrap()) == wanted[4] && seen(&kept) == wanted[3]);
    assert_eq!(access.at(0, Rank { rank: 2, world_size: 2 }).unwrap_err().kind(), Kind::Config);
}

#[test]
fn mixes_too_but_not_streams() {
    let dir = folder();
    let dataset = dataset(dir.path());
    let (a, b) = (dataset.take(50).unwrap(), dataset.slice(50..TOTAL).unwrap());
    let mix = [(a, 3.0), (b, 1.0)];
    let of = |rank| {
        let options = LoaderOptions { rank, epochs: Some(2), ..options(8) };
        Loader::mixed(&mix, 160, &[], &options, Host::default()).unwrap()
    };
    let asked = of(Rank::default());
    for rank in [0, 1].map(|rank| Rank { rank, world_size: 2 }) {
        let batches: Vec<_> = of(rank).map(|batch| seen(&batch.unwrap())).collect();
        assert_eq!(batches.len(), 20);
        for (step, wanted) in batches.iter().enumerate() {
            assert!(seen(&asked.at(step as u64, rank).unwrap()) == *wanted, "{step} {rank:?}");
        }
    }

    let input = std::fs::File::open(dir.path().join("part-000.tar")).unwrap();
    let input = Box::new(Pipe::new("a pipe", Box::new(input)));
    let stream = Loader::stream(&registry(), "webdataset", input, &[], &options(8), Host::default()).unwrap();
    assert_eq!(stream.at(0, Rank::default()).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!((stream.steps_per_epoch(), stream.remaining_in_epoch(&stream.state())), (u64::MAX, u64::MAX));
    assert_eq!(stream.count(), 5);
}

#[test]
fn the_steps_left_of_an_epoch_follow_from_the_state() {
    let dir = folder();
    let dataset = dataset(dir.path());
    for (remainder, steps) in [(Remainder::Drop, 9), (Remainder::Pad, 10), (Remainder::Uneven, 10)] {
        let rank = Rank { rank: 1, world_size: 2 };
        let options = LoaderOptions { rank, remainder, epochs: Some(2), ..options(7) };
        let mut loader = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
        assert_eq!((loader.steps_per_epoch(), loader.remaining_in_epoch(&loader.state())), (steps, steps));
        for taken in 1..=2 * steps {
            loader.next().unwrap().unwrap();
            let state = loader.state();
            let left = (2 * steps - taken) % steps;
            assert_eq!((loader.remaining_in_epoch(&state), state.epoch), (left, (taken - 1) / steps));
        }
        // With another world size, as many as a loader that resumes there returns.
        let state = packhorse_order::OrderState { epoch: 1, consumed: 29, ..loader.state() };
        let options = LoaderOptions { state: Some(state), rank: Rank::default(), ..options };
        let resumed = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
        assert_eq!(resumed.remaining_in_epoch(&state), resumed.count() as u64);
    }
}

#[test]
fn samples_by_number_are_those_of_loaders() {
    let dir = pictures();
    let dataset = dataset(dir.path());
    let fields = [
        FieldOptions::new("image", FieldKind::Picture(View::random_crop(8).flip(0.5))).from("png"),
        FieldOptions::new("whole", FieldKind::Picture(View::default())).from("png"),
        FieldOptions::new("raw", FieldKind::Bytes).from("png"),
        FieldOptions::new("cls", FieldKind::Auto),
        FieldOptions::new("draws", FieldKind::Draws),
    ];
    let options = LoaderOptions { epochs: Some(2), ..options(6) };
    let row = |batch: &Batch<HostSlab>, row: usize| {
        let fields = ["image", "whole", "raw", "cls", "draws", "whole.shape"];
        fields.map(|name| batch.row(name, row).unwrap().to_vec())
    };
    let mut wanted = HashMap::new();
    for batch in Loader::new(dataset.clone(), &fields, &options, Host::default()).unwrap() {
        let batch = batch.unwrap();
        for (at, number) in batch.numbers().iter().enumerate() {
            wanted.insert((batch.epoch(), *number), (batch.key(at).unwrap().to_owned(), row(&batch, at)));
        }
    }
    assert_eq!(wanted.len(), 60);
    let decoder = BatchDecoder::new(&dataset, &fields, &options).unwrap();
    assert_eq!(decoder.layout().field("image").unwrap().shape, [6, 8, 8, 3]);
    let check = |numbers: &[u64], epoch: u64| {
        let batch = decoder.decode(numbers, epoch).unwrap();
        assert_eq!((batch.numbers(), batch.epoch(), batch.positions()), (numbers, epoch, 0..numbers.len() as u64));
        assert_eq!(batch.layout().field("image").unwrap().shape, [numbers.len(), 8, 8, 3]);
        assert_eq!(batch.layout().field("raw.offsets").unwrap().shape, [numbers.len() + 1]);
        for (at, number) in numbers.iter().enumerate() {
            let (key, fields) = &wanted[&(epoch, *number)];
            assert!(batch.key(at) == Some(key) && row(&batch, at) == *fields, "{number} of {numbers:?} in {epoch}");
        }
    };
    std::thread::scope(|threads| {
        for epoch in 0..2 {
            threads.spawn(move || {
                let backwards: Vec<u64> = (0..30).rev().collect();
                for numbers in [&[][..], &[29], &[3, 3, 0, 3], &[1, 2, 3, 4, 5, 6], &backwards] {
                    check(numbers, epoch);
                }
            });
        }
    });
    assert_eq!(decoder.decode(&[0, 30], 0).unwrap_err().kind(), Kind::Config);
    let missing = [FieldOptions::new("jpg", FieldKind::Bytes)];
    assert_eq!(BatchDecoder::new(&dataset, &missing, &options).unwrap_err().kind(), Kind::Config);
}

#[test]
fn bad_samples_are_errors_or_move_the_others_up() {
    let dir = tempfile::tempdir().unwrap();
    let label = |i: usize| if i == 3 { b"seven".to_vec() } else { format!("{i}").into_bytes() };
    tar(&dir.path().join("a.tar"), (0..9).map(|i| (format!("k{i}"), vec![("cls", label(i))])));
    let dataset = dataset(dir.path());
    let fields = [FieldOptions::new("cls", FieldKind::Auto)];
    let strict = BatchDecoder::new(&dataset, &fields, &options(4)).unwrap();
    let error = strict.decode(&[8, 3, 0], 0).unwrap_err();
    assert!(error.kind() == Kind::Content && error.to_string().contains("k3"), "{error}");
    assert_eq!(strict.decode(&[8, 0], 0).unwrap().rows(), 2);
    let options = LoaderOptions { on_error: OnError::Skip, ..options(4) };
    let batch = BatchDecoder::new(&dataset, &fields, &options).unwrap().decode(&[8, 3, 0], 0).unwrap();
    assert_eq!((batch.rows(), batch.numbers(), batch.key(1)), (2, &[8, 0][..], Some("k0")));
    assert_eq!(batch.integers("cls").collect::<Vec<_>>(), [8, 0]);
}

/// A folder with a sample for each of these texts.
fn json(texts: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sample = |(i, text): (usize, &&str)| (format!("k{i}"), vec![("json", text.as_bytes().to_vec())]);
    tar(&dir.path().join("a.tar"), texts.iter().enumerate().map(sample));
    dir
}

#[test]
fn names_in_json_may_have_dots() {
    let dir = json(&[
        r#"{"a.b": 1, "a": {"b": 9}, "x": [{"y.z": {"w": 4}}], "c": "one.1"}"#,
        r#"{"a": {"b": 2}, "x": [{"y": {"z.w": 5}, "y.z": {}}], "c": "two"}"#,
        r#"{"a": {}, "a.b": 3, "x.0.y.z.w": 6, "x": [], "c": "two"}"#,
    ]);
    let dataset = dataset(dir.path());
    let number = |path: &str| FieldKind::Json(path.into(), packhorse_core::DataType::Int64);
    let class = FieldKind::Class(["two".to_owned(), "one.1".to_owned()].into(), Some("c".to_owned()));
    let fields = [("ab", number("a.b")), ("deep", number("x.0.y.z.w")), ("class", class)];
    let fields = fields.map(|(name, kind)| FieldOptions::new(name, kind).from("json"));
    let batch = BatchDecoder::new(&dataset, &fields, &options(3)).unwrap().decode(&[0, 1, 2], 0).unwrap();
    for (name, wanted) in [("ab", [1, 2, 3]), ("deep", [4, 5, 6]), ("class", [1, 0, 0])] {
        assert_eq!(batch.integers(name).collect::<Vec<_>>(), wanted, "{name}");
    }
    let chosen = |condition: &str| dataset.filter_numbers(&condition.parse().unwrap());
    assert_eq!(chosen("json.a.b >= 2").unwrap(), [1, 2]);
    assert_eq!(chosen("json.x.0.y.z.w in [4, 6]").unwrap(), [0, 2]);
    assert_eq!(chosen("json.x.0.y is null").unwrap(), [0, 2]);
    assert!(chosen("json. == 1").is_err());
}

#[test]
fn values_that_json_lacks_are_told_from_zeros() {
    let texts = [r#"{"n": 0, "c": "a"}"#, r#"{"n": null}"#, r#"{"n": 1, "c": null}"#, r#"{"c": ""}"#, "[]", "{"];
    let dir = json(&texts);
    let dataset = dataset(dir.path());
    let class = FieldKind::Class(["a".to_owned(), String::new()].into(), Some("c".to_owned()));
    let fields = [
        ("n", FieldKind::Json("n".to_owned(), packhorse_core::DataType::Int64)),
        ("c", class),
        ("has n", FieldKind::Present(Some("n".to_owned()))),
        ("has c", FieldKind::Present(Some("c".to_owned()))),
        ("has json", FieldKind::Present(None)),
    ];
    let fields =
        fields.map(|(name, kind)| FieldOptions { required: false, ..FieldOptions::new(name, kind).from("json") });
    let decoder = BatchDecoder::new(&dataset, &fields, &options(5)).unwrap();
    let batch = decoder.decode(&[0, 1, 2, 3, 4], 0).unwrap();
    for (name, wanted) in [
        ("n", [0, 0, 1, 0, 0]),
        ("c", [0, 0, 0, 1, 0]),
        ("has n", [1, 0, 1, 0, 0]),
        ("has c", [1, 0, 0, 1, 0]),
        ("has json", [1; 5]),
    ] {
        assert_eq!(batch.integers(name).collect::<Vec<_>>(), wanted, "{name}");
    }
    let one = |number, field: FieldOptions| {
        let decoder = BatchDecoder::new(&dataset, &[field], &options(1)).unwrap();
        decoder.decode(&[number], 0).map(|batch| batch.integers("p").next()).map_err(|error| error.to_string())
    };
    let present = |path: Option<&str>| FieldOptions::new("p", FieldKind::Present(path.map(str::to_owned))).from("json");
    assert_eq!((one(5, present(None)), one(1, present(Some("n")))), (Ok(Some(1)), Ok(Some(0))));
    assert!(one(5, present(Some("n"))).unwrap_err().contains("is not JSON"));
    let required = FieldOptions { required: true, ..fields[0].clone() };
    assert!(one(1, required).unwrap_err().contains("`Present`"));
}

#[test]
fn a_wait_of_limited_time_returns_what_the_iterator_returns() {
    use std::time::Duration;
    let dir = folder();
    let dataset = dataset(dir.path());
    for threads in [0, 2] {
        for wait in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
            let options = LoaderOptions { threads, ..options(7) };
            let wanted = all(&dataset, &[], &options);
            let mut loader = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
            let mut batches = Vec::new();
            loop {
                match loader.next_within(wait) {
                    Next::Batch(batch) => batches.push(seen(&batch.unwrap())),
                    Next::NotYet => {
                        assert!(threads > 0 && wait < Duration::MAX);
                        assert_eq!(loader.remaining(), (wanted.len() - batches.len()) as u64);
                    }
                    Next::End => break,
                }
            }
            assert!(batches == wanted && loader.next().is_none());
        }
    }
}
