//! A small catalog for tests with every case that is served in a special way. `opm` accepts it; the answers
//! of its server are the expectation of the gRPC tests.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use olm_catalog::Catalog;
use serde_json::{Value, json};

/// Enough of a PNG to be detected as one.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

/// A ConfigMap with unusual white space, which must be preserved.
pub(crate) const CONFIG_MAP: &str =
    "{ \"kind\": \"ConfigMap\",  \"apiVersion\":\"v1\",\"metadata\":{\"name\":\"<x>\"} }\n";

fn object(text: &str) -> Value {
    json!({"type": "olm.bundle.object", "value": {"data": STANDARD.encode(text)}})
}

fn csv(name: &str) -> Value {
    object(&format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: {name}\n\
         spec:\n  version: 1.0.0\n  displayName: <b>&P</b>\n"
    ))
}

fn version(version: &str) -> Value {
    json!({"type": "olm.package", "value": {"version": version, "packageName": "p"}})
}

/// The documents, unordered.
pub(crate) fn documents() -> Vec<Value> {
    let required = json!({"group": "r", "version": "v1", "kind": "R"});
    let metadata = json!({
        "displayName": "P", "annotations": {}, "labels": {"a": "b"}, "minKubeVersion": "", "keywords": [],
        "crdDescriptions": {"owned": [{"name": "ks.g", "version": "v1", "kind": "K"}]},
        "installModes": [{"type": "AllNamespaces", "supported": true}], "extra": 1,
    });
    vec![
        json!({"schema": "custom.a", "name": "g"}),
        json!({"schema": "custom.a", "package": "p", "name": "x", "v": [1, null, true, {"a": "b"}], "n": 1.5}),
        json!({"schema": "custom.a", "package": "p", "name": "y"}),
        json!({
            "schema": "olm.package", "name": "p", "defaultChannel": "s", "description": "about p",
            "icon": {"base64data": STANDARD.encode(PNG), "mediatype": "image/png"},
        }),
        json!({"schema": "olm.channel", "package": "p", "name": "s", "entries": [
            {"name": "p.v1"},
            {"name": "p.v2", "replaces": "p.v1", "skips": ["p.v1", "p.v1x", "p.v0"], "skipRange": "<2.0.0-rc.1"},
        ]}),
        json!({"schema": "olm.channel", "package": "p", "name": "t", "entries": [
            {"name": "p.v3", "replaces": "p.v2"},
            {"name": "p.v4", "replaces": "gone", "skips": ["p.v3"]},
        ]}),
        json!({"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "", "properties": [
            version("1.0.0"), csv("p.v1"), object(CONFIG_MAP),
        ]}),
        json!({"schema": "olm.bundle", "package": "p", "name": "p.v2", "image": "q.io/p:2", "properties": [
            version("2.0.0-rc.1+b"),
            csv("p.v2"),
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
            {"type": "olm.gvk.required", "value": required},
            {"type": "olm.package.required", "value": {"versionRange": ">1.0.0 <2.0.0", "packageName": "other"}},
            {"type": "olm.constraint", "value": {"failureMessage": "a<b", "gvk": required}},
            {"type": "x", "value": [1, 2.5, null, "ü<"]},
        ]}),
        json!({
            "schema": "olm.bundle", "package": "p", "name": "p.v3", "image": "q.io/p:3", "properties": [version("3.0.0")],
            "relatedImages": [{"name": "", "image": "q.io/p:3"}],
        }),
        json!({
            "schema": "olm.bundle", "package": "p", "name": "p.v4", "image": "q.io/p:4",
            "properties": [
                version("4.0.0"), object("{\"kind\":\"ConfigMap\"}"),
                {"type": "olm.csv.metadata", "value": metadata},
            ],
            "relatedImages": [{"name": "", "image": "q.io/p:3"}],
        }),
        json!({"schema": "olm.deprecations", "package": "p", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "P old"},
            {"reference": {"schema": "olm.channel", "name": "t"}, "message": "T old"},
            {"reference": {"schema": "olm.bundle", "name": "p.v2"}, "message": "2 old"},
        ]}),
        // A package without an icon, whose second channel ranks below its default.
        json!({"schema": "olm.package", "name": "q", "defaultChannel": "b"}),
        json!({"schema": "olm.channel", "package": "q", "name": "a", "entries": [{"name": "q.v1"}]}),
        json!({"schema": "olm.channel", "package": "q", "name": "b", "entries": [{"name": "q.v2"}]}),
        json!({"schema": "olm.bundle", "package": "q", "name": "q.v1", "image": "q.io/q:1", "properties": [
            {"type": "olm.package", "value": {"version": "1.0.0", "packageName": "q"}},
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "Old"}},
        ]}),
        json!({"schema": "olm.bundle", "package": "q", "name": "q.v2", "image": "q.io/q:2", "properties": [
            {"type": "olm.package", "value": {"version": "2.0.0", "packageName": "q"}},
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
            {"type": "olm.csv.metadata", "value": {}},
        ]}),
    ]
}

/// Documents as a catalog file.
pub(crate) fn text(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("{document}\n")).collect()
}

pub(crate) fn catalog() -> Arc<Catalog> {
    let catalog = Catalog::from_bytes("fixture", text(&documents()).as_bytes());
    assert_eq!(catalog.problems.len(), 0, "{:?}", catalog.problems);
    Arc::new(catalog)
}

/// A package with bundles of this many bytes of text each.
pub(crate) fn large(bundles: usize, bytes: usize) -> Vec<Value> {
    let name = |number: usize| format!("l.v{number}");
    let entries: Vec<Value> = (0..bundles)
        .map(|number| match number {
            0 => json!({"name": name(0)}),
            _ => json!({"name": name(number), "replaces": name(number - 1)}),
        })
        .collect();
    let mut documents = vec![
        json!({"schema": "olm.package", "name": "l", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "l", "name": "c", "entries": entries}),
    ];
    // Incompressible text.
    let filler = |seed: usize| -> String {
        let mut state = seed as u64 + 1;
        let letters = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (state >> 59) as u8 % 26)
        });
        letters.take(bytes).collect()
    };
    documents.extend((0..bundles).map(|number| {
        json!({
            "schema": "olm.bundle", "package": "l", "name": name(number), "image": format!("q.io/l:{number}"),
            "properties": [
                {"type": "olm.package", "value": {"packageName": "l", "version": format!("0.0.{number}")}},
                {"type": "filler", "value": filler(number)},
            ],
        })
    }));
    documents
}
