//! Installation options from flags: a flag replaces the recorded option.

use clap::Parser as _;
use olm_kube_schema::names::is_dns_subdomain;
use olm_ops::manifests::{ManifestOptions, NO_PROXY, OWN_VARIABLES};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::{
    args::{Args, ChosenArgs, PullPolicy},
    exit::{Code, Failure},
};

/// Merges flags into the recorded options.
pub(super) fn choose(mut options: ManifestOptions, args: &ChosenArgs) -> Result<ManifestOptions, Failure> {
    let wants_console = args.console.unwrap_or(options.console_image.is_some());
    if let Some(image) = &args.image {
        options.image.clone_from(image);
        options.registry = None;
    }
    // Both Deployments run the same image.
    options.console_image = wants_console.then(|| options.image.clone());
    if let Some(policy) = args.image_pull_policy {
        options.image_pull_policy = match policy {
            PullPolicy::Always => "Always",
            PullPolicy::IfNotPresent => "IfNotPresent",
            PullPolicy::Never => "Never",
        }
        .to_owned();
    }
    if !args.pull_secret.is_empty() {
        // A single empty name removes all.
        options.pull_secrets = args.pull_secret.iter().filter(|name| !name.is_empty()).cloned().collect();
        check_secrets(&options.pull_secrets)?;
    }
    if !args.env.is_empty() {
        // A single empty one removes all.
        options.env = environment(&args.env)?;
    }
    options.replicas = args.replicas.unwrap_or(options.replicas);
    for (field, values) in [("requests", &args.requests), ("limits", &args.limits)] {
        if !values.is_empty() {
            let values: Map<String, Value> =
                values.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
            options.resources[field] = values.into();
        }
    }
    if !args.console_arg.is_empty() {
        // A single empty argument removes all.
        options.console_args = args.console_arg.iter().filter(|text| !text.is_empty()).cloned().collect();
        check_console(&options.console_args)?;
    }
    options.console_tls = args.console_tls.unwrap_or(options.console_tls);
    options.network_policy = args.network_policy.unwrap_or(options.network_policy);
    if !args.api_server_port.is_empty() {
        options.api_server_ports.clone_from(&args.api_server_port);
    }
    options.service_monitor = args.service_monitor.unwrap_or(options.service_monitor);
    options.package_manifests = args.package_manifests.unwrap_or(options.package_manifests);
    options.public_catalogs = args.public_catalogs.unwrap_or(options.public_catalogs);
    options.shipped_catalog = args.shipped_catalog.unwrap_or(options.shipped_catalog);
    if !args.catalogs.is_empty() {
        options.extra_catalogs.clear();
    }
    for path in &args.catalogs {
        let wrong = |text: String| Failure::new(Code::Usage, format!("{}: {text}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("failed to read the file: {error}")))?;
        for document in serde_yaml::Deserializer::from_str(&text) {
            let mut object = Value::deserialize(document)
                .map_err(|error| wrong(format!("failed to parse the file: {error}")))?;
            if object.is_null() {
                continue;
            }
            if object["kind"] != "CatalogSource" || !object["metadata"]["name"].is_string() {
                return Err(wrong("unexpected object, expected CatalogSources with metadata.name".into())
                    .hint("apply other objects with `kubectl apply`"));
            }
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = options.namespace.clone().into();
            }
            options.extra_catalogs.push(object);
        }
    }
    Ok(options)
}

/// The variables, the last of each name. A proxy is not used within the cluster, unless `NO_PROXY` is given.
fn environment(given: &[(String, String)]) -> Result<Vec<(String, String)>, Failure> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for (name, value) in given.iter().filter(|(name, _)| !name.is_empty()) {
        if OWN_VARIABLES.contains(&name.as_str()) {
            return Err(Failure::new(Code::Usage, format!("--env: {name} is reserved for olm")));
        }
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), value.clone()));
    }
    let has = |wanted: &str| variables.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"].into_iter().any(has) && !has("NO_PROXY") {
        variables.push(("NO_PROXY".to_owned(), NO_PROXY.to_owned()));
    }
    Ok(variables)
}

fn check_secrets(names: &[String]) -> Result<(), Failure> {
    match names.iter().find(|name| !is_dns_subdomain(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::new(
            Code::Usage,
            format!("--pull-secret: {name:?} is not a valid name, expected the name of a Secret"),
        )),
    }
}

/// Rejects invalid arguments early, as the console would fail to start with them.
fn check_console(arguments: &[String]) -> Result<(), Failure> {
    // The Deployment has the address.
    let line =
        ["olm", "console", "--listen=0.0.0.0:8080"].into_iter().chain(arguments.iter().map(String::as_str));
    Args::try_parse_from(line).map(drop).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::new(Code::Usage, format!("--console-arg: {first}"))
            .hint("`olm console --help` lists the arguments")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, SelfCommand};

    fn chosen(line: &[&str]) -> ChosenArgs {
        let all = ["olm", "self", "manifests"].iter().chain(line);
        let Command::Own(args) = Args::try_parse_from(all).unwrap().command else {
            panic!("another command")
        };
        let SelfCommand::Manifests(args) = args.command else { panic!("another command") };
        args.chosen
    }

    #[test]
    fn unset_options_keep_their_previous_values() {
        // given
        let before = ManifestOptions { replicas: 3, console_image: None, ..ManifestOptions::default() };
        // when only the image and a limit are set
        let after = choose(
            before.clone(),
            &chosen(&["--image", "registry.example/olm:2", "--limits", "memory=1Gi,cpu=2"]),
        )
        .unwrap();
        // then
        assert_eq!(
            (after.image.as_str(), after.replicas, after.console_image),
            ("registry.example/olm:2", 3, None)
        );
        assert_eq!(after.resources["limits"]["memory"], "1Gi");
        assert_eq!(after.resources["requests"], before.resources["requests"]);
    }

    #[test]
    fn arguments_of_the_console_are_checked_and_replace_earlier_ones() {
        let oidc =
            ["--console-arg=--oidc-issuer=https://id.example", "--console-arg=--oidc-client-id=console"];
        let first =
            choose(ManifestOptions::default(), &chosen(&[&oidc[..], &["--console-tls"]].concat())).unwrap();
        assert_eq!(first.console_args, ["--oidc-issuer=https://id.example", "--oidc-client-id=console"]);
        assert!(first.console_tls);
        let second = choose(first.clone(), &chosen(&[])).unwrap();
        assert_eq!(second, first);
        let none = choose(first, &chosen(&["--console-arg=", "--console-tls=false"])).unwrap();
        assert_eq!((none.console_args, none.console_tls), (vec![], false));
        let error =
            choose(ManifestOptions::default(), &chosen(&["--console-arg=--oidc-isuer=x"])).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("--oidc-isuer"), "{text}");
    }

    #[test]
    fn switches_go_both_ways_and_the_console_has_the_managers_image() {
        let off =
            choose(ManifestOptions::default(), &chosen(&["--console=false", "--shipped-catalog=false"]))
                .unwrap();
        assert_eq!((off.console_image.clone(), off.shipped_catalog), (None, false));
        let on = choose(off, &chosen(&["--console", "--service-monitor", "--image", "i:2"])).unwrap();
        assert_eq!(
            (on.console_image.as_deref(), on.service_monitor, on.shipped_catalog),
            (Some("i:2"), true, false)
        );
    }

    #[test]
    fn pull_secrets_are_names_and_an_own_image_leaves_the_registry() {
        let before = ManifestOptions { registry: Some("r.example".into()), ..ManifestOptions::default() };
        let first = choose(before, &chosen(&["--pull-secret", "a", "--pull-secret", "b"])).unwrap();
        assert_eq!((first.pull_secrets.len(), first.registry.is_some()), (2, true));
        let none = choose(first.clone(), &chosen(&["--pull-secret=", "--image", "i:2"])).unwrap();
        assert_eq!((none.pull_secrets.len(), none.registry), (0, None));
        let error = choose(first, &chosen(&["--pull-secret", "No Name"])).unwrap_err();
        assert!(error.message.starts_with("--pull-secret: \"No Name\""), "{}", error.message);
    }

    #[test]
    fn a_proxy_is_not_used_within_the_cluster() {
        let proxy = "HTTPS_PROXY=http://proxy.example:3128";
        let env = |line: &[&str]| choose(ManifestOptions::default(), &chosen(line)).map(|chosen| chosen.env);
        let own = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let through = ("HTTPS_PROXY", "http://proxy.example:3128");
        assert_eq!(env(&["--env", proxy]).unwrap(), own(&[through, ("NO_PROXY", ".svc,.cluster.local")]));
        let all = ["--env", "no_proxy=10.0.0.0/8", "--env", proxy];
        assert_eq!(env(&all).unwrap(), own(&[("no_proxy", "10.0.0.0/8"), through]));
        // The last of a name counts, an upgrade retains them, and an empty one removes all.
        let log = choose(ManifestOptions::default(), &chosen(&["--env=A=1", "--env=A=2=3"])).unwrap();
        assert_eq!(log.env, own(&[("A", "2=3")]));
        assert_eq!(choose(log.clone(), &chosen(&[])).unwrap().env, log.env);
        assert!(choose(log, &chosen(&["--env="])).unwrap().env.is_empty());
        let error = env(&["--env", "POD_NAME=a"]).unwrap_err();
        assert_eq!(error.message, "--env: POD_NAME is reserved for olm");
    }

    #[test]
    fn a_catalog_file_may_have_catalogs_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalogs.yaml");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let read = || choose(ManifestOptions::default(), &chosen(&["--catalogs", path.to_str().unwrap()]));
        write("kind: CatalogSource\napiVersion: operators.coreos.com/v1alpha1\nmetadata: {name: a}\n---\n");
        assert_eq!(read().unwrap().extra_catalogs[0]["metadata"]["namespace"], "olm");
        write("kind: Secret\nmetadata: {name: a}\n");
        assert!(
            read()
                .unwrap_err()
                .message
                .ends_with("unexpected object, expected CatalogSources with metadata.name")
        );
        write("a: [");
        assert!(read().unwrap_err().message.contains("failed to parse the file"));
    }
}
