//! `packhorse pack --tree '*'`: each tree of the inputs becomes a dataset of its own, `OUT/TREE`.

use super::CommandContext;
use super::pack::whole;
use crate::outcome::success;
use packhorse_core::{Error, Event, InputTable, Observer, Result};
use packhorse_pack::{Recipe, Session};
use packhorse_storage::{Local, Location, paths_of};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `--tree` takes for all trees.
pub(super) const ALL: &str = "*";

/// Packs the trees one after the other, in the order of their names. What can't work is refused before the first.
pub(super) fn pack(
    context: &CommandContext<'_>,
    session: &Session,
    recipe: &Recipe,
    dry_run: bool,
) -> Result<ExitCode> {
    let out = recipe.folder()?;
    check_places(recipe, out)?;
    // The extension of OUT may name the format; the folders of the trees have none.
    let to = Some(recipe.format(context.registry)?);
    let mut of_one = Recipe { tree: None, to, ..recipe.clone() };
    let names = choose(context, recipe, &session.trees(&of_one)?)?;
    let (mut values, mut text, mut fault) = (Map::new(), String::new(), None);
    for name in names {
        (of_one.tree, of_one.out) = (Some(name.clone()), Some(out.join(&name)));
        let said = whole(context, session, &of_one, dry_run)?;
        text.push_str(&format!("{name}: {}", said.text));
        values.insert(name, said.value);
        fault = fault.or(said.fault);
    }
    let value = Value::Object([("trees".to_owned(), Value::Object(values))].into_iter().collect());
    context.style.always(dry_run).show(&value, &text)?;
    fault.map_or(Ok(success()), Err)
}

/// Refuses inputs that can be read only once, and an output among the inputs.
fn check_places(recipe: &Recipe, out: &Path) -> Result<()> {
    if recipe.files_from.as_deref() == Some(Path::new("-")) {
        return Err(Error::config("standard input can be read once, and each tree wants the list; put it into a file"));
    }
    let full = Location::absolute;
    let mut inputs = Vec::new();
    for input in &recipe.input {
        inputs.extend(paths_of(&Local, input)?);
    }
    match inputs.iter().find(|root| full(out).starts_with(full(root))) {
        Some(root) => {
            let message =
                "holds --out: the dataset of one tree would be an input of the next; choose an --out elsewhere";
            Err(Error::config(message).in_input(root.display()))
        }
        None => Ok(()),
    }
}

/// The trees to pack: those that every input has, of which some branch can be read.
fn choose(
    context: &CommandContext<'_>,
    recipe: &Recipe,
    inputs: &BTreeMap<PathBuf, Vec<InputTable>>,
) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = inputs.values().flatten().map(|tree| tree.name.clone()).collect();
    for (path, trees) in inputs {
        let here: BTreeSet<&str> = trees.iter().map(|tree| tree.name.as_str()).collect();
        if let Some(missing) = names.iter().find(|name| !here.contains(name.as_str())) {
            let message = format!(
                "holds no tree {missing}, which other inputs hold; pack what belongs together with --tree NAME and --include"
            );
            return Err(Error::config(message).in_input(path.display()));
        }
    }
    for (path, tree) in inputs.iter().flat_map(|(path, trees)| trees.iter().map(move |tree| (path, tree))) {
        let Some(reason) = &tree.refused else { continue };
        let message = format!("tree {}: {reason}", tree.name);
        if recipe.unsupported.as_deref() == Some("fail") {
            return Err(Error::unsupported(message).in_input(path.display()));
        }
        if names.remove(&tree.name) {
            context.progress.event(&Event::Warning(&format!("left out a {message} (in {})", path.display())));
        }
    }
    let mut items: BTreeMap<&str, u64> = BTreeMap::new();
    inputs.values().flatten().for_each(|tree| *items.entry(&tree.name).or_default() += tree.items);
    for (name, _) in items.into_iter().filter(|(_, items)| *items == 0) {
        if names.remove(name) {
            context.progress.event(&Event::Warning(&format!("left out the tree {name}, which has no entries")));
        }
    }
    if names.is_empty() {
        return Err(Error::config("there is no tree to pack, or none has entries; --tree '*' is for ROOT files"));
    }
    check_names(&names)?;
    Ok(names)
}

/// Names become folders: none may lead elsewhere, and none lie in another.
fn check_names(names: &BTreeSet<String>) -> Result<()> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(|c: char| c.is_control());
    for name in names {
        if !name.split('/').all(is_plain) {
            let message = format!("the tree {name:?} can't be a folder; pack it with --tree and an --out of its own");
            return Err(Error::config(message));
        }
        if let Some(inner) = names.iter().find(|other| other.starts_with(&format!("{name}/"))) {
            let message = format!("the dataset of {inner} would lie in that of {name}; pack each with --tree NAME");
            return Err(Error::config(message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_trees_lead_nowhere_else() {
        let check = |names: &[&str]| check_names(&names.iter().map(|name| (*name).to_owned()).collect()).is_ok();
        assert!(check(&["Events", "dir/Runs", "dir/Events"]));
        for bad in ["..", "../x", "a/../b", "/a", "a/", "", ".staging", "a/.b", "a\0b", "a\nb"] {
            assert!(!check(&[bad]), "{bad:?}");
        }
        assert!(!check(&["a", "a/b"]));
        assert!(check(&["a", "ab"]));
    }
}
