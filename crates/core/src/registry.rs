//! Which formats this build knows. The facade fills it and hands it to pack and read.

use crate::{Code, Error, Format, FormatInfo, Result, nearest};
use std::sync::Arc;

/// The list of formats. Formats are added by [`Registry::with`] and in no other way.
///
/// ```
/// use packhorse_core::{Format, FormatInfo, Registry};
///
/// struct Lines;
///
/// impl Format for Lines {
///     fn info(&self) -> &'static FormatInfo {
///         &FormatInfo { id: "lines", revision: 1, extensions: &["lines"], fields: &[] }
///     }
/// }
///
/// let registry = Registry::new().with(Lines);
/// assert!(registry.by_name(b"corpus.lines").is_some());
/// assert_eq!(registry.get("line").err().map(|error| error.to_string()).as_deref(), Some(
///     "no format is called \"line\"; did you mean lines?; this build knows lines"
/// ));
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    formats: Vec<Arc<dyn Format>>,
}

impl Registry {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list with one more format. The last one that claims an extension gets it.
    pub fn with(mut self, format: impl Format + 'static) -> Self {
        self.formats.push(Arc::new(format));
        self
    }

    /// The format called `id`, in upper or lower case, or a `Config` error that lists what there is.
    pub fn get(&self, id: &str) -> Result<&Arc<dyn Format>> {
        self.formats.iter().find(|f| f.info().id.eq_ignore_ascii_case(id)).ok_or_else(|| {
            let known: Vec<&str> = self.formats.iter().map(|f| f.info().id).collect();
            let meant = nearest(id, known.iter().copied()).map(|name| format!("did you mean {name}?"));
            let error = Error::config(format!("no format is called \"{id}\"")).with_code(Code::NoSuchFormat);
            meant.into_iter().fold(error, Error::hint).hint(format!("this build knows {}", known.join(", ")))
        })
    }

    /// The format that a user calls `name`: its id, or an extension of its files (`h5`, `tar`, `feather`).
    pub fn named(&self, name: &str) -> Result<&Arc<dyn Format>> {
        let claims = |f: &&Arc<dyn Format>| f.info().extensions.iter().any(|ext| ext.eq_ignore_ascii_case(name));
        let by_extension = || self.formats.iter().rfind(claims).filter(|_| !name.is_empty());
        self.get(name).or_else(|e| by_extension().ok_or(e))
    }

    /// The format that claims the longest extension of the file name `name` (compared without
    /// regard to ASCII case), or `None`.
    ///
    /// The number of a shard may follow the extension, as in `data.tfrecord-00003-of-00010`.
    pub fn by_name(&self, name: &[u8]) -> Option<&Arc<dyn Format>> {
        let name = name.get(..shard_number(name)).unwrap_or(name);
        self.formats
            .iter()
            .filter_map(|f| Some((f.info().claims(name)?, f)))
            .max_by_key(|(len, _)| *len)
            .map(|(_, f)| f)
    }

    /// The format whose codec decodes the field `name`, by what stands after its last dot (compared
    /// without regard to ASCII case), or `None`.
    pub fn by_field(&self, name: &str) -> Option<&Arc<dyn Format>> {
        let extension = name.rsplit('.').next().unwrap_or_default();
        self.formats.iter().rfind(|f| f.info().fields.iter().any(|field| field.eq_ignore_ascii_case(extension)))
    }

    /// The names of the files beside `name` that it may belong to (`x.bin` to `x.idx`): those that are there
    /// are inputs, and `name` is a part of them.
    pub fn mains<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = Vec<u8>> + use<'_, 'n> {
        let pairs = self.formats.iter().flat_map(|f| f.companions());
        pairs.filter_map(|(main, other)| {
            let stem =
                name.get(..name.len().checked_sub(other.len())?).filter(|_| has_extension(name, other.as_bytes()))?;
            Some([stem, main.as_bytes()].concat())
        })
    }

    /// The format that takes any file: the one that claims the empty extension.
    pub fn fallback(&self) -> Option<&Arc<dyn Format>> {
        self.formats.iter().find(|f| f.info().extensions.contains(&""))
    }

    /// All formats, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Format>> {
        self.formats.iter()
    }
}

impl FormatInfo {
    /// The length of the longest of its extensions that the file name `name` has.
    pub fn claims(&self, name: &[u8]) -> Option<usize> {
        self.extensions.iter().filter(|ext| has_extension(name, ext.as_bytes())).map(|ext| ext.len()).max()
    }
}

/// Where the number of a shard starts at the end of a file's name, such as `-00003-of-00010`; the length of the name if it has none.
pub fn shard_number(name: &[u8]) -> usize {
    let digits =
        |end: usize| name.get(..end).into_iter().flatten().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let count = digits(name.len());
    let of = name.len() - count;
    let Some(before) = name.get(..of).and_then(|name| name.strip_suffix(b"-of-")) else { return name.len() };
    let number = digits(before.len());
    match before.get(..before.len() - number) {
        Some(rest) if number >= 4 && count >= 4 && rest.ends_with(b"-") => rest.len() - 1,
        _ => name.len(),
    }
}

fn has_extension(name: &[u8], ext: &[u8]) -> bool {
    let Some(dot) = name.len().checked_sub(ext.len() + 1) else { return false };
    !ext.is_empty()
        && name.get(dot) == Some(&b'.')
        && name.get(dot + 1..).is_some_and(|tail| tail.eq_ignore_ascii_case(ext))
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.formats.iter().map(|format| format.info().id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_shard_follows_a_name() {
        for (name, stem) in [
            ("a.tfrecord-00003-of-00010", "a.tfrecord"),
            ("train-00000-of-00002", "train"),
            ("a-1-of-2", "a-1-of-2"),
            ("a-of-00010", "a-of-00010"),
            ("-00003-of-00010", ""),
            ("00003-of-00010", "00003-of-00010"),
            ("a.tar", "a.tar"),
        ] {
            assert_eq!(name.get(..shard_number(name.as_bytes())), Some(stem), "{name}");
        }
    }

    struct Pairs;

    impl Format for Pairs {
        fn info(&self) -> &'static FormatInfo {
            static INFO: FormatInfo = FormatInfo { id: "pairs", revision: 1, extensions: &["idx"], fields: &[] };
            &INFO
        }

        fn companions(&self) -> &'static [(&'static str, &'static str)] {
            &[("idx", "bin"), ("idx", "documents.parquet"), ("tar", "idx")]
        }
    }

    #[test]
    fn what_a_file_may_belong_to() {
        let registry = Registry::new().with(Pairs);
        let mains =
            |name: &str| registry.mains(name.as_bytes()).map(|m| String::from_utf8(m).unwrap()).collect::<Vec<_>>();
        assert_eq!(mains("some/x.bin"), ["some/x.idx"]);
        assert_eq!(mains("x.documents.parquet"), ["x.idx"]);
        assert_eq!(mains("x.idx"), ["x.tar"]);
        assert_eq!(mains(".bin"), [".idx"]);
        for name in ["bin", "xbin", "x.parquet", ""] {
            assert!(mains(name).is_empty(), "{name}");
        }
    }
}
