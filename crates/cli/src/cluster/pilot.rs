//! A pilot: one shard packed here, to know time and memory of the others.

use crate::exit;
use packhorse_core::{Error, Kind, Result};
use packhorse_pack::MissingShard;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A shard that was packed, and what that took.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pilot {
    pub(crate) shard: String,
    /// Bytes of input.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// The most memory that the process had, in bytes, where the system says.
    pub(crate) memory: Option<u64>,
}

impl Pilot {
    /// Packs the largest of the `missing` shards, of so many in the plan in `out`, by a process of its own. Its progress
    /// and its errors go to standard error.
    pub(crate) fn pack(
        program: &str,
        out: &Path,
        missing: &[&MissingShard],
        shards: u64,
        flags: &[String],
    ) -> Result<Option<Self>> {
        let Some(shard) = missing.iter().max_by_key(|shard| shard.bytes) else { return Ok(None) };
        let mut command = Command::new(program);
        command.args(["pack", "--json", "--plan"]).arg(out);
        command.args(["--part", &format!("{}/{shards}", shard.number + 1)]).args(flags);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| Error::io(&format!("start {program}"), e))?;
        if !output.status.success() {
            let kind = output.status.code().and_then(exit::kind).unwrap_or(Kind::Environment);
            return Err(Error::new(kind, format!("the pilot shard {} could not be packed", shard.name)));
        }
        let said: Value = serde_json::from_slice(&output.stdout).map_err(|e| Error::bug(e.to_string()))?;
        let seconds = said.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
        let memory = said.get("peak_memory").and_then(Value::as_u64);
        Ok(Some(Self { shard: shard.name.clone(), bytes: shard.bytes, seconds, memory }))
    }
}
