//! `--metrics ADDR`: serves the counters of a job while it runs, as
//! [Prometheus](https://prometheus.io/docs/instrumenting/exposition_formats/) reads them (text, version 0.0.4).
//!
//! A listener of the standard library and one thread are all that one page needs: a crate for web servers would be as long to
//! build as the rest of the command line. Requests are taken one after another; each has two seconds to arrive, at most 8 KiB, and ends with
//! its connection, so a client that is slow or hostile costs the job nothing and other clients a few seconds.

use packhorse_core::{Error, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most bytes of a request.
const REQUEST: usize = 8 << 10;

/// The time of a connection.
const TIME: Duration = Duration::from_secs(2);

/// How often the thread looks for a connection, and whether the job is over.
const LOOK: Duration = Duration::from_millis(20);

/// Serves until it is dropped: its thread ends soon after, once it has answered a client that it is busy with.
pub(crate) struct MetricsServer {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl MetricsServer {
    /// Serves what `text` returns at `address`.
    ///
    /// Errors (kind `Config`): no address, or one that can't be listened at.
    pub(crate) fn start(address: &str, text: impl Fn() -> String + Send + 'static) -> Result<Self> {
        let failed = |error: std::io::Error| {
            let message = format!("--metrics {address} can't be served: {error}");
            Error::config(message).hint("give an address of this machine and a free port, such as 127.0.0.1:9400")
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (address, over) = (listener.local_addr().map_err(failed)?, Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        let serve = move || {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A client that goes away is of no concern.
                    Ok((client, _)) => drop(answer(client, &text)),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        };
        let thread = std::thread::Builder::new().name("packhorse-metrics".to_owned());
        thread.spawn(serve).map_err(Error::thread)?;
        Ok(Self { address, over })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Reads one request and answers it.
fn answer(mut client: TcpStream, text: &impl Fn() -> String) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(TIME))?;
    let request = request(&mut client)?;
    let (status, body) = match &request[..] {
        [] => ("400 Bad Request", String::new()),
        [method, ..] if method != "GET" && method != "HEAD" => ("405 Method Not Allowed", String::new()),
        [_, path, ..] if path == "/metrics" || path.starts_with("/metrics?") => ("200 OK", text()),
        _ => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    if request.first().is_none_or(|method| method != "HEAD") {
        client.write_all(body.as_bytes())?;
    }
    client.flush()
}

/// The words of a request's first line; none of a request that is not HTTP, or too long.
fn request(client: &mut TcpStream) -> std::io::Result<Vec<String>> {
    let (mut bytes, mut piece, start) = (Vec::new(), [0; 1024], Instant::now());
    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = TIME.saturating_sub(start.elapsed());
        if left.is_zero() || bytes.len() > REQUEST {
            return Ok(Vec::new());
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut piece)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(piece.get(..n).unwrap_or_default()),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let first = text.lines().next().unwrap_or_default();
    let words: Vec<String> = first.split(' ').map(str::to_owned).collect();
    Ok(if words.len() == 3 && first.contains(" HTTP/1.") { words } else { Vec::new() })
}
