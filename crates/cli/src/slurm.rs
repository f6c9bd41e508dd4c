//! Which part of a plan a Slurm task fills, from its environment.

use packhorse_core::{Error, Result};
use packhorse_pack::Part;

/// The part of this task of an array (`SLURM_ARRAY_TASK_*`), of a job step (`SLURM_PROCID`,
/// `SLURM_NTASKS`), or of both; `None` outside Slurm.
pub(crate) fn part(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<Part>> {
    let array = array(var)?;
    let step = match (number(var, "SLURM_PROCID")?, number(var, "SLURM_NTASKS")?) {
        (Some(rank), Some(tasks)) if tasks > 1 => Some((rank, tasks)),
        _ => None,
    };
    let (index, count) = match (array, step) {
        (None, None) => return Ok(None),
        (Some(one), None) | (None, Some(one)) => one,
        (Some((task, tasks)), Some((rank, ranks))) => (task * ranks + rank, tasks * ranks),
    };
    Part::new(index + 1, count).map(Some)
}

/// This task's place in its array, and how many tasks the array has.
fn array(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<(u32, u32)>> {
    let Some(id) = number(var, "SLURM_ARRAY_TASK_ID")? else { return Ok(None) };
    let min = number(var, "SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
    let step = number(var, "SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
    let max = number(var, "SLURM_ARRAY_TASK_MAX")?.unwrap_or(id);
    let tasks = max.saturating_sub(min) / step + 1;
    let counted = number(var, "SLURM_ARRAY_TASK_COUNT")?.unwrap_or(tasks);
    if counted != tasks || id < min || (id - min) % step != 0 {
        return Err(Error::config(format!(
            "the job array has gaps ({counted} tasks between {min} and {max}), so the part of task {id} is not clear; give --part i/n"
        )));
    }
    Ok(Some(((id - min) / step, tasks)))
}

fn number(var: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<Option<u32>> {
    let parse =
        |text: String| text.trim().parse().map_err(|_| Error::config(format!("{name}=\"{text}\" is not a number")));
    var(name).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Result<Option<String>> {
        let part = part(&|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))?;
        Ok(part.map(|p| p.to_string()))
    }

    #[test]
    fn arrays_and_steps() {
        let array = [
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_MAX", "15"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "8"),
        ];
        assert_eq!(of(&array).unwrap().as_deref(), Some("4/8"));
        let ranks = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
        assert_eq!(of(&ranks).unwrap().as_deref(), Some("2/2"));
        assert_eq!(of(&[&array[..], &ranks[..]].concat()).unwrap().as_deref(), Some("8/16"));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]).unwrap(), None);
        assert_eq!(of(&[]).unwrap(), None);
    }

    #[test]
    fn an_array_with_gaps_is_refused() {
        let gaps = [
            ("SLURM_ARRAY_TASK_ID", "3"),
            ("SLURM_ARRAY_TASK_MIN", "3"),
            ("SLURM_ARRAY_TASK_MAX", "9"),
            ("SLURM_ARRAY_TASK_STEP", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "2"),
        ];
        assert!(of(&gaps).unwrap_err().message().contains("--part"));
    }
}
