//! Cases 43 to 45: `olm.constraint`, its rules, and constraints of the cluster's administrator.

use olm_constraint::Constraint;
use olm_resolver::{Code, Range};
use serde_json::{Value, json};

use crate::world::build::{gvk_value, package_value};
use crate::world::rng::Rng;
use crate::world::{B, World, b};

fn gvk(kind: &str) -> Value {
    json!({ "gvk": gvk_value(kind) })
}

/// bar has the constraint on foo.
fn bar(constraint: &Value, bundles: &[B]) -> World {
    let mut bundles = bundles.to_vec();
    for i in 1..bundles.len() {
        let before = bundles[i - 1].entry.name.clone();
        bundles[i].entry.replaces = Some(before);
    }
    // the order of entries in a catalog has no effect
    Rng::new(7).shuffle(&mut bundles);
    World::new()
        .channel("cat", "bar", "stable", &[b("bar.v1", "1.0.0").constraint(constraint)])
        .channel("cat", "foo", "stable", &bundles)
        .sub("bar", "stable")
}

fn foo(version: &str, kinds: &[&str]) -> B {
    b(&format!("foo.v{version}"), version).provides(kinds)
}

/// All of several, any of several, none of several; each is evaluated on one bundle. An unknown kind of
/// constraint is rejected.
#[test]
fn case_43_compound_constraints() {
    let three = || {
        [foo("0.99.0", &["g1", "g2", "g3"]), foo("1.0.0", &["g2", "g3"]), foo("1.0.1", &["g1", "g2", "g3"])]
    };
    let all = json!({ "failureMessage": "all of them", "all": { "constraints": [
        { "package": package_value("foo >=1.0.0") }, gvk("g1"), gvk("g2") ] } });
    assert_eq!(bar(&all, &three()).installs(), ["bar.v1", "foo.v1.0.1"]);
    let any = json!({ "any": { "constraints": [gvk("g1"), gvk("g2")] } });
    assert_eq!(bar(&any, &three()).installs(), ["bar.v1", "foo.v1.0.1"]);
    let none = json!({ "all": { "constraints": [
        gvk("g0"), { "not": { "constraints": [gvk("g1"), gvk("g2")] } } ] } });
    let growing =
        [foo("0.99.0", &["g0"]), foo("1.0.0", &["g0", "g1", "g2"]), foo("1.0.1", &["g0", "g1", "g2", "g3"])];
    assert_eq!(bar(&none, &growing).installs(), ["bar.v1", "foo.v0.99.0"]);
    // an unmet constraint is reported in the author's words
    let text = bar(&all, &[foo("0.9.0", &["g1", "g2"])]).refused().text(300);
    assert!(text.contains("all of them"), "{text}");
    let error = Constraint::parse(&json!({ "unknown": { "a": "b" } })).unwrap_err().to_string();
    assert!(error.contains("unknown field \"unknown\""), "{error}");
}

/// A rule over the properties of the other bundle, with the comparison of versions that OLM adds to the
/// language.
#[test]
fn case_44_cel_constraints() {
    let has = |kind: &str| {
        format!(
            "properties.exists(p, p.type == 'olm.gvk' && p.value == {{'group': 'g', 'version': 'v', 'kind': '{kind}'}})"
        )
    };
    let world = |rule: &str, message: &str| {
        World::new()
            .channel("cat", "test", "stable", &[b("opA", "1.0.0").cel(rule, message)])
            .channel(
                "cat",
                "another-package",
                "stable",
                &[
                    b("opB.1.0.0", "1.0.0").provides(&["k"]),
                    b("opB.1.0.1", "1.0.1").replaces("opB.1.0.0").provides(&["k"]),
                    b("opB.1.0.2", "1.0.2").replaces("opB.1.0.1").provides(&["k"]),
                ],
            )
            .sub("test", "stable")
    };
    assert_eq!(world(&has("k"), "gvk-constraint").installs(), ["opA", "opB.1.0.2"]);
    let text = world(&has("k2"), "gvk2-constraint").refused().text(300);
    assert!(text.contains("gvk2-constraint"), "{text}");
    let rule = "properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'another-package' \
                && (semver_compare(p.value.version, '1.0.1') == 0))";
    assert_eq!(world(rule, "package-constraint").installs(), ["opA", "opB.1.0.1"]);
}

/// The administrator allows some packages only. Installed operators are not affected.
#[test]
fn case_45_runtime_constraints() {
    let allow = |packages: &[&str]| {
        let list: Vec<Value> =
            packages.iter().map(|p| json!({ "package": package_value(&format!("{p} >=0.0.0")) })).collect();
        let message = format!("{} are white listed", packages.join(" and "));
        Constraint::parse(&json!({ "failureMessage": message, "any": { "constraints": list } })).unwrap()
    };
    let world = || {
        World::new()
            .channel("cat", "test-package", "stable", &[b("opA", "1.0.0").requires(&["k"])])
            .channel("cat", "another", "stable", &[b("opB", "1.0.0").provides(&["k"])])
            .channel("cat", "third", "stable", &[b("opC", "1.0.0").provides(&["k"])])
            .existing("outsider", &b("opD", "1.0.0"), None)
            .sub("test-package", "stable")
    };
    assert_eq!(world().installs(), ["opA", "opB"]);
    let mut allowed = world();
    allowed.facts.policy.push(allow(&["test-package", "third"]));
    assert_eq!(allowed.installs(), ["opA", "opC"]);
    let mut without = world();
    without.facts.policy.push(allow(&["another"]));
    let text = without.refused().text(300);
    assert!(text.contains("another are white listed"), "{text}");
    // the version of Kubernetes excludes in the same way
    let mut old = world().kubernetes("1.30.0");
    let last = old.catalogs[0].1.packages.get_mut("another").unwrap();
    last.bundles[0].min_kube_version = "1.31.0".parse().ok();
    assert_eq!(old.installs(), ["opA", "opC"]);
    let refused = World::new()
        .channel("cat", "p", "stable", &[b("p.v1", "1.0.0").kube("1.31.0")])
        .kubernetes("1.30.0")
        .sub("p", "stable")
        .refused();
    assert_eq!(refused.code, Code::KubernetesTooOld);
    // and so does a range of one package
    let mut pinned = world();
    pinned.facts.policy.push(Constraint::package("test-package", Range::parse("<1.0.0").unwrap()));
    assert!(pinned.resolve().items[0].is_err());
}
