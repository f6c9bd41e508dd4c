//! A web server in the process: gives out a folder, with ranges, `HEAD`, `ETag`s and `If-Match`; and does wrong what a
//! test wants.
//!
//! ```no_run
//! use packhorse_testkit::web::{Fault, Server};
//! // Every fifth request is reset in its body.
//! let server = Server::new("folder", |asked| if asked.number % 5 == 4 { Fault::ResetInBody } else { Fault::None });
//! let url = server.url("train-000000.tar");
//! ```

mod answer;
mod fault;
mod request;

pub use fault::Fault;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One request, as a policy of faults sees it.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// How many requests came before.
    pub number: u64,
    /// `HEAD` rather than `GET`.
    pub head: bool,
    /// The path, decoded, without a slash before it and without the query.
    pub path: &'a str,
    /// The query, if there is one.
    pub query: Option<&'a str>,
    /// What `Range` asks for, as far as the file goes.
    pub range: Option<Range<u64>>,
}

type Policy = Box<dyn Fn(&Asked<'_>) -> Fault + Send + Sync>;

/// A server on a port of its own, until it is dropped.
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
    /// Gives out the files below `root`; `policy` says for each request what goes wrong.
    pub fn new(root: impl AsRef<Path>, policy: impl Fn(&Asked<'_>) -> Fault + Send + Sync + 'static) -> Self {
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

    /// Without faults.
    pub fn honest(root: impl AsRef<Path>) -> Self {
        Self::new(root, |_| Fault::None)
    }

    /// The URL of a path below the root. `path` is taken as it is: what must be encoded already is.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
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

/// A URL at which nobody answers: its port was free a moment ago.
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
                // A client that is gone is no fault of ours.
                let _ = shared.serve(&stream);
            });
        }
    }

    /// All requests of a connection, which is closed when the last handle of it is dropped.
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

    /// Waits, but not for a server that is gone.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stopped.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5).min(end.saturating_duration_since(Instant::now())));
        }
    }
}
