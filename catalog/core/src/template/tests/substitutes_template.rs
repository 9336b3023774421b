//! Templates with substitutes: replaced bundles, their edges, and what is refused.

use super::*;

const PACKAGE: &str = "- {schema: olm.package, name: testoperator, defaultChannel: stable}\n";

/// `quay/testoperator:v1.1.0-alpha` is version 1.1.0, release alpha.
fn rebuilt(reference: &str) -> Result<Resolved, String> {
    let tag = reference.rsplit(":v").next().unwrap_or_default();
    let (version, release) = tag.split_once('-').unwrap_or((tag, ""));
    let name = if release.is_empty() {
        format!("testoperator.v{version}")
    } else {
        format!("testoperator-v{version}-{release}")
    };
    Ok(Resolved::from(bundle("testoperator", &name, version, release)))
}

fn template(channels: &[(&str, &str)], versions: &[&str], substitutions: &str) -> String {
    let mut text = format!("schema: olm.template.substitutes\nentries:\n{PACKAGE}");
    for (name, entries) in channels {
        text += &format!(
            "- {{schema: olm.channel, package: testoperator, name: {name}, entries: [{entries}]}}\n"
        );
    }
    for version in versions {
        text += &format!("- {}\n", bundle("testoperator", &format!("testoperator.v{version}"), version, ""));
    }
    text + &format!("substitutions: {substitutions}\n")
}

const CHAIN: &str = "{name: testoperator.v1.0.0}, {name: testoperator.v1.1.0, replaces: testoperator.v1.0.0}, {name: testoperator.v1.2.0, replaces: testoperator.v1.1.0, skips: [testoperator.v1.0.0]}";
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "1.2.0"];

fn chain(substitutions: &str) -> Result<Vec<Value>, TemplateError> {
    render(template(&[("stable", CHAIN)], &VERSIONS, substitutions).as_bytes(), &rebuilt)
}

fn refused(substitutions: &str) -> String {
    chain(substitutions).unwrap_err().to_string()
}

#[test]
fn render_with_single_substitution() {
    let documents = chain("[{name: 'q/o:v1.2.0-alpha', base: testoperator.v1.2.0}]").unwrap();
    assert_eq!(
        documents[1]["entries"],
        json!([
            {"name": "testoperator.v1.0.0"},
            {"name": "testoperator.v1.1.0", "replaces": "testoperator.v1.0.0"},
            {"name": "testoperator.v1.2.0"},
            {"name": "testoperator-v1.2.0-alpha", "replaces": "testoperator.v1.1.0",
                "skips": ["testoperator.v1.0.0", "testoperator.v1.2.0"]},
        ])
    );
    assert_eq!(documents.last().unwrap()["name"], "testoperator-v1.2.0-alpha");
}

#[test]
fn substitution_updates_existing_references() {
    let documents = chain("[{name: 'q/o:v1.1.0-1', base: testoperator.v1.1.0}]").unwrap();
    assert_eq!(
        documents[1]["entries"],
        json!([
            {"name": "testoperator.v1.0.0"},
            {"name": "testoperator.v1.1.0"},
            {"name": "testoperator.v1.2.0", "replaces": "testoperator-v1.1.0-1",
                "skips": ["testoperator.v1.0.0", "testoperator.v1.1.0"]},
            {"name": "testoperator-v1.1.0-1", "replaces": "testoperator.v1.0.0", "skips": ["testoperator.v1.1.0"]},
        ])
    );
}

#[test]
fn render_with_multiple_substitutions() {
    let documents = chain(
        "[{name: 'q/o:v1.2.0-alpha', base: testoperator.v1.2.0}, {name: 'q/o:v1.2.0-beta', base: testoperator-v1.2.0-alpha}]",
    )
    .unwrap();
    assert_eq!(
        documents[1]["entries"][4],
        json!({"name": "testoperator-v1.2.0-beta", "replaces": "testoperator.v1.1.0",
            "skips": ["testoperator.v1.0.0", "testoperator.v1.2.0", "testoperator-v1.2.0-alpha"]})
    );
}

#[test]
fn substitution_with_multiple_channels() {
    let one = "{name: testoperator.v1.0.0, skipRange: '<1.0.0'}";
    let text = template(
        &[("stable", one), ("beta", one)],
        &["1.0.0"],
        "[{name: 'q/o:v1.0.0-2', base: testoperator.v1.0.0}]",
    );
    let documents = render(text.as_bytes(), &rebuilt).unwrap();
    for channel in &documents[1..3] {
        assert_eq!(
            channel["entries"],
            json!([{"name": "testoperator.v1.0.0"},
                {"name": "testoperator-v1.0.0-2", "skipRange": "<1.0.0", "skips": ["testoperator.v1.0.0"]}])
        );
    }
}

#[test]
fn render_with_no_substitutions() {
    assert_eq!(chain("[]").unwrap().len(), 5);
    assert_eq!(
        render(b"schema: olm.template.substitutes\nentries: []\n", &rebuilt).unwrap(),
        Vec::<Value>::new()
    );
    let text =
        template(&[("stable", CHAIN)], &VERSIONS, "[{name: 'q/o:v1.2.0-2', base: testoperator.v1.2.0}]");
    assert_eq!(references(text.as_bytes()).unwrap(), ["q/o:v1.2.0-2"]);
}

#[test]
fn what_cannot_be_substituted_is_refused() {
    for (substitutions, reason) in [
        ("[{name: 'q/o:v9.0.0', base: testoperator.v8.0.0}]", "base is not a bundle of the template"),
        ("[{name: '', base: testoperator.v1.0.0}]", "name is empty, expected the image of the substitute"),
        ("[{name: 'q/o:v9.0.0', base: ''}]", "base is empty, expected the bundle to substitute"),
        ("[{name: same, base: same}]", "name and base are equal"),
        (
            "[{name: 'q/o:v9.0.0', base: testoperator.v1.0.0}, {name: 'q/o:v9.1.0', base: testoperator.v1.0.0}]",
            "base already has a substitute",
        ),
        (
            "[{name: 'q/o:v9.0.0', base: testoperator.v1.0.0}, {name: 'q/o:v9.0.0', base: testoperator.v1.1.0}]",
            "already the substitute of testoperator.v1.0.0",
        ),
        (
            "[{name: 'q/o:v1.0.0', base: testoperator.v1.2.0}]",
            "testoperator.v1.0.0 (1.0.0) is not newer than testoperator.v1.2.0 (1.2.0)",
        ),
    ] {
        let text = refused(substitutions);
        assert!(text.starts_with("failed to substitute") && text.ends_with(reason), "{text}");
    }
}

#[test]
fn what_is_no_catalog_is_refused() {
    for (text, part) in [
        (template(&[("stable", "")], &["1.0.0"], "[]"), "the entry list of the template is not a valid catalog"),
        (template(&[("stable", "{name: gone}")], &["1.0.0"], "[]"), "is not a valid catalog"),
        (
            "schema: olm.template.substitutes\nentries: [{schema: olm.channel, package: p, name: s, entries: [{name: b}]}]".to_owned(),
            "is not a valid catalog",
        ),
    ] {
        let error = render(text.as_bytes(), &rebuilt).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn releases_are_above_none_and_in_the_order_of_pre_releases() {
    let identity = |version: &str, release: &str| Identity::of(&bundle("a", "a", version, release)).unwrap();
    let order = [
        ("1.0.0", ""),
        ("1.0.0", "alpha"),
        ("1.0.0", "alpha.2"),
        ("1.0.0", "alpha.10"),
        ("1.0.1-rc.1", ""),
        ("1.0.1", ""),
    ];
    for pair in order.windows(2) {
        let (low, high) = (identity(pair[0].0, pair[0].1), identity(pair[1].0, pair[1].1));
        assert!(super::super::substitutes::compare(&low, &high).is_lt(), "{pair:?}");
        assert!(super::super::substitutes::compare(&high, &low).is_gt(), "{pair:?}");
    }
}
