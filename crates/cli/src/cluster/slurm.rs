//! The script of a Slurm array.

use super::ArrayJob;
use super::array_job::{clock, comment, ranges};
use super::directives::{Directive, parse, replace, throttle};
use super::site::Site;
use crate::settings::path_word;
use packhorse_core::Result;
use std::process::Command;

/// Short options of sbatch.
const SHORT: [(&str, &str); 21] = [
    ("A", "account"),
    ("a", "array"),
    ("C", "constraint"),
    ("c", "cpus-per-task"),
    ("D", "chdir"),
    ("d", "dependency"),
    ("e", "error"),
    ("G", "gpus"),
    ("H", "hold"),
    ("J", "job-name"),
    ("L", "licenses"),
    ("M", "clusters"),
    ("N", "nodes"),
    ("n", "ntasks"),
    ("o", "output"),
    ("p", "partition"),
    ("q", "qos"),
    ("s", "oversubscribe"),
    ("t", "time"),
    ("w", "nodelist"),
    ("x", "exclude"),
];

/// Options that say how much memory there is, of which sbatch takes one.
const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];

/// The most tasks that an array may have, whose numbers begin with 1: `MaxArraySize - 1`, or 1,000 where Slurm does not
/// say.
pub(crate) fn slurm_most() -> u32 {
    let said = Command::new("scontrol").args(["show", "config"]).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    max_array_size(&said).unwrap_or(1001).saturating_sub(1).max(1)
}

fn max_array_size(config: &str) -> Option<u32> {
    let line = config.lines().find(|line| line.starts_with("MaxArraySize"))?;
    line.split_once('=')?.1.trim().parse().ok()
}

/// The script of `job`, with the options of the site's `slurm.toml`, and these `options` of the command line.
pub(crate) fn slurm_script(job: &ArrayJob, options: &[String]) -> Result<String> {
    script(job, &Site::read("slurm")?, options)
}

fn script(job: &ArrayJob, site: &Site, options: &[String]) -> Result<String> {
    let mut directives = vec![
        Directive::new("job-name", "packhorse"),
        Directive::new("cpus-per-task", job.jobs.to_string()),
        Directive::flag("requeue"),
        Directive::new("signal", "B:USR1@60"),
        Directive::new("output", "packhorse-%A_%a.log"),
        Directive::new("open-mode", "append"),
    ];
    directives.extend(job.seconds().map(|seconds| Directive::new("time", clock(seconds))));
    directives.extend(job.mebibytes().map(|mebibytes| Directive::new("mem", format!("{mebibytes}M"))));
    // As keys of TOML often are.
    let dashed = |name: &str| name.replace('_', "-");
    directives.retain(|directive| !site.without.iter().any(|name| dashed(name) == directive.name));
    let (tasks, mut at_once) = (ranges(&job.tasks), String::new());
    let of_site = site.options.iter().map(|option| Directive { name: dashed(&option.name), ..option.clone() });
    for mut new in of_site.chain(parse(options)?) {
        if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == new.name) {
            new.name = (*long).to_owned();
        }
        if new.name == "array" {
            at_once = throttle(&new, &tasks)?;
            continue;
        }
        let name = new.name.clone();
        let is_memory = |name: &str| MEMORY.contains(&name);
        replace(&mut directives, new, |old| old.name == name || is_memory(&old.name) && is_memory(&name));
    }
    let wait = "a job with --dependency=afterok finds it";
    let again = format!("Submit the rest with: packhorse slurm resume {}", path_word(&job.out));
    let mut lines = vec!["#!/bin/bash".to_owned()];
    lines.extend(job.heading(&again, wait).iter().map(|line| comment(line)));
    lines.push(format!("\n#SBATCH --array={tasks}{at_once}"));
    lines.extend(directives.iter().map(|d| match &d.value {
        Some(value) => format!("#SBATCH --{}={}", d.name, quoted(value)),
        None => format!("#SBATCH --{}", d.name),
    }));
    lines.push(String::new());
    lines.extend(site.setup.iter().cloned());
    lines.push("# exec: packhorse itself gets the signals, and ends with its finished shards in place.".to_owned());
    let jobs = format!("\"${{SLURM_CPUS_PER_TASK:-{}}}\"", job.jobs);
    lines.push(format!("exec {}\n", job.command("$SLURM_ARRAY_TASK_ID", &jobs)));
    Ok(lines.join("\n"))
}

/// A value as sbatch reads it: words and what follows a # are kept together by quotes.
fn quoted(value: &str) -> String {
    let quote = if value.contains('"') { '\'' } else { '"' };
    let is_quoted = ['"', '\''].iter().any(|q| value.len() > 1 && value.starts_with(*q) && value.ends_with(*q));
    match !is_quoted && value.contains(|c: char| c.is_whitespace() || c == '#') {
        true => format!("{quote}{value}{quote}"),
        false => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::job;

    #[test]
    fn the_script_asks_for_what_the_pilot_took() {
        let script = script(&job(&[1, 9, 17, 19]), &Site::default(), &[]).unwrap();
        for line in [
            "#!/bin/bash",
            "#SBATCH --array=2,4",
            "#SBATCH --time=00:15:00",
            "#SBATCH --mem=2048M",
            "#SBATCH --cpus-per-task=4",
            "#SBATCH --signal=B:USR1@60",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}\n{script}");
        }
        assert!(script.ends_with(
            "--part \"$SLURM_ARRAY_TASK_ID/8\" --seal --jobs \"${SLURM_CPUS_PER_TASK:-4}\" --on-error skip\n"
        ));
        assert!(
            script.contains("# The pilot shard s-3, 50.0 MB of input, took 150.0 s and 734.0 MB of memory."),
            "{script}"
        );
    }

    #[test]
    fn a_name_with_a_line_end_stays_in_its_comment() {
        let job = ArrayJob { out: "s\nrm -rf x\n#".into(), ..job(&[0, 1]) };
        let script = script(&job, &Site::default(), &[]).unwrap();
        assert!(script.contains("below s\\nrm -rf x\\n#, by"), "{script}");
    }

    #[test]
    fn options_replace_those_of_the_site_and_of_the_script() {
        let site = Site {
            options: vec![Directive::new("partition", "slow"), Directive::new("time", "1:00:00")],
            without: vec!["requeue".into()],
            setup: vec!["module load packhorse".into()],
        };
        let options = ["-p", "cpu", "--mem=0", "--exclusive"].map(str::to_owned);
        let script = script(&job(&[0]), &site, &options).unwrap();
        for line in [
            "#SBATCH --partition=cpu",
            "#SBATCH --time=1:00:00",
            "#SBATCH --mem=0",
            "#SBATCH --exclusive",
            "module load packhorse",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}\n{script}");
        }
        let site_lists = Site {
            options: vec![Directive::new("partition", "a,b"), Directive::new("cpus_per_task", "3")],
            without: vec!["open_mode".into()],
            ..Site::default()
        };
        let listed = super::script(&job(&[0]), &site_lists, &["--mem-per-cpu=1G".to_owned()]).unwrap();
        for line in ["#SBATCH --partition=a,b", "#SBATCH --cpus-per-task=3", "#SBATCH --mem-per-cpu=1G"] {
            assert!(listed.lines().any(|found| found == line), "{line}\n{listed}");
        }
        assert!(
            !listed.contains("--mem=")
                && !listed.contains("open-mode")
                && listed.matches("--cpus-per-task").count() == 1,
            "{listed}"
        );
        let odd = ["--job-name=x y", "--comment=a\"#b", "--output=a,b", "--wckey='a b'"].map(str::to_owned);
        let odd = super::script(&job(&[0]), &site, &odd).unwrap();
        for line in
            ["#SBATCH --job-name=\"x y\"", "#SBATCH --comment='a\"#b'", "#SBATCH --output=a,b", "#SBATCH --wckey='a b'"]
        {
            assert!(odd.lines().any(|found| found == line), "{line}\n{odd}");
        }
        assert!(!script.contains("slow") && !script.contains("requeue") && !script.contains("2048M"), "{script}");
        let of = |array: &str| super::script(&job(&[1, 9, 17, 19]), &site, &[format!("--array={array}")]);
        for array in ["%10", "2,4%10"] {
            assert!(of(array).unwrap().contains("#SBATCH --array=2,4%10\n"), "{array}");
        }
        for array in ["1-9", "1-9%2", "%0", "%", "2,4"] {
            assert!(of(array).unwrap_err().message().contains("--tasks"), "{array}");
        }
    }

    #[test]
    fn the_largest_array_is_read_from_the_configuration() {
        assert_eq!(max_array_size("A = 1\nMaxArraySize            = 10001\nMaxB = 2\n"), Some(10001));
        assert_eq!(max_array_size(""), None);
    }
}
