//! Indexes of tars that others wrote, against the readers' own tools in the same run: `cargo bench --bench index`.
//!
//! `PACKHORSE_PYTHON` is a Python with wids and Energon, whose programs lie beside it. Arguments after `--`: the number of
//! samples, of two members each (default 200000), that of tars (default 20), and of rounds (default 3). The tars lie in `/dev/shm` where that is, else in
//! the build folder, so that the time is that of the work and not of a disk. `widsindex create` also computes MD5, so
//! packhorse does that there too; what MD5 costs shows beside the index without it, which is optional in `wids`.

#![expect(clippy::expect_used, reason = "a bench ends where it can't go on")]

use packhorse_testkit::hostile::tar::{TarMember, archive};
use packhorse_testkit::trials::{Trials, Unit, run, thousands};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of a reader that makes its index, where it is installed.
type Tool = fn(&Path) -> Option<Command>;

fn main() {
    let mut trials = Trials::of("index");
    let (samples, shards, rounds) = (trials.number(0, 200_000), trials.number(1, 20), trials.number(2, 3) as usize);
    let indexes: [(&str, Tool); 3] = [("wids", |_| None), ("wids:md5", wids), ("energon", energon)];
    if !indexes.iter().any(|(index, _)| trials.wants(&format!("index-{index}"))) {
        return;
    }
    let shm = Path::new("/dev/shm");
    let home = if shm.is_dir() { shm } else { Path::new(env!("CARGO_TARGET_TMPDIR")) }.join("packhorse-bench-index");
    // What an interrupted run left.
    let _ = std::fs::remove_dir_all(&home);
    let tars = home.join("tars");
    std::fs::create_dir_all(&tars).expect("a folder");
    (0..shards).for_each(|n| tar(&tars.join(format!("{n:06}.tar")), n * samples / shards..(n + 1) * samples / shards));
    for (index, tool) in indexes {
        let title = format!("index {index} of {shards} tars of others, {} samples", thousands(samples));
        let trial = trials.work(&format!("index-{index}"), title, Unit::Samples, samples as f64);
        let mut trial = trial.ours("packhorse", |clock| {
            tars_alone(&tars);
            clock.time(|| {
                let indexed = packhorse::session().index([&tars], index).expect("index");
                assert_eq!(indexed.samples, samples);
            });
        });
        if let Some(command) = tool(&tars) {
            let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_owned();
            let tars = &tars;
            trial = trial.peer(name.to_string_lossy(), move |clock| {
                tars_alone(tars);
                let mut command = tool(tars).expect("a tool that was there");
                clock.time(|| run(&mut command));
            });
        }
        trial.run(rounds);
    }
    std::fs::remove_dir_all(&home).expect("the folder goes away");
}

/// Removes indexes, of which an up-to-date one would be left as it is.
fn tars_alone(tars: &Path) {
    for entry in std::fs::read_dir(tars).expect("tars").map(|entry| entry.expect("a tar")) {
        let (path, is_folder) = (entry.path(), entry.file_type().expect("a type").is_dir());
        match is_folder {
            true => std::fs::remove_dir_all(path).expect("an index"),
            false if path.extension().is_some_and(|extension| extension == "tar") => {}
            false => std::fs::remove_file(path).expect("an index"),
        }
    }
}

/// Writes a tar of samples with two small members each.
fn tar(path: &Path, samples: std::ops::Range<u64>) {
    let mut members = Vec::new();
    for n in samples {
        members.push(TarMember::file(format!("{n:09}.txt"), n.to_string().repeat(30)));
        members.push(TarMember::file(format!("{n:09}.cls"), "7"));
    }
    std::fs::write(path, archive(&members)).expect("a tar");
}

/// A program beside the Python.
fn program(name: &str, tars: &Path) -> Option<Command> {
    let python = PathBuf::from(std::env::var_os("PACKHORSE_PYTHON")?);
    let path = python.with_file_name(name);
    let mut command = Command::new(path.exists().then_some(path)?);
    command.current_dir(tars);
    Some(command)
}

fn wids(tars: &Path) -> Option<Command> {
    let mut command = program("widsindex", tars)?;
    let mut names: Vec<_> = std::fs::read_dir(tars).ok()?.flatten().map(|entry| entry.file_name()).collect();
    names.retain(|name| name.to_string_lossy().ends_with(".tar"));
    command.args(["create", "--name", "tars", "--output", "../theirs.json"]).args(names);
    Some(command)
}

fn energon(tars: &Path) -> Option<Command> {
    let mut command = program("energon", tars)?;
    let how = ["--non-interactive", "--no-progress", "--force-overwrite", "--split-ratio", "1,0,0"];
    command.arg("prepare").args(how).args(["--sample-type", "CrudeWebdataset", "."]);
    Some(command)
}
