//! The manifest of an Indexed Job of Kubernetes (batch/v1).

use super::ArrayJob;
use super::array_job::comment;
use serde_json::{Value, json};

/// Where pods run.
pub(crate) struct Pods<'a> {
    pub(crate) container: &'a str,
    /// Persistent volume claims, and the folders where they are mounted.
    pub(crate) claims: &'a [(String, String)],
    pub(crate) namespace: Option<&'a str>,
}

/// Exit codes that a second attempt does not change.
const FINAL: [u8; 5] = [2, 3, 4, 7, 8];

/// The manifest of `job`. The Job has all parts of the plan: a pod whose shards are there ends at once.
pub(crate) fn manifest(job: &ArrayJob, pods: &Pods<'_>) -> String {
    let again = "Delete the Job and apply the manifest again: pods whose shards are there end at once.";
    let heading = job.heading(again, "the Job is then complete");
    let mut text: String = heading.iter().map(|line| comment(line) + "\n").collect();
    write(&mut text, 0, &value(job, pods));
    text
}

fn value(job: &ArrayJob, pods: &Pods<'_>) -> Value {
    let mut metadata = json!({"name": name(job)});
    if let (Some(namespace), Some(map)) = (pods.namespace, metadata.as_object_mut()) {
        map.insert("namespace".to_owned(), namespace.into());
    }
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailIndex", "onExitCodes": {"containerName": "packhorse", "operator": "In", "values": FINAL}},
    ]);
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": job.parts,
            "parallelism": job.parts,
            "backoffLimitPerIndex": 6,
            "podFailurePolicy": {"rules": rules},
            "template": {"spec": pod(job, pods)},
        },
    })
}

fn pod(job: &ArrayJob, pods: &Pods<'_>) -> Value {
    let mut command =
        vec!["packhorse".to_owned(), "pack".into(), "--plan".into(), job.out.to_string_lossy().into_owned()];
    command.extend(["--seal".to_owned(), "--jobs".into(), job.jobs.to_string()]);
    command.extend(job.flags.iter().cloned());
    let mut requests = json!({"cpu": job.jobs.to_string()});
    let mut resources = json!({});
    if let (Some(mebibytes), Some(map)) = (job.mebibytes(), requests.as_object_mut()) {
        let memory = format!("{mebibytes}Mi");
        map.insert("memory".to_owned(), memory.clone().into());
        resources = json!({"limits": {"memory": memory}});
    }
    if let Some(map) = resources.as_object_mut() {
        map.insert("requests".to_owned(), requests);
    }
    let mounts: Vec<Value> =
        pods.claims.iter().map(|(name, folder)| json!({"name": name, "mountPath": folder})).collect();
    let volumes: Vec<Value> = pods
        .claims
        .iter()
        .map(|(name, _)| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 60,
        "containers": [{
            "name": "packhorse",
            "image": pods.container,
            "command": command,
            // Kubernetes sets JOB_COMPLETION_INDEX, and does not say how many there are.
            "env": [{"name": "JOB_COMPLETIONS", "value": job.parts.to_string()}],
            "resources": resources,
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    })
}

/// A name for the Job by that of the dataset: lower case letters, digits and dashes. With a dash and the number of a pod it has 63
/// characters at most.
fn name(job: &ArrayJob) -> String {
    let out = job.out.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let room = 62 - job.parts.saturating_sub(1).to_string().len();
    let name: String = format!("packhorse-{out}").chars().map(plain).take(room).collect();
    name.trim_end_matches('-').to_owned()
}

/// Writes `value` as YAML. Strings are quoted as in JSON, which YAML reads too.
fn write(text: &mut String, depth: usize, value: &Value) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                text.push_str(&format!("{indent}{key}:"));
                entry(text, depth, value);
            }
        }
        Value::Array(list) => {
            for value in list {
                let mut item = String::new();
                write(&mut item, depth + 1, value);
                let item = item.trim_start();
                text.push_str(&format!("{indent}- {item}"));
            }
        }
        plain => text.push_str(&format!("{indent}{plain}\n")),
    }
}

/// Writes what follows a key.
fn entry(text: &mut String, depth: usize, value: &Value) {
    let inner = match value {
        Value::Object(map) if !map.is_empty() => depth + 1,
        Value::Array(list) if !list.is_empty() => {
            // Short lists of plain values stay on the line.
            if list.iter().all(|value| !value.is_object()) {
                return text.push_str(&format!(" {value}\n"));
            }
            depth
        }
        plain => return text.push_str(&format!(" {plain}\n")),
    };
    text.push('\n');
    write(text, inner, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::job;

    #[test]
    fn the_manifest_is_an_indexed_job() {
        let claims = [("scratch".to_owned(), "/data".to_owned())];
        let pods = Pods { container: "registry.example/packhorse:1", claims: &claims, namespace: Some("ml") };
        let text = manifest(&job(&[1, 9, 17, 19]), &pods);
        for lines in [
            "apiVersion: \"batch/v1\"\n",
            "  namespace: \"ml\"\n",
            "  name: \"packhorse-it-s\"\n",
            "  completionMode: \"Indexed\"\n",
            "  completions: 8\n",
            "        env:\n        - name: \"JOB_COMPLETIONS\"\n          value: \"8\"\n",
            "          limits:\n            memory: \"2048Mi\"\n",
            "command: [\"packhorse\",\"pack\",\"--plan\",\"/data/it's\",\"--seal\",\"--jobs\",\"4\",\"--on-error\",\"skip\"]\n",
            "persistentVolumeClaim:\n          claimName: \"scratch\"\n",
            "        values: [2,3,4,7,8]\n",
        ] {
            assert!(text.contains(lines), "{lines}\n{text}");
        }
        let text = manifest(&job(&[1]), &Pods { claims: &[], namespace: None, ..pods });
        assert!(text.contains("volumes: []\n") && text.contains("volumeMounts: []\n"), "{text}");
    }

    /// Pods are called by the Job and their number, and by that name have 63 characters at most.
    #[test]
    fn names_leave_room_for_the_numbers_of_pods() {
        let out = std::path::PathBuf::from(format!("/data/{}", "imagenet-".repeat(9)));
        for (parts, room) in [(1, 61), (10, 61), (11, 60), (10_000, 58)] {
            let name = name(&ArrayJob { out: out.clone(), parts, ..job(&[1]) });
            assert!(name.len() <= room && name.len() + 1 >= room && !name.ends_with('-'), "{parts}: {name}");
        }
    }
}
