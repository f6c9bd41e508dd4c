//! Files of JSON: a list of objects, in the file or in one of its members, and the annotations of COCO.
//!
//! * Specification: RFC 8259. Rows are kept verbatim, as those of JSONL; one of several lines loses its white space.
//! * **[COCO](https://cocodataset.org/#format-data)**: the file is an object with the lists `images` and `annotations`, as
//!   Objects365 and iNaturalist have it too. A row is an image with its annotations, those whose `image_id` is its `id`, as the
//!   member `annotations`.
//! * The file is held in memory while it is read.

use super::jsonl::{self, Table};
use super::{ColumnRequest, Metadata};
use packhorse_core::{Code, Context, Error, Input, Result, counted};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Reads a file of JSON.
///
/// Errors: text that is not JSON or has no list of objects (`Content`); a member that is not there (`Config`).
pub(super) fn read(input: &dyn Input, request: &ColumnRequest<'_>) -> Result<Metadata> {
    let mut text = String::new();
    input.stream()?.read_to_string(&mut text).context("read")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).trim_ascii();
    let mut table = Table::new(request, "record")?;
    match &request.options.records {
        Some(path) => rows(inside(text, path)?, &mut table)?,
        None if is_lines(text) => return jsonl::read(text.as_bytes(), request),
        None if text.starts_with('{') => coco(text, request.key, &mut table)?,
        None => rows(text, &mut table)?,
    }
    table.finish()
}

/// Whether it is JSON lines: its first line alone is an object.
fn is_lines(text: &str) -> bool {
    let first = text.split_once('\n').map(|(first, _)| first.trim_ascii());
    first.is_some_and(|first| first.starts_with('{') && serde_json::from_str::<Members<'_>>(first).is_ok())
}

/// The text of the member at `path`: names from the outside in with dots between them, which names may have too.
fn inside<'a>(text: &'a str, path: &str) -> Result<&'a str> {
    let members = members(text)?;
    let names = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    let found = names.map(|end| path.split_at(end)).find_map(|(name, rest)| Some((members.get(name)?.get(), rest)));
    match found {
        Some((text, "")) => Ok(text),
        Some((text, rest)) => inside(text, rest.trim_start_matches('.')),
        None => Err(no_list(&members).remark(format!("it has no member {path}"))),
    }
}

fn members(text: &str) -> Result<Members<'_>> {
    serde_json::from_str(text).map_err(|e| fault(&e, "an object"))
}

/// Adds each object of a list.
fn rows(list: &str, table: &mut Table<'_>) -> Result<()> {
    let rows: Vec<&RawValue> = serde_json::from_str(list).map_err(|e| fault(&e, "a list of objects"))?;
    rows.iter().zip(1..).try_for_each(|(row, number)| table.add(row.get().as_bytes(), number))
}

/// The member of an annotation that names its image.
#[derive(Deserialize)]
struct OfImage<'a> {
    #[serde(borrow)]
    image_id: &'a RawValue,
}

/// The member of an image that its annotations name.
#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(default, deserialize_with = "present", rename = "annotations")]
    has_annotations: bool,
}

fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(value).map(|_| true)
}

/// Adds each image with its annotations; or the object itself, if that is the only one of JSON lines.
fn coco(text: &str, key: &str, table: &mut Table<'_>) -> Result<()> {
    let members = members(text)?;
    let list = |name: &str| members.get(name).and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok());
    let (Some(images), Some(annotations)) = (list("images"), list("annotations")) else {
        let is_line = members.contains_key(key) && !text.contains('\n');
        return if is_line { table.add(text.as_bytes(), 1) } else { Err(no_list(&members)) };
    };
    let mut of_images: HashMap<&str, Vec<&str>> = HashMap::new();
    for (annotation, number) in annotations.iter().zip(1..) {
        let of = serde_json::from_str::<OfImage<'_>>(annotation.get());
        let of = of.map_err(|e| fault(&e, "an annotation of an image").context(format_args!("annotation {number}")))?;
        of_images.entry(of.image_id.get()).or_default().push(annotation.get());
    }
    let (mut row, mut ids) = (String::new(), HashSet::new());
    for (image, number) in images.iter().zip(1..) {
        let at = |e: Error| e.context(format_args!("image {number}"));
        let found = serde_json::from_str::<Image<'_>>(image.get());
        let Image { id, has_annotations } = found.map_err(|e| at(fault(&e, "an image with an id")))?;
        if !ids.insert(id.get()) {
            return Err(at(Error::content("has the id of another image")));
        }
        if has_annotations {
            let error = Error::content("has annotations of its own");
            return Err(at(error.hint("`metadata-read=records=images` takes images as they are")));
        }
        row.clear();
        row.push_str(image.get().strip_suffix('}').unwrap_or_default().trim_end());
        row.push_str(",\"annotations\":[");
        row.push_str(&of_images.remove(id.get()).unwrap_or_default().join(","));
        row.push_str("]}");
        table.add(row.as_bytes(), number)?;
    }
    if let Some(id) = of_images.keys().min() {
        let annotations = counted(of_images.values().map(Vec::len).sum::<usize>() as u64, "annotation");
        table.note(format!("left out {annotations} of images that the metadata does not list, such as {id}"));
    }
    Ok(())
}

/// The error of an object in which no member is said to be the rows.
fn no_list(members: &Members<'_>) -> Error {
    let lists = members.iter().filter(|(_, value)| value.get().starts_with('['));
    let lists: Vec<&str> = lists.map(|(name, _)| name.as_ref()).collect();
    let error = Error::config("is an object, and its rows are in a list").with_code(Code::NoSuchField);
    match lists.is_empty() {
        true => error.hint("make it a list of objects, or JSON lines"),
        false => error.hint(format!("name the list with `metadata-read=records=NAME`; there are {}", lists.join(", "))),
    }
}

fn fault(error: &serde_json::Error, wanted: &str) -> Error {
    Error::content(format!("is not {wanted}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::table_options::TableOptions;
    use packhorse_core::{Kind, Limits, MemoryInput};

    fn table(text: &str, key: &str, records: Option<&str>) -> Result<Metadata> {
        let records = records.map(str::to_owned);
        let options = TableOptions { records, ..TableOptions::default() };
        let request = ColumnRequest::new(key, None, Limits::default()).unwrap();
        read(&MemoryInput::new("a.json", text.as_bytes().to_vec()), &ColumnRequest { options: &options, ..request })
    }

    #[test]
    fn lists_of_objects_are_rows() {
        let rows = table("\u{feff}[{\"id\":\n \"a.jpg\", \"x\": 1.50}, {\"id\": 7}]\n", "id", None).unwrap();
        assert_eq!((rows.get("a"), rows.get("7")), (Some("{\"id\":\"a.jpg\",\"x\":1.50}"), Some("{\"id\": 7}")));
        let rows = table("{\"v\": 1, \"data\": {\"list\": [{\"id\": \"a\"}]}}", "id", Some("data.list")).unwrap();
        assert_eq!(rows.get("a"), Some("{\"id\": \"a\"}"));
        assert_eq!(table("{\"a.b\": {\"c.d\": [{\"id\": 1}]}}", "id", Some("a.b.c.d")).unwrap().len(), 1);
        assert_eq!(table("[]", "id", None).unwrap().len(), 0);
        assert_eq!(table("{\"id\": 1}\n{\"id\": 2}\n", "id", None).unwrap().len(), 2);
        assert_eq!(
            table("{\"id\": \"a\", \"x\": [1]}\n", "id", None).unwrap().get("a"),
            Some("{\"id\": \"a\", \"x\": [1]}")
        );
        for (text, records, kind, message) in [
            ("{\"a\": [], \"b\": 1, \"c\": []}", None, Kind::Config, "records=NAME`; there are a, c"),
            ("{\"a\": 1}", None, Kind::Config, "JSON lines"),
            ("{\"a\": [1]}", Some("b"), Kind::Config, "it has no member b"),
            ("{\"a\": [1]}", Some("a"), Kind::Content, "record 1: isn't a JSON object"),
            ("[{\"id\": 1}, 2]", None, Kind::Content, "record 2: isn't a JSON object"),
            ("[{\"id\": 1}, {\"id\": \"1.png\"}]", None, Kind::Content, "records 1 and 2 have the same key"),
            ("[{\"id\": 1}", None, Kind::Content, "is not a list of objects: EOF"),
            ("1", None, Kind::Content, "is not a list of objects"),
            ("[{\"x\": 1}]", None, Kind::Config, "has no column \"id\""),
        ] {
            let error = table(text, "id", records).unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn images_of_coco_have_their_annotations() {
        let text = r#"{"info": {}, "images": [{"id": 9, "file_name": "000009.jpg", "w": 1 }, {"file_name": "b.jpg", "id": 10}],
            "annotations": [{"id": 1, "image_id": 9, "bbox": [1, 2.50]}, {"image_id": 9, "id": 2}], "categories": []}"#;
        let rows = table(text, "file_name", None).unwrap();
        let of = r#"[{"id": 1, "image_id": 9, "bbox": [1, 2.50]},{"image_id": 9, "id": 2}]"#;
        let row = format!(r#"{{"id": 9, "file_name": "000009.jpg", "w": 1,"annotations":{of}}}"#);
        assert_eq!(rows.get("000009"), Some(&*row));
        assert_eq!(rows.get("b"), Some(r#"{"file_name": "b.jpg", "id": 10,"annotations":[]}"#));
        assert_eq!(
            table(text, "id", None).unwrap().get("10"),
            Some(r#"{"file_name": "b.jpg", "id": 10,"annotations":[]}"#)
        );
        assert_eq!(table(text, "id", Some("annotations")).unwrap().len(), 2);
        let filtered = r#"{"images": [{"id": 1}], "annotations": [{"image_id": 2}, {"image_id": 1}]}"#;
        let notes: Vec<String> = table(filtered, "id", None).unwrap().notes().collect();
        assert_eq!(notes, ["left out 1 annotation of images that the metadata does not list, such as 2"]);
        for (images, annotations, message) in [
            ("[{\"id\": 1}]", "[{\"id\": 2}]", "annotation 1: is not an annotation of an image"),
            ("[{}]", "[]", "image 1: is not an image with an id"),
            ("[{\"id\": 1, \"annotations\": null}]", "[]", "image 1: has annotations of its own"),
            ("[{\"id\": 1}, {\"id\": 1}]", "[]", "image 2: has the id of another image"),
        ] {
            let text = format!("{{\"images\": {images}, \"annotations\": {annotations}}}");
            let error = table(&text, "id", None).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn damaged_files_do_not_panic() {
        let coco = r#"{"images":[{"id":1,"f":"é\u00e9"}],"annotations":[{"image_id":1,"x":[{}]}]}"#;
        let list = "[{\"id\": \"a\"},\n {\"id\":\t2, \"y\": \"\\\\\\\"\"}]";
        for text in [coco, list] {
            for (end, _) in text.char_indices() {
                let _ = table(&text[..end], "id", None);
                let _ = table(&text[end..], "id", None);
                let _ = table(&text[..end], "id", Some("annotations"));
            }
        }
        let deep = format!("{{\"images\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(table(&deep, "id", None).is_err());
    }
}
