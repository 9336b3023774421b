//! The rendering of real bundles, compared field by field with that of OLM v1. [`DIFFERENCES`] lists the
//! deliberate differences, each with its reason.
//!
//! The list is complete, because an unlisted difference fails the test, and exact, because an unneeded entry
//! fails it, too.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::{Bundle, InstallMode, RenderError, RenderOptions, crd_of_role, render};
use serde_json::Value;

/// Namespaces of the recording.
const INSTALL: &str = "install-ns";
const WATCH: &str = "watch-ns";

/// Deliberate differences and their reasons.
const DIFFERENCES: &[(&str, &str)] = &[
    // ---- bundles
    (
        "refused: rules",
        "a rule that no API server takes in a role (no verbs, no groups) is refused; v1 finds out when it applies it",
    ),
    (
        "v1 has no default",
        "v1 installs without a choice only what can watch all or its own namespace; we take any mode",
    ),
    (
        "removed CRD API",
        "CRDs of v1beta1 are refused, for no supported Kubernetes serves them; the test passes them off as current",
    ),
    // ---- objects
    ("roles for users", "ClusterRoles over the APIs of an operator, as OLM v0 makes them; v1 makes none"),
    (
        "account twice",
        "a ServiceAccount that the bundle brings is not made again; v1 has it twice, once bare",
    ),
    ("our certificates", "webhooks get a Secret and the right to read it from us, without another operator"),
    (
        "cert-manager",
        "Issuer, Certificate and the annotation for injection are for cert-manager, which v1 needs and we do not",
    ),
    (
        "names: webhooks",
        "our configurations have a hash of their namespace in the name, as v0's have random characters; v1's would overwrite each other",
    ),
    (
        "names: roles",
        "what is outside of the install namespace has that namespace in the hash of its name: two installations do not share their rights",
    ),
    // ---- fields
    ("labels", "`olm.managed` and `olm.owner*`, which v0 sets and tools read; v1 has none"),
    (
        "webhook labels",
        "`olm.webhook-description-*`, by which v0 and its tools find its configurations; v1 has none",
    ),
    (
        "olm.properties",
        "v1 writes a bundle's properties on its pods; v0 has them on the ClusterServiceVersion alone",
    ),
    ("webhook namespace", "v1 gives webhook configurations a namespace, though they live in none"),
    ("OPERATOR_CONDITION_NAME", "operators of v0 find their OperatorCondition by it; v1 has none"),
    (
        "olm.operatorNamespace",
        "an annotation of the pod template that v0 sets and operators read; v1 leaves it out",
    ),
    (
        "port protocol",
        "ours sets `TCP`; v1 leaves it to the default of the API server, so the field has no manager",
    ),
    (
        "zero in Go",
        "v1 passes what it generates through Go types, which write `creationTimestamp`, `status` and the like without content",
    ),
    ("dropped by Go", "and which leave out nulls, zeros, empty texts, lists and maps that mean nothing"),
    ("quantities", "Go rewrites quantities (`0.5` to `500m`), ours stay as the author wrote them"),
];

/// Number of occurrences of each.
#[derive(Default)]
struct Met {
    counts: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
}

impl Met {
    fn note(&mut self, name: &'static str) {
        assert!(DIFFERENCES.iter().any(|(known, _)| *known == name), "{name} is not on the list");
        *self.counts.entry(name).or_default() += 1;
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_webhook(object: &Value) -> bool {
    text(object, "/kind").ends_with("WebhookConfiguration")
}

/// `<base>-<hash>`: the base of a generated name of a role or binding, of either side.
fn generated(object: &Value) -> Option<&str> {
    let rbac = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"].contains(&text(object, "/kind"));
    let (base, hash) = text(object, "/metadata/name").rsplit_once('-')?;
    // 224 bits in base 36
    let is_hash =
        (40..=44).contains(&hash.len()) && hash.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase());
    (rbac && is_hash).then_some(base)
}

/// Objects by their identity on both sides. Generated names are ignored: a role is identified by its rules, a
/// binding by its role and subjects.
fn by_key<'a>(objects: impl Iterator<Item = &'a Value> + Clone) -> BTreeMap<String, &'a Value> {
    let place = |object: &Value| match is_webhook(object) {
        true => text(object, "/kind").to_owned(),
        false => format!("{} {}", text(object, "/kind"), text(object, "/metadata/namespace")),
    };
    let rights = |object: &Value| plain(&object["rules"]).to_string();
    let find = |kind: &str, namespace: &str, name: &str| {
        let same = |o: &&Value| {
            text(o, "/kind") == kind
                && text(o, "/metadata/name") == name
                && (kind == "ClusterRole" || text(o, "/metadata/namespace") == namespace)
        };
        objects.clone().find(same).map(rights)
    };
    let mut out = BTreeMap::new();
    for object in objects.clone() {
        let name = match generated(object).filter(|_| text(object, "/metadata/namespace") != INSTALL) {
            _ if is_webhook(object) => text(object, "/webhooks/0/name").to_owned(),
            None => text(object, "/metadata/name").to_owned(),
            Some(base) => {
                // The base is truncated where the hash needs the space.
                let base: String = base.chars().take(16).collect();
                match object.get("roleRef") {
                    None => format!("{base} {}", rights(object)),
                    Some(role) => format!(
                        "{base} {} {}",
                        text(object, "/subjects/0/name"),
                        find(text(role, "/kind"), text(object, "/metadata/namespace"), text(role, "/name"))
                            .unwrap_or_else(|| panic!("no role of {object}"))
                    ),
                }
            }
        };
        let before = out.insert(format!("{} {name}", place(object)), object);
        // Two accounts may have the same rights, each in a role of its own.
        assert!(before.is_none_or(|before| generated(before).is_some()), "twice: {object}");
    }
    out
}

/// Without empty values and sorted, for comparison as text.
fn plain(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    if let Value::Array(list) = &mut value {
        for item in list.iter_mut().filter_map(Value::as_object_mut) {
            item.retain(|_, value| !is_nothing(value));
        }
    }
    value
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
    }
}

/// The value of a quantity.
fn quantity(value: &Value) -> Option<f64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let at = text.find(|c: char| !(c.is_ascii_digit() || ".+-".contains(c))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let factor = match suffix {
        "" => 1.0,
        "m" => 0.001,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// One object on both sides.
struct Pair<'a> {
    object: &'a Value,
    met: &'a mut Met,
    place: String,
}

impl Pair<'_> {
    /// Descends to the differing fields. `path` has `/` between its parts, and no index of lists.
    fn compare(&mut self, path: &str, ours: Option<&Value>, theirs: Option<&Value>) {
        if ours == theirs {
            return;
        }
        match (ours, theirs) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                keys.into_iter()
                    .for_each(|key| self.compare(&format!("{path}/{key}"), a.get(key), b.get(key)));
            }
            // Labels and annotations are compared by name, even where one side has none at all.
            (Some(Value::Object(only)), None) if ends(path, &["labels", "annotations"]) => {
                only.iter().for_each(|(key, v)| self.compare(&format!("{path}/{key}"), Some(v), None));
            }
            (None, Some(Value::Object(only))) if ends(path, &["labels", "annotations"]) => {
                only.iter().for_each(|(key, v)| self.compare(&format!("{path}/{key}"), None, Some(v)));
            }
            (Some(Value::Array(a)), theirs) if ends(path, &["env"]) => {
                let is_ours = |item: &&Value| item["name"] == "OPERATOR_CONDITION_NAME";
                let rest: Vec<&Value> = a.iter().filter(|item| !is_ours(item)).collect();
                let b: Vec<&Value> = theirs.and_then(Value::as_array).into_iter().flatten().collect();
                if rest.len() + 1 == a.len() {
                    self.met.note("OPERATOR_CONDITION_NAME");
                }
                self.items(path, &rest, &b);
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                self.items(path, &a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>());
            }
            _ => match self.explain(path, ours, theirs) {
                Some(name) => self.met.note(name),
                None => self
                    .met
                    .unexplained
                    .push(format!("{} {path}\n  ours {ours:?}\n  v1   {theirs:?}", self.place)),
            },
        }
    }

    fn items(&mut self, path: &str, ours: &[&Value], theirs: &[&Value]) {
        if ours.len() != theirs.len() {
            self.met.unexplained.push(format!("{} {path}\n  ours {ours:?}\n  v1   {theirs:?}", self.place));
            return;
        }
        for (a, b) in ours.iter().zip(theirs) {
            self.compare(path, Some(a), Some(b));
        }
    }

    fn explain(&self, path: &str, ours: Option<&Value>, theirs: Option<&Value>) -> Option<&'static str> {
        let key = path.rsplit('/').next().unwrap_or_default();
        let template = "/spec/template/metadata/annotations/";
        match (ours, theirs) {
            (Some(_), None) if path.starts_with("/metadata/labels/olm.managed") => Some("labels"),
            (Some(_), None) if path.starts_with("/metadata/labels/olm.owner") => Some("labels"),
            (Some(_), None)
                if path.starts_with("/metadata/labels/olm.webhook-description-")
                    && is_webhook(self.object) =>
            {
                Some("webhook labels")
            }
            (None, Some(_)) if path == format!("{template}olm.properties") => Some("olm.properties"),
            (None, Some(_)) if path == "/metadata/annotations/cert-manager.io/inject-ca-from" => {
                Some("cert-manager")
            }
            (None, Some(_)) if path == "/metadata/namespace" && is_webhook(self.object) => {
                Some("webhook namespace")
            }
            (Some(_), Some(_)) if path == "/metadata/name" && is_webhook(self.object) => {
                Some("names: webhooks")
            }
            (Some(_), Some(_))
                if ["/metadata/name", "/roleRef/name"].contains(&path)
                    && generated(self.object).is_some() =>
            {
                Some("names: roles")
            }
            (Some(value), None) if path == "/spec/ports/protocol" && *value == "TCP" => Some("port protocol"),
            (Some(value), None)
                if path == format!("{template}olm.operatorNamespace") && *value == INSTALL =>
            {
                Some("olm.operatorNamespace")
            }
            (Some(ours), Some(theirs))
                if path.contains("/resources/limits/")
                    || path.contains("/resources/requests/")
                    || key == "sizeLimit" =>
            {
                let (ours, theirs) = (quantity(ours)?, quantity(theirs)?);
                ((ours - theirs).abs() <= ours.abs() * 1e-9).then_some("quantities")
            }
            (None, Some(theirs)) if is_nothing(theirs) => {
                ["creationTimestamp", "status", "strategy", "resources"]
                    .contains(&key)
                    .then_some("zero in Go")
            }
            (Some(ours), None) if is_nothing(ours) => meaningless(path, ours).then_some("dropped by Go"),
            _ => None,
        }
    }
}

fn ends(path: &str, keys: &[&str]) -> bool {
    keys.iter().any(|key| path.ends_with(&format!("/{key}")))
}

/// Whether an empty value is equivalent to none. An empty map can be significant (`emptyDir: {}`).
fn meaningless(path: &str, value: &Value) -> bool {
    !value.is_object()
        || ends(
            path,
            &[
                "labels",
                "annotations",
                "creationTimestamp",
                "status",
                "securityContext",
                "resources",
                "strategy",
            ],
        )
}

/// The target namespaces of a recorded line: those of its Deployments, or those that its mode implies.
fn targets(line: &Value, bundle: &Bundle) -> Vec<String> {
    let objects = line["objects"].as_array().into_iter().flatten();
    let annotated = objects.filter(|object| object["kind"] == "Deployment").find_map(|object| {
        object.pointer("/spec/template/metadata/annotations/olm.targetNamespaces").and_then(Value::as_str)
    });
    if let Some(annotated) = annotated {
        return vec![annotated.to_owned()];
    }
    let all = bundle.install_modes().supports(InstallMode::AllNamespaces);
    match line["mode"].as_str().unwrap() {
        "default" if all => vec![String::new()],
        "single" => vec![WATCH.to_owned()],
        _ => vec![INSTALL.to_owned()],
    }
}

/// Objects of only one side, with a known reason.
fn one_sided(object: &Value) -> Option<&'static str> {
    let kind = text(object, "/kind");
    let certificate = ["Secret", "Role", "RoleBinding"].contains(&kind)
        && text(object, "/metadata/name").ends_with("-service-cert");
    match kind {
        "Issuer" | "Certificate" => Some("cert-manager"),
        _ if certificate => Some("our certificates"),
        _ if crd_of_role(object).is_some() => Some("roles for users"),
        _ => None,
    }
}

fn compare(ours: &[Value], line: &Value, place: &str, met: &mut Met) {
    let theirs = line["objects"].as_array().unwrap();
    let crds: BTreeSet<&str> = ours
        .iter()
        .filter(|o| o["kind"] == "CustomResourceDefinition")
        .map(|o| text(o, "/metadata/name"))
        .collect();
    // For CRDs only a hash of Go's encoding is recorded, which proves their existence and no more.
    let recorded: BTreeSet<&str> =
        line["crd_sha256"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    if crds != recorded {
        met.unexplained.push(format!("{place}: CRDs {crds:?}, v1 {recorded:?}"));
    }
    let mut comparable = |objects: &'_ [Value]| -> Vec<Value> {
        let mut out = Vec::new();
        for object in objects.iter().filter(|o| o["kind"] != "CustomResourceDefinition") {
            match one_sided(object) {
                Some(name) => met.note(name),
                None => out.push(object.clone()),
            }
        }
        out
    };
    let (ours, mut theirs) = (comparable(ours), comparable(theirs));
    let bare =
        |o: &Value| o["kind"] == "ServiceAccount" && o["metadata"].as_object().is_some_and(|m| m.len() == 2);
    let same =
        |a: &Value, b: &Value| a["kind"] == b["kind"] && a["metadata"]["name"] == b["metadata"]["name"];
    for at in (0..theirs.len()).rev() {
        let again = bare(&theirs[at]) && theirs.iter().filter(|o| same(o, &theirs[at])).count() > 1;
        if again {
            theirs.remove(at);
            met.note("account twice");
        }
    }
    if ours.len() != theirs.len() {
        met.unexplained.push(format!("{place}: {} objects, v1 {}", ours.len(), theirs.len()));
    }
    let (ours, theirs) = (by_key(ours.iter()), by_key(theirs.iter()));
    let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for key in keys {
        match (ours.get(key), theirs.get(key)) {
            (Some(own), Some(their)) => {
                let mut pair = Pair { object: own, met, place: format!("{place}: {key}") };
                pair.compare("", Some(own), Some(their));
            }
            (own, _) => met
                .unexplained
                .push(format!("{place}: only {} {key}", if own.is_some() { "we have" } else { "v1 has" })),
        }
    }
}

#[test]
fn real_bundles_render_as_olm_v1_does_but_for_what_is_listed() {
    let (Some(recorded), Some(root)) =
        (common::data("recorded/olm-v1/dev.registryv1-render.jsonl"), common::data("bundles"))
    else {
        return;
    };
    let mut met = Met::default();
    let (mut compared, mut webhooks, mut refused) = (0, 0, 0);
    for line in common::json_lines(&recorded) {
        let dir = line["dir"].as_str().unwrap();
        let mut bundle = Bundle::from_dir(&root.join(dir)).unwrap();
        for object in bundle.objects.iter_mut().filter(|o| o["kind"] == "CustomResourceDefinition") {
            if object["apiVersion"] != "apiextensions.k8s.io/v1" {
                object["apiVersion"] = "apiextensions.k8s.io/v1".into();
                met.note("removed CRD API");
            }
        }
        let options = RenderOptions {
            install_namespace: INSTALL.into(),
            target_namespaces: targets(&line, &bundle),
            ..RenderOptions::default()
        };
        let place = format!("{dir} {} {:?}", line["mode"], options.target_namespaces);
        match (&render(&bundle, &options), line.get("err")) {
            (Err(RenderError::InstallMode { .. }), Some(_)) => refused += 1,
            (Err(RenderError::Invalid { field, .. }), _) if field.contains(".rules[") => {
                met.note("refused: rules")
            }
            (Ok(rendered), None) => {
                compared += 1;
                webhooks += usize::from(!rendered.endpoints.is_empty());
                let ours: Vec<Value> = rendered.objects().map(|(_, object)| object.clone()).collect();
                compare(&ours, &line, &place, &mut met);
            }
            (Ok(_), Some(_)) if line["mode"] == "default" => met.note("v1 has no default"),
            (result, err) => {
                met.unexplained.push(format!("{place}: we {:?}, v1 {err:?}", result.as_ref().err()))
            }
        }
    }
    println!("{compared} renderings compared, {webhooks} with webhooks; {refused} refused by both");
    for (name, reason) in DIFFERENCES {
        println!("{:>6} x {name}: {reason}", met.counts.get(name).copied().unwrap_or_default());
    }
    let shown = met.unexplained.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        met.unexplained.is_empty(),
        "{} differences that are not listed, the first:\n{shown}",
        met.unexplained.len()
    );
    let idle: Vec<_> = DIFFERENCES.iter().filter(|(name, _)| !met.counts.contains_key(name)).collect();
    assert!(idle.is_empty(), "listed, and not there: {idle:?}");
    assert!(compared > 350 && webhooks > 50, "{compared} {webhooks}");
}
