//! The facts of a cluster that a plan needs besides its objects: rights, quota, webhooks, objects of changing
//! kinds.
//!
//! They are read as the plan needs them, one list per kind and all concurrently. What the caller may not read
//! is unknown and reported in the plan; it is never an error.

mod images;

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, future::OptionFuture, stream};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
    core::v1::ResourceQuota,
    discovery::v1::EndpointSlice,
    rbac::v1::{ClusterRole, Role, RoleBinding},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use olm_plan::{
    Access, ClusterFacts, CustomObjects, Fact, FactsNeeded, Identity, KindNeeded, Live, PlanInput, Principal,
    RoleName, Rule, kinds_needed, namespaces_to_review, roles_needed, services_needed,
};
use olm_resolver::Gvk;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    accounts,
    resources::{Resources, short},
    site::MANAGER,
    site::manager_namespace,
};

const READS: usize = 8;
/// Custom resources per page.
const PAGE: u32 = 500;
/// Maximum number of custom resources that are checked: more take too much memory and time; the plan reports
/// how many are left out.
const MOST_OBJECTS: usize = 5_000;
/// No namespace can have this name, so nothing is bound there: rights in it are those in the whole cluster.
const NOWHERE: &str = "no.namespace";

/// Whose client reads the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caller {
    /// The manager, which applies plans.
    #[default]
    Installer,
    /// A user who requests or previews a plan.
    User,
}

/// Facts that do not depend on the live objects, so that both are read concurrently.
pub(super) async fn read(resources: &Resources, caller: Caller, input: &PlanInput<'_>) -> ClusterFacts {
    let client = resources.client();
    let needed = FactsNeeded::of(input);
    let mut facts = input.facts.clone();
    if input.rendered.is_err() {
        return facts;
    }
    let namespace = input.namespace;
    let bindings = OptionFuture::from(needed.role_bindings.then(|| bindings(client, namespace)));
    let quotas = OptionFuture::from(needed.quotas.then(|| list_in::<ResourceQuota>(client, namespace)));
    let webhooks = OptionFuture::from(needed.webhooks.then(|| webhooks(client)));
    let (rights, bindings, quotas, webhooks, classes, images, apis) = tokio::join!(
        rights(client, caller, input),
        bindings,
        quotas,
        webhooks,
        classes(client, &needed.priority_classes),
        images::on_nodes(client, &needed.images),
        served(resources, &needed.apis),
    );
    (facts.installer, facts.user) = rights;
    (facts.role_bindings, facts.roles) = bindings.unwrap_or_default();
    facts.quotas = quotas.unwrap_or_default();
    facts.webhooks = webhooks.unwrap_or_default();
    facts.priority_classes = classes;
    facts.images_on_nodes = images;
    facts.apis.extend(apis);
    facts
}

/// Facts that only the live objects make relevant. Usually none.
pub(super) async fn complete(client: &Client, facts: &mut ClusterFacts, input: &PlanInput<'_>, live: &Live) {
    let services =
        facts.webhooks.known().map(|known| services_needed(input, live, known)).unwrap_or_default();
    let kinds = stream::iter(kinds_needed(input, live))
        .map(|kind| async move { (kind.crd.clone(), custom_objects(client, &kind).await) })
        .buffer_unordered(READS)
        .collect::<BTreeMap<_, _>>();
    let services = stream::iter(services)
        .map(|service| async move {
            let ready = answers(client, &service.0, &service.1).await;
            (service, ready)
        })
        .buffer_unordered(READS)
        .collect::<BTreeMap<_, _>>();
    let (kinds, services) = tokio::join!(kinds, services);
    facts.custom_objects = kinds;
    facts.ready_services = services;
}

/// The rights of the installer and of the caller.
async fn rights(
    client: &Client,
    caller: Caller,
    input: &PlanInput<'_>,
) -> (Fact<Principal>, Fact<Principal>) {
    let manager =
        Identity::ServiceAccount { namespace: manager_namespace().to_owned(), name: MANAGER.to_owned() };
    match caller {
        Caller::Installer => {
            let (who, client) = match accounts::installer(input.operator_groups, client).await {
                Ok(account) => account.unwrap_or_else(|| (manager, client.clone())),
                Err(error) => return (Fact::Unknown(error.to_string()), Fact::NotRead),
            };
            let access = own_rights(&client, input, None).await;
            (known(access, |access| Principal { who, access, exact: true }), Fact::NotRead)
        }
        Caller::User => {
            let roles = Api::<ClusterRole>::all(client.clone());
            let (own, installer) =
                tokio::join!(own_rights(client, input, Some(input.namespace)), roles.get_opt(MANAGER));
            let account = accounts::named(input.operator_groups);
            let installer = match (account, installer) {
                (Some(account), _) => Fact::Unknown(format!(
                    "the manager checks the permissions of {account} when it creates the plan"
                )),
                (None, Ok(Some(role))) => {
                    let rules = role.rules.unwrap_or_default();
                    let rules = rules.iter().map(|rule| Rule::of(&json!(rule))).collect();
                    let access = Access::unknown().with_cluster(rules);
                    Fact::Known(Principal { who: manager, access, exact: false })
                }
                // The manager's manifests are not on this cluster, so its user is unknown.
                (None, Ok(None)) => Fact::NotRead,
                (None, Err(error)) => unknown("get", &format!("ClusterRole {MANAGER}"), &error),
            };
            let user = known(own, |access| Principal { who: Identity::Caller, access, exact: true });
            (installer, user)
        }
    }
}

/// The caller's own rights: in the whole cluster, and in those namespaces where these do not suffice, or that
/// are requested.
async fn own_rights(client: &Client, input: &PlanInput<'_>, also: Option<&str>) -> Fact<Access> {
    let mut access = match rules(client, NOWHERE).await {
        Fact::Known(rules) => Access::unknown().with_cluster(rules),
        Fact::Unknown(why) => return Fact::Unknown(why),
        Fact::NotRead => return Fact::NotRead,
    };
    let mut namespaces = namespaces_to_review(input, &access);
    namespaces.extend(also.map(str::to_owned));
    let answers: Vec<(String, Fact<Vec<Rule>>)> = stream::iter(namespaces)
        .map(|namespace| async move {
            let rules = rules(client, &namespace).await;
            (namespace, rules)
        })
        .buffer_unordered(READS)
        .collect()
        .await;
    for (namespace, rules) in answers {
        if let Fact::Known(rules) = rules {
            access = access.with_namespace(&namespace, rules);
        }
    }
    Fact::Known(access)
}

/// The client's rules in a namespace as the API server reports them.
async fn rules(client: &Client, namespace: &str) -> Fact<Vec<Rule>> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let api = Api::<SelfSubjectRulesReview>::all(client.clone());
    let status = match api.create(&PostParams::default(), &review).await {
        Ok(answer) => answer.status.unwrap_or_default(),
        Err(error) => return unknown("create", "SelfSubjectRulesReview", &error),
    };
    // Authorisers other than RBAC may allow more than they list.
    if status.incomplete {
        let why = status.evaluation_error.filter(|text| !text.is_empty());
        let why = why.map_or(String::new(), |text| format!(": {text}"));
        return Fact::Unknown(format!("the API server does not list all permissions{why}"));
    }
    let resources = status.resource_rules.iter().map(|rule| Rule::of(&json!(rule)));
    let others = status.non_resource_rules.iter().map(|rule| Rule::of(&json!(rule)));
    Fact::Known(resources.chain(others).collect())
}

async fn bindings(client: &Client, namespace: &str) -> (Fact<Vec<Value>>, BTreeMap<RoleName, Fact<Value>>) {
    let bindings = list_in::<RoleBinding>(client, namespace).await;
    let names = bindings.known().map(|list| roles_needed(list)).unwrap_or_default();
    let read = |name: RoleName| async move {
        let role = if name.cluster {
            get(Api::<ClusterRole>::all(client.clone()), &name.name).await
        } else {
            get(Api::<Role>::namespaced(client.clone(), namespace), &name.name).await
        };
        // A binding to a role that does not exist grants nothing.
        (name, known(role, |role| role.unwrap_or(Value::Null)))
    };
    let roles = stream::iter(names).map(read).buffer_unordered(READS).collect().await;
    (bindings, roles)
}

async fn webhooks(client: &Client) -> Fact<Vec<Value>> {
    let (validating, mutating) = tokio::join!(
        list(Api::<ValidatingWebhookConfiguration>::all(client.clone()), String::new()),
        list(Api::<MutatingWebhookConfiguration>::all(client.clone()), String::new()),
    );
    match (validating, mutating) {
        (Fact::Known(mut all), Fact::Known(others)) => {
            all.extend(others);
            Fact::Known(all)
        }
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(why),
        _ => Fact::NotRead,
    }
}

async fn classes(client: &Client, names: &BTreeSet<String>) -> BTreeMap<String, Fact<bool>> {
    let exists = |name: String| async move {
        let found = get(Api::<PriorityClass>::all(client.clone()), &name).await;
        (name, known(found, |found| found.is_some()))
    };
    stream::iter(names.clone()).map(exists).buffer_unordered(READS).collect().await
}

/// The APIs that the cluster serves. One whose lookup fails counts as missing: that is a warning.
async fn served(resources: &Resources, apis: &[Gvk]) -> Vec<Gvk> {
    let serves = |gvk: &Gvk| {
        let (gvk, id) = (gvk.clone(), GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind));
        async move { resources.lookup(&id).await.is_ok().then_some(gvk) }
    };
    stream::iter(apis.iter().map(serves).collect::<Vec<_>>())
        .buffer_unordered(READS)
        .filter_map(|found| async move { found })
        .collect()
        .await
}

/// The objects of a kind, up to the limit.
async fn custom_objects(client: &Client, kind: &KindNeeded) -> Fact<CustomObjects> {
    let gvk = GroupVersionKind::gvk(&kind.gvk.group, &kind.gvk.version, &kind.gvk.kind);
    let api = Api::<DynamicObject>::all_with(
        client.clone(),
        &ApiResource::from_gvk_with_plural(&gvk, &kind.plural),
    );
    let mut objects = CustomObjects::default();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // The kind is gone, and with it all objects.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Fact::Known(objects),
            Err(error) => return unknown("list", &kind.crd, &error),
        };
        objects.items.extend(page.items.into_iter().map(|object| {
            let mut object = json!(object);
            // A list may omit the type of its items.
            object["apiVersion"] = gvk.api_version().into();
            object["kind"] = kind.gvk.kind.clone().into();
            object
        }));
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        match next {
            None => return Fact::Known(objects),
            Some(_) if objects.items.len() >= MOST_OBJECTS => {
                objects.more = true;
                return Fact::Known(objects);
            }
            Some(token) => params = params.continue_token(&token),
        }
    }
}

/// Whether a Service has a ready endpoint.
async fn answers(client: &Client, namespace: &str, name: &str) -> Fact<bool> {
    let api = Api::<EndpointSlice>::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    match api.list(&params).await {
        Ok(slices) => {
            let mut endpoints = slices.items.iter().flat_map(|slice| slice.endpoints.iter().flatten());
            // Absent means ready.
            Fact::Known(endpoints.any(|e| e.conditions.as_ref().is_none_or(|c| c.ready != Some(false))))
        }
        Err(error) => unknown("list", &format!("EndpointSlices in namespace {namespace}"), &error),
    }
}

async fn list_in<K>(client: &Client, namespace: &str) -> Fact<Vec<Value>>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    list(Api::<K>::namespaced(client.clone(), namespace), format!(" in namespace {namespace}")).await
}

async fn list<K>(api: Api<K>, place: String) -> Fact<Vec<Value>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    match api.list(&ListParams::default()).await {
        Ok(list) => Fact::Known(list.items.iter().map(typed::<K>).collect()),
        // A kind that is not served has no objects.
        Err(kube::Error::Api(status)) if status.is_not_found() => Fact::Known(Vec::new()),
        Err(error) => unknown("list", &format!("{}{place}", K::plural(&())), &error),
    }
}

async fn get<K>(api: Api<K>, name: &str) -> Fact<Option<Value>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    match api.get_opt(name).await {
        Ok(found) => Fact::Known(found.as_ref().map(typed::<K>)),
        Err(error) => unknown("get", &format!("{} {name}", K::kind(&())), &error),
    }
}

/// The object with its type, which items of lists do not have.
fn typed<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let mut value = json!(object);
    value["apiVersion"] = K::api_version(&()).as_ref().into();
    value["kind"] = K::kind(&()).as_ref().into();
    value
}

fn known<T, U>(fact: Fact<T>, map: impl FnOnce(T) -> U) -> Fact<U> {
    match fact {
        Fact::Known(value) => Fact::Known(map(value)),
        Fact::Unknown(why) => Fact::Unknown(why),
        Fact::NotRead => Fact::NotRead,
    }
}

fn unknown<T>(verb: &str, what: &str, error: &kube::Error) -> Fact<T> {
    let forbidden = matches!(error, kube::Error::Api(status) if status.is_forbidden());
    Fact::Unknown(if forbidden {
        format!("no permission to {verb} {what}")
    } else {
        format!("failed to {verb} {what}: {}", short(error))
    })
}

#[cfg(test)]
mod tests;
