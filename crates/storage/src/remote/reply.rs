//! Checks responses against requests.

use super::bucket::Provider;
use super::failure::Failure;
use super::version::{Marks, Version, text};
use httpdate::parse_http_date;
use packhorse_core::{Code, Error, Kind};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, HeaderMap, HeaderName, RETRY_AFTER};
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// Up to this size, a file is read whole from a server without range support.
const WHOLE: u64 = 64 << 20;

/// Status and headers of a response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// A `Content-Range` in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// `None` if the range was not satisfiable.
    range: Option<(u64, u64)>,
    total: Option<u64>,
}

impl Reply {
    /// The range of the file that the body must hold exactly: all of `asked`, a first part of it, or the whole file
    /// (`whole`: this server has not sent a range yet).
    pub(crate) fn body(&self, asked: &Range<u64>, version: &Version, whole: bool) -> Result<Range<u64>, Failure> {
        let length = self.length();
        match self.status {
            StatusCode::PARTIAL_CONTENT => {
                let span = self.span().ok_or_else(|| Failure::again("gave a part without saying which"))?;
                version.same(span.total, &Marks::of(&self.headers))?;
                let (start, end) = span.range.ok_or_else(|| Failure::again("gave a part without saying which"))?;
                if start != asked.start || end > asked.end {
                    let (from, to) = (asked.start, asked.end);
                    return Err(Failure::again(format!("gave bytes {start} to {end} for bytes {from} to {to}")));
                }
                match length.is_some_and(|length| length != end - start) {
                    true => Err(Failure::again("gave a body of another length than its range")),
                    false => Ok(start..end),
                }
            }
            StatusCode::OK => {
                version.same(length, &Marks::of(&self.headers))?;
                let all = 0..version.len;
                match *asked == all || (whole && version.len <= WHOLE) {
                    true => Ok(all),
                    false if whole => Err(Failure::Final(Error::unsupported(format!(
                        "is of a server that gives no ranges, and {} bytes are too many to read it whole each time; download it first",
                        version.len
                    )))),
                    false => Err(Failure::again("gave the whole file for a range")),
                }
            }
            status => Err(Failure::again(format!("answered {status} to a range"))),
        }
    }

    /// The version from a response to `HEAD`; `None` if it is incomplete.
    pub(crate) fn version_of_head(&self) -> Option<Version> {
        let version = Version { len: self.length()?, marks: Marks::of(&self.headers) };
        (self.status == StatusCode::OK).then_some(version)
    }

    /// The version from a response to a request for the first byte.
    pub(crate) fn version_of_first(&self) -> Option<Version> {
        let len = match self.status {
            StatusCode::PARTIAL_CONTENT => self.span().filter(|span| span.range == Some((0, 1)))?.total,
            StatusCode::OK => self.length(),
            StatusCode::RANGE_NOT_SATISFIABLE => self.span()?.total.filter(|total| *total == 0),
            _ => None,
        };
        Some(Version { len: len?, marks: Marks::of(&self.headers) })
    }

    /// Fails on a transfer encoding that changes the bytes. `stored`: the file itself is stored compressed.
    pub(crate) fn plain(&self, stored: bool) -> Result<(), Failure> {
        let coding = text(&self.headers, &CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity"));
        match coding {
            Some(coding) if !stored && !coding.is_empty() => Err(Failure::Final(Error::unsupported(format!(
                "is sent compressed ({coding}), although `identity` was requested; turn compression off at the server, or download it first"
            )))),
            _ => Ok(()),
        }
    }

    /// The failure of a response other than 200 and 206. `said` is the body's message; `version` is given for an open
    /// file; `provider` for one in a bucket.
    pub(crate) fn refusal(&self, said: &str, version: Option<&Version>, provider: Option<&Provider>) -> Failure {
        let status = self.status;
        if let Some(failure) = self.skewed(said) {
            return failure;
        }
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => match version {
                Some(_) => Failure::changed("it is not there any more"),
                None => Failure::missing(&format!("the server says {status}{said}")),
            },
            StatusCode::FORBIDDEN if provider.is_none() && version.is_none() => Failure::Final(
                Error::new(
                    Kind::Environment,
                    format!("is not there, or may not be read ({status}{said}); a signed URL may have expired"),
                )
                .with_code(Code::NoPermission)
                .not_found(),
            ),
            // Buckets answer 403, not 404, for a missing name if the caller may not list.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::denied(match provider {
                Some(Provider { credentials, unsigned, bucket, .. }) => format!(
                    "may not be read, if it is there ({status}{said}); check {credentials}, or set {unsigned} for a public {bucket}"
                ),
                None => format!("may not be read ({status}{said}); a signed URL may have expired"),
            }),
            StatusCode::PRECONDITION_FAILED => Failure::changed("its ETag is another"),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let total = self.span().and_then(|span| span.total);
                let same = version.map_or(Ok(()), |version| version.same(total, &Marks::default()));
                same.err().unwrap_or_else(|| Failure::again(format!("answered {status} to a range that is there")))
            }
            _ if status.is_redirection() => self.elsewhere(&said),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => self.busy(&said),
            StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
                Failure::refused(format!("the server answered {status}{said}"))
            }
            _ if status.is_server_error() || status.is_success() => self.busy(&said),
            _ => Failure::refused(format!("the server answered {status}{said}")),
        }
    }

    /// A redirect without a location, as S3 sends it for a bucket in another region.
    fn elsewhere(&self, said: &str) -> Failure {
        let region = text(&self.headers, &HeaderName::from_static("x-amz-bucket-region"));
        let advice = region.map(|region| format!("; set AWS_REGION={region}")).unwrap_or_default();
        Failure::refused(format!("is elsewhere, and the server does not say where ({}{said}){advice}", self.status))
    }

    /// The failure of a request that the server refused because of its time.
    pub(crate) fn skewed(&self, said: &str) -> Option<Failure> {
        let server = text(&self.headers, &DATE).map(|date| format!(", whose clock says {date}")).unwrap_or_default();
        let why = format!("the clock of this machine differs too much from that of the server{server} ({said})");
        let error =
            Error::new(Kind::Environment, why).with_code(Code::RemoteFailed).hint("set the clock of this machine");
        said.starts_with("RequestTimeTooSkewed").then_some(Failure::Final(error))
    }

    fn busy(&self, said: &str) -> Failure {
        Failure::Again { why: format!("the server answered {}{said}", self.status), after: self.retry_after() }
    }

    fn retry_after(&self) -> Option<Duration> {
        let text = text(&self.headers, &RETRY_AFTER)?;
        match text.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            // A past date means no wait. By the server's clock: that of this machine may be off.
            Err(_) => Some(parse_http_date(&text).ok()?.duration_since(self.time()).unwrap_or_default()),
        }
    }

    /// When the server answered, by its own clock if it tells.
    fn time(&self) -> SystemTime {
        let date = text(&self.headers, &DATE).and_then(|date| parse_http_date(&date).ok());
        date.unwrap_or_else(SystemTime::now)
    }

    fn length(&self) -> Option<u64> {
        text(&self.headers, &CONTENT_LENGTH)?.parse().ok()
    }

    /// Parses `bytes 0-9/100`, `bytes 0-9/*` and `bytes */100`; the returned end is exclusive.
    fn span(&self) -> Option<Span> {
        let text = text(&self.headers, &CONTENT_RANGE)?;
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let total = if total == "*" { None } else { Some(total.parse().ok()?) };
        if range == "*" {
            return Some(Span { range: None, total });
        }
        let (start, last) = range.split_once('-')?;
        let (start, end) = (start.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?);
        (start < end && total.is_none_or(|total| end <= total)).then_some(Span { range: Some((start, end)), total })
    }
}

/// Code and message of an object store's error body.
pub(crate) fn said(body: &str) -> String {
    let part = |tag: &str| {
        let (_, rest) = body.split_once(&format!("<{tag}>"))?;
        // Azure's messages have lines with the number and the time of the request.
        let text = rest.split_once("</").map(|(text, _)| text.trim().lines().next().unwrap_or_default());
        text.map(|text| text.chars().take(200).collect::<String>())
    };
    match (part("Code"), part("Message")) {
        (Some(code), Some(message)) if !message.is_empty() && message != code => format!("{code}: {message}"),
        (Some(code), _) => code,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn reply(status: u16, headers: &[(&'static str, &str)]) -> Reply {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        Reply { status: StatusCode::from_u16(status).unwrap(), headers: headers.iter().map(header).collect() }
    }

    fn version(len: u64) -> Version {
        Version { len, marks: Marks { etag: Some("\"a\"".into()), modified: None } }
    }

    #[test]
    fn bodies_must_match_the_request() {
        let body = |range: &str, length: &str| {
            let headers = [("content-range", range), ("content-length", length), ("etag", "\"a\"")];
            reply(206, &headers).body(&(10..20), &version(100), false)
        };
        assert_eq!(body("bytes 10-19/100", "10").unwrap(), 10..20);
        assert_eq!(body("bytes 10-14/100", "5").unwrap(), 10..15);
        assert_eq!(body("bytes 10-19/*", "10").unwrap(), 10..20);
        for (range, length) in [
            ("bytes 10-19/100", "9"),
            ("bytes 10-19/100", "11"),
            ("bytes 11-19/100", "9"),
            ("bytes 0-9/100", "10"),
            ("bytes 10-20/100", "11"),
            ("bytes 19-10/100", "10"),
            ("bytes 10-18446744073709551615/100", "10"),
            ("bytes */100", "10"),
            ("10-19/100", "10"),
            ("bytes 10-19", "10"),
            ("bytes 10-19/99", "10"),
        ] {
            assert!(matches!(body(range, length), Err(Failure::Again { .. })), "{range}");
        }
        let other = reply(206, &[("content-range", "bytes 10-19/99"), ("etag", "\"b\"")]);
        let Err(Failure::Final(error)) = other.body(&(10..20), &version(100), false) else { panic!() };
        assert_eq!(error.kind(), Kind::Changed);
    }

    #[test]
    fn a_whole_file_is_accepted_if_small() {
        let whole = reply(200, &[("content-length", "100")]);
        assert_eq!(whole.body(&(0..100), &version(100), false).unwrap(), 0..100);
        assert_eq!(whole.body(&(10..20), &version(100), true).unwrap(), 0..100);
        assert!(matches!(whole.body(&(10..20), &version(100), false), Err(Failure::Again { .. })));
        let huge = reply(200, &[("content-length", "100000000000")]);
        let Err(Failure::Final(error)) = huge.body(&(10..20), &version(100_000_000_000), true) else { panic!() };
        assert_eq!(error.kind(), Kind::Unsupported);
        let short = reply(200, &[("content-length", "99")]).body(&(0..100), &version(100), false);
        assert!(matches!(short, Err(Failure::Again { .. })));
    }

    #[test]
    fn retry_after_is_parsed() {
        let after = |text: &str| reply(503, &[("retry-after", text)]).retry_after();
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert!(after("Sat, 06 Nov 2500 08:49:37 GMT") > Some(Duration::from_secs(1 << 30)));
        assert_eq!(after("soon"), None);
        let dates = [("retry-after", "Sat, 06 Nov 2500 08:49:37 GMT"), ("date", "Sat, 06 Nov 2500 08:49:30 GMT")];
        assert_eq!(reply(503, &dates).retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_clock_that_is_off_is_named() {
        let reply = reply(403, &[("date", "Sat, 06 Nov 2500 08:49:37 GMT")]);
        let Failure::Final(error) = reply.refusal("RequestTimeTooSkewed: too large", None, None) else { panic!() };
        assert!(error.text().contains("clock says Sat, 06 Nov 2500") && !error.is_denied(), "{error}");
        assert!(reply.skewed("AccessDenied").is_none());
    }

    #[test]
    fn s3_error_codes_are_shown() {
        let body =
            "<?xml?><Error><Code>AccessDenied</Code><Message>Access Denied</Message><RequestId>4</RequestId></Error>";
        assert_eq!(said(body), "AccessDenied: Access Denied");
        assert_eq!(said("<html>"), "");
        // A bucket answers so for a missing name, too; of a file that was there, it is a denial.
        let Failure::Final(error) = reply(403, &[]).refusal("AccessDenied", None, None) else { panic!() };
        assert_eq!(error.errno(), Some(libc::ENOENT));
        let version = Version { len: 1, marks: Marks::default() };
        let Failure::Final(error) = reply(403, &[]).refusal("AccessDenied", Some(&version), None) else { panic!() };
        assert_eq!(error.errno(), Some(libc::EACCES));
        let Failure::Final(error) = reply(301, &[("x-amz-bucket-region", "eu-west-1")]).refusal("", None, None) else {
            panic!()
        };
        assert!(error.message().ends_with("; set AWS_REGION=eu-west-1"), "{error}");
        let Failure::Final(error) = reply(404, &[]).refusal("", None, None) else { panic!() };
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }

    #[test]
    fn transfer_compression_is_refused() {
        assert!(reply(206, &[("content-encoding", "gzip")]).plain(false).is_err());
        assert!(reply(206, &[("content-encoding", "gzip")]).plain(true).is_ok());
        assert!(reply(206, &[("content-encoding", "identity")]).plain(false).is_ok());
    }
}
