//! Containers of Azure Blob Storage.
//!
//! An object is put together from blocks of its name, which all writers of that name share until one of them completes
//! the object; the blocks that it does not name are dropped. So a block is called by its bytes: writers of the same bytes
//! use each other's blocks, also those that are part of the object already, and writers of other bytes fail and begin again.
//! `object_store` gives blocks random names, so the requests that write are made here.

use super::bucket::{Bucket, Own, Provider, check_endpoint, invalid, retry, unknown};
use super::service::{Connector, variables};
use super::wire::Wire;
use crate::RemoteOptions;
use crate::location::BucketName;
use object_store::azure::{AzureAuthorizer, AzureConfigKey, AzureCredentialProvider, MicrosoftAzureBuilder};
use object_store::client::HttpRequest;
use packhorse_core::Result;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue};

const PROVIDER: Provider = Provider {
    name: "Azure Blob Storage",
    credentials: "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_KEY)",
    unsigned: "AZURE_SKIP_SIGNATURE=true",
    bucket: "container",
};

/// Names of settings that other programs use.
const ALIASES: [(&str, AzureConfigKey); 2] =
    [("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName), ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey)];

/// The account of Azure's emulator.
const EMULATOR: &str = "devstoreaccount1";

/// Signs the requests that `object_store` does not make.
pub(crate) struct Azure {
    credentials: AzureCredentialProvider,
    account: String,
}

pub(super) fn open(name: &BucketName, wire: &Wire, options: &RemoteOptions) -> Result<Bucket> {
    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in variables("AZURE_") {
        if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    // Services that run programs set it where these have a managed identity.
    if let Some(endpoint) = std::env::var("IDENTITY_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty()) {
        builder = builder.with_msi_endpoint(endpoint);
    }
    let alias = |name: &str| ALIASES.iter().any(|(alias, _)| *alias == name);
    for (name, value) in options.azure.iter().filter(|(name, _)| !alias(name)) {
        let key: AzureConfigKey = name.to_ascii_lowercase().parse().map_err(|_| unknown(name, &PROVIDER))?;
        builder = builder.with_config(key, value);
    }
    for (alias, key) in ALIASES {
        let value = options.azure.get(alias).cloned().or_else(|| std::env::var(alias).ok());
        if let Some(value) = value.filter(|value| !value.is_empty() && builder.get_config_value(&key).is_none()) {
            builder = builder.with_config(key, value);
        }
    }
    // `container@account.dfs.core.windows.net`
    let (container, host) = name.name.split_once('@').unwrap_or((&name.name, ""));
    if let Some((account, _)) = host.split_once('.') {
        builder = builder.with_account(account);
    }
    let account = builder.get_config_value(&AzureConfigKey::AccountName).unwrap_or_else(|| EMULATOR.into());
    let connector = Connector(wire.clone());
    let builder = builder.with_container_name(container).with_http_connector(connector).with_retry(retry(options));
    check_endpoint(builder.get_config_value(&AzureConfigKey::Endpoint), "AZURE_STORAGE_ENDPOINT")?;
    let objects = builder.build().map_err(|e| invalid(&e, &PROVIDER))?;
    Ok(Bucket {
        url: name.to_string(),
        before: format!("/{container}/"),
        own: Own::Azure(Azure { credentials: objects.credentials().clone(), account }),
        objects: Box::new(objects),
        provider: &PROVIDER,
        advice: None,
    })
}

impl Azure {
    pub(super) async fn sign(&self, request: &mut HttpRequest) -> object_store::Result<()> {
        let credential = self.credentials.get_credential().await?;
        AzureAuthorizer::new(&credential, &self.account).try_authorize(request)
    }
}

/// Takes the signature from a request without a query of its own; returns whether it had one.
pub(super) fn bare(request: &mut HttpRequest) -> bool {
    // A shared access signature is the query.
    request.headers_mut().remove(AUTHORIZATION).is_some() || request.uri().query().is_some()
}

/// Adds the headers of a request with this body.
pub(super) fn describe(request: &mut HttpRequest, query: &str, body: &[u8]) {
    let headers = request.headers_mut();
    headers.insert(CONTENT_LENGTH, body.len().into());
    if !body.is_empty() {
        headers.insert("content-md5", super::uploads::md5(body));
    }
    if query.is_empty() {
        headers.insert("x-ms-blob-type", HeaderValue::from_static("BlockBlob"));
    }
}

/// The id of a block: 64 digits, which are valid Base64 too.
pub(super) fn block(number: usize, bytes: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(number as u64).to_le_bytes()).update(bytes);
    hasher.finalize().to_hex().to_string()
}

/// The list of an object's blocks: sent by this or another writer, or part of the object that is there.
pub(super) fn list<'a>(blocks: impl Iterator<Item = &'a str>) -> String {
    let blocks: String = blocks.map(|id| format!("<Latest>{id}</Latest>")).collect();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{blocks}</BlockList>")
}
