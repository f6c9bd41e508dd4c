//! The pages of the repository, and their blocks of code. Knows no language that a block is in.

use std::path::{Path, PathBuf};

/// The pages of the repository with their text.
pub fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages: Vec<PathBuf> = [root.clone(), root.join("docs")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.sort();
    pages.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The text of a page outside of blocks of code, and its blocks: language and text.
pub fn blocks(page: &str) -> (String, Vec<(String, String)>) {
    let (mut prose, mut blocks, mut inside) = (String::new(), Vec::<(String, String)>::new(), false);
    for line in page.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(language) => {
                inside = true;
                blocks.push((language.to_owned(), String::new()));
            }
            None if inside => blocks.last_mut().unwrap().1.extend([line, "\n"]),
            None => prose.extend([line, "\n"]),
        }
    }
    (prose, blocks)
}
