//! `packhorse plan --feed`: what a job needs that takes so many samples per second from the planned dataset.

use super::CommandContext;
use super::bench::{chosen_fields, with_flag};
use crate::outcome::counted;
use crate::picture_args::view;
use crate::planning::{FeedFlags, PlanArgs};
use crate::size::show;
use packhorse_core::{Context, Error, Result};
use packhorse_dataset::Receipt;
use packhorse_machine::TestFolder;
use packhorse_pack::{Part, Plan, Recipe, Session};
use packhorse_read::{Dataset, Demand, FieldKind, Forecast, LoaderOptions, OpenOptions, SampleCost};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// How long the pilot shard is loaded.
const TIME: Duration = Duration::from_secs(3);
/// Samples a batch, at most.
const BATCH: u64 = 64;
/// Bytes of a shard from which on receipts and indexes do not count.
const SMALL: f64 = 100e6;

/// The forecast, as JSON and as text; `None` if none is asked for.
pub(super) fn forecast(
    context: &CommandContext<'_>,
    session: &Session,
    args: &PlanArgs,
    plan: &Plan,
) -> Result<Option<(Value, String)>> {
    let Some(demand) = args.feed.feed else { return Ok(None) };
    let cost = measure(context, session, args, plan)?;
    let found = Forecast::new(demand, cost, plan.samples(), args.feed.gpus_per_node);
    Ok(Some((value(&found, demand, cost), text(&found, demand, cost, plan, &args.feed))))
}

/// Packs the shard of middle size in the temporary folder, and loads it.
fn measure(context: &CommandContext<'_>, session: &Session, args: &PlanArgs, plan: &Plan) -> Result<SampleCost> {
    let (number, name) = pilot(plan).ok_or_else(|| Error::config("--feed: the plan has no samples"))?;
    let shards = plan.shards().len();
    let part = u32::try_from(number + 1).and_then(|n| Ok(Part::new(n, u32::try_from(shards)?)));
    let part = part.map_err(|_| Error::unsupported(format!("--feed of a plan of {shards} shards")))??;
    let folder = TestFolder::new(&std::env::temp_dir(), "packhorse-feed", plan.bytes() / shards.max(1) as u64)?;
    let recipe = Recipe { out: Some(folder.path().to_owned()), ..args.planning.recipe().clone() };
    session.store_plan(&recipe, plan)?;
    session.clone().on_error(recipe.on_error).fill(folder.path(), part)?;
    let receipt = folder.path().join(format!("{name}.receipt.json"));
    let receipt = Receipt::decode(&std::fs::read(receipt).context("read the receipt of the pilot shard")?)?;
    let shard = folder.path().join(&receipt.data()?.name);

    let dataset = Dataset::open(context.registry, Arc::clone(&context.store), &shard, &OpenOptions::default())?;
    let pictures = args.feed.size.map(|size| FieldKind::Picture(view(size, args.feed.augment)));
    let fields = chosen_fields(&dataset, pictures.as_ref(), &[])?;
    let threads = args.work.threads.jobs();
    let batch = dataset.len().clamp(1, BATCH) as u32;
    let options = LoaderOptions { threads, readers: 2, ahead: threads + 2, ..LoaderOptions::new(batch) };
    SampleCost::measure(&dataset, &fields, &options, TIME).map_err(with_flag)
}

/// Number and name of a shard with samples: the one in the middle, by their number.
fn pilot(plan: &Plan) -> Option<(usize, &str)> {
    let mut all: Vec<_> = plan.shards().enumerate().filter(|(_, (.., samples))| *samples != Some(0)).collect();
    all.sort_by_key(|(number, (.., samples))| (*samples, *number));
    all.get(all.len() / 2).map(|(number, (name, ..))| (*number, *name))
}

fn value(found: &Forecast, demand: Demand, cost: SampleCost) -> Value {
    json!({
        "gpus": demand.consumers, "samples_per_s_a_gpu": demand.rate, "samples_per_s": found.samples_per_s,
        "nodes": found.nodes, "epoch_seconds": found.epoch, "dataset_bytes": found.dataset,
        "processors_a_gpu": found.processors, "storage_bytes_per_s_a_gpu": found.storage,
        "batch_bytes_per_s_a_gpu": found.batches, "shards_at_least": found.shards,
        "of_a_sample": {
            "processor_seconds": cost.processor, "stored_bytes": cost.stored, "batch_bytes": cost.batch,
        },
    })
}

fn text(found: &Forecast, demand: Demand, cost: SampleCost, plan: &Plan, flags: &FeedFlags) -> String {
    let (gpus, nodes) = (f64::from(demand.consumers), f64::from(found.nodes));
    let rate = |bytes: f64| format!("{}/s", show(bytes as u64));
    let epoch = found.epoch.map_or_else(String::new, |seconds| format!(", an epoch in {seconds:.1} s"));
    // The last node may have fewer.
    let on_node = f64::from(flags.gpus_per_node.min(demand.consumers));
    let mut text = format!(
        "feed: {} samples/s to each of {} on {}{epoch}\n",
        demand.rate,
        counted(demand.consumers.into(), "GPU"),
        counted(found.nodes.into(), "node"),
    );
    let mut line = |name: &str, says: String| {
        let _ = writeln!(text, "  {name:<10} {says}");
    };
    line(
        "processors",
        format!(
            "{:.1} for a GPU, {:.0} for a node of {}: {:.3} ms a sample on this machine",
            found.processors,
            (found.processors * on_node).ceil(),
            counted(flags.gpus_per_node.min(demand.consumers).into(), "GPU"),
            1000.0 * cost.processor,
        ),
    );
    line(
        "storage",
        format!(
            "{} in all, {} a node: {} a sample, if no shard is kept on the nodes",
            rate(found.storage * gpus),
            rate(found.storage * on_node),
            show(cost.stored as u64),
        ),
    );
    line("to the GPU", format!("{}: {} a sample", rate(found.batches), show(cost.batch as u64)));
    if let Some(bytes) = found.dataset {
        let whole = format!("{} on each node for the whole dataset (stage, cache)", show(bytes as u64));
        let says = match found.nodes {
            1 => whole,
            _ => format!("{whole}; {} with a node-local shuffle", show((bytes / nodes) as u64)),
        };
        line("memory", says);
        line("shards", of_shards(plan.shards().len() as u64, found, bytes));
    }
    text
}

/// Whether the shards of the plan are enough, and how to get more.
fn of_shards(has: u64, found: &Forecast, bytes: f64) -> String {
    let (wanted, nodes) = (found.shards, counted(found.nodes.into(), "node"));
    let size = bytes / wanted as f64;
    if has >= wanted {
        return format!("{has}, enough to shuffle 16 together on {nodes}");
    }
    let says = format!("{has}; to shuffle 16 together on {nodes} takes {wanted}");
    match size < SMALL {
        true => format!("{says}, of less than {} each", show(SMALL as u64)),
        false => format!("{says}: --shard-size {:.0}MB", (size / 1e6).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_enough_or_few_or_would_be_small() {
        let cost = SampleCost { processor: 0.001, stored: 1e5, batch: 1e5 };
        let says = |has, samples| {
            let demand = Demand { consumers: 16, rate: 100.0 };
            let found = Forecast::new(demand, cost, Some(samples), 8);
            of_shards(has, &found, found.dataset.unwrap_or_default())
        };
        assert_eq!(says(32, 1000), "32, enough to shuffle 16 together on 2 nodes");
        assert_eq!(says(9, 1000), "9; to shuffle 16 together on 2 nodes takes 32, of less than 100.0 MB each");
        assert_eq!(says(9, 100_000), "9; to shuffle 16 together on 2 nodes takes 32: --shard-size 312MB");
    }
}
