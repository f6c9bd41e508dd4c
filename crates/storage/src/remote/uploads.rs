//! Writing objects: the requests, their retries and what counts as done.
//!
//! Every request may be repeated: a part replaces the part of its number, an object the object of its name. An answer
//! can get lost, so a completion that failed counts if the object is there with the ETag that these parts make.

use super::bucket::{Bucket, Part, Provider};
use super::failure::Failure;
use super::object::{Backend, RemoteObject};
use super::reply::{Reply, said};
use super::version::text;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest, Md5};
use packhorse_core::{Code, Error, Kind, Result};
use reqwest::header::{ETAG, HeaderValue};
use reqwest::{Request, StatusCode};
use serde::Deserialize;
use std::io;
use std::time::Duration;

/// The slowest connection that parts are sent over, all together, in bytes per second.
const SLOWEST: u64 = 256 << 10;

/// More time for a completion: the server joins all parts before it answers.
const COMPLETING: Duration = Duration::from_secs(240);

/// The longest wait for the answer when an upload is aborted: the process may be about to end.
const ABORTING: Duration = Duration::from_secs(5);

/// Refusals of `400` that a repetition mends.
const BROKEN: [&str; 6] =
    ["BadDigest", "IncompleteBody", "RequestTimeout", "XAmzContentSHA256Mismatch", "InvalidDigest", "Md5Mismatch"];

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UploadPage {
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    next_key_marker: String,
    #[serde(default)]
    next_upload_id_marker: String,
    #[serde(default)]
    upload: Vec<Unfinished>,
}

/// An unfinished upload.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Unfinished {
    key: String,
    upload_id: String,
}

impl RemoteObject {
    fn bucket(&self) -> Result<&Bucket> {
        match &*self.backend {
            Backend::Bucket(bucket) => Ok(bucket),
            Backend::Web(_) => {
                Err(Error::unsupported("is on a web server, which can only be read").in_input(self.name()))
            }
        }
    }

    /// Stores the object whole.
    pub(crate) async fn put(&self, bytes: &Bytes) -> Result<()> {
        let bucket = self.bucket()?;
        self.exchange(self.time_for(bytes.len()), || bucket.put(&self.key, bytes)).await.map(drop)
    }

    fn time_for(&self, bytes: usize) -> Duration {
        time_for(bytes, self.options.parts_at_once)
    }

    /// Begins an upload in parts, and returns its id.
    pub(crate) async fn begin(&self) -> Result<String> {
        let bucket = self.bucket()?;
        if !bucket.has_uploads() {
            return Ok(String::new());
        }
        let (_, body) = self.exchange(Duration::ZERO, || bucket.begin(&self.key)).await?;
        let begun: Begun = parsed(&body).map_err(|e| e.in_input(self.name()))?;
        Ok(begun.upload_id)
    }

    /// Sends part `number` (from 0).
    pub(crate) async fn part(&self, upload: &str, number: usize, bytes: &Bytes) -> Result<Part> {
        let bucket = self.bucket()?;
        let more = self.time_for(bytes.len());
        let (reply, _) = self.exchange(more, || bucket.part(&self.key, upload, number, bytes)).await?;
        let taken = bucket.taken(number, bytes, text(&reply.headers, &ETAG));
        taken.ok_or_else(|| unclear("took a part and gave no ETag").in_input(self.name()))
    }

    /// Makes the object of these parts, in order.
    pub(crate) async fn complete(&self, upload: &str, parts: &[Part]) -> Result<()> {
        let bucket = self.bucket()?;
        let Err(error) = self.exchange(COMPLETING, || bucket.complete(&self.key, upload, parts)).await else {
            return Ok(());
        };
        match self.exchange(Duration::ZERO, || bucket.request(&self.key, true, None, None)).await {
            Ok((head, _)) if bucket.made_of(&head, parts) => Ok(()),
            _ => Err(error),
        }
    }

    /// Aborts an upload and drops its parts. One try: `packhorse clean` finds the others.
    pub(crate) async fn abort(&self, upload: &str) -> Result<(), Failure> {
        let bucket = self.bucket()?;
        if !bucket.has_uploads() {
            return Ok(());
        }
        let sent = async {
            let answer = self.wire.send(bucket.abort(&self.key, upload).await?).await?;
            match answer.reply.status {
                status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
                status => Err(Failure::again(format!("the server answered {status}"))),
            }
        };
        let late = |_| Failure::again("the server is too slow");
        tokio::time::timeout(ABORTING, sent).await.map_err(late)?
    }

    /// Deletes the object; a missing one is not an error.
    pub(crate) async fn delete(&self) -> Result<()> {
        let bucket = self.bucket()?;
        match self.exchange(Duration::ZERO, || bucket.delete(&self.key)).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Aborts the unfinished uploads below this folder; returns how many. Azure lists none, and drops their blocks itself.
    pub(crate) async fn abort_all(&self) -> Result<u64> {
        let bucket = self.bucket()?;
        if !bucket.has_uploads() {
            return Ok(0);
        }
        let prefix = if self.key.is_empty() { String::new() } else { format!("{}/", self.key) };
        let (mut from, mut aborted) = (None, 0);
        loop {
            let listed = self.exchange(Duration::ZERO, || bucket.uploads(&prefix, from.as_ref())).await;
            let (_, body) = listed.map_err(|e| {
                e.hint("unfinished uploads can be dropped by a rule of the bucket too (AbortIncompleteMultipartUpload)")
            })?;
            let page: UploadPage = parsed(&body).map_err(|e| e.in_input(self.name()))?;
            for found in page.upload.iter().filter(|found| found.key.starts_with(&prefix)) {
                let object = Self { key: found.key.clone(), ..self.clone() };
                object
                    .exchange(Duration::ZERO, || bucket.abort(&found.key, &found.upload_id))
                    .await
                    .or_else(unless_gone)?;
                aborted += 1;
            }
            let next = Some((page.next_key_marker, page.next_upload_id_marker));
            if !page.is_truncated || next == from {
                return Ok(aborted);
            }
            from = next;
        }
    }

    /// Sends a request until it is answered with success: the answer and its body. It has `more` time than others, for each try
    /// and for all.
    async fn exchange<F>(&self, more: Duration, request: impl Fn() -> F) -> Result<(Reply, String)>
    where
        F: Future<Output = Result<Request, Failure>>,
    {
        self.retried(more, async || {
            let mut answer = self.wire.send_within(request().await?, more).await?;
            let body = answer.whole().await?;
            done(answer.reply, body, self.provider())
        })
        .await
    }
}

/// Passes an answer of success. A completion can also fail after its status was sent.
fn done(reply: Reply, body: String, provider: Option<&Provider>) -> Result<(Reply, String), Failure> {
    let why = said(&body);
    let failed_late = body.trim_start().trim_start_matches("<?xml").contains("<Error>");
    if reply.status.is_success() && !failed_late {
        return Ok((reply, body));
    }
    if let Some(failure) = reply.skewed(&why) {
        return Err(failure);
    }
    let starts = |codes: &[&str]| codes.iter().any(|code| why.starts_with(code));
    Err(match reply.status {
        _ if starts(&["NoSuchUpload"]) => Failure::Final(
            unclear("was being uploaded, and another process aborted that (packhorse clean and seal do that)")
                .caused_by(io::Error::from_raw_os_error(libc::ECANCELED)),
        ),
        _ if starts(&["InvalidBlockList"]) => Failure::Final(
            unclear("was being uploaded, and another process wrote other bytes under this name")
                .caused_by(io::Error::from_raw_os_error(libc::ECANCELED)),
        ),
        _ if starts(&["NoSuchBucket", "ContainerNotFound"]) => {
            let what = provider.map_or("bucket", |provider| provider.bucket);
            Failure::missing(&format!("the server has no such {what}"))
        }
        StatusCode::BAD_REQUEST | StatusCode::CONFLICT if reply.status == StatusCode::CONFLICT || starts(&BROKEN) => {
            Failure::again(format!("the server answered {}: {why}", reply.status))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::denied(format!(
            "may not be written ({}{}{why}); check {}, and that they may write here",
            reply.status,
            if why.is_empty() { "" } else { ": " },
            provider.map_or("the credentials", |provider| provider.credentials),
        )),
        status if status.is_success() => Failure::again(format!("the server answered with an error: {why}")),
        _ => reply.refusal(&why, None, provider),
    })
}

fn unclear(how: &str) -> Error {
    Error::new(Kind::Environment, how).with_code(Code::RemoteFailed)
}

fn unless_gone(error: Error) -> Result<(Reply, String)> {
    match error.errno() {
        Some(libc::ECANCELED) => {
            Ok((Reply { status: StatusCode::NO_CONTENT, headers: Default::default() }, String::new()))
        }
        _ => Err(error),
    }
}

/// The time to send `bytes` over a slow connection that `parts` parts share.
fn time_for(bytes: usize, parts: usize) -> Duration {
    Duration::from_secs(bytes.saturating_mul(parts.max(1)) as u64 / SLOWEST)
}

fn parsed<T: for<'a> Deserialize<'a>>(body: &str) -> Result<T> {
    quick_xml::de::from_str(body).map_err(|e| unclear("gave an answer that can't be read").caused_by(e))
}

/// The header with the MD5 of a body, for services that check it.
pub(super) fn md5(body: &[u8]) -> HeaderValue {
    let digest = STANDARD.encode(Md5::digest(body));
    // Letters and digits are always valid.
    HeaderValue::from_str(&digest).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_a_slow_connection() {
        // Eight parts of 8 MiB at 256 KiB/s.
        assert_eq!(time_for(8 << 20, 8), Duration::from_secs(256));
        assert_eq!((time_for(8 << 20, 0), time_for(100, 8)), (Duration::from_secs(32), Duration::ZERO));
    }

    #[test]
    fn an_error_after_a_good_status_is_a_failure() {
        let answer = |status: u16, body: &str| {
            let reply = Reply { status: StatusCode::from_u16(status).unwrap(), headers: Default::default() };
            done(reply, body.to_owned(), None)
        };
        assert!(answer(200, "<CompleteMultipartUploadResult/>").is_ok());
        let late = "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>try again</Message></Error>";
        for (status, body) in [(200, late), (409, ""), (503, ""), (400, "<Error><Code>RequestTimeout</Code></Error>")] {
            assert!(matches!(answer(status, body), Err(Failure::Again { .. })), "{status} {body}");
        }
        let refused = |status, body| match answer(status, body) {
            Err(Failure::Final(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(404, "<Error><Code>NoSuchUpload</Code></Error>").errno(), Some(libc::ECANCELED));
        assert_eq!(refused(400, "<Error><Code>InvalidBlockList</Code></Error>").errno(), Some(libc::ECANCELED));
        assert!(refused(404, "<Error><Code>NoSuchBucket</Code></Error>").is_not_found());
        assert!(refused(404, "<Error><Code>ContainerNotFound</Code></Error>").is_not_found());
        assert!(refused(403, "<Error><Code>AccessDenied</Code></Error>").is_denied());
    }
}
