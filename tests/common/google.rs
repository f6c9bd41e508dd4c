//! A stand-in for Google Cloud Storage, whose XML interface is that of S3 for most requests: moto behind a relay that
//! wants the token and the MD5 of bodies, and tells the CRC-32C of objects.

use super::moto::Moto;
use super::proxy::{answer, read_request};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TOKEN: &str = "hush-hush";

/// A server with an empty bucket, `bucket`, until dropped.
pub(crate) struct Google {
    moto: Moto,
    address: String,
    stopped: Arc<AtomicBool>,
}

impl Google {
    /// Starts it; `None` where moto is not installed, and then the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        let moto = Moto::new()?;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stopped = Arc::new(AtomicBool::new(false));
        let (server, stop) = (moto.address.clone(), stopped.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let (client, server) = (client.unwrap(), server.clone());
                // Clients may break off.
                thread::spawn(move || drop(one(client, &server)));
            }
        });
        Some(Self { moto, address, stopped })
    }

    /// The client's settings, as environment variables.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let settings = [("GOOGLE_BASE_URL", format!("http://{}", self.address)), ("GOOGLE_BEARER_TOKEN", TOKEN.into())];
        settings.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// How many uploads are neither complete nor aborted.
    pub(crate) fn unfinished(&self) -> usize {
        self.moto.unfinished()
    }
}

impl Drop for Google {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(&self.address);
    }
}

/// One request a connection.
fn one(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    let Some(request) = read_request(&mut client)? else { return Ok(()) };
    let head = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(request.len());
    let (text, body) = (String::from_utf8_lossy(&request[..head]).into_owned(), request.len() - head - 4);
    let header = |name: &str| text.lines().any(|line| line.to_ascii_lowercase().starts_with(name));
    let allowed = text.lines().any(|line| line.eq_ignore_ascii_case(&format!("authorization: Bearer {TOKEN}")));
    if !allowed {
        return refuse(&mut client, "401 Unauthorized", "AuthenticationRequired");
    }
    if text.starts_with("PUT ") && body > 0 && !header("content-md5:") {
        return refuse(&mut client, "400 Bad Request", "MissingDigest");
    }
    let mut given = answer(server, &request)?;
    if text.starts_with("HEAD ") && given.starts_with(b"HTTP/1.1 200") {
        let whole = answer(server, &[b"GET ", &request[5..]].concat())?;
        let start = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_default() + 4;
        let hash = format!("x-goog-hash: crc32c={}\r\n", base64(packhorse::core::crc32c(&whole[start..])));
        let line = given.windows(2).position(|two| two == b"\r\n").unwrap_or_default() + 2;
        given.splice(line..line, hash.into_bytes());
    }
    client.write_all(&given)
}

fn refuse(client: &mut TcpStream, status: &str, code: &str) -> std::io::Result<()> {
    let body = format!("<?xml version='1.0'?><Error><Code>{code}</Code></Error>");
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    client.write_all(format!("{head}{body}").as_bytes())
}

/// Four bytes, the highest first, in Base64.
fn base64(number: u32) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u64::from(number) << 4;
    let digit = |at: u32| char::from(digits[(bits >> (30 - 6 * at)) as usize & 63]);
    (0..6).map(digit).chain(['=', '=']).collect()
}
