//! `packhorse completions` and `packhorse man`.

use super::CommandContext;
use crate::definition;
use crate::outcome::{path_text, print, success};
use packhorse_core::{Error, Result};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition(), "packhorse", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(success())
}

/// One page a command, `packhorse-pack.1` and so on.
pub(super) fn man(context: &CommandContext<'_>, out: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(out).map_err(|e| Error::io("create folder", e).in_input(out.display()))?;
    clap_mangen::generate_to(definition(), out).map_err(|e| Error::io("write man pages", e).in_input(out.display()))?;
    context.style.show(&json!({"folder": path_text(out)}), &format!("wrote man pages to {}\n", out.display()))
}
