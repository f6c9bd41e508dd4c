//! A Slurm array makes the bytes that one process makes: requeued in the middle of a shard, after a task that failed, and
//! after one that Slurm ended at its time limit; and so does the script of `packhorse slurm pack`.
//!
//! `PACKHORSE_SLURM` names a folder with `slurm-up.sh` and `slurm-down.sh`, which start and stop a
//! cluster of one node below `$SLURM_ROOT`. Where it is not set, or Slurm is not installed, the test
//! says so and does nothing.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "what goes wrong here fails the test")]

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
use common::tree::{assert_kept, committed};
use common::work::{Work, text};
use packhorse_testkit::external::slurm;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TASKS: u32 = 8;

/// A cluster of one node; stopped and wiped when dropped.
struct Cluster {
    scripts: PathBuf,
    /// The cluster's own files.
    root: PathBuf,
    /// Where jobs run, and their logs go.
    jobs: PathBuf,
    ports: [u16; 2],
}

impl Cluster {
    /// Starts a cluster whose jobs find `packhorse` in the folder `bin`.
    fn start(dir: &Path) -> Option<Self> {
        let scripts = slurm()?;
        if !Path::new("/usr/sbin/slurmctld").exists() {
            packhorse_testkit::external::skip("Slurm is not installed");
            return None;
        }
        let [root, jobs] = ["cluster", "jobs"].map(|name| dir.join(name));
        std::fs::create_dir(&jobs).unwrap();
        let free: [_; 2] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = free.each_ref().map(|socket| socket.local_addr().unwrap().port());
        drop(free);
        slow_packhorse(&dir.join("bin"));
        let cluster = Self { scripts, root, jobs, ports };
        cluster.script("slurm-up.sh", &[]).succeed();
        Some(cluster)
    }

    fn script(&self, name: &str, args: &[&str]) -> Program {
        let mut script = command(text(&self.scripts.join(name)));
        let [controller, node] = self.ports.map(|port| port.to_string());
        script.args(args).env("SLURM_ROOT", &self.root).env("SLURM_CTLD_PORT", controller).env("SLURM_D_PORT", node);
        Program(script)
    }

    /// What a command of Slurm prints.
    fn slurm(&self, args: &[&str]) -> String {
        let mut slurm = command(args[0]);
        let path = format!("{}:{}", text(&self.jobs.with_file_name("bin")), std::env::var("PATH").unwrap());
        slurm
            .args(&args[1..])
            .current_dir(&self.jobs)
            .env("SLURM_CONF", self.root.join("slurm.conf"))
            .env("PATH", path);
        Program(slurm).succeed().printed.trim().to_owned()
    }

    /// The second and third line of the example: the array, and the seal once all of it is done.
    fn submit(&self, out: &Path) -> (String, String) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/slurm_array.sbatch");
        let array = format!("--array=0-{}", TASKS - 1);
        let small = ["--cpus-per-task=1", "--mem=100"];
        let fill = self.slurm(&[&["sbatch", "--parsable", &array], &small[..], &[script, text(out)]].concat());
        let (after, seal) = (format!("--dependency=afterok:{fill}"), format!("packhorse seal '{}'", text(out)));
        let seal = ["sbatch", "--parsable", &after, "--kill-on-invalid-dep=yes", "--mem=100", "--wrap", &seal];
        (fill, self.slurm(&seal))
    }

    /// `packhorse slurm resume`: the number of the job.
    fn resume(&self, out: &Path, tasks: &str, options: &[&str]) -> String {
        let mut resume = command(env!("CARGO_BIN_EXE_packhorse"));
        resume.args(["slurm", "resume", text(out), "--tasks", tasks, "--no-pilot", "--json"]).args(options);
        resume.current_dir(&self.jobs).env("SLURM_CONF", self.root.join("slurm.conf"));
        let said: serde_json::Value = serde_json::from_str(&Program(resume).succeed().printed).unwrap();
        said["job"].as_str().unwrap().to_owned()
    }

    /// Waits until `done`.
    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(90), "waiting for {what}:\n{}", self.slurm(&["squeue"]));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until no job is left. A task that was requeued waits some seconds before it may start, and
    /// the scheduler would look at it again only after a minute, unless something happens.
    fn drain(&self) {
        self.wait("the queue to be empty", || {
            self.slurm(&["scontrol", "update", "PartitionName=p", "State=UP"]);
            self.slurm(&["squeue", "-h"]).is_empty()
        });
    }

    /// Submits the script of `packhorse slurm pack` with these arguments and the site's defaults in `config`, with the slow
    /// `packhorse`. Returns the script and the number of the job.
    fn submit_script(&self, work: &Work, out: &Path, args: &[&str]) -> (String, String) {
        let mut print = work.array("slurm", out, args);
        print.0.env("SLURM_CONF", self.root.join("slurm.conf")).env("XDG_CONFIG_HOME", work.dir("config"));
        let script = print.succeed().printed;
        let slow = self.jobs.with_file_name("bin/packhorse");
        let slowed = script.replace(env!("CARGO_BIN_EXE_packhorse"), text(&slow));
        fs::write(self.jobs.join("pack.sbatch"), slowed).unwrap();
        (script, self.slurm(&["sbatch", "--parsable", "pack.sbatch"]))
    }

    /// The numbers of the tasks of a job.
    fn tasks(&self, job: &str) -> Vec<String> {
        let found = self.slurm(&["scontrol", "show", "job", job]);
        found.split_whitespace().filter_map(|word| word.strip_prefix("ArrayTaskId=")).map(str::to_owned).collect()
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.jobs.join(name)).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Jobs run below a folder that is about to go away.
        let down = self.script("slurm-down.sh", &["--wipe"]).run();
        if std::thread::panicking() {
            println!("{down:?}");
        }
    }
}

/// A `packhorse` whose reads take long, as from a busy file system, so that there is time to interfere. The task of an
/// array that `SLOW_TASK` names reads one input after the other too.
fn slow_packhorse(bin: &Path) {
    let packhorse = env!("CARGO_BIN_EXE_packhorse");
    let slow = "strace -D -f -qq -o /dev/null -e trace=pread64 -e inject=pread64:delay_enter=";
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = pack ] || exec '{packhorse}' \"$@\"\n\
         [ \"$SLURM_ARRAY_TASK_ID\" = \"$SLOW_TASK\" ] && exec {slow}70000 -- '{packhorse}' \"$@\" --io-threads 1\n\
         exec {slow}100000 -- '{packhorse}' \"$@\"\n"
    );
    std::fs::create_dir(bin).unwrap();
    let path = bin.join("packhorse");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn receipts(out: &Path) -> usize {
    committed(out).keys().filter(|name| name.ends_with(".receipt.json")).count()
}

#[test]
fn an_array_makes_the_bytes_of_one_process() {
    if !strace::available() {
        return;
    }
    let work = Work::new(600, 10);
    let Some(cluster) = Cluster::start(&work.dir("")) else { return };
    requeued_tasks(&work, &cluster);
    a_stopped_task(&work, &cluster);
    requeued_tasks(&Work::tokens(600, "4KB"), &cluster);
    the_printed_script(&work, &cluster);
}

/// The printed script: three tasks are requeued, one is killed; the last task of those that were submitted again seals.
fn the_printed_script(work: &Work, cluster: &Cluster) {
    let out = work.dir("printed");
    let small = ["--", "--cpus-per-task=1", "--mem=100"];
    let (script, job) = cluster.submit_script(work, &out, &[&["--tasks", "8"][..], &small].concat());
    assert!(script.contains("#SBATCH --array=1-8\n"), "{script}");
    cluster.wait("the first shards", || receipts(&out) >= 2);
    for task in [2, 5, 7] {
        cluster.slurm(&["scontrol", "requeue", &format!("{job}_{task}")]);
    }
    cluster.slurm(&["scancel", "--full", "--signal=KILL", &format!("{job}_3")]);
    cluster.drain();
    let log = |task: u32| cluster.log(&format!("packhorse-{job}_{task}.log"));
    for task in [1, 2, 4, 5, 6, 7, 8] {
        assert!(log(task).contains("other parts are not done"), "task {task}: {}", log(task));
    }
    assert!(!out.join("dataset.json").exists(), "sealed without the shards of task 3");
    work.assert_no_half_file(&out, "a killed task");
    let before = committed(&out);
    let again = cluster.resume(&out, "8", &small);
    cluster.drain();
    assert_eq!(cluster.tasks(&again), ["3"]);
    let log = cluster.log(&format!("packhorse-{again}_3.log"));
    assert!(log.contains("sealed"), "{log}");
    assert_kept(&before, &out, "resumed");
    work.assert_whole(&out, "the printed script");
}

/// Two tasks are stopped in the middle of a shard, and started again.
fn requeued_tasks(work: &Work, cluster: &Cluster) {
    let out = work.dir("requeued");
    work.planning("plan", &out, &[]).succeed();
    let (fill, seal) = cluster.submit(&out);
    cluster.wait("the first shards", || receipts(&out) >= 1);
    for task in [2, 5] {
        cluster.slurm(&["scontrol", "requeue", &format!("{fill}_{task}")]);
    }
    cluster.drain();
    for task in 0..TASKS {
        let log = cluster.log(&format!("packhorse-{fill}_{task}.log"));
        assert_eq!(log.contains("stopped on request"), [2, 5].contains(&task), "task {task}: {log}");
        assert!(log.contains("when all parts are done"), "task {task}: {log}");
    }
    work.assert_whole(&out, "an array with requeued tasks");
    let said = cluster.log(&format!("slurm-{seal}.out"));
    let root =
        said.split("root digest ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_else(|| panic!("{said}"));
    let manifest = std::fs::read_to_string(work.dir("undisturbed/dataset.json")).unwrap();
    assert!(manifest.contains(&format!("\"root\": \"{root}\"")), "{said}");
}

/// A task that is asked to stop, as before its time limit, fails, nothing is sealed, and submitting again finishes the rest.
fn a_stopped_task(work: &Work, cluster: &Cluster) {
    let out = work.dir("stopped");
    work.planning("plan", &out, &[]).succeed();
    let (fill, seal) = cluster.submit(&out);
    cluster.wait("the first shards", || receipts(&out) >= 1);
    cluster.slurm(&["scancel", "--batch", "--signal=USR1", &format!("{fill}_3")]);
    cluster.drain();
    let log = cluster.log(&format!("packhorse-{fill}_3.log"));
    assert!(log.contains("stopped on request"), "{log}");
    let job = cluster.slurm(&["scontrol", "show", "job", &format!("{fill}_3")]);
    assert!(job.contains("ExitCode=130:0"), "{job}");
    let job = cluster.slurm(&["scontrol", "show", "job", &seal]);
    assert!(job.contains("JobState=CANCELLED"), "{job}");
    assert!(!out.join("dataset.json").exists() && !out.join(".staging").exists());
    work.assert_no_half_file(&out, "a stopped task");
    let before = committed(&out);
    cluster.submit(&out);
    cluster.drain();
    work.assert_whole(&out, "submitted again");
    assert_kept(&before, &out, "submitted again");
}

/// The shards that processes are writing.
fn running(out: &Path) -> Vec<String> {
    let mut status = packhorse(&["status", text(out), "--watch=600", "--json"]).start();
    // Its first look comes at once.
    status.ends_within(Duration::from_millis(500));
    status.kill();
    let said = status.end().printed;
    let look: serde_json::Value = serde_json::from_str(said.lines().next().unwrap_or("{}")).unwrap();
    let shards = look["running"].as_array().into_iter().flatten();
    shards.map(|shard| shard["shard"].as_str().unwrap().to_owned()).collect()
}

/// Slurm ends one of two tasks by its time limit: the task completes the shards that it was writing and fails with the
/// documented code, and `packhorse slurm resume` does the rest of that task alone.
#[test]
fn a_task_ends_at_its_time_limit_and_resume_does_the_rest() {
    if !strace::available() {
        return;
    }
    let work = Work::new(1200, 10);
    let Some(cluster) = Cluster::start(&work.dir("")) else { return };
    let out = work.dir("limited");
    // The time limit alone ends the task, with no signal a minute before it.
    fs::create_dir_all(work.dir("config/packhorse")).unwrap();
    fs::write(work.dir("config/packhorse/slurm.toml"), "signal = false\n").unwrap();
    let small = ["--cpus-per-task=1", "--mem=100"];
    let limit = ["--tasks", "2", "--jobs", "1", "--no-pilot", "--", "--time=1", "--export=ALL,SLOW_TASK=1"];
    let (_, job) = cluster.submit_script(&work, &out, &[&limit[..], &small].concat());
    let task = format!("{job}_1");
    let show = || cluster.slurm(&["scontrol", "show", "job", &task]);
    cluster.wait("the first task", || show().contains("JobState=RUNNING"));
    // Limits are whole minutes; the end that follows from the limit may be moved. Slurm looks at it every 30 seconds.
    cluster.slurm(&["scontrol", "update", &format!("JobId={task}"), "EndTime=now+2seconds"]);
    let mut written = std::collections::BTreeSet::new();
    while show().contains("JobState=RUNNING") {
        written.extend(running(&out));
    }
    cluster.drain();
    let (ended, log) = (show(), cluster.log(&format!("packhorse-{task}.log")));
    assert!(ended.contains("JobState=TIMEOUT") && ended.contains("ExitCode=130:0"), "{ended}\n{log}");
    assert!(log.contains("DUE TO TIME LIMIT") && log.contains("stopped on request"), "{log}");
    assert!(!out.join("dataset.json").exists() && !out.join(".staging").exists());
    let before = committed(&out);
    let count = receipts(&out);
    assert!((61..120).contains(&count), "{count} shards are complete: the limit came too early or too late");
    assert!(!written.is_empty());
    for shard in &written {
        assert!(before.contains_key(&format!("{shard}.receipt.json")), "{shard} was not completed\n{log}");
    }
    work.assert_no_half_file(&out, "at the time limit");
    let status = packhorse(&["status", text(&out), "--json"]).run().printed;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["errors"][0]["part"], &status["errors"][0]["kind"]), (&"1/2".into(), &"cancelled".into()));
    let again = cluster.resume(&out, "2", &[&["--jobs", "1", "--"][..], &small].concat());
    cluster.drain();
    assert_eq!(cluster.tasks(&again), ["1"]);
    let log = cluster.log(&format!("packhorse-{again}_1.log"));
    assert!(log.contains(&format!("with {} shards that were there already", count - 60)), "{log}");
    assert_kept(&before, &out, "resumed after a time limit");
    work.assert_whole(&out, "after a time limit");
}
