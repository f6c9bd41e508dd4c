//! Object stores whose requests fail, one after the other, in every way: a job in a bucket makes the dataset of a local
//! folder, or it says what failed, leaves nothing half done under a final name, and the next run completes it.
//!
//! Servers are `s3s-fs`, in this process, with the feature `s3-tests`; and moto, started with `PACKHORSE_PYTHON`. The test
//! stands between client and server. Some object stores list late, which is a fault here too.
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bucket;
    pub(crate) mod moto;
    pub(crate) mod process;
    pub(crate) mod proxy;
}

#[cfg(feature = "s3-tests")]
use common::bucket::InProcess;
use common::bucket::{Files, Server, files, place};
use common::moto::Moto;
use common::process::packhorse;
use common::proxy::{Fault, Proxy};
use packhorse::core::{Cancel, Error, Kind, Result, Store};
use packhorse::pack::Depth;
use packhorse::read::cache::{StageOptions, stage};
use packhorse::storage::{RemoteOptions, Stores};
use packhorse::{Part, Recipe, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Which requests fail, from number `k` on.
#[derive(Clone, Copy, Debug)]
enum Course {
    /// One.
    Once(Fault),
    /// One in the first way, and all later ones in the second.
    Ends(Fault, Fault),
}

use Course::{Ends, Once};
use Fault::{CutAnswer, LostAnswer, LostRequest, OtherClock, Refused, Silence};

/// A server that refuses a request because of its time.
const SKEWED: Fault = Refused(403, "RequestTimeTooSkewed");

/// What every job is tried with: the job ends at a request that was done; one that was done is sent again.
const EACH: [Course; 2] = [Ends(LostAnswer, LostRequest), Once(LostAnswer)];

/// What one job is tried with too.
const MORE: [Course; 8] = [
    Once(Refused(500, "InternalError")),
    Once(Refused(503, "SlowDown")),
    Once(LostRequest),
    Once(CutAnswer),
    Once(OtherClock),
    Once(Silence(700)),
    Ends(CutAnswer, Refused(503, "SlowDown")),
    Ends(SKEWED, SKEWED),
];

impl Course {
    fn fault(self, number: u64, k: u64) -> Fault {
        match self {
            Once(fault) | Ends(fault, _) if number == k => fault,
            Ends(_, fault) if number > k => fault,
            _ => Fault::Nothing,
        }
    }

    fn passes(self) -> bool {
        matches!(self, Once(_))
    }
}

/// Work on the dataset at a place of a store.
type Work<'a> = dyn Fn(&Arc<dyn Store>, &Path) -> Result<()> + Sync + 'a;

/// A job on the dataset at a place: the objects before and after, and the work.
struct Job<'a> {
    name: &'a str,
    before: &'a Files,
    after: &'a Files,
    run: &'a Work<'a>,
}

/// A server behind a proxy, and clients of it.
struct Relay<'a> {
    server: &'a dyn Server,
    proxy: Proxy,
    /// Gives requests up soon.
    hasty: Arc<dyn Store>,
    /// Waits a short time only.
    impatient: Arc<dyn Store>,
    /// Passes the proxy by.
    direct: Arc<dyn Store>,
}

impl<'a> Relay<'a> {
    fn new(server: &'a dyn Server) -> Self {
        let proxy = Proxy::with(&server.address(), |_| Fault::Nothing);
        let mut s3 = server.settings();
        s3.insert("AWS_ENDPOINT_URL".to_owned(), format!("http://{}", proxy.address));
        let hasty =
            RemoteOptions { tries: 3, first_wait: Duration::from_millis(1), part: 5 << 20, s3, ..Default::default() };
        let half = Duration::from_millis(500);
        let impatient = RemoteOptions { tries: 9, connect_timeout: half, idle_timeout: half, ..hasty.clone() };
        let [hasty, impatient] = [hasty, impatient].map(|options| Arc::new(Stores::new(options)) as Arc<dyn Store>);
        Self { server, proxy, hasty, impatient, direct: Arc::new(server.stores()) }
    }
}

fn session(store: &Arc<dyn Store>) -> Session {
    packhorse::session().store(store.clone()).jobs(1).io_threads(1)
}

/// A corpus and its datasets in local folders.
struct Local {
    dir: tempfile::TempDir,
}

impl Local {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        for (folder, names) in [("first", ["a", "b", "c"]), ("more", ["d", "e", "f"])] {
            let folder = dir.path().join(folder);
            std::fs::create_dir(&folder).unwrap();
            for name in names {
                std::fs::write(folder.join(name).with_extension("txt"), name.repeat(700)).unwrap();
                std::fs::write(folder.join(name).with_extension("cls"), "1").unwrap();
            }
        }
        Self { dir }
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn recipe(&self, out: &Path) -> Recipe {
        Recipe { index: Some("wids".into()), ..Recipe::new(self.dir("first"), "webdataset", out).samples_per_shard(2) }
    }

    fn more(&self) -> Recipe {
        Recipe { input: vec![self.dir("more")], ..Recipe::default() }
    }

    /// The dataset of the first samples.
    fn packed(&self) -> Files {
        packhorse::session().pack(&self.recipe(&self.dir("out"))).unwrap();
        files(&self.dir("out"))
    }
}

/// Runs the job with a fault at each request.
fn every_request_fails(server: &dyn Server, job: &Job<'_>, courses: &[Course]) {
    let undisturbed = attempt(&Relay::new(server), job, u64::MAX, Once(LostRequest));
    assert!(undisturbed > 3, "{}: {undisturbed} requests", job.name);
    let (next, met) = (AtomicU64::new(0), AtomicU64::new(0));
    // A server that lists its unfinished uploads is asked for all of them.
    let threads = if server.lists_uploads() { 1 } else { 3 };
    let attempts = undisturbed * courses.len() as u64;
    let run = || {
        let relay = Relay::new(server);
        loop {
            let n = next.fetch_add(1, Ordering::SeqCst);
            let Some(course) = courses.get((n / undisturbed) as usize) else { return };
            let k = n % undisturbed;
            met.fetch_add(u64::from(attempt(&relay, job, k, *course) > k), Ordering::SeqCst);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run))));
    let met = met.load(Ordering::SeqCst);
    assert!(met * 10 > attempts * 9, "{}: {met} of {attempts} met a fault", job.name);
    packhorse_testkit::external::count(met, "failing requests to an object store");
}

/// Runs the job with a fault at request `k`, and again without. Returns the number of requests at first.
fn attempt(relay: &Relay<'_>, job: &Job<'_>, k: u64, course: Course) -> u64 {
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let (server, proxy) = (relay.server, &relay.proxy);
    let prefix = format!("{}-{}", job.name, ATTEMPTS.fetch_add(1, Ordering::SeqCst));
    server.fill(&prefix, job.before);
    proxy.begin(move |number| course.fault(number, k));
    let store = if matches!(course, Once(Silence(_))) { &relay.impatient } else { &relay.hasty };
    let ended = (job.run)(store, &place(&prefix));
    let (requests, faults) = proxy.counts();
    let (met, broken) = (proxy.met(), proxy.broken());
    let when =
        format!("{} in {prefix}: {course:?} at {k}, {:?}: {ended:?}; by itself: {broken:?}", job.name, met.first());
    let now = server.objects(&prefix);
    match &ended {
        Ok(()) => assert_same(job.after, &now, &when),
        Err(error) => {
            // Under load moto fails by itself now and then.
            let by_itself = server.lists_uploads() && !broken.is_empty();
            assert!(by_itself || faults > 0 && !course.passes(), "{when}");
            assert_said(error, course, &when);
            assert_old_or_new(job, &now, &when);
        }
    }
    if faults > 0 || ended.is_err() {
        // What was done is left as it is by the tests of each command.
        if ended.is_err() {
            (job.run)(&relay.direct, &place(&prefix)).unwrap_or_else(|e| panic!("{when}; again: {e}"));
            assert_same(job.after, &server.objects(&prefix), &when);
        }
        if server.lists_uploads() {
            session(&relay.direct).clean(place(&prefix)).unwrap();
            assert_eq!(server.unfinished(), 0, "{when}");
        }
    }
    server.forget(&prefix);
    requests
}

/// An error of the environment that names the object and says what to do.
fn assert_said(error: &Error, course: Course, when: &str) {
    let said = error.to_string();
    let advice = match course {
        Ends(SKEWED, _) => "set the clock of this machine",
        _ => "run the same command again",
    };
    assert!(error.kind() == Kind::Environment && said.contains("s3://bucket/") && said.contains(advice), "{when}");
}

/// What belongs to the dataset: not the copies of damaged files.
fn of_dataset(files: &Files) -> Files {
    files.iter().filter(|(name, _)| !name.starts_with(".quarantine/")).map(|(n, b)| (n.clone(), b.clone())).collect()
}

#[track_caller]
fn assert_same(wanted: &Files, now: &Files, when: &str) {
    let (wanted, now) = (of_dataset(wanted), of_dataset(now));
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&wanted), names(&now), "{when}");
    wanted.iter().for_each(|(name, bytes)| assert!(now.get(name) == Some(bytes), "{when}: {name} has other bytes"));
}

/// Each object is as before or as after the job, and a copy in quarantine is one of an object before.
#[track_caller]
fn assert_old_or_new(job: &Job<'_>, now: &Files, when: &str) {
    for (name, bytes) in now {
        let known = [job.before, job.after].iter().any(|files| files.get(name) == Some(bytes));
        let kept = name.starts_with(".quarantine/") && !name.ends_with(".reason.json");
        let copied = kept && job.before.values().any(|old| old == bytes);
        let reason = name.starts_with(".quarantine/") && bytes.ends_with(b"}\n");
        assert!(known || copied || reason, "{when}: {name} is of neither dataset");
    }
}

/// Calls `test` with every server that is at hand.
fn with_servers(test: impl Fn(&dyn Server)) {
    #[cfg(feature = "s3-tests")]
    test(&InProcess::new());
    if let Some(moto) = Moto::new() {
        test(&moto);
    }
}

/// Runs the job with faults at the server in this process.
fn with_faults(job: &Job<'_>, courses: &[Course]) {
    #[cfg(feature = "s3-tests")]
    every_request_fails(&InProcess::new(), job, courses);
    #[cfg(not(feature = "s3-tests"))]
    packhorse_testkit::external::skip(&format!("{} at {courses:?} needs the feature s3-tests", job.name));
}

#[test]
fn every_request_of_pack_fails() {
    let local = Local::new();
    let after = &local.packed();
    let run = |store: &Arc<dyn Store>, out: &Path| session(store).pack(&local.recipe(out)).map(drop);
    with_faults(&Job { name: "pack", before: &Files::new(), after, run: &run }, &[&EACH[..], &MORE].concat());
}

/// The parts of a plan, the last of which seals.
#[test]
fn every_request_of_a_part_and_of_seal_fails() {
    let local = Local::new();
    let (out, after) = (local.dir("out"), local.packed());
    std::fs::remove_dir_all(&out).unwrap();
    let recipe = local.recipe(&out);
    let here = packhorse::session();
    here.store_plan(&recipe, &here.plan(&recipe).unwrap()).unwrap();
    here.fill(&out, Part::new(1, 2).unwrap()).unwrap();
    let before = files(&out);
    let run = |store: &Arc<dyn Store>, out: &Path| -> Result<()> {
        session(store).fill(out, Part::new(2, 2)?)?;
        session(store).seal_if_complete(out)?.map(drop).ok_or_else(|| Error::bug("not sealed"))
    };
    with_faults(&Job { name: "part", before: &before, after: &after, run: &run }, &EACH);
    here.fill(&out, Part::ALL).unwrap();
    let run = |store: &Arc<dyn Store>, out: &Path| session(store).seal(out).map(drop);
    with_faults(&Job { name: "seal", before: &files(&out), after: &after, run: &run }, &EACH);
}

#[test]
fn every_request_of_append_fails() {
    let local = Local::new();
    let before = local.packed();
    packhorse::session().append(local.dir("out"), &local.more()).unwrap();
    let after = &files(&local.dir("out"));
    let run = |store: &Arc<dyn Store>, out: &Path| session(store).append(out, &local.more()).map(drop);
    with_faults(&Job { name: "append", before: &before, after, run: &run }, &EACH);
}

#[test]
fn every_request_of_repair_fails() {
    let local = Local::new();
    let after = local.packed();
    let mut before = after.clone();
    before.get_mut("shard-000000.tar").unwrap()[600] ^= 1;
    before.remove("shard-000001.receipt.json").unwrap();
    let run = |store: &Arc<dyn Store>, out: &Path| session(store).repair(out).map(drop);
    with_faults(&Job { name: "repair", before: &before, after: &after, run: &run }, &EACH);
    let kept = |name: &str| format!(".quarantine/1/{name}");
    let quarantine = ["shard-000000.tar", "shard-000000.tar.reason.json"].map(|name| (kept(name), b"}\n".to_vec()));
    let before = after.clone().into_iter().chain(quarantine).collect();
    let run = |store: &Arc<dyn Store>, out: &Path| -> Result<()> {
        session(store).empty_quarantine(out)?;
        assert_eq!(session(store).quarantined(out)?.files, 0);
        Ok(())
    };
    with_faults(&Job { name: "quarantine", before: &before, after: &after, run: &run }, &EACH);
}

#[test]
fn every_request_of_stage_fails() {
    let local = Local::new();
    let dataset = &local.packed();
    let run = |store: &Arc<dyn Store>, from: &Path| -> Result<()> {
        let to = local.dir("staged").join(from.file_name().unwrap());
        let options = StageOptions { jobs: 1, ..StageOptions::new(&to) };
        let done = stage(store, from, from.to_str().unwrap(), &options, &(), &Cancel::default());
        let mut now = files(&to);
        now.retain(|name, _| ![".staging/", ".packhorse-"].iter().any(|start| name.starts_with(start)));
        match &done {
            Ok(_) => assert_same(dataset, &now, "staged"),
            Err(e) => now.iter().for_each(|(name, bytes)| assert!(dataset.get(name) == Some(bytes), "{name}: {e}")),
        }
        assert!(done.as_ref().map_or(true, |staged| staged.whole && staged.unfit.is_empty()), "{done:?}");
        done.map(drop)
    };
    with_faults(&Job { name: "stage", before: dataset, after: dataset, run: &run }, &EACH);
}

/// Shards that are uploaded in parts. moto is slow, but lists the uploads that are left.
#[test]
fn every_request_of_large_shards_fails() {
    let local = Local::new();
    std::fs::write(local.dir("first/large.bin"), vec![7; 6 << 20]).unwrap();
    let after = &local.packed();
    let run = |store: &Arc<dyn Store>, out: &Path| session(store).pack(&local.recipe(out)).map(drop);
    let job = Job { name: "large", before: &Files::new(), after, run: &run };
    with_servers(|server| every_request_fails(server, &job, if server.lists_uploads() { &EACH[..1] } else { &EACH }));
}

/// A listing never has what was written a moment ago.
#[test]
fn listings_that_are_late_change_nothing() {
    let local = Local::new();
    let packed = local.packed();
    packhorse::session().append(local.dir("out"), &local.more()).unwrap();
    let grown = files(&local.dir("out"));
    with_servers(|server| {
        let relay = Relay::new(server);
        relay.proxy.begin(|_| Fault::LateListing);
        let (late, out) = (session(&relay.hasty), &*place("late"));
        late.pack(&local.recipe(out)).unwrap();
        assert_same(&packed, &server.objects("late"), "packed");
        let again = late.pack(&local.recipe(out)).unwrap();
        assert_eq!(again.report.reused, again.report.shards, "complete already");
        let status = late.status(out).unwrap();
        assert!(status.sealed && status.missing.is_empty() && !status.is_damaged(), "{status:?}");
        let verified = late.verify(out, Depth::Full).unwrap();
        assert!(verified.damages.is_empty(), "{:?}", verified.damages);
        late.append(out, &local.more()).unwrap();
        late.repair(out).unwrap();
        late.seal(out).unwrap();
        assert_same(&grown, &server.objects("late"), "appended");
        let other = late.pack(&Recipe { name: "other".to_owned(), ..local.recipe(out) }).unwrap_err();
        assert_eq!(other.kind(), Kind::Config, "{other}");
        assert_same(&grown, &server.objects("late"), "another plan was refused");
        let (requests, listings) = relay.proxy.counts();
        assert!(listings > 3, "{listings} listings in {requests} requests");
        packhorse_testkit::external::count(listings, "late listings");
    });
}

/// `s3s-fs` does not list unfinished uploads: `clean` says so, and what else drops them. What it can do it did before.
#[cfg(feature = "s3-tests")]
#[test]
fn clean_names_a_server_that_does_not_list_unfinished_uploads() {
    let (server, kept) = (InProcess::new(), b"damaged".to_vec());
    server.fill("set", &Files::from([(".quarantine/1/shard-000000.tar".to_owned(), kept)]));
    let clean = |more: &[&str]| {
        let mut program = packhorse(&[&["clean", "s3://bucket/set"], more].concat());
        program.0.envs(server.settings());
        program.run()
    };
    for more in [&[][..], &["--quarantine"]] {
        let ended = clean(more);
        assert_eq!(ended.code(), 5, "{ended:?}");
        for part in ["s3://bucket/set", "501 Not Implemented", "AbortIncompleteMultipartUpload"] {
            assert!(ended.said.contains(part), "no word of {part:?}: {ended:?}");
        }
        assert_eq!(server.objects("set").is_empty(), !more.is_empty());
    }
}

/// What the command line says where a server is away for good, with its own patience.
#[test]
fn a_server_that_is_away_for_good_ends_in_code_5_and_the_next_run_completes() {
    let local = Local::new();
    let after = local.packed();
    with_servers(|server| {
        let pack = |prefix: &str, address: &str| {
            let input = local.dir("first");
            let (input, out) = (input.to_str().unwrap(), place(prefix));
            let wanted = ["--samples-per-shard", "2", "--index", "wids", "--jobs", "1", "--io-threads", "1"];
            let mut program = packhorse(
                &[&["pack", input, "--to", "webdataset", "--out", out.to_str().unwrap()], &wanted[..]].concat(),
            );
            program.0.envs(server.settings()).env("AWS_ENDPOINT_URL", format!("http://{address}"));
            program
        };
        let mut failed = 0;
        let away: Vec<_> = [0, 4, 9, 14, 19, 24]
            .into_iter()
            .map(|k| {
                let prefix = format!("away-{k}");
                let course = Ends(LostAnswer, LostRequest);
                let proxy = Proxy::with(&server.address(), move |number| course.fault(number, k));
                (pack(&prefix, &proxy.address).start(), prefix, proxy)
            })
            .collect();
        for (running, prefix, proxy) in away {
            let ended = running.end();
            let (place, met) = (place(&prefix), proxy.met());
            assert_eq!(ended.code(), 5, "{met:?}: {ended:?}");
            for part in [place.to_str().unwrap(), "given up after ", "run the same command again"] {
                assert!(ended.said.contains(part), "no word of {part:?}: {ended:?}");
            }
            for (name, bytes) in server.objects(&prefix) {
                assert!(after.get(&name) == Some(&bytes), "{name}: {ended:?}");
            }
            pack(&prefix, &server.address()).succeed();
            assert_same(&after, &server.objects(&prefix), &prefix);
            failed += met.len();
        }
        packhorse_testkit::external::count(failed, "requests to a server that is away");
    });
}
