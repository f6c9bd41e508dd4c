//! An object store on this machine: moto, a server in Python.

use packhorse_testkit::external;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of moto with an empty bucket, `bucket`, until dropped.
pub(crate) struct Moto {
    child: Child,
    log: tempfile::NamedTempFile,
    pub(crate) address: String,
}

impl Moto {
    /// Starts it; `None` where it is not installed, and then the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        let python = external::python()?;
        let known = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status().unwrap();
        if !known.success() {
            external::skip("moto is not installed (tests/interop/requirements-heavy.txt)");
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = free.to_string();
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &free.port().to_string()]);
        let log = tempfile::NamedTempFile::new().unwrap();
        let child = command.stdout(Stdio::null()).stderr(log.reopen().unwrap()).spawn().unwrap();
        let moto = Self { child, log, address };
        let answers = || TcpStream::connect(&moto.address).is_ok();
        let waited = |_| {
            std::thread::sleep(Duration::from_millis(50));
            answers()
        };
        assert!(answers() || (0..1200).any(waited), "moto does not answer");
        assert!(moto.request("PUT", "/bucket").starts_with("HTTP/1.1 200"));
        Some(moto)
    }

    /// The client's settings, as environment variables.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let endpoint = format!("http://{}", self.address);
        let settings = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// How many uploads are neither complete nor aborted.
    pub(crate) fn unfinished(&self) -> usize {
        let answer = self.request("GET", "/bucket?uploads");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.matches("<Upload>").count()
    }

    /// The answer to an unsigned request, with its headers.
    fn request(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let traces: Vec<_> = log.lines().filter(|line| !line.contains("\" 20")).collect();
            let last = traces[traces.len().saturating_sub(60)..].join("\n");
            let _ = writeln!(std::io::stderr(), "moto's log: {last}");
        }
    }
}
