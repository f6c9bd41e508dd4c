//! A server that fails: it stands before another one and loses, cuts and refuses some of the requests and answers.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server gets it, and the client the answer.
    Nothing,
    /// This status and code of S3; the server does not get it.
    Refused(u16, &'static str),
    /// The connection breaks before the server gets it.
    LostRequest,
    /// There is no answer for so many milliseconds, and then none at all; the server does not get it.
    Silence(u64),
    /// The server does it, and the client never hears.
    LostAnswer,
    /// The client gets the first half of the answer.
    CutAnswer,
    /// The answer is of a server whose clock is years ahead.
    OtherClock,
    /// If it is a listing, it lacks all objects that were written through the proxy.
    LateListing,
}

/// The date of a server whose clock is years ahead.
const AHEAD: &str = "Date: Sat, 06 Nov 2060 08:49:37 GMT";

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    faults: AtomicU64,
    stopped: AtomicBool,
    /// The keys of objects that were written.
    written: Mutex<BTreeSet<String>>,
    /// What was asked for when a fault was met.
    met: Mutex<Vec<String>>,
    /// What the server itself failed at.
    broken: Mutex<Vec<String>>,
    faults_of: Mutex<Option<Arc<Faults>>>,
}

/// The fault of each request, by its number from 0.
type Faults = dyn Fn(u64) -> Fault + Send + Sync;

impl Shared {
    /// The fault of the next request.
    fn next(&self) -> Fault {
        let faults = self.faults_of.lock().unwrap().clone();
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        faults.map_or(Fault::Nothing, |faults| faults(number))
    }
}

/// A proxy on its own port, until dropped.
pub(crate) struct Proxy {
    /// Its host and port.
    pub(crate) address: String,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Before `server`; fails one request in so many hundred.
    pub(crate) fn new(server: &str, percent: u64) -> Self {
        Self::with(server, move |number| at_random(number, percent))
    }

    /// Before `server`, with these faults.
    pub(crate) fn with(server: &str, faults: impl Fn(u64) -> Fault + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = Self { address, shared: Arc::default() };
        proxy.begin(faults);
        let (theirs, server) = (proxy.shared.clone(), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                if theirs.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (client, shared, server) = (client.unwrap(), theirs.clone(), server.clone());
                // Clients may break off.
                thread::spawn(move || drop(one(client, &server, &shared)));
            }
        });
        proxy
    }

    /// Counts from 0 again, with other faults.
    pub(crate) fn begin(&self, faults: impl Fn(u64) -> Fault + Send + Sync + 'static) {
        *self.shared.faults_of.lock().unwrap() = Some(Arc::new(faults));
        [&self.shared.requests, &self.shared.faults].iter().for_each(|count| count.store(0, Ordering::SeqCst));
        self.shared.met.lock().unwrap().clear();
        self.shared.broken.lock().unwrap().clear();
        self.shared.written.lock().unwrap().clear();
    }

    /// Requests so far, and how many of them met a fault.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.shared.requests.load(Ordering::SeqCst), self.shared.faults.load(Ordering::SeqCst))
    }

    /// The requests that met a fault, as `PUT /bucket/key`.
    pub(crate) fn met(&self) -> Vec<String> {
        self.shared.met.lock().unwrap().clone()
    }

    /// The requests that the server answered with an error of its own, or not at all.
    pub(crate) fn broken(&self) -> Vec<String> {
        self.shared.broken.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(&self.address);
    }
}

/// One request a connection.
fn one(mut client: TcpStream, server: &str, shared: &Shared) -> std::io::Result<()> {
    let Some(request) = read_request(&mut client)? else { return Ok(()) };
    let line = String::from_utf8_lossy(request.split(|b| *b == b'\r').next().unwrap_or_default()).into_owned();
    let fault = shared.next();
    let is_listing = line.starts_with("GET") && line.contains("list-type=");
    if fault != Fault::Nothing && (fault != Fault::LateListing || is_listing) {
        shared.faults.fetch_add(1, Ordering::SeqCst);
        shared.met.lock().unwrap().push(line.trim_end_matches(" HTTP/1.1").to_owned());
    }
    let answered = || -> std::io::Result<Vec<u8>> {
        let answer = answer(server, &request);
        let failed = match &answer {
            Ok(bytes) if bytes.is_empty() => Some("no answer".to_owned()),
            Ok(bytes) if bytes.starts_with(b"HTTP/1.1 500") => Some(String::from_utf8_lossy(bytes).into_owned()),
            Ok(_) => None,
            Err(e) => Some(e.to_string()),
        };
        shared.broken.lock().unwrap().extend(failed.map(|failed| format!("{line}: {failed}")));
        let answer = answer?;
        shared.written.lock().unwrap().extend(written(&line, &answer));
        Ok(answer)
    };
    match fault {
        Fault::Nothing => client.write_all(&answered()?),
        Fault::Refused(status, code) => client.write_all(&refusal(&line, status, code)),
        Fault::LostRequest => Ok(()),
        Fault::Silence(time) => {
            thread::sleep(Duration::from_millis(time));
            Ok(())
        }
        Fault::LostAnswer => answered().map(drop),
        Fault::CutAnswer => {
            let answer = answered()?;
            client.write_all(&answer[..answer.len() / 2])
        }
        Fault::OtherClock => client.write_all(&at_another_time(&answered()?)),
        Fault::LateListing if is_listing => {
            let answer = answered()?;
            client.write_all(&without(&answer, &shared.written.lock().unwrap()))
        }
        Fault::LateListing => client.write_all(&answered()?),
    }
}

fn at_random(number: u64, percent: u64) -> Fault {
    let mut random = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    random ^= random >> 29;
    random = random.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    random ^= random >> 32;
    match (random % 100 < percent, (random >> 16) % 4) {
        (false, _) => Fault::Nothing,
        (true, 0) => Fault::Refused(503, ""),
        (true, 1) => Fault::LostRequest,
        (true, 2) => Fault::LostAnswer,
        (true, _) => Fault::CutAnswer,
    }
}

/// An answer with this status, and with an error of S3 if there is a code; an answer to `HEAD` has no body.
fn refusal(line: &str, status: u16, code: &str) -> Vec<u8> {
    let body = match code.is_empty() || line.starts_with("HEAD") {
        true => String::new(),
        false => format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>by the test</Message></Error>"),
    };
    let length = body.len();
    format!("HTTP/1.1 {status} No\r\n{AHEAD}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// The key of the object that a successful request wrote.
fn written(line: &str, answer: &[u8]) -> Option<String> {
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let whole = match method {
        "PUT" => !query.contains("partNumber="),
        "POST" => query.contains("uploadId="),
        _ => false,
    };
    let (_, key) = path.trim_start_matches('/').split_once('/')?;
    (whole && answer.starts_with(b"HTTP/1.1 200")).then(|| key.replace("%2F", "/"))
}

/// A listing without these objects.
fn without(answer: &[u8], keys: &BTreeSet<String>) -> Vec<u8> {
    let text = String::from_utf8_lossy(answer).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return answer.to_owned() };
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    let mut parts = body.split("<Contents>");
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entry, rest) = part.split_once("</Contents>").unwrap_or((part, ""));
        let key = entry.split_once("<Key>").and_then(|(_, rest)| rest.split_once("</Key>")).map(|(key, _)| key);
        if !key.is_some_and(|key| keys.contains(&key.replace("%2F", "/"))) {
            left.push_str(&format!("<Contents>{entry}</Contents>"));
        }
        left.push_str(rest);
    }
    let lines = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
    let head = lines.collect::<Vec<_>>().join("\r\n");
    format!("{head}\r\nContent-Length: {}\r\n\r\n{left}", left.len()).into_bytes()
}

/// An answer with another date.
fn at_another_time(answer: &[u8]) -> Vec<u8> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return answer.to_owned() };
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let lines = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("date:"));
    let head = lines.chain([AHEAD]).collect::<Vec<_>>().join("\r\n");
    [head.as_bytes(), &answer[end..]].concat()
}

/// Head and body; `None` for a connection without a request.
pub(crate) fn read_request(client: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match client.read(&mut piece)? {
            0 => return Ok(None),
            n => bytes.extend_from_slice(&piece[..n]),
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    while bytes.len() < head + length.unwrap_or(0) {
        match client.read(&mut piece)? {
            0 => return Ok(None),
            n => bytes.extend_from_slice(&piece[..n]),
        }
    }
    // The connection ends with the answer.
    bytes.splice(head - 2..head - 2, *b"Connection: close\r\n");
    Ok(Some(bytes))
}

/// The answer of `server` to a request.
pub(crate) fn answer(server: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}
