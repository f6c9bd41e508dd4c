//! Versions of remote files: all responses for an open file must belong to one version.

use super::failure::Failure;
use httpdate::parse_http_date;
use packhorse_core::{FileKind, FileStat};
use reqwest::header::{ETAG, HeaderMap, HeaderName, LAST_MODIFIED};
use std::time::UNIX_EPOCH;

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Length in bytes.
    pub(crate) len: u64,
    pub(crate) marks: Marks,
}

/// The validators of a version besides its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl Marks {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self { etag: text(headers, &ETAG), modified: text(headers, &LAST_MODIFIED) }
    }

    /// Whether there is no validator.
    pub(crate) fn none(&self) -> bool {
        self.etag.is_none() && self.modified.is_none()
    }

    /// The ETag for `If-Match`, which compares strongly: a weak tag would never match.
    pub(crate) fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| etag.starts_with('"'))
    }
}

impl Version {
    /// Fails if a response belongs to another version. Missing headers count as equal.
    pub(crate) fn same(&self, len: Option<u64>, now: &Marks) -> Result<(), Failure> {
        let opaque = |etag: &str| etag.trim_start_matches("W/").to_owned();
        let tags = self.marks.etag.as_deref().map(opaque).zip(now.etag.as_deref().map(opaque));
        let same_tag = tags.as_ref().map(|(then, now)| then == now);
        if let Some(len) = len.filter(|len| *len != self.len) {
            let how = format!("it had {} bytes and now has {len}", self.len);
            // A real change changes the tag too: this response is broken.
            return Err(match same_tag == Some(true) || (now.none() && !self.marks.none()) {
                true => Failure::again(format!("the server contradicts itself: {how}, and is the same by its ETag")),
                false => Failure::changed(how),
            });
        }
        match tags {
            Some((then, now)) if then != now => {
                return Err(Failure::changed(format!("its ETag was {then} and now is {now}")));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        match (&self.marks.modified, &now.modified) {
            (Some(then), Some(now)) if then != now => {
                Err(Failure::changed(format!("it was of {then} and now is of {now}")))
            }
            _ => Ok(()),
        }
    }

    /// The stat of a file; its id is derived from `name` and the validators.
    pub(crate) fn stat(&self, name: &str) -> FileStat {
        let date = self.marks.modified.as_deref().and_then(|date| parse_http_date(date).ok());
        let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let state = format!("{:?} {:?}", self.marks.etag, self.marks.modified);
        let mtime = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        FileStat { kind: FileKind::File, size: self.len, mtime, ctime: 0, id: (digest(name), digest(&state)) }
    }
}

/// The stat of a folder.
pub(crate) fn folder(name: &str) -> FileStat {
    FileStat { kind: FileKind::Directory, size: 0, mtime: 0, ctime: 0, id: (digest(name), 0) }
}

/// A hash that is the same on all machines.
fn digest(text: &str) -> u64 {
    let mut bytes = [0; 8];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// A header's value, if present and text.
pub(crate) fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(etag: Option<&str>, modified: Option<&str>) -> Marks {
        Marks { etag: etag.map(Into::into), modified: modified.map(Into::into) }
    }

    #[test]
    fn changes_are_told_from_broken_responses() {
        let then = Version { len: 9, marks: marks(Some("\"a\""), Some("x")) };
        let outcome = |same: Result<(), Failure>| match same {
            Ok(()) => "same",
            Err(Failure::Again { .. }) => "broken",
            Err(Failure::Final(_)) => "changed",
        };
        for (len, now, wanted) in [
            (Some(9), marks(Some("\"a\""), Some("y")), "same"),
            (Some(9), marks(Some("W/\"a\""), None), "same"),
            (None, marks(None, None), "same"),
            (None, marks(None, Some("x")), "same"),
            (Some(8), marks(Some("\"a\""), Some("x")), "broken"),
            (Some(0), marks(None, None), "broken"),
            (Some(8), marks(Some("\"b\""), Some("x")), "changed"),
            (Some(8), marks(None, Some("y")), "changed"),
            (Some(9), marks(Some("\"b\""), Some("x")), "changed"),
            (Some(9), marks(None, Some("y")), "changed"),
        ] {
            assert_eq!(outcome(then.same(len, &now)), wanted, "{len:?} {now:?}");
        }
    }

    #[test]
    fn a_weak_tag_is_not_asked_for() {
        assert_eq!(marks(Some("\"a\""), None).strong(), Some("\"a\""));
        assert_eq!(marks(Some("W/\"a\""), None).strong(), None);
    }
}
