//! The definitions of OLM v1's tests of its upgrade check.

use std::path::PathBuf;

use serde_json::Value;

use super::{compare, short};

fn read(name: &str) -> Option<Value> {
    let root = std::env::var("OLM_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let dir = "upstream-testdata/operator-controller/internal/operator-controller/rukpak/preflights/crdupgradesafety";
    let file = PathBuf::from(root).join(dir).join(format!("testdata/manifests/{name}.json"));
    let text = std::fs::read_to_string(&file)
        .map_err(|error| println!("skipped: {name}: {}: {error}", file.display()))
        .ok()?;
    Some(serde_json::from_str(&text).expect("the file is JSON"))
}

/// Changes that OLM v1 refuses are breaking here (with the same code where it has one), and accepted ones are
/// not. Deviations have a comment with the reason.
#[test]
fn agrees_with_the_upgrade_check_of_olm_v1() {
    let cases: [(&str, &str, &[&str]); 13] = [
        (
            "old-crd",
            "crd-valid-upgrade",
            &["careful storage-version-changed - .spec.versions", "safe version-added - .spec.versions"],
        ),
        (
            "old-crd",
            "crd-invalid-upgrade",
            &[
                "breaking scope-changed - .spec.scope",
                "breaking stored-version-removed - .spec.versions",
                "breaking version-removed - .spec.versions",
                "breaking properties-narrowed v2 ",
                "breaking properties-narrowed v2 ",
                "breaking required-added v2 .requiredAdded",
                "breaking enum-value-removed v2 .spec.enum",
                "breaking items-narrowed v2 .spec.minMaxItems",
                "breaking items-narrowed v2 .spec.minMaxItems",
                "breaking length-narrowed v2 .spec.minMaxLength",
                "breaking length-narrowed v2 .spec.minMaxLength",
                "breaking minimum-raised v2 .spec.minMaxValue",
                "breaking maximum-lowered v2 .spec.minMaxValue",
                // Refused upstream; here a new default is not breaking.
                "careful default-added v2 .spec.defaultVal",
            ],
        ),
        (
            "old-crd",
            "crd-field-removed",
            &[
                "breaking property-removed v1 -> v2 .spec.removedField",
                "breaking type-changed v1 -> v3 .spec.enum",
                "breaking property-removed v1 -> v3 .spec.removedField",
                "breaking property-removed v2 .spec.removedField",
                "breaking type-changed v2 -> v3 .spec.enum",
                "careful storage-version-changed - .spec.versions",
                "safe version-added - .spec.versions",
            ],
        ),
        ("old-crd", "crd-description-changed", &[]),
        (
            "crd-conversion-webhook-old",
            "crd-conversion-webhook",
            &[
                "careful conversion-webhook-added - .spec.conversion.strategy",
                "safe version-added - .spec.versions",
            ],
        ),
        (
            "crd-conversion-webhook-old",
            "crd-conversion-no-webhook",
            &["breaking enum-value-removed v1 -> v2 .spec.foobarbaz", "safe version-added - .spec.versions"],
        ),
        ("crd-conversion-no-webhook", "crd-conversion-no-webhook", &[]),
        (
            "crd-conversion-no-webhook",
            "crd-conversion-no-webhook-extra-issue",
            &["breaking type-changed v1 -> v2 .spec.extraField"],
        ),
        ("crd-unhandled-old", "crd-unhandled-new", &["breaking format-changed v1alpha1 .spec.field"]),
        ("crd-optional-field-old", "crd-optional-field-new", &[]),
        (
            "crd-complex-breaking-changes-old",
            "crd-complex-breaking-changes-new",
            &["breaking logic-added v1beta1 .spec.ingress.gateway.servers[].tls"],
        ),
        (
            "crd-oneof-safe-addition-old",
            "crd-oneof-safe-addition-new",
            &["breaking logic-added v1 .spec.tls"],
        ),
        // Refused upstream, which has no rule for it; every valid object stays valid.
        ("crd-oneof-removed-old", "crd-oneof-removed-new", &[]),
    ];
    for (old, new, expected) in cases {
        let (Some(live), Some(next)) = (read(old), read(new)) else { return };
        assert_eq!(short(&compare(&live, &next)), expected, "{old} to {new}");
    }
}
