//! The pages are true: their Rust compiles, their links lead somewhere, and README's commands do what README says.
//! That every command line parses is tested beside the parser (`crates/cli/src/pages.rs`).
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use common::moto::Moto;
use packhorse_testkit::external;
use packhorse_testkit::pages::{blocks, pages};
use packhorse_testkit::trials::{Results, fill};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod moto;
}
mod snippets;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder of the repository with this extension.
fn folder(name: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(name)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == extension)).collect();
    files.sort();
    files
}

/// Rust without comments, white space, `use` lines and the commas that only a line break needs.
fn tokens(rust: &str) -> String {
    let lines = rust.lines().map(str::trim).filter(|line| !line.starts_with("use ") && !line.starts_with("//"));
    let code: Vec<&str> = lines.map(|line| line.split_once(" //").map_or(line, |(code, _)| code)).collect();
    let code: String = code.concat().split_whitespace().collect();
    code.replace(",)", ")").replace(",]", "]").replace(",}", "}")
}

/// The figures of the pages are those of the results that lie beside them.
#[test]
fn tables_are_those_of_the_results() {
    let results = Results::read(&root().join("docs/performance.json")).unwrap();
    for page in ["README.md", "docs/performance.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains("<!-- measured:"), "{page}");
        assert!(fill(&text, &results) == text, "{page} shows other figures: cargo bench --bench table -- write");
    }
}

#[test]
fn the_rust_of_every_page_compiles() {
    let compiled: Vec<String> = [folder("tests/snippets", "rs"), folder("examples", "rs")]
        .concat()
        .iter()
        .map(|path| tokens(&std::fs::read_to_string(path).unwrap()))
        .collect();
    let mut count = 0;
    let mut missing = String::new();
    for (path, page) in pages() {
        for (_, block) in blocks(&page).1.into_iter().filter(|(language, _)| language.starts_with("rust")) {
            count += 1;
            if !compiled.iter().any(|file| file.contains(&tokens(&block))) {
                missing.extend([path.to_str().unwrap(), "\n", &block, "\n"]);
            }
        }
    }
    assert!(count > 5, "only {count} blocks were found");
    assert!(missing.is_empty(), "in no file of tests/snippets or examples:\n{missing}");
}

#[test]
fn rust_is_compared_by_its_tokens() {
    assert_eq!(tokens("use a::B;\nlet a = f(\n    1, // one\n    2,\n);"), tokens("let a = f(1, 2);  // three"));
    assert_ne!(tokens("f(1)"), tokens("f(2)"));
}

/// All files below a folder of the repository, with the paths that pages give them.
fn tracked(dir: &Path, found: &mut Vec<String>) {
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => tracked(&path, found),
            false => found.push(format!("/{}", path.strip_prefix(root()).unwrap().display())),
        }
    }
}

#[test]
fn the_architecture_names_files_that_exist() {
    let mut files = Vec::new();
    ["crates", "formats", "tests", "examples"].iter().for_each(|name| tracked(&root().join(name), &mut files));
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let prose = blocks(&page).0;
    let named: Vec<&str> = prose.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")).collect();
    let missing = named.iter().filter(|name| !files.iter().any(|file| file.ends_with(&format!("/{name}"))));
    assert!(named.len() > 30, "only {} files are named", named.len());
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = blocks(page).0;
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let kept = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|text| text.chars().filter(|c| kept(*c)).map(|c| if c == ' ' { '-' } else { c }).collect())
        .collect()
}

/// The targets of a page's relative links.
fn links(page: &str) -> Vec<String> {
    let prose = blocks(page).0;
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://") && !target.contains(' ')).map(str::to_owned).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, page) in pages() {
        for link in links(&page) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let found = target.exists()
                && (heading.is_empty() || anchors(&std::fs::read_to_string(&target).unwrap()).contains(heading));
            if !found {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(count > 40, "only {count} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn links_and_anchors_are_found() {
    let page = "# A `b`, c\n[x](y.md#z) [w](https://a.b)\n```sh\n# no heading, [no](link)\n```\n";
    assert_eq!(links(page), ["y.md#z"]);
    assert_eq!(anchors(page), BTreeSet::from(["a-b-c".to_owned()]));
}

/// A folder with the program, a `cargo` and an `sbatch` that stand for the real ones, and a Python where there is one.
fn programs(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_packhorse"), dir.join("packhorse")).unwrap();
    let python = external::python().unwrap_or_else(|| "true".into());
    // `sbatch --wait --array=… --wrap COMMAND`: two tasks, one after the other. Without `--wait`, Slurm's would return
    // before the next line of the page may run.
    let sbatch = "[[ \" $* \" == *\" --wait \"* ]] || { echo 'the next line runs too early' >&2; exit 1; }\n\
                  export SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=1 SLURM_ARRAY_TASK_ID\n\
                  for SLURM_ARRAY_TASK_ID in 0 1; do bash -c \"${@: -1}\" || exit; done";
    let python = format!("exec '{}' \"$@\"", python.display());
    // `srun --OPTION=… COMMAND`: one task.
    let srun = "while [[ $1 == --* ]]; do shift; done\nexec \"$@\"";
    for (name, script) in [("cargo", "exit 0"), ("sbatch", sbatch), ("srun", srun), ("python", &python)] {
        std::fs::write(dir.join(name), format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
        std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn bash(script: &str, dir: &Path, programs: &Path, settings: &BTreeMap<String, String>) {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output =
        Command::new("bash").args(["-euc", script]).current_dir(dir).env("PATH", path).envs(settings).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The commands that make what a block of README finds in its folder.
fn inputs(block: &str) -> String {
    let mut commands = String::new();
    // One array of each made-up archive has a length of its own: two of them would need `--ragged`.
    for (name, made) in [
        ("photos", "images --count 60"),
        ("my-photos", "images --count 12"),
        ("runs", "npz --count 1"),
        ("corpus", "text --count 1500"),
    ] {
        if block.contains(&format!(" {name}")) && !block.contains("packhorse synth") {
            commands += &format!("packhorse synth {made} --out {name}\n");
        }
    }
    // Keys come from names: these follow those of the first pictures.
    for (name, last) in [("more-photos", 60), ("still-more", 72)] {
        if block.contains(&format!(" {name}")) {
            let made = last + 12;
            commands +=
                &format!("packhorse synth images --count {made} --out {name}\nrm -f {name}/*/0000{{00..{last}}}.jpg\n");
        }
    }
    if ["pack", "view", "append"].iter().any(|verb| block.contains(&format!("{verb} shards")))
        && !block.contains("pack photos")
    {
        commands += "packhorse synth images --count 60 --out photos\n\
                     packhorse pack photos --to webdataset --out shards --labels folders\n";
    }
    if [" others", "'others", "bucket/others"].iter().any(|name| block.contains(name)) {
        commands += "packhorse synth images --count 12 --out made && mkdir others\n\
                     packhorse pack made --to webdataset --out packed --name train --samples-per-shard 6\n\
                     cp packed/*.tar others/\n";
    }
    commands
}

/// How many datasets are in the folders of `dir`.
fn sealed(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().join("dataset.json").exists()).count()
}

#[test]
fn the_dependency_of_readme_resolves() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let block = blocks(&page).1.into_iter().find(|(language, _)| language == "toml").unwrap().1;
    let here = block.replace("../packhorse", root().to_str().unwrap());
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/lib.rs"), "").unwrap();
    std::fs::copy(root().join("Cargo.lock"), dir.path().join("Cargo.lock")).unwrap();
    let manifest = format!("[package]\nname = \"user\"\nedition = \"2024\"\n[dependencies]\n{here}");
    for manifest in [manifest.clone(), manifest.replace("\"pack\"", "\"read\"")] {
        std::fs::write(dir.path().join("Cargo.toml"), &manifest).unwrap();
        let tree = Command::new(env!("CARGO")).args(["tree", "--offline"]).current_dir(dir.path()).output().unwrap();
        assert!(tree.status.success(), "{manifest}\n{}", String::from_utf8_lossy(&tree.stderr));
    }
}

#[test]
fn the_commands_of_readme_run() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    programs(&bin);
    let pages = ["README.md", "docs/append.md"].map(|page| std::fs::read_to_string(root().join(page)).unwrap());
    let shell = |page: &String| blocks(page).1.into_iter().filter(|(language, _)| language == "sh");
    let tokenizer = external::data().map(|data| std::fs::read(data.join("tokenizers/gpt2.json.zst")).unwrap());
    let mut datasets = 0;
    for (number, (_, block)) in pages.iter().flat_map(shell).enumerate() {
        let work = dir.path().join(number.to_string());
        std::fs::create_dir(&work).unwrap();
        if block.contains("tokenizer.json") {
            let Some(tokenizer) = &tokenizer else { continue };
            std::fs::write(work.join("tokenizer.json"), zstd::decode_all(&**tokenizer).unwrap()).unwrap();
        }
        let server = if block.contains("s3://") { Moto::new() } else { None };
        if block.contains("s3://") && server.is_none() {
            continue;
        }
        let settings = server.as_ref().map(Moto::settings).unwrap_or_default();
        // A file of CMS with muons is too large for a test.
        let lines = block.lines().filter(|line| !line.contains("events.root"));
        let script = lines.collect::<Vec<_>>().join("\n").replace("--count 1000 ", "--count 40 ");
        bash(&inputs(&script), &work, &bin, &settings);
        bash(&script, &work, &bin, &settings);
        datasets += sealed(&work);
    }
    assert!(datasets >= 5, "README's commands sealed only {datasets} datasets");
}

/// The tars in a folder, with their names.
fn tars(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap());
    paths.filter(|path| path.extension().is_some_and(|end| end == "tar")).map(named).collect()
}

/// Uploads an object.
fn put(settings: &BTreeMap<String, String>, place: &str, bytes: &[u8]) {
    use packhorse_core::Store;
    let options = packhorse::storage::RemoteOptions { s3: settings.clone(), ..Default::default() };
    let stores = packhorse::storage::Stores::new(options);
    let mut file = stores.upload(Path::new(place), false).unwrap().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    file.sync_and_close().unwrap();
}

#[test]
fn the_commands_about_shards_of_others_run() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    programs(&bin);
    let page = std::fs::read_to_string(root().join("docs/third-party.md")).unwrap();
    let scripts: Vec<String> = blocks(&page).1.into_iter().filter(|(is, _)| is == "sh").map(|(_, text)| text).collect();
    for (number, script) in scripts.iter().enumerate() {
        let work = dir.path().join(number.to_string());
        std::fs::create_dir(&work).unwrap();
        let server = if script.contains("s3://") { Moto::new() } else { None };
        if script.contains("s3://") && server.is_none() {
            continue;
        }
        let settings = server.as_ref().map(Moto::settings).unwrap_or_default();
        let made = inputs(script);
        bash(&made, &work, &bin, &settings);
        for (name, tar) in server.iter().flat_map(|_| tars(&work.join("others"))) {
            put(&settings, &format!("s3://bucket/others/{name}"), &tar);
        }
        bash(script, &work, &bin, &settings);
        assert!(work.join("others/train-000001.tar").exists(), "{script}");
    }
    assert!(!scripts.is_empty());
}

/// Commands of a site are in blocks of text, which are not run.
#[test]
fn the_commands_about_storage_run() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    programs(&bin);
    let page = std::fs::read_to_string(root().join("docs/cluster-storage.md")).unwrap();
    let scripts = blocks(&page).1.into_iter().filter(|(is, _)| is == "sh").map(|(_, text)| text);
    let results = ["out/dataset.json", "shards/dataset.json", "half/.packhorse-part.json", "pack.sbatch"];
    let mut found = BTreeSet::new();
    for (number, script) in scripts.enumerate() {
        let work = dir.path().join(number.to_string());
        std::fs::create_dir(&work).unwrap();
        let server = if script.contains("s3://") { Moto::new() } else { None };
        if script.contains("s3://") && server.is_none() {
            continue;
        }
        let mut settings = server.as_ref().map(Moto::settings).unwrap_or_default();
        settings.insert("OUT".to_owned(), work.join("out").to_str().unwrap().to_owned());
        let makes = script.contains(" photos ");
        let pack = "packhorse synth images --count 60 --out photos\n\
                    packhorse pack photos --to webdataset --out \"$OUT\" --labels folders --samples-per-shard 20\n";
        bash(&if makes { inputs(&script) } else { pack.to_owned() }, &work, &bin, &settings);
        bash(&script.replace("/dev/shm", work.to_str().unwrap()), &work, &bin, &settings);
        found.extend(results.into_iter().filter(|name| work.join(name).exists()));
    }
    assert_eq!(found, BTreeSet::from(results));
}
