//! JSON documents whose last member, `blake3`, is the digest of all bytes before the line that holds it.

use crate::Digest;
use packhorse_core::{Error, Result};
use serde::Serialize;

/// The bytes of `document`, an object with at least one member, with its digest. `what` names it in errors.
pub(crate) fn with_own_digest(document: &impl Serialize, what: &str) -> Result<Vec<u8>> {
    let bug = |e| Error::bug(format!("can't encode {what}: {e}"));
    let mut text = serde_json::to_string_pretty(document).map_err(bug)?;
    text.truncate(text.trim_end_matches(['}', '\n']).len());
    text.push_str(",\n");
    let digest = Digest::of(text.as_bytes());
    text.push_str(&format!("  \"blake3\": \"{digest}\"\n}}\n"));
    Ok(text.into_bytes())
}

/// Whether the digest at the end of a document is that of its bytes.
pub(crate) fn own_digest_holds(bytes: &[u8]) -> bool {
    let Some(body) = bytes.strip_suffix(b"\"\n}\n") else { return false };
    let Some((before, hex)) = body.len().checked_sub(64).and_then(|at| body.split_at_checked(at)) else { return false };
    let Some(before) = before.strip_suffix(b"  \"blake3\": \"") else { return false };
    hex == Digest::of(before).to_string().as_bytes()
}
