//! Writing objects: the requests, their retries and what counts as done.
//!
//! Every request may be repeated: a part replaces the part of its number, an object the object of its name. An answer
//! can get lost, so a completion that failed counts if the object is there with the ETag that these parts make.

use super::budget::Budget;
use super::failure::Failure;
use super::object::{Backend, QueryResult, RemoteObject};
use super::reply::{Reply, said};
use super::s3::S3;
use super::version::text;
use bytes::Bytes;
use md5::{Digest, Md5};
use packhorse_core::{Code, Error, Kind, Result};
use reqwest::header::ETAG;
use reqwest::{Request, StatusCode};
use serde::Deserialize;
use std::io;
use std::time::Duration;
use tokio::time::{sleep, timeout_at};

/// The slowest connection that a part is sent over, in bytes per second.
const SLOWEST: u64 = 64 << 10;

/// S3 puts large objects together before it answers.
const COMPLETING: Duration = Duration::from_secs(240);

/// The longest wait for the answer when an upload is aborted: the process may be about to end.
const ABORTING: Duration = Duration::from_secs(5);

/// Refusals of `400` that a repetition mends.
const BROKEN: [&str; 5] =
    ["BadDigest", "IncompleteBody", "RequestTimeout", "XAmzContentSHA256Mismatch", "InvalidDigest"];

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
    fn s3(&self) -> Result<&S3> {
        match &*self.backend {
            Backend::S3(s3) => Ok(s3),
            Backend::Web(_) => {
                Err(Error::unsupported("is on a web server, which can only be read").in_input(self.name()))
            }
        }
    }

    /// Stores the object whole.
    pub(crate) async fn put(&self, bytes: &Bytes) -> Result<()> {
        let s3 = self.s3()?;
        self.exchange(time_for(bytes.len()), || s3.put(&self.key, bytes)).await.map(drop)
    }

    /// Begins an upload in parts, and returns its id.
    pub(crate) async fn begin(&self) -> Result<String> {
        let s3 = self.s3()?;
        let (_, body) = self.exchange(Duration::ZERO, || s3.begin(&self.key)).await?;
        let begun: Begun = parsed(&body).map_err(|e| e.in_input(self.name()))?;
        Ok(begun.upload_id)
    }

    /// Sends part `number` (from 0), and returns its ETag.
    pub(crate) async fn part(&self, upload: &str, number: usize, bytes: &Bytes) -> Result<String> {
        let s3 = self.s3()?;
        let (reply, _) = self.exchange(time_for(bytes.len()), || s3.part(&self.key, upload, number, bytes)).await?;
        text(&reply.headers, &ETAG).ok_or_else(|| unclear("took a part and gave no ETag").in_input(self.name()))
    }

    /// Makes the object of the parts with these ETags, in order.
    pub(crate) async fn complete(&self, upload: &str, etags: &[String]) -> Result<()> {
        let s3 = self.s3()?;
        let Err(error) = self.exchange(COMPLETING, || s3.complete(&self.key, upload, etags)).await else {
            return Ok(());
        };
        match (self.look().await, etag_of(etags)) {
            (Ok(QueryResult::File(version)), Some(etag)) if version.marks.etag.as_ref() == Some(&etag) => Ok(()),
            _ => Err(error),
        }
    }

    /// Aborts an upload and drops its parts. One try: `packhorse clean` finds the others.
    pub(crate) async fn abort(&self, upload: &str) -> Result<(), Failure> {
        let s3 = self.s3()?;
        let sent = async {
            let answer = self.wire.send(s3.abort(&self.key, upload).await?).await?;
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
        let s3 = self.s3()?;
        match self.exchange(Duration::ZERO, || s3.delete(&self.key)).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Aborts the unfinished uploads below this folder; returns how many.
    pub(crate) async fn abort_all(&self) -> Result<u64> {
        let s3 = self.s3()?;
        let prefix = if self.key.is_empty() { String::new() } else { format!("{}/", self.key) };
        let (mut from, mut aborted) = (None, 0);
        loop {
            let (_, body) = self.exchange(Duration::ZERO, || s3.uploads(&prefix, from.as_ref())).await?;
            let page: UploadPage = parsed(&body).map_err(|e| e.in_input(self.name()))?;
            for found in page.upload.iter().filter(|found| found.key.starts_with(&prefix)) {
                let object = Self { key: found.key.clone(), ..self.clone() };
                object
                    .exchange(Duration::ZERO, || s3.abort(&found.key, &found.upload_id))
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

    /// Sends a request until it is answered with success: the answer and its body. The server gets `more` time for it
    /// than for others.
    async fn exchange<F>(&self, more: Duration, request: impl Fn() -> F) -> Result<(Reply, String)>
    where
        F: Future<Output = Result<Request, Failure>>,
    {
        let mut budget = Budget::new(&self.options);
        loop {
            let tried = async {
                let mut answer = self.wire.send_within(request().await?, more).await?;
                let body = answer.whole().await?;
                done(answer.reply, body)
            };
            let failure = match timeout_at(budget.deadline(), tried).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(budget.out_of_time("the server is too slow").in_input(self.name())),
            };
            let wait = budget.after(failure, 0).map_err(|error| error.in_input(self.name()))?;
            sleep(wait).await;
        }
    }
}

/// Passes an answer of success. A completion can also fail after its status was sent.
fn done(reply: Reply, body: String) -> Result<(Reply, String), Failure> {
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
        _ if starts(&["NoSuchBucket"]) => Failure::missing("the server has no such bucket"),
        StatusCode::BAD_REQUEST | StatusCode::CONFLICT if reply.status == StatusCode::CONFLICT || starts(&BROKEN) => {
            Failure::again(format!("the server answered {}: {why}", reply.status))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::denied(format!(
            "may not be written ({}{}{why}); check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and that they may write here",
            reply.status,
            if why.is_empty() { "" } else { ": " }
        )),
        status if status.is_success() => Failure::again(format!("the server answered with an error: {why}")),
        _ => reply.refusal(&why, None, true),
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

/// The time to send so many bytes over a slow connection.
fn time_for(bytes: usize) -> Duration {
    Duration::from_secs(bytes as u64 / SLOWEST)
}

fn parsed<T: for<'a> Deserialize<'a>>(body: &str) -> Result<T> {
    quick_xml::de::from_str(body).map_err(|e| unclear("gave an answer that can't be read").caused_by(e))
}

/// The ETag of an object made of parts with these ETags: the MD5 of theirs. `None` where theirs are of
/// another kind, as with encryption by keys of the customer.
fn etag_of(etags: &[String]) -> Option<String> {
    let mut all = Md5::new();
    for etag in etags {
        let digits = etag.strip_prefix('"')?.strip_suffix('"')?;
        let whole = digits.len() == 32 && digits.is_ascii();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..32).step_by(2).map(byte).collect();
        all.update(bytes.filter(|_| whole)?);
    }
    let digits: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("\"{digits}-{}\"", etags.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_etag_of_parts_is_that_of_s3() {
        let part = |bytes: &[u8]| {
            let digits: String = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\"{digits}\"")
        };
        // An object of two parts, 5 MiB of zeros and 1 byte, as Amazon answers for it.
        let etags = [part(&vec![0; 5 << 20]), part(b"0")];
        let digests: Vec<u8> = [Md5::digest(vec![0u8; 5 << 20]), Md5::digest(b"0")].concat();
        let wanted: String = Md5::digest(digests).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(etag_of(&etags), Some(format!("\"{wanted}-2\"")));
        assert_eq!(etag_of(&["\"not a digest\"".to_owned()]), None);
        assert_eq!(etag_of(&["unquoted".to_owned()]), None);
    }

    #[test]
    fn an_error_after_a_good_status_is_a_failure() {
        let answer = |status: u16, body: &str| {
            let reply = Reply { status: StatusCode::from_u16(status).unwrap(), headers: Default::default() };
            done(reply, body.to_owned())
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
        assert!(refused(404, "<Error><Code>NoSuchBucket</Code></Error>").is_not_found());
        assert!(refused(403, "<Error><Code>AccessDenied</Code></Error>").is_denied());
    }
}
