//! Access and token reviews, and token requests.

use std::sync::Arc;

use axum::response::Response;
use http::HeaderMap;
use olm_devcluster_machinery::field_error::FieldError;
use serde_json::{Value, json};

use super::{
    authn::{ISSUER, Identity, TokenSpec},
    authz::{self, Attributes},
    body::decode,
    builtin::Review,
    call::Call,
    meta,
    request::Info,
    state::Server,
    status::{ApiError, ApiResult, json_response},
    store::Key,
};

/// Serves a review.
pub(crate) async fn serve(
    server: &Arc<Server>,
    review: &Review,
    info: &Info,
    caller: &Identity,
    headers: &HeaderMap,
    bytes: &[u8],
) -> ApiResult<Response> {
    if info.verb != "create" || !info.name.is_empty() || review.namespaced == info.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let mut body = decode(headers, bytes)?;
    let kind = meta::text(&body, "/kind");
    if !kind.is_empty() && kind != review.kind {
        return Err(ApiError::bad_request(format!("expected a {}, got a {kind}", review.kind)));
    }
    let refuse = |path: &str, detail: &str| {
        Err(ApiError::invalid(review.group, review.kind, "", &[FieldError::required(path, detail)]))
    };
    let status = match review.kind {
        "SelfSubjectReview" => json!({ "userInfo": caller.to_user_info() }),
        "TokenReview" => match meta::text(&body, "/spec/token") {
            "" => return refuse("spec.token", ""),
            token => token_review(server, token, &body).await,
        },
        "SelfSubjectRulesReview" => match meta::text(&body, "/spec/namespace") {
            "" => return Err(ApiError::bad_request("no namespace on request")),
            namespace => rules_review(server, caller, namespace),
        },
        "SelfSubjectAccessReview" => access_review(server, caller, &body)?,
        _ => {
            let subject = subject_of(&body);
            if subject.user.is_empty() && subject.groups.is_empty() {
                return refuse("spec.user", "at least one of user or group must be specified");
            }
            if review.namespaced && meta::text(&body, "/spec/resourceAttributes/namespace") != info.namespace
            {
                let error = FieldError::invalid(
                    "spec.resourceAttributes.namespace",
                    meta::text(&body, "/spec/resourceAttributes/namespace"),
                    "must match metadata.namespace",
                );
                return Err(ApiError::invalid(review.group, review.kind, "", &[error]));
            }
            access_review(server, &subject, &body)?
        }
    };
    let map = meta::as_map(&mut body);
    map.insert("kind".to_owned(), review.kind.into());
    map.insert("apiVersion".to_owned(), format!("{}/v1", review.group).into());
    map.insert("status".to_owned(), status);
    map.entry("metadata").or_insert_with(|| json!({}));
    Ok(json_response(201, &body))
}

fn strings(value: &Value, pointer: &str) -> Vec<String> {
    meta::list(value, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn subject_of(body: &Value) -> Identity {
    Identity {
        user: meta::text(body, "/spec/user").to_owned(),
        groups: strings(body, "/spec/groups"),
        uid: meta::text(body, "/spec/uid").to_owned(),
        ..Identity::default()
    }
}

fn access_review(server: &Server, caller: &Identity, body: &Value) -> ApiResult<Value> {
    let at = |path: &str| meta::text(body, &format!("/spec{path}")).to_owned();
    let (resource, other) = (&body["spec"]["resourceAttributes"], &body["spec"]["nonResourceAttributes"]);
    let wanted = match (resource.is_object(), other.is_object()) {
        (true, false) => {
            let (resource, sub) = (at("/resourceAttributes/resource"), at("/resourceAttributes/subresource"));
            // An empty resource would be read as a request for a URL.
            let resource = if resource.is_empty() { "<none>".to_owned() } else { resource };
            Attributes {
                verb: at("/resourceAttributes/verb"),
                group: at("/resourceAttributes/group"),
                resource: if sub.is_empty() { resource } else { format!("{resource}/{sub}") },
                namespace: at("/resourceAttributes/namespace"),
                name: at("/resourceAttributes/name"),
                path: String::new(),
            }
        }
        (false, true) => Attributes {
            verb: at("/nonResourceAttributes/verb"),
            path: at("/nonResourceAttributes/path"),
            ..Attributes::default()
        },
        _ => {
            let error = FieldError::invalid(
                "spec.resourceAttributes",
                "",
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            );
            return Err(ApiError::invalid("authorization.k8s.io", "SubjectAccessReview", "", &[error]));
        }
    };
    Ok(json!({ "allowed": authz::allowed(&server.store, caller, &wanted) }))
}

fn rules_review(server: &Server, caller: &Identity, namespace: &str) -> Value {
    let rules = authz::rules_for(&server.store, caller, namespace);
    let pick = |keys: &[&str], present: &str| -> Vec<Value> {
        rules
            .iter()
            .filter(|r| !meta::list(r, &format!("/{present}")).is_empty())
            .map(|r| keys.iter().filter_map(|k| Some(((*k).to_owned(), r.get(*k)?.clone()))).collect())
            .collect()
    };
    json!({
        "resourceRules": pick(&["verbs", "apiGroups", "resources", "resourceNames"], "resources"),
        "nonResourceRules": pick(&["verbs", "nonResourceURLs"], "nonResourceURLs"),
        "incomplete": false,
    })
}

async fn token_review(server: &Server, token: &str, body: &Value) -> Value {
    let mut audiences = strings(body, "/spec/audiences");
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    match server.tokens.verify(&server.store, token, &audiences) {
        Some((identity, audiences)) => {
            json!({ "authenticated": true, "user": identity.to_user_info(), "audiences": audiences })
        }
        // Tokens of an external issuer are valid for this server only.
        None => match server.external_user(token).await.filter(|_| audiences.iter().any(|a| a == ISSUER)) {
            Some(identity) => {
                json!({ "authenticated": true, "user": identity.to_user_info(), "audiences": [ISSUER] })
            }
            None => json!({ "authenticated": false, "error": "[invalid bearer token]" }),
        },
    }
}

/// POST serviceaccounts/NAME/token.
pub(crate) fn token_request(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let mut body = decode(call.headers, bytes)?;
    let account = call.current()?;
    let (namespace, name) = (call.info.namespace.as_str(), call.info.name.as_str());
    let refuse = |error| Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", name, &[error]));
    let seconds = body.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    if seconds < 600 {
        return refuse(FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration less than 10 minutes",
        ));
    }
    if seconds > 1 << 32 {
        return refuse(FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    let mut audiences = strings(&body, "/spec/audiences");
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let reference = &body["spec"]["boundObjectRef"];
    let bound = if reference.is_object() {
        let (kind, bound) = (meta::text(reference, "/kind"), meta::text(reference, "/name").to_owned());
        let (kind, plural) = match kind {
            "Pod" => ("pod", "pods"),
            "Secret" => ("secret", "secrets"),
            other => {
                let detail = "must be Pod or Secret";
                return refuse(FieldError::invalid("spec.boundObjectRef.kind", other, detail));
            }
        };
        let object = call
            .server
            .store
            .get(&Key::new(&format!("/{plural}"), namespace, &bound))
            .ok_or_else(|| ApiError::not_found(plural, "", &bound))?;
        let wanted = meta::text(reference, "/uid");
        if !wanted.is_empty() && wanted != meta::uid(&object) {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict(plural, "", &bound, &why));
        }
        if kind == "pod" {
            let used = meta::text(&object, "/spec/serviceAccountName");
            if used != name {
                return refuse(FieldError::invalid(
                    "spec.boundObjectRef",
                    bound,
                    format!(
                        "cannot bind token for serviceaccount \"{name}\" to pod running with different serviceaccount name."
                    ),
                ));
            }
        }
        Some((kind, bound, meta::uid(&object).to_owned()))
    } else {
        None
    };
    let spec =
        TokenSpec { namespace, name, uid: meta::uid(&account), audiences: audiences.clone(), seconds, bound };
    let (token, expires) = call.server.tokens.issue(&spec)?;
    let expires = jiff::Timestamp::from_second(expires).map(meta::format_time).unwrap_or_default();
    let map = meta::as_map(&mut body);
    map.insert("kind".to_owned(), "TokenRequest".into());
    map.insert("apiVersion".to_owned(), "authentication.k8s.io/v1".into());
    map.insert(
        "metadata".to_owned(),
        json!({ "name": name, "namespace": namespace, "creationTimestamp": meta::now() }),
    );
    map.insert("status".to_owned(), json!({ "token": token, "expirationTimestamp": expires }));
    let spec = meta::child(&mut body, "spec");
    spec.insert("audiences".to_owned(), json!(audiences));
    spec.insert("expirationSeconds".to_owned(), seconds.into());
    Ok(json_response(201, &body))
}
