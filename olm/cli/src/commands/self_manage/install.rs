//! `olm self install` and `olm self upgrade` share one implementation: one starts from the defaults, the
//! other from the recorded options. Both update an existing installation.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use olm_engine::resources::ResourceError;
use olm_ops::manifests::{
    self, ManifestOptions, OLDEST_KUBERNETES, VERSION, definitions, installation, is_newer,
};
use serde_json::Value;

use super::{
    choose::choose,
    found::{found, namespace, not_installed},
    image,
    nodes::{self, ImageArchitectures},
    registry::Registry,
};
use crate::{
    args::{Global, SelfInstallArgs},
    commands::progress::{Progress, Seen},
    context,
    exit::{Code, Failure},
    product,
    source::options as access,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Install,
    Upgrade,
}

pub(super) async fn run(global: &Global, args: SelfInstallArgs, task: Task) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    check_kubernetes(&client).await?;
    if let Some(other_olm) = olm_ops::find_other_olm(&client).await? {
        return Err(Failure::new(Code::Refused, format!("{other_olm}; two managers of one API conflict"))
            .hint(format!("stop it with `{}`", other_olm.fix()))
            .hint("its installed operators are adopted unchanged; `olm doctor` checks them"));
    }
    let before = found(global, &client).await?;
    if task == Task::Upgrade && before.is_none() {
        return Err(not_installed());
    }
    if let Some(before) = &before {
        check_downgrade(before, args.allow_downgrade)?;
    }
    let mut options = choose(start(global, before.as_ref())?, &args.chosen)?;
    if options.service_monitor && !manifests::serves_service_monitors(&client).await? {
        let text = "kind ServiceMonitor of monitoring.coreos.com/v1 is not served by the cluster";
        return Err(Failure::new(Code::Refused, text)
            .hint("install the Prometheus operator, or pass --service-monitor=false"));
    }
    images(&client, &mut options, before.as_ref(), &args).await?;
    let objects = manifests::for_server(&client, manifests::manifests(&options)).await?;
    check_objects(&client, &objects).await?;
    let progress = Progress::new(global.color.enabled_on_stderr());
    manifests::apply(&client, &objects).await?;
    progress.done(&format!("applied {} objects in namespace {}", objects.len(), options.namespace));
    for name in absent(&client, &options).await {
        eprintln!(
            "warning: pull secret {name} is not in namespace {ns}; create it with `kubectl create secret \
             docker-registry {name} -n {ns}`",
            ns = options.namespace
        );
    }
    for object in installation::prune(&client, &options.namespace, &objects).await? {
        progress.done(&format!("removed {object}"));
    }
    if !args.no_wait {
        ready(&client, &progress, &options, args.timeout).await?;
    }
    println!("olm {VERSION} is installed in namespace {}.", options.namespace);
    if options.namespace != olm_engine::site::manager_namespace() {
        println!("Set OLM_NAMESPACE={} for the other commands.", options.namespace);
    }
    Ok(())
}

async fn check_kubernetes(client: &Client) -> Result<(), Failure> {
    let cluster = client.apiserver_version().await?;
    if is_too_old(&cluster.major, &cluster.minor) {
        let version = &cluster.git_version;
        let text = format!("the cluster runs Kubernetes {version}, expected 1.{OLDEST_KUBERNETES} or newer");
        return Err(Failure::new(Code::Refused, text));
    }
    Ok(())
}

fn is_too_old(major: &str, minor: &str) -> bool {
    // Vendors write `28+`.
    let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
    major == "1" && minor.parse::<u32>().is_ok_and(|minor| minor < OLDEST_KUBERNETES)
}

/// Refuses to replace a newer version, and to drop settings that only that one has, unless that is allowed.
fn check_downgrade(before: &installation::Installation, allowed: bool) -> Result<(), Failure> {
    let unknown = before.unknown_options.join(", ");
    let refusal = match before.version.as_deref().filter(|version| is_newer(version)) {
        Some(version) => format!("the installed version {version} is newer than this program ({VERSION})"),
        None if unknown.is_empty() => return Ok(()),
        None => format!("the installation has settings that version {VERSION} does not have: {unknown}"),
    };
    if !allowed {
        return Err(Failure::new(Code::Refused, refusal).hint("use a newer `olm`, or pass --allow-downgrade"));
    }
    if !unknown.is_empty() {
        eprintln!("warning: settings that version {VERSION} does not have are removed: {unknown}");
    }
    Ok(())
}

/// Refuses before the first write what the API server rejects, and definitions that would damage existing
/// objects.
async fn check_objects(client: &Client, objects: &[Value]) -> Result<(), Failure> {
    let conflicts = definitions::conflicts(client, objects).await?;
    if !conflicts.is_empty() {
        let text = format!("version {VERSION} would damage objects of this cluster; no object was changed\n");
        return Err(Failure::new(Code::Refused, text + &conflicts.join("\n"))
            .hint("use the version of `olm` that stored the objects, or a newer one"));
    }
    manifests::preflight(client, objects).await.map_err(|error| rejected(&error))
}

fn rejected(error: &ResourceError) -> Failure {
    let code = if error.is_forbidden() {
        Code::Forbidden
    } else if error.is_refused() {
        Code::Refused
    } else {
        Code::Unexpected
    };
    Failure::new(code, format!("{error}; no object was changed"))
}

/// The images in a registry: pushed, looked up in the one that was chosen, or for another version in that of
/// the installation.
async fn images(
    client: &Client,
    options: &mut ManifestOptions,
    before: Option<&installation::Installation>,
    args: &SelfInstallArgs,
) -> Result<(), Failure> {
    if let Some(push) = &args.push {
        let registry = Registry::parse(push)?;
        let access = access(&args.access)?;
        let built = image::build(&args.content, None)?;
        let images: Vec<ImageArchitectures> =
            built.images.iter().map(ImageArchitectures::of_layout).collect();
        let hint = format!("pass programs for the nodes with {}", product::binary_flags());
        nodes::check(client, &images, &hint).await?;
        registry.use_in(options, built.push(&registry, &access).await?);
        return Ok(());
    }
    let is_same = before.is_some_and(|before| before.version.as_deref() == Some(VERSION));
    let recorded = options.registry.clone().filter(|_| !is_same);
    let Some(registry) = args.chosen.registry.clone().or(recorded) else { return Ok(()) };
    let registry = Registry::parse(&registry)?;
    let access = access(&args.access)?;
    let pinned = registry.look_up(&access).await?;
    nodes::check(client, &registry.platforms(&pinned, &access).await?, &registry.push_hint()).await?;
    registry.use_in(options, pinned);
    Ok(())
}

/// Pull secrets that are not in the namespace. Best effort: the user may have no right to read Secrets.
async fn absent(client: &Client, options: &ManifestOptions) -> Vec<String> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &options.namespace);
    let mut absent = Vec::new();
    for name in &options.pull_secrets {
        if matches!(secrets.get_metadata_opt(name).await, Ok(None)) {
            absent.push(name.clone());
        }
    }
    absent
}

/// The base options: an upgrade uses the image of this program and retains the rest.
fn start(global: &Global, before: Option<&installation::Installation>) -> Result<ManifestOptions, Failure> {
    let defaults = ManifestOptions::default();
    match before {
        None => Ok(ManifestOptions { namespace: namespace(global), ..defaults }),
        Some(before) => {
            let Some(options) = before.options.clone() else {
                return Err(Failure::new(
                    Code::Refused,
                    format!(
                        "Deployment {}/olm-manager has no recorded settings: it was not created by this \
                        program",
                        before.namespace
                    ),
                )
                .hint(
                    "upgrade with the tool of the installation (Helm, GitOps), or reinstall with `olm self \
                    uninstall` and `olm self install`; installed operators are retained",
                ));
            };
            let same = before.version.as_deref() == Some(VERSION);
            // A custom image, for example of a private registry, is retained unless the flag changes it.
            let image =
                if same || !is_default(&options.image) { options.image.clone() } else { defaults.image };
            Ok(ManifestOptions { image, ..options })
        }
    }
}

/// Whether the image is the default one of any version.
fn is_default(image: &str) -> bool {
    let name = |image: &str| image.rsplit_once(':').map(|(name, _)| name.to_owned());
    name(image) == name(&ManifestOptions::default().image)
}

async fn ready(
    client: &Client,
    progress: &Progress,
    options: &ManifestOptions,
    timeout: Duration,
) -> Result<(), Failure> {
    let (start, namespace) = (Instant::now(), options.namespace.as_str());
    let console = options.console_image.is_some().then_some(olm_engine::site::CONSOLE);
    for name in [olm_engine::site::MANAGER].into_iter().chain(console) {
        // In whole seconds, as in the flag and in messages.
        let left = timeout.saturating_sub(Duration::from_secs(start.elapsed().as_secs()));
        progress
            .wait(client, namespace, &format!("{name} is ready"), left, || async {
                let all = match installation::workloads(client, namespace).await {
                    Ok(all) => all,
                    // The API server may be unreachable for a moment; a timeout reports its last error.
                    Err(error) => return Ok(Seen::Waiting(error.to_string())),
                };
                Ok(seen(&all, namespace, name))
            })
            .await?;
    }
    Ok(())
}

/// The state of a Deployment. A Deployment that was deleted in the meantime is not ready.
fn seen(all: &[installation::Workload], namespace: &str, name: &str) -> Seen<()> {
    match all.iter().find(|workload| workload.name == name) {
        Some(workload) if workload.ready => Seen::Ready(()),
        Some(workload) => Seen::Waiting(workload.message.clone()),
        None => Seen::Waiting(format!("Deployment {namespace}/{name} does not exist")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_that_is_not_there_is_waited_for() {
        let workload = |ready: bool, message: &str| installation::Workload {
            name: "olm-manager".into(),
            image: "i".into(),
            wanted: 1,
            available: ready.into(),
            ready,
            message: message.into(),
        };
        let waits = |all: &[installation::Workload]| match seen(all, "olm", "olm-manager") {
            Seen::Ready(()) => None,
            Seen::Waiting(what) => Some(what),
        };
        assert_eq!(waits(&[workload(true, "")]), None);
        assert_eq!(waits(&[workload(false, "0 of 1 pods available")]).unwrap(), "0 of 1 pods available");
        assert_eq!(waits(&[]).unwrap(), "Deployment olm/olm-manager does not exist");
    }

    fn installed(version: &str, image: &str) -> installation::Installation {
        installation::Installation {
            namespace: "olm".into(),
            version: Some(version.into()),
            options: Some(ManifestOptions { image: image.into(), replicas: 2, ..ManifestOptions::default() }),
            unknown_options: Vec::new(),
        }
    }

    #[test]
    fn an_upgrade_brings_its_own_image_and_keeps_a_sites() {
        let image = |version: &str, image: &str| {
            start(&Global::default(), Some(&installed(version, image))).unwrap().image
        };
        assert_eq!(image("0.0.1", "localhost/olm/olm:0.0.1"), ManifestOptions::default().image);
        assert_eq!(image("0.0.1", "registry.example:5000/olm:0.0.1"), "registry.example:5000/olm:0.0.1");
        assert_eq!(start(&Global::default(), Some(&installed("0.0.1", "a"))).unwrap().replicas, 2);
    }

    #[test]
    fn a_kubernetes_before_the_oldest_supported_is_too_old() {
        assert!(is_too_old("1", "27") && is_too_old("1", "9+"));
        assert!(!is_too_old("1", "28") && !is_too_old("1", "28+") && !is_too_old("1", "36"));
        assert!(!is_too_old("2", "0") && !is_too_old("", ""));
    }

    #[test]
    fn a_newer_version_and_its_settings_are_replaced_only_if_allowed() {
        let refused = |version: &str, unknown: &[&str]| {
            let unknown_options = unknown.iter().map(ToString::to_string).collect();
            let before = installation::Installation { unknown_options, ..installed(version, "i") };
            assert!(check_downgrade(&before, true).is_ok());
            check_downgrade(&before, false).err().map(|failure| failure.message)
        };
        assert_eq!(refused(VERSION, &[]), None);
        assert_eq!(refused("0.0.1", &[]), None);
        assert_eq!(refused("not a version", &[]), None);
        let newer = format!("the installed version 99.0.0 is newer than this program ({VERSION})");
        assert_eq!(refused("99.0.0", &["audit"]).unwrap(), newer);
        let settings = format!("the installation has settings that version {VERSION} does not have: a, b");
        assert_eq!(refused(VERSION, &["a", "b"]).unwrap(), settings);
    }
}
