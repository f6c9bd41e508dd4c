//! Splits the name of a file into the key of its sample and its field.

use packhorse_core::{Error, MemberName, NameFault, Result, folder_key, member_name, split_base};
use regex::bytes::Regex;
use std::fmt;
use std::str::FromStr;

/// The rule that splits the names of files and archive members.
#[derive(Clone, Debug, Default)]
pub enum KeyEnds {
    /// At the first dot, as WebDataset's readers do: `a.seg.png` is the field `seg.png` of `a`.
    #[default]
    FirstDot,
    /// At the last dot: `2024.05.01.jpg` is the field `jpg` of `2024.05.01`, which readers see as `2024%2E05%2E01`.
    LastDot,
    /// Nowhere: the whole name is the key, and each file is a sample with the one field of this name. For files without
    /// extensions: `IM00001` of a DICOM folder is the field `dcm` of `IM00001`.
    Whole(String),
    /// By the groups of an expression for the last part of the path: the first is the key, the second the field. Names
    /// without a match are ignored.
    Regex(Regex),
    /// Each folder is a sample, and the names of its files are its fields: `s1/left.png` is the field `left.png` of `s1`.
    SampleFolders,
    /// The first folder below the input names the field: `masks/a.png` is the field `masks.png` of `a`. Of a file that
    /// lies in no folder, it is the input's own name.
    FieldFolders,
    /// By the groups `key` and `field` of an expression for the path below the input. A group `ext` follows the field,
    /// after a dot; groups `key2` and on follow the key, after a slash. Paths without a match are ignored.
    Path(Regex),
}

/// A path below an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourcePath<'a> {
    /// The name of the input.
    pub(crate) input: &'a [u8],
    /// Its folders, with or without the last slash.
    pub(crate) folder: &'a [u8],
    /// Its last part.
    pub(crate) base: &'a [u8],
}

impl KeyEnds {
    /// Whether folders decide more than the beginning of the key. [`split`](Self::split) is for the other rules.
    pub(crate) fn takes_folders(&self) -> bool {
        matches!(self, KeyEnds::SampleFolders | KeyEnds::FieldFolders | KeyEnds::Path(_))
    }

    /// Splits the last part of a name.
    pub(crate) fn split(&self, base: &[u8]) -> Result<MemberName, NameFault> {
        let halves = match self {
            KeyEnds::FirstDot => return split_base(base),
            KeyEnds::LastDot => base
                .iter()
                .rposition(|b| *b == b'.')
                .map(|dot| base.split_at(dot))
                .map(|(stem, ext)| (stem, ext.get(1..).unwrap_or_default())),
            KeyEnds::Regex(rule) => rule.captures(base).and_then(|found| {
                let part = |i: usize| found.get(i).map(|part| part.as_bytes());
                Some((part(1).filter(|stem| !stem.is_empty())?, part(2)?))
            }),
            KeyEnds::Whole(field) => Some((base, field.as_bytes())),
            KeyEnds::SampleFolders | KeyEnds::FieldFolders | KeyEnds::Path(_) => None,
        };
        match halves {
            _ if split_base(base) == Err(NameFault::Hidden) => Err(NameFault::Hidden),
            None => Err(NameFault::NoField),
            Some((stem, field)) => member_name(stem, field),
        }
    }

    /// Splits a path; returns the folder part of the key, which ends with a slash or is empty, and the rest.
    pub(crate) fn split_path(&self, path: SourcePath<'_>) -> Result<(String, MemberName), NameFault> {
        if !self.takes_folders() {
            return Ok((folder_key(path.folder)?, self.split(path.base)?));
        }
        if split_base(path.base) == Err(NameFault::Hidden) {
            return Err(NameFault::Hidden);
        }
        // Refuses hidden folders.
        folder_key(path.folder)?;
        let (key, field) = self.key_and_field(path).ok_or(NameFault::NoField)?;
        let (folder, stem) = key.split_at(key.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1));
        if stem.is_empty() {
            return Err(NameFault::NoField);
        }
        Ok((folder_key(folder)?, member_name(stem, &field)?))
    }

    /// Key and field of a path where folders decide, not escaped; `None` without a match.
    pub(crate) fn key_and_field(
        &self,
        SourcePath { input, folder, base }: SourcePath<'_>,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        // Archives have `./a/b` and `/a/b`.
        let parts = folder.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        let folder = &parts.collect::<Vec<_>>().join(&b'/')[..];
        match self {
            KeyEnds::Path(rule) => {
                let path = if folder.is_empty() { base.to_vec() } else { [folder, b"/", base].concat() };
                let found = rule.captures(&path)?;
                let group = |name: &str| found.name(name).map(|group| group.as_bytes());
                let keys = rule.capture_names().flatten().filter(|name| is_key(name)).filter_map(group);
                let key: Vec<_> = keys.filter(|key| !key.is_empty()).collect();
                let ext = group("ext").map(|ext| ext.strip_prefix(b".").unwrap_or(ext)).filter(|ext| !ext.is_empty());
                let field = [group("field"), ext].into_iter().flatten().collect::<Vec<_>>().join(&b'.');
                Some((key.join(&b'/'), field))
            }
            KeyEnds::FieldFolders => {
                let slash = folder.iter().position(|byte| *byte == b'/').unwrap_or(folder.len());
                let (first, rest) = folder.split_at(slash);
                let (stem, ext) = base.split_at(base.iter().position(|byte| *byte == b'.')?);
                let rest = rest.strip_prefix(b"/").unwrap_or(rest);
                let key = if rest.is_empty() { stem.to_vec() } else { [rest, b"/", stem].concat() };
                Some((key, [if first.is_empty() { input } else { first }, ext].concat()))
            }
            _ => Some((folder.to_vec(), base.to_vec())),
        }
    }

    /// Whether it is WebDataset's rule.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, KeyEnds::FirstDot)
    }
}

/// Whether a group of a path holds the key, or a part of it.
fn is_key(name: &str) -> bool {
    name.strip_prefix("key").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

impl PartialEq for KeyEnds {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for KeyEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyEnds::FirstDot => f.write_str("first-dot"),
            KeyEnds::LastDot => f.write_str("last-dot"),
            KeyEnds::Whole(field) => write!(f, "whole:{field}"),
            KeyEnds::Regex(rule) => write!(f, "regex:{rule}"),
            KeyEnds::SampleFolders => f.write_str("sample-folders"),
            KeyEnds::FieldFolders => f.write_str("field-folders"),
            KeyEnds::Path(rule) => write!(f, "path:{rule}"),
        }
    }
}

impl FromStr for KeyEnds {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "first-dot" => return Ok(KeyEnds::FirstDot),
            "last-dot" => return Ok(KeyEnds::LastDot),
            "sample-folders" => return Ok(KeyEnds::SampleFolders),
            "field-folders" => return Ok(KeyEnds::FieldFolders),
            _ => {}
        }
        if let Some(field) = text.strip_prefix("whole:") {
            return match member_name(b"a", field.as_bytes()) {
                Ok(name) if name.field == field && !field.contains('/') => Ok(KeyEnds::Whole(field.to_owned())),
                _ => Err(Error::config(format!("\"{text}\" takes the name of a field, such as whole:dcm"))),
            };
        }
        let parsed = |rule: &str| Regex::new(rule).map_err(|e| Error::config(format!("\"{text}\": {e}")));
        if let Some(rule) = text.strip_prefix("path:").map(parsed).transpose()? {
            let has = |is: fn(&str) -> bool| rule.capture_names().flatten().any(is);
            return match has(is_key) && has(|name| name == "field") {
                true => Ok(KeyEnds::Path(rule)),
                false => Err(Error::config(format!(
                    "\"{text}\" takes the groups key and field, such as path:^(?<key>.+)/(?<field>[^/]+)$"
                ))),
            };
        }
        let rule = text.strip_prefix("regex:").map(parsed).transpose()?.ok_or_else(|| {
            let rules =
                "first-dot, last-dot, whole:FIELD, sample-folders, field-folders, regex:EXPRESSION or path:EXPRESSION";
            Error::config(format!("takes {rules}, not \"{text}\""))
        })?;
        match rule.captures_len() {
            3 => Ok(KeyEnds::Regex(rule)),
            n => Err(Error::config(format!(
                "\"{text}\" has {} groups; it takes two, the key and the field, such as regex:^(.+)_([a-z]+[.]png)$",
                n - 1
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(rule: &str, base: &str) -> Option<(String, String)> {
        let rule: KeyEnds = rule.parse().unwrap();
        rule.split(base.as_bytes()).ok().map(|name| (name.key, name.field))
    }

    #[test]
    fn names_are_split_where_the_rule_says() {
        let expression = r"regex:^(\d+)_(\w+\.png)$";
        for (rule, base, parts) in [
            ("first-dot", "2024.05.01.jpg", Some(("2024", "05.01.jpg"))),
            ("last-dot", "2024.05.01.JPG", Some(("2024%2E05%2E01", "jpg"))),
            ("last-dot", "a.jpg", Some(("a", "jpg"))),
            ("last-dot", "a b.jpg", Some(("a%20b", "jpg"))),
            ("last-dot", "a.", None),
            ("last-dot", "a", None),
            ("last-dot", ".hidden.jpg", None),
            ("whole:dcm", "IM00001", Some(("IM00001", "dcm"))),
            ("whole:dcm", "1.2.840", Some(("1%2E2%2E840", "dcm"))),
            ("whole:dcm", ".DS_Store", None),
            (expression, "0007_left.png", Some(("0007", "left.png"))),
            (expression, "0007-left.png", None),
            ("regex:^()(.*)$", "a.jpg", None),
            ("regex:^(.+)-(.*)$", "a-", None),
        ] {
            let parts = parts.map(|(key, field): (&str, &str)| (key.to_owned(), field.to_owned()));
            assert_eq!(split(rule, base), parts, "{rule} {base}");
        }
    }

    #[test]
    fn paths_are_split_where_the_rule_says() {
        let kitti = r"path:^training/(?<field>\w+)/(?<key>\d+)(?<ext>\..+)$";
        for (rule, folder, base, parts) in [
            ("first-dot", "a/b", "c.seg.png", Some(("a/b/c", "seg.png"))),
            ("sample-folders", "cat/s.1/", "Left.PNG", Some(("cat/s%2E1", "left.png"))),
            ("sample-folders", "s1", "README", Some(("s1", "readme"))),
            ("sample-folders", "s1", ".hidden", None),
            ("sample-folders", "", "a.png", None),
            ("sample-folders", "./s1/", "a.png", Some(("s1", "a.png"))),
            ("field-folders", "./masks//cat/", "a.png", Some(("cat/a", "masks.png"))),
            ("field-folders", ".cache", "a.png", None),
            ("field-folders", "masks", "a.seg.png", Some(("a", "masks.seg.png"))),
            ("field-folders", "masks/cat", "a.png", Some(("cat/a", "masks.png"))),
            ("field-folders", "", "a.png", Some(("a", "input.png"))),
            ("field-folders", "masks", "a", None),
            (kitti, "training/image_2", "000007.png", Some(("000007", "image_2.png"))),
            (kitti, "testing/image_2", "000007.png", None),
            (r"path:^(?<key1>\w+)/(?<field>\w+)/(?<key2>\w+)[.]\w+$", "val/masks", "7.png", Some(("val/7", "masks"))),
            (r"path:^(?<key>.+)/(?<field>[^/]+)$", "x/y", "z.txt", Some(("x/y", "z.txt"))),
            (r"path:^(?<key>.*/)(?<field>[^/]+)$", "x/y", "z.txt", None),
        ] {
            let path = SourcePath { input: b"input", folder: folder.as_bytes(), base: base.as_bytes() };
            let found = rule.parse::<KeyEnds>().unwrap().split_path(path).ok();
            let parts = parts.map(|(key, field): (&str, &str)| (key.to_owned(), field.to_owned()));
            let found = found.map(|(folder, name)| (folder + &name.key, name.field));
            assert_eq!(found, parts, "{rule} {folder} {base}");
            assert_eq!(rule.parse::<KeyEnds>().unwrap().to_string(), rule);
        }
    }

    #[test]
    fn invalid_rules_are_refused() {
        for (rule, why) in [
            ("dot", "not \"dot\""),
            ("regex:(", "unclosed group"),
            ("regex:(.*)", "has 1 groups"),
            ("path:(.*)", "takes the groups key and field"),
            ("whole:", "takes the name of a field"),
            ("whole:a/b", "takes the name of a field"),
        ] {
            let error = rule.parse::<KeyEnds>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
