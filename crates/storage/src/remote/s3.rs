//! S3 buckets: signing requests and listing objects.

use super::failure::Failure;
use super::profile;
use super::reply;
use super::service::{Connector, Noted, Signed, plain, words};
use super::wire::Wire;
use crate::RemoteOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{BackoffConfig, GetOptions, GetRange, ObjectStore, RetryConfig};
use packhorse_core::{Error, Result};
use reqwest::Request;
use std::ops::Range;
use std::time::Duration;

/// A bucket.
pub(crate) struct S3 {
    bucket: String,
    store: AmazonS3,
}

/// A page of a listing: names in a folder, and the token of the next page.
pub(crate) struct ListPage {
    pub(crate) names: Vec<String>,
    pub(crate) next: Option<String>,
}

impl S3 {
    /// A bucket configured by the environment and `options`.
    pub(crate) fn new(bucket: &str, wire: &Wire, options: &RemoteOptions) -> Result<Self> {
        let mut builder = AmazonS3Builder::from_env();
        let variable = |name: &str| options.s3.get(name).cloned().or_else(|| std::env::var(name).ok());
        let profile = profile::settings(variable, |path| std::fs::read_to_string(path).ok());
        let given = options.s3.iter().map(|(name, value)| (name.as_str(), value.clone()));
        for (name, value) in profile.into_iter().chain(given) {
            let key: AmazonS3ConfigKey = name.to_ascii_lowercase().parse().map_err(|_| {
                Error::config(format!("{name} is not an S3 setting; use the names of the environment variables"))
            })?;
            builder = builder.with_config(key, value);
        }
        // Retries for credentials only; requests are retried by `Budget`.
        let backoff = BackoffConfig { init_backoff: options.first_wait, ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: 1, retry_timeout: Duration::from_secs(10) };
        let builder = builder.with_bucket_name(bucket).with_http_connector(Connector(wire.clone())).with_retry(retry);
        let store = builder.build().map_err(|e| Error::config(format!("invalid S3 settings: {}", words(&e))))?;
        Ok(Self { bucket: bucket.to_owned(), store })
    }

    /// A key's name in errors.
    pub(crate) fn name(&self, key: &str) -> String {
        if key.is_empty() { format!("s3://{}", self.bucket) } else { format!("s3://{}/{key}", self.bucket) }
    }

    /// A freshly signed request for an object.
    pub(crate) async fn request(
        &self,
        key: &str,
        head: bool,
        range: Option<Range<u64>>,
        if_match: Option<&str>,
    ) -> Result<Request, Failure> {
        let key = parsed(key)?;
        let signed = Signed::default();
        let range = range.map(GetRange::Bounded);
        let if_match = if_match.map(str::to_owned);
        let options = GetOptions { head, range, if_match, extensions: signed.errand(), ..GetOptions::default() };
        let unsigned = self.store.get_opts(&key, options).await.err();
        match signed.take() {
            Some(request) => plain(request).map_err(|e| Error::bug(format!("a signed request: {e}")).into()),
            None => Err(uncredited(unsigned.as_ref())),
        }
    }

    /// One page of the names in folder `key`.
    pub(crate) async fn list(
        &self,
        key: &str,
        token: Option<String>,
        most: Option<usize>,
    ) -> Result<ListPage, Failure> {
        let prefix = parsed(key).map(|key| if key.is_root() { None } else { Some(format!("{key}/")) })?;
        let noted = Noted::default();
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: most,
            page_token: token,
            extensions: noted.errand(),
            ..PaginatedListOptions::default()
        };
        match self.store.list_paginated(prefix.as_deref(), options).await {
            Ok(page) => Ok(ListPage { names: names(key, &page.result), next: page.page_token }),
            Err(error) => Err(match noted.take() {
                Some((reply, body)) if !reply.status.is_success() => {
                    reply.refusal(&reply::said(&String::from_utf8_lossy(&body)), None, true)
                }
                Some(_) => Failure::again(format!("the listing can't be read: {}", words(&error))),
                None => unlisted(&error),
            }),
        }
    }
}

/// The last components of the listed names.
fn names(folder: &str, result: &object_store::ListResult) -> Vec<String> {
    let files = result.objects.iter().map(|object| &object.location);
    let found = files.chain(&result.common_prefixes).filter(|found| found.as_ref() != folder);
    found.filter_map(|found| found.filename().map(str::to_owned)).collect()
}

fn parsed(key: &str) -> Result<Key> {
    Key::parse(key).map_err(|_| {
        let message = format!("{key:?} can't be read: parts of a key must not be empty, `.` or `..`");
        Error::unsupported(message)
    })
}

/// The failure without usable credentials.
fn uncredited(error: Option<&object_store::Error>) -> Failure {
    let why = error.map(words).unwrap_or_default();
    Failure::denied(format!(
        "no credentials for S3 ({why}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
    ))
}

/// The failure of a listing without a response.
fn unlisted(error: &object_store::Error) -> Failure {
    use object_store::client::{HttpError, HttpErrorKind};
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return match http.kind() {
                HttpErrorKind::Interrupted => Failure::again(words_of(http)),
                _ => Failure::refused(words_of(http)),
            };
        }
        source = error.source();
    }
    uncredited(Some(error))
}

fn words_of(error: &object_store::client::HttpError) -> String {
    super::wire::root(error)
}
