//! Lists that the API server merges by key.

use serde_json::Value;

/// Field, and the keys of its elements, from the structural types of Kubernetes
/// (`x-kubernetes-list-map-keys`).
const KEYED: &[(&str, &[&str])] = &[
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("imagePullSecrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("webhooks", &["name"]),
];

/// The keys of a container's `ports`; those of a Service differ.
const CONTAINER_PORT: &[&str] = &["containerPort", "protocol"];
const SERVICE_PORT: &[&str] = &["port", "protocol"];

/// Elements with their selector (`name=a`) in the order of the list; `None` for a list that is replaced as a
/// whole: of another kind, or with ambiguous elements.
pub(super) fn keyed<'a>(field: &str, list: &'a [Value]) -> Option<Vec<(String, &'a Value)>> {
    let keys = match KEYED.iter().find(|(name, _)| *name == field) {
        Some((_, keys)) => keys,
        None if field == "ports" && list.iter().all(|port| port.get("containerPort").is_some()) => {
            CONTAINER_PORT
        }
        None if field == "ports"
            && list.iter().all(|port| port.get("port").is_some_and(Value::is_number)) =>
        {
            SERVICE_PORT
        }
        None => return None,
    };
    let mut out: Vec<(String, &Value)> = Vec::with_capacity(list.len());
    for element in list {
        let parts: Option<Vec<String>> = keys.iter().map(|key| part(key, element)).collect();
        out.push((parts?.join(","), element));
    }
    let mut names: Vec<&str> = out.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    unique.then_some(out)
}

fn part(key: &str, element: &Value) -> Option<String> {
    let element = element.as_object()?;
    Some(match element.get(key) {
        Some(Value::String(text)) => format!("{key}={text}"),
        Some(Value::Number(number)) => format!("{key}={number}"),
        // the API server's default
        None if key == "protocol" => "protocol=TCP".to_owned(),
        _ => return None,
    })
}

/// A path segment, escaped as in a JSON pointer.
pub(super) fn escaped(key: &str) -> std::borrow::Cow<'_, str> {
    if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1").into() } else { key.into() }
}

/// Inverse of [`escaped`].
pub(super) fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
