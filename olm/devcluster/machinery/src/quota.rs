//! Usage of a ResourceQuota by objects.

use std::collections::{BTreeMap, BTreeSet};

use olm_kube_schema::quantity::Quantity;
use serde_json::Value;

/// Amounts by quota resource name, such as `pods` or `requests.cpu`.
pub type Amounts = BTreeMap<String, Quantity>;

/// Kinds that quotas also count under their plural alone.
const COUNTED: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// Node resources that quotas also accept without `requests.`.
const SHORT: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// An amount, if set.
fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn add(to: &mut Amounts, name: &str, amount: Quantity) {
    let sum = to.get(name).copied().unwrap_or_default().checked_add(amount);
    // A sum that overflows is larger than every limit.
    to.insert(name.to_owned(), sum.unwrap_or(Quantity::from_int(i64::MAX)));
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The quota resource name for the count of any kind.
fn count_name(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

/// The usage of an object.
#[must_use]
pub fn usage(group: &str, plural: &str, object: &Value) -> Amounts {
    let one = Quantity::from_int(1);
    let mut used = Amounts::from([(count_name(group, plural), one)]);
    if !group.is_empty() {
        return used;
    }
    let has_ended = plural == "pods" && matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    if COUNTED.contains(&plural) && !has_ended {
        used.insert(plural.to_owned(), one);
    }
    match plural {
        "pods" if !has_ended => pod(object, &mut used),
        "services" => service(object, &mut used),
        "persistentvolumeclaims" => claim(object, &mut used),
        _ => {}
    }
    used
}

/// The usage of a pod: the sum of all containers, or the largest of the init containers.
fn pod(object: &Value, used: &mut Amounts) {
    for key in ["requests", "limits"] {
        for (name, amount) in pod_amounts(object, key) {
            if key == "requests" && SHORT.contains(&name.as_str()) {
                used.insert(name.clone(), amount);
            }
            used.insert(format!("{key}.{name}"), amount);
        }
    }
}

/// The requests or limits of a whole pod.
pub(crate) fn pod_amounts(object: &Value, key: &str) -> Amounts {
    let of = |container: &Value| -> Amounts {
        let amounts = container.pointer(&format!("/resources/{key}")).and_then(Value::as_object);
        amounts
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), quantity(value)?)))
            .collect()
    };
    let mut sum = Amounts::new();
    for container in items(object, "/spec/containers") {
        of(container).iter().for_each(|(name, amount)| add(&mut sum, name, *amount));
    }
    // Sidecar init containers are added to the sum; other init containers run alone.
    let (mut sidecars, mut before) = (Amounts::new(), Amounts::new());
    for container in items(object, "/spec/initContainers") {
        let mut own = of(container);
        if text(container, "/restartPolicy") == "Always" {
            own.iter().for_each(|(name, amount)| {
                add(&mut sum, name, *amount);
                add(&mut sidecars, name, *amount);
            });
            own = sidecars.clone();
        } else {
            sidecars.iter().for_each(|(name, amount)| add(&mut own, name, *amount));
        }
        take_maximum(&mut before, &own);
    }
    take_maximum(&mut sum, &before);
    let overhead = object.pointer("/spec/overhead").and_then(Value::as_object);
    for (name, value) in overhead.into_iter().flatten() {
        if let Some(amount) = quantity(value).filter(|_| key == "requests" || sum.contains_key(name)) {
            add(&mut sum, name, amount);
        }
    }
    sum
}

fn take_maximum(to: &mut Amounts, by: &Amounts) {
    for (name, amount) in by {
        if to.get(name).is_none_or(|known| amount.compare(*known).is_gt()) {
            to.insert(name.clone(), *amount);
        }
    }
}

fn service(object: &Value, used: &mut Amounts) {
    let ports = i64::try_from(items(object, "/spec/ports").len()).unwrap_or(i64::MAX);
    let kind = text(object, "/spec/type");
    if kind == "LoadBalancer" {
        used.insert("services.loadbalancers".to_owned(), Quantity::from_int(1));
    }
    let allocates = object.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    if kind == "NodePort" || (kind == "LoadBalancer" && allocates) {
        used.insert("services.nodeports".to_owned(), Quantity::from_int(ports));
    }
}

fn claim(object: &Value, used: &mut Amounts) {
    const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
    let class = text(object, "/spec/storageClassName");
    if !class.is_empty() {
        used.insert(format!("{class}{OF_CLASS}persistentvolumeclaims"), Quantity::from_int(1));
    }
    if let Some(storage) = object.pointer("/spec/resources/requests/storage").and_then(quantity) {
        used.insert("requests.storage".to_owned(), storage);
        if !class.is_empty() {
            used.insert(format!("{class}{OF_CLASS}requests.storage"), storage);
        }
    }
}

/// The group and plural of the kind that uses the quota resource of that name.
#[must_use]
pub fn user_of(name: &str) -> (String, String) {
    let core = |plural: &str| (String::new(), plural.to_owned());
    if let Some(resource) = name.strip_prefix("count/") {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        return (group.to_owned(), plural.to_owned());
    }
    match name {
        name if COUNTED.contains(&name) => core(name),
        "services.loadbalancers" | "services.nodeports" => core("services"),
        name if name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/") => {
            core("persistentvolumeclaims")
        }
        _ => core("pods"),
    }
}

/// The limits of a quota.
#[must_use]
pub fn hard(quota: &Value) -> Amounts {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
    hard.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect()
}

/// Whether a quota applies to an object: scopes select pods only.
#[must_use]
pub fn covers(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let scopes: Vec<&str> = items(quota, "/spec/scopes").iter().filter_map(Value::as_str).collect();
    let selectors = items(quota, "/spec/scopeSelector/matchExpressions");
    if scopes.is_empty() && selectors.is_empty() {
        return true;
    }
    let is_pod = group.is_empty() && plural == "pods";
    is_pod
        && scopes.iter().all(|scope| in_scope(scope, "Exists", &[], object))
        && selectors.iter().all(|selector| {
            let operator = text(selector, "/operator");
            in_scope(text(selector, "/scopeName"), operator, items(selector, "/values"), object)
        })
}

fn in_scope(scope: &str, operator: &str, values: &[Value], pod: &Value) -> bool {
    let ends = pod.pointer("/spec/activeDeadlineSeconds").is_some_and(|seconds| !seconds.is_null());
    let best_effort = ["requests", "limits"].iter().all(|key| {
        let amounts = pod_amounts(pod, key);
        !["cpu", "memory"].iter().any(|name| amounts.get(*name).is_some_and(|amount| amount.sign() > 0))
    });
    let holds = match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = text(pod, "/spec/priorityClassName");
            return match operator {
                "In" => values.iter().any(|value| value == class),
                "NotIn" => !values.iter().any(|value| value == class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            };
        }
        _ => false,
    };
    if operator == "DoesNotExist" { !holds } else { holds }
}

/// Checks an object against a quota, with errors in Kubernetes' wording. `used` is the usage of all other
/// objects.
///
/// `old` is the object's previous version: only increased amounts are checked.
///
/// # Errors
/// The reason.
pub fn check(
    quota: &Value,
    group: &str,
    plural: &str,
    object: &Value,
    old: Option<&Value>,
    used: &Amounts,
) -> Result<(), String> {
    let name = text(quota, "/metadata/name");
    let hard = hard(quota);
    if group.is_empty() && plural == "pods" && old.is_none() {
        require_amounts(&hard, object).map_err(|what| format!("failed quota: {name}: {what}"))?;
    }
    let before = old.map(|old| usage(group, plural, old)).unwrap_or_default();
    let mut increase = Amounts::new();
    for (resource, amount) in usage(group, plural, object) {
        let more = amount.checked_sub(before.get(&resource).copied().unwrap_or_default());
        if hard.contains_key(&resource) {
            increase.insert(resource, more.unwrap_or(amount));
        }
    }
    if !increase.values().any(|amount| amount.sign() > 0) {
        return Ok(());
    }
    let total =
        |resource: &str, more: &Quantity| used.get(resource).copied().unwrap_or_default().checked_add(*more);
    let exceeded: Vec<&String> = increase
        .iter()
        .filter(|(resource, more)| {
            let limit = hard.get(*resource).copied().unwrap_or_default();
            total(resource, more).is_none_or(|total| total.compare(limit).is_gt())
        })
        .map(|(resource, _)| resource)
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let shown = |amounts: &Amounts| {
        let one = |resource: &&String| {
            format!("{resource}={}", amounts.get(*resource).copied().unwrap_or_default())
        };
        exceeded.iter().map(one).collect::<Vec<_>>().join(",")
    };
    Err(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        shown(&increase),
        shown(used),
        shown(&hard)
    ))
}

/// With a limit of cpu or memory, every container must set its amounts.
fn require_amounts(hard: &Amounts, pod: &Value) -> Result<(), String> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for resource in hard.keys() {
        let (key, name) = match resource.as_str() {
            "cpu" | "memory" => ("requests", resource.as_str()),
            "requests.cpu" | "limits.cpu" | "requests.memory" | "limits.memory" => {
                resource.split_once('.').unwrap_or_default()
            }
            _ => continue,
        };
        for container in items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers")) {
            let amount = container.pointer(&format!("/resources/{key}/{name}")).and_then(quantity);
            if amount.is_none() {
                missing.entry(resource).or_default().insert(text(container, "/name"));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let each = missing.iter().map(|(resource, names)| {
        format!("{resource} for: {}", names.iter().copied().collect::<Vec<_>>().join(","))
    });
    Err(format!("must specify {}", each.collect::<Vec<_>>().join("; ")))
}

/// The total usage of a quota by the objects of a kind.
#[must_use]
pub fn used<'a>(
    quota: &Value,
    group: &str,
    plural: &str,
    objects: impl IntoIterator<Item = &'a Value>,
) -> Amounts {
    let mut sum = Amounts::new();
    for object in objects.into_iter().filter(|object| covers(quota, group, plural, object)) {
        usage(group, plural, object).iter().for_each(|(name, amount)| add(&mut sum, name, *amount));
    }
    sum
}

#[cfg(test)]
mod tests;
