//! An in-process S3 server over a folder: `s3s` and `s3s-fs`, which share no code with the client under test.
//!
//! Buckets are the folders below the root; their names need at least three characters.

use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::runtime::{self, Runtime};

/// The accepted access key.
pub const ACCESS_KEY: &str = "AKEXAMPLE";
/// Its secret.
pub const SECRET_KEY: &str = "hush-hush-hush";

/// A server on its own port, until dropped.
pub struct Server {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves the buckets below `root` to clients with the key.
    pub fn new(root: impl AsRef<Path>) -> Self {
        Self::with(root, true)
    }

    /// Serves the buckets below `root` to unsigned requests.
    pub fn public(root: impl AsRef<Path>) -> Self {
        Self::with(root, false)
    }

    fn with(root: impl AsRef<Path>, keyed: bool) -> Self {
        let mut service = S3ServiceBuilder::new(FileSystem::new(root.as_ref()).unwrap());
        if keyed {
            service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        }
        let service = service.build();
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = Builder::new(hyper_util::rt::TokioExecutor::new());
                    // The client may disconnect.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, runtime: Some(runtime) }
    }

    /// The client settings, named as in the environment.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let endpoint = format!("http://{}", self.address);
        let settings = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
