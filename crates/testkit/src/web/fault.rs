//! The faults of the server.

use super::Asked;
use std::time::Duration;

/// A fault of one response. "Half" is half of the correct body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpFault {
    /// No fault.
    None,
    /// The correct response after a delay.
    Late(Duration),
    /// A connection reset before the response.
    ResetFirst,
    /// A connection reset after half of the body.
    ResetInBody,
    /// This status with a short text.
    Status(u16),
    /// This status with this text.
    Say(u16, String),
    /// Like `Status`, with `Retry-After`.
    RetryAfter(u16, String),
    /// The connection closes after half of the body.
    Cut,
    /// Half of the body with a matching `Content-Length`; `Content-Range` claims all of it.
    Short,
    /// 200 with the whole file for a range.
    Whole,
    /// 200 with the whole file for a range, and `Accept-Ranges: none`.
    NoRanges,
    /// `Content-Range` and body start one byte late; the body is one byte shorter.
    LateStart,
    /// The body is shifted by one byte against `Content-Range`. Only a digest can detect it.
    OtherStart,
    /// `Content-Range`, or `Content-Length` of a whole file, claims another file size.
    OtherTotal,
    /// Ten extra bytes with a matching `Content-Length`.
    Long,
    /// No response for this time; then the connection closes.
    Stall(Duration),
    /// No more bytes after half of the body for this time; then the connection closes.
    StallInBody(Duration),
    /// This many bytes at a time, with this pause after each.
    Drip(usize, Duration),
    /// An invalid status line.
    Garbage,
    /// 302 to another URL of the same file.
    Redirect,
    /// 302 to itself.
    RedirectLoop,
    /// Another `ETag`; `If-Match` is ignored.
    OtherEtag,
    /// No `ETag`.
    NoMarks,
    /// 200, `Content-Length: 0`, and no `ETag`.
    Empty,
    /// The correct bytes with chunked encoding.
    Chunked,
    /// Half of the bytes with chunked encoding, properly terminated.
    ChunkedShort,
    /// Half of the bytes with chunked encoding, not terminated.
    ChunkedCut,
    /// All bytes with chunked encoding, not terminated.
    ChunkedOpen,
    /// Ten extra bytes with chunked encoding.
    ChunkedLong,
    /// `Content-Encoding: gzip`, as from a compressing server.
    Gzip,
}

impl HttpFault {
    /// This fault for `HEAD` only.
    pub fn of_head(self, asked: &Asked<'_>) -> Self {
        if asked.head { self } else { HttpFault::None }
    }

    /// This fault for `GET` only.
    pub fn of_get(self, asked: &Asked<'_>) -> Self {
        if asked.head { HttpFault::None } else { self }
    }
}
