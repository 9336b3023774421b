//! Reads the facts of a cluster that the checks use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        coordination::v1::Lease,
        discovery::v1::EndpointSlice,
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::{GroupVersionKind, NamespaceResourceScope},
};
use olm_api::{
    CatalogSource, ClusterServiceVersion, InstallPlan, InstallPolicy, OperatorGroup, Subscription,
};
use olm_engine::{
    ownership::{Owned, orphans},
    resources::short,
    site::{MANAGER, manager_namespace},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    objects::{self, Compared},
    operands::{self, Operand},
    pods::{self, Unavailable},
};
use crate::{
    Error, OtherOlm, find_other_olm,
    manifests::installation::{self, Installation},
};

/// The installed manager.
#[derive(Debug, Clone)]
pub(super) struct Manager {
    pub(super) namespace: String,
    pub(super) version: Option<String>,
    pub(super) deployment: Option<Deployment>,
    pub(super) lease: Option<Lease>,
    /// The Lease is unreadable.
    pub(super) lease_unseen: bool,
    pub(super) role: Option<ClusterRole>,
}

/// Why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAccess {
    /// The API server does not answer; the cause.
    Unreachable(String),
    /// The API server does not authenticate the caller, which differs from a missing permission.
    CredentialsRefused,
}

impl NoAccess {
    /// `None` for an error that concerns a single request.
    fn of(error: &kube::Error) -> Option<Self> {
        matches!(error, kube::Error::Api(status) if status.code == 401).then_some(Self::CredentialsRefused)
    }
}

/// The facts that were read; unreadable ones are listed in `not_seen` and count as absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) no_access: Option<NoAccess>,
    pub(super) kubernetes: Option<String>,
    pub(super) other_olm: Option<OtherOlm>,
    /// The CRDs of olm by name; `None` is missing.
    pub(super) crds: BTreeMap<String, Option<CustomResourceDefinition>>,
    /// `None` when it is not on the cluster, or Deployments may not be listed.
    pub(super) manager: Option<Manager>,
    pub(super) manager_unseen: bool,
    pub(super) catalogs: Vec<CatalogSource>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) plans: Vec<InstallPlan>,
    pub(super) csvs: Vec<ClusterServiceVersion>,
    pub(super) groups: Vec<OperatorGroup>,
    pub(super) policies: Vec<InstallPolicy>,
    /// Webhook configurations of operators.
    pub(super) webhooks: Vec<Value>,
    pub(super) api_services: Vec<Value>,
    /// Services that webhooks name, and whether they have a ready endpoint.
    pub(super) answers: BTreeMap<(String, String), bool>,
    pub(super) orphans: Vec<Owned>,
    /// Deployments of operators and of `olm` whose pods are not all available.
    pub(super) unavailable: Vec<Unavailable>,
    /// Custom resources of operators that report a problem.
    pub(super) operands: Vec<Operand>,
    pub(super) operands_read: usize,
    /// Objects of the installation.
    pub(super) installation: Vec<Compared>,
    /// Plurals of the kinds of the API that could not be listed: their absence proves nothing.
    pub(super) unlisted: BTreeSet<String>,
    /// What was not checked, and why.
    pub(super) not_seen: Vec<String>,
}

impl Facts {
    pub(super) fn count(&self) -> usize {
        self.crds.len()
            + self.catalogs.len()
            + self.subscriptions.len()
            + self.plans.len()
            + self.csvs.len()
            + self.groups.len()
            + self.policies.len()
            + self.webhooks.len()
            + self.api_services.len()
            + self.operands_read
            + self.installation.len()
    }

    /// Whether all objects of a kind of the API were listed.
    pub(super) fn listed(&self, plural: &str) -> bool {
        !self.unlisted.contains(plural)
    }

    pub(super) async fn read(client: &Client, namespace: Option<&str>) -> Self {
        let mut facts = Self::default();
        match client.apiserver_version().await {
            Ok(info) => facts.kubernetes = Some(info.git_version),
            Err(error) if is_forbidden(&error) => {
                facts.not_seen.push("the version of Kubernetes: forbidden".to_owned());
            }
            Err(error) => {
                let unreachable = || NoAccess::Unreachable(short(&error));
                facts.no_access = Some(NoAccess::of(&error).unwrap_or_else(unreachable));
                return facts;
            }
        }
        facts.kinds(client).await;
        // Some proxies serve the version to everyone.
        if facts.no_access.is_some() {
            return facts;
        }
        facts.manager(client).await;
        facts.other_olm = match find_other_olm(client).await {
            Ok(other_olm) => other_olm,
            Err(Error::Forbidden { .. }) => facts.unseen("Deployments of another OLM: forbidden".to_owned()),
            Err(error) => facts.unseen(error.to_string()),
        };
        let seen = tokio::join!(
            list(client, namespace),
            list(client, namespace),
            list(client, namespace),
            list(client, namespace),
            list(client, namespace),
            all(Api::<InstallPolicy>::all(client.clone()), "InstallPolicies".to_owned()),
        );
        facts.catalogs = facts.items(seen.0);
        facts.subscriptions = facts.items(seen.1);
        facts.plans = facts.items(seen.2);
        facts.csvs = facts.items(seen.3);
        facts.groups = facts.items(seen.4);
        facts.policies = facts.items(seen.5);
        let home = facts.manager.as_ref().map(|manager| manager.namespace.clone());
        let ((unavailable, pods_unread), operands) = tokio::join!(
            pods::read(client, namespace, home.as_deref()),
            operands::read(client, &facts.csvs, &facts.groups),
        );
        facts.unavailable = unavailable;
        (facts.operands, facts.operands_read) = (operands.operands, operands.count);
        facts.not_seen.extend(pods_unread.into_iter().chain(operands.unread));
        facts.serving(client).await;
        facts.orphans = match orphans(client).await {
            Ok(orphans) => orphans,
            Err(error) => facts.unseen(format!("objects without an owner: {}", cause(&error))),
        };
        facts.not_seen.sort();
        facts.not_seen.dedup();
        facts
    }

    fn unseen<T: Default>(&mut self, why: String) -> T {
        self.not_seen.push(why);
        T::default()
    }

    fn seen<T: Default>(&mut self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|why| self.unseen(why))
    }

    fn items<K: Resource<DynamicType = ()>>(&mut self, result: Result<Vec<K>, String>) -> Vec<K> {
        result.unwrap_or_else(|why| {
            self.unlisted.insert(K::plural(&()).into_owned());
            self.unseen(why)
        })
    }

    async fn kinds(&mut self, client: &Client) {
        let api = Api::<CustomResourceDefinition>::all(client.clone());
        for ours in olm_api::crds() {
            let name = ours.name_any();
            match api.get_opt(&name).await {
                Ok(found) => drop(self.crds.insert(name, found)),
                Err(error) if is_forbidden(&error) => {
                    return self.unseen("CustomResourceDefinitions of olm: forbidden".to_owned());
                }
                Err(error) => match NoAccess::of(&error) {
                    Some(no_access) => return self.no_access = Some(no_access),
                    None => self.not_seen.push(format!("CustomResourceDefinition {name}: {}", short(&error))),
                },
            }
        }
    }

    async fn manager(&mut self, client: &Client) {
        let found = match installation::find(client).await {
            Ok(found) => found,
            Err(error) => {
                self.manager_unseen = true;
                let cause = if error.is_forbidden() { "forbidden".to_owned() } else { error.to_string() };
                self.unseen(format!("the manager's Deployment in all namespaces: {cause}"))
            }
        };
        let Some(found) = found else {
            // Installed by other means, or manually; or the caller has rights in this namespace alone.
            let api = Api::<Deployment>::namespaced(client.clone(), manager_namespace());
            if let Ok(Some(deployment)) = api.get_opt(MANAGER).await {
                self.manager = Some(self.parts(client, manager_namespace(), None, Some(deployment)).await);
            }
            return;
        };
        self.installation(client, &found).await;
        let api = Api::<Deployment>::namespaced(client.clone(), &found.namespace);
        let deployment = api
            .get_opt(MANAGER)
            .await
            .map_err(|error| format!("the manager's Deployment: {}", cause(&error)));
        let deployment = self.seen(deployment);
        self.manager = Some(self.parts(client, &found.namespace, found.version, deployment).await);
    }

    async fn installation(&mut self, client: &Client, found: &Installation) {
        let (compared, unread) = objects::read(client, found).await;
        self.installation = compared;
        self.not_seen.extend(unread);
    }

    async fn parts(
        &mut self,
        client: &Client,
        namespace: &str,
        version: Option<String>,
        deployment: Option<Deployment>,
    ) -> Manager {
        let lease = Api::<Lease>::namespaced(client.clone(), namespace).get_opt(MANAGER).await;
        let lease = lease.map_err(|error| format!("the manager's Lease: {}", cause(&error)));
        let role = Api::<ClusterRole>::all(client.clone()).get_opt(MANAGER).await;
        let role = role.map_err(|error| format!("the manager's ClusterRole: {}", cause(&error)));
        Manager {
            namespace: namespace.to_owned(),
            version,
            deployment,
            lease_unseen: lease.is_err(),
            lease: self.seen(lease),
            role: self.seen(role),
        }
    }

    async fn serving(&mut self, client: &Client) {
        let owned = ListParams::default().labels(olm_api::names::LABEL_OWNER);
        let (validating, mutating) = (
            Api::<ValidatingWebhookConfiguration>::all(client.clone()).list(&owned).await,
            Api::<MutatingWebhookConfiguration>::all(client.clone()).list(&owned).await,
        );
        let validating = validating
            .map(|list| list.items.iter().map(|w| typed("ValidatingWebhookConfiguration", w)).collect());
        let mutating = mutating
            .map(|list| list.items.iter().map(|w| typed("MutatingWebhookConfiguration", w)).collect());
        for list in [validating, mutating] {
            let list: Result<Vec<Value>, kube::Error> = list;
            let list = self.seen(list.map_err(|error| format!("webhook configurations: {}", cause(&error))));
            self.webhooks.extend(list);
        }
        let gvk = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "apiservices");
        let list =
            Api::<DynamicObject>::all_with(client.clone(), &resource).list(&ListParams::default()).await;
        self.api_services = match list {
            Ok(list) => list.items.iter().map(|object| json!(object)).collect(),
            // A cluster without aggregation.
            Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
            Err(error) => self.unseen(format!("APIServices: {}", cause(&error))),
        };
        let services: Vec<(String, String)> =
            self.webhooks.iter().flat_map(super::serving::services).collect();
        for (namespace, name) in services {
            let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
            match Api::<EndpointSlice>::namespaced(client.clone(), &namespace).list(&params).await {
                Ok(slices) => {
                    let mut endpoints =
                        slices.items.iter().flat_map(|slice| slice.endpoints.iter().flatten());
                    // Absent means ready.
                    let ready =
                        endpoints.any(|e| e.conditions.as_ref().is_none_or(|c| c.ready != Some(false)));
                    self.answers.insert((namespace, name), ready);
                }
                Err(error) => {
                    self.not_seen
                        .push(format!("EndpointSlices of Service {namespace}/{name}: {}", cause(&error)));
                }
            }
        }
    }
}

fn typed(kind: &str, object: &impl serde::Serialize) -> Value {
    let mut value = json!(object);
    value["kind"] = kind.into();
    value
}

async fn list<K>(client: &Client, namespace: Option<&str>) -> Result<Vec<K>, String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api = match namespace {
        Some(namespace) => Api::<K>::namespaced(client.clone(), namespace),
        None => Api::<K>::all(client.clone()),
    };
    all(api, format!("{}s {}", K::kind(&()), place(namespace))).await
}

/// All objects that a client may read, or why `what` is unreadable.
async fn all<K: Clone + Debug + DeserializeOwned>(api: Api<K>, what: String) -> Result<Vec<K>, String> {
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        // The kind is missing, which has its own code.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(format!("{what}: {}", cause(&error))),
    }
}

/// `in namespace x`, or `in all namespaces`.
pub(super) fn place(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "in all namespaces".to_owned(), |namespace| format!("in namespace {namespace}"))
}

/// Why a read failed, in short.
pub(super) fn cause(error: &kube::Error) -> String {
    if is_forbidden(error) { "forbidden".to_owned() } else { short(error) }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}
