//! `alm-examples`: the sample objects for forms.

use std::collections::BTreeSet;

use olm_constraint::Gvk;
use serde_json::Value;

use super::Findings;
use super::finding::quote;
use crate::model::Bundle;
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let provided = bundle.provided_gvks();
    let mut csv = findings.of(Origin::Csv);
    let (alm, old) = (bundle.csv_annotation("alm-examples"), bundle.csv_annotation("olm.examples"));
    if alm.is_some() && old.is_some() {
        let text = "alm-examples is set too and takes precedence";
        csv.warn("alm-examples-twice", "metadata.annotations[olm.examples]", text, "remove olm.examples");
    }
    let (key, text) = match (alm, old) {
        (None, Some(text)) => ("olm.examples", text),
        (alm, _) => ("alm-examples", alm.unwrap_or_default()),
    };
    let field = format!("metadata.annotations[{key}]");
    if text.trim().is_empty() {
        if !provided.is_empty() {
            let text = "there is no sample object; users start from an empty form";
            csv.warn("alm-examples-missing", field, text, "add a JSON list with one object for each API");
        }
        return;
    }
    let examples = match serde_json::from_str(text) {
        Ok(Value::Array(examples)) => examples,
        Ok(single @ Value::Object(_)) => vec![single],
        Ok(_) => {
            let text = "it is not a list of objects";
            return csv.error("alm-examples-invalid", field, text, "write a JSON list of objects");
        }
        Err(error) => {
            let text = format!("it is not JSON: {error} (lines count inside of the annotation)");
            return csv.error("alm-examples-invalid", field, text, "correct the JSON");
        }
    };
    // As upstream, the APIs owned by the ClusterServiceVersion count, and those that the bundle contains.
    let mut known: BTreeSet<Gvk> = provided.iter().cloned().collect();
    let owned: BTreeSet<Gvk> = bundle
        .owned_crds()
        .into_iter()
        .map(|crd| Gvk { group: crd.group, version: crd.version, kind: crd.kind })
        .chain(bundle.owned_api_services().iter().map(crate::properties::api_service))
        .collect();
    known.extend(owned.iter().cloned());
    let mut shown = BTreeSet::new();
    for (index, example) in examples.iter().enumerate() {
        let text = |key: &str| example.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = Gvk { group: group.into(), version: version.into(), kind: kind.into() };
        if known.contains(&gvk) {
            shown.insert((gvk.group, gvk.kind));
        } else {
            let number = index + 1;
            let text = format!(
                "example {number} is {} {}, which the operator does not provide",
                quote(api_version),
                quote(kind)
            );
            csv.error(
                "alm-examples-foreign",
                field.as_str(),
                text,
                "correct apiVersion and kind, or remove it",
            );
        }
    }
    let without: BTreeSet<&str> = owned
        .iter()
        .filter(|gvk| !shown.contains(&(gvk.group.clone(), gvk.kind.clone())))
        .map(|gvk| gvk.kind.as_str())
        .collect();
    if !without.is_empty() {
        let kinds = without.into_iter().collect::<Vec<_>>().join(", ");
        csv.warn(
            "alm-examples-incomplete",
            field,
            format!("there is no sample of {kinds}"),
            "add one for each",
        );
    }
}
