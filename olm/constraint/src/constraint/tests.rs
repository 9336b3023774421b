use olm_version::Version;
use serde_json::{Value, json};

use super::*;
use crate::Property;

fn gvk(kind: &str) -> Gvk {
    Gvk::new("g", "v", kind)
}

/// A bundle of package foo.
struct Foo {
    version: Version,
    provides: Vec<Gvk>,
    labels: Vec<String>,
    properties: Vec<Property>,
}

fn foo(version: &str, kinds: &[&str]) -> Foo {
    let provides: Vec<Gvk> = kinds.iter().map(|kind| gvk(kind)).collect();
    let mut properties =
        vec![Property::new("olm.package", &json!({"packageName": "foo", "version": version}))];
    properties.extend(provides.iter().map(|gvk| Property::new("olm.gvk", &json!(gvk))));
    Foo { version: version.parse().expect("version"), provides, labels: vec!["fast".to_owned()], properties }
}

impl Foo {
    fn subject(&self) -> Subject<'_> {
        Subject {
            package: Some("foo"),
            version: Some(&self.version),
            provides: &self.provides,
            labels: &self.labels,
            properties: &self.properties,
        }
    }
}

fn parse(value: &Value) -> Constraint {
    Constraint::parse(value).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn api(kind: &str) -> Value {
    json!({"gvk": {"group": "g", "version": "v", "kind": kind}})
}

fn package(range: &str) -> Value {
    json!({"package": {"packageName": "foo", "versionRange": range}})
}

fn met<'a>(constraint: &Value, bundles: &'a [Foo]) -> Vec<&'a Version> {
    let constraint = parse(constraint);
    bundles.iter().filter(|foo| constraint.met_by(&foo.subject())).map(|foo| &foo.version).collect()
}

fn versions(texts: &[&str]) -> Vec<Version> {
    texts.iter().map(|text| text.parse().expect("version")).collect()
}

#[track_caller]
fn assert_met(constraint: &Value, bundles: &[Foo], expected: &[&str]) {
    assert_eq!(met(constraint, bundles), versions(expected).iter().collect::<Vec<_>>(), "{constraint}");
}

#[test]
fn all_any_and_not_are_evaluated_on_one_bundle() {
    // given the bundles of upstream's test of `all`
    let bundles =
        [foo("0.99.0", &["g1", "g2", "g3"]), foo("1.0.0", &["g2", "g3"]), foo("1.0.1", &["g1", "g2", "g3"])];
    assert_met(
        &json!({"all": {"constraints": [package(">=1.0.0"), api("g1"), api("g2")]}}),
        &bundles,
        &["1.0.1"],
    );
    assert_met(
        &json!({"any": {"constraints": [api("g1"), package("1.0.0")]}}),
        &bundles,
        &["0.99.0", "1.0.0", "1.0.1"],
    );
    assert_met(&json!({"any": {"constraints": [api("g1"), api("g9")]}}), &bundles, &["0.99.0", "1.0.1"]);
    assert_met(&json!({"not": {"constraints": [api("g1"), api("g9")]}}), &bundles, &["1.0.0"]);
    // a bundle is of one package
    let other = json!({"package": {"packageName": "bar", "versionRange": ">=0.0.0"}});
    assert_met(&json!({"all": {"constraints": [package(">=0.0.0"), other]}}), &bundles, &[]);

    // given the bundles of upstream's test of `not`
    let bundles =
        [foo("0.99.0", &["g0"]), foo("1.0.0", &["g0", "g1", "g2"]), foo("1.0.1", &["g0", "g1", "g2", "g3"])];
    let not = json!({"not": {"constraints": [api("g1"), api("g2")]}});
    assert_met(&json!({"all": {"constraints": [api("g0"), not]}}), &bundles, &["0.99.0"]);
    let both = json!({"all": {"constraints": [api("g1"), api("g3")]}});
    assert_met(&json!({"not": {"constraints": [both]}}), &bundles, &["0.99.0", "1.0.0"]);
}

#[test]
fn cel_rules_choose_by_properties() {
    let bundles = [foo("1.0.0", &["k"]), foo("1.0.1", &["k"]), foo("1.0.2", &["other"])];
    let cel = |rule: &str| json!({"failureMessage": "no luck", "cel": {"rule": rule}});
    assert_met(
        &cel(
            "properties.exists(p, p.type == 'olm.gvk' && p.value == {'group': 'g', 'version': 'v', 'kind': 'k'})",
        ),
        &bundles,
        &["1.0.0", "1.0.1"],
    );
    let named = "properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'foo' && \
                 (semver_compare(p.value.version, '1.0.1') == 0))";
    assert_met(&cel(named), &bundles, &["1.0.1"]);
    // a rule that fails does not hold, so `not` of it does
    let fails = cel("properties[0].value.missing == 1");
    assert_met(&fails, &bundles, &[]);
    assert_met(&json!({"not": {"constraints": [fails]}}), &bundles, &["1.0.0", "1.0.1", "1.0.2"]);
}

#[test]
fn unknown_facts_of_a_bundle_satisfy_nothing() {
    let nothing = Subject::default();
    let any = Range::parse(">=0.0.0").expect("range");
    for constraint in [Constraint::api(gvk("k")), Constraint::package("foo", any), Constraint::label("fast")]
    {
        assert!(!constraint.met_by(&nothing), "{constraint}");
    }
    assert!(Constraint::label("fast").met_by(&foo("1.0.0", &[]).subject()));
    assert!(!Constraint::label("slow").met_by(&foo("1.0.0", &[]).subject()));
}

#[test]
fn keys_cover_every_satisfying_bundle() {
    let keys = |value: &Value| {
        let constraint = parse(value);
        constraint.keys().map(|keys| {
            let kinds: Vec<String> = keys.apis.iter().map(|gvk| gvk.kind.clone()).collect();
            (kinds.join(" "), keys.packages.into_iter().collect::<Vec<_>>().join(" "))
        })
    };
    let some = |apis: &str, packages: &str| Some((apis.to_owned(), packages.to_owned()));
    let cel = json!({"cel": {"rule": "true"}});
    let not = json!({"not": {"constraints": [api("b")]}});
    assert_eq!(keys(&api("a")), some("a", ""));
    assert_eq!(keys(&package("1.0.0")), some("", "foo"));
    assert_eq!(
        keys(&json!({"any": {"constraints": [api("a"), package("1.0.0"), api("b")]}})),
        some("a b", "foo")
    );
    assert_eq!(keys(&json!({"all": {"constraints": [api("a"), cel, not]}})), some("a", ""));
    // an alternative without keys makes the whole choice unbounded
    assert_eq!(keys(&json!({"any": {"constraints": [api("a"), cel]}})), None);
    for anywhere in [&not, &cel, &json!({"all": {"constraints": [not, cel]}})] {
        assert_eq!(keys(anywhere), None, "{anywhere}");
    }
    assert_eq!(Constraint::label("a").keys(), None);
    let constraint = parse(&package("1.0.0"));
    assert_eq!(constraint.packages(), Some(BTreeSet::from(["foo"])));
    assert_eq!(constraint.apis(), Some(BTreeSet::new()));
}

#[test]
fn constraints_read_as_one_line() {
    for (value, text) in [
        (api("K"), "API K (g/v)"),
        (package(">=1.0.0 <2.0.0"), "package foo >=1.0.0 <2.0.0"),
        (
            json!({"failureMessage": "m", "all": {"constraints": [package(">=1.0.0"), api("K")]}}),
            "all of (package foo >=1.0.0, API K (g/v))",
        ),
        (json!({"any": {"constraints": [api("K"), api("L")]}}), "any of (API K (g/v), API L (g/v))"),
        (json!({"not": {"constraints": [api("K")]}}), "not (API K (g/v))"),
        (json!({"not": {"constraints": [api("K"), api("L")]}}), "none of (API K (g/v), API L (g/v))"),
        (
            json!({"any": {"constraints": [api("K"), {"not": {"constraints": [package("1.0.0")]}}]}}),
            "any of (API K (g/v), not (package foo 1.0.0))",
        ),
        (json!({"cel": {"rule": "size(properties)\n\t> 3"}}), "cel: size(properties) > 3"),
    ] {
        assert_eq!(parse(&value).to_string(), text);
    }
    assert_eq!(Constraint::label("a\u{1b}[31m\nb").to_string(), "label a[31m b");
}

#[test]
fn order_agrees_with_equality() {
    let cel = json!({"cel": {"rule": "true"}});
    let not = json!({"not": {"constraints": [api("a")]}});
    let values = [
        api("a"),
        api("b"),
        package("1.0.0"),
        package("2.0.0"),
        json!({"all": {"constraints": [api("a")]}}),
        json!({"any": {"constraints": [api("a")]}}),
        json!({"any": {"constraints": [api("a"), api("b")]}}),
        not,
        cel,
    ];
    let sorted: Vec<Constraint> = values.iter().map(parse).collect();
    let mut constraints: Vec<Constraint> = values.iter().rev().map(parse).collect();
    constraints.sort();
    assert_eq!(constraints, sorted);
    for (a, one) in sorted.iter().enumerate() {
        for (b, other) in sorted.iter().enumerate() {
            assert_eq!(one.cmp(other), a.cmp(&b), "{one} {other}");
            assert_eq!(one == other, a == b, "{one} {other}");
        }
    }
    let mut with_message = sorted[0].clone();
    with_message.message = Some("m".to_owned());
    assert_ne!(with_message, sorted[0]);
    assert_ne!(with_message.cmp(&sorted[0]), Ordering::Equal);
}
