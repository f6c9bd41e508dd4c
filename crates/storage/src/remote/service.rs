//! The HTTP of `object_store`: requests for files are only signed, and handed back unsent; the others (listings,
//! credentials) are sent for it, and what the server said is noted.

use super::reply::Reply;
use super::wire::{Wire, root};
use bytes::Bytes;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};
use object_store::{ClientOptions, Extensions};
use packhorse_core::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// A listing is a megabyte at most, credentials are less.
const LARGEST: usize = 64 << 20;

/// Servers of credentials are near, or are not there.
const CREDENTIALS: Duration = Duration::from_secs(5);

/// What a request is made for; it travels with it.
#[derive(Clone)]
enum Errand {
    /// The request itself is wanted.
    Sign(Arc<Mutex<Option<HttpRequest>>>),
    /// The answer is read by `object_store`, and its beginning is wanted too.
    Note(Arc<Mutex<Option<(Reply, Bytes)>>>),
}

/// A request to be signed.
#[derive(Clone, Default)]
pub(crate) struct Signed(Arc<Mutex<Option<HttpRequest>>>);

impl Signed {
    /// What to give with the request.
    pub(crate) fn errand(&self) -> Extensions {
        extensions(Errand::Sign(self.0.clone()))
    }

    /// The request, signed.
    pub(crate) fn take(&self) -> Option<HttpRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An answer to be noted.
#[derive(Clone, Default)]
pub(crate) struct Noted(Arc<Mutex<Option<(Reply, Bytes)>>>);

impl Noted {
    /// What to give with the request.
    pub(crate) fn errand(&self) -> Extensions {
        extensions(Errand::Note(self.0.clone()))
    }

    /// The answer, if there was one.
    pub(crate) fn take(&self) -> Option<(Reply, Bytes)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn extensions(errand: Errand) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(errand);
    extensions
}

/// Gives `object_store` the client that all other requests have.
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
        let errand = request.extensions().get::<Errand>().cloned();
        match errand {
            Some(Errand::Sign(signed)) => {
                *signed.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
                Err(unusable("only signed"))
            }
            Some(Errand::Note(noted)) => {
                let (reply, body) = self.listed(request).await?;
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some((reply.clone(), body.clone()));
                Ok(response(reply, body))
            }
            None => timeout(CREDENTIALS, self.asked(request))
                .await
                .map_err(|_| HttpError::new(HttpErrorKind::Timeout, Error::config("no answer about credentials")))?,
        }
    }
}

impl Service {
    /// A page of a listing.
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

    /// About credentials.
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

/// A request as the client has it.
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

/// The words at the bottom of an error of `object_store`; those above name URLs.
pub(crate) fn words(error: &object_store::Error) -> String {
    root(error)
}
