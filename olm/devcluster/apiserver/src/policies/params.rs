//! Parameter objects of bindings.

use std::sync::Arc;

use serde_json::Value;

use super::policy::Binding;
use crate::{
    convert, meta::text, resource::Resource, selector::Selector, store::Key,
    webhooks::request::AdmissionRequest,
};

/// The parameters of a binding for a request; a single null for a policy without parameters. An empty list
/// means that the policy does not apply.
///
/// # Errors
/// Missing parameters, in Kubernetes' wording.
pub(super) async fn collect(
    admission: &AdmissionRequest<'_>,
    kind: Option<&(String, String)>,
    binding: &Binding,
) -> Result<Vec<Arc<Value>>, String> {
    let (Some((api_version, kind)), Some(reference)) = (kind, &binding.param) else {
        return Ok(vec![Arc::default()]);
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let served = admission.server.registry.served();
    let is_kind = |r: &&Arc<Resource>| r.group == group && r.version == version && r.kind == *kind;
    let Some(resource) = served.resources.iter().find(is_kind) else {
        return Err(format!("paramKind kind `{api_version}, Kind={kind}` not known"));
    };
    let wanted = text(reference, "/namespace");
    let namespace = match (resource.namespaced, wanted) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") if admission.namespace.is_empty() => {
            let what =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(what.to_owned());
        }
        (true, "") => admission.namespace,
        (true, wanted) => wanted,
    };
    let store = &admission.server.store;
    let found: Vec<Arc<Value>> = match text(reference, "/name") {
        "" => {
            let selector = Selector::from_object(&reference["selector"]);
            let mut all = store.list(&resource.stored, namespace).items;
            all.retain(|param| selector.matches_labels(param.pointer("/metadata/labels")));
            all
        }
        name => store.get(&Key::new(&resource.stored, namespace, name)).into_iter().collect(),
    };
    if found.is_empty() && text(reference, "/parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let mut params = Vec::with_capacity(found.len());
    for param in found {
        let shown = convert::present(admission.server, resource, &param).await;
        params.push(shown.map_err(|error| error.message().to_owned())?);
    }
    Ok(params)
}

/// The namespace of a request for expressions; null for a cluster-scoped one.
pub(super) fn namespace_object(admission: &AdmissionRequest<'_>) -> Arc<Value> {
    if admission.namespace.is_empty() || admission.resource.is("", "namespaces") {
        return Arc::default();
    }
    admission.server.store.get(&Key::new("/namespaces", "", admission.namespace)).unwrap_or_default()
}
