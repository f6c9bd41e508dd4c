//! Rank, world size and local rank of this process, as its launcher says.

use packhorse_core::{Error, Result};

/// A launcher of processes, and its variables.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    world: World,
}

/// Where the number of processes is.
#[derive(Clone, Copy)]
enum World {
    /// In a variable of this launcher: both are set or neither is.
    Own(&'static str),
    /// In a variable that other launchers set too.
    Shared(&'static str),
    /// In no variable: the rank must be the one that another launcher says.
    Unsaid,
}

/// Torchrun comes first.
const LAUNCHERS: [Launcher; 9] = [
    Launcher { name: "torchrun", rank: "RANK", world: World::Own("WORLD_SIZE") },
    Launcher { name: "srun", rank: "SLURM_PROCID", world: World::Own("SLURM_NTASKS") },
    Launcher { name: "Flux", rank: "FLUX_TASK_RANK", world: World::Own("FLUX_JOB_SIZE") },
    Launcher { name: "Open MPI", rank: "OMPI_COMM_WORLD_RANK", world: World::Own("OMPI_COMM_WORLD_SIZE") },
    Launcher { name: "MVAPICH", rank: "MV2_COMM_WORLD_RANK", world: World::Own("MV2_COMM_WORLD_SIZE") },
    Launcher { name: "jsrun", rank: "JSM_NAMESPACE_RANK", world: World::Own("JSM_NAMESPACE_SIZE") },
    Launcher { name: "PMI", rank: "PMI_RANK", world: World::Own("PMI_SIZE") },
    Launcher { name: "PALS", rank: "PALS_RANKID", world: World::Shared("PMI_SIZE") },
    Launcher { name: "PMIx", rank: "PMIX_RANK", world: World::Unsaid },
];

/// The variables of launchers with the number of a process on its node. A launcher that Slurm may start comes first.
const LOCAL_RANKS: [&str; 5] =
    ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"];

/// The variables of launchers with the number of processes on a node.
const LOCAL_SIZES: [&str; 4] =
    ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"];

/// Set by torchrun in each process. It may start several in one Slurm task, so its variables take precedence.
const TORCHRUN: &str = "TORCHELASTIC_RUN_ID";

/// A process of a distributed run. The default is the only process, rank 0 of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number, from 0.
    pub rank: u32,
    /// Number of processes.
    pub world_size: u32,
}

impl Default for Rank {
    fn default() -> Self {
        Self { rank: 0, world_size: 1 }
    }
}

impl Rank {
    /// The rank that [`Rank::launched`] finds; rank 0 of 1 if it finds none.
    pub fn from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        Ok(Self::launched(var)?.map_or_else(Self::default, |(rank, _)| rank))
    }

    /// The rank that the environment variables say, looked up by `var`, and the name of the launcher that set them; `None`
    /// if none are set. Rank and world size are in `RANK` and `WORLD_SIZE` (torchrun), `SLURM_PROCID` and `SLURM_NTASKS`
    /// (srun), `FLUX_TASK_RANK` and `FLUX_JOB_SIZE`, `OMPI_COMM_WORLD_RANK` and `_SIZE`, `MV2_COMM_WORLD_RANK` and `_SIZE`,
    /// `JSM_NAMESPACE_RANK` and `_SIZE` (jsrun), `PMI_RANK` and `PMI_SIZE` (MPICH, Intel MPI, Cray), `PALS_RANKID` and
    /// `PMI_SIZE`. `PMIX_RANK` must agree with one of them.
    ///
    /// Under torchrun only the first pair counts. `SLURM_NTASKS` without a rank comes from an interactive shell,
    /// `SLURM_PROCID=0` without `SLURM_STEP_ID` from a batch script, or in a step of one task (`SLURM_STEP_NUM_TASKS`) from an
    /// interactive one, and one task says nothing: they are ignored.
    ///
    /// Errors (kind `Config`): half a pair, a value that is not a number, a rank that is not below the world size, pairs that
    /// contradict each other.
    pub fn launched(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<(Self, &'static str)>> {
        let mut found: Option<(Self, &Launcher)> = None;
        let launchers = if var(TORCHRUN).is_some() { LAUNCHERS.get(..1) } else { None };
        for launcher in launchers.unwrap_or(&LAUNCHERS) {
            let known = found.map(|(rank, _)| rank.world_size);
            let Some(rank) = launcher.rank(var, known)? else { continue };
            match found {
                Some((other, first)) if other != rank => {
                    return Err(Error::config(format!(
                        "{} says rank {} of {}, and {} rank {} of {}: unset one of them, or set rank and world size",
                        first.rank, other.rank, other.world_size, launcher.rank, rank.rank, rank.world_size
                    )));
                }
                Some(_) => {}
                None => found = Some((rank, launcher)),
            }
        }
        Ok(found.map(|(rank, launcher)| (rank, launcher.name)))
    }
}

impl Launcher {
    /// The rank by the variables of this launcher. `known`: the world size that another one says.
    fn rank(&self, var: &dyn Fn(&str) -> Option<String>, known: Option<u32>) -> Result<Option<Rank>> {
        let rank = number(var, self.rank)?;
        let (size_name, size) = match self.world {
            World::Own(name) => (name, number(var, name)?),
            World::Shared(name) if rank.is_some() => (name, number(var, name)?),
            World::Shared(name) => (name, None),
            World::Unsaid => ("a variable with the number of processes", known.filter(|_| rank.is_some())),
        };
        let slurm = self.rank.starts_with("SLURM");
        match (rank, size) {
            (None, None) => Ok(None),
            (None, Some(_)) | (Some(0), None | Some(1)) if slurm => Ok(None),
            // A batch script and an interactive shell are task 0 of one; the other tasks are those of the job. srun sets the step's
            // number too.
            (Some(0), Some(_)) if slurm && (number(var, "SLURM_STEP_NUM_TASKS")? == Some(1) || !is_srun(var)) => {
                Ok(None)
            }
            (Some(rank), Some(size)) if rank < size => Ok(Some(Rank { rank, world_size: size })),
            (Some(rank), Some(size)) => {
                Err(Error::config(format!("{}={rank} is not below {size_name}={size}", self.rank)))
            }
            (Some(_), None) => Err(Error::config(format!("{} is set and {size_name} is not", self.rank))),
            (None, Some(_)) => {
                let error = Error::config(format!("{size_name} is set and {} is not", self.rank));
                Err(error.hint("begin after the launcher has set both, such as after `init_process_group`, or give the rank and the world size"))
            }
        }
    }
}

/// Whether a step of `srun` is said, not the interactive one or the batch one, which have numbers of their own.
fn is_srun(var: &dyn Fn(&str) -> Option<String>) -> bool {
    const OTHERS: [&str; 2] = ["4294967290", "4294967291"];
    var("SLURM_STEP_ID").is_some_and(|step| !OTHERS.contains(&step.trim()))
}

/// The number of this process on its node, from 0, as the environment variables say, looked up by `var`: the first of
/// `LOCAL_RANK`, `OMPI_COMM_WORLD_LOCAL_RANK`, `MPI_LOCALRANKID`, `PMI_LOCAL_RANK` and `SLURM_LOCALID` that is set; 0 if
/// none is.
///
/// Errors (kind `Config`): a value that is not a number.
pub fn local_rank_from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<u32> {
    let found = LOCAL_RANKS.iter().find_map(|name| number(var, name).transpose());
    found.unwrap_or(Ok(0))
}

/// Whether all `ranks` processes of a run are on one node, as the environment variables say, looked up by `var`: the first of `LOCAL_WORLD_SIZE`,
/// `OMPI_COMM_WORLD_LOCAL_SIZE`, `MPI_LOCALNRANKS` and `MV2_COMM_WORLD_LOCAL_SIZE` that is set, or `SLURM_STEP_NUM_NODES`. One process
/// always is; more are not if nothing says so.
pub fn is_on_one_node(ranks: u32, var: &dyn Fn(&str) -> Option<String>) -> bool {
    let number = |name: &&str| number(var, name).ok().flatten();
    let local = LOCAL_SIZES.iter().find_map(number);
    ranks == 1 || local.map_or_else(|| number(&"SLURM_STEP_NUM_NODES") == Some(1), |local| local == ranks)
}

fn number(var: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<Option<u32>> {
    let parse = |text: String| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        number.ok_or_else(|| Error::config(format!("{name}=\"{text}\" is not a number of a process or of processes")))
    };
    var(name).map(|text| text.trim().to_owned()).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Result<(u32, u32), String> {
        let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Rank::from_environment(&var).map(|rank| (rank.rank, rank.world_size)).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn each_launcher_is_heard() {
        assert_eq!(of(&[]), Ok((0, 1)));
        for launcher in LAUNCHERS {
            let (World::Own(size) | World::Shared(size)) = launcher.world else { continue };
            let vars = [(launcher.rank, "3"), (size, " 8\n")];
            // Other launchers set PMI_RANK together with PMI_SIZE.
            let vars = if size == "PMI_SIZE" { [&vars[..], &[("PMI_RANK", "3")]].concat() } else { vars.to_vec() };
            assert_eq!(of(&vars), Ok((3, 8)), "{}", launcher.name);
            assert_eq!(of(&[(launcher.rank, "0"), (size, "1"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Ok((0, 1)));
        }
        let both = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("PMI_RANK", "3"), ("PMI_SIZE", "8")];
        assert_eq!(of(&both), Ok((3, 8)));
        assert_eq!(of(&[&both[..], &[("PMIX_RANK", "3")]].concat()), Ok((3, 8)));
        assert!(of(&[&both[..], &[("PMIX_RANK", "4")]].concat()).unwrap_err().contains("PMIX_RANK rank 4 of 8"));
        assert!(of(&[("PMIX_RANK", "0")]).unwrap_err().contains("PMIX_RANK is set and a variable with the number"));
    }

    #[test]
    fn the_launcher_is_named() {
        let var = |name: &str| [("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", "4")].iter().find(|(n, _)| *n == name);
        let found = Rank::launched(&|name| var(name).map(|(_, value)| (*value).to_owned())).unwrap();
        assert_eq!(found, Some((Rank { rank: 1, world_size: 4 }, "Flux")));
        assert_eq!(Rank::launched(&|_| None).unwrap(), None);
    }

    #[test]
    fn slurm_without_ranks() {
        assert_eq!(of(&[("SLURM_NTASKS", "8")]), Ok((0, 1)));
        assert_eq!(of(&[("SLURM_PROCID", "0")]), Ok((0, 1)));
        let one = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
        let more = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(of(&[one, more].concat()), Ok((3, 4)));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]), Ok((0, 1)));
        let of_step = |more: &[(&str, &str)]| of(&[&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], more].concat());
        assert_eq!(of_step(&[("SLURM_STEP_ID", "0")]), Ok((0, 4)));
        assert_eq!(of_step(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")]), Ok((0, 4)));
        // The interactive step of `salloc -n 4`, and others with one task.
        assert_eq!(of_step(&[("SLURM_STEP_ID", "4294967290"), ("SLURM_STEP_NUM_TASKS", "1")]), Ok((0, 1)));
        assert_eq!(of_step(&[("SLURM_STEP_ID", "4294967291")]), Ok((0, 1)));
        assert_eq!(of_step(&[("SLURM_STEP_ID", "3"), ("SLURM_STEP_NUM_TASKS", "1")]), Ok((0, 1)));
        assert!(of(&[("SLURM_PROCID", "1")]).is_err());
    }

    #[test]
    fn torchrun_in_tasks_of_slurm() {
        let vars = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2"), ("RANK", "7"), ("WORLD_SIZE", "8")];
        assert!(of(&vars).unwrap_err().contains("RANK says rank 7 of 8, and SLURM_PROCID rank 1 of 2"));
        assert_eq!(of(&[&vars[..], &[(TORCHRUN, "none")]].concat()), Ok((7, 8)));
    }

    #[test]
    fn each_local_rank_is_heard() {
        let of = |vars: &[(&str, &str)]| {
            let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            local_rank_from_environment(&var).map_err(|error| error.message().to_owned())
        };
        assert_eq!(of(&[]), Ok(0));
        for name in LOCAL_RANKS {
            assert_eq!(of(&[(name, " 3\n")]), Ok(3));
            for bad in ["", "x", "-1", "4294967296"] {
                assert!(of(&[(name, bad)]).unwrap_err().starts_with(name), "{name}={bad}");
            }
        }
        assert_eq!(of(&[("SLURM_LOCALID", "0"), ("MPI_LOCALRANKID", "5")]), Ok(5));
    }

    #[test]
    fn ranks_of_one_node_are_known() {
        let of = |ranks, vars: &[(&str, &str)]| {
            let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            is_on_one_node(ranks, &var)
        };
        assert!(of(1, &[]) && !of(2, &[]));
        for name in LOCAL_SIZES {
            assert!(of(4, &[(name, "4")]) && !of(8, &[(name, "4")]) && !of(4, &[(name, "x")]));
        }
        assert!(of(4, &[("SLURM_STEP_NUM_NODES", "1")]) && !of(4, &[("SLURM_STEP_NUM_NODES", "2")]));
        assert!(!of(8, &[("LOCAL_WORLD_SIZE", "4"), ("SLURM_STEP_NUM_NODES", "1")]));
    }

    #[test]
    fn garbage_is_refused() {
        for bad in ["", "x", "-1", "+1", "1.0", "4294967296", "0x1"] {
            assert!(of(&[("RANK", bad), ("WORLD_SIZE", "8")]).is_err(), "{bad}");
            assert!(of(&[("RANK", "0"), ("WORLD_SIZE", bad)]).is_err(), "{bad}");
        }
        assert!(of(&[("RANK", "8"), ("WORLD_SIZE", "8")]).is_err());
        assert!(of(&[("RANK", "0"), ("WORLD_SIZE", "0")]).is_err());
        assert!(of(&[("RANK", "0")]).unwrap_err().contains("WORLD_SIZE is not"));
        assert!(of(&[("PMI_SIZE", "2")]).unwrap_err().contains("PMI_RANK is not"));
    }
}
