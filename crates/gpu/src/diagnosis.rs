//! Diagnoses loops whose batches go to a GPU, and what decoding there would gain.

use crate::transforms::{Colors, Finished};
use crate::{Cuda, NvJpeg, Upload, decodable, decoded};
use packhorse_core::Result;
use packhorse_read::diagnose::{Alternative, Bottleneck, DiagnoseOptions, Diagnosis, TrainingStep, diagnose_with};
use packhorse_read::{Dataset, Device, FieldKind, FieldOptions, LoaderOptions};

/// The name of the remedy.
const NAME: &str = "gpu decoding";

/// Diagnoses a loop of batches with these fields and colours. `sent` are the fields that its loader sends, and what the GPU makes of
/// them; `make` makes a device of each upload and what it sends. Where nvJPEG is installed, what decoding on the GPU gains is measured too.
///
/// Errors: those of [`diagnose`](packhorse_read::diagnose::diagnose).
pub fn diagnose_on_gpu<D, S>(
    gpu: &Cuda,
    dataset: &Dataset,
    (fields, colors, sent): (&[FieldOptions], &[(String, Colors)], &Finished),
    options: &LoaderOptions,
    make: &dyn Fn(Upload<Cuda>, &Finished) -> D,
    step: &mut S,
    how: &DiagnoseOptions,
) -> Result<Diagnosis>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    let upload = |sent: &Finished| Ok(make(Upload::with_transforms(gpu.clone(), sent.1.clone())?, sent));
    let names = decodable(fields);
    let by_cpu = |name: &String| sent.0.iter().any(|field| field.name == *name && field.kind != FieldKind::Bytes);
    let names = if names.iter().any(by_cpu) { names } else { Vec::new() };
    let library = (!names.is_empty()).then(|| NvJpeg::load(None)).transpose();
    let decoding = library
        .and_then(|library| library.map(|library| decoded(gpu, &library, fields.to_vec(), &names, colors)).transpose());
    let mut device = || upload(sent);
    match decoding {
        Ok(Some(decoding)) => {
            let says = format!(
                "let the GPU decode {}, by nvJPEG: its pixels differ a little from those of the processors",
                names.join(", ")
            );
            let (fields, mut other) = (decoding.0.clone(), || upload(&decoding));
            let way = Alternative { name: NAME.to_owned(), says, fields, device: &mut other };
            diagnose_with(dataset, &sent.0, options, &mut device, &mut [way], step, how)
        }
        Ok(None) => diagnose_with(dataset, &sent.0, options, &mut device, &mut [], step, how),
        Err(error) => {
            let mut found = diagnose_with(dataset, &sent.0, options, &mut device, &mut [], step, how)?;
            if found.verdict.costs.iter().any(|cost| cost.stage == Bottleneck::Decode) {
                found.verdict.notes.push(format!("{NAME} was not tried: {error}"));
            }
            Ok(found)
        }
    }
}
