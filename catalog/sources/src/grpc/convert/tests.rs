use olm_registry_api::{Channel, Dependency, Property};

use super::*;

fn bundle(channel: &str, name: &str) -> Bundle {
    Bundle {
        csv_name: name.into(),
        package_name: "etcd".into(),
        channel_name: channel.into(),
        version: "1.0.0".into(),
        ..Bundle::default()
    }
}

fn property(kind: &str, value: &str) -> Property {
    Property { r#type: kind.into(), value: value.into() }
}

#[test]
fn a_bundle_in_two_channels_is_one_document_and_two_entries() {
    // Given a package with two channels that share a bundle
    let mut converter = Converter::default();
    let channel = |name: &str| Channel { name: name.into(), csv_name: "etcd.v2".into(), deprecation: None };
    converter.package(&Package {
        name: "etcd".into(),
        channels: vec![channel("stable"), channel("alpha")],
        default_channel_name: "stable".into(),
        deprecation: Some(Deprecation { message: "use another".into() }),
    });

    // When its bundles come in some order
    let upgrade = Bundle {
        replaces: "etcd.v1".into(),
        skips: vec!["etcd.v1-bad".into()],
        skip_range: "<2.0.0".into(),
        deprecation: Some(Deprecation { message: "too old".into() }),
        ..bundle("stable", "etcd.v2")
    };
    let first = converter.bundle(upgrade);
    let second = converter.bundle(bundle("stable", "etcd.v1"));
    let third = converter.bundle(bundle("alpha", "etcd.v2"));

    // Then each is written once, and the channels have the edges
    assert!(first.is_some() && second.is_some() && third.is_none());
    let documents = converter.finish();
    assert_eq!(
        documents,
        [
            json!({"schema": "olm.package", "name": "etcd", "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": "etcd", "name": "alpha",
                   "entries": [{"name": "etcd.v2"}]}),
            json!({"schema": "olm.channel", "package": "etcd", "name": "stable", "entries": [
                {"name": "etcd.v1"},
                {"name": "etcd.v2", "replaces": "etcd.v1", "skips": ["etcd.v1-bad"], "skipRange": "<2.0.0"},
            ]}),
            json!({"schema": "olm.deprecations", "package": "etcd", "entries": [
                {"reference": {"schema": "olm.bundle", "name": "etcd.v2"}, "message": "too old"},
                {"reference": {"schema": "olm.package"}, "message": "use another"},
            ]}),
        ]
    );
}

#[test]
fn properties_stay_as_they_are() {
    let bundle = Bundle {
        bundle_path: "quay.io/a@sha256:0".into(),
        properties: vec![
            property("olm.package", r#"{"packageName":"etcd","version":"1.0.0"}"#),
            property("olm.gvk", r#"{"group":"g","version":"v","kind":"k"}"#),
            property("olm.gvk.required", r#"{"group":"r","version":"v","kind":"k"}"#),
            property("olm.package.required", r#"{"packageName":"p","versionRange":">1"}"#),
            property("odd", "not json"),
        ],
        provided_apis: vec![GroupVersionKind { kind: "twice".into(), ..Default::default() }],
        required_apis: vec![GroupVersionKind { kind: "twice".into(), ..Default::default() }],
        dependencies: vec![Dependency {
            r#type: "olm.package".into(),
            value: r#"{"packageName":"p","version":">1"}"#.into(),
        }],
        ..bundle("stable", "etcd.v1")
    };
    let properties = properties(&bundle);
    assert_eq!(properties.len(), 5, "{properties:?}");
    assert_eq!(properties[4], json!({"type": "odd", "value": "not json"}));
    assert_eq!(document(&bundle)["image"], "quay.io/a@sha256:0");
}

#[test]
fn fields_of_older_servers_become_properties() {
    let bundle = Bundle {
        csv_json: r#"{"kind":"ClusterServiceVersion"}"#.into(),
        provided_apis: vec![GroupVersionKind {
            group: "g".into(),
            version: "v".into(),
            kind: "k".into(),
            plural: "ks".into(),
        }],
        dependencies: vec![
            Dependency {
                r#type: "olm.gvk".into(),
                value: r#"{"group":"r","version":"v","kind":"k"}"#.into(),
            },
            Dependency {
                r#type: "olm.package".into(),
                value: r#"{"packageName":"p","version":">1"}"#.into(),
            },
        ],
        ..bundle("stable", "etcd.v1")
    };
    let data = BASE64_STANDARD.encode(&bundle.csv_json);
    assert_eq!(
        properties(&bundle),
        [
            json!({"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}}),
            json!({"type": "olm.gvk", "value": {"group": "g", "version": "v", "kind": "k"}}),
            json!({"type": "olm.gvk.required", "value": {"group": "r", "version": "v", "kind": "k"}}),
            json!({"type": "olm.package.required", "value": {"packageName": "p", "versionRange": ">1"}}),
            json!({"type": "olm.bundle.object", "value": {"data": data}}),
        ]
    );
}
