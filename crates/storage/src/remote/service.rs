//! The HTTP service of `object_store`: captures signed requests for objects without sending them; sends the others
//! (listings, credentials) and records the response of listings.

use super::failure::Failure;
use super::reply::Reply;
use super::wire::{Wire, root};
use crate::location::decoded;
use bytes::Bytes;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use object_store::{ClientOptions, Extensions};
use packhorse_core::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Larger responses are refused; a listing page has at most about a megabyte.
const LARGEST: usize = 64 << 20;

/// Credential servers are close by or absent.
const CREDENTIALS: Duration = Duration::from_secs(5);

tokio::task_local! {
    /// The object whose next request this task captures.
    static SIGNING: Signing;
}

/// A request of this task to capture.
struct Signing {
    /// How its path ends: the bucket and the key; empty for a listing.
    end: String,
    /// The key, with a slash before it: the whole path where the bucket is part of the host.
    key: String,
    request: Mutex<Option<HttpRequest>>,
}

impl Signing {
    /// Captures `request` if it concerns the object or is the listing: requests for credentials do not.
    fn take(&self, request: &HttpRequest) -> bool {
        // Google's have encoded slashes.
        let path = decoded(&request.uri().path().replace("%2F", "/")).unwrap_or_default();
        let wanted = match self.end.is_empty() {
            true => request.extensions().get::<Noted>().is_some(),
            false => path.ends_with(&self.end) || path == self.key,
        };
        if wanted {
            *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
        }
        wanted
    }
}

/// Runs `call` up to its request for the object `key` of the bucket whose paths begin with `bucket`, and returns that request, signed
/// and not sent. Without an object, that is a listing with an [`errand`](Noted::errand). Otherwise `call` failed before it.
pub(crate) async fn signed<T>(
    object: Option<(&str, &str)>,
    call: impl Future<Output = object_store::Result<T>>,
) -> Result<HttpRequest, Option<object_store::Error>> {
    let (end, key) = object.map(|(bucket, key)| (format!("{bucket}{key}"), format!("/{key}"))).unwrap_or_default();
    let signing = Signing { end, key, request: Mutex::default() };
    let scope = async {
        let failed = call.await.err();
        let taken = |signing: &Signing| signing.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        SIGNING.with(taken).ok_or(failed)
    };
    SIGNING.scope(signing, scope).await
}

/// Records the response to a listing, or why there was none.
#[derive(Clone, Default)]
pub(crate) struct Noted(Arc<Mutex<Option<Listed>>>);

/// The response to a listing and its body.
type Listed = Result<(Reply, Bytes), Failure>;

impl Noted {
    /// The extensions for the request.
    pub(crate) fn errand(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions
    }

    /// The record; `None` if no listing was sent.
    pub(crate) fn take(&self) -> Option<Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, outcome: Listed) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

/// Gives `object_store` the shared client.
#[derive(Debug)]
pub(crate) struct Connector(pub(crate) Wire);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(self.0.clone())))
    }
}

#[derive(Debug)]
struct Service(Wire);

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if SIGNING.try_with(|signing| signing.take(&request)).unwrap_or(false) {
            return Err(unusable("only signed"));
        }
        match request.extensions().get::<Noted>().cloned() {
            Some(noted) => match self.listed(request).await {
                Ok((reply, body)) => {
                    noted.put(Ok((reply.clone(), body.clone())));
                    Ok(response(reply, body))
                }
                Err(failure) => {
                    noted.put(Err(failure));
                    Err(unusable("no listing"))
                }
            },
            None => timeout(CREDENTIALS, self.asked(request))
                .await
                .map_err(|_| HttpError::new(HttpErrorKind::Timeout, Error::config("no answer about credentials")))?,
        }
    }
}

impl Service {
    /// Sends a listing request.
    async fn listed(&self, request: HttpRequest) -> Listed {
        let request = plain(request).map_err(|e| Error::bug(format!("a signed request: {e}")))?;
        let mut answer = self.0.send(request).await?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                return Err(Failure::refused("too large an answer"));
            }
        }
        Ok((answer.reply, body.into()))
    }

    /// Sends a credentials request.
    async fn asked(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let request = plain(request)?;
        let kind =
            |e: &reqwest::Error| if e.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
        let failed = |e: reqwest::Error| HttpError::new(kind(&e), e.without_url());
        let response = self.0.client().execute(request).await.map_err(failed)?;
        let reply = Reply { status: response.status(), headers: response.headers().clone() };
        let body = response.bytes().await.map_err(failed)?;
        Ok(self::response(reply, body))
    }
}

fn response(reply: Reply, body: Bytes) -> HttpResponse {
    let mut response = HttpResponse::new(body.into());
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

/// Converts to the client's request type.
pub(crate) fn plain(request: HttpRequest) -> Result<reqwest::Request, HttpError> {
    let (parts, body) = request.into_parts();
    let url = parts.uri.to_string().parse().map_err(|_| unusable("no URL"))?;
    let mut request = reqwest::Request::new(parts.method, url);
    *request.headers_mut() = parts.headers;
    *request.body_mut() = bytes_of(&body).map(Into::into);
    Ok(request)
}

fn bytes_of(body: &HttpRequestBody) -> Option<Bytes> {
    body.as_bytes().filter(|bytes| !bytes.is_empty()).cloned()
}

fn unusable(why: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, Error::content(why))
}

/// The innermost message of an `object_store` error; outer ones contain URLs.
pub(crate) fn words(error: &object_store::Error) -> String {
    root(error)
}

/// The variables whose names begin with `prefix`, in lower case, and their values. Templates of containers set variables to nothing.
pub(super) fn variables(prefix: &'static str) -> impl Iterator<Item = (String, String)> {
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let given = all.filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
    given.map(|(name, value)| (name.to_ascii_lowercase(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_credentials_are_not_those_for_objects() {
        let request = |path: &str| {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.uri_mut() = format!("http://host{path}").parse().unwrap();
            request
        };
        let signing = |bucket: &str, key: &str| Signing {
            end: format!("{bucket}{key}"),
            key: format!("/{key}"),
            request: Mutex::default(),
        };
        for (path, wanted) in [
            ("/bucket/ml-data", false),
            ("/latest/meta-data/iam/security-credentials/data", false),
            ("/data", true),
            ("/bucket/data", true),
            ("/root/bucket/data", true),
        ] {
            assert_eq!(signing("/bucket/", "data").take(&request(path)), wanted, "{path}");
        }
        assert!(signing("/b/", "a b/c").take(&request("/b/a%20b%2Fc")));
    }
}
