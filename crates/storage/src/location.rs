//! Locations as users write them: a path or a URL. Text only: no network and no file access.

use crate::Stores;
use packhorse_core::{Error, Result, Store};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// A path, `file://…`, `http(s)://host/path`, or an object: `s3://bucket/key`, `gs://bucket/key`, `az://container/key` or
/// `abfss://container@account.dfs.core.windows.net/key`.
///
/// `Display` and `Debug` show no secrets: they omit a URL's user info and its query, which may hold a signature. The
/// path of a `http(s)` or `file` URL is percent-decoded here, once; the key of an object is taken literally.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Location(LocationKind);

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum LocationKind {
    /// A local path.
    Path(PathBuf),
    /// An object or a prefix; the key has no leading or trailing slash.
    Object { bucket: BucketName, key: String },
    /// `path` is decoded, without a leading slash.
    Web { site: Site, path: String },
}

/// A bucket, or a container of Azure.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct BucketName {
    /// `s3`, `gs`, `az`, `abfs` or `abfss`.
    pub(crate) scheme: &'static str,
    /// For the last two also `container@account.dfs.core.windows.net`.
    pub(crate) name: String,
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.name)
    }
}

/// A web server, and what every request to it carries.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    /// `http` or `https`.
    pub(crate) scheme: String,
    /// `user:password` as written.
    pub(crate) user: Option<String>,
    /// Host and port.
    pub(crate) host: String,
    /// A signature or token; also sent with every joined location.
    pub(crate) query: Option<String>,
}

impl Site {
    /// The URL without secrets.
    pub(crate) fn shown(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// The full URL of `path`, including secrets.
    #[cfg_attr(not(any(feature = "remote", test)), expect(dead_code, reason = "unused without a network"))]
    pub(crate) fn url(&self, path: &str) -> String {
        let user = self.user.as_deref().map(|user| format!("{user}@")).unwrap_or_default();
        let query = self.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}://{user}{}/{}{query}", self.scheme, self.host, encoded(path))
    }
}

impl Location {
    /// Parses a location. Errors: `Config` for a missing host or bucket, a `%` without two digits, or text that is
    /// not UTF-8; `Unsupported` for any other scheme.
    pub fn parse(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
            return Ok(Self(LocationKind::Path(text.into())));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "file" => file(rest),
            "s3" => object("s3", rest),
            "gs" => object("gs", rest),
            "az" => object("az", rest),
            "abfs" => object("abfs", rest),
            "abfss" => object("abfss", rest),
            "http" => web("http", rest),
            "https" => web("https", rest),
            other => Err(Error::unsupported(format!(
                "{other}:// is not supported; use a path, file://, s3:// (AWS_ENDPOINT_URL selects other providers than Amazon), gs://, az://, http:// or https://"
            ))),
        }
        .map(Self)
    }

    /// The text of `path` if it is a URL, of any scheme.
    pub fn url(path: &Path) -> Option<&str> {
        let text = path.to_str()?;
        text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).map(|_| text)
    }

    /// The path from the root of the file system; a URL as it is.
    pub fn absolute(path: &Path) -> PathBuf {
        match Self::url(path) {
            Some(_) => path.to_owned(),
            // Fails for an empty path, and where the working folder is gone.
            None => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        }
    }

    /// Returns `path` if it is a local path. Callers that need a local path check here, so that a URL never becomes a
    /// folder called `s3:`. Nor do `s3:/b/x` and `user@host:/x`; `./s3:/b/x` is such a folder.
    ///
    /// Errors: `Unsupported` for a URL of any scheme; the error shows no secrets.
    pub fn local(path: &Path) -> Result<&Path> {
        let Some(text) = Self::url(path) else {
            return match path.to_str().and_then(elsewhere) {
                Some(advice) => Err(Error::unsupported("is not a local path").hint(advice).in_input(path.display())),
                None => Ok(path),
            };
        };
        let shown = match Self::parse(text) {
            Ok(Self(LocationKind::Path(path))) => format!("{}; write the path alone", path.display()),
            Ok(location) => location.to_string(),
            Err(_) => format!("{}://…; this scheme is not known", text.split("://").next().unwrap_or_default()),
        };
        Err(Error::unsupported(format!("a local path is needed here, not a URL: {shown}")))
    }

    /// Whether files written below `path` become objects of an object store.
    ///
    /// Errors: `Unsupported` for a URL that can't be written to.
    pub fn holds_objects(path: &Path) -> Result<bool> {
        match Self::url(path).map(Self::parse).transpose()? {
            None | Some(Self(LocationKind::Path(_))) => Ok(false),
            Some(Self(LocationKind::Object { .. })) => Ok(true),
            Some(web) => {
                let message = "is on a web server and can only be read; write to a local folder or to a bucket";
                Err(Error::unsupported(message).in_input(web))
            }
        }
    }

    /// Whether unfinished uploads to `path` can be listed and dropped. Azure drops their blocks itself, after a week.
    pub fn lists_uploads(path: &Path) -> bool {
        let location = Self::url(path).map(Self::parse);
        let Some(Ok(Self(LocationKind::Object { bucket, .. }))) = location else { return false };
        matches!(bucket.scheme, "s3" | "gs")
    }

    /// The store that reads this location, with default [`RemoteOptions`](crate::RemoteOptions), and the path within
    /// it. To open several locations or set options, use [`Stores::open`].
    pub fn open(&self) -> Result<(Arc<dyn Store>, PathBuf)> {
        Stores::default().open(self)
    }

    /// The location `name` below this one; `name` may contain slashes.
    ///
    /// Errors: `Content` (such names come from manifests) for an empty or absolute name and for `.` and `..`.
    pub fn join(&self, name: &str) -> Result<Self> {
        if name.contains('\0') || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Error::content(format!("{name:?} is not a relative path inside a folder")).in_input(self));
        }
        Ok(Self(match &self.0 {
            LocationKind::Path(path) => LocationKind::Path(path.join(name)),
            LocationKind::Object { bucket, key } => {
                LocationKind::Object { bucket: bucket.clone(), key: below(key, name) }
            }
            LocationKind::Web { site, path } => LocationKind::Web { site: site.clone(), path: below(path, name) },
        }))
    }

    /// Whether it has parts that must not be shown.
    pub(crate) fn has_secrets(&self) -> bool {
        matches!(&self.0, LocationKind::Web { site, .. } if site.user.is_some() || site.query.is_some())
    }

    pub(crate) fn place(&self) -> &LocationKind {
        &self.0
    }
}

impl FromStr for Location {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self(LocationKind::Path(path))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LocationKind::Path(path) => path.display().fmt(f),
            LocationKind::Object { bucket, key } if key.is_empty() => bucket.fmt(f),
            LocationKind::Object { bucket, key } => write!(f, "{bucket}/{key}"),
            LocationKind::Web { site, path } => write!(f, "{}/{}", site.shown(), encoded(path)),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

/// What to write instead of a path that looks like a place on another machine.
fn elsewhere(text: &str) -> Option<String> {
    let (start, rest) = text.split_once(":/")?;
    if ["s3", "gs", "az", "abfs", "abfss", "http", "https", "file"].contains(&start.to_ascii_lowercase().as_str()) {
        return Some(format!("did you mean {start}://{rest}? The folder is ./{text}"));
    }
    let is_host =
        !start.contains('/') && start.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
    is_host.then(|| {
        format!("packhorse does not copy to other machines: mount it, or give a bucket. The folder is ./{text}")
    })
}

/// A scheme by RFC 3986 of at least two characters.
fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() > 1
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn file(rest: &str) -> Result<LocationKind> {
    let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::config(format!("file://{rest} names a host: write file:///path, or the path alone")));
    }
    Ok(LocationKind::Path(decoded(path)?.into()))
}

fn object(scheme: &'static str, rest: &str) -> Result<LocationKind> {
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    // The account is part of the location, its key is not.
    let (container, account) = match name.split_once('@') {
        Some((container, host)) if scheme.starts_with("abfs") => {
            let account = host.strip_suffix(".dfs.core.windows.net").or(host.strip_suffix(".blob.core.windows.net"));
            (container, account.unwrap_or_default())
        }
        _ => (name, "-"),
    };
    // A signature is a secret, and would become part of the key.
    let is_signature = |part: &str| {
        let name = part.split('=').next().unwrap_or_default();
        ["sig", "signature", "x-amz-signature", "x-goog-signature"].iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    let is_signed = |query: &str| query.split('&').any(is_signature);
    if rest.split_once('?').is_some_and(|(_, query)| is_signed(query)) {
        let error = Error::config(format!("an {scheme} location has no signature behind its key"));
        let hint = match scheme {
            "s3" | "gs" => "give the signed URL as https://…",
            _ => {
                "set AZURE_STORAGE_SAS_KEY to what stands behind the question mark, or give the signed URL as https://…"
            }
        };
        return Err(error.hint(hint));
    }
    if container.is_empty()
        || container.contains(['@', '?', '#'])
        || account.is_empty()
        || account.contains(['.', ':', '@'])
    {
        let form = match scheme {
            "s3" | "gs" => "bucket/key",
            "az" => "container/key",
            _ => "container@account.dfs.core.windows.net/key",
        };
        let message = format!("an {scheme} location is {scheme}://{form}, and its credentials are in the environment");
        return Err(Error::config(message));
    }
    if key.starts_with('/') && !key.trim_matches('/').is_empty() {
        let (key, message) = (key.trim_matches('/'), "a key that begins with a slash is neither read nor written");
        return Err(
            Error::config(format!("{scheme}://{rest}: {message}")).hint(format!("write {scheme}://{name}/{key}"))
        );
    }
    let bucket = BucketName { scheme, name: name.to_owned() };
    Ok(LocationKind::Object { bucket, key: key.trim_matches('/').into() })
}

fn web(scheme: &str, rest: &str) -> Result<LocationKind> {
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query.to_owned())));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(Error::config(format!("a {scheme} location is {scheme}://host/path")));
    }
    let site = Site { scheme: scheme.into(), user: user.map(Into::into), host: host.to_ascii_lowercase(), query };
    Ok(LocationKind::Web { site, path: decoded(path)? })
}

/// Percent-decodes `text`. Refuses an encoded slash: decoded, it would change the path.
pub(crate) fn decoded(text: &str) -> Result<String> {
    let refused = |why: &str| Error::config(format!("{text:?} {why}"));
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                let (high, low) = (digit(), digit());
                let code = high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                code.ok_or_else(|| refused("has a % without two digits after it; a % itself is written %25"))?
            }
            byte => byte,
        };
        out.push(byte);
    }
    let out = String::from_utf8(out).map_err(|_| refused("is not UTF-8 when it is decoded"))?;
    let slashes = |text: &str| text.matches('/').count();
    match out.contains('\0') || slashes(&out) != slashes(text) {
        true => Err(refused("has an encoded slash or zero byte")),
        false => Ok(out),
    }
}

/// Percent-encodes a path for a URL, including `+`, which some servers read as a space.
pub(crate) fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte.into()),
            b'-' | b'.' | b'_' | b'~' | b'/' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b',' | b';' | b'='
            | b':' | b'@' => out.push(byte.into()),
            _ => {
                // Writing to a string can't fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn below(path: &str, name: &str) -> String {
    match path.trim_end_matches('/') {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn at(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn local(text: &str) -> PathBuf {
        let LocationKind::Path(path) = at(text).0 else { panic!("{text}") };
        path
    }

    #[test]
    fn urls_are_told_from_paths() {
        for path in ["/a/b", "a", "./x://y", "c:\\x", "a b?c#d%20", "//x", "1x://y", "s3:/x", ""] {
            assert_eq!(local(path), Path::new(path), "{path}");
        }
        assert_eq!(local("file:///a%20b/c"), Path::new("/a b/c"));
        assert_eq!(local("FILE://localhost/a"), Path::new("/a"));
        for bad in [
            "file://host/a",
            "s3://",
            "s3:///x",
            "s3://a@b/x",
            "gs://",
            "az://a@b.dfs.core.windows.net/x",
            "abfss://a@b/x",
            "az://c/x?se=1&sig=SECRET",
            "abfss://c@a.dfs.core.windows.net/x?sig=SECRET",
            "s3://b/x?AWSAccessKeyId=x&Signature=SECRET",
            "s3://b/x?X-Amz-Signature=SECRET",
            "gs://b/x?X-Goog-Algorithm=x&X-Goog-Signature=SECRET",
            "http://",
            "https:///x",
            "http://a@/x",
            "http://h/%2",
            "http://h/%2f",
        ] {
            assert_eq!(Location::parse(bad).unwrap_err().kind(), Kind::Config, "{bad}");
        }
        assert_eq!(Location::parse("ftp://b/k").unwrap_err().kind(), Kind::Unsupported);
    }

    #[test]
    fn a_url_is_not_a_path() {
        for path in ["x", "/a/b", "./s3:/x", "a/s3://x", "c://x", "", "./s3://x", "a@b", "a:/x", "./a@b:/x"] {
            assert_eq!(Location::local(Path::new(path)).unwrap(), Path::new(path));
        }
        for url in ["s3://b/x", "http://user:secret@h/x?sig=secret", "file:///x", "ftp://b", "file://host/x"] {
            let error = Location::local(Path::new(url)).unwrap_err();
            assert_eq!(error.kind(), packhorse_core::Kind::Unsupported);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for slip in ["s3:/b/x", "GS:/b", "user@host:/x"] {
            let error = Location::local(Path::new(slip)).unwrap_err();
            let advised = error.hints().is_some_and(|hint| hint.contains(&format!("./{slip}")));
            assert!(error.kind() == packhorse_core::Kind::Unsupported && advised, "{error}");
        }
    }

    #[test]
    fn display_and_debug_show_no_secrets() {
        let signed = at("https://me:secret@Data.Example:8443/a%20b/x.tar?X-Amz-Signature=secret#top");
        for text in [signed.to_string(), format!("{signed:?}")] {
            assert!(!text.contains("secret") && !text.contains("me:"), "{text}");
        }
        assert_eq!(signed.to_string(), "https://data.example:8443/a%20b/x.tar");
        let LocationKind::Web { site, path } = signed.place() else { panic!("{signed}") };
        assert_eq!(site.url(path), "https://me:secret@data.example:8443/a%20b/x.tar?X-Amz-Signature=secret");
    }

    #[test]
    fn names_are_joined_below_and_never_above() {
        for (base, name, joined) in [
            ("s3://b", "x", "s3://b/x"),
            ("s3://b/p/", "q/x y", "s3://b/p/q/x y"),
            ("gs://b/p", "x", "gs://b/p/x"),
            ("AZ://b", "x", "az://b/x"),
            ("abfss://c@a.dfs.core.windows.net/p", "x", "abfss://c@a.dfs.core.windows.net/p/x"),
            ("http://h", "x", "http://h/x"),
            ("http://h/p/", "x y+ä", "http://h/p/x%20y%2B%C3%A4"),
            ("/d", "x", "/d/x"),
        ] {
            assert_eq!(at(base).join(name).unwrap().to_string(), joined);
            for bad in ["", "/x", "../x", "a/../x", "a//x", "a/", ".", "a\0"] {
                assert_eq!(at(base).join(bad).unwrap_err().kind(), Kind::Content, "{bad}");
            }
        }
    }
}
