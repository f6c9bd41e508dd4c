//! Buckets and containers: signed requests for objects, and listings of objects and of unfinished uploads.
//!
//! `object_store` makes most requests. [`s3`], [`gcs`] and [`azure`] say how a bucket is opened, and make the others.

use super::azure::{self, Azure};
use super::failure::Failure;
use super::gcs;
use super::reply::{self, Reply};
use super::s3::{self, S3};
use super::service::{Noted, plain, signed, words};
use super::version::{Marks, Version};
use super::wire::Wire;
use crate::RemoteOptions;
use crate::location::BucketName;
use bytes::Bytes;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, RetryConfig,
};
use packhorse_core::{Error, Result, crc32c};
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use reqwest::{Method, Request};
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A bucket, or a container of Azure.
pub(crate) struct Bucket {
    /// As in locations, such as `s3://bucket`.
    pub(super) url: String,
    /// What stands before the key in a request's path, as far as it is known.
    pub(super) before: String,
    pub(super) objects: Box<dyn Objects>,
    pub(super) provider: &'static Provider,
    pub(super) own: Own,
    /// Why there may be no credentials.
    pub(super) advice: Option<String>,
}

/// What `object_store` can do with objects.
pub(crate) trait Objects: ObjectStore + MultipartStore + PaginatedListStore {}

impl<T: ObjectStore + MultipartStore + PaginatedListStore> Objects for T {}

/// The requests of a service that `object_store` does not make.
pub(crate) enum Own {
    S3(S3),
    Gcs,
    Azure(Azure),
}

/// A service in messages.
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// The variables with credentials.
    pub(crate) credentials: &'static str,
    /// The variable for requests without credentials.
    pub(crate) unsigned: &'static str,
    /// Its word for a bucket.
    pub(crate) bucket: &'static str,
}

/// A part that a server took.
pub(crate) struct Part {
    /// Its ETag, or the id of a block.
    pub(crate) tag: String,
    pub(crate) len: u64,
    /// Its CRC-32C, if the service tells that of whole objects.
    pub(crate) crc: u32,
}

/// A page of a listing: names in a folder, objects with their versions, and the token of the next page.
pub(crate) struct ListPage {
    pub(crate) names: Vec<(String, Option<Version>)>,
    /// Whether the folder exists: its own marker is not among the names.
    pub(crate) exists: bool,
    pub(crate) next: Option<String>,
}

impl Bucket {
    /// A bucket configured by the environment and `options`.
    pub(crate) fn new(name: &BucketName, wire: &Wire, options: &RemoteOptions) -> Result<Self> {
        match name.scheme {
            "s3" => s3::open(name, wire, options),
            "gs" => gcs::open(name, wire, options),
            _ => azure::open(name, wire, options),
        }
    }

    /// A key's name in errors.
    pub(crate) fn name(&self, key: &str) -> String {
        if key.is_empty() { self.url.clone() } else { format!("{}/{key}", self.url) }
    }

    /// Whether an upload has an id by which it is listed and aborted. Azure's blocks belong to the object's name.
    pub(crate) fn has_uploads(&self) -> bool {
        !matches!(self.own, Own::Azure(_))
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
        let mut request = self.one(&key, self.objects.get_opts(&key, options)).await?;
        if matches!(self.own, Own::Gcs) {
            // Otherwise Google decompresses objects that are stored with this encoding.
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(request)
    }

    /// A signed request that stores an object.
    pub(crate) async fn put(&self, key: &str, bytes: &Bytes) -> Result<Request, Failure> {
        if let Own::Azure(azure) = &self.own {
            return self.of_azure(key, azure, Method::PUT, "", bytes).await;
        }
        let key = parsed(key)?;
        let request = self.one(&key, self.objects.put_opts(&key, bytes.clone().into(), PutOptions::default())).await?;
        self.with_body(request, bytes)
    }

    /// A signed request that begins an upload in parts.
    pub(crate) async fn begin(&self, key: &str) -> Result<Request, Failure> {
        let key = parsed(key)?;
        self.one(&key, self.objects.put_multipart_opts(&key, PutMultipartOptions::default())).await
    }

    /// A signed request that sends part `number` (from 0) of an upload.
    pub(crate) async fn part(&self, key: &str, upload: &str, number: usize, bytes: &Bytes) -> Result<Request, Failure> {
        if let Own::Azure(azure) = &self.own {
            let query = format!("comp=block&blockid={}", azure::block(number, bytes));
            return self.of_azure(key, azure, Method::PUT, &query, bytes).await;
        }
        let key = parsed(key)?;
        let upload = upload.to_owned();
        let part = self.objects.put_part(&key, &upload, number, bytes.clone().into());
        let request = self.one(&key, part).await?;
        self.with_body(request, bytes)
    }

    /// The part that a server took; `etag` is from its answer. `None` where it should have one and does not.
    pub(crate) fn taken(&self, number: usize, bytes: &Bytes, etag: Option<String>) -> Option<Part> {
        let (tag, crc) = match &self.own {
            Own::S3(_) => (etag?, 0),
            Own::Gcs => (etag?, crc32c(bytes)),
            Own::Azure(_) => (azure::block(number, bytes), 0),
        };
        Some(Part { tag, len: bytes.len() as u64, crc })
    }

    /// A signed request that completes an upload from these parts.
    pub(crate) async fn complete(&self, key: &str, upload: &str, parts: &[Part]) -> Result<Request, Failure> {
        if let Own::Azure(azure) = &self.own {
            let list = azure::list(parts.iter().map(|part| part.tag.as_str()));
            return self.of_azure(key, azure, Method::PUT, "comp=blocklist", &list.into()).await;
        }
        let key = parsed(key)?;
        let parts = parts.iter().map(|part| PartId { content_id: part.tag.clone() }).collect();
        self.one(&key, self.objects.complete_multipart(&key, &upload.to_owned(), parts)).await
    }

    /// Whether an object with this answer to `HEAD` is made of these parts: then a completion succeeded, and only its
    /// answer was lost. Azure's completions can be repeated instead.
    pub(crate) fn made_of(&self, head: &Reply, parts: &[Part]) -> bool {
        match &self.own {
            Own::S3(_) => s3::made_of(head, parts),
            Own::Gcs => gcs::made_of(head, parts),
            Own::Azure(_) => false,
        }
    }

    /// A signed request that aborts an upload.
    pub(crate) async fn abort(&self, key: &str, upload: &str) -> Result<Request, Failure> {
        let key = parsed(key)?;
        self.one(&key, self.objects.abort_multipart(&key, &upload.to_owned())).await
    }

    /// A signed request that deletes an object.
    pub(crate) async fn delete(&self, key: &str) -> Result<Request, Failure> {
        if let Own::Azure(azure) = &self.own {
            return self.of_azure(key, azure, Method::DELETE, "", &Bytes::new()).await;
        }
        let key = parsed(key)?;
        self.one(&key, self.objects.delete(&key)).await
    }

    /// A signed request for the unfinished uploads of keys that start with `prefix`, after `from`: a key and an upload.
    ///
    /// `object_store` has no such request; its request for a listing says where the bucket is.
    pub(crate) async fn uploads(&self, prefix: &str, from: Option<&(String, String)>) -> Result<Request, Failure> {
        let extensions = Noted::default().errand();
        let options = PaginatedListOptions { max_keys: Some(1), extensions, ..PaginatedListOptions::default() };
        let listing = signed(None, self.objects.list_paginated(None, options)).await;
        let mut request = listing.map_err(|error| self.uncredited(error.as_ref()))?;
        let mut query = format!("uploads=&prefix={}", encoded(prefix));
        if let Some((key, upload)) = from {
            query.push_str(&format!("&key-marker={}&upload-id-marker={}", encoded(key), encoded(upload)));
        }
        asking(&mut request, &query)?;
        if let Own::S3(s3) = &self.own {
            s3.sign(&mut request).await.map_err(|e| self.uncredited(Some(&e)))?;
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
        match self.objects.list_paginated(prefix.as_deref(), options).await {
            Ok(page) => {
                if let Some(Ok((_, body))) = noted.take() {
                    check_listing(&String::from_utf8_lossy(&body), page.page_token.is_some())?;
                }
                let exists = !page.result.objects.is_empty() || !page.result.common_prefixes.is_empty();
                Ok(ListPage { names: names(key, &page.result)?, exists, next: page.page_token })
            }
            Err(error) => Err(match noted.take() {
                Some(Ok((reply, body))) if !reply.status.is_success() => {
                    reply.refusal(&reply::said(&String::from_utf8_lossy(&body)), None, Some(self.provider))
                }
                Some(Ok(_)) if words(&error).contains("path segment") => unread(&words(&error)),
                Some(Ok(_)) => Failure::again(format!("the listing can't be read: {}", words(&error))),
                Some(Err(failure)) => failure,
                None => self.uncredited(Some(&error)),
            }),
        }
    }

    /// The signed request that `call` makes for an object.
    async fn one<T>(&self, key: &Key, call: impl Future<Output = object_store::Result<T>>) -> Result<Request, Failure> {
        match signed(Some((&self.before, key.as_ref())), call).await {
            Ok(request) => plain(request).map_err(|e| Error::bug(format!("a signed request: {e}")).into()),
            Err(error) => Err(self.uncredited(error.as_ref())),
        }
    }

    /// A signed request of Azure's, made from the request for the object's properties.
    async fn of_azure(
        &self,
        key: &str,
        azure: &Azure,
        method: Method,
        query: &str,
        body: &Bytes,
    ) -> Result<Request, Failure> {
        let key = parsed(key)?;
        let asked = signed(Some((&self.before, key.as_ref())), self.objects.head(&key)).await;
        let mut request = asked.map_err(|error| self.uncredited(error.as_ref()))?;
        let signed = azure::bare(&mut request);
        *request.method_mut() = method;
        asking(&mut request, query)?;
        azure::describe(&mut request, query, body);
        if signed {
            azure.sign(&mut request).await.map_err(|e| self.uncredited(Some(&e)))?;
        }
        let mut request = plain(request).map_err(|e| Error::bug(format!("a signed request: {e}")))?;
        *request.body_mut() = (!body.is_empty()).then(|| body.clone().into());
        Ok(request)
    }

    /// Google signs no bodies, and checks their MD5 instead.
    fn with_body(&self, mut request: Request, bytes: &Bytes) -> Result<Request, Failure> {
        if matches!(self.own, Own::Gcs) {
            request.headers_mut().insert("content-md5", super::uploads::md5(bytes));
        }
        *request.body_mut() = Some(bytes.clone().into());
        Ok(request)
    }

    /// The failure without usable credentials.
    fn uncredited(&self, error: Option<&object_store::Error>) -> Failure {
        let why = error.map(words).unwrap_or_default();
        let Provider { name, credentials, unsigned, bucket } = self.provider;
        let advice = self.advice.as_ref().map(|advice| format!("{advice}; or ")).unwrap_or_default();
        Failure::denied(format!(
            "no credentials for {name} ({why}); {advice}set {credentials}, or {unsigned} for a public {bucket}"
        ))
    }
}

/// Refuses what `object_store` takes for a whole listing: another document, such as the page of a proxy, and a part of one behind which
/// there is no way on.
fn check_listing(body: &str, goes_on: bool) -> Result<(), Failure> {
    if !body.contains("<ListBucketResult") && !body.contains("<EnumerationResults") {
        return Err(Failure::again("the server answered with something else than a listing"));
    }
    match body.contains("<IsTruncated>true</IsTruncated>") && !goes_on {
        true => Err(Failure::refused(
            "the server gives a part of the listing and no NextContinuationToken for the rest; it may not know version 2 of listings",
        )),
        false => Ok(()),
    }
}

/// How often `object_store` asks for credentials. [`Budget`](super::budget::Budget) retries all else.
pub(super) fn retry(options: &RemoteOptions) -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: options.first_wait, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: 1, retry_timeout: Duration::from_secs(10) }
}

/// The error of a setting that the service does not have.
pub(super) fn unknown(name: &str, provider: &Provider) -> Error {
    Error::config(format!("{name} is not an {} setting; use the names of the environment variables", provider.name))
}

/// The error of settings that a service can't be opened with.
pub(super) fn invalid(error: &object_store::Error, provider: &Provider) -> Error {
    let error = Error::config(format!("invalid {} settings: {}", provider.name, words(error)));
    error.hint(format!("check {}", provider.credentials))
}

/// Refuses an endpoint without a scheme, to which no request would find its way; the setting is called `name`.
pub(super) fn check_endpoint(endpoint: Option<String>, name: &str) -> Result<()> {
    match endpoint {
        Some(host) if !host.is_empty() && !host.starts_with("http://") && !host.starts_with("https://") => {
            let error = Error::config(format!("{name} is a URL, which \"{host}\" is not"));
            Err(error.hint(format!("write https://{host}, or http://{host} where the server has no certificate")))
        }
        _ => Ok(()),
    }
}

/// Replaces the query of a request.
fn asking(request: &mut object_store::client::HttpRequest, query: &str) -> Result<()> {
    let uri = request.uri().to_string();
    let place = uri.split_once('?').map_or(uri.as_str(), |(place, _)| place);
    let uri = if query.is_empty() { place.to_owned() } else { format!("{place}?{query}") };
    *request.uri_mut() = uri.parse().map_err(|_| Error::bug("a URL with another query is not valid"))?;
    Ok(())
}

/// Percent-encodes a value of a query as signatures need it.
fn encoded(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~".contains(b);
    text.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The last components of the listed names.
fn names(folder: &str, result: &object_store::ListResult) -> Result<Vec<(String, Option<Version>)>, Failure> {
    let files = result.objects.iter().map(|object| (&object.location, Some(version(object))));
    let folders = result.common_prefixes.iter().map(|prefix| (prefix, None));
    let found = files.chain(folders).filter(|(found, _)| found.is_root() || found.as_ref() != folder);
    let name = |found: &Key| found.filename().map(str::to_owned).ok_or_else(|| unread("it begins with a slash"));
    found.map(|(found, version)| Ok((name(found)?, version))).collect()
}

/// The refusal of a listing with a key that `object_store` does not read.
fn unread(why: &str) -> Failure {
    Failure::refused(format!(
        "the listing has a key that is not read, such as /a, a//b, a/./b or one with control characters: {why}; rename the object, or \
         give prefixes without it"
    ))
}

/// The version of a listed object, as a query about it would give it.
fn version(object: &object_store::ObjectMeta) -> Version {
    let modified = http_date(object.last_modified.into());
    // Azure lists ETags without their quotes.
    let quoted = |etag: &String| if etag.ends_with('"') { etag.clone() } else { format!("\"{etag}\"") };
    let etag = object.e_tag.as_ref().map(quoted);
    Version { len: object.size, marks: Marks { etag, modified } }
}

/// A time as headers have it; `None` before 1970 (Go's zero time) and after the year 9999, which `httpdate` does not format.
fn http_date(time: SystemTime) -> Option<String> {
    const YEAR_10000: u64 = 253_402_300_800;
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds < YEAR_10000).then(|| httpdate::fmt_http_date(time))
}

fn parsed(key: &str) -> Result<Key> {
    Key::parse(key).map_err(|_| {
        let message = format!("{key:?} can't be read: parts of a key must not be empty, `.` or `..`");
        Error::unsupported(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_headers_do_not_have_are_left_out() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(http_date(at(0)).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(at(253_402_300_799)).unwrap(), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!((http_date(at(253_402_300_800)), http_date(UNIX_EPOCH - Duration::from_secs(1))), (None, None));
    }
}
