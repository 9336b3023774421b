//! The rights that an operation needs, which of them the caller holds, and who can grant the others.

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::Namespace,
    rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde::Serialize;

use crate::{error::Error, manifests::ADMIN_ROLE};

const GROUP: &str = "operators.coreos.com";

/// Maximum number of users and groups that are named.
const NAMED: usize = 3;

/// An operation of the command line and the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Install,
    /// An upgrade is the approval of its plan.
    Approve,
    /// A change of the Subscription: rollback, pause, channel, skipped versions.
    Configure,
    Uninstall,
}

/// One right that an operation needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    pub verb: String,
    /// Plural name with the API group, such as `subscriptions.operators.coreos.com`.
    pub resource: String,
    /// Absent for the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub allowed: bool,
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => f.write_str(" in the cluster"),
        }
    }
}

/// The rights that an operation needs in a namespace, each with the API server's answer for the caller.
///
/// # Errors
/// [`Error::Forbidden`] when the caller may not review their own access.
pub async fn rights(client: &Client, operation: Operation, namespace: &str) -> Result<Vec<Right>, Error> {
    let creates = operation == Operation::Install && lacks_namespace(client, namespace).await;
    let mut out = Vec::new();
    for (verb, plural, group, namespaced) in needed(operation, creates) {
        let namespace = namespaced.then(|| namespace.to_owned());
        let allowed = is_allowed(client, verb, group, plural, namespace.as_deref()).await?;
        out.push(Right {
            verb: verb.to_owned(),
            resource: if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") },
            namespace,
            allowed,
        });
    }
    Ok(out)
}

/// The API server's answer about one right of the caller.
pub(crate) async fn is_allowed(
    client: &Client,
    verb: &str,
    group: &str,
    plural: &str,
    namespace: Option<&str>,
) -> Result<bool, Error> {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(Error::kube(format!("review access to {plural}")))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Verb, resource, group, and whether the right is one in the operator's namespace.
fn needed(
    operation: Operation,
    creates_namespace: bool,
) -> Vec<(&'static str, &'static str, &'static str, bool)> {
    let mut out = Vec::new();
    if creates_namespace {
        out.push(("create", "namespaces", "", false));
    }
    out.push(("list", "subscriptions", GROUP, true));
    if operation != Operation::Install {
        // What the other operations read to find the operator.
        for plural in ["clusterserviceversions", "installplans", "operatorgroups"] {
            out.push(("list", plural, GROUP, true));
        }
    }
    match operation {
        Operation::Install => out.push(("create", "subscriptions", GROUP, true)),
        Operation::Approve => out.push(("patch", "installplans", GROUP, true)),
        Operation::Configure => out.push(("patch", "subscriptions", GROUP, true)),
        Operation::Uninstall => {
            for plural in ["subscriptions", "clusterserviceversions"] {
                out.push(("delete", plural, GROUP, true));
            }
        }
    }
    out
}

/// Whether the namespace does not exist; one that the caller may not read counts as existing.
async fn lacks_namespace(client: &Client, namespace: &str) -> bool {
    matches!(Api::<Namespace>::all(client.clone()).get_opt(namespace).await, Ok(None))
}

/// Users and groups who administer a namespace or the cluster, as far as the caller may read the bindings.
pub async fn administrators(client: &Client, namespace: &str) -> Vec<String> {
    let everything = ListParams::default();
    let local = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    let global = Api::<ClusterRoleBinding>::all(client.clone());
    let (local, global) = tokio::join!(local.list(&everything), global.list(&everything));
    let local = local.into_iter().flatten().map(|binding| (binding.role_ref, binding.subjects));
    let global = global.into_iter().flatten().map(|binding| (binding.role_ref, binding.subjects));
    among(local.chain(global))
}

/// The users and groups of bindings to administrators' roles, without ServiceAccounts and the system's groups.
fn among(bindings: impl Iterator<Item = (RoleRef, Option<Vec<Subject>>)>) -> Vec<String> {
    let roles = ["admin", "cluster-admin", ADMIN_ROLE];
    let mut out = Vec::new();
    for (role, subjects) in bindings.filter(|(role, _)| roles.contains(&role.name.as_str())) {
        for subject in subjects.unwrap_or_default() {
            let person = matches!(subject.kind.as_str(), "User" | "Group");
            let name = format!("{} {}", subject.kind.to_lowercase(), subject.name);
            if person
                && role.kind == "ClusterRole"
                && !subject.name.starts_with("system:")
                && !out.contains(&name)
            {
                out.push(name);
            }
        }
    }
    out.truncate(NAMED);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_is_created_only_where_it_is_missing() {
        let verbs = |operation, creates| -> Vec<String> {
            let rights = needed(operation, creates).into_iter();
            rights.map(|(verb, plural, ..)| format!("{verb} {plural}")).collect()
        };
        assert_eq!(
            verbs(Operation::Install, true),
            ["create namespaces", "list subscriptions", "create subscriptions"]
        );
        assert_eq!(verbs(Operation::Install, false), ["list subscriptions", "create subscriptions"]);
        assert_eq!(verbs(Operation::Approve, false).last().map(String::as_str), Some("patch installplans"));
        assert_eq!(
            verbs(Operation::Configure, false).last().map(String::as_str),
            Some("patch subscriptions")
        );
    }

    #[test]
    fn people_who_administer_the_namespace_are_named() {
        let binding = |role: &str, kind: &str, name: &str| -> (RoleRef, Option<Vec<Subject>>) {
            let role =
                json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
            let subject = json!([{ "kind": kind, "name": name, "namespace": "x" }]);
            (serde_json::from_value(role).unwrap(), serde_json::from_value(subject).unwrap())
        };
        let bindings = [
            binding("edit", "User", "bob"),
            binding("admin", "User", "ada"),
            binding("cluster-admin", "Group", "system:masters"),
            binding("cluster-admin", "ServiceAccount", "robot"),
            binding("olm-admin", "Group", "platform"),
            binding("admin", "User", "ada"),
        ];
        assert_eq!(among(bindings.into_iter()), ["user ada", "group platform"]);
    }
}
