//! `pods/NAME/eviction`: a deletion subject to PodDisruptionBudgets.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};

use super::{
    body::decode,
    call::Call,
    commit::storage_error,
    delete,
    meta::{self, list, text},
    selector::Selector,
    status::{ApiError, ApiResult, json_response},
    store::{Key, WriteError},
    webhooks,
};

/// Storage key of budgets.
const BUDGETS: &str = "policy/poddisruptionbudgets";
/// Limit of evictions that no controller has processed; further ones are refused.
const MOST_DISRUPTED: usize = 2000;
/// Retry interval in seconds while a budget has no current status.
const LATER: u32 = 10;

/// POST.
pub(crate) async fn evict(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let mut eviction = decode(call.headers, bytes)?;
    meta::default(&mut eviction, "apiVersion", "policy/v1");
    meta::default(&mut eviction, "kind", "Eviction");
    let version = text(&eviction, "/apiVersion");
    if !matches!(version, "policy/v1" | "policy/v1beta1") || text(&eviction, "/kind") != "Eviction" {
        return Err(ApiError::bad_request(format!(
            "not a Eviction object: {version}, Kind={}",
            text(&eviction, "/kind")
        )));
    }
    if !matches!(meta::name(&eviction), name if name.is_empty() || name == call.info.name) {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let sent = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let dry_run = call.dry_run()? || list(&sent, "/dryRun").iter().any(|value| value == "All");
    webhooks::posted(call, "eviction", &mut eviction, dry_run).await?;
    let pod = call.current()?;
    // An unhealthy pod does not consume the budget, as long as it stays unhealthy.
    let (only_as_it_is, budget) = match permit(call, &pod, dry_run).await? {
        Permit::Given => (None, String::new()),
        Permit::AsItIs { budget } => (Some(meta::resource_version(&pod).to_owned()), budget),
    };
    let deleted = delete::evicted(call, &sent, dry_run, only_as_it_is.as_deref()).await;
    match deleted {
        Err(error) if error.code() == 409 && only_as_it_is.is_some() => Err(later(&budget)),
        Err(error) => Err(error),
        Ok(()) => Ok(json_response(
            201,
            &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }),
        )),
    }
}

enum Permit {
    Given,
    /// Allowed by this budget only for the unchanged pod.
    AsItIs {
        budget: String,
    },
}

fn too_many(cause: &str) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(429, "TooManyRequests", message)
        .details(json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] }))
}

fn later(budget: &str) -> ApiError {
    let cause = format!("The disruption budget {budget} is still being processed by the server.");
    too_many(&cause).retry_after(LATER)
}

fn is_ready(pod: &Value) -> bool {
    list(pod, "/status/conditions").iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Checks the budget of a pod, and consumes one disruption.
async fn permit(call: &Call<'_>, pod: &Arc<Value>, dry_run: bool) -> ApiResult<Permit> {
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending");
    if ended || meta::is_deleting(pod) {
        return Ok(Permit::Given);
    }
    let labels = pod.pointer("/metadata/labels");
    let covers = |budget: &Value| {
        let selector = budget.pointer("/spec/selector").filter(|selector| selector.is_object());
        selector.is_some_and(|selector| Selector::from_object(selector).matches_labels(labels))
    };
    loop {
        let all = call.server.store.list(BUDGETS, &call.info.namespace).items;
        let mut covering = all.into_iter().filter(|budget| covers(budget));
        let Some(budget) = covering.next() else { return Ok(Permit::Given) };
        if covering.next().is_some() {
            return Err(ApiError::new(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
        if !is_ready(pod) {
            let always = text(&budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
            let enough = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
            if always || enough {
                return Ok(Permit::AsItIs { budget: meta::name(&budget).to_owned() });
            }
        }
        let new = take_disruption(&budget, meta::name(pod))?;
        if dry_run {
            return Ok(Permit::Given);
        }
        let key = Key::new(BUDGETS, &call.info.namespace, meta::name(&budget));
        match call.server.store.write(&key, Some(&budget), Some(new)).await {
            Ok(_) => return Ok(Permit::Given),
            // A concurrent eviction or a status update: read again.
            Err(WriteError::Raced) => {}
            Err(error) => return Err(storage_error(&error)),
        }
    }
}

/// The budget with one disruption less; an error when none is left.
fn take_disruption(budget: &Value, pod: &str) -> ApiResult<Value> {
    let name = meta::name(budget);
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let generation = budget.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
    let refuse = |why: &str| Err(ApiError::forbidden("poddisruptionbudget", "policy", name, why));
    if number("observedGeneration") < generation {
        return Err(later(name));
    }
    if number("disruptionsAllowed") < 0 {
        return refuse("pdb disruptions allowed is negative");
    }
    let disrupted = budget["status"]["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
    if disrupted > MOST_DISRUPTED {
        return refuse("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if number("disruptionsAllowed") == 0 {
        let condition = list(budget, "/status/conditions").iter().find(|c| c["type"] == "DisruptionAllowed");
        let failed = condition.filter(|c| c["reason"] == "SyncFailed").map(|c| text(c, "/message"));
        let cause = match failed {
            Some(why) => format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
            ),
            None if number("currentHealthy") <= number("desiredHealthy") => format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            ),
            None => format!("The disruption budget {name} does not allow evicting pods currently"),
        };
        return Err(too_many(&cause));
    }
    let mut new = budget.clone();
    let left = number("disruptionsAllowed") - 1;
    let status = meta::child(&mut new, "status");
    status.insert("disruptionsAllowed".to_owned(), left.into());
    let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
    meta::as_map(disrupted).insert(pod.to_owned(), meta::now().into());
    if left == 0 {
        for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if condition["type"] == "DisruptionAllowed" {
                condition["status"] = "False".into();
                condition["reason"] = "InsufficientPods".into();
                condition["lastTransitionTime"] = meta::now().into();
            }
        }
    }
    Ok(new)
}
