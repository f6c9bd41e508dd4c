//! The HTTP client: connections, redirects, TLS and timeouts.

use super::failure::Failure;
use super::outage::Outage;
use super::reply::Reply;
use crate::RemoteOptions;
use bytes::Bytes;
use packhorse_core::{Error, Result};
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Request, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// The most redirects per request.
const REDIRECTS: usize = 5;

/// The most bytes read of an error's body.
const WORDS: usize = 8 << 10;

/// The most bytes of an answer to a request that writes.
const LONGEST: usize = 16 << 20;

/// The client of all requests.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    client: Client,
    /// Timeout until the headers, including the connection.
    first: Duration,
    idle: Duration,
    /// Whether any server has ever answered.
    heard: Arc<AtomicBool>,
    pub(crate) outage: Arc<Outage>,
}

/// A response whose body is not read yet.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    /// Whether a redirect added a trailing slash.
    pub(crate) folder: bool,
    response: Response,
    idle: Duration,
}

impl Wire {
    pub(crate) fn new(options: &RemoteOptions) -> Result<Self> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .user_agent(concat!("packhorse/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            .redirect(Policy::custom(follow))
            // The query of a URL may be its signature, which is for its own server alone.
            .referer(false)
            .http1_only()
            .build()
            .map_err(|e| Error::config(format!("the network can't be used: {}", root(&e))).caused_by(e))?;
        let first = options.connect_timeout.max(options.idle_timeout);
        Ok(Self { client, first, idle: options.idle_timeout, heard: Arc::default(), outage: Arc::default() })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request that is safe to repeat.
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, Failure> {
        self.send_within(request, Duration::ZERO).await
    }

    /// As [`send`](Self::send), for a request that takes the server `more` time than others.
    pub(crate) async fn send_within(&self, mut request: Request, more: Duration) -> Result<Answer, Failure> {
        // Without this header the server may choose an encoding.
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let asked_folder = request.url().path().ends_with('/');
        let longest = self.first.saturating_add(more);
        let sent = timeout(longest, self.client.execute(request)).await;
        let response = sent.map_err(|_| stalled("an answer", longest))?.map_err(|e| self.unsent(e))?;
        self.heard.store(true, Ordering::Relaxed);
        self.outage.answered();
        let reply = Reply { status: response.status(), headers: response.headers().clone() };
        let folder = !asked_folder && response.url().path().ends_with('/');
        Ok(Answer { reply, folder, response, idle: self.idle })
    }

    /// Classifies a failure to get a response.
    fn unsent(&self, error: reqwest::Error) -> Failure {
        let why = root(&error);
        // An unknown host is a typing error at first, a network failure later. The standard library's errors tell it by
        // their text alone.
        let unknown = why.contains("Name or service not known") && !self.heard.load(Ordering::Relaxed);
        match () {
            () if error.is_redirect() => Failure::refused(format!("can't be reached: {why}")),
            () if error.is_builder() => Failure::Final(Error::config(format!("is not a valid URL: {why}"))),
            () if is_certificate(&error) => Failure::refused(format!(
                "can't be reached: {why}; certificates are those of the system, or of SSL_CERT_FILE"
            )),
            () if unknown => Failure::refused(format!("can't be reached: {why}")),
            () if error.is_timeout() => Failure::again("connecting took too long"),
            () if error.is_connect() => Failure::again(format!("connecting failed: {why}")),
            () => Failure::again(format!("the request failed: {why}")),
        }
    }
}

impl Answer {
    /// The next bytes of the body; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let chunk =
            timeout(self.idle, self.response.chunk()).await.map_err(|_| stalled("the next bytes", self.idle))?;
        chunk.map_err(|e| Failure::again(format!("the connection broke: {}", root(&e))))
    }

    /// The whole body as text.
    pub(crate) async fn whole(&mut self) -> Result<String, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                return Err(Failure::refused("the server's answer is too long"));
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The beginning of the body as text, as far as it arrives.
    pub(crate) async fn words(&mut self) -> String {
        let mut words = Vec::new();
        while words.len() < WORDS {
            match self.chunk().await {
                Ok(Some(chunk)) => words.extend_from_slice(&chunk),
                _ => break,
            }
        }
        words.truncate(WORDS);
        String::from_utf8_lossy(&words).into_owned()
    }
}

fn stalled(what: &str, time: Duration) -> Failure {
    Failure::again(format!("the server stalled: {what} did not come in {} s", time.as_secs_f32()))
}

/// Follows redirects, but never from https to http.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let encrypted = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
    match () {
        () if attempt.previous().len() > REDIRECTS => attempt.error(format!("more than {REDIRECTS} redirects")),
        () if encrypted && attempt.url().scheme() != "https" => attempt.error("a redirect from https to http"),
        () => attempt.follow(),
    }
}

/// TLS with the certificates of the system or of `SSL_CERT_FILE`. Without any, http still works.
fn tls() -> Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|e| Error::bug(format!("no versions of TLS: {e}")))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// Whether a server's certificate was refused.
fn is_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        // An I/O error's source is that of the error inside, so the latter is asked for by itself.
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = error.downcast_ref().or_else(|| inside.and_then(|inside| inside.downcast_ref()));
        if let Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) = tls {
            return true;
        }
        next = inside.map(|inside| inside as &(dyn std::error::Error + 'static)).or_else(|| error.source());
    }
    false
}

/// The innermost message of an error; outer ones contain URLs, which may hold secrets.
pub(crate) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    match root.downcast_ref::<reqwest::Error>() {
        // Its message contains the URL.
        Some(_) => "no answer that is HTTP".into(),
        None => root.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn refused_certificates_are_found_inside_of_other_errors() {
        let refused = || rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(is_certificate(&refused()));
        assert!(is_certificate(&io::Error::other(refused())));
        assert!(is_certificate(&io::Error::other(io::Error::other(refused()))));
        assert!(!is_certificate(&io::Error::other("a certificate, in words alone")));
        assert!(!is_certificate(&io::Error::other(rustls::Error::DecryptError)));
    }
}
