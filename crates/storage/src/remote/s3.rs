//! S3 buckets: signing requests for objects, and listing objects and unfinished uploads.

use super::failure::Failure;
use super::profile;
use super::reply;
use super::service::{Connector, Noted, plain, signed, words};
use super::version::{Marks, Version};
use super::wire::Wire;
use crate::RemoteOptions;
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, RetryConfig,
};
use packhorse_core::{Error, Result};
use reqwest::Request;
use std::ops::Range;
use std::time::Duration;

/// A bucket.
pub(crate) struct S3 {
    bucket: String,
    region: String,
    store: AmazonS3,
}

/// A page of a listing: names in a folder, objects with their versions, and the token of the next page.
pub(crate) struct ListPage {
    pub(crate) names: Vec<(String, Option<Version>)>,
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
        // Not every server has the request that deletes many.
        let builder = builder.with_config(AmazonS3ConfigKey::DisableBulkDelete, "true");
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".into());
        let store = builder.build().map_err(|e| Error::config(format!("invalid S3 settings: {}", words(&e))))?;
        Ok(Self { bucket: bucket.to_owned(), region, store })
    }

    /// A key's name in errors.
    pub(crate) fn name(&self, key: &str) -> String {
        if key.is_empty() { format!("s3://{}", self.bucket) } else { format!("s3://{}/{key}", self.bucket) }
    }

    /// A freshly signed request that reads an object.
    pub(crate) async fn request(
        &self,
        key: &str,
        head: bool,
        range: Option<Range<u64>>,
        if_match: Option<&str>,
    ) -> Result<Request, Failure> {
        let range = range.map(GetRange::Bounded);
        let if_match = if_match.map(str::to_owned);
        let options = GetOptions { head, range, if_match, ..GetOptions::default() };
        let key = parsed(key)?;
        one(&key, self.store.get_opts(&key, options)).await
    }

    /// A signed request that stores an object.
    pub(crate) async fn put(&self, key: &str, bytes: &Bytes) -> Result<Request, Failure> {
        let key = parsed(key)?;
        let request = one(&key, self.store.put_opts(&key, bytes.clone().into(), PutOptions::default())).await?;
        Ok(with_body(request, bytes))
    }

    /// A signed request that begins an upload in parts.
    pub(crate) async fn begin(&self, key: &str) -> Result<Request, Failure> {
        let key = parsed(key)?;
        one(&key, self.store.put_multipart_opts(&key, PutMultipartOptions::default())).await
    }

    /// A signed request that sends part `number` (from 0) of an upload.
    pub(crate) async fn part(&self, key: &str, upload: &str, number: usize, bytes: &Bytes) -> Result<Request, Failure> {
        let key = parsed(key)?;
        let request = one(&key, self.store.put_part(&key, &upload.to_owned(), number, bytes.clone().into())).await?;
        Ok(with_body(request, bytes))
    }

    /// A signed request that completes an upload from parts with these ETags.
    pub(crate) async fn complete(&self, key: &str, upload: &str, etags: &[String]) -> Result<Request, Failure> {
        let key = parsed(key)?;
        let parts = etags.iter().map(|etag| PartId { content_id: etag.clone() }).collect();
        one(&key, self.store.complete_multipart(&key, &upload.to_owned(), parts)).await
    }

    /// A signed request that aborts an upload.
    pub(crate) async fn abort(&self, key: &str, upload: &str) -> Result<Request, Failure> {
        let key = parsed(key)?;
        one(&key, self.store.abort_multipart(&key, &upload.to_owned())).await
    }

    /// A signed request that deletes an object.
    pub(crate) async fn delete(&self, key: &str) -> Result<Request, Failure> {
        let key = parsed(key)?;
        one(&key, self.store.delete(&key)).await
    }

    /// A signed request for the unfinished uploads of keys that start with `prefix`, after `from`: a key and an upload.
    ///
    /// `object_store` has no such request; its request for a listing says where the bucket is.
    pub(crate) async fn uploads(&self, prefix: &str, from: Option<&(String, String)>) -> Result<Request, Failure> {
        let options = PaginatedListOptions { max_keys: Some(1), ..PaginatedListOptions::default() };
        let listing = signed("", self.store.list_paginated(None, options)).await;
        let mut request = listing.map_err(|error| uncredited(error.as_ref()))?;
        let mut query = format!("uploads=&prefix={}", encoded(prefix));
        if let Some((key, upload)) = from {
            query.push_str(&format!("&key-marker={}&upload-id-marker={}", encoded(key), encoded(upload)));
        }
        let bucket = request.uri().to_string();
        let bucket = bucket.split_once('?').map_or(bucket.as_str(), |(bucket, _)| bucket);
        let uri = format!("{bucket}?{query}").parse();
        *request.uri_mut() = uri.map_err(|_| Error::bug("a URL of unfinished uploads is not valid"))?;
        if request.headers_mut().remove("authorization").is_some() {
            let credential = self.store.credentials().get_credential().await.map_err(|e| uncredited(Some(&e)))?;
            let authorizer = AwsAuthorizer::new(&credential, "s3", &self.region);
            authorizer.try_authorize(&mut request, None).map_err(|e| uncredited(Some(&e)))?;
        }
        plain(request).map_err(|e| Error::bug(format!("a signed request: {e}")).into())
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

/// The signed request that `call` makes for an object.
async fn one<T>(key: &Key, call: impl Future<Output = object_store::Result<T>>) -> Result<Request, Failure> {
    match signed(key.as_ref(), call).await {
        Ok(request) => plain(request).map_err(|e| Error::bug(format!("a signed request: {e}")).into()),
        Err(error) => Err(uncredited(error.as_ref())),
    }
}

fn with_body(mut request: Request, bytes: &Bytes) -> Request {
    *request.body_mut() = Some(bytes.clone().into());
    request
}

/// Percent-encodes a value of a query as signatures need it.
fn encoded(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~".contains(b);
    text.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The last components of the listed names.
fn names(folder: &str, result: &object_store::ListResult) -> Vec<(String, Option<Version>)> {
    let files = result.objects.iter().map(|object| (&object.location, Some(version(object))));
    let folders = result.common_prefixes.iter().map(|prefix| (prefix, None));
    let found = files.chain(folders).filter(|(found, _)| found.as_ref() != folder);
    found.filter_map(|(found, version)| Some((found.filename()?.to_owned(), version))).collect()
}

/// The version of a listed object, as a query about it would give it.
fn version(object: &object_store::ObjectMeta) -> Version {
    let modified = httpdate::fmt_http_date(object.last_modified.into());
    Version { len: object.size, marks: Marks { etag: object.e_tag.clone(), modified: Some(modified) } }
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
