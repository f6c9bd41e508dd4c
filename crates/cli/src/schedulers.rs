//! Which part of a plan this process fills, as the environment of its scheduler says.

use packhorse_core::{Error, Result};
use packhorse_order::Rank;
use packhorse_pack::Part;

/// The variables of the tasks of an array.
struct JobArray {
    name: &'static str,
    /// The number of a task, and its value outside of arrays.
    index: &'static str,
    outside: &'static str,
    /// The first number, the last one, and the distance between two.
    first: Known,
    last: Known,
    step: Known,
    /// How many tasks there are.
    tasks: Known,
    /// Whether a launcher within a task counts only the processes of this task.
    nests: bool,
}

/// A number that a scheduler tells its tasks.
#[derive(Clone, Copy)]
enum Known {
    Always(u32),
    In(&'static str),
    Never,
}

use Known::{Always, In, Never};

const ARRAYS: [JobArray; 8] = [
    JobArray {
        first: In("SLURM_ARRAY_TASK_MIN"),
        last: In("SLURM_ARRAY_TASK_MAX"),
        step: In("SLURM_ARRAY_TASK_STEP"),
        tasks: In("SLURM_ARRAY_TASK_COUNT"),
        ..JobArray::new("Slurm array", "SLURM_ARRAY_TASK_ID")
    },
    JobArray::new("PBS array", "PBS_ARRAY_INDEX"),
    JobArray::new("TORQUE array", "PBS_ARRAYID"),
    JobArray {
        outside: "0",
        first: Always(1),
        last: In("LSB_JOBINDEX_END"),
        step: In("LSB_JOBINDEX_STEP"),
        ..JobArray::new("LSF array", "LSB_JOBINDEX")
    },
    JobArray {
        outside: "undefined",
        first: In("SGE_TASK_FIRST"),
        last: In("SGE_TASK_LAST"),
        step: In("SGE_TASK_STEPSIZE"),
        ..JobArray::new("Grid Engine array", "SGE_TASK_ID")
    },
    JobArray::new("Flux array", "FLUX_JOB_CC"),
    JobArray {
        first: Always(0),
        tasks: In("AWS_BATCH_JOB_ARRAY_SIZE"),
        ..JobArray::new("AWS Batch array", "AWS_BATCH_JOB_ARRAY_INDEX")
    },
    JobArray {
        first: Always(0),
        tasks: In("JOB_COMPLETIONS"),
        // The ranks of a training operator cover all pods.
        nests: false,
        ..JobArray::new("Kubernetes Job", "JOB_COMPLETION_INDEX")
    },
];

/// The part of a process, and the words for where it comes from, such as `the Slurm array`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) part: Part,
    pub(crate) of: String,
}

/// A lookup of environment variables.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The part of this process, by the task of an array that it is or belongs to, by its rank among the processes of a
/// launcher, or by both: ranks divide the part of their task. `None` where the environment says neither.
///
/// Errors (`Config`): an array with gaps, or of unknown size; two schedulers that contradict each other.
pub(crate) fn part(var: Variables<'_>) -> Result<Option<Share>> {
    let array = array(var)?;
    let ranks = Rank::launched(var).map_err(|e| e.hint(ADVICE))?.filter(|(rank, _)| rank.world_size > 1);
    let (index, count, of) = match (array, ranks) {
        (None, None) => return Ok(None),
        (Some((array, task)), None) => (task.index, Some(task.tasks), format!("the {}", array.name)),
        (None, Some((rank, launcher))) => (rank.rank, Some(rank.world_size), format!("the {launcher} ranks")),
        (Some((array, task)), Some((rank, launcher))) => {
            if !array.nests {
                return Err(Error::config(format!(
                    "{} says task {} of {}, and {launcher} rank {} of {}; {ADVICE}",
                    array.index, task.index, task.tasks, rank.rank, rank.world_size
                )));
            }
            let index = task.index.saturating_mul(rank.world_size).saturating_add(rank.rank);
            let of = format!("the {} and its {launcher} ranks", array.name);
            (index, task.tasks.checked_mul(rank.world_size), of)
        }
    };
    let count = count.ok_or_else(|| Error::config(format!("there are too many tasks and ranks; {ADVICE}")))?;
    Ok(Some(Share { part: Part::new(index.saturating_add(1), count)?, of }))
}

/// What to do about an environment that does not say the part.
const ADVICE: &str = "give each task its part: --part i/n";

/// A task's place in its array, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArrayTask {
    index: u32,
    tasks: u32,
}

/// The array that this process belongs to.
fn array(var: Variables<'_>) -> Result<Option<(&'static JobArray, ArrayTask)>> {
    let mut found: Option<(&JobArray, ArrayTask)> = None;
    for array in &ARRAYS {
        let Some(task) = array.task(var)? else { continue };
        match found {
            Some((other, first)) if first != task => {
                return Err(Error::config(format!(
                    "{} says task {} of {}, and {} task {} of {}; {ADVICE}",
                    other.index, first.index, first.tasks, array.index, task.index, task.tasks
                )));
            }
            Some(_) => {}
            None => found = Some((array, task)),
        }
    }
    Ok(found)
}

impl JobArray {
    /// An array of which a task knows no more than its number.
    const fn new(name: &'static str, index: &'static str) -> Self {
        Self { name, index, outside: "", first: Never, last: Never, step: Always(1), tasks: Never, nests: true }
    }

    fn task(&self, var: Variables<'_>) -> Result<Option<ArrayTask>> {
        if var(self.index).is_none_or(|text| text.trim() == self.outside) {
            return Ok(None);
        }
        let Some(id) = number(var, self.index)? else { return Ok(None) };
        let (Some(first), Some((tasks, end))) = (self.first.get(var)?, self.tasks(var)?) else {
            return Err(self.uncounted(id));
        };
        let step = self.step.get(var)?.unwrap_or(1).max(1);
        let index = id.checked_sub(first).filter(|past| past % step == 0).map(|past| past / step);
        match index.filter(|index| *index < tasks && end.is_none_or(|end| end >= id)) {
            Some(index) if end.is_none_or(|end| end.saturating_sub(first) / step + 1 == tasks) => {
                Ok(Some(ArrayTask { index, tasks }))
            }
            _ => {
                let end = end.map_or_else(String::new, |end| format!(" to {end}"));
                Err(Error::config(format!(
                    "the {} has {tasks} tasks, from {first}{end} with a step of {step}, and this is task {id}: it has gaps, so \
                     the part of a task is not clear; {ADVICE}",
                    self.name
                )))
            }
        }
    }

    /// How many tasks there are, and the number of the last one where it is known.
    fn tasks(&self, var: Variables<'_>) -> Result<Option<(u32, Option<u32>)>> {
        let (end, counted) = (self.last.get(var)?, self.tasks.get(var)?);
        let (first, step) = (self.first.get(var)?.unwrap_or(0), self.step.get(var)?.unwrap_or(1).max(1));
        let spanned = end.map(|end| end.saturating_sub(first) / step + 1);
        Ok(counted.or(spanned).map(|tasks| (tasks, end)))
    }

    /// A task that does not know how many there are.
    fn uncounted(&self, id: u32) -> Error {
        let index = self.index;
        let unset = [self.first, self.last, self.tasks].into_iter().find_map(|known| match known {
            In(name) => Some(name),
            Always(_) | Never => None,
        });
        let message = match unset {
            Some(name) => format!(
                "{index}={id} is set, and the environment lacks {name} or others that say how many tasks there are"
            ),
            None => format!("{index}={id} is set, and no variable says how many tasks the {} has", self.name),
        };
        Error::config(message).hint(format!(
            "{ADVICE}, such as --part \"${index}/8\" of an array from 1 to 8, --part \"$(({index} + 1))/8\" of one from 0 to 7"
        ))
    }
}

impl Known {
    fn get(self, var: Variables<'_>) -> Result<Option<u32>> {
        match self {
            Always(number) => Ok(Some(number)),
            In(name) => number(var, name),
            Never => Ok(None),
        }
    }
}

fn number(var: Variables<'_>, name: &str) -> Result<Option<u32>> {
    let parse = |text: String| {
        text.trim().parse().map_err(|_| Error::config(format!("{name}=\"{text}\" is not a number; {ADVICE}")))
    };
    var(name).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Vars<'a> = &'a [(&'a str, &'a str)];

    fn of(vars: Vars<'_>) -> Result<Option<String>, String> {
        let share = part(&|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()));
        share.map(|share| share.map(|s| format!("{} of {}", s.part, s.of))).map_err(|e| e.text().into_owned())
    }

    #[track_caller]
    fn is(vars: Vars<'_>, said: &str) {
        assert_eq!(of(vars), Ok(Some(said.to_owned())));
    }

    #[track_caller]
    fn refused(vars: Vars<'_>, words: &[&str]) {
        let message = of(vars).unwrap_err();
        for word in [words, &["--part "]].concat() {
            assert!(message.contains(word), "{message}");
        }
    }

    const SLURM: [(&str, &str); 5] = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_MIN", "1"),
        ("SLURM_ARRAY_TASK_MAX", "15"),
        ("SLURM_ARRAY_TASK_STEP", "2"),
        ("SLURM_ARRAY_TASK_COUNT", "8"),
    ];
    const SRUN: [(&str, &str); 2] = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];

    #[test]
    fn slurm() {
        is(&SLURM, "4/8 of the Slurm array");
        is(&SRUN, "2/2 of the srun ranks");
        is(&[&SLURM[..], &SRUN].concat(), "8/16 of the Slurm array and its srun ranks");
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]), Ok(None));
        assert_eq!(of(&[]), Ok(None));
        let gaps = [&[("SLURM_ARRAY_TASK_COUNT", "3")][..], &SLURM].concat();
        refused(&gaps, &["Slurm array", "gaps", "task 7"]);
        refused(&SLURM[..1], &["SLURM_ARRAY_TASK_MIN"]);
        refused(&[("SLURM_ARRAY_TASK_ID", "x")], &["SLURM_ARRAY_TASK_ID=\"x\""]);
    }

    #[test]
    fn pbs_does_not_say_how_many_tasks_there_are() {
        for name in ["PBS_ARRAY_INDEX", "PBS_ARRAYID", "FLUX_JOB_CC"] {
            refused(&[(name, "3")], &[name, &format!("\"${name}/8\""), &format!("\"$(({name} + 1))/8\"")]);
        }
    }

    #[test]
    fn lsf() {
        let task = |id| [("LSB_JOBINDEX", id), ("LSB_JOBINDEX_END", "8"), ("LSB_JOBINDEX_STEP", "1")];
        is(&task("1"), "1/8 of the LSF array");
        is(&task("8"), "8/8 of the LSF array");
        assert_eq!(of(&[("LSB_JOBINDEX", "0"), ("LSB_JOBINDEX_END", "0")]), Ok(None));
        is(&[("LSB_JOBINDEX", "5"), ("LSB_JOBINDEX_END", "7"), ("LSB_JOBINDEX_STEP", "2")], "3/4 of the LSF array");
        refused(&[("LSB_JOBINDEX", "4"), ("LSB_JOBINDEX_END", "8"), ("LSB_JOBINDEX_STEP", "2")], &["LSF array"]);
        refused(&[("LSB_JOBINDEX", "4")], &["LSB_JOBINDEX_END"]);
    }

    #[test]
    fn grid_engine() {
        let task =
            |id| [("SGE_TASK_ID", id), ("SGE_TASK_FIRST", "2"), ("SGE_TASK_LAST", "9"), ("SGE_TASK_STEPSIZE", "2")];
        is(&task("2"), "1/4 of the Grid Engine array");
        is(&task("8"), "4/4 of the Grid Engine array");
        refused(&task("9"), &["Grid Engine array"]);
        assert_eq!(of(&task("undefined")), Ok(None));
    }

    #[test]
    fn flux() {
        is(&[("FLUX_TASK_RANK", "2"), ("FLUX_JOB_SIZE", "4"), ("FLUX_JOB_NNODES", "2")], "3/4 of the Flux ranks");
    }

    #[test]
    fn aws_batch() {
        let task = [("AWS_BATCH_JOB_ARRAY_INDEX", "0"), ("AWS_BATCH_JOB_ARRAY_SIZE", "10")];
        is(&task, "1/10 of the AWS Batch array");
        refused(&task[..1], &["AWS_BATCH_JOB_ARRAY_SIZE"]);
        refused(&[("AWS_BATCH_JOB_ARRAY_INDEX", "10"), task[1]], &["task 10"]);
    }

    #[test]
    fn kubernetes() {
        let task = [("JOB_COMPLETION_INDEX", "3"), ("JOB_COMPLETIONS", "4")];
        is(&task, "4/4 of the Kubernetes Job");
        refused(&task[..1], &["JOB_COMPLETIONS"]);
        let torchrun = [("RANK", "5"), ("WORLD_SIZE", "8")];
        refused(&[&task[..], &torchrun].concat(), &["JOB_COMPLETION_INDEX", "torchrun"]);
    }

    #[test]
    fn ranks_of_mpi_and_of_torchrun() {
        for (rank, size, name) in [
            ("RANK", "WORLD_SIZE", "torchrun"),
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
            ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MVAPICH"),
            ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "jsrun"),
            ("PMI_RANK", "PMI_SIZE", "PMI"),
        ] {
            let ranks = [(rank, "1"), (size, "3")];
            is(&ranks, &format!("2/3 of the {name} ranks"));
            is(&[&SLURM[..], &ranks].concat(), &format!("11/24 of the Slurm array and its {name} ranks"));
        }
        let pals = [("PALS_RANKID", "1"), ("PMI_RANK", "1"), ("PMI_SIZE", "3"), ("PMIX_RANK", "1")];
        is(&pals, "2/3 of the PMI ranks");
        refused(&[("PMIX_RANK", "1")], &["PMIX_RANK"]);
    }

    #[test]
    fn contradictions_are_refused() {
        let batch = [("AWS_BATCH_JOB_ARRAY_INDEX", "0"), ("AWS_BATCH_JOB_ARRAY_SIZE", "8")];
        refused(
            &[&SLURM[..], &batch].concat(),
            &["SLURM_ARRAY_TASK_ID says task 3 of 8", "AWS_BATCH_JOB_ARRAY_INDEX task 0 of 8"],
        );
        let mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
        refused(&[&SRUN[..], &mpi].concat(), &["SLURM_PROCID", "OMPI_COMM_WORLD_RANK"]);
        let many = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4294967295")];
        refused(&[&SLURM[..], &many].concat(), &["too many"]);
    }
}
