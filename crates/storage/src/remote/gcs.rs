//! Buckets of Google Cloud Storage, by its XML interface.

use super::bucket::{Bucket, Own, Part, Provider, invalid, retry, unknown};
use super::reply::Reply;
use super::service::{Connector, variables};
use super::wire::Wire;
use crate::RemoteOptions;
use crate::location::BucketName;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use packhorse_core::Result;

const PROVIDER: Provider = Provider {
    name: "Google Cloud Storage",
    credentials: "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT (files with a key)",
    unsigned: "GOOGLE_SKIP_SIGNATURE=true",
    bucket: "bucket",
};

pub(super) fn open(name: &BucketName, wire: &Wire, options: &RemoteOptions) -> Result<Bucket> {
    let mut builder = GoogleCloudStorageBuilder::new();
    for (name, value) in variables("GOOGLE_") {
        if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    for (name, value) in &options.gcs {
        let key: GoogleConfigKey = name.to_ascii_lowercase().parse().map_err(|_| unknown(name, &PROVIDER))?;
        builder = builder.with_config(key, value);
    }
    let connector = Connector(wire.clone());
    let builder = builder.with_bucket_name(&name.name).with_http_connector(connector).with_retry(retry(options));
    let objects = builder.build().map_err(|e| invalid(&e, &PROVIDER))?;
    Ok(Bucket {
        url: name.to_string(),
        before: format!("/{}/", name.name),
        objects: Box::new(objects),
        provider: &PROVIDER,
        advice: None,
        own: Own::Gcs,
    })
}

/// Whether length and CRC-32C are those of the parts.
pub(super) fn made_of(head: &Reply, parts: &[Part]) -> bool {
    let hashes = head.headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
    let found = hashes.flat_map(|value| value.split(',')).find_map(|hash| hash.trim().strip_prefix("crc32c="));
    let join = |all: u64, part: &Part| crc_fast::checksum_combine(Crc32Iscsi, all, part.crc.into(), part.len);
    let whole = parts.split_first().map(|(first, rest)| rest.iter().fold(first.crc.into(), join));
    let wanted = whole.map(|crc| STANDARD.encode((crc as u32).to_be_bytes()));
    let len: u64 = parts.iter().map(|part| part.len).sum();
    found.is_some() && found == wanted.as_deref() && head.version_of_head().is_some_and(|version| version.len == len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::crc32c;
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;

    #[test]
    fn an_object_is_known_by_length_and_checksum() {
        let head = |len: &'static str, hash: &'static str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [("content-length", len), ("x-goog-hash", "md5=AAAA"), ("x-goog-hash", hash)] {
                headers.append(name, value.parse().unwrap());
            }
            Reply { status: StatusCode::OK, headers }
        };
        let part = |bytes: &[u8]| Part { tag: String::new(), len: bytes.len() as u64, crc: crc32c(bytes) };
        // The check value of the algorithm: `123456789` gives e3069283.
        for parts in [&[&b"123456789"[..]][..], &[b"1234", b"56789"], &[b"1", b"2345", b"6789"]] {
            let parts: Vec<Part> = parts.iter().map(|bytes| part(bytes)).collect();
            assert!(made_of(&head("9", "crc32c=4waSgw=="), &parts));
            assert!(!made_of(&head("8", "crc32c=4waSgw=="), &parts));
            assert!(!made_of(&head("9", "crc32c=4waSgg=="), &parts));
            assert!(!made_of(&head("9", "x=y"), &parts));
        }
        assert!(!made_of(&head("0", "crc32c=AAAAAA=="), &[]));
    }
}
