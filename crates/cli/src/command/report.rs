//! `packhorse report`: a page about a dataset.

use super::CommandContext;
use super::batch::{save, without_secrets};
use crate::args::Report;
use crate::outcome::{counted, path_text};
use packhorse_core::{Error, Result};
use packhorse_pack::sealed_manifest;
use packhorse_report::{DiagnosisResult, dataset_report};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(context: &CommandContext<'_>, args: &Report) -> Result<ExitCode> {
    let dataset = context.dataset(&args.dataset)?;
    let dir = Path::new(&args.dataset);
    // Third-party shards and views have no manifest of their own.
    let manifest = sealed_manifest(&*context.store, dir).ok().flatten();
    let folder = args.output.parent().unwrap_or(Path::new(""));
    context.refuse_inside(&args.dataset, folder)?;
    let sealed = manifest.as_ref().map(|manifest| (&*context.store, dir, manifest));
    let diagnosis = args.diagnosis.as_deref().map(diagnosis).transpose()?;
    let shown = without_secrets(&args.dataset);
    let report = dataset_report(&shown, &dataset, sealed, diagnosis.as_ref(), &context.cancel)?;
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create", e).in_input(folder.display()))?;
    save(&args.output, &report.html)?;
    context.progress.finish();
    let file = args.output.display();
    let mut text = format!("{file}: {} of {} looked at\n", report.looked_at, counted(dataset.len(), "sample"));
    for (count, what) in [
        (report.faulty, "can't be read"),
        (report.doubles, "groups of equal content"),
        (report.nearly_empty, "nearly empty"),
    ] {
        if count > 0 {
            text.push_str(&format!("  {what}: {count}\n"));
        }
    }
    let value = json!({
        "report": path_text(&args.output), "samples": dataset.len(), "looked_at": report.looked_at, "faulty": report.faulty,
        "doubles": report.doubles, "nearly_empty": report.nearly_empty,
    });
    context.style.show(&value, &text)
}

/// Reads the diagnosis in a file.
fn diagnosis(file: &Path) -> Result<DiagnosisResult> {
    let text =
        std::fs::read_to_string(file).map_err(|e| Error::io("read the diagnosis", e).in_input(file.display()))?;
    DiagnosisResult::from_json(&text).map_err(|e| e.in_input(file.display()))
}
