//! Taking an operator away, the whole of it: nothing is left half-bound.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject},
    core::GroupVersionKind,
};
use olm_api::{ClusterServiceVersion, OperatorGroup, Subscription};
use olm_plan::OPERATOR_GROUP_NAME;
use serde::{Deserialize, Serialize};

use super::{
    error::Error,
    instances::{Instance, in_its_care, list_instances_of},
    list::World,
};

/// How long an object may take to go.
const GONE: Duration = Duration::from_secs(60);

/// What to do with custom resources of the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operands {
    /// Refuse to uninstall while there are any.
    #[default]
    Abort,
    /// Leave them, without an operator.
    Keep,
    /// Delete them first, while the operator can still clean up after them.
    Delete,
}

/// How far to go.
#[derive(Debug, Clone, Default)]
pub struct UninstallOptions {
    /// Custom resources of the operator.
    pub operands: Operands,
    /// Whether its CRDs go too, and with them every object of their kinds.
    pub delete_crds: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What an uninstall did, or with `dry_run` would do.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UninstallReport {
    /// Namespace of the operator.
    pub namespace: String,
    /// The package.
    pub package: String,
    /// What is gone, in order, as `Kind namespace/name`.
    pub removed: Vec<String>,
    /// What stays on purpose.
    pub kept: Vec<String>,
    /// The custom resources that were there.
    pub instances: Vec<Instance>,
}

/// Uninstalls an operator: its instances if asked for, its Subscription, its ClusterServiceVersion with all that
/// belongs to it, the OperatorGroup if a plan made it and nobody else needs it, and its CRDs if asked for.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Refused`] with code `OperandsExist` when instances stand in the way, or with
/// `StuckFinalizer` when an object does not go.
pub async fn uninstall(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<UninstallReport, Error> {
    let world = World::read(client, namespace).await?;
    let view = world.find(target)?;
    let installed = world.describe(&view);
    let namespace = installed.namespace.clone();
    let instances = match &view.csv {
        // Without its CRDs no object of its kinds is left anywhere.
        Some(csv) if options.delete_crds => list_instances_of(client, csv).await?,
        Some(csv) => in_its_care(list_instances_of(client, csv).await?, &installed),
        None => Vec::new(),
    };
    let mut report = UninstallReport {
        namespace: namespace.clone(),
        package: installed.package.clone(),
        instances: instances.clone(),
        ..UninstallReport::default()
    };
    refuse_over(&instances, options, &installed.package)?;

    let doing = Doing { client, dry_run: options.dry_run };
    if options.operands == Operands::Delete {
        for instance in &instances {
            doing.delete_instance(instance, &mut report).await?;
        }
    } else {
        report.kept.extend(instances.iter().map(describe));
    }
    if let Some(subscription) = &view.subscription {
        doing.delete::<Subscription>(&namespace, &subscription.name_any(), &mut report).await?;
    }
    // The version that is being replaced first: it would otherwise come back to life as the newest.
    for csv in [&view.old, &view.csv].into_iter().flatten() {
        doing.delete::<ClusterServiceVersion>(&namespace, &csv.name_any(), &mut report).await?;
    }
    if let Some(group) = generated_group(&world, &namespace, &view) {
        doing.delete::<OperatorGroup>(&namespace, &group, &mut report).await?;
    }
    for crd in view.csv.as_ref().map(|csv| csv.spec.owned_crds()).unwrap_or_default() {
        if options.delete_crds {
            doing.delete_crd(&crd.name, &mut report).await?;
        } else {
            report.kept.push(format!("CustomResourceDefinition {}", crd.name));
        }
    }
    Ok(report)
}

fn refuse_over(instances: &[Instance], options: &UninstallOptions, package: &str) -> Result<(), Error> {
    if instances.is_empty() || options.operands == Operands::Delete {
        return Ok(());
    }
    let list: Vec<String> = instances.iter().take(5).map(describe).collect();
    let more = if instances.len() > list.len() { ", ..." } else { "" };
    let list = format!("{}{more}", list.join(", "));
    if options.delete_crds {
        return Err(Error::Refused {
            code: "OperandsExist".into(),
            text: format!(
                "deleting the CRDs of {package} would delete {} instance(s): {list}",
                instances.len()
            ),
            fix: Some("delete the instances first, or say so with --instances delete".into()),
        });
    }
    if options.operands == Operands::Abort {
        return Err(Error::Refused {
            code: "OperandsExist".into(),
            text: format!("{package} still has {} instance(s): {list}", instances.len()),
            fix: Some(
                "--instances keep leaves them running unmanaged, --instances delete deletes them first"
                    .into(),
            ),
        });
    }
    Ok(())
}

/// The OperatorGroup that a plan made, when this was the last operator in the namespace.
fn generated_group(world: &World, namespace: &str, view: &super::status::View) -> Option<String> {
    let here = |ns: Option<String>| ns.as_deref() == Some(namespace);
    let ours: Vec<String> =
        [&view.old, &view.csv].into_iter().flatten().filter_map(ResourceExt::uid).collect();
    let subscription = view.subscription.as_ref().and_then(ResourceExt::uid);
    let others = world.subscriptions.iter().any(|s| here(s.namespace()) && s.uid() != subscription)
        || world.csvs.iter().any(|c| here(c.namespace()) && !c.uid().is_some_and(|uid| ours.contains(&uid)));
    let group = world.groups.iter().find(|g| here(g.namespace()) && g.name_any() == OPERATOR_GROUP_NAME)?;
    (!others).then(|| group.name_any())
}

fn describe(instance: &Instance) -> String {
    match &instance.namespace {
        Some(namespace) => format!("{} {namespace}/{}", instance.kind, instance.name),
        None => format!("{} {}", instance.kind, instance.name),
    }
}

struct Doing<'a> {
    client: &'a Client,
    dry_run: bool,
}

impl Doing<'_> {
    async fn delete<K>(&self, namespace: &str, name: &str, report: &mut UninstallReport) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let what = format!("{} {namespace}/{name}", K::kind(&()));
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        self.delete_and_wait(&api, name, &what, report).await
    }

    async fn delete_instance(&self, instance: &Instance, report: &mut UninstallReport) -> Result<(), Error> {
        let (group, version) =
            instance.api_version.split_once('/').unwrap_or(("", instance.api_version.as_str()));
        let gvk = GroupVersionKind::gvk(group, version, &instance.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &instance.plural);
        let api = match &instance.namespace {
            Some(namespace) => {
                Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource)
            }
            None => Api::all_with(self.client.clone(), &resource),
        };
        self.delete_and_wait(&api, &instance.name, &describe(instance), report).await
    }

    async fn delete_crd(&self, name: &str, report: &mut UninstallReport) -> Result<(), Error> {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        self.delete_and_wait(&api, name, &format!("CustomResourceDefinition {name}"), report).await
    }

    /// Deletes an object and waits until it is gone, finalizers included.
    async fn delete_and_wait<K>(
        &self,
        api: &Api<K>,
        name: &str,
        what: &str,
        report: &mut UninstallReport,
    ) -> Result<(), Error>
    where
        K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        if self.dry_run {
            report.removed.push(what.to_owned());
            return Ok(());
        }
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            Err(error) => return Err(Error::kube(format!("delete {what}"))(error)),
        }
        let deadline = tokio::time::Instant::now() + GONE;
        let mut pause = Duration::from_millis(20);
        loop {
            let Some(left) =
                api.get_opt(name).await.map_err(Error::kube(format!("wait for {what} to go")))?
            else {
                break;
            };
            if left.meta().deletion_timestamp.is_none() {
                // Somebody made it anew: a GitOps pipeline, perhaps.
                return Err(Error::Refused {
                    code: "Recreated".into(),
                    text: format!("{what} was deleted and somebody created it again"),
                    fix: Some("take it out of what creates it, then uninstall again".into()),
                });
            }
            if tokio::time::Instant::now() > deadline {
                let finalizers = left.meta().finalizers.clone().unwrap_or_default().join(", ");
                return Err(Error::Refused {
                    code: "StuckFinalizer".into(),
                    text: format!(
                        "{what} is not gone after {GONE:?}: it waits for finalizer(s) {finalizers}"
                    ),
                    fix: Some(
                        "see why the operator does not finish it: `kubectl describe` and its logs".into(),
                    ),
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        report.removed.push(what.to_owned());
        Ok(())
    }
}
