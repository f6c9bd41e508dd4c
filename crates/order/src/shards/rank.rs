//! Rank, world size and local rank of this process, as its launcher says.

use packhorse_core::{Error, Result};

/// The variables of each launcher: rank and world size.
const LAUNCHERS: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
];

/// The variables of launchers with the number of a process on its node. A launcher that Slurm may start comes first.
const LOCAL_RANKS: [&str; 5] =
    ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"];

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
    /// The rank that the environment variables say, looked up by `var`: `RANK` and `WORLD_SIZE`, `SLURM_PROCID` and
    /// `SLURM_NTASKS`, `OMPI_COMM_WORLD_RANK` and `_SIZE`, `PMI_RANK` and `PMI_SIZE`; rank 0 of 1 if none is set.
    ///
    /// Under torchrun only the first pair counts. `SLURM_NTASKS` without a rank comes from an interactive shell, `SLURM_PROCID=0`
    /// without a number of tasks from a batch script: both are ignored.
    ///
    /// Errors (kind `Config`): half a pair, a value that is not a number, a rank that is not below the world size, pairs that
    /// contradict each other.
    pub fn from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut found: Option<(Self, &str)> = None;
        let launchers = if var(TORCHRUN).is_some() { LAUNCHERS.get(..1) } else { None };
        for &(rank_name, ranks_name) in launchers.unwrap_or(&LAUNCHERS) {
            let Some(rank) = pair(var, rank_name, ranks_name)? else { continue };
            match found {
                Some((other, name)) if other != rank => {
                    return Err(Error::config(format!(
                        "{name} says rank {} of {}, and {rank_name} rank {} of {}: unset one of them, or set rank \
                         and world size",
                        other.rank, other.world_size, rank.rank, rank.world_size
                    )));
                }
                _ => found = Some((rank, rank_name)),
            }
        }
        Ok(found.map_or_else(Self::default, |(rank, _)| rank))
    }
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

fn pair(var: &dyn Fn(&str) -> Option<String>, rank_name: &str, ranks_name: &str) -> Result<Option<Rank>> {
    let (rank, ranks) = (number(var, rank_name)?, number(var, ranks_name)?);
    let slurm = rank_name.starts_with("SLURM");
    match (rank, ranks) {
        (None, None) => Ok(None),
        (None, Some(_)) | (Some(0), None) if slurm => Ok(None),
        (Some(rank), Some(ranks)) if rank < ranks => Ok(Some(Rank { rank, world_size: ranks })),
        (Some(rank), Some(ranks)) => {
            Err(Error::config(format!("{rank_name}={rank} is not below {ranks_name}={ranks}")))
        }
        (Some(_), None) => Err(Error::config(format!("{rank_name} is set and {ranks_name} is not"))),
        (None, Some(_)) => Err(Error::config(format!("{ranks_name} is set and {rank_name} is not"))),
    }
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
        for (rank, ranks) in LAUNCHERS {
            assert_eq!(of(&[(rank, "3"), (ranks, " 8\n")]), Ok((3, 8)));
            assert_eq!(of(&[(rank, "0"), (ranks, "1")]), Ok((0, 1)));
        }
        let both = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("PMI_RANK", "3"), ("PMI_SIZE", "8")];
        assert_eq!(of(&both), Ok((3, 8)));
    }

    #[test]
    fn slurm_without_ranks() {
        assert_eq!(of(&[("SLURM_NTASKS", "8")]), Ok((0, 1)));
        assert_eq!(of(&[("SLURM_PROCID", "0")]), Ok((0, 1)));
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
