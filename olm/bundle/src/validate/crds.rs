//! CustomResourceDefinitions: described ones, existing ones, and their content.
//!
//! The content is checked against the rules of the API server for both versions of the API, in
//! olm-kube-schema, CEL rules included, and against valid but unintended schemas.

mod practice;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use olm_version::parse_lenient;
use serde_json::Value;

use super::Findings;
use super::finding::quote;
use crate::model::{Bundle, name};
use crate::properties;
use crate::provenance::Origin;

/// Maximum number of versions in a fix.
const MOST_SHOWN: usize = 10;

const V1: &str = "apiextensions.k8s.io/v1";
const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let least = bundle.csv.spec.min_kube_version.as_deref().and_then(|text| parse_lenient(text).ok());
    for (index, crd) in bundle.objects.iter().enumerate() {
        if crate::model::kind(crd) != "CustomResourceDefinition" {
            continue;
        }
        let mut findings = findings.of(Origin::Object(index));
        let api = text(crd, "/apiVersion");
        match api {
            V1 => {}
            V1BETA1 => findings.warn(
                "crd-api-removed",
                "apiVersion",
                "Kubernetes 1.22 and later do not serve this version, so that it cannot be installed there",
                format!("write {V1}"),
            ),
            other => {
                let text = format!("{other:?} is not a version of this API");
                findings.error("crd-api-unknown", "apiVersion", text, format!("write {V1}"));
                continue;
            }
        }
        let crd = Crd { raw: crd, v1: api == V1 };
        rules::check(&crd, &mut findings);
        if let Some(least) = &least {
            rules::check_version(&crd, least, &mut findings);
        }
        practice::check(&crd, &mut findings);
    }
    repeated(bundle, findings);
    owned(bundle, findings);
}

struct Crd<'a> {
    raw: &'a Value,
    v1: bool,
}

impl<'a> Crd<'a> {
    fn text(&self, pointer: &str) -> &'a str {
        text(self.raw, pointer)
    }

    fn list(&self, pointer: &str) -> &'a [Value] {
        self.raw.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn get(&self, pointer: &str) -> Option<&'a Value> {
        self.raw.pointer(pointer).filter(|value| !value.is_null())
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Group, version and kind must be unique, even across files.
fn repeated(bundle: &Bundle, findings: &mut Findings) {
    let mut names = BTreeSet::new();
    let mut apis = BTreeSet::new();
    for (index, crd) in bundle.objects.iter().enumerate() {
        if crate::model::kind(crd) != "CustomResourceDefinition" {
            continue;
        }
        let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
        let versions: BTreeSet<&str> = properties::versions(crd).into_iter().collect();
        let twice =
            versions.into_iter().filter(|version| !apis.insert((group, *version, kind))).collect::<Vec<_>>();
        let mut findings = findings.of(Origin::Object(index));
        if !names.insert(name(crd)) {
            let text = "the bundle has it twice";
            findings.error("crd-duplicate", "metadata.name", text, "keep one with all versions");
        } else if !twice.is_empty() {
            let text = format!("another one has {kind} of {group} in {}", twice.join(", "));
            findings.error("crd-duplicate", "spec.versions", text, "keep one of the two");
        }
    }
}

/// An existing CustomResourceDefinition, compared with its description in the ClusterServiceVersion.
struct Present<'a> {
    kind: &'a str,
    /// Whether each version is served.
    versions: BTreeMap<&'a str, bool>,
}

impl<'a> Present<'a> {
    fn of(crd: &'a Value) -> Self {
        let listed = crd.pointer("/spec/versions").and_then(Value::as_array);
        let is_served = |entry: &Value| entry.get("served") != Some(&Value::Bool(false));
        let mut versions: BTreeMap<&str, bool> =
            listed.into_iter().flatten().map(|entry| (text(entry, "/name"), is_served(entry))).collect();
        // The old API's single spec.version is served.
        for version in properties::versions(crd) {
            versions.entry(version).or_insert(true);
        }
        versions.remove("");
        Self { kind: text(crd, "/spec/names/kind"), versions }
    }
}

fn owned(bundle: &Bundle, findings: &mut Findings) {
    let crds: BTreeMap<&str, Present<'_>> = bundle.crds().map(|crd| (name(crd), Present::of(crd))).collect();
    let owned = bundle.owned_crds();
    for (index, owned) in owned.iter().enumerate() {
        let mut findings = findings.of(Origin::Csv);
        let field = format!("spec.customresourcedefinitions.owned[{index}]");
        let Some(crd) = crds.get(owned.name.as_str()) else {
            if bundle.provenance.incomplete {
                continue;
            }
            let nearest = findings.near(&owned.name, crds.keys().copied());
            let fix = match nearest {
                Some(near) => format!("add it, or write {near}"),
                None => "add it to manifests/, or remove the entry".to_owned(),
            };
            let text = format!("{} is owned but not in the bundle", owned.name);
            findings.error("crd-missing", format!("{field}.name"), text, fix);
            continue;
        };
        if crd.kind != owned.kind {
            let text = format!(
                "kind is {} here and {} in the CustomResourceDefinition",
                quote(&owned.kind),
                quote(crd.kind)
            );
            findings.error("crd-kind-mismatch", format!("{field}.kind"), text, format!("write {}", crd.kind));
        }
        let field = format!("{field}.version");
        match crd.versions.get(owned.version.as_str()) {
            None => {
                let versions: Vec<&str> = crd.versions.keys().copied().take(MOST_SHOWN).collect();
                let text = format!("{} has no version {}", owned.name, quote(&owned.version));
                findings.error(
                    "crd-version-missing",
                    field,
                    text,
                    format!("write one of {}", versions.join(", ")),
                );
            }
            Some(false) => {
                let text = format!("version {} of {} is not served", owned.version, owned.name);
                findings.error("crd-version-not-served", field, text, "serve it, or own another one");
            }
            Some(true) => {}
        }
    }
    let listed: BTreeSet<&str> = owned.iter().map(|owned| owned.name.as_str()).collect();
    for (index, crd) in bundle.objects.iter().enumerate() {
        if crate::model::kind(crd) == "CustomResourceDefinition" && !listed.contains(name(crd)) {
            let text = "it is in the bundle but not among spec.customresourcedefinitions.owned";
            let fix = "list it there, or remove it";
            findings.of(Origin::Object(index)).error("crd-not-owned", "metadata.name", text, fix);
        }
    }
}
