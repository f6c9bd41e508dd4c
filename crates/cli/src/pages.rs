//! Every command line that a page shows parses.

use clap::Parser;
use std::path::{Path, PathBuf};

/// The pages of the repository.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].iter().map(|name| root.join(name)).collect();
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    pages
}

/// The `sh` blocks of a page, one after the other.
fn scripts(page: &str) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(language) => inside = !inside && language == "sh",
            None if inside => text.extend([line, "\n"]),
            None => {}
        }
    }
    text
}

/// The words of each simple command of a script: quotes taken off, comments cut, lines joined where they continue.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let escaped = chars.next();
                word.get_or_insert_default().extend(escaped.filter(|c| *c != '\n'));
            }
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, _) if c.is_whitespace() || "&|;()".contains(c) => {
                commands.last_mut().unwrap().extend(word.take().filter(|word| !word.is_empty()));
                if c == '\n' || !c.is_whitespace() {
                    commands.push(Vec::new());
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands.retain(|command| !command.is_empty());
    commands
}

/// The command lines of packhorse in a script, also behind `srun` and inside of quotes.
fn command_lines(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for command in commands(script) {
        match command.iter().position(|word| word == "packhorse") {
            Some(at) => found.push(command[at..].to_vec()),
            None => {
                let quoted = command.iter().filter(|word| word.contains("packhorse ") && !word.contains("import "));
                found.extend(quoted.flat_map(|word| command_lines(word)));
            }
        }
    }
    found
}

#[test]
#[cfg_attr(not(feature = "gpu"), ignore = "pages show `bench upload`, which the feature gpu has")]
fn every_command_line_of_the_pages_parses() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        for line in command_lines(&scripts(&std::fs::read_to_string(&page).unwrap())) {
            count += 1;
            if let Err(error) = crate::args::Args::try_parse_from(&line) {
                wrong.push(format!("{}: {}\n{error}", page.display(), line.join(" ")));
            }
        }
    }
    assert!(count > 25, "only {count} command lines were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn command_lines_are_found_wherever_they_are() {
    let script = "cargo build && packhorse synth \\\n  images # some\nsrun packhorse seal 'a b' | cat\nsbatch --wrap \"packhorse seal '$OUT'\"";
    let expected: [&[&str]; 3] =
        [&["packhorse", "synth", "images"], &["packhorse", "seal", "a b"], &["packhorse", "seal", "$OUT"]];
    assert_eq!(command_lines(script), expected);
    assert_eq!(scripts("```sh\na\n```\nb\n```text\nc\n```\n"), "a\n");
    assert!(crate::args::Args::try_parse_from(["packhorse", "pack", "--no-such-flag"]).is_err());
}
