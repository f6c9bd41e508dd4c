//! One remote file, and the requests for it.

use super::bucket::{Bucket, Provider};
use super::budget::Budget;
use super::failure::Failure;
use super::reply::said;
use super::version::Version;
use super::wire::{Answer, Wire};
use crate::RemoteOptions;
use crate::location::Site;
use packhorse_core::{FileStat, Result};
use reqwest::{Method, Request, StatusCode};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout_at};

/// A bucket or a web server.
pub(crate) enum Backend {
    Bucket(Bucket),
    Web(Site),
}

/// A file of a backend, which may or may not exist.
#[derive(Clone)]
pub(crate) struct RemoteObject {
    pub(crate) backend: Arc<Backend>,
    pub(crate) key: String,
    pub(crate) wire: Wire,
    pub(crate) options: RemoteOptions,
}

/// The result of a query.
pub(crate) enum QueryResult {
    File(Version),
    /// A web server redirected to the same name with a slash, or Azure said so.
    Folder,
}

impl Backend {
    /// A key's name in errors, without secrets.
    pub(crate) fn name(&self, key: &str) -> String {
        match self {
            Backend::Bucket(bucket) => bucket.name(key),
            Backend::Web(site) => format!("{}/{}", site.shown(), crate::location::encoded(key)),
        }
    }
}

impl RemoteObject {
    pub(crate) fn name(&self) -> String {
        self.backend.name(&self.key)
    }

    /// Whether a `Content-Encoding` describes the stored file itself: always in a bucket, on the web if the extension
    /// says so.
    pub(crate) fn stored_compressed(&self) -> bool {
        let compressed = ["gz", "tgz", "bz2", "xz", "zst", "br"];
        let extension = self.key.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        self.provider().is_some() || extension.is_some_and(|extension| compressed.contains(&extension.as_str()))
    }

    /// The service, for an object in a bucket.
    pub(crate) fn provider(&self) -> Option<&'static Provider> {
        match &*self.backend {
            Backend::Bucket(bucket) => Some(bucket.provider),
            Backend::Web(_) => None,
        }
    }

    async fn request(&self, head: bool, range: Option<Range<u64>>, if_match: Option<&str>) -> Result<Request, Failure> {
        let site = match &*self.backend {
            Backend::Bucket(bucket) => return bucket.request(&self.key, head, range, if_match).await,
            Backend::Web(site) => site,
        };
        let method = if head { Method::HEAD } else { Method::GET };
        let mut request = self.wire.client().request(method, site.url(&self.key));
        if let Some(range) = range {
            request = request.header("range", format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        }
        if let Some(etag) = if_match {
            request = request.header("if-match", etag);
        }
        request.build().map_err(|_| packhorse_core::Error::config("is not a valid URL").into())
    }

    /// Requests a range of a version of the file.
    pub(crate) async fn get(&self, range: Range<u64>, version: &Version) -> Result<Answer, Failure> {
        let request = self.request(false, Some(range), version.marks.strong()).await?;
        let answer = self.wire.send(request).await?;
        self.accepted(answer, Some(version)).await
    }

    /// Queries the file, with a retry budget of its own.
    pub(crate) async fn look(&self) -> Result<QueryResult> {
        self.retried(Duration::ZERO, || self.look_once()).await
    }

    /// Repeats `attempt` until it succeeds or a retry budget of its own, with `more` time than others, is used up.
    pub(crate) async fn retried<T, F>(&self, more: Duration, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut budget = Budget::new(&self.options, &self.wire.outage, self.name()).longer(more);
        loop {
            let failure = match timeout_at(budget.deadline(), attempt()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(budget.out_of_time("the server is too slow")),
            };
            let wait = budget.after(failure, 0)?;
            sleep(wait).await;
        }
    }

    /// The same in one try.
    pub(crate) async fn look_once(&self) -> Result<QueryResult, Failure> {
        let answer = self.wire.send(self.request(true, None, None).await?).await?;
        if answer.folder && answer.reply.status.is_success() {
            return Ok(QueryResult::Folder);
        }
        // URLs may be signed for GET only, and a refused HEAD has no body that says why.
        let answered = answer.reply.version_of_head();
        match answer.reply.status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(answer.reply.refusal("", None, self.provider())),
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                Err(answer.reply.refusal("", None, self.provider()))
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Err(answer.reply.refusal("", None, self.provider()))
            }
            _ => match answered {
                // A folder of a container whose names are a tree.
                Some(_) if answer.reply.headers.get("x-ms-resource-type").is_some_and(|kind| kind == "directory") => {
                    Ok(QueryResult::Folder)
                }
                // Handlers that know only GET answer HEAD without a body, and with its length.
                Some(Version { len: 0, .. }) if matches!(*self.backend, Backend::Web(_)) => self.look_at_first().await,
                Some(version) => {
                    answer.reply.plain(self.stored_compressed())?;
                    believed(version)
                }
                None => self.look_at_first().await,
            },
        }
    }

    /// Queries the file by requesting its first byte.
    async fn look_at_first(&self) -> Result<QueryResult, Failure> {
        let request = self.request(false, Some(0..1), None).await?;
        let answer = self.wire.send(request).await?;
        if let Some(version) = answer.reply.version_of_first() {
            answer.reply.plain(self.stored_compressed())?;
            // With this status the server says that the file is empty.
            return match answer.reply.status {
                StatusCode::RANGE_NOT_SATISFIABLE => Ok(QueryResult::File(version)),
                _ => believed(version),
            };
        }
        if answer.reply.status == StatusCode::RANGE_NOT_SATISFIABLE {
            // Amazon's answer to a range of an empty object does not say that it is empty.
            let whole = self.wire.send(self.request(false, None, None).await?).await?;
            if let Some(version) = whole.reply.version_of_first().filter(|version| version.len == 0) {
                return Ok(QueryResult::File(version));
            }
        }
        let answer = self.accepted(answer, None).await?;
        match answer.reply.status {
            StatusCode::OK => Err(packhorse_core::Error::unsupported(
                "comes from a server that does not give its length; download it first",
            )
            .into()),
            status => Err(Failure::again(format!("the server answered {status} without a length"))),
        }
    }

    /// Passes a response with bytes of the file; turns others into failures.
    async fn accepted(&self, mut answer: Answer, version: Option<&Version>) -> Result<Answer, Failure> {
        if matches!(answer.reply.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
            answer.reply.plain(self.stored_compressed())?;
            return Ok(answer);
        }
        let words = said(&answer.words().await);
        Err(answer.reply.refusal(&words, version, self.provider()))
    }

    /// The file's current stat.
    pub(crate) async fn stat(&self) -> Result<FileStat> {
        match self.look().await? {
            QueryResult::File(version) => Ok(version.stat(&self.name())),
            QueryResult::Folder => Ok(super::version::folder(&self.name())),
        }
    }
}

/// Retries on an empty file without ETag and date: more often that is a broken response.
fn believed(version: Version) -> Result<QueryResult, Failure> {
    match version.len == 0 && version.marks.none() {
        true => Err(Failure::again("the server gave an empty answer with neither ETag nor date")),
        false => Ok(QueryResult::File(version)),
    }
}
