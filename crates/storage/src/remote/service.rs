//! The HTTP service of `object_store`: captures signed requests for objects without sending them; sends the others
//! (listings, credentials) and records the response of listings.

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
    key: String,
    request: Mutex<Option<HttpRequest>>,
}

impl Signing {
    /// Captures `request` if it concerns the object: requests for credentials do not.
    fn take(&self, request: &HttpRequest) -> bool {
        let path = decoded(request.uri().path()).unwrap_or_default();
        let wanted = path.ends_with(&self.key);
        if wanted {
            *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
        }
        wanted
    }
}

/// Runs `call` up to its request for the object `key`, and returns that request, signed and not sent. Otherwise `call`
/// failed before it.
pub(crate) async fn signed<T>(
    key: &str,
    call: impl Future<Output = object_store::Result<T>>,
) -> Result<HttpRequest, Option<object_store::Error>> {
    let signing = Signing { key: key.to_owned(), request: Mutex::default() };
    let scope = async {
        let failed = call.await.err();
        let taken = |signing: &Signing| signing.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        SIGNING.with(taken).ok_or(failed)
    };
    SIGNING.scope(signing, scope).await
}

/// Records a response.
#[derive(Clone, Default)]
pub(crate) struct Noted(Arc<Mutex<Option<(Reply, Bytes)>>>);

impl Noted {
    /// The extensions for the request.
    pub(crate) fn errand(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions
    }

    /// The recorded response, if any.
    pub(crate) fn take(&self) -> Option<(Reply, Bytes)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
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
            Some(noted) => {
                let (reply, body) = self.listed(request).await?;
                *noted.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((reply.clone(), body.clone()));
                Ok(response(reply, body))
            }
            None => timeout(CREDENTIALS, self.asked(request))
                .await
                .map_err(|_| HttpError::new(HttpErrorKind::Timeout, Error::config("no answer about credentials")))?,
        }
    }
}

impl Service {
    /// Sends a listing request.
    async fn listed(&self, request: HttpRequest) -> Result<(Reply, Bytes), HttpError> {
        let request = plain(request)?;
        let mut answer = self.0.send(request).await.map_err(failed)?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                return Err(unusable("too large an answer"));
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

fn failed(failure: super::failure::Failure) -> HttpError {
    match failure {
        super::failure::Failure::Final(error) => HttpError::new(HttpErrorKind::Unknown, error),
        super::failure::Failure::Again { why, .. } => HttpError::new(HttpErrorKind::Interrupted, Error::content(why)),
    }
}

fn unusable(why: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, Error::content(why))
}

/// The innermost message of an `object_store` error; outer ones contain URLs.
pub(crate) fn words(error: &object_store::Error) -> String {
    root(error)
}
