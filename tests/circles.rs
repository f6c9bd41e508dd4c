//! Imports inside of a crate lead in one direction: files of different folders never import each other, not even through
//! others. Imports through re-exports count as imports of the file that has the definition; re-exports themselves and
//! tests do not count.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new("//.*").unwrap());
static IMPORT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^[ \t]*(#\[cfg\(test\)\]\s*)?(pub(?:\([^)]*\))? )?use ([^;]+);").unwrap());
static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:fn|struct|enum|trait|type|const|static|union|mod|macro_rules!)\s+(\w+)").unwrap()
});

/// A module as path from the root of its crate.
type Name = Vec<String>;

/// One name that a `use` brings in; `*` for all.
struct Import {
    public: bool,
    path: Name,
    name: String,
}

struct Module {
    folder: PathBuf,
    imports: Vec<Import>,
    items: BTreeSet<String>,
}

/// The modules of a crate that have files of their own.
struct Crate(BTreeMap<Name, Module>);

/// The imports of the tree behind a `use`, below `prefix`.
fn expand(tree: &str, prefix: &[String], public: bool, out: &mut Vec<Import>) {
    let (head, group) = tree.trim().split_once('{').map_or((tree.trim(), None), |(head, group)| (head, Some(group)));
    let (head, alias) = head.split_once(" as ").map_or((head, None), |(head, alias)| (head, Some(alias.trim())));
    let mut path = prefix.to_vec();
    path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
    if let Some(group) = group {
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if (c == ',' && depth == 0) || depth < 0 {
                expand(&group[start..at], &path, public, out);
                start = at + 1;
            }
        }
        return;
    }
    path.pop_if(|last| last == "self" && !prefix.is_empty());
    if let Some(last) = path.last().filter(|_| !head.is_empty()) {
        let name = alias.unwrap_or(last).to_owned();
        out.push(Import { public, path, name });
    }
}

impl Module {
    fn new(folder: PathBuf, text: &str) -> Self {
        let text = COMMENT.replace_all(text, "");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let mut imports = Vec::new();
        for found in IMPORT.captures_iter(text).filter(|found| found.get(1).is_none()) {
            expand(&found[3].replace('\n', " "), &[], found.get(2).is_some(), &mut imports);
        }
        Self { folder, imports, items: ITEM.captures_iter(text).map(|found| found[1].to_owned()).collect() }
    }
}

impl Crate {
    /// Of these files, with their paths relative to the root of the crate's source.
    fn new(files: &BTreeMap<PathBuf, String>) -> Self {
        let is_test = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
        let files = || files.iter().filter(|(path, _)| !is_test(path));
        let modules = files().map(|(path, text)| {
            let stem = path.with_extension("");
            let is_root = stem.ends_with("mod") || stem == Path::new("lib") || stem == Path::new("main");
            let module = if is_root { stem.parent().unwrap() } else { &stem };
            // `a.rs` belongs to the folder `a` if there is one.
            let has_folder = is_root || files().any(|(other, _)| other.starts_with(&stem));
            let folder = if has_folder { module } else { stem.parent().unwrap() };
            let name = module.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            (name, Module::new(folder.to_owned(), text))
        });
        Self(modules.collect())
    }

    /// The path from the root that an import in `module` means; `None` for another crate's.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Name> {
        let supers = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([module.get(..module.len().checked_sub(supers)?)?, &path[supers..]].concat()),
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.0.contains_key(&child).then(|| [module, path].concat())
            }
        }
    }

    /// The module that defines the item at `path`, through at most `depth` re-exports.
    fn resolve(&self, path: &[String], depth: usize) -> Option<Name> {
        let len = (0..=path.len()).rev().find(|len| self.0.contains_key(&path[..*len]))?;
        let (module, rest) = path.split_at(len);
        let Some((name, rest)) = rest.split_first() else { return Some(module.to_vec()) };
        let found = &self.0[module];
        if found.items.contains(name) || name == "*" || depth == 0 {
            return Some(module.to_vec());
        }
        if let Some(import) = found.imports.iter().find(|import| import.name == *name) {
            return self.resolve(&[&self.absolute(module, &import.path)?, rest].concat(), depth - 1);
        }
        let globs = found.imports.iter().filter(|import| import.name == "*");
        let mut globs = globs.filter_map(|import| self.absolute(module, &import.path[..import.path.len() - 1]));
        let has = |target: &Name| self.0.get(target).is_some_and(|module| module.items.contains(name));
        Some(globs.find(has).unwrap_or_else(|| module.to_vec()))
    }

    /// Which modules each one imports from.
    fn edges(&self) -> BTreeMap<&Name, BTreeSet<Name>> {
        let targets = |name: &Name, module: &Module| {
            let imports = module.imports.iter().filter(|import| !import.public);
            let paths = imports.filter_map(|import| self.absolute(name, &import.path));
            paths.filter_map(|path| self.resolve(&path, 9)).filter(|target| target != name).collect()
        };
        self.0.iter().map(|(name, module)| (name, targets(name, module))).collect()
    }

    /// A circle for each import between folders that lies on one, as a line.
    fn circles(&self) -> Vec<String> {
        let edges = self.edges();
        let mut found = Vec::new();
        for (from, targets) in &edges {
            for to in targets.iter().filter(|to| self.0[*to].folder != self.0[*from].folder) {
                if let Some(back) = way(&edges, to, from) {
                    let names = [from].into_iter().copied().chain(&back);
                    let names: Vec<String> = names.map(|name| format!("crate::{}", name.join("::"))).collect();
                    found.push(names.join(" → "));
                }
            }
        }
        found
    }
}

/// The shortest way of imports between two modules, with both.
fn way(edges: &BTreeMap<&Name, BTreeSet<Name>>, from: &Name, to: &Name) -> Option<Vec<Name>> {
    let mut before: BTreeMap<&Name, &Name> = BTreeMap::new();
    let mut open = VecDeque::from([from]);
    while let Some(here) = open.pop_front() {
        if here == to {
            let back = std::iter::successors(Some(to), |name| (*name != from).then(|| before[name]));
            let mut way: Vec<Name> = back.cloned().collect();
            way.reverse();
            return Some(way);
        }
        for next in edges.get(here).into_iter().flatten() {
            if next != from && !before.contains_key(next) {
                before.insert(next, here);
                open.push_back(next);
            }
        }
    }
    None
}

/// All Rust files below a folder, with their paths relative to it.
fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = open.pop() {
        for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.insert(path.strip_prefix(root).unwrap().to_owned(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn no_circle_of_imports_crosses_folders() {
    let (mut circles, mut edges) = (Vec::new(), 0);
    for base in ["crates", "formats"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name)) {
        for entry in std::fs::read_dir(base).unwrap().map(|entry| entry.unwrap().path().join("src")) {
            if !entry.is_dir() {
                continue;
            }
            let modules = Crate::new(&files(&entry));
            edges += modules.edges().values().map(BTreeSet::len).sum::<usize>();
            circles.extend(modules.circles().iter().map(|circle| format!("{}: {circle}", entry.display())));
        }
    }
    assert!(edges > 1000, "only {edges} imports were found");
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// The circles of a crate with these files.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    Crate::new(&files.iter().map(|(path, text)| (path.into(), (*text).to_owned())).collect()).circles()
}

#[test]
fn a_circle_is_found_through_re_exports_and_groups() {
    let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::{deep::{Deep as Alias, Other}, A};\npub use b::*;");
    let a = ("a/mod.rs", "pub mod deep;\nuse crate::c::C;\npub struct A;");
    let deep = ("a/deep.rs", "pub struct Deep;\npub struct Other;");
    let c = ("c.rs", "use std::fmt;\nuse crate::{\n    B,\n};\npub struct C;");
    let with = |b: &str| circles(&[lib, a, deep, ("b.rs", b), c]);
    assert_eq!(with("use crate::Alias; pub struct B;"), Vec::<String>::new());
    let circle = ["crate::a → crate::c → crate::b → crate::a", "crate::b → crate::a → crate::c → crate::b"];
    assert_eq!(with("use super::{A, c::self}; pub struct B;"), circle);
    // Imports of tests do not count, and comments are not read.
    assert!(with("pub struct B;\n// use crate::A;\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}").is_empty());
}

#[test]
fn files_of_one_folder_may_import_each_other() {
    let a = ("a/mod.rs", "mod x;\nuse x::X;\npub struct A;");
    assert!(circles(&[("lib.rs", "mod a;"), a, ("a/x.rs", "use super::A;\npub struct X;")]).is_empty());
    // `b.rs` belongs to its folder.
    let b = ("b.rs", "mod y;\nuse y::Y;\npub struct B;");
    assert!(circles(&[("lib.rs", "mod b;"), b, ("b/y.rs", "use super::B;\npub struct Y;")]).is_empty());
}
