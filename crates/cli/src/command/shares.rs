//! The stages of reading as shares of the limits of the machine, measured in the same run.

use super::CommandContext;
use super::limits::{machine_limits, value};
use packhorse_core::Result;
use packhorse_machine::{LimitsOptions, MachineLimits, Quantity};
use packhorse_read::{FieldKind, FieldOptions, Measured};
use packhorse_storage::Location;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Bytes and seconds of a short measurement.
const SIZE: u64 = 64 << 20;
const SECONDS: f64 = 3.0;

/// The limits, and what the stages did.
pub(super) struct Shares {
    limits: MachineLimits,
    /// Those of storage, where the dataset is on the measured file system.
    storage: &'static [Quantity],
    /// That of decoding, or of copying where nothing is decoded.
    compute: Option<Quantity>,
    /// Stored bytes of a sample.
    sample_bytes: f64,
}

impl Shares {
    /// Measures the limits where `dataset` is, with as many threads as its `stages` had.
    pub(super) fn measure(
        context: &CommandContext<'_>,
        dataset: &str,
        threads: usize,
        fields: &[FieldOptions],
        stages: &[Measured],
    ) -> Result<Self> {
        let decode = stages.iter().find(|stage| stage.stage == "decode");
        let sample_bytes = decode.map_or(0.0, |stage| stage.bytes as f64 / stage.samples.max(1) as f64);
        let within = |dir: PathBuf| {
            let options = LimitsOptions { size: SIZE, seconds: SECONDS, threads, ..LimitsOptions::new(dir) };
            machine_limits(context, &options)
        };
        let (limits, storage): (_, &[Quantity]) = match folder(dataset).map(within) {
            Some(Ok(limits)) => (limits, &[Quantity::ReadWarm, Quantity::ReadCold]),
            Some(Err(error)) if !error.is_denied() => return Err(error),
            _ => (within(std::env::temp_dir())?, &[]),
        };
        let compute = compute(&limits, fields, sample_bytes);
        Ok(Self { limits, storage, compute, sample_bytes })
    }

    /// The share that a stage reached of each limit that bounds it.
    fn of(&self, stage: &Measured) -> Vec<(Quantity, f64)> {
        let (storage, compute) = match stage.stage {
            "raw" | "parse" => (self.storage, None),
            "decode" => (&[][..], self.compute),
            _ => (self.storage, self.compute),
        };
        let bytes = match stage.stage {
            // Its own bytes are those of slabs.
            "batch" => stage.samples as f64 * self.sample_bytes,
            _ => stage.bytes as f64,
        };
        let of = |quantity: Quantity| {
            let limit = self.limits.best(quantity)?.bytes_per_s();
            Some((quantity, bytes / stage.seconds.max(1e-9) / limit))
        };
        storage.iter().copied().chain(compute).filter_map(of).collect()
    }

    /// A line's end for people.
    pub(super) fn text(&self, stage: &Measured) -> String {
        let shares = self.of(stage).into_iter().map(|(quantity, share)| {
            let of = match quantity {
                Quantity::ReadWarm => "warm reads",
                Quantity::ReadCold => "cold reads",
                Quantity::Copy => "copies in memory",
                _ => "decoding such JPEGs",
            };
            format!("{:.1} % of {of}", 100.0 * share)
        });
        shares.collect::<Vec<_>>().join(", ")
    }

    /// The shares of a stage by name of the limit.
    pub(super) fn json(&self, stage: &Measured) -> Value {
        let shares = self.of(stage).into_iter().map(|(quantity, share)| (quantity.name().to_owned(), share.into()));
        Value::Object(shares.collect::<Map<_, _>>())
    }

    /// The limits themselves, as `bench limits` shows them.
    pub(super) fn limits(&self) -> Value {
        value(&self.limits)
    }
}

/// A folder on the file system of `dataset` but outside of it; `None` for a place that is not local.
fn folder(dataset: &str) -> Option<PathBuf> {
    let path = Path::new(dataset);
    if Location::url(path).is_some() {
        return None;
    }
    let real = path.canonicalize().unwrap_or_else(|_| Path::new(".").join(path));
    real.ancestors().skip(1).find(|dir| dir.is_dir()).map(Path::to_owned)
}

/// JPEGs of about this size, where all pictures are JPEGs; copying, where no pictures are decoded.
fn compute(limits: &MachineLimits, fields: &[FieldOptions], sample_bytes: f64) -> Option<Quantity> {
    let mut pictures = fields
        .iter()
        .filter(|field| matches!(field.kind, FieldKind::Picture(_) | FieldKind::Normalized(..)))
        .peekable();
    if pictures.peek().is_none() {
        return Some(Quantity::Copy);
    }
    let is_jpeg = |field: &FieldOptions| field.name.ends_with("jpg") || field.name.ends_with("jpeg");
    if !pictures.all(is_jpeg) {
        return None;
    }
    let distance = |quantity: &Quantity| {
        let bytes = limits.best(*quantity).map_or(1.0, |limit| limit.unit_bytes);
        (sample_bytes.max(1.0) / bytes.max(1.0)).ln().abs()
    };
    [Quantity::Jpeg224, Quantity::Jpeg500].into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_beside_the_dataset() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(folder(here.join("src").to_str().unwrap()), Some(here));
        assert_eq!(folder("nowhere/shard-{000..127}.tar"), Some(PathBuf::from(".")));
        assert_eq!(folder("s3://bucket/shards"), None);
    }
}
