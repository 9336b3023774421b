//! The cases of upstream's own tests, under their names, and additional ones.

use std::cell::RefCell;

use serde_json::json;

use super::bundle::Identity;
use super::document::text;
use super::semver::Entry;
use super::*;

/// `repo/a-v1.2.3` is bundle `a-v1.2.3`, version 1.2.3 of package a.
fn images(reference: &str) -> Result<Resolved, String> {
    let name = reference.rsplit('/').next().unwrap_or_default();
    let Some((package, version)) = name.split_once("-v") else { return Err("no such image".into()) };
    Ok(Resolved {
        document: bundle(package, name, version, ""),
        description: format!("about {version}"),
        icon: Some(json!({"base64data": "aWNvbg==", "mediatype": "image/svg+xml"})),
    })
}

fn bundle(package: &str, name: &str, version: &str, release: &str) -> Value {
    let mut value = json!({"packageName": package, "version": version});
    if !release.is_empty() {
        value["release"] = release.into();
    }
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("r.example/{package}:v{version}"),
        "properties": [{"type": "olm.package", "value": value}]})
}

fn render_text(template: &str) -> Result<Vec<Value>, TemplateError> {
    render(template.as_bytes(), &images)
}

fn message(template: &str) -> String {
    render_text(template).unwrap_err().to_string()
}

fn semver_template(settings: &str, list: &str, versions: &[&str]) -> String {
    let bundles: Vec<String> =
        versions.iter().map(|version| format!("  - image: repo/origin/a-v{version}")).collect();
    format!("schema: olm.semver\n{settings}{list}:\n  bundles:\n{}\n", bundles.join("\n"))
}

/// Channels as `name: entry, entry`; an entry as `name<replaces(skips)`; names without `a-v`.
fn channels(documents: &[Value]) -> Vec<String> {
    let short = |value: &Value| value.as_str().unwrap_or_default().trim_start_matches("a-v").to_owned();
    let entry = |entry: &Value| {
        let mut text = short(&entry["name"]);
        if entry["replaces"].is_string() {
            text += &format!("<{}", short(&entry["replaces"]));
        }
        if let Some(skips) = entry["skips"].as_array() {
            text += &format!("({})", skips.iter().map(short).collect::<Vec<_>>().join(" "));
        }
        text
    };
    let channels = documents.iter().filter(|document| schema(document) == "olm.channel");
    channels
        .map(|channel| {
            let entries: Vec<String> = channel["entries"].as_array().unwrap().iter().map(entry).collect();
            format!("{}: {}", text(channel, "name"), entries.join(", "))
        })
        .collect()
}

fn default_channel(documents: &[Value]) -> &str {
    documents
        .iter()
        .find(|document| schema(document) == "olm.package")
        .map_or("", |p| text(p, "defaultChannel"))
}

/// Upstream's decoder ignores the case of fields, and its own examples use this spelling.
#[test]
fn fields_may_be_spelled_as_upstream_spells_them() {
    let template = "---\nSchema: olm.semver\nGenerateMajorChannels: true\nGenerateMinorChannels: false\nDefaultChannelTypePreference: major\nFast:\n  Bundles:\n  - Image: r/a-v1.0.0\nStable:\n  Bundles:\n  - Image:\n      r/a-v1.0.0\n  - Image: r/a-v1.1.0\nCandidate:\n  Bundles:\n";
    assert_eq!(references(template.as_bytes()).unwrap(), ["r/a-v1.0.0", "r/a-v1.1.0"]);
    let documents = render_text(template).unwrap();
    assert_eq!(channels(&documents), ["fast-v1: 1.0.0", "stable-v1: 1.0.0, 1.1.0<1.0.0"]);
    assert_eq!(default_channel(&documents), "stable-v1");

    let basic = "Schema: olm.template.basic\nEntries:\n- Schema: olm.channel\n  Package: a\n  Name: stable\n  Entries: [{Name: a-v1.0.0}]\n- Schema: olm.bundle\n  Image: r/a-v1.0.0\n";
    let documents = render_text(basic).unwrap();
    assert_eq!(channels(&documents), ["stable: 1.0.0"]);
    assert_eq!(schema(&documents[1]), "olm.bundle");

    let substitutes = "Schema: olm.template.substitutes\nEntries: []\nSubstitutions: [{Name: r/a-v1.0.1, Base: a-v1.0.0}]\n";
    assert_eq!(references(substitutes.as_bytes()).unwrap(), ["r/a-v1.0.1"]);

    assert_eq!(
        message("schema: olm.semver\nstable: {bundles: []}\nStable: {bundles: []}\n"),
        "the template is ambiguous: \"stable\" and \"Stable\" are one field, expected it once"
    );
    assert_eq!(
        message("Schema: olm.semver\nStabel: {}\n").split(';').next(),
        Some("unknown field \"Stabel\" in the template")
    );
}

const MAJOR: &str = "generateMajorChannels: true\n";
const MINOR: &str = "generateMinorChannels: true\n";

mod link_channels {
    use super::*;

    fn linked(list: &str, versions: &[&str]) -> Vec<String> {
        channels(&render_text(&semver_template(MAJOR, list, versions)).unwrap())
    }

    #[test]
    fn no_edges_between_successive_major_channels() {
        let versions = ["0.1.0", "0.1.1", "1.1.0", "1.2.1", "1.3.1", "2.1.0", "2.1.1", "2.3.1", "2.3.2"];
        assert_eq!(
            linked("stable", &versions),
            [
                "stable-v0: 0.1.0, 0.1.1(0.1.0)",
                "stable-v1: 1.1.0, 1.2.1<1.1.0, 1.3.1<1.2.1(1.1.0)",
                "stable-v2: 2.1.0, 2.1.1(2.1.0), 2.3.1, 2.3.2<2.1.1(2.1.0 2.3.1)",
            ]
        );
    }

    #[test]
    fn no_edges_between_successive_major_channels_where_last_edge_is_x_change() {
        let versions = ["0.1.0", "0.1.1", "1.1.0", "1.2.1", "1.3.1", "2.1.0"];
        assert_eq!(
            linked("stable", &versions),
            [
                "stable-v0: 0.1.0, 0.1.1(0.1.0)",
                "stable-v1: 1.1.0, 1.2.1<1.1.0, 1.3.1<1.2.1(1.1.0)",
                "stable-v2: 2.1.0",
            ]
        );
    }

    #[test]
    fn no_edges_between_successive_major_channels_where_last_edge_is_archetype_change() {
        let stable = ["1.1.0", "1.2.1", "1.3.1", "2.1.0", "2.1.1", "2.3.1"];
        let template = semver_template(MAJOR, "stable", &stable)
            + "candidate:\n  bundles:\n  - image: repo/origin/a-v2.3.2\n";
        let documents = render_text(&template).unwrap();
        assert_eq!(
            channels(&documents),
            [
                "candidate-v2: 2.3.2",
                "stable-v1: 1.1.0, 1.2.1<1.1.0, 1.3.1<1.2.1(1.1.0)",
                "stable-v2: 2.1.0, 2.1.1(2.1.0), 2.3.1<2.1.1(2.1.0)",
            ]
        );
        assert_eq!(default_channel(&documents), "stable-v2");
    }

    #[test]
    fn minimum_viable_major_channel() {
        assert_eq!(linked("stable", &["0.1.0"]), ["stable-v0: 0.1.0"]);
    }
}

mod generate_channels {
    use super::*;

    const VERSIONS: [&str; 16] = [
        "0.1.0",
        "0.1.1",
        "1.1.0",
        "1.2.1",
        "1.3.1",
        "2.1.0",
        "1.3.1-beta",
        "2.1.1",
        "2.3.1",
        "2.3.2",
        "3.1.0",
        "3.1.1",
        "1.3.1-alpha",
        "1.4.1",
        "1.4.1-beta1",
        "1.4.1-beta2",
    ];

    const MAJORS: [&str; 4] = [
        "stable-v0: 0.1.0, 0.1.1(0.1.0)",
        "stable-v1: 1.1.0, 1.2.1<1.1.0, 1.3.1-alpha, 1.3.1-beta, 1.3.1<1.2.1(1.1.0 1.3.1-alpha 1.3.1-beta), 1.4.1-beta1, 1.4.1-beta2, 1.4.1<1.3.1(1.1.0 1.2.1 1.3.1-alpha 1.3.1-beta 1.4.1-beta1 1.4.1-beta2)",
        "stable-v2: 2.1.0, 2.1.1(2.1.0), 2.3.1, 2.3.2<2.1.1(2.1.0 2.3.1)",
        "stable-v3: 3.1.0, 3.1.1(3.1.0)",
    ];

    const MINORS: [&str; 8] = [
        "stable-v0.1: 0.1.0, 0.1.1(0.1.0)",
        "stable-v1.1: 1.1.0",
        "stable-v1.2: 1.2.1<1.1.0",
        "stable-v1.3: 1.3.1-alpha, 1.3.1-beta, 1.3.1<1.2.1(1.1.0 1.3.1-alpha 1.3.1-beta)",
        "stable-v1.4: 1.4.1-beta1, 1.4.1-beta2, 1.4.1<1.3.1(1.1.0 1.2.1 1.3.1-alpha 1.3.1-beta 1.4.1-beta1 1.4.1-beta2)",
        "stable-v2.1: 2.1.0, 2.1.1(2.1.0)",
        "stable-v2.3: 2.3.1, 2.3.2<2.1.1(2.1.0 2.3.1)",
        "stable-v3.1: 3.1.0, 3.1.1(3.1.0)",
    ];

    fn generated(settings: &str) -> (Vec<String>, String) {
        let documents = render_text(&semver_template(settings, "stable", &VERSIONS)).unwrap();
        (channels(&documents), default_channel(&documents).to_owned())
    }

    fn both() -> Vec<String> {
        let mut all: Vec<String> = MAJORS.iter().chain(&MINORS).map(|line| (*line).to_owned()).collect();
        all.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
        all
    }

    #[test]
    fn edges_between_minor_channels() {
        let (channels, default) = generated(MINOR);
        assert_eq!(channels, MINORS);
        assert_eq!(default, "stable-v3.1");
        // no setting has the same meaning
        assert_eq!(generated("").0, MINORS);
    }

    #[test]
    fn no_edges_between_major_channels() {
        let (channels, default) = generated(MAJOR);
        assert_eq!(channels, MAJORS);
        assert_eq!(default, "stable-v3");
    }

    #[test]
    fn preference_for_minor_default_channel() {
        let both_kinds = format!("{MAJOR}{MINOR}defaultChannelTypePreference: minor\n");
        assert_eq!(generated(&both_kinds), (both(), "stable-v3.1".to_owned()));
        assert_eq!(generated(&format!("{MAJOR}{MINOR}")).1, "stable-v3.1");
    }

    #[test]
    fn preference_for_major_default_channel() {
        let both_kinds = format!("{MAJOR}{MINOR}defaultChannelTypePreference: major\n");
        assert_eq!(generated(&both_kinds), (both(), "stable-v3".to_owned()));
    }

    /// Upstream's function accepts the mismatch; its template is rejected, as in `read_file`.
    #[test]
    fn mismatch_generate_preference_default_channel() {
        let names: Vec<Identity> = VERSIONS
            .iter()
            .map(|version| Identity::of(&bundle("a", &format!("a-v{version}"), version, "")).unwrap())
            .collect();
        let mut sorted: Vec<&Identity> = names.iter().collect();
        sorted.sort_by(|a, b| olm_version::precedence(&a.version, &b.version));
        let lists = [Vec::new(), Vec::new(), sorted];
        for (major, minor, preference, default) in [
            (false, true, semver::Kind::Major, "stable-v3.1"),
            (true, false, semver::Kind::Minor, "stable-v3"),
        ] {
            let template = semver::Template { major, minor, preference, lists: Default::default() };
            assert_eq!(template.channels(&lists).default, default);
        }
    }

    #[test]
    fn maturity_decides_the_default_before_the_version() {
        let template = semver_template("", "fast", &["9.0.0"])
            + "candidate:\n  bundles: [{image: r/a-v10.0.0}]\nstable:\n  bundles: [{image: r/a-v1.0.0}]\n";
        let documents = render_text(&template).unwrap();
        assert_eq!(default_channel(&documents), "stable-v1.0");
    }

    #[test]
    fn an_entry_replaces_the_last_patch_and_skips_each_other_once() {
        let documents = render_text(&semver_template(MAJOR, "stable", &["1.0.0", "1.0.1", "1.1.0"])).unwrap();
        assert_eq!(channels(&documents), ["stable-v1: 1.0.0, 1.0.1(1.0.0), 1.1.0<1.0.1(1.0.0)"]);
        let entry = Entry { name: "a".into(), replaces: None, skips: Vec::new() };
        assert_eq!(entry.clone(), entry);
    }
}

mod get_versions_from_standard_channel {
    use super::*;

    #[test]
    fn sunny_day_case() {
        let versions = ["0.1.0", "2.3.2", "1.3.1-alpha"];
        let documents = render_text(&semver_template("", "stable", &versions)).unwrap();
        let names: Vec<&str> = documents.iter().map(|document| text(document, "name")).collect();
        assert_eq!(
            names,
            ["a", "stable-v0.1", "stable-v1.3", "stable-v2.3", "a-v0.1.0", "a-v1.3.1-alpha", "a-v2.3.2"]
        );
    }

    #[test]
    fn abort_on_unorderable_build_metadata_version_data() {
        let versions = ["0.1.0", "1.3.1-alpha", "1.3.1-alpha+2001Jan21", "1.3.1-alpha+2003May06"];
        assert_eq!(
            message(&semver_template("", "stable", &versions)),
            "bundles a-v1.3.1-alpha and a-v1.3.1-alpha+2001Jan21 differ only in build metadata and have no order"
        );
    }

    #[test]
    fn bundles_that_do_not_belong_together_are_refused() {
        let twice = semver_template("", "stable", &["1.0.0", "1.0.0"]);
        assert_eq!(message(&twice), "bundle a-v1.0.0 is in list stable twice");
        let other = "schema: olm.semver\nstable:\n  bundles: [{image: r/a-v1.0.0}, {image: r/b-v1.1.0}]\n";
        assert_eq!(
            message(other),
            "bundle b-v1.1.0 belongs to package b, expected package a of the bundles before it"
        );
        assert_eq!(message("schema: olm.semver\n"), "the template has no bundles");
        assert_eq!(
            message("schema: olm.semver\nstable: {bundles: [{image: gone}]}"),
            "failed to get bundle gone: no such image"
        );
        let nameless = |_: &str| Ok(Resolved::from(json!({"name": "x", "properties": []})));
        let error = render(b"schema: olm.semver\nstable: {bundles: [{image: x}]}", &nameless).unwrap_err();
        assert_eq!(error.to_string(), "failed to add bundle \"x\": 0 olm.package properties, expected 1");
    }

    #[test]
    fn each_image_is_asked_for_once() {
        let asked = RefCell::new(Vec::new());
        let resolver = |reference: &str| {
            asked.borrow_mut().push(reference.to_owned());
            images(reference)
        };
        let template = "schema: olm.semver\nstable: {bundles: [{image: r/a-v1.0.0}]}\nfast: {bundles: [{image: r/a-v1.0.0}, {image: r/a-v1.1.0}]}\n";
        render(template.as_bytes(), &resolver).unwrap();
        assert_eq!(asked.into_inner().len(), 2);
        assert_eq!(references(template.as_bytes()).unwrap(), ["r/a-v1.0.0", "r/a-v1.1.0"]);
    }
}

mod populate_package_metadata {
    use super::*;

    #[test]
    fn successfully_populate_icon_and_description_from_head_bundle() {
        let documents = render_text(&semver_template("", "stable", &["1.1.0", "1.0.0", "1.1.1"])).unwrap();
        assert_eq!(
            documents[0],
            json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable-v1.1", "description": "about 1.1.1",
                "icon": {"base64data": "aWNvbg==", "mediatype": "image/svg+xml"}})
        );
    }

    #[test]
    fn csv_has_no_description_and_no_icon() {
        let bare = |reference: &str| images(reference).map(|resolved| Resolved::from(resolved.document));
        let template = semver_template("", "stable", &["1.0.0"]);
        let documents = render(template.as_bytes(), &bare).unwrap();
        assert_eq!(
            documents[0],
            json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable-v1.0"})
        );
    }
}

mod read_file {
    use super::*;

    fn settings(major: &str, minor: &str, preference: &str) -> String {
        semver_template(
            &format!(
                "generateMajorChannels: {major}\ngenerateMinorChannels: {minor}\ndefaultChannelTypePreference: {preference}\n"
            ),
            "candidate",
            &["0.1.0", "1.0.1"],
        )
    }

    #[test]
    fn valid() {
        assert!(render_text(&settings("true", "true", "minor")).is_ok());
    }

    #[test]
    fn unknown_channel_prefix() {
        let template = semver_template("", "stable", &["1.0.0"]) + "invalid:\n  bundles:\n  - image: x\n";
        assert_eq!(message(&template), "unknown field \"invalid\" in the template; remove or correct it");
        let inner = "schema: olm.semver\nstable: {bundles: [{image: r/a-v1.0.0, name: x}]}";
        assert!(message(inner).contains("\"stable.bundles[].name\""), "{}", message(inner));
    }

    #[test]
    fn generate_default_mismatch_minor_major() {
        assert_eq!(
            message(&settings("true", "false", "minor")),
            "defaultChannelTypePreference is minor, but minor channels are not generated; set generateMinorChannels: true"
        );
    }

    #[test]
    fn generate_default_mismatch_major_minor() {
        assert_eq!(
            message(&settings("false", "true", "major")),
            "defaultChannelTypePreference is major, but major channels are not generated; set generateMajorChannels: true"
        );
    }

    #[test]
    fn unknown_defaultchanneltypepreference() {
        let text = message(&settings("false", "true", "foo"));
        assert_eq!(text, "unknown defaultChannelTypePreference \"foo\", expected major or minor");
    }

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        for (template, error) in [
            ("schema: olm.semver\nstable: []", "stable of the template: expected a map with `bundles`"),
            ("schema: olm.semver\nstable: {bundles: x}", "bundles of the template: expected a list"),
            (
                "schema: olm.semver\nstable: {bundles: [x]}",
                "stable.bundles[] of the template: expected a map with `image`",
            ),
            (
                "schema: olm.semver\nstable: {bundles: [{}]}",
                "stable.bundles[].image of the template: expected an image reference",
            ),
            (
                "schema: olm.semver\ngenerateMajorChannels: 1",
                "generateMajorChannels of the template: expected true or false",
            ),
        ] {
            assert_eq!(message(template), error);
        }
    }
}

mod schemas {
    use super::*;

    #[test]
    fn only_known_schemas_are_rendered() {
        for template in ["schema: olm.composite", "entries: []", "schema: olm.template.invalid"] {
            let text = message(template);
            assert!(text.starts_with("unknown schema"), "{text}");
            assert!(references(template.as_bytes()).is_err());
        }
        assert!(message("schema: olm.template.basic\nentries: [").starts_with("failed to read the template"));
        assert_eq!(
            message("schema: olm.semver\n---\nschema: olm.semver\n"),
            "the file contains 2 documents, expected one template"
        );
        assert_eq!(message(""), "the file contains 0 documents, expected one template");
        assert!(message("[1, 2]").starts_with("unknown schema"));
    }
}

mod basic_template {
    use super::*;

    #[test]
    fn bundles_are_rendered_where_they_are() {
        let template = "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: a, defaultChannel: s}\n- {schema: olm.bundle, image: r/a-v1.0.0}\n- {schema: olm.channel, package: a, name: s, entries: [{name: a-v1.0.0}]}\n- {schema: custom.thing, package: a, more: [1]}\n";
        let documents = render_text(template).unwrap();
        assert_eq!(
            documents.iter().map(schema).collect::<Vec<_>>(),
            ["olm.package", "olm.bundle", "olm.channel", "custom.thing"]
        );
        assert_eq!(documents[1], images("r/a-v1.0.0").unwrap().document);
        assert_eq!(references(template.as_bytes()).unwrap(), ["r/a-v1.0.0"]);
    }

    #[test]
    fn unexpected_fields_present_in_basic_template_bundle() {
        for (fields, named) in [
            ("package: a", "package"),
            ("properties: [{type: x, value: 1}]", "properties"),
            ("relatedImages: [{name: a, image: b}], package: a", "package, relatedImages"),
        ] {
            let template =
                format!("schema: olm.template.basic\nentries: [{{schema: olm.bundle, image: i, {fields}}}]");
            let text = message(&template);
            assert!(
                text.starts_with(&format!("unexpected fields in a bundle of the template ({named})")),
                "{text}"
            );
        }
        // empty fields and a name are accepted as upstream
        let template = "schema: olm.template.basic\nentries: [{schema: olm.bundle, image: r/a-v1.0.0, name: other, package: '', properties: []}]";
        assert_eq!(render_text(template).unwrap()[0]["name"], "a-v1.0.0");
        assert!(
            message("schema: olm.template.basic\nentries: [{schema: olm.bundle}]")
                .contains("image of an olm.bundle")
        );
    }
}

mod substitutes_template;

mod any_template {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_panics(schema in prop::sample::select(vec![BASIC, SEMVER, SUBSTITUTES]), rest in "[a-z:\\[\\]{}, \n\"'&*-]{0,60}") {
            let text = format!("schema: {schema}\n{rest}");
            let _ = render(text.as_bytes(), &images);
            let _ = references(text.as_bytes());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = render(&bytes, &images);
        }
    }
}
