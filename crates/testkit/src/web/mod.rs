//! An in-process web server for a folder, with ranges, `HEAD`, `ETag` and `If-Match`, and injected faults.
//!
//! ```no_run
//! use packhorse_testkit::web::{HttpFault, Server};
// Every fifth response is reset in its body.
//! let server = Server::new("folder", |asked| if asked.number % 5 == 4 { HttpFault::ResetInBody } else { HttpFault::None });
//! let url = server.url("train-000000.tar");
//! ```

mod answer;
mod fault;
mod request;

pub use fault::HttpFault;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A request, as seen by the fault policy.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The number of earlier requests.
    pub number: u64,
    /// `HEAD` rather than `GET`.
    pub head: bool,
    /// The decoded path without a leading slash and query.
    pub path: &'a str,
    /// The query, if there is one.
    pub query: Option<&'a str>,
    /// The requested range, clipped to the file.
    pub range: Option<Range<u64>>,
    /// The URL that the client says it came from.
    pub referer: Option<&'a str>,
}

type Policy = Box<dyn Fn(&Asked<'_>) -> HttpFault + Send + Sync>;

/// A server on its own port, until dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    root: PathBuf,
    policy: Policy,
    requests: AtomicU64,
    stopped: AtomicBool,
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Server {
    /// Serves the files below `root`; `policy` chooses the fault of each response.
    pub fn new(root: impl AsRef<Path>, policy: impl Fn(&Asked<'_>) -> HttpFault + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            root: root.as_ref().to_owned(),
            policy: Box::new(policy),
            requests: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let accepting = std::thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        Self { shared, address, accepting: Some(accepting) }
    }

    /// A server without faults.
    pub fn honest(root: impl AsRef<Path>) -> Self {
        Self::new(root, |_| HttpFault::None)
    }

    /// The URL of a path below the root; `path` must already be percent-encoded.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(stream) = stream.upgrade() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

/// A URL with no listener: its port was free a moment ago.
pub fn dead_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/x", listener.local_addr().unwrap())
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.stopped.load(Ordering::SeqCst) {
                return;
            }
            let stream = Arc::new(stream);
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|stream| stream.strong_count() > 0);
            open.push(Arc::downgrade(&stream));
            drop(open);
            let shared = self.clone();
            std::thread::spawn(move || {
                // The client may disconnect.
                let _ = shared.serve(&stream);
            });
        }
    }

    /// Serves all requests of a connection.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = io::BufReader::new(stream);
        while let Some(request) = request::read(&mut reader)? {
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            if !answer::give(self, stream, &request, number)? {
                break;
            }
        }
        Ok(())
    }

    /// Sleeps, but stops early when the server is dropped.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stopped.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5).min(end.saturating_duration_since(Instant::now())));
        }
    }
}
