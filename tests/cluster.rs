//! Scripts for schedulers: what they say, and that what they run makes the bytes of one process. The schedulers
//! themselves are not needed here; `tests/slurm.rs` has a real Slurm.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod process;
    pub(crate) mod strace;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::process::{Program, command, packhorse};
use common::strace;
use common::tree::{assert_equal, assert_kept, committed, tree};
use common::work::{Work, text};
use packhorse_testkit::external;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Pictures in 6 shards.
fn work() -> Work {
    Work::new(60, 10)
}

/// The value of the line of a script that begins with `start`.
fn after<'a>(script: &'a str, start: &str) -> &'a str {
    script.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("no {start}: {script}"))
}

/// A program of this name in the folder `bin`.
fn program(bin: &Path, name: &str, script: &str) {
    fs::create_dir_all(bin).unwrap();
    fs::write(bin.join(name), format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
}

fn finding(mut program: Program, bin: &Path) -> Program {
    program.0.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    program
}

/// Removes shards.
fn lose(out: &Path, shards: &[u32]) {
    for shard in shards {
        fs::remove_file(out.join(format!("shard-{shard:06}.tar"))).unwrap();
    }
}

#[test]
fn tasks_of_the_script_make_what_one_process_makes() {
    let work = work();
    let out = work.dir("out");
    let script = work.array("slurm", &out, &["--tasks", "3"]).succeed().printed;
    assert_eq!(after(&script, "#SBATCH --array="), "1-3");
    assert_eq!(committed(&out).keys().filter(|name| name.ends_with(".tar")).count(), 1, "the pilot is one shard");
    work.array("slurm", &out, &["--tasks", "3", "--local"]).succeed();
    work.assert_whole(&out, "tasks run here");
    for tasks in ["1", "100"] {
        let out = work.dir(tasks);
        work.array("slurm", &out, &["--tasks", tasks, "--local", "--no-pilot"]).succeed();
        work.assert_whole(&out, tasks);
    }
    // Nothing is left: the script says so, and can be submitted all the same.
    let done = work.array("slurm", &out, &["--tasks", "3"]).succeed().printed;
    assert!(done.starts_with("#!/bin/bash\n# Nothing is left to pack.\n# sealed "), "{done}");
    assert!(done.lines().all(|line| line.starts_with('#')), "{done}");
}

#[test]
fn resume_has_the_tasks_with_missing_shards_alone() {
    let work = work();
    let out = work.dir("out");
    work.array("slurm", &out, &["--tasks", "4", "--local"]).succeed();
    fs::remove_file(out.join("dataset.json")).unwrap();
    // Shards 1 and 5 are those of task 2, shard 3 is that of task 4.
    lose(&out, &[1, 3, 5]);
    let before = committed_but(&out, &[1, 3, 5]);
    let resume =
        |more: &[&str]| packhorse(&[&["slurm", "resume", text(&out), "--tasks", "4", "--no-pilot"], more].concat());
    let script = resume(&["--print"]).succeed().printed;
    assert_eq!(after(&script, "#SBATCH --array="), "2,4");
    resume(&["--local"]).succeed();
    assert_kept(&before, &out, "resumed");
    work.assert_whole(&out, "resumed");
    // Nothing is missing: the seal that was lost is made here.
    fs::remove_file(out.join("dataset.json")).unwrap();
    resume(&[]).succeed();
    work.assert_whole(&out, "sealed by resume");
}

fn committed_but(out: &Path, lost: &[u32]) -> common::tree::Committed {
    let receipts: Vec<PathBuf> = lost.iter().map(|shard| out.join(format!("shard-{shard:06}.receipt.json"))).collect();
    receipts.iter().for_each(|receipt| fs::remove_file(receipt).unwrap());
    committed(out)
}

#[test]
fn the_script_is_submitted_within_the_limits_of_slurm() {
    let work = work();
    let (out, bin, config) = (work.dir("out"), work.dir("bin"), work.dir("config"));
    program(&bin, "scontrol", "echo 'MaxArraySize            = 4'");
    program(
        &bin,
        "sbatch",
        &format!("[ \"$*\" = --parsable ] && cat > '{}' && echo 4711", work.dir("script").display()),
    );
    fs::create_dir_all(config.join("packhorse")).unwrap();
    let site = "partition = \"slow\"\naccount = \"proj\"\nrequeue = false\nsetup = [\"umask 022\"]\n";
    fs::write(config.join("packhorse/slurm.toml"), site).unwrap();
    let mut submit =
        finding(work.array("slurm", &out, &["--submit", "--json", "--", "-p", "cpu", "--exclusive"]), &bin);
    submit.0.env("XDG_CONFIG_HOME", &config);
    let said: Value = serde_json::from_str(&submit.succeed().printed).unwrap();
    assert_eq!((&said["job"], &said["parts"]), (&"4711".into(), &3.into()), "{said}");
    let script = fs::read_to_string(work.dir("script")).unwrap();
    assert_eq!(after(&script, "#SBATCH --array="), "1-3");
    assert_eq!(after(&script, "#SBATCH --partition="), "cpu");
    assert_eq!(after(&script, "#SBATCH --account="), "proj");
    assert!(script.contains("\n#SBATCH --exclusive\n") && script.contains("\numask 022\n"), "{script}");
    assert!(!script.contains("--requeue"), "{script}");
    program(&bin, "sbatch", "echo 'no such partition' >&2; exit 1");
    let refused = finding(work.array("slurm", &out, &["--submit"]), &bin).run();
    assert_eq!((refused.code(), refused.said.contains("sbatch refused the job")), (5, true), "{refused:?}");
}

#[test]
fn tasks_of_pbs_by_their_documented_environment() {
    let work = work();
    let (out, script) = (work.dir("out"), work.dir("script"));
    let text_of = work.array("pbs", &out, &["--tasks", "4", "--", "-q", "prod"]).succeed().printed;
    assert_eq!(after(&text_of, "#PBS -J "), "1-4");
    fs::write(&script, &text_of).unwrap();
    let folder = work.dir("");
    let environment = |index: &str| {
        let id = format!("1234[{index}].pbs-1");
        ["PBS_JOBID", "PBS_ARRAY_ID", "PBS_ARRAY_INDEX", "PBS_ENVIRONMENT", "PBS_O_WORKDIR", "PBS_QUEUE"]
            .into_iter()
            .zip([
                id,
                "1234[].pbs-1".to_owned(),
                index.to_owned(),
                "PBS_BATCH".into(),
                text(&folder).into(),
                "prod".into(),
            ])
            .collect::<Vec<_>>()
    };
    for index in ["3", "1", "4", "2"] {
        let mut task = command("bash");
        task.arg(&script).envs(environment(index));
        Program(task).succeed();
    }
    work.assert_whole(&out, "tasks of PBS");
    let mut unsaid = packhorse(&["pack", "--plan", text(&out)]);
    unsaid.0.envs(environment("1"));
    let unsaid = unsaid.run();
    assert_eq!((unsaid.code(), unsaid.said.contains("--part \"$PBS_ARRAY_INDEX/8\"")), (2, true), "{unsaid:?}");
}

/// The manifest is valid by the schemas of Kubernetes, and pods with its command and its environment pack.
#[test]
fn pods_of_the_manifest_make_what_one_process_makes() {
    let Some(python) = external::python() else { return };
    let work = work();
    let (out, file) = (work.dir("out"), work.dir("job.yaml"));
    let claim = format!("scratch={}", text(&work.dir("")));
    let pods = ["--tasks", "4", "--container", "registry.example/packhorse:1", "--claim", &claim, "--namespace", "ml"];
    fs::write(&file, work.array("k8s", &out, &pods).succeed().printed).unwrap();
    let mut check = Command::new(python);
    check.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/check_kubernetes.py")).arg(&file);
    let manifest: Value = serde_json::from_str(&Program(check).succeed().printed).unwrap();
    let (spec, pod) = (&manifest["spec"], &manifest["spec"]["template"]["spec"]);
    assert_eq!((&spec["completionMode"], &spec["completions"]), (&"Indexed".into(), &4.into()));
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "scratch");
    let container = &pod["containers"][0];
    assert!(container["resources"]["limits"]["memory"].as_str().unwrap().ends_with("Mi"));
    let words: Vec<&str> = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[0], "packhorse");
    for index in 0..4 {
        let mut pod = command(env!("CARGO_BIN_EXE_packhorse"));
        pod.args(&words[1..]).env("JOB_COMPLETION_INDEX", index.to_string());
        for variable in container["env"].as_array().unwrap() {
            pod.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
        }
        let ended = Program(pod).succeed();
        assert!(ended.said.contains(&format!("part {}/4 of the Kubernetes Job", index + 1)), "{ended:?}");
    }
    work.assert_whole(&out, "pods");
}

#[test]
fn all_tasks_at_once_and_the_last_one_seals() {
    let work = work();
    for round in 0..8 {
        let out = work.dir(&format!("out{round}"));
        work.planning("plan", &out, &[]).succeed();
        let tasks = [1, 2, 3]
            .map(|i| packhorse(&["pack", "--plan", text(&out), "--part", &format!("{i}/3"), "--seal"]).start());
        for task in tasks {
            let ended = task.end();
            assert_eq!(ended.code(), 0, "{ended:?}");
        }
        work.assert_whole(&out, "tasks at once");
        let before = tree(&out);
        let stamp = || fs::metadata(out.join("dataset.json")).unwrap().modified().unwrap();
        let sealed = stamp();
        packhorse(&["pack", "--plan", text(&out), "--part", "2/3", "--seal"]).succeed();
        assert_eq!((stamp(), tree(&out)), (sealed, before), "a sealed dataset is not sealed again");
    }
}

/// A process that seals slowly, on what looks like another host, loses its staged files to a faster one.
#[test]
fn the_slower_of_two_that_seal_finds_the_dataset_sealed() {
    if !strace::available() || !has_namespaces() {
        return;
    }
    let work = work();
    let (out, log) = (work.dir("out"), work.dir("log"));
    work.planning("plan", &out, &[]).succeed();
    packhorse(&["pack", "--plan", text(&out)]).succeed();
    let seal = ["pack", "--plan", text(&out), "--part", "1/6", "--seal"];
    let slow = strace::inject(packhorse(&seal), "fsync", "delay_enter=300000", None, &log).start();
    let start = Instant::now();
    while !out.join(".staging").exists() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(400));
    let mut elsewhere = command("unshare");
    elsewhere.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_packhorse")]).args(seal);
    Program(elsewhere).succeed();
    work.assert_whole(&out, "sealed beside a slower process");
    let ended = slow.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    work.assert_whole(&out, "after the slower process");
}

/// Whether a process may have a namespace of process numbers of its own: then it has another host's name for packhorse.
fn has_namespaces() -> bool {
    let found = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    external::skip("unshare is missing or may not make namespaces");
    false
}

#[test]
fn a_watch_shows_what_is_written_and_ends_with_the_seal() {
    if !strace::available() {
        return;
    }
    let work = work();
    let (out, log) = (work.dir("out"), work.dir("log"));
    work.planning("plan", &out, &[]).succeed();
    let few = ["--jobs", "1", "--io-threads", "1"];
    let slow = packhorse(&[&["pack", "--plan", text(&out), "--part", "1/2", "--seal"], &few[..]].concat());
    let slow = strace::inject(slow, "pread64", "delay_enter=50000", None, &log).start();
    let watch = packhorse(&["status", text(&out), "--watch=1", "--tasks", "2", "--json"]).start();
    packhorse(&["pack", "--plan", text(&out), "--part", "2/2", "--seal"]).succeed();
    let (slow, watch) = (slow.end(), watch.end());
    assert_eq!((slow.code(), watch.code()), (0, 0), "{slow:?} {watch:?}");
    let looks: Vec<Value> = watch.printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let running = looks.iter().flat_map(|look| look["running"].as_array().unwrap());
    let shards: Vec<&str> = running.map(|running| running["shard"].as_str().unwrap()).collect();
    let of_first = |name: &str| ["shard-000000", "shard-000002", "shard-000004"].contains(&name);
    assert!(shards.iter().any(|name| of_first(name)), "{looks:#?}");
    let tasks: Vec<&Value> = looks.iter().flat_map(|look| look["tasks"].as_array().unwrap()).collect();
    assert!(tasks.iter().any(|task| task["task"] == 1 && task["shards"] == 3 && task["missing"].as_u64() > Some(0)));
    let last = looks.last().unwrap();
    assert_eq!((&last["sealed"], &last["complete"], &last["packed"]), (&true.into(), &6.into(), &60.into()));
    assert!(looks.len() > 1 && looks.iter().rev().skip(1).all(|look| look["sealed"] == false));
}

/// What `status --json` says of the last errors: part, code and message of each.
fn errors(out: &Path) -> Vec<[String; 3]> {
    let said: Value = serde_json::from_str(&packhorse(&["status", text(out), "--json"]).run().printed).unwrap();
    let word = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    let listed = said["errors"].as_array().unwrap().iter();
    listed.map(|error| ["part", "code", "message"].map(|name| word(error, name))).collect()
}

#[test]
fn the_last_error_of_a_task_is_shown_until_it_succeeds() {
    let work = work();
    let (out, input, wanted) = (work.dir("out"), work.linked(), work.dir("wanted"));
    work.planning_of(&input, "pack", &wanted, &[]).succeed();
    work.planning_of(&input, "plan", &out, &[]).succeed();
    assert!(errors(&out).is_empty());
    let part = |part: &str| packhorse(&["pack", "--plan", text(&out), "--part", part, "--seal"]);
    fs::remove_file(&input).unwrap();
    for task in ["2/3", "1/3", "2/3"] {
        let failed = part(task).run();
        assert_eq!(failed.code(), 4, "{failed:?}");
    }
    let found = errors(&out);
    assert_eq!(found.iter().map(|error| &*error[0]).collect::<Vec<_>>(), ["1/3", "2/3"], "{found:?}");
    assert!(found.iter().all(|error| error[1] == "input-vanished" && !error[2].is_empty()), "{found:?}");
    let mut status = command(env!("CARGO_BIN_EXE_packhorse"));
    status.args(["status", text(&out)]);
    let shown = Program(status).succeed().printed;
    assert!(shown.contains("  task 2/3 ended with an error ") && shown.contains(text(&input)), "{shown}");
    work.linked();
    // The part's own success removes its note. Another division fills the shards of the other part, and its note is old.
    part("2/3").succeed();
    assert_eq!(errors(&out).len(), 1);
    let note = fs::read(out.join(".errors/1-of-3.json")).unwrap();
    packhorse(&["pack", "--plan", text(&out), "--part", "1/1"]).succeed();
    assert!(out.join(".errors/1-of-3.json").exists() && errors(&out).is_empty());
    packhorse(&["seal", text(&out)]).succeed();
    assert_equal(&tree(&wanted), &tree(&out), "sealed after errors");
    // A note that is left in a sealed dataset is not part of it.
    fs::create_dir(out.join(".errors")).unwrap();
    fs::write(out.join(".errors/1-of-3.json"), &note).unwrap();
    packhorse(&["verify", text(&out), "--full"]).succeed();
    assert!(errors(&out).is_empty());
    packhorse::open(text(&out)).unwrap();
    packhorse(&["seal", text(&out)]).succeed();
    assert_equal(&tree(&wanted), &tree(&out), "sealed again");
}

#[test]
fn a_watch_shows_the_errors_of_tasks() {
    let work = work();
    let (out, input) = (work.dir("out"), work.dir("copy"));
    assert!(Command::new("cp").arg("-r").arg(&work.input).arg(&input).status().unwrap().success());
    work.planning_of(&input, "plan", &out, &[]).succeed();
    let picture = fs::read_dir(fs::read_dir(&input).unwrap().next().unwrap().unwrap().path()).unwrap().next();
    fs::remove_file(picture.unwrap().unwrap().path()).unwrap();
    let mut codes: Vec<i32> =
        (1..=6).map(|i| packhorse(&["pack", "--plan", text(&out), "--part", &format!("{i}/6")]).run().code()).collect();
    let failed = codes.iter().position(|code| *code == 4).unwrap() + 1;
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 0, 0, 4]);
    let mut look = packhorse(&["status", text(&out), "--watch=60", "--tasks", "6", "--json"]).start();
    let mut plain = packhorse(&["status", text(&out), "--watch=60", "--tasks", "6"]).start();
    for watch in [&mut look, &mut plain] {
        watch.ends_within(watch.age() + Duration::from_secs(1));
        watch.kill();
    }
    let (look, plain) = (look.end().printed, plain.end().printed);
    let said: Value = serde_json::from_str(&look).unwrap();
    let error = &said["errors"][0];
    assert_eq!((&error["part"], &error["kind"]), (&format!("{failed}/6").into(), &"changed".into()), "{said}");
    assert!(error["host"].is_string() && error["time"].as_u64() > Some(0) && error["pid"].as_u64() > Some(0), "{said}");
    assert!(plain.contains(&format!("\n  task {failed}/6 ended with an error ")), "{plain}");
}

/// Notes are for people: others may write what they like there.
#[test]
fn a_note_that_was_tampered_with_does_no_harm() {
    let work = work();
    let (out, input) = (work.dir("out"), work.linked());
    work.planning_of(&input, "plan", &out, &[]).succeed();
    fs::remove_file(&input).unwrap();
    assert_eq!(packhorse(&["pack", "--plan", text(&out), "--part", "1/2"]).run().code(), 4);
    let note = out.join(".errors/1-of-2.json");
    let good = fs::read_to_string(&note).unwrap();
    let mut value: Value = serde_json::from_str(&good).unwrap();
    value["message"] = "\u{1b}[2Jgone\nall done".into();
    value["host"] = "\u{1b}[31m".into();
    fs::write(&note, value.to_string()).unwrap();
    let mut status = command(env!("CARGO_BIN_EXE_packhorse"));
    status.args(["status", text(&out)]);
    let shown = Program(status).succeed().printed;
    assert!(!shown.contains('\u{1b}') && shown.contains("gone\\nall done"), "{shown:?}");
    for bad in [&b"{}"[..], b"", &vec![b'['; 1 << 20], good.replace("_error\": 1", "_error\": 9").as_bytes()] {
        fs::write(&note, bad).unwrap();
        assert!(errors(&out).is_empty());
    }
    for (name, part) in [("0-of-2", "0/2"), ("3-of-2", "3/2"), ("1-of-0", "1/0")] {
        fs::write(out.join(format!(".errors/{name}.json")), good.replace("1/2", part)).unwrap();
    }
    assert!(errors(&out).is_empty());
    fs::remove_file(&note).unwrap();
    assert!(Command::new("mkfifo").arg(&note).status().unwrap().success());
    assert!(errors(&out).is_empty());
}

#[test]
fn requests_that_no_array_can_fill_are_refused() {
    let work = work();
    let out = work.dir("out");
    for (more, said) in [
        (&["--replace"][..], "pack into a new folder"),
        (&["--dry-run"], "packhorse plan --dry-run"),
        (&["--", "--array=1-9"], "--tasks"),
        (&["--", "cpu"], "options of the scheduler"),
    ] {
        let ended = work.array("slurm", &out, more).run();
        assert_eq!((ended.code(), ended.said.contains(said)), (2, true), "{more:?}: {ended:?}");
    }
    let unplanned = packhorse(&["slurm", "resume", text(&work.dir("empty"))]).run();
    assert_eq!(unplanned.code(), 2, "{unplanned:?}");
}
