//! Ownership of objects.

use olm_api::names;
use olm_bundle::crd_of_role;
use serde_json::Value;

use crate::input::PlanInput;

/// Owner of an object, relative to one package in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Ours,
    /// It is a component of the same package in another namespace, and possibly in this one too.
    Shared(String),
    Other(String),
    /// It has no known owner.
    None,
}

/// The owner of an object for a plan. Roles over the kinds of a CustomResourceDefinition belong to the
/// definition: they are the package's where the bundle contains it.
pub(crate) fn owner_in(input: &PlanInput<'_>, live: &Value) -> Owner {
    if let Some(crd) = crd_of_role(live) {
        let brings =
            input.bundle.crds().any(|own| own.pointer("/metadata/name") == Some(&Value::from(crd.as_str())));
        return if brings { Owner::Ours } else { Owner::Other(format!("CustomResourceDefinition {crd}")) };
    }
    owner_of(live, &input.resolved.chosen.package, input.namespace, &input.bundle_names())
}

/// Derives the owner from the labels and annotations of OLM, Helm and the API server.
pub(crate) fn owner_of(live: &Value, package: &str, namespace: &str, bundles: &[&str]) -> Owner {
    let labels = live.pointer("/metadata/labels").and_then(Value::as_object);
    let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let own = names::component_label(package, namespace);
    if label(&own).is_some() {
        return shared_with(live, package, namespace).map_or(Owner::Ours, Owner::Shared);
    }
    if let (Some(csv), Some("ClusterServiceVersion")) =
        (label(names::LABEL_OWNER), label(names::LABEL_OWNER_KIND))
    {
        let there = label(names::LABEL_OWNER_NAMESPACE).unwrap_or(namespace);
        if bundles.contains(&csv) && there == namespace {
            return Owner::Ours;
        }
        if label(&names::component_label(package, there)).is_some() {
            return Owner::Shared(there.to_owned());
        }
        return Owner::Other(format!("operator {csv} in namespace {there}"));
    }
    if let (Some(owner), Some(kind)) = (label(names::LABEL_OWNER), label(names::LABEL_OWNER_KIND))
        && kind != "ClusterServiceVersion"
    {
        let there = label(names::LABEL_OWNER_NAMESPACE).unwrap_or_default();
        return Owner::Other(format!("{kind} {owner} in namespace {there}"));
    }
    let components = labels.into_iter().flat_map(|l| l.keys());
    let mut components = components.filter_map(|key| key.strip_prefix(names::LABEL_COMPONENT_PREFIX));
    // package names rarely have dots, namespaces never: the last dot separates them
    if let Some((other, there)) = components.find_map(|c| c.rsplit_once('.')) {
        return if other == package {
            Owner::Shared(there.to_owned())
        } else {
            Owner::Other(format!("package {other} in namespace {there}"))
        };
    }
    let annotation = |key: &str| live.pointer("/metadata/annotations")?.get(key)?.as_str();
    if let Some(release) = annotation("meta.helm.sh/release-name") {
        let there = annotation("meta.helm.sh/release-namespace").unwrap_or_default();
        return Owner::Other(format!("Helm release {release} in namespace {there}"));
    }
    if label("app.kubernetes.io/managed-by") == Some("Helm") {
        return Owner::Other("Helm (label app.kubernetes.io/managed-by)".to_owned());
    }
    let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    for owner in owners.into_iter().flatten() {
        let (kind, name) =
            (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
        if kind == "ClusterServiceVersion" && bundles.contains(&name) {
            return Owner::Ours;
        }
        if owner["controller"] == true {
            return Owner::Other(format!("{kind} {name}"));
        }
    }
    Owner::None
}

/// Another namespace whose instance of the package uses the object too.
pub(crate) fn shared_with(live: &Value, package: &str, own: &str) -> Option<String> {
    let prefix = format!("{}{package}.", names::LABEL_COMPONENT_PREFIX);
    let labels = live.pointer("/metadata/labels")?.as_object()?;
    let others = labels.keys().filter_map(|key| key.strip_prefix(&prefix));
    // a package name may have dots, a namespace never has
    others.filter(|namespace| *namespace != own && !namespace.contains('.')).map(str::to_owned).next()
}
