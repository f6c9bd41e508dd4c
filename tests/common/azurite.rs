//! An object store on this machine: Azurite, Microsoft's emulator of Azure Blob Storage, which checks signatures.

use packhorse_testkit::external;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The one account that Azurite knows, and its key, both as in Microsoft's documentation.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Creates the container `bucket`: the program under test never does that.
const CREATE: &str = r"
const [address, account, key] = process.argv.slice(1);
const own = { 'x-ms-date': new Date().toUTCString(), 'x-ms-version': '2023-11-03' };
const named = Object.entries(own).map(([name, value]) => `${name}:${value}`).join('\n');
const text = ['PUT', ...Array(11).fill(''), named, `/${account}/${account}/bucket`, 'restype:container'].join('\n');
const signature = require('crypto').createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest('base64');
const headers = { ...own, authorization: `SharedKey ${account}:${signature}` };
fetch(`http://${address}/${account}/bucket?restype=container`, { method: 'PUT', headers })
  .then(answer => process.exit(answer.status === 201 ? 0 : 1));
";

/// A server of Azurite with an empty container, `bucket`, until dropped.
pub(crate) struct Azurite {
    child: Child,
    address: String,
}

impl Azurite {
    /// Starts it; `None` where it is not installed, and then the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        let program: PathBuf = external::azurite()?;
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = free.to_string();
        let mut command = Command::new("node");
        command.arg(program).args(["--blobPort", &free.port().to_string()]);
        command.args(["--inMemoryPersistence", "--silent", "--disableTelemetry"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let azurite = Self { child, address };
        let answers = || TcpStream::connect(&azurite.address).is_ok();
        let waited = |_| {
            std::thread::sleep(Duration::from_millis(50));
            answers()
        };
        assert!(answers() || (0..1200).any(waited), "Azurite does not answer");
        let created = Command::new("node").args(["-e", CREATE, "--", &azurite.address, ACCOUNT, KEY]).status();
        assert!(created.unwrap().success(), "Azurite creates no container");
        Some(azurite)
    }

    /// The client's settings, as environment variables.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let endpoint = format!("http://{}/{ACCOUNT}", self.address);
        let settings = [
            ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
