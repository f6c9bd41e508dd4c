//! `packhorse order`: the training order of token datasets, as the files that Megatron finds in its cache.

use super::CommandContext;
use crate::args::Order;
use crate::exit::code;
use crate::outcome::{counted, report_error};
use crate::signals::end_soon;
use packhorse_core::{Context, Error, Event, Input, Kind, Observer, Outlet, Result};
use packhorse_order::{
    BlendDescription, BlendIndex, BlendRequest, BlendWeights, CacheFile, GptDescription, GptIndex, GptOptions, Json,
    PackIndex, SURPLUS, Split, Splits, normalized,
};
use packhorse_pack::{RecordedFiles, as_request_error, sealed_manifest};
use packhorse_storage::Staging;
use packhorse_tokens::IndexHeader;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// A pair of files, and its weight in a blend.
struct Member {
    /// Without `.bin` and `.idx`, otherwise as given.
    prefix: String,
    weight: Option<f64>,
}

/// The request: the same for each dataset.
struct Request<'a> {
    context: &'a CommandContext<'a>,
    args: &'a Order,
    splits: Splits,
    tokenizer: Json,
    staging: Staging,
}

pub(super) fn run(context: &CommandContext<'_>, args: &Order) -> Result<ExitCode> {
    let start = Instant::now();
    let _ = rayon::ThreadPoolBuilder::new().num_threads(args.threads.jobs()).build_global();
    let members = members(context, &args.input, args.samples.is_some())?;
    if args.verifying.on() {
        check(context, args, &members)?;
    }
    let tokenizer = match &args.tokenizer_id {
        None => Json::Object(Vec::new()),
        Some(path) => serde_json::from_str(&std::fs::read_to_string(path).context("read")?)
            .map_err(|e| Error::config(format!("is not valid JSON: {e}")).in_input(path.display()))?,
    };
    let staging = Staging::open(context.store.clone(), &args.out)?;
    stop_soon(context, &staging)?;
    let request = Request { context, args, splits: Splits::parse(&args.split)?, tokenizer, staging };
    let made = match args.pack {
        Some(capacity) => request.packed(&members, capacity),
        None => request.indices(&members),
    };
    // After a stop the staging folder is gone, so any error means that.
    let made = made.map_err(|e| if context.cancel.is_cancelled() { Error::cancelled() } else { e })?;
    let seconds = start.elapsed().as_secs_f64();
    let mut text: String = made.iter().map(|made| format!("{}\n", made.0)).collect();
    text.push_str(&format!("  wrote {} in {seconds:.2} s\n", args.out.display()));
    let values: Vec<&Value> = made.iter().map(|made| &made.1).collect();
    context.style.show(&json!({"orders": values, "seconds": seconds}), &text)
}

/// Ends the program soon after a request to stop: computing an index of billions of samples checks for none.
fn stop_soon(context: &CommandContext<'_>, staging: &Staging) -> Result<()> {
    let abandon = staging.abandon();
    let as_json = context.log_json;
    end_soon(&context.cancel, move || {
        abandon();
        report_error(&Error::cancelled(), as_json);
        code(Kind::Cancelled).into()
    })
}

/// Checks the `.idx` files of sealed datasets against their recorded digests.
fn check(context: &CommandContext<'_>, args: &Order, members: &[Member]) -> Result<()> {
    let mut recorded = RecordedFiles::default();
    let mut dirs = args.input.iter().filter(|word| word.parse::<f64>().is_err());
    dirs.try_for_each(|dir| recorded.add_dataset(&*context.store, Path::new(dir), |_| false).map(drop))?;
    for member in members {
        recorded.add_file(&*context.store, Path::new(&format!("{}.idx", member.prefix)))?;
    }
    recorded.check(&*context.store, &context.cancel, |path| path.extension().is_none_or(|e| e != "bin"))
}

/// The last part of a prefix, from which files of bins have their names.
fn base(member: &Member) -> &str {
    member.prefix.rsplit('/').next().unwrap_or_default()
}

/// A result: a sentence, and the same as JSON.
struct Made(String, Value);

impl Request<'_> {
    /// The indices of every part of which samples are wanted.
    fn indices(&self, members: &[Member]) -> Result<Vec<Made>> {
        let mut made = Vec::new();
        let wanted: Vec<(Split, Option<u64>)> = Split::ALL
            .into_iter()
            .zip(self.samples()?)
            .filter_map(|(split, samples)| Some((split, samples?)))
            .collect();
        // Before anything is written.
        for (split, _) in wanted.iter().filter(|(_, samples)| samples.is_some()) {
            self.check_part(members, *split)?;
        }
        for (split, samples) in wanted {
            self.context.cancel.check()?;
            match members {
                [one] => made.extend(self.single(&one.prefix, split, samples)?.map(|(_, made)| made)),
                _ => self.blend(members, split, samples, &mut made)?,
            }
        }
        match made.is_empty() {
            false => Ok(made),
            true => {
                Err(Error::config("there is no sequence in the parts that are asked for; see --split and --samples"))
            }
        }
    }

    /// Errors: a part of which samples are asked for and into which no sequence falls: of any member, or with weights of one.
    fn check_part(&self, members: &[Member], split: Split) -> Result<()> {
        let mut empty = None;
        for member in members {
            let sequences = IndexHeader::open(&*index(self.context, &member.prefix)?)?.sequences;
            let ids = u32::try_from(sequences).ok().and_then(|n| self.splits.range(split, n));
            match ids.is_some_and(|ids| !ids.is_empty()) {
                true if member.weight.is_none() => return Ok(()),
                true => {}
                false => empty = empty.or(Some(&member.prefix)),
            }
        }
        let Some(prefix) = empty else { return Ok(()) };
        let name = split.name();
        let error = Error::config(format!("no sequence falls into {name}"));
        Err(error.in_input(prefix).hint("ask for none of its samples, or see --split"))
    }

    /// For each part whether it is wanted, and how many samples of it; without a number, those of one epoch.
    fn samples(&self) -> Result<[Option<Option<u64>>; 3]> {
        let Some(wanted) = &self.args.samples else { return Ok([Some(None); 3]) };
        if wanted.len() > 3 {
            return Err(Error::config("--samples takes up to three numbers: of train, valid and test"));
        }
        Ok(std::array::from_fn(|i| wanted.get(i).filter(|n| **n > 0).map(|n| Some(*n))))
    }

    fn blend(&self, members: &[Member], split: Split, samples: Option<u64>, made: &mut Vec<Made>) -> Result<()> {
        let weights: Option<Vec<f64>> = members.iter().map(|member| member.weight).collect();
        let (requests, index, weights) = match (weights, samples) {
            (Some(weights), Some(samples)) => {
                let request = BlendRequest::new(&weights, samples, SURPLUS)?;
                let index = BlendIndex::weighted(&request.weights, request.size)?;
                let twice = normalized(&request.weights);
                let requests = request.requests.into_iter().map(Some).collect::<Vec<_>>();
                (requests, Some(index), BlendWeights::Weighted(twice, request.size))
            }
            (None, None) => (vec![None; members.len()], None, BlendWeights::Exhaustive(Vec::new())),
            (Some(_), None) => {
                return Err(Error::config("weights need --samples: the number of samples in the blend"));
            }
            (None, Some(_)) => {
                return Err(Error::config(
                    "--samples of several datasets needs weights: WEIGHT PREFIX WEIGHT PREFIX …",
                ));
            }
        };
        let (mut datasets, mut sizes) = (Vec::new(), Vec::new());
        for (member, samples) in members.iter().zip(requests) {
            let Some((description, one)) = self.single(&member.prefix, split, samples)? else { continue };
            let size = one.1.get("samples").and_then(Value::as_u64).unwrap_or_default();
            if size == 0 && index.is_none() {
                let (name, length) = (split.name(), self.args.seq_length);
                let message =
                    format!("{name} has too few tokens for a sample of {length}, and each part of a blend needs one");
                let joined = "make one dataset of the shards first (`packhorse merge DIR --out PREFIX`)";
                let error = Error::config(message).in_input(&member.prefix).hint(joined);
                return Err(match split {
                    Split::Train => error.hint("or ask for shorter samples"),
                    _ => error.hint("or give all to training (`--split 1`)"),
                });
            }
            sizes.push(size);
            datasets.push(description);
            made.push(one);
        }
        if datasets.is_empty() {
            return Ok(());
        }
        let (index, weights) = match (index, weights) {
            (Some(index), weights) => (index, weights),
            (None, _) => (BlendIndex::exhaustive(&sizes)?, BlendWeights::Exhaustive(sizes)),
        };
        let description = BlendDescription { datasets, split, weights };
        self.publish(description.files(&index))?;
        let (name, n) = (split.name(), index.sample.len() as u64);
        made.push(Made(
            format!("{name}: a blend of {}", counted(n, "sample")),
            json!({"split": name, "blend": true, "samples": n}),
        ));
        Ok(())
    }

    /// The indices of one dataset; `None` where no sequence of it is in the part.
    fn single(&self, prefix: &str, split: Split, samples: Option<u64>) -> Result<Option<(GptDescription, Made)>> {
        let lengths = lengths(self.context, prefix)?;
        let count = u32::try_from(lengths.len()).map_err(|_| Error::unsupported("over 4 billion sequences"))?;
        let Some(ids) = self.splits.range(split, count).filter(|ids| !ids.is_empty()) else { return Ok(None) };
        let (seed, length) = (self.args.seed, self.args.seq_length);
        let drop_last = split != Split::Valid || !self.args.keep_last;
        let options = GptOptions { drop_last, ..GptOptions::new(seed, length, samples) };
        let index = GptIndex::build(&lengths, ids, &options).map_err(|e| e.in_input(format!("{prefix}.idx")))?;
        let description = GptDescription {
            dataset_path: prefix.to_owned(),
            samples,
            split,
            seed,
            sequence_length: length,
            splits: Some(self.splits.clone()),
            tokenizer: self.tokenizer.clone(),
        };
        self.publish(description.files(&index))?;
        let (name, plan) = (split.name(), &index.plan);
        if plan.samples == 0 {
            let text =
                format!("{prefix}: {name} has {}, too few for a sample of {length}", counted(plan.tokens, "token"));
            self.context.progress.event(&Event::Warning(&text));
        }
        let text = format!(
            "{name}: {prefix}: {} of {}, {} of {}",
            counted(plan.samples, "sample"),
            counted(u64::from(length), "token"),
            counted(plan.epochs, "epoch"),
            counted(plan.tokens, "token")
        );
        let value = json!({
            "split": name, "prefix": prefix, "samples": plan.samples, "epochs": plan.epochs, "tokens": plan.tokens,
        });
        Ok(Some((description, Made(text, value))))
    }

    /// Bins of whole documents.
    fn packed(&self, members: &[Member], capacity: u32) -> Result<Vec<Made>> {
        if members.iter().any(|member| member.weight.is_some()) {
            return Err(Error::config("--pack takes all documents of each dataset once; leave out the weights"));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = members.iter().find(|member| !names.insert(base(member))) {
            let message = format!("two datasets are called {}, and so would be their files", base(twice));
            return Err(Error::config(message).hint("pack each of them into an --out of its own"));
        }
        let pack = |member: &Member| {
            let lengths = lengths(self.context, &member.prefix)?;
            let index = PackIndex::build(&lengths, capacity)?;
            let shuffle = index.shuffle(self.args.seed)?;
            let base = base(member);
            let arrays = [("bin", &index.bin, 1), ("piece", &index.piece, 3), ("shuffle", &shuffle, 1)];
            let mut stage = self.staging.stage("")?;
            for (what, array, columns) in arrays {
                let name = format!("{base}-packed-{capacity}-{what}.npy");
                let mut out = BufWriter::with_capacity(1 << 20, stage.stream(&name)?);
                array.write_npy(columns, &mut out)?;
                out.flush().context("write")?;
            }
            stage.publish()?;
            let (bins, padding) = (index.bins(), index.padding());
            let share = padding as f64 / (bins * u64::from(capacity)).max(1) as f64;
            let text = format!(
                "{}: {} of {}, {:.3} % padding",
                member.prefix,
                counted(bins, "bin"),
                counted(u64::from(capacity), "token"),
                100.0 * share
            );
            Ok(Made(text, json!({"prefix": member.prefix, "bins": bins, "padding": padding})))
        };
        members.iter().map(pack).collect()
    }

    /// Publishes the description last: where it exists, all files exist.
    fn publish(&self, mut files: Vec<CacheFile<'_>>) -> Result<()> {
        files.rotate_left(1);
        let mut stage = self.staging.stage("")?;
        for file in files {
            let mut out = BufWriter::with_capacity(1 << 20, stage.stream(&file.name)?);
            file.write(&mut out)?;
            out.flush().context("write")?;
        }
        self.context.cancel.check()?;
        stage.publish().map(drop)
    }
}

/// The index of a pair.
fn index(context: &CommandContext<'_>, prefix: &str) -> Result<Box<dyn Input>> {
    context.store.open(Path::new(&format!("{prefix}.idx"))).map_err(as_request_error)
}

fn lengths(context: &CommandContext<'_>, prefix: &str) -> Result<Vec<i32>> {
    let input = index(context, prefix)?;
    packhorse_tokens::lengths(&*input).map_err(|e| if e.input().is_none() { e.in_input(input.name()) } else { e })
}

/// The datasets: `PREFIX…`, or `WEIGHT PREFIX…` as Megatron takes them; a sealed dataset is its shards, weighted
/// by their tokens where the blend is `weighted`.
fn members(context: &CommandContext<'_>, input: &[String], weighted: bool) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut words = input.iter();
    while let Some(word) = words.next() {
        let (weight, word) = match word.parse::<f64>() {
            Ok(weight) => (Some(weight), words.next().ok_or_else(|| Error::config("a weight without a dataset"))?),
            Err(_) => (None, word),
        };
        match sealed(context, Path::new(word))? {
            Some(shards) => {
                let total: f64 = shards.iter().map(|(_, tokens)| *tokens as f64).sum();
                let share = |tokens: u64| match weight {
                    Some(weight) => Some(weight * tokens as f64 / total),
                    None => weighted.then_some(tokens as f64),
                };
                members.extend(shards.into_iter().map(|(prefix, n)| Member { prefix, weight: share(n) }));
            }
            None => {
                let prefix = word.strip_suffix(".idx").or(word.strip_suffix(".bin")).unwrap_or(word);
                members.push(Member { prefix: prefix.to_owned(), weight });
            }
        }
    }
    let given = members.iter().filter(|member| member.weight.is_some()).count();
    match given == 0 || given == members.len() {
        true => Ok(members),
        false => Err(Error::config("some datasets have weights and some have none; give all of them one")),
    }
}

/// The shards of a sealed dataset that have tokens, without `.bin`, and how many tokens.
fn sealed(context: &CommandContext<'_>, dir: &Path) -> Result<Option<Vec<(String, u64)>>> {
    let Some(manifest) = sealed_manifest(&*context.store, dir)? else { return Ok(None) };
    if !manifest.splits.is_empty() {
        let message = "has splits of its own, which the order would mix; merge one of them \
            (packhorse merge DIR --split train --out train) and give that, with --split 1";
        return Err(Error::config(message).in_input(dir.display()));
    }
    let shard = |shard: &packhorse_dataset::ShardRecord| {
        let tokens = shard.counts.get("tokens").copied().unwrap_or_default();
        (dir.join(&shard.name).display().to_string(), tokens)
    };
    let shards: Vec<_> = manifest.shards.iter().map(shard).filter(|(_, tokens)| *tokens > 0).collect();
    match shards.is_empty() {
        true => Err(Error::config("holds no tokens, and orders are of tokens").in_input(dir.display())),
        false => Ok(Some(shards)),
    }
}
