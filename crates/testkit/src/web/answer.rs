//! Responses of the server, with or without faults.

use super::request::Request;
use super::{Asked, HttpFault, Shared};
use nix::sys::socket::{setsockopt, sockopt::Linger};
use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Component;
use std::time::Duration;

/// The path prefix under which redirects serve every file again.
const MOVED: &str = "moved-here/";

/// The correct response, before the fault is applied.
struct Due {
    file: File,
    len: u64,
    etag: String,
    /// The range of the file in the body.
    range: Range<u64>,
    partial: bool,
}

/// Responds to a request; `false` if the connection must close.
pub(super) fn give(shared: &Shared, stream: &TcpStream, request: &Request, number: u64) -> io::Result<bool> {
    let head = request.method == "HEAD";
    let path = request.path.strip_prefix(MOVED).unwrap_or(&request.path);
    let safe = std::path::Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
    let file = if safe { File::open(shared.root.join(path)).ok() } else { None };
    let due = file.and_then(|file| due(file, request));
    let range = due.as_ref().and_then(|due| due.partial.then(|| due.range.clone()));
    let (query, referer) = (request.query.as_deref(), request.referer.as_deref());
    let asked = Asked { number, head, path, query, range, referer };
    let fault = (shared.policy)(&asked);
    let answer = Answer { shared, stream, head };
    if let Some(done) = answer.without_file(&fault, request)? {
        return Ok(done);
    }
    let Some(due) = due else { return answer.without_due(path, safe) };
    if request.method != "GET" && !head {
        return answer.words(405, "", "only GET and HEAD");
    }
    let other = fault == HttpFault::OtherEtag;
    if request.if_match.as_ref().is_some_and(|etag| *etag != due.etag) && !other {
        return answer.words(412, "", "another state");
    }
    if due.partial && due.range.is_empty() {
        return answer.words(416, &format!("Content-Range: bytes */{}\r\n", due.len), "no such bytes");
    }
    answer.with_file(&fault, due)
}

/// `None` unless it is a regular file.
fn due(file: File, request: &Request) -> Option<Due> {
    let meta = file.metadata().ok().filter(|meta| meta.is_file())?;
    let len = meta.len();
    let etag = format!("\"{:x}-{:x}-{len:x}\"", meta.mtime(), meta.mtime_nsec());
    let range = request.range(len);
    let partial = range.is_some();
    let range = range.map_or(0..len, |range| range.unwrap_or(0..0));
    Some(Due { file, len, etag, range, partial })
}

struct Answer<'a> {
    shared: &'a Shared,
    stream: &'a TcpStream,
    head: bool,
}

impl Answer<'_> {
    /// Faults that need no file: `Some` if one was sent.
    fn without_file(&self, fault: &HttpFault, request: &Request) -> io::Result<Option<bool>> {
        Ok(Some(match fault {
            HttpFault::Late(time) => {
                self.shared.wait(*time);
                return Ok(None);
            }
            HttpFault::ResetFirst => self.reset()?,
            HttpFault::Status(status) => self.words(*status, "", "so the test wants it")?,
            HttpFault::Say(status, words) => self.words(*status, "", words)?,
            HttpFault::RetryAfter(status, after) => {
                self.words(*status, &format!("Retry-After: {after}\r\n"), "later")?
            }
            HttpFault::Stall(time) => {
                self.shared.wait(*time);
                false
            }
            HttpFault::Garbage => {
                self.send(b"220 mail.example ESMTP at your service\r\n\r\n")?;
                false
            }
            HttpFault::Redirect if !request.path.starts_with(MOVED) => {
                let query = request.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
                self.words(302, &format!("Location: /{MOVED}{}{query}\r\n", request.path), "moved")?
            }
            HttpFault::RedirectLoop => self.words(302, &format!("Location: /{}\r\n", request.path), "moved")?,
            HttpFault::Empty => {
                self.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
                true
            }
            _ => return Ok(None),
        }))
    }

    /// Redirects a folder to its name with a slash, which has a page; 404 for other names.
    fn without_due(&self, path: &str, safe: bool) -> io::Result<bool> {
        match safe && self.shared.root.join(path).is_dir() {
            true if path.is_empty() || path.ends_with('/') => self.words(200, "", "<html>a folder</html>"),
            true => self.words(301, &format!("Location: /{path}/\r\n"), "a folder"),
            false => self.words(404, "", "no such file"),
        }
    }

    fn with_file(&self, fault: &HttpFault, mut due: Due) -> io::Result<bool> {
        let asked = due.range.clone();
        let (mut said, mut total) = (asked.clone(), due.len);
        match fault {
            HttpFault::Whole | HttpFault::NoRanges => {
                (due.partial, due.range) = (false, 0..due.len);
                said = due.range.clone();
            }
            HttpFault::LateStart if due.partial => {
                said.start += 1;
                due.range = said.clone();
            }
            HttpFault::OtherStart => due.range = asked.start + 1..asked.end + 1,
            HttpFault::OtherTotal => total += 7,
            HttpFault::Short | HttpFault::ChunkedShort => due.range.end -= half(&asked),
            HttpFault::Long | HttpFault::ChunkedLong => due.range.end += 10,
            HttpFault::OtherEtag => due.etag = "\"another\"".into(),
            _ => {}
        }
        let mut length = due.range.end - due.range.start;
        if *fault == HttpFault::OtherTotal && !due.partial {
            length = total;
        }
        let headers = headers(fault, &due, &said, total, length);
        self.send(headers.as_bytes())?;
        if self.head { Ok(*fault != HttpFault::OtherTotal) } else { self.body(fault, &due) }
    }

    /// Sends the body with the fault applied.
    fn body(&self, fault: &HttpFault, due: &Due) -> io::Result<bool> {
        let range = due.range.clone();
        let middle = range.end - half(&range);
        match fault {
            HttpFault::ResetInBody => {
                self.bytes(due, range.start..middle, usize::MAX, Duration::ZERO)?;
                self.reset()
            }
            HttpFault::Cut => {
                self.bytes(due, range.start..middle, usize::MAX, Duration::ZERO)?;
                Ok(false)
            }
            HttpFault::StallInBody(time) => {
                self.bytes(due, range.start..middle, usize::MAX, Duration::ZERO)?;
                self.shared.wait(*time);
                Ok(false)
            }
            HttpFault::Drip(bytes, time) => self.bytes(due, range, *bytes, *time).map(|()| true),
            HttpFault::Chunked | HttpFault::ChunkedShort | HttpFault::ChunkedLong => {
                self.chunks(due, range)?;
                self.send(b"0\r\n\r\n")?;
                Ok(true)
            }
            HttpFault::ChunkedCut => {
                self.chunks(due, range.start..middle)?;
                Ok(false)
            }
            HttpFault::ChunkedOpen => self.chunks(due, range).map(|()| false),
            HttpFault::OtherTotal if !due.partial => {
                self.bytes(due, range, usize::MAX, Duration::ZERO)?;
                Ok(false)
            }
            _ => self.bytes(due, range, usize::MAX, Duration::ZERO).map(|()| true),
        }
    }

    fn chunks(&self, due: &Due, range: Range<u64>) -> io::Result<()> {
        for start in range.clone().step_by(10_000) {
            let piece = start..range.end.min(start + 10_000);
            self.send(format!("{:x}\r\n", piece.end - piece.start).as_bytes())?;
            self.bytes(due, piece, usize::MAX, Duration::ZERO)?;
            self.send(b"\r\n")?;
        }
        Ok(())
    }

    /// Sends bytes of the file, zeros past its end, at most `most` at a time.
    fn bytes(&self, due: &Due, range: Range<u64>, most: usize, pause: Duration) -> io::Result<()> {
        let mut buf = vec![0; most.clamp(1, 256 << 10)];
        let mut at = range.start;
        while at < range.end && !self.shared.stopped.load(std::sync::atomic::Ordering::SeqCst) {
            let n = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buf.len());
            let piece = &mut buf[..n];
            let read = due.file.read_at(piece, at)?;
            piece[read..].fill(0);
            self.send(piece)?;
            at += n as u64;
            if !pause.is_zero() {
                self.shared.wait(pause);
            }
        }
        Ok(())
    }

    /// A response without a file.
    fn words(&self, status: u16, headers: &str, words: &str) -> io::Result<bool> {
        let body = if self.head { "" } else { words };
        let text = format!("HTTP/1.1 {status} Test\r\n{headers}Content-Length: {}\r\n\r\n{body}", words.len());
        self.send(text.as_bytes())?;
        Ok(true)
    }

    /// Resets the connection.
    fn reset(&self) -> io::Result<bool> {
        // The reset happens when the serving thread drops the socket.
        setsockopt(self.stream, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 })?;
        Ok(false)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.stream).write_all(bytes)
    }
}

/// Half of a range, at least one byte if there is one.
fn half(range: &Range<u64>) -> u64 {
    (range.end - range.start).div_ceil(2)
}

fn headers(fault: &HttpFault, due: &Due, said: &Range<u64>, total: u64, length: u64) -> String {
    let mut text = String::from(if due.partial { "HTTP/1.1 206 Partial Content\r\n" } else { "HTTP/1.1 200 OK\r\n" });
    text += if *fault == HttpFault::NoRanges { "Accept-Ranges: none\r\n" } else { "Accept-Ranges: bytes\r\n" };
    if due.partial {
        let last = said.end.saturating_sub(1);
        text += &format!("Content-Range: bytes {}-{last}/{total}\r\n", said.start);
    }
    if *fault != HttpFault::NoMarks {
        text += &format!("ETag: {}\r\n", due.etag);
    }
    if *fault == HttpFault::Gzip {
        text += "Content-Encoding: gzip\r\n";
    }
    match fault {
        HttpFault::Chunked
        | HttpFault::ChunkedShort
        | HttpFault::ChunkedCut
        | HttpFault::ChunkedOpen
        | HttpFault::ChunkedLong => text + "Transfer-Encoding: chunked\r\n\r\n",
        _ => text + &format!("Content-Length: {length}\r\n\r\n"),
    }
}
