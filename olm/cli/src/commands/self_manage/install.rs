//! `olm self install` and `olm self upgrade` share one implementation: one starts from the defaults, the
//! other from the recorded options. Both update an existing installation.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use olm_ops::manifests::{self, ManifestOptions, VERSION, installation};

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
    source::options as access,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Install,
    Upgrade,
}

pub(super) async fn run(global: &Global, args: SelfInstallArgs, task: Task) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    if let Some(other_olm) = olm_ops::find_other_olm(&client).await? {
        return Err(Failure::new(Code::Refused, format!("{other_olm}; two managers of one API conflict"))
            .hint(format!("stop it with `{}`", other_olm.fix()))
            .hint("its installed operators are adopted unchanged; `olm doctor` checks them"));
    }
    let before = found(global, &client).await?;
    if task == Task::Upgrade && before.is_none() {
        return Err(not_installed());
    }
    if let Some(live) = before.as_ref().and_then(|b| b.version.as_deref())
        && newer(live)
        && !args.allow_downgrade
    {
        return Err(Failure::new(
            Code::Refused,
            format!("the installed version {live} is newer than this program ({VERSION})"),
        )
        .hint("use a newer `olm`, or pass --allow-downgrade"));
    }
    let mut options = choose(start(global, before.as_ref())?, &args.chosen)?;
    if options.service_monitor && !manifests::serves_service_monitors(&client).await? {
        let text = "kind ServiceMonitor of monitoring.coreos.com/v1 is not served by the cluster";
        return Err(Failure::new(Code::Refused, text)
            .hint("install the Prometheus operator, or pass --service-monitor=false"));
    }
    images(&client, &mut options, before.as_ref(), &args).await?;
    let objects = manifests::for_server(&client, manifests::manifests(&options)).await?;
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
        let hint = "pass programs for the nodes with --binary olm=PATH and --binary etcd-operator=PATH";
        nodes::check(client, &images, hint).await?;
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

fn newer(live: &str) -> bool {
    match (semver::Version::parse(live), semver::Version::parse(VERSION)) {
        (Ok(live), Ok(own)) => live > own,
        _ => false,
    }
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
    fn only_what_is_newer_is_newer() {
        assert!(newer("99.0.0"));
        assert!(!newer(VERSION));
        assert!(!newer("0.0.1"));
        assert!(!newer("not a version"));
    }
}
