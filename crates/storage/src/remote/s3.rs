//! S3 buckets.

use super::bucket::{Bucket, Own, Part, Provider, check_endpoint, invalid, retry, unknown};
use super::profile;
use super::reply::Reply;
use super::service::{Connector, variables};
use super::version::text;
use super::wire::Wire;
use crate::RemoteOptions;
use crate::location::BucketName;
use md5::{Digest, Md5};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::HttpRequest;
use packhorse_core::Result;
use reqwest::header::{AUTHORIZATION, ETAG};
use std::path::Path;

const PROVIDER: Provider = Provider {
    name: "S3",
    credentials: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    unsigned: "AWS_SKIP_SIGNATURE=true",
    bucket: "bucket",
};

/// Signs the requests that `object_store` does not make.
pub(crate) struct S3 {
    credentials: AwsCredentialProvider,
    region: String,
}

pub(super) fn open(name: &BucketName, wire: &Wire, options: &RemoteOptions) -> Result<Bucket> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables("AWS_") {
        if let Ok(key) = name.parse() {
            builder = builder.with_config(key, value);
        }
    }
    let variable = |name: &str| {
        let set = options.s3.get(name).cloned().or_else(|| std::env::var(name).ok());
        set.filter(|value| !value.is_empty())
    };
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let (profile, advice) = (profile::settings(variable, read), profile::advice(variable, read));
    let given = options.s3.iter().map(|(name, value)| (name.as_str(), value.clone()));
    for (name, value) in profile.into_iter().chain(given) {
        let key: AmazonS3ConfigKey = name.to_ascii_lowercase().parse().map_err(|_| unknown(name, &PROVIDER))?;
        builder = builder.with_config(key, value);
    }
    let connector = Connector(wire.clone());
    let builder = builder.with_bucket_name(&name.name).with_http_connector(connector).with_retry(retry(options));
    // Not every server has the request that deletes many.
    let builder = builder.with_config(AmazonS3ConfigKey::DisableBulkDelete, "true");
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".into());
    for (key, name) in
        [(AmazonS3ConfigKey::S3Endpoint, "AWS_ENDPOINT_URL_S3"), (AmazonS3ConfigKey::Endpoint, "AWS_ENDPOINT_URL")]
    {
        check_endpoint(builder.get_config_value(&key), name)?;
    }
    let objects = builder.build().map_err(|e| invalid(&e, &PROVIDER))?;
    Ok(Bucket {
        url: name.to_string(),
        before: format!("/{}/", name.name),
        own: Own::S3(S3 { credentials: objects.credentials().clone(), region }),
        objects: Box::new(objects),
        provider: &PROVIDER,
        advice,
    })
}

impl S3 {
    /// Signs a request again, if it was signed.
    pub(super) async fn sign(&self, request: &mut HttpRequest) -> object_store::Result<()> {
        if request.headers_mut().remove(AUTHORIZATION).is_none() {
            return Ok(());
        }
        let credential = self.credentials.get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", &self.region).try_authorize(request, None)
    }
}

/// Whether the ETag is the one that these parts make.
pub(super) fn made_of(head: &Reply, parts: &[Part]) -> bool {
    let etag = etag_of(parts.iter().map(|part| part.tag.as_str()));
    etag.is_some() && etag == text(&head.headers, &ETAG)
}

/// The ETag of an object made of parts with these ETags: the MD5 of theirs. `None` where theirs are of
/// another kind, as with encryption by keys of the customer.
fn etag_of<'a>(etags: impl ExactSizeIterator<Item = &'a str>) -> Option<String> {
    let count = etags.len();
    let mut all = Md5::new();
    for etag in etags {
        let digits = etag.strip_prefix('"')?.strip_suffix('"')?;
        let whole = digits.len() == 32 && digits.is_ascii();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..32).step_by(2).map(byte).collect();
        all.update(bytes.filter(|_| whole)?);
    }
    let digits: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("\"{digits}-{count}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_etag_of_parts_is_that_of_s3() {
        let part = |bytes: &[u8]| {
            let digits: String = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\"{digits}\"")
        };
        // An object of two parts, 5 MiB of zeros and 1 byte, as Amazon answers for it.
        let etags = [part(&vec![0; 5 << 20]), part(b"0")];
        let digests: Vec<u8> = [Md5::digest(vec![0u8; 5 << 20]), Md5::digest(b"0")].concat();
        let wanted: String = Md5::digest(digests).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(etag_of(etags.iter().map(String::as_str)), Some(format!("\"{wanted}-2\"")));
        assert_eq!(etag_of(["\"not a digest\""].into_iter()), None);
        assert_eq!(etag_of(["unquoted"].into_iter()), None);
    }
}
