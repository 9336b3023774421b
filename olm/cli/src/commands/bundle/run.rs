//! `olm bundle run`: runs a bundle without a published catalog on the current cluster.

mod config_map;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use olm_api::{
    CatalogSource, CatalogSourceSpec, OperatorGroup, OperatorGroupSpec, Subscription, catalog_source, names,
};
use olm_bundle::Bundle;
use olm_engine::catalogs::{CatalogRef, Fetcher, LoadedCatalog};
use olm_kube_schema::names::is_dns_label;
use olm_ops::{InstallRequest, Installed};
use olm_plan::shell_word;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    args::{BundleRunArgs, Global, Mode},
    commands::{catalogs, wait},
    context,
    exit::{Code, Failure},
    prose::printable,
    source::{self, Named, OpenedBundle},
};

/// Lowest priority: the bundle is only selected on explicit request, never as a dependency or by `olm
/// install`.
const PRIORITY: i32 = -1000;

/// Interval of polling the manager for the catalog.
const LOOK: Duration = Duration::from_millis(500);

pub async fn run(global: &Global, args: BundleRunArgs) -> Result<(), Failure> {
    let start = Instant::now();
    let opened = OpenedBundle::open(&Named::parse(&args.bundle)?, &source::options(&args.registry)?).await?;
    let bundle = super::render::read(&opened)?;
    let package = bundle.package().filter(|name| is_label(name)).map(str::to_owned).ok_or_else(|| {
        Failure::new(Code::Refused, format!("bundle {} has no valid package name", bundle.name()))
            .hint("set operators.operatorframework.io.bundle.package.v1 in metadata/annotations.yaml")
    })?;
    let client = context::connect(global).await?;
    let namespace = global.namespace.clone().unwrap_or_else(|| suggested_namespace(&bundle, &package));
    let targets = targets(&bundle, args.install_mode.as_ref(), &namespace)?;
    let catalog = CatalogRef::new(&namespace, format!("bundle-run-{package}"));
    let installed = installed(&client, &namespace, &package, &catalog).await?;
    let before = installed.as_ref().and_then(|installed| installed.csv.as_deref());
    let replaces = before.filter(|csv| *csv != bundle.name());
    let data = config_map::data(&bundle, &package, replaces)?;

    let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    if before == Some(bundle.name()) {
        return again(&maps, &catalog.name, &data, &bundle).await;
    }
    ensure_namespace(&client, &namespace).await?;
    if let Some(targets) = targets {
        ensure_group(&client, &namespace, targets).await?;
    }
    let metadata = || ObjectMeta {
        name: Some(catalog.name.clone()),
        namespace: Some(namespace.clone()),
        ..ObjectMeta::default()
    };
    apply(
        &maps,
        &catalog.name,
        &ConfigMap { metadata: metadata(), data: Some(data), ..ConfigMap::default() },
    )
    .await?;
    let spec = CatalogSourceSpec {
        source_type: catalog_source::SOURCE_INTERNAL.to_owned(),
        config_map: Some(catalog.name.clone()),
        display_name: Some(format!("bundle {}", bundle.name())),
        priority: PRIORITY,
        ..CatalogSourceSpec::default()
    };
    let mut source = CatalogSource::new(&catalog.name, spec);
    source.metadata = metadata();
    let sources = Api::<CatalogSource>::namespaced(client.clone(), &namespace);
    apply(&sources, &catalog.name, &source).await?;
    eprintln!("catalog {namespace}/{} contains {}", catalog.name, bundle.name());

    let catalogs = served(&client, &sources, &catalog, &package, &bundle, start + args.timeout).await?;
    let bundle_catalog = catalog.name.clone();
    let request = InstallRequest {
        catalog: Some(catalog),
        channel: Some(config_map::CHANNEL.to_owned()),
        ..InstallRequest::new(&package, &namespace)
    };
    let result = olm_ops::install(&client, &catalogs, &request).await?;
    for created in &result.created {
        eprintln!("created {created}");
    }
    owned(&client, &maps, &sources, &namespace, &result.subscription, &bundle_catalog).await?;
    let left = args.timeout.saturating_sub(start.elapsed());
    wait::installed(&client, &namespace, &result.subscription, Some(bundle.name().to_owned()), left).await?;
    crate::output::print_line(&format!("{} runs in namespace {namespace}", printable(bundle.name())))
}

/// Repeated run of an installed bundle: no change, or an error if another bundle has the same name.
async fn again(
    maps: &Api<ConfigMap>,
    name: &str,
    data: &std::collections::BTreeMap<String, String>,
    bundle: &Bundle,
) -> Result<(), Failure> {
    // `replaces` depends on the previous version, not on the bundle.
    let shape = |data: &std::collections::BTreeMap<String, String>| {
        let csvs = data.get("clusterServiceVersions").map(String::as_str).unwrap_or_default();
        let mut csvs: serde_json::Value = serde_json::from_str(csvs).unwrap_or_default();
        if let Some(spec) = csvs.pointer_mut("/0/spec").and_then(serde_json::Value::as_object_mut) {
            spec.remove("replaces");
        }
        csvs.sort_all_objects();
        (csvs, data.get("customResourceDefinitions").cloned())
    };
    let there = maps.get_opt(name).await?.and_then(|map| map.data).unwrap_or_default();
    if shape(&there) == shape(data) {
        return crate::output::print_line(&format!("{} is already installed", printable(bundle.name())));
    }
    let text = format!("a different bundle is already installed with the name {}", bundle.name());
    Err(Failure::new(Code::Refused, text).hint(
        "change the version and name of the new bundle, or remove the installed bundle with `olm uninstall`",
    ))
}

/// The installed version of the package in the namespace; an error if it is from another catalog.
async fn installed(
    client: &Client,
    namespace: &str,
    package: &str,
    catalog: &CatalogRef,
) -> Result<Option<Installed>, Failure> {
    let all = olm_ops::list_installed(client, Some(namespace)).await?;
    let Some(found) = all.into_iter().find(|installed| installed.package == package) else { return Ok(None) };
    let from = found.catalog.as_deref().unwrap_or_default();
    if from == catalog.name || from == format!("{}/{}", catalog.namespace, catalog.name) {
        return Ok(Some(found));
    }
    let text = format!("package {package} is installed in namespace {namespace} from catalog {from}");
    Err(Failure::new(Code::Refused, text).hint(format!(
        "remove it with `olm uninstall {} -n {namespace}`, or choose another namespace with -n",
        shell_word(package)
    )))
}

fn suggested_namespace(bundle: &Bundle, package: &str) -> String {
    let annotations = bundle.csv_raw.pointer("/metadata/annotations");
    let suggested = annotations.and_then(|a| a.get(names::ANNOTATION_SUGGESTED_NAMESPACE)?.as_str());
    suggested.filter(|name| is_label(name)).unwrap_or(package).to_owned()
}

/// Whether an untrusted text is valid in the name of an object, with room for the prefix `bundle-run-`.
fn is_label(name: &str) -> bool {
    name.len() <= 52 && is_dns_label(name)
}

/// The target namespaces of `--install-mode`; an empty list means all.
fn targets(bundle: &Bundle, mode: Option<&Mode>, namespace: &str) -> Result<Option<Vec<String>>, Failure> {
    let Some(mode) = mode else { return Ok(None) };
    let targets = match mode {
        Mode::All => Vec::new(),
        Mode::Own => vec![namespace.to_owned()],
        Mode::Others(namespaces) => namespaces.clone(),
    };
    let modes = bundle.install_modes();
    modes.check(namespace, &targets).map_err(|wanted| {
        let text = format!("bundle {} cannot watch {wanted}: it supports {modes}", bundle.name());
        Failure::new(Code::Refused, text).hint("choose another --install-mode")
    })?;
    Ok(Some(targets))
}

async fn ensure_namespace(client: &Client, name: &str) -> Result<(), Failure> {
    let api = Api::<Namespace>::all(client.clone());
    if api.get_opt(name).await?.is_some() {
        return Ok(());
    }
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
    eprintln!("created Namespace {name}");
    Ok(())
}

/// Creates the OperatorGroup of the namespace, or checks that the existing one has the requested targets.
async fn ensure_group(client: &Client, namespace: &str, mut targets: Vec<String>) -> Result<(), Failure> {
    let api = Api::<OperatorGroup>::namespaced(client.clone(), namespace);
    let groups = api.list(&ListParams::default()).await?.items;
    targets.sort();
    match groups.as_slice() {
        [] => {
            let spec = OperatorGroupSpec { target_namespaces: targets, ..OperatorGroupSpec::default() };
            let mut group = OperatorGroup::new("bundle-run", spec);
            group.metadata.namespace = Some(namespace.to_owned());
            api.create(&PostParams::default(), &group).await?;
            eprintln!("created OperatorGroup bundle-run");
            Ok(())
        }
        [group] => {
            let mut there = group.spec.target_namespaces.clone();
            there.sort();
            if group.spec.selector.is_none() && there == targets {
                return Ok(());
            }
            let name = group.metadata.name.as_deref().unwrap_or_default();
            let text = format!("OperatorGroup {name} of namespace {namespace} does not match --install-mode");
            Err(Failure::new(Code::Refused, text)
                .hint("omit --install-mode, or choose another namespace with -n"))
        }
        several => {
            let text = format!("namespace {namespace} has {} OperatorGroups, expected one", several.len());
            Err(Failure::new(Code::Refused, text)
                .hint("delete all but one, or choose another namespace with -n"))
        }
    }
}

async fn apply<K>(api: &Api<K>, name: &str, object: &K) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let params = PatchParams::apply(names::FIELD_MANAGER_CLI).force();
    api.patch(name, &params, &Patch::Apply(object)).await?;
    Ok(())
}

/// Makes the Subscription the owner of the catalog, so that `olm uninstall` removes both.
async fn owned(
    client: &Client,
    maps: &Api<ConfigMap>,
    sources: &Api<CatalogSource>,
    namespace: &str,
    subscription: &str,
    catalog: &str,
) -> Result<(), Failure> {
    let subscription = Api::<Subscription>::namespaced(client.clone(), namespace).get(subscription).await?;
    let Some(owner) = subscription.owner_ref(&()) else { return Ok(()) };
    let patch = Patch::Merge(serde_json::json!({"metadata": {"ownerReferences": [owner]}}));
    let params =
        PatchParams { field_manager: Some(names::FIELD_MANAGER_CLI.into()), ..PatchParams::default() };
    maps.patch(catalog, &params, &patch).await?;
    sources.patch(catalog, &params, &patch).await?;
    Ok(())
}

/// Waits until the manager serves exactly this bundle.
async fn served(
    client: &Client,
    sources: &Api<CatalogSource>,
    wanted: &CatalogRef,
    package: &str,
    bundle: &Bundle,
    until: Instant,
) -> Result<Vec<LoadedCatalog>, Failure> {
    let fetcher = Fetcher::service_proxy(client.clone());
    loop {
        let catalogs = match fetcher.fetch().await {
            Ok(catalogs) => catalogs,
            Err(error) => return Err(catalogs::unreachable(client, &error).await),
        };
        let catalog = catalogs.iter().find(|catalog| catalog.reference == *wanted);
        let head =
            catalog.and_then(|c| c.catalog.summary(package)?.head.as_ref()).map(|head| head.name.as_str());
        if head == Some(bundle.name()) {
            return Ok(catalogs);
        }
        if Instant::now() > until {
            let status =
                sources.get_opt(&wanted.name).await?.and_then(|source| source.status).unwrap_or_default();
            let message = status.message.unwrap_or_else(|| "no status message".to_owned());
            let text = format!(
                "timed out waiting for CatalogSource {}/{}: {message}",
                wanted.namespace, wanted.name
            );
            return Err(Failure::new(Code::Timeout, text).hint("run the command again to continue waiting"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_are_not_taken_from_strangers_unseen() {
        assert!(is_label("etcd") && is_label("a-1"));
        for bad in ["", "../x", "Etcd", "-a", "a-", &"a".repeat(53)] {
            assert!(!is_label(bad), "{bad}");
        }
    }
}
