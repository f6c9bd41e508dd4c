//! What a server does wrong.

use super::Asked;
use std::time::Duration;

/// What happens to one request. "Half" is half of the body that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The right answer, so much later.
    Late(Duration),
    /// The connection is reset before anything is said.
    ResetFirst,
    /// The connection is reset after half of the body.
    ResetInBody,
    /// An answer with this status, and nothing but words in it.
    Status(u16),
    /// An answer with this status, and this in it.
    Say(u16, String),
    /// The same as `Status`, with `Retry-After`.
    RetryAfter(u16, String),
    /// The connection ends after half of the body, without a reset.
    Cut,
    /// Half of the body, under a `Content-Length` that agrees with it; `Content-Range` is as if all were there.
    Short,
    /// 200 and the whole file for a range.
    Whole,
    /// 200 and the whole file for a range, and `Accept-Ranges: none`.
    NoRanges,
    /// `Content-Range` begins one byte late, and so does the body, which is one byte shorter.
    LateStart,
    /// The bytes of another range than `Content-Range` says: one byte later. Nothing but a digest finds it.
    OtherStart,
    /// `Content-Range` (or `Content-Length` of a whole file) tells of another size of the file.
    OtherTotal,
    /// Ten bytes too many, under a `Content-Length` that agrees with them.
    Long,
    /// Nothing is said for so long; then the connection ends.
    Stall(Duration),
    /// Nothing more comes after half of the body for so long; then the connection ends.
    StallInBody(Duration),
    /// So many bytes at a time, with so long a wait after each.
    Drip(usize, Duration),
    /// A first line that is none.
    Garbage,
    /// 302 to a name at which the same file is.
    Redirect,
    /// 302 to itself.
    RedirectLoop,
    /// Another `ETag`, and `If-Match` is not looked at.
    OtherEtag,
    /// No `ETag`.
    NoMarks,
    /// 200, `Content-Length: 0`, and no `ETag`.
    Empty,
    /// The right bytes in chunks, without a length.
    Chunked,
    /// Half of the bytes in chunks, rightly ended.
    ChunkedShort,
    /// Half of the bytes in chunks, and no end.
    ChunkedCut,
    /// All bytes in chunks, and no end.
    ChunkedOpen,
    /// Ten bytes too many in chunks.
    ChunkedLong,
    /// `Content-Encoding: gzip`, as of a server that compresses what it sends.
    Gzip,
}

impl Fault {
    /// This one for `HEAD`, none for others.
    pub fn of_head(self, asked: &Asked<'_>) -> Self {
        if asked.head { self } else { Fault::None }
    }

    /// This one for `GET`, none for `HEAD`.
    pub fn of_get(self, asked: &Asked<'_>) -> Self {
        if asked.head { Fault::None } else { self }
    }
}
