//! Every command line that a page shows parses.

use clap::Parser;
use packhorse_testkit::pages::{blocks, pages};

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
            (None, _) if c.is_whitespace() || "&|;()>".contains(c) => {
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
    for (path, page) in pages() {
        let scripts = blocks(&page).1.into_iter().filter(|(language, _)| language == "sh");
        for line in scripts.flat_map(|(_, script)| command_lines(&script)) {
            count += 1;
            if let Err(error) = crate::args::Args::try_parse_from(&line) {
                wrong.push(format!("{}: {}\n{error}", path.display(), line.join(" ")));
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
    assert!(crate::args::Args::try_parse_from(["packhorse", "pack", "--no-such-flag"]).is_err());
}
