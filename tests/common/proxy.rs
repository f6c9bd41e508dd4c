//! A server that fails: it stands before another one and loses, cuts and refuses some of the requests and answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// What happens to a request.
enum Fault {
    /// The server gets it, and the client the answer.
    Nothing,
    /// `503 Slow Down`; the server does not get it.
    Refused,
    /// The connection breaks before the server gets it.
    LostRequest,
    /// The server does it, and the client never hears.
    LostAnswer,
    /// The client gets the first half of the answer.
    CutAnswer,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    faults: AtomicU64,
    stopped: AtomicBool,
}

/// A proxy on its own port, until dropped.
pub(crate) struct Proxy {
    /// Its host and port.
    pub(crate) address: String,
    counts: Arc<Counts>,
}

impl Proxy {
    /// Before `server`; fails one request in so many hundred.
    pub(crate) fn new(server: &str, percent: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counts = Arc::new(Counts::default());
        let (shared, server) = (counts.clone(), server.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (client, shared, server) = (client.unwrap(), shared.clone(), server.clone());
                // Clients may break off.
                thread::spawn(move || drop(one(client, &server, percent, &shared)));
            }
        });
        Self { address, counts }
    }

    /// Requests so far, and how many of them met a fault.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.counts.requests.load(Ordering::SeqCst), self.counts.faults.load(Ordering::SeqCst))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.counts.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(&self.address);
    }
}

/// One request a connection.
fn one(mut client: TcpStream, server: &str, percent: u64, counts: &Counts) -> std::io::Result<()> {
    let Some(request) = read_request(&mut client)? else { return Ok(()) };
    let number = counts.requests.fetch_add(1, Ordering::SeqCst);
    let fault = fault(number, percent);
    if !matches!(fault, Fault::Nothing) {
        counts.faults.fetch_add(1, Ordering::SeqCst);
    }
    match fault {
        Fault::Nothing => client.write_all(&answer(server, &request)?),
        Fault::Refused => client.write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        Fault::LostRequest => Ok(()),
        Fault::LostAnswer => answer(server, &request).map(drop),
        Fault::CutAnswer => {
            let answer = answer(server, &request)?;
            client.write_all(&answer[..answer.len() / 2])
        }
    }
}

fn fault(number: u64, percent: u64) -> Fault {
    let mut random = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    random ^= random >> 29;
    random = random.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    random ^= random >> 32;
    match (random % 100 < percent, (random >> 16) % 4) {
        (false, _) => Fault::Nothing,
        (true, 0) => Fault::Refused,
        (true, 1) => Fault::LostRequest,
        (true, 2) => Fault::LostAnswer,
        (true, _) => Fault::CutAnswer,
    }
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
