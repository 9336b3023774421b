//! Annotations of manifests with case-sensitive names.

use serde_json::Value;

use super::Findings;
use super::finding::PartFindings;
use crate::model::{Bundle, kind};
use crate::provenance::Origin;

/// Annotations that upstream and olm read; with another case they have no effect.
const EXACT: [&str; 5] = [
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.targetNamespaces",
    "olm.providedAPIs",
    "olm.skipRange",
];

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    names(&bundle.csv_raw, &mut findings.of(Origin::Csv));
}

/// OperatorGroups are not part of a bundle, but real bundles contain them.
pub(super) fn check_operator_groups(bundle: &Bundle, findings: &mut Findings) {
    for (index, object) in bundle.objects.iter().enumerate() {
        if kind(object) == "OperatorGroup" {
            names(object, &mut findings.of(Origin::Object(index)));
        }
    }
}

fn names(object: &Value, findings: &mut PartFindings<'_>) {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    for key in annotations.into_iter().flat_map(|map| map.keys()) {
        let field = format!("metadata.annotations[{key}]");
        if let Some(exact) = EXACT.iter().find(|exact| key.eq_ignore_ascii_case(exact) && key != *exact) {
            findings.error("csv-annotation-case", field, "it has no effect", format!("write {exact}"));
        } else if key == "olm.properties" {
            findings.warn(
                "csv-annotation-properties",
                field,
                "properties in an annotation are easily overlooked",
                "move them to metadata/properties.yaml",
            );
        }
    }
}
