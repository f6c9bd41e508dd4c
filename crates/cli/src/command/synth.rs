//! `packhorse synth`.

use super::CommandContext;
use crate::args::{Corpus, Synth};
use crate::outcome::counted;
use crate::size::show;
use packhorse_core::{Event, Observer, Result};
use packhorse_synth::{ImagesSpec, NpzSpec, Run, TextSpec, TinySpec, images, npz, text, tiny};
use serde_json::json;
use std::num::NonZeroUsize;
use std::process::ExitCode;

pub(super) fn run(context: &CommandContext<'_>, args: &Synth) -> Result<ExitCode> {
    let (Synth::Images(corpus) | Synth::Text(corpus) | Synth::Npz(corpus) | Synth::Tiny(corpus)) = args;
    let Corpus { count, seed, out, threads } = corpus;
    let (count, seed) = (*count, *seed);
    context.progress.counting("making");
    let progress = |_| context.progress.event(&Event::Scanned { files: 1 });
    let jobs = NonZeroUsize::new(threads.jobs()).unwrap_or(NonZeroUsize::MIN);
    let run = Run { jobs, cancel: &context.cancel, progress: &progress };
    let written = match args {
        Synth::Images(_) => images(out, &ImagesSpec { count, seed, ..Default::default() }, &run),
        Synth::Text(_) => text(out, &TextSpec { count, seed, ..Default::default() }, &run),
        Synth::Npz(_) => npz(out, &NpzSpec { count, seed }, &run),
        Synth::Tiny(_) => tiny(out, &TinySpec { count, seed, ..Default::default() }, &run),
    }?;
    context.progress.finish();
    let said = format!("made {} ({}) in {}\n", counted(written.files, "file"), show(written.bytes), out.display());
    let value = json!({"files": written.files, "bytes": written.bytes, "reused": written.reused});
    context.style.show(&value, &said)
}
