//! Installation of a package: the namespace on request, and a Subscription. The controllers do the rest.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
};
use olm_api::{OperatorGroup, Subscription, SubscriptionSpec, names, subscription::Approval};
use olm_engine::{
    catalogs::{CatalogVisibility, LoadedCatalog},
    site::manager_namespace,
};
use olm_plan::{Plan, shell_word};
use olm_resolver::{CatalogRef, VersionRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    error::Error,
    list::list,
    scoped_group,
    watch_scope::WatchScope,
    write::{field_manager, merged, patch_subscription},
};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallRequest {
    pub package: String,
    pub namespace: String,
    /// Name of the Subscription; the package's name when absent.
    pub name: Option<String>,
    /// The catalog; the first one that has the package when absent.
    pub catalog: Option<CatalogRef>,
    /// The channel; the package's default channel when absent.
    pub channel: Option<String>,
    /// A version or a range to stay in.
    pub version: Option<String>,
    /// The first version to install, by name of its ClusterServiceVersion.
    pub starting_csv: Option<String>,
    /// Whether plans wait for approval; as in the existing Subscription, else automatic, when absent.
    pub manual: Option<bool>,
    /// Whether to create the namespace.
    pub create_namespace: bool,
    /// Settings for the operator's Deployments (`Subscription.spec.config`).
    pub config: Option<Value>,
    /// The namespaces to watch; those of the OperatorGroup, or the default of the bundle, when absent.
    pub watch: Option<WatchScope>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallResult {
    pub namespace: String,
    pub subscription: String,
    pub package: String,
    /// Created objects, as `Kind name`.
    pub created: Vec<String>,
    /// Whether an object was created or changed; `false` when the request was satisfied already.
    pub changed: bool,
    /// The plan that the controllers will apply; its digest is the InstallPlan's.
    pub plan: Plan,
}

impl InstallRequest {
    /// A request with all defaults: newest version of the default channel, kept up to date.
    #[must_use]
    pub fn new(package: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self { package: package.into(), namespace: namespace.into(), ..Self::default() }
    }

    /// The Subscription of this request.
    #[must_use]
    pub fn subscription(&self, catalog: &CatalogRef) -> Subscription {
        let spec = SubscriptionSpec {
            name: self.package.clone(),
            source: catalog.name.clone(),
            source_namespace: catalog.namespace.clone(),
            channel: self.channel.clone(),
            starting_csv: self.starting_csv.clone(),
            install_plan_approval: match self.manual {
                Some(true) => Approval::Manual,
                Some(false) | None => Approval::Automatic,
            },
            config: self.config.clone(),
            version: self.version.clone(),
            ..SubscriptionSpec::default()
        };
        let mut subscription = Subscription::new(self.name.as_deref().unwrap_or(&self.package), spec);
        subscription.metadata.namespace = Some(self.namespace.clone());
        subscription
            .labels_mut()
            .insert(names::component_label(&self.package, &self.namespace), String::new());
        subscription
    }

    /// The catalog to install from: the requested one, else the best one that has the package and is visible
    /// from the namespace with its OperatorGroups.
    ///
    /// # Errors
    /// [`Error::NotFound`] with the nearest names.
    pub fn catalog_in(
        &self,
        catalogs: &[LoadedCatalog],
        groups: &[Arc<OperatorGroup>],
    ) -> Result<CatalogRef, Error> {
        let id = |c: &LoadedCatalog| format!("{}/{}", c.reference.namespace, c.reference.name);
        if let Some(wanted) = &self.catalog {
            let found = catalogs.iter().find(|c| c.reference == *wanted);
            let known: Vec<String> = catalogs.iter().map(id).collect();
            let wanted = format!("{}/{}", wanted.namespace, wanted.name);
            let nearest = olm_version::suggest(&wanted, &known, 3);
            return found.map(|c| c.reference.clone()).ok_or(Error::NotFound {
                what: "catalog",
                name: wanted,
                within: None,
                nearest,
            });
        }
        // Catalogs come best first. One that is not visible from the namespace is unusable; where only such a
        // catalog has the package, the later refusal names it.
        let with = |c: &&LoadedCatalog| c.catalog.summary(&self.package).is_some();
        let visibility = CatalogVisibility::of(&self.namespace, manager_namespace(), groups);
        let visible = |c: &&LoadedCatalog| visibility.reaches(&c.reference.namespace);
        let found = catalogs.iter().filter(visible).find(with).or_else(|| catalogs.iter().find(with));
        found.map(|c| c.reference.clone()).ok_or_else(|| {
            let mut known: Vec<String> =
                catalogs.iter().flat_map(|c| c.catalog.summaries().map(|s| s.name.clone())).collect();
            known.sort();
            known.dedup();
            let nearest = olm_version::suggest(&self.package, &known, 3);
            let names: Vec<String> = catalogs.iter().map(id).collect();
            let within = match names.as_slice() {
                [] => "any catalog (no catalog is served)".to_owned(),
                [one] => format!("catalog {one}"),
                many => format!("catalogs {}", many.join(", ")),
            };
            Error::NotFound { what: "package", name: self.package.clone(), within: Some(within), nearest }
        })
    }
}

/// Checks a version or a range, as [`InstallRequest::version`] takes it.
///
/// # Errors
/// What is wrong, with the nearest range.
pub fn check_version(text: &str) -> Result<(), String> {
    VersionRequest::parse(text).map(drop).map_err(|error| error.to_string())
}

/// Previews an install. A plan that a finding blocks is returned instead of refused, so that it can be shown.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Unresolvable`], [`Error::Forbidden`] and the like.
pub async fn preview_install(
    client: &Client,
    catalogs: &[LoadedCatalog],
    request: &InstallRequest,
) -> Result<Plan, Error> {
    let subscription = requested_subscription(client, catalogs, request).await?;
    scoped_group::preview_scoped(client, catalogs, &subscription, request.watch.as_ref()).await
}

/// Installs a package. A repeated request changes nothing.
///
/// # Errors
/// As [`preview_install`]; [`Error::Refused`] when a finding blocks the plan, when the namespace does not
/// exist, when the OperatorGroup or the bundle does not provide the requested scope, or when the package has a Subscription in the namespace with other settings.
pub async fn install(
    client: &Client,
    catalogs: &[LoadedCatalog],
    request: &InstallRequest,
) -> Result<InstallResult, Error> {
    let Requested { fields, result } = requested(client, catalogs, request).await?;
    let group = scoped_group::new_group(client, catalogs, &result, request.watch.as_ref()).await?;
    let plan = scoped_group::preview(client, catalogs, &result, group.as_ref()).await?;
    Error::refuse_blocked("install", &plan)?;
    let mut created = Vec::new();
    ensure_namespace(client, request, &mut created).await?;
    // Before the Subscription: a plan that finds no group creates one with the default targets.
    if let Some(group) = &group {
        scoped_group::create(client, group, &mut created).await?;
    }
    let name = fields.name_any();
    let changed = subscribe(client, &fields, &mut created).await?;
    Ok(InstallResult {
        namespace: request.namespace.clone(),
        subscription: name,
        package: request.package.clone(),
        changed: changed || !created.is_empty(),
        created,
        plan,
    })
}

/// A requested Subscription.
struct Requested {
    /// What the request names. It is created where the package has no Subscription.
    fields: Subscription,
    /// What results: an existing Subscription keeps the settings that the request does not name.
    result: Subscription,
}

/// The Subscription that results from a request: a new one, or the package's existing one, changed.
///
/// # Errors
/// [`Error::NotFound`] with the nearest names; [`Error::Refused`] when the package has a Subscription of
/// another name; [`Error::Forbidden`].
pub async fn requested_subscription(
    client: &Client,
    catalogs: &[LoadedCatalog],
    request: &InstallRequest,
) -> Result<Subscription, Error> {
    requested(client, catalogs, request).await.map(|requested| requested.result)
}

async fn requested(
    client: &Client,
    catalogs: &[LoadedCatalog],
    request: &InstallRequest,
) -> Result<Requested, Error> {
    let api = Api::<Subscription>::namespaced(client.clone(), &request.namespace);
    let list = api
        .list(&ListParams::default())
        .await
        .map_err(Error::kube(format!("list Subscriptions in namespace {}", request.namespace)))?;
    let existing = list.items.into_iter().find(|s| s.spec.name == request.package);
    let mut request = request.clone();
    if request.catalog.is_none()
        && let Some(existing) = &existing
    {
        request.catalog = Some(CatalogRef::new(&existing.spec.source_namespace, &existing.spec.source));
    }
    let groups = match request.catalog {
        // A requested catalog is used as it is.
        Some(_) => Vec::new(),
        None => groups(client, &request.namespace).await?,
    };
    let catalog = request.catalog_in(catalogs, &groups)?;
    if let Some(channel) = &request.channel {
        has_channel(catalogs, &catalog, &request.package, channel)?;
    } else {
        // The channel is stored, so that the installation keeps following it when the catalog's default
        // changes. A Subscription without a channel means all channels, as upstream, and is left unchanged.
        request.channel = match &existing {
            Some(existing) => existing.spec.channel.clone(),
            None => default_channel(catalogs, &catalog, &request.package),
        };
    }
    if let (None, Some(existing)) = (request.manual, &existing) {
        request.manual = Some(existing.spec.install_plan_approval == Approval::Manual);
    }
    let mut fields = request.subscription(&catalog);
    let Some(existing) = existing else { return Ok(Requested { result: fields.clone(), fields }) };
    if let Some(name) = request.name.as_ref().filter(|name| **name != existing.name_any()) {
        return Err(Error::Refused {
            code: "AlreadySubscribed".into(),
            text: format!(
                "package {} already has Subscription {} in namespace {}; a second Subscription {name} \
                    would conflict",
                request.package,
                existing.name_any(),
                request.namespace
            ),
            fix: Some("omit the name to change the existing Subscription".into()),
        });
    }
    fields.metadata.name.clone_from(&existing.metadata.name);
    let result = match patch_of(&existing, &fields) {
        Some(patch) => merged(&existing, &patch)?,
        None => existing,
    };
    Ok(Requested { fields, result })
}

/// The merge patch of a request: settings from other sources stay. `None` where the Subscription has the
/// requested ones. Pure.
fn patch_of(existing: &Subscription, fields: &Subscription) -> Option<Value> {
    let mut spec = serde_json::to_value(&fields.spec).unwrap_or_default();
    let before = serde_json::to_value(&existing.spec).unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|key, value| before.get(key) != Some(value));
        // Automatic is stored as absence.
        if existing.spec.install_plan_approval != fields.spec.install_plan_approval {
            let approval = fields.spec.install_plan_approval.as_str();
            spec.insert("installPlanApproval".into(), approval.into());
        }
    }
    // A user requests it by name: it is no longer only a dependency of others.
    let along = existing.annotations().contains_key(names::ANNOTATION_REQUIRED_BY);
    if !along && spec.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let mut patch = json!({ "spec": spec });
    if along {
        patch["metadata"] = json!({ "annotations": { names::ANNOTATION_REQUIRED_BY: null } });
    }
    Some(patch)
}

/// The OperatorGroups of a namespace, which may exclude catalogs. For a caller who may not list them no
/// catalog is excluded here; the plan of the manager uses the live groups and reports conflicts.
async fn groups(client: &Client, namespace: &str) -> Result<Vec<Arc<OperatorGroup>>, Error> {
    match list(client, Some(namespace)).await {
        Ok(groups) => Ok(groups.into_iter().map(Arc::new).collect()),
        Err(Error::Forbidden { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Rejects a channel that the package does not have, before any write; the error names the channels.
pub(super) fn has_channel(
    catalogs: &[LoadedCatalog],
    catalog: &CatalogRef,
    package: &str,
    channel: &str,
) -> Result<(), Error> {
    let found = catalogs.iter().find(|c| c.reference == *catalog).and_then(|c| c.catalog.summary(package));
    match found {
        Some(found) if !found.channels.iter().any(|known| known == channel) => {
            let known = &found.channels;
            let nearest = olm_version::suggest(channel, known, 3);
            let within = Some(format!("package {package}, which has {}", channels(known)));
            Err(Error::NotFound { what: "channel", name: channel.to_owned(), within, nearest })
        }
        _ => Ok(()),
    }
}

/// Maximum number of channels in an error.
const MOST_CHANNELS: usize = 12;

/// `channels a, b`.
fn channels(known: &[String]) -> String {
    let shown = known.iter().take(MOST_CHANNELS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match (known.len(), known.len().saturating_sub(MOST_CHANNELS)) {
        (1, _) => format!("channel {shown}"),
        (_, 0) => format!("channels {shown}"),
        (_, more) => format!("channels {shown} and {more} more"),
    }
}

fn default_channel(catalogs: &[LoadedCatalog], catalog: &CatalogRef, package: &str) -> Option<String> {
    let catalog = catalogs.iter().find(|c| c.reference == *catalog)?;
    catalog.catalog.summary(package).map(|p| p.default_channel.clone())
}

async fn ensure_namespace(
    client: &Client,
    request: &InstallRequest,
    created: &mut Vec<String>,
) -> Result<(), Error> {
    let name = &request.namespace;
    let api = Api::<Namespace>::all(client.clone());
    match api.get_opt(name).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => {}
        // A caller without the right to read namespaces may still have rights in this one.
        Err(kube::Error::Api(status)) if status.is_forbidden() && !request.create_namespace => return Ok(()),
        Err(error) => return Err(Error::kube(format!("get namespace {name}"))(error)),
    }
    if !request.create_namespace {
        return Err(Error::Refused {
            code: "NamespaceMissing".into(),
            text: format!("namespace {name} does not exist"),
            fix: Some(format!(
                "run `kubectl create namespace {}`, or omit --no-create-namespace",
                shell_word(name)
            )),
        });
    }
    let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
    match api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await {
        Ok(_) => created.push(format!("Namespace {name}")),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(Error::kube(format!("create namespace {name}"))(error)),
    }
    Ok(())
}

/// Creates the Subscription or updates the existing one; `true` when that was a change.
async fn subscribe(client: &Client, fields: &Subscription, created: &mut Vec<String>) -> Result<bool, Error> {
    let name = fields.name_any();
    let namespace = fields.namespace().unwrap_or_default();
    let api = Api::<Subscription>::namespaced(client.clone(), &namespace);
    let existing =
        api.get_opt(&name).await.map_err(Error::kube(format!("get Subscription {namespace}/{name}")))?;
    let Some(existing) = existing else {
        let params = PostParams { field_manager: Some(field_manager()), ..PostParams::default() };
        api.create(&params, fields)
            .await
            .map_err(Error::kube(format!("create Subscription {namespace}/{name}")))?;
        created.push(format!("Subscription {name}"));
        return Ok(true);
    };
    let Some(patch) = patch_of(&existing, fields) else { return Ok(false) };
    patch_subscription(client, &namespace, &name, &patch).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_request_keeps_the_settings_that_it_does_not_name() {
        let existing: Subscription = serde_json::from_value(json!({
            "metadata": { "name": "mine", "namespace": "ns", "uid": "u", "annotations": { "note": "n" } },
            "spec": {
                "name": "p", "source": "catalog", "sourceNamespace": "olm", "channel": "c",
                "installPlanApproval": "Manual", "version": "<2.0.0", "paused": true,
                "config": { "env": [{ "name": "A", "value": "1" }], "nodeSelector": { "zone": "a" } },
            },
            "status": { "installedCSV": "p.v1" },
        }))
        .unwrap();
        let fields = |change: fn(&mut InstallRequest)| {
            let mut request = InstallRequest { manual: Some(true), ..InstallRequest::new("p", "ns") };
            request.channel = Some("c".into());
            change(&mut request);
            request.subscription(&CatalogRef::new("olm", "catalog"))
        };
        // a request of what exists is no change
        assert_eq!(patch_of(&existing, &fields(|_| {})), None);
        // another one keeps the rest, and the preview is of what the API server stores
        let fields = fields(|request| {
            request.channel = Some("d".into());
            request.manual = Some(false);
            request.config = Some(json!({ "nodeSelector": { "zone": "b" } }));
        });
        let patch = patch_of(&existing, &fields).unwrap();
        let result = merged(&existing, &patch).unwrap();
        let mut expected = existing.clone();
        expected.spec.channel = Some("d".into());
        expected.spec.install_plan_approval = Approval::Automatic;
        expected.spec.config =
            Some(json!({ "env": [{ "name": "A", "value": "1" }], "nodeSelector": { "zone": "b" } }));
        assert_eq!(json!(result), json!(expected));
        // and it is no longer only a dependency
        let mut along = result;
        along.annotations_mut().insert(names::ANNOTATION_REQUIRED_BY.into(), "q".into());
        let patch = patch_of(&along, &fields).unwrap();
        assert!(!merged(&along, &patch).unwrap().annotations().contains_key(names::ANNOTATION_REQUIRED_BY));
    }

    #[test]
    fn a_catalog_of_another_namespace_is_not_chosen_where_one_that_can_be_used_has_the_package() {
        let catalog = |namespace: &str| {
            let text = "---\n{schema: olm.package, name: p, defaultChannel: c}\n---\n{schema: olm.channel, package: p, name: c, entries: [{name: p.v1}]}\n";
            let content = std::sync::Arc::new(olm_catalog::Catalog::from_bytes("test", text.as_bytes()));
            LoadedCatalog::new(CatalogRef::new(namespace, "catalog"), content)
        };
        let among = |catalogs: &[LoadedCatalog], groups: &[Arc<OperatorGroup>]| {
            InstallRequest::new("p", "mine")
                .catalog_in(catalogs, groups)
                .map(|catalog| catalog.namespace)
                .ok()
        };
        let chosen = |catalogs: &[LoadedCatalog]| among(catalogs, &[]);
        assert_eq!(
            chosen(&[catalog("theirs"), catalog(manager_namespace())]).as_deref(),
            Some(manager_namespace())
        );
        assert_eq!(chosen(&[catalog("theirs"), catalog("mine")]).as_deref(), Some("mine"));
        assert_eq!(chosen(&[catalog("theirs")]).as_deref(), Some("theirs"));
        assert_eq!(chosen(&[]), None);
        // a group may exclude the catalogs of the product's namespace
        let mut group = OperatorGroup::new("g", olm_api::OperatorGroupSpec::default());
        group.annotations_mut().insert(names::ANNOTATION_EXCLUDE_GLOBAL.into(), "true".into());
        let all = [catalog(manager_namespace()), catalog("mine")];
        assert_eq!(chosen(&all).as_deref(), Some(manager_namespace()));
        assert_eq!(among(&all, &[Arc::new(group)]).as_deref(), Some("mine"));
    }
}
