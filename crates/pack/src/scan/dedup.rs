//! Skips samples with duplicate content. Reads whole inputs, unlike the rest of scan.

use super::{Listing, Scan};
use crate::block_buffer::BlockBuffer;
use crate::inputs::Inputs;
use crate::large_sample::{LargeField, SMALL};
use packhorse_core::{Error, Event, Input, Kind, Observer, Result, counted};
use packhorse_dataset::{PlanEntry, SkipRecord};
use rayon::prelude::*;
use std::collections::HashMap;

pub(super) fn apply(context: Scan<'_>, threads: usize, listing: &mut Listing) -> Result<()> {
    let failed = |e| Error::new(Kind::Environment, format!("can't start threads: {e}"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build().map_err(failed)?;
    let scratch = std::env::temp_dir();
    let inputs = context.inputs(listing.roots(), &scratch);
    let digest = |i: usize| -> Result<Option<[u8; 32]>> {
        context.cancel.check()?;
        // The bytes of a table tell nothing about single samples.
        let Some(sample) = listing.sample(i).filter(|sample| sample.table().is_none()) else { return Ok(None) };
        context.observer.event(&Event::Hashed { bytes: sample.bytes() });
        content(&inputs, &sample.entry(0..1)).map(Some)
    };
    let digests: Vec<Result<Option<[u8; 32]>>> =
        pool.install(|| (0..listing.samples()).into_par_iter().map(digest).collect());
    let mut first: HashMap<[u8; 32], usize> = HashMap::new();
    let (mut keep, mut faults, mut doubles) = (Vec::with_capacity(digests.len()), Vec::new(), Vec::new());
    for (i, digest) in digests.into_iter().enumerate() {
        keep.push(match digest {
            Ok(Some(digest)) => match *first.entry(digest).or_insert(i) {
                original if original == i => true,
                original => {
                    doubles.push((i, original));
                    false
                }
            },
            Ok(None) => true,
            Err(e) if matches!(e.kind(), packhorse_core::Kind::Content | packhorse_core::Kind::Limit) => {
                faults.push(e);
                false
            }
            Err(e) => return Err(e),
        });
    }
    warn_of_labels(listing, &doubles, context.observer);
    let records: Vec<SkipRecord> = doubles.iter().filter_map(|(i, original)| record(listing, *i, *original)).collect();
    records.into_iter().for_each(|record| listing.leave_out(record));
    faults.into_iter().for_each(|fault: Error| listing.add_fault(fault));
    listing.retain(&keep);
    Ok(())
}

/// Warns of samples that are left out although their class is another one than that of the sample that stays.
fn warn_of_labels(listing: &Listing, doubles: &[(usize, usize)], observer: &dyn Observer) {
    let label = |i: usize| listing.sample(i).and_then(|sample| sample.label());
    let mut others = doubles.iter().filter(|(i, original)| label(*i) != label(*original));
    let Some((i, original)) = others.next() else { return };
    let key = |i: usize| listing.sample(i).map(|sample| sample.key()).unwrap_or_default();
    let count = counted(1 + others.count() as u64, "sample");
    let (left, kept) = (key(*i), key(*original));
    let text = format!(
        "{count} left out as equal to another of another class, such as {left}, which is {kept}: look at the labels"
    );
    observer.event(&Event::Warning(&text));
}

fn record(listing: &Listing, i: usize, original: usize) -> Option<SkipRecord> {
    let reason = format!("has the same content as sample {}", listing.sample(original)?.key());
    Some(SkipRecord { input: None, sample: Some(listing.sample(i)?.key()), reason, samples: 1 })
}

/// Digest of a sample's fields: names, lengths and bytes.
fn content(inputs: &Inputs<'_>, entry: &PlanEntry) -> Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = BlockBuffer::default();
    for piece in &entry.fields {
        hasher.update(piece.field.as_bytes()).update(&[0]).update(&piece.len().to_le_bytes());
        if piece.len() <= SMALL {
            bytes.truncate(0);
            inputs.read(piece, &mut bytes).map_err(|e| e.in_sample(&entry.key))?;
            hasher.update(bytes.filled());
            continue;
        }
        let field = LargeField::open(inputs, piece, &entry.key).map_err(|e| e.in_sample(&entry.key))?;
        (&field as &dyn Input).each_piece(0..piece.len(), &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        field.check()?;
    }
    Ok(*hasher.finalize().as_bytes())
}
