//! The commands: flags in, a call of the library, a result out.

mod adopt;
mod append;
mod batch;
mod bench;
mod bench_pack;
mod cluster;
mod diagnose;
mod feed;
mod index;
mod inspect;
mod limits;
mod manual;
mod merge;
mod order;
mod pack;
mod plan;
mod repack;
mod report;
mod scan;
mod shares;
mod stage;
mod synth;
mod trees;
#[cfg(feature = "gpu")]
mod upload;
#[cfg(feature = "gpu")]
mod upload_stages;
mod verify;
mod view;
mod watch;

use crate::args::{Args, Command, Common};
use crate::bench_args::Bench;
use crate::observe_args::Observe;
use crate::observed::Observed;
use crate::outcome::Style;
use crate::planning::Work;
use crate::progress::{Progress, Show};
use crate::signals;
use packhorse_core::{Cancel, Error, Event, Observer, Registry, Result, Store};
use packhorse_pack::{Session, as_request_error, sealed_manifest};
use packhorse_read::{Dataset, LoaderCounters, OpenOptions};
use packhorse_storage::{Location, RemoteOptions, Stores};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What every command needs.
pub(crate) struct CommandContext<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) store: Arc<dyn Store>,
    stores: Stores,
    pub(crate) progress: Arc<Progress>,
    /// What all loaders of the command add to.
    pub(crate) loaders: Arc<LoaderCounters>,
    pub(crate) cancel: Cancel,
    pub(crate) style: Style,
    /// Whether errors are JSON lines.
    pub(crate) log_json: bool,
}

impl<'a> CommandContext<'a> {
    fn new(registry: &'a Registry, common: &Common) -> Result<Self> {
        let progress = Arc::new(Progress::new(Show::choose(common.quiet, common.log.is_some())));
        let told = progress.clone();
        let on_wait = Arc::new(move |text: &str| told.event(&Event::Warning(text)));
        let stores = Stores::new(RemoteOptions { on_wait: Some(on_wait), ..RemoteOptions::default() });
        Ok(Self {
            registry,
            store: Arc::new(stores.clone()),
            stores,
            progress,
            loaders: Arc::default(),
            cancel: signals::cancel()?,
            style: Style { json: common.json, quiet: common.quiet },
            log_json: common.log.is_some(),
        })
    }

    /// Opens the dataset at `location`: a path or a URL.
    pub(crate) fn dataset(&self, location: &str) -> Result<Dataset> {
        let (store, path) = self.stores.open(&Location::parse(location)?)?;
        Dataset::open(self.registry, store, &path, &OpenOptions::default()).map_err(as_request_error)
    }

    /// Refuses to write into `folder` if it lies in the folder of a sealed dataset, in which `verify` finds all files that
    /// are not of it.
    pub(crate) fn refuse_inside(&self, dataset: &str, folder: &Path) -> Result<()> {
        let dataset = Path::new(dataset);
        let is_sealed = || sealed_manifest(&*self.store, dataset).ok().flatten().is_some();
        if !Location::absolute(folder).starts_with(Location::absolute(dataset)) || !is_sealed() {
            return Ok(());
        }
        let message = "lies in the folder of the dataset, which holds no other files";
        Err(Error::config(message).in_input(folder.display()).hint("give the output another place"))
    }

    /// The session of this command.
    pub(crate) fn session(&self) -> Session {
        Session::new(self.registry.clone())
            .store(self.store.clone())
            .observe(self.progress.clone())
            .cancel(self.cancel.clone())
    }

    /// The session, with the threads and memory of `work`.
    ///
    /// Errors: the system can't start so many threads.
    pub(crate) fn working(&self, work: &Work) -> Result<Session> {
        let jobs = work.threads.jobs();
        // Formats compress on this pool. Other errors mean that it is set up already.
        let named = |number| format!("packhorse-rayon-{number}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).thread_name(named).build_global();
        if let Some(io) = pool.err().and_then(|error| std::error::Error::source(&error).map(ToString::to_string)) {
            let error = Error::io("start the threads that compute", std::io::Error::other(io));
            return Err(error.hint("give fewer with `jobs`, or raise the limits (`ulimit -u`, `ulimit -v`)"));
        }
        let session = self.session().jobs(jobs).io_threads(usize::from(work.io_threads)).verifying(work.verifying.on());
        Ok(work.memory.into_iter().fold(session, Session::memory))
    }
}

/// What the command is to show of itself while it runs.
fn observe(command: &Command) -> Option<&Observe> {
    match command {
        Command::Pack(args) => Some(&args.observe),
        Command::Scan(args) => Some(&args.observe),
        Command::Plan(args) => Some(&args.observe),
        Command::Append(args) => Some(&args.observe),
        Command::Bench(Bench::Read(args)) => Some(&args.load.observe),
        #[cfg(feature = "gpu")]
        Command::Bench(Bench::Upload(args)) => Some(&args.load.observe),
        Command::Diagnose(args) => Some(&args.load.observe),
        _ => None,
    }
}

/// Runs one command.
pub(crate) fn run(registry: &Registry, args: Args) -> Result<ExitCode> {
    let context = CommandContext::new(registry, &args.common)?;
    let progress = context.progress.clone();
    signals::on_stop(&context.cancel, move || progress.stopping())?;
    let start = |asked| Observed::start(asked, &context.progress, &context.loaders);
    let observed = observe(&args.command).map(start).transpose()?;
    let done = dispatch(&context, args.command);
    context.progress.finish();
    let ended = observed.map_or(Ok(()), Observed::finish);
    done.and_then(|code| ended.map(|()| code))
}

fn dispatch(context: &CommandContext<'_>, command: Command) -> Result<ExitCode> {
    match command {
        Command::Pack(args) => pack::run(context, &args),
        Command::Scan(args) => scan::run(context, &args),
        Command::Plan(args) => plan::run(context, &args),
        Command::Seal(args) => pack::seal(context, &args),
        Command::Append(args) => append::run(context, &args),
        Command::Status(args) if args.watch.is_some() => watch::run(context, &args),
        Command::Status(args) => inspect::status(context, &args.dir),
        Command::Clean(args) => pack::clean(context, &args),
        Command::Verify(args) => verify::run(context, &args),
        Command::Adopt(args) => adopt::run(context, &args),
        Command::Index(args) => index::run(context, &args),
        Command::Merge(args) => merge::merge(context, &args),
        Command::Order(args) => order::run(context, &args),
        Command::Repair(args) => merge::repair(context, &args),
        Command::Stage(args) => stage::run(context, &args),
        Command::View(args) => view::run(context, &args),
        Command::Slurm(args) => cluster::slurm(context, &args),
        Command::Pbs(args) => cluster::pbs(context, &args),
        Command::K8s(args) => cluster::k8s(context, &args),
        Command::Ls(args) => inspect::ls(context, &args),
        Command::Cat(args) => inspect::cat(context, &args),
        Command::Head(args) => inspect::head(context, &args),
        Command::Stat(args) => inspect::stat(context, &args),
        Command::Report(args) => report::run(context, &args),
        Command::Batch(args) => batch::run(context, &args),
        Command::Synth(args) => synth::run(context, &args),
        Command::Bench(Bench::Read(args)) => bench::read(context, &args),
        Command::Bench(Bench::Pack(args)) => bench_pack::run(context, &args),
        Command::Bench(Bench::Limits(args)) => limits::run(context, &args),
        #[cfg(feature = "gpu")]
        Command::Bench(Bench::Upload(args)) => upload::run(context, &args),
        Command::Diagnose(args) => diagnose::run(context, &args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::man(context, &out),
    }
}
