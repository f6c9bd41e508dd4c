//! Warns of fields whose names serve readers of the container badly.

use crate::metadata::is_extension;
use packhorse_core::{Event, HUGGINGFACE, KEY, Observer, Schema, Sink, counted, some_of};

/// Warns of columns whose names the container changes, since programs look for the others, and of media without an
/// extension in containers of files.
pub(super) fn warn(sink: &dyn Sink, schema: &Schema, observer: &dyn Observer) {
    let renamed = |field: &str| sink.renames(field).map(|name| format!("{field} ({name})"));
    let names = schema.fields().iter().filter(|field| field.name() != KEY);
    let names: Vec<String> = names.filter_map(|field| renamed(field.name())).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = format!(
            "{} get other names in the shards, since its readers change them: {}; `field` gives names of your own",
            counted(names.len() as u64, "column"),
            some_of(&names)
        );
        observer.event(&Event::Warning(&text));
    }
    // What Hugging Face calls an image, audio or video is the bytes of a file.
    let is_medium =
        |feature: &String| ["Image", "Audio", "Video"].iter().any(|kind| feature.contains(&format!("\"{kind}\"")));
    let media = schema.fields().iter().filter(|field| field.metadata().get(HUGGINGFACE).is_some_and(is_medium));
    let media: Vec<&str> = media.map(|field| field.name().as_str()).filter(|name| !is_extension(name)).collect();
    if let (Some(first), false) = (media.first(), sink.typed()) {
        // Fields of the values of a list get theirs with the list.
        let numbered = first.rsplit_once('.').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let setting = match numbered {
            Some((list, _)) => format!("`field={list}={list}.EXTENSION`"),
            None => format!("`field={first}=EXTENSION`"),
        };
        let text = format!(
            "readers of these shards decode fields by their extensions, and these have none: {}; {setting} gives \
             one, such as jpg, png or wav",
            some_of(&media)
        );
        observer.event(&Event::Warning(&text));
    }
}
