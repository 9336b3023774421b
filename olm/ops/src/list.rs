use std::fmt::Debug;

use kube::{Api, Client, Resource, ResourceExt, api::ListParams, core::NamespaceResourceScope};
use olm_api::{
    ClusterServiceVersion, InstallPlan, OperatorGroup, Subscription, condition, csv::CsvPhase, names,
};
use olm_engine::{installed, targets};
use olm_plan::shell_word;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::Error,
    status::{Status, View},
};

/// One installed operator, or one that is being installed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    pub namespace: String,
    /// Name of the Subscription, otherwise of the ClusterServiceVersion.
    pub name: String,
    pub package: String,
    pub display_name: String,
    pub status: Status,
    /// The cause of the status; empty when healthy.
    pub reason: String,
    /// The version on the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Name of its ClusterServiceVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<String>,
    /// The version of the pending or current plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The newest available version, where no plan exists for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// The channel; absent is the default channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The catalog as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// `Automatic` or `Manual`.
    pub approval: String,
    /// The pending or current InstallPlan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Digest of the plan, to which an approval applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// Whether changes are paused; a rollback may still be pending.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// When the plan was made, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<String>,
    /// What to review before the pending plan is approved: new permissions of level HIGH, deleted objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// Namespaces that it watches; one empty string is all.
    pub watches: Vec<String>,
    /// Versions that the Subscription excludes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip_versions: Vec<String>,
    /// What the catalog reports as deprecated of the package, the channel and the installed version, with its
    /// messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deprecations: Vec<String>,
    /// When it was requested, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

impl Installed {
    /// Name and namespace as arguments of `olm` commands.
    pub(super) fn arguments(&self) -> String {
        arguments(&self.name, &self.namespace)
    }
}

/// Name and namespace as arguments of `olm` commands.
pub(super) fn arguments(name: &str, namespace: &str) -> String {
    format!("{} -n {namespace}", shell_word(name))
}

/// All operators of a namespace, or of all namespaces; worst first, then by namespace and name.
///
/// # Errors
/// [`Error::Forbidden`] when Subscriptions or ClusterServiceVersions may not be listed.
pub async fn list_installed(client: &Client, namespace: Option<&str>) -> Result<Vec<Installed>, Error> {
    let world = World::read(client, namespace).await?;
    let mut out: Vec<Installed> = world.views().into_iter().map(|view| world.describe(&view)).collect();
    out.sort_by(|a, b| (a.status, &a.namespace, &a.name).cmp(&(b.status, &b.namespace, &b.name)));
    Ok(out)
}

/// One installed operator by its package, its Subscription or its ClusterServiceVersion.
///
/// # Errors
/// [`Error::NotFound`] with the nearest names; [`Error::Refused`] when the name matches in several
/// namespaces.
pub async fn find_installed(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
) -> Result<Installed, Error> {
    let world = World::read(client, namespace).await?;
    world.find(target).map(|view| world.describe(&view))
}

/// The objects that these lists are derived from.
pub(super) struct World {
    pub(super) namespace: Option<String>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) csvs: Vec<ClusterServiceVersion>,
    pub(super) plans: Vec<InstallPlan>,
    pub(super) groups: Vec<OperatorGroup>,
}

impl World {
    pub(super) async fn read(client: &Client, namespace: Option<&str>) -> Result<Self, Error> {
        let (subscriptions, csvs, plans, groups) = tokio::try_join!(
            list(client, namespace),
            list(client, namespace),
            list(client, namespace),
            list(client, namespace)
        )?;
        Ok(Self { namespace: namespace.map(str::to_owned), subscriptions, csvs, plans, groups })
    }

    pub(super) fn views(&self) -> Vec<View> {
        let mut out: Vec<View> = self.subscriptions.iter().map(|s| self.view_of(s)).collect();
        let taken: Vec<String> =
            out.iter().flat_map(|v| [&v.csv, &v.old]).flatten().filter_map(ResourceExt::uid).collect();
        for csv in &self.csvs {
            let passing = matches!(csv.phase(), CsvPhase::Replacing | CsvPhase::Deleting);
            let copied = csv.labels().contains_key(names::LABEL_COPIED_FROM);
            if !passing && !copied && !csv.uid().is_some_and(|uid| taken.contains(&uid)) {
                out.push(View { csv: Some(csv.clone()), ..View::default() });
            }
        }
        out
    }

    pub(super) fn view_of(&self, subscription: &Subscription) -> View {
        let namespace = subscription.namespace();
        let csvs: Vec<ClusterServiceVersion> =
            self.csvs.iter().filter(|c| c.namespace() == namespace).cloned().collect();
        let csv = installed::installed(subscription, &csvs, |_| false);
        let csv = csv.or_else(|| installed::leaving(subscription, &csvs)).cloned();
        let old = csv
            .as_ref()
            .and_then(|c| c.spec.replaces.clone())
            .and_then(|name| csvs.iter().find(|c| c.name_any() == name).cloned());
        let uid = subscription.uid();
        let plan = self
            .plans
            .iter()
            .filter(|p| p.namespace() == namespace && p.metadata.deletion_timestamp.is_none())
            .filter(|p| p.owner_references().iter().any(|o| Some(&o.uid) == uid.as_ref()))
            .filter(|p| !p.is_over())
            .max_by_key(|p| p.spec.generation)
            .cloned();
        View { subscription: Some(subscription.clone()), csv, old, plan }
    }

    /// By package, Subscription or ClusterServiceVersion.
    pub(super) fn find(&self, target: &str) -> Result<View, Error> {
        let views = self.views();
        let hits: Vec<&View> =
            views.iter().filter(|view| names_of(view).iter().any(|n| n == target)).collect();
        match hits.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let mut known: Vec<String> = views.iter().flat_map(names_of).collect();
                known.sort();
                known.dedup();
                Err(Error::NotFound {
                    what: "operator",
                    name: target.to_owned(),
                    within: Some(match &self.namespace {
                        Some(namespace) => format!("namespace {namespace}"),
                        None => "any namespace".into(),
                    }),
                    nearest: olm_version::suggest(target, &known, 3),
                })
            }
            several => {
                let mut places: Vec<String> = several
                    .iter()
                    .map(|view| {
                        let described = self.describe(view);
                        format!("{}/{}", described.namespace, described.name)
                    })
                    .collect();
                places.sort();
                Err(Error::Refused {
                    code: "Ambiguous".into(),
                    text: format!("`{target}` is installed more than once: {}", places.join(", ")),
                    fix: Some("choose one with --namespace or by the Subscription's name".into()),
                })
            }
        }
    }

    pub(super) fn describe(&self, view: &View) -> Installed {
        let (status, reason) = view.status();
        let subscription = view.subscription.as_ref();
        let csv = view.csv.as_ref();
        let namespace = subscription
            .and_then(ResourceExt::namespace)
            .or_else(|| csv.and_then(ResourceExt::namespace))
            .unwrap_or_default();
        let mut groups = self.groups.iter().filter(|g| g.namespace().as_deref() == Some(&namespace));
        let created = subscription
            .and_then(|s| s.creation_timestamp())
            .or_else(|| csv.and_then(|c| c.creation_timestamp()));
        let plan = view.plan.as_ref();
        let from_csv = csv.and_then(olm_engine::package_of);
        Installed {
            name: subscription
                .map(ResourceExt::name_any)
                .or_else(|| csv.map(ResourceExt::name_any))
                .unwrap_or_default(),
            package: subscription.map(|s| s.spec.name.clone()).or(from_csv).unwrap_or_default(),
            display_name: csv
                .map(|c| c.spec.display_name.clone())
                .filter(|n| !n.is_empty())
                .unwrap_or_else(|| subscription.map(|s| s.spec.name.clone()).unwrap_or_default()),
            status,
            reason,
            version: csv.and_then(|c| c.spec.version.clone()),
            csv: csv.map(ResourceExt::name_any),
            next: plan
                .and_then(|p| p.spec.cluster_service_version_names.first().cloned())
                .filter(|name| csv.map(ResourceExt::name_any).as_ref() != Some(name))
                .map(|name| version_in(&name)),
            available: subscription.filter(|_| status == Status::UpdateAvailable).and_then(|s| {
                let newest = s.status.as_ref()?.current_csv.as_ref();
                newest
                    .filter(|name| csv.map(ResourceExt::name_any).as_ref() != Some(name))
                    .map(|name| version_in(name))
            }),
            channel: subscription.and_then(|s| s.spec.channel.clone()),
            catalog: subscription.map(|s| format!("{}/{}", s.spec.source_namespace, s.spec.source)),
            approval: subscription.map(|s| s.spec.install_plan_approval.to_string()).unwrap_or_default(),
            plan: plan.map(ResourceExt::name_any),
            plan_digest: plan.and_then(|p| p.spec.plan_digest.clone()),
            paused: subscription.is_some_and(|s| s.spec.paused),
            planned: plan.and_then(ResourceExt::creation_timestamp).map(|time| time.0.to_string()),
            review: plan.filter(|p| !p.spec.approved).and_then(to_review),
            watches: groups.next().map(targets::of_group).unwrap_or_default(),
            skip_versions: subscription.map(|s| s.spec.skip_versions.clone()).unwrap_or_default(),
            deprecations: subscription
                .map(|s| deprecations(s, csv.map(ResourceExt::name_any).as_deref()))
                .unwrap_or_default(),
            created: created.map(|time| time.0.to_string()),
            namespace,
        }
    }
}

fn names_of(view: &View) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(subscription) = &view.subscription {
        out.push(subscription.name_any());
        out.push(subscription.spec.name.clone());
    }
    if let Some(csv) = &view.csv {
        out.push(csv.name_any());
        out.extend(olm_engine::package_of(csv));
    }
    out
}

/// The deprecations of the Subscription's conditions. With a pending plan the version in them is the next one.
fn deprecations(subscription: &Subscription, csv: Option<&str>) -> Vec<String> {
    let subjects = [
        (names::CONDITION_PACKAGE_DEPRECATED, "olm.package/", "package"),
        (names::CONDITION_CHANNEL_DEPRECATED, "olm.channel/", "channel"),
        (names::CONDITION_BUNDLE_DEPRECATED, "olm.bundle/", "version"),
    ];
    let conditions = subscription.status.as_ref().map(|status| status.conditions.as_slice());
    let text = |(type_, schema, subject): (&str, &str, &str)| {
        let holds = condition::find(conditions.unwrap_or_default(), type_).filter(|c| c.is_true())?;
        let text = holds.message.as_deref()?;
        let text = text.strip_prefix(schema).unwrap_or(text);
        let of_installed = csv.is_some_and(|csv| text.strip_prefix(csv).is_some_and(|t| t.starts_with(':')));
        (type_ != names::CONDITION_BUNDLE_DEPRECATED || of_installed).then(|| format!("{subject} {text}"))
    };
    subjects.into_iter().filter_map(text).collect()
}

/// What to review before an approval of a plan. A plan of an earlier manager does not record it.
fn to_review(plan: &InstallPlan) -> Option<String> {
    let recorded = plan.annotations().get(names::ANNOTATION_PLAN_REVIEW);
    let unknown = "the plan does not record its risks";
    Some(recorded.map_or(unknown, String::as_str).to_owned()).filter(|points| !points.is_empty())
}

/// The version in a ClusterServiceVersion's name (`etcdoperator.v0.10.1`), or the name itself.
pub(super) fn version_in(name: &str) -> String {
    let version = name.split_once('.').map(|(_, version)| version.trim_start_matches('v'));
    match version {
        Some(version) if olm_version::parse_lenient(version).is_ok() => version.to_owned(),
        _ => name.to_owned(),
    }
}

pub(super) async fn list<K>(client: &Client, namespace: Option<&str>) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    list_selected(client, namespace, &ListParams::default()).await
}

/// The selected objects of a namespace, or of all.
pub(super) async fn list_selected<K>(
    client: &Client,
    namespace: Option<&str>,
    selected: &ListParams,
) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let (api, place) = match namespace {
        Some(namespace) => {
            (Api::<K>::namespaced(client.clone(), namespace), format!("in namespace {namespace}"))
        }
        None => (Api::<K>::all(client.clone()), "in all namespaces".to_owned()),
    };
    let list = api.list(selected).await.map_err(Error::list(format!("list {} {place}", K::plural(&()))))?;
    Ok(list.items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deprecations_are_those_of_what_is_installed() {
        let condition = |type_: &str, status: &str, message: &str| json!({ "type": type_, "status": status, "reason": "Deprecated", "message": message });
        let subscription: Subscription = serde_json::from_value(json!({
            "metadata": { "name": "a", "namespace": "ns" },
            "spec": { "name": "a", "source": "c", "sourceNamespace": "olm" },
            "status": { "conditions": [
                condition("Deprecated", "True", "olm.package/a: use b; olm.bundle/a.v1: it has a hole"),
                condition("PackageDeprecated", "True", "olm.package/a: use b"),
                condition("ChannelDeprecated", "False", "olm.channel/stable: use fast"),
                condition("BundleDeprecated", "True", "olm.bundle/a.v1: it has a hole"),
            ] },
        }))
        .unwrap();
        let of = |csv| deprecations(&subscription, csv);
        assert_eq!(of(Some("a.v1")), ["package a: use b", "version a.v1: it has a hole"]);
        // the condition is about the version of the pending plan
        assert_eq!(of(Some("a.v0")), ["package a: use b"]);
        assert_eq!(of(None), ["package a: use b"]);
    }
}
