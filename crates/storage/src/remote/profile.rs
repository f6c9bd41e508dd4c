//! The AWS configuration files `~/.aws/credentials` and `~/.aws/config`.
//!
//! Reads keys, region and endpoint of one profile, in the documented [format]. Does not read settings that need a
//! program or a browser (SSO, `credential_process`, roles of other profiles).
//!
//! [format]: https://docs.aws.amazon.com/cli/v1/userguide/cli-configure-files.html

use std::path::{Path, PathBuf};

/// Setting names in the files and in the environment.
const NAMES: [(&str, &str); 5] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
    ("region", "AWS_REGION"),
    ("endpoint_url", "AWS_ENDPOINT_URL"),
];

/// The first of [`NAMES`] that form one credential: they are taken from the same file.
const KEY: usize = 3;

/// The settings that the files add to the environment, under their environment names. `variable` reads the
/// environment, `read` a file if possible.
pub(crate) fn settings(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&Path) -> Option<String>,
) -> Vec<(&'static str, String)> {
    let files = files(&variable, read);
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".into());
    let keyed = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"]
        .into_iter()
        .chain(["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"])
        .any(|name| variable(name).is_some());
    let mut found = Vec::new();
    for (at, (name, variable_name)) in NAMES.into_iter().enumerate() {
        let region = name == "region" && variable("AWS_DEFAULT_REGION").is_some();
        let given = variable(variable_name).is_some() || region || (at < KEY && keyed);
        let has_keys = |text: &&String| value(text, &profile, NAMES[0].0).is_some();
        let value = match at < KEY {
            true => files.iter().rev().find(has_keys).and_then(|text| value(text, &profile, name)),
            false => files.iter().rev().find_map(|text| value(text, &profile, name)),
        };
        let value = value.filter(|_| !given);
        found.extend(value.map(|value| (variable_name, value)));
    }
    found
}

/// Why the profile gives no credentials, if it is missing or gets them in a way that is not read.
pub(crate) fn advice(
    variable: impl Fn(&str) -> Option<String>,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<String> {
    let files = files(&variable, read);
    let named = variable("AWS_PROFILE");
    let profile = named.clone().unwrap_or_else(|| "default".into());
    let has = |name: &str| files.iter().any(|text| value(text, &profile, name).is_some());
    let sections = files.iter().flat_map(|text| text.lines()).filter_map(section);
    if named.is_some() && !sections.into_iter().any(|name| name == profile) {
        return Some(format!(
            "AWS_PROFILE names the profile {profile}, which is neither in ~/.aws/config nor in ~/.aws/credentials"
        ));
    }
    let unread = ["credential_process", "role_arn", "sso_session", "sso_start_url", "web_identity_token_file"];
    let way = unread.into_iter().find(|name| has(name)).filter(|_| !has("aws_access_key_id"))?;
    Some(format!(
        "the profile {profile} gets credentials by {way}, which is not read: `aws configure export-credentials` prints keys to set"
    ))
}

/// The profile that a line begins.
fn section(line: &str) -> Option<&str> {
    // A comment may follow.
    let section = line.strip_prefix('[')?.split_once(']')?.0.trim();
    Some(section.strip_prefix("profile ").unwrap_or(section).trim())
}

/// The texts of both files, the one of credentials last.
fn files(variable: impl Fn(&str) -> Option<String>, read: impl Fn(&Path) -> Option<String>) -> [String; 2] {
    let home = variable("HOME").map(PathBuf::from).unwrap_or_default().join(".aws");
    let file = |name: &str, usual: &str| {
        let path = variable(name).map_or_else(|| home.join(usual), PathBuf::from);
        read(&path).unwrap_or_default()
    };
    [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
}

/// A value of a profile. Skips indented lines, which are nested settings.
fn value(text: &str, profile: &str, name: &str) -> Option<String> {
    let mut inside = false;
    let mut found = None;
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t', '#', ';'])) {
        if let Some(section) = section(line) {
            inside = section == profile;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| inside) {
            let ours = key.trim().eq_ignore_ascii_case(name) && !value.trim().is_empty();
            found = if ours { Some(value.trim().to_owned()) } else { found };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str =
        "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=b=c\n\n[other]\naws_access_key_id=O\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://nested\n[profile other]\nendpoint_url = http://x\nregion=\n";

    fn with(environment: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let variable = |name: &str| {
            let home = [("HOME", "/home/me")];
            let found = environment.iter().chain(&home).find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let read = |path: &Path| match path.to_str()? {
            "/home/me/.aws/credentials" | "/elsewhere" => Some(CREDENTIALS.to_owned()),
            "/home/me/.aws/config" => Some(CONFIG.to_owned()),
            _ => None,
        };
        settings(variable, read)
    }

    fn pairs(settings: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    #[test]
    fn a_profile_fills_unset_variables() {
        let key = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "b=c")];
        let region = ("AWS_REGION", "eu-west-1");
        assert_eq!(with(&[]), pairs(&[key[0], key[1], region]));
        assert_eq!(with(&[("AWS_DEFAULT_REGION", "x")]), pairs(&key));
        assert_eq!(with(&[("AWS_ACCESS_KEY_ID", "mine")]), pairs(&[region]));
        assert_eq!(with(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "x")]), pairs(&[region]));
        let other = [("AWS_ACCESS_KEY_ID", "O"), ("AWS_ENDPOINT_URL", "http://x")];
        assert_eq!(with(&[("AWS_PROFILE", "other")]), pairs(&other));
        assert_eq!(with(&[("AWS_PROFILE", "none")]), []);
        let elsewhere = [("AWS_SHARED_CREDENTIALS_FILE", "/elsewhere"), ("AWS_CONFIG_FILE", "/none")];
        assert_eq!(with(&elsewhere), pairs(&key));
        // Keys and token of different files are none.
        let stale = "[default]\naws_access_key_id=B\naws_secret_access_key=c\naws_session_token=stale\n";
        let read = |path: &Path| Some(if path.ends_with("config") { stale } else { CREDENTIALS }.to_owned());
        assert_eq!(settings(|_| None, read), pairs(&key));
    }

    #[test]
    fn a_profile_without_keys_is_told() {
        let config =
            "[default]\n[profile job] # the job\nrole_arn = x\n[profile keyed]\nrole_arn = x\naws_access_key_id = A\n";
        let told = |profile: Option<&str>| {
            let variable = |name: &str| profile.filter(|_| name == "AWS_PROFILE").map(str::to_owned);
            advice(variable, |path| path.ends_with("config").then(|| config.to_owned()))
        };
        assert!(told(Some("none")).unwrap().contains("the profile none, which is neither in"));
        assert!(told(Some("job")).unwrap().contains("by role_arn, which is not read"));
        assert_eq!([told(None), told(Some("default")), told(Some("keyed"))], [None, None, None]);
        let by_program =
            |path: &Path| path.ends_with("config").then(|| "[default]\ncredential_process = x\n".to_owned());
        assert!(
            advice(|_| None, by_program)
                .unwrap()
                .contains("the profile default gets credentials by credential_process")
        );
    }
}
