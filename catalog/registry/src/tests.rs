//! The wire format is a contract: bytes that other implementations write and read.

use prost::Message;

use super::*;

/// Field number and text, as any protobuf implementation encodes a short string.
fn text(field: u8, text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    [&[field << 3 | 2, length], text.as_bytes()].concat()
}

#[test]
fn a_bundle_is_encoded_with_the_known_numbers() {
    let gvk =
        GroupVersionKind { group: "g".into(), version: "v".into(), kind: "k".into(), plural: "p".into() };
    let bundle = Bundle {
        csv_name: "a".into(),
        package_name: "b".into(),
        channel_name: "c".into(),
        csv_json: "d".into(),
        object: vec!["e".into()],
        bundle_path: "f".into(),
        provided_apis: vec![gvk],
        required_apis: Vec::new(),
        version: "i".into(),
        skip_range: "j".into(),
        dependencies: vec![Dependency { r#type: "t".into(), value: "v".into() }],
        properties: vec![Property { r#type: "t".into(), value: "v".into() }],
        replaces: "m".into(),
        skips: vec!["n".into(), "o".into()],
        deprecation: Some(Deprecation { message: "p".into() }),
    };

    let nested = |field: u8, parts: &[Vec<u8>]| {
        let body = parts.concat();
        [vec![field << 3 | 2, u8::try_from(body.len()).expect("short")], body].concat()
    };
    let typed = [text(1, "t"), text(2, "v")];
    let expected = [
        text(1, "a"),
        text(2, "b"),
        text(3, "c"),
        text(4, "d"),
        text(5, "e"),
        text(6, "f"),
        nested(7, &[text(1, "g"), text(2, "v"), text(3, "k"), text(4, "p")]),
        text(9, "i"),
        text(10, "j"),
        nested(11, &typed),
        nested(12, &typed),
        text(13, "m"),
        text(14, "n"),
        text(14, "o"),
        nested(15, &[text(1, "p")]),
    ];
    assert_eq!(bundle.encode_to_vec(), expected.concat());
    assert_eq!(Bundle::decode(&*expected.concat()), Ok(bundle));
}

#[test]
fn packages_entries_and_requests_too() {
    let channel = Channel { name: "a".into(), csv_name: "b".into(), deprecation: None };
    let package = Package {
        name: "n".into(),
        channels: vec![channel],
        default_channel_name: "d".into(),
        deprecation: Some(Deprecation { message: String::new() }),
    };
    let expected =
        [text(1, "n"), vec![2 << 3 | 2, 6], text(1, "a"), text(2, "b"), text(3, "d"), vec![4 << 3 | 2, 0]];
    assert_eq!(package.encode_to_vec(), expected.concat());

    let entry = ChannelEntry {
        package_name: "a".into(),
        channel_name: "b".into(),
        bundle_name: "c".into(),
        replaces: "d".into(),
    };
    assert_eq!(entry.encode_to_vec(), [text(1, "a"), text(2, "b"), text(3, "c"), text(4, "d")].concat());

    let bundle = GetBundleRequest { pkg_name: "a".into(), channel_name: "b".into(), csv_name: "c".into() }
        .encode_to_vec();
    assert_eq!(bundle, [text(1, "a"), text(2, "b"), text(3, "c")].concat());
    let replacement =
        GetReplacementRequest { csv_name: "a".into(), pkg_name: "b".into(), channel_name: "c".into() };
    assert_eq!(replacement.encode_to_vec(), bundle);
    let custom = ExperimentalListPackageCustomSchemasRequest { schema: "a".into(), package_name: "b".into() };
    assert_eq!(custom.encode_to_vec(), [text(1, "a"), text(2, "b")].concat());
}

#[test]
fn the_descriptor_names_every_method() {
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("a descriptor set");
    let file = set.file.iter().find(|file| file.name() == "registry.proto").expect("our file");
    assert_eq!(file.package(), "api");
    let methods: Vec<String> = file
        .service
        .iter()
        .flat_map(|service| {
            service.method.iter().map(|method| format!("{}/{}", service.name(), method.name()))
        })
        .collect();
    assert_eq!(
        methods,
        [
            "Registry/ListPackages",
            "Registry/GetPackage",
            "Registry/GetBundle",
            "Registry/GetBundleForChannel",
            "Registry/GetChannelEntriesThatReplace",
            "Registry/GetBundleThatReplaces",
            "Registry/GetChannelEntriesThatProvide",
            "Registry/GetLatestChannelEntriesThatProvide",
            "Registry/GetDefaultBundleThatProvides",
            "Registry/ListBundles",
            "ExperimentalRegistry/ExperimentalListPackageCustomSchemas",
        ]
    );
    assert!(set.file.iter().any(|file| file.name() == "google/protobuf/struct.proto"), "imports are in it");
}
