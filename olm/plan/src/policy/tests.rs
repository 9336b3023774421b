use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::preflight::Access;

fn policy(name: &str, spec: Value) -> Arc<InstallPolicy> {
    let spec = serde_json::from_value(spec).unwrap();
    Arc::new(InstallPolicy::new(name, spec))
}

fn labels(list: &[(&str, &str)]) -> Labels {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn held(specs: &[Value]) -> Policies {
    let all = specs.iter().enumerate().map(|(at, spec)| policy(&format!("p{at}"), spec.clone()));
    Policies::of(all, Some(&Labels::new()))
}

fn role(kind: &str, rules: Value) -> Value {
    let mut role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": { "name": "thing" }, "rules": rules });
    if kind == "Role" {
        role["metadata"]["namespace"] = json!("ns");
    }
    role
}

fn binding(kind: &str, to: (&str, &str)) -> Value {
    let mut binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": { "name": "thing" }, "roleRef": { "kind": to.0, "name": to.1 } });
    if kind == "RoleBinding" {
        binding["metadata"]["namespace"] = json!("ns");
    }
    binding
}

fn judge(policies: &Policies, package: &str, channel: &str, rights: &[Right], high: usize) -> Vec<String> {
    let catalog = CatalogRef::new("olm", "community");
    let judged = PolicyInput { catalog: &catalog, package, channel, rights, high };
    policies
        .findings(&judged)
        .into_iter()
        .map(|finding| format!("{}: {}", finding.code, finding.text))
        .collect()
}

#[test]
fn a_namespace_is_held_to_every_policy_that_selects_it() {
    let all = || {
        [
            policy("all", json!({ "approvals": { "high": 2 } })),
            policy("dev", json!({ "namespaceSelector": { "matchLabels": { "stage": "dev" } } })),
            policy(
                "teams",
                json!({ "namespaceSelector": { "matchExpressions": [
                    { "key": "team", "operator": "Exists" }, { "key": "stage", "operator": "NotIn", "values": ["prod"] } ] } }),
            ),
        ]
    };
    let held = |list: &[(&str, &str)]| -> Vec<String> {
        Policies::of(all(), Some(&labels(list))).iter().map(|policy| name_of(policy)).collect()
    };
    assert_eq!(held(&[]), ["all"]);
    assert_eq!(held(&[("stage", "dev")]), ["all", "dev"]);
    assert_eq!(held(&[("stage", "dev"), ("team", "a")]), ["all", "dev", "teams"]);
    assert_eq!(held(&[("stage", "prod"), ("team", "a")]), ["all"]);
    // where the labels are unknown, all apply
    assert_eq!(Policies::of(all(), None).iter().count(), 3);
}

#[test]
fn every_policy_must_allow_the_package() {
    let etcd = json!({ "allow": [
        { "catalogs": [{ "namespace": "olm", "name": "community" }], "packages": ["etcd", "cert-*"] },
        { "packages": ["vault"], "channels": ["stable*"] } ] });
    let policies = held(std::slice::from_ref(&etcd));
    assert_eq!(judge(&policies, "etcd", "alpha", &[], 0), [""; 0]);
    assert_eq!(judge(&policies, "cert-manager", "", &[], 0), [""; 0]);
    assert_eq!(judge(&policies, "vault", "stable-1", &[], 0), [""; 0]);
    assert_eq!(
        judge(&policies, "vault", "alpha", &[], 0),
        ["PolicyDenies: InstallPolicy p0 does not allow channel alpha of package vault (spec.allow)"]
    );
    assert_eq!(
        judge(&policies, "kafka", "stable", &[], 0),
        ["PolicyDenies: InstallPolicy p0 does not allow package kafka of catalog olm/community (spec.allow)"]
    );
    // a second policy removes, and never adds
    let both = held(&[etcd, json!({ "allow": [{ "packages": ["vault", "kafka"] }] })]);
    assert_eq!(judge(&both, "etcd", "alpha", &[], 0).len(), 1);
    assert_eq!(judge(&both, "kafka", "alpha", &[], 0).len(), 1);
    assert_eq!(judge(&both, "vault", "stable", &[], 0), [""; 0]);
    // a catalog of the same name in another namespace is a different one
    let catalog = CatalogRef::new("team", "community");
    let judged = PolicyInput { catalog: &catalog, package: "etcd", channel: "alpha", rights: &[], high: 0 };
    assert_eq!(policies.findings(&judged).len(), 1);
}

#[test]
fn a_denied_right_is_found_in_whatever_grants_a_part_of_it() {
    let secrets = json!({ "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"] });
    let cases = [
        (
            secrets.clone(),
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets"] }),
            true,
        ),
        (secrets.clone(), json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }), true),
        (
            secrets.clone(),
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"] }),
            true,
        ),
        (secrets.clone(), json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"] }), false),
        (secrets, json!({ "verbs": ["get"], "apiGroups": ["other"], "resources": ["secrets"] }), false),
        (
            json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["pods/exec"] }),
            json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["*/exec"] }),
            true,
        ),
        (
            json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["pods/exec"] }),
            json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["pods"] }),
            false,
        ),
        (
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"] }),
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["b"] }),
            false,
        ),
        (
            json!({ "verbs": ["get"], "nonResourceURLs": ["/metrics"] }),
            json!({ "verbs": ["get"], "nonResourceURLs": ["/*"] }),
            true,
        ),
        (
            json!({ "verbs": ["get"], "nonResourceURLs": ["/metrics"] }),
            json!({ "verbs": ["get"], "nonResourceURLs": ["/healthz"] }),
            false,
        ),
    ];
    for (denied, granted, wanted) in cases {
        let policies = held(&[json!({ "deny": { "rights": [denied] } })]);
        let found = judge(&policies, "etcd", "a", &rights_of([&role("Role", json!([granted]))]), 0);
        assert_eq!(!found.is_empty(), wanted, "{denied} {granted}: {found:?}");
    }
}

#[test]
fn the_scope_of_a_denied_right_and_roles_of_others() {
    let secrets = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"] });
    let mut cluster = secrets.clone();
    cluster["scope"] = json!("Cluster");
    let (any, cluster) = (
        held(&[json!({ "deny": { "rights": [secrets] } })]),
        held(&[json!({ "deny": { "rights": [cluster] } })]),
    );
    let found = |policies: &Policies, objects: &[Value]| policies.denied(&rights_of(objects)).len();
    let (own, all) = (role("Role", json!([secrets])), role("ClusterRole", json!([secrets])));
    assert_eq!(
        (found(&any, std::slice::from_ref(&own)), found(&cluster, std::slice::from_ref(&own))),
        (1, 0)
    );
    assert_eq!(
        (found(&any, std::slice::from_ref(&all)), found(&cluster, std::slice::from_ref(&all))),
        (1, 1)
    );
    // its own role is checked once; the rights of a foreign role are unknown
    assert_eq!(found(&any, &[own, binding("RoleBinding", ("Role", "thing"))]), 1);
    let foreign = binding("ClusterRoleBinding", ("ClusterRole", "cluster-admin"));
    let text = &any.denied(&rights_of([&foreign]))[0].text;
    assert!(text.contains("binds ClusterRole cluster-admin, which is not part of the bundle"), "{text}");
    assert_eq!(found(&cluster, &[foreign]), 1);
    assert_eq!(found(&cluster, &[binding("RoleBinding", ("ClusterRole", "admin"))]), 0);
    // servers of aggregated APIs are bound to these
    assert_eq!(found(&any, &[binding("ClusterRoleBinding", ("ClusterRole", "system:auth-delegator"))]), 0);
    // an aggregated role may contain any right
    let mut aggregate = role("ClusterRole", json!([]));
    aggregate["aggregationRule"] = json!({ "clusterRoleSelectors": [] });
    assert_eq!(found(&any, &[aggregate]), 1);
}

#[test]
fn high_rights_take_two_approvers_where_a_policy_requires_them() {
    let policies = held(&[json!({ "approvals": { "high": 1 } }), json!({ "approvals": { "high": 2 } })]);
    assert_eq!(judge(&policies, "etcd", "a", &[], 0), [""; 0]);
    assert_eq!(
        judge(&policies, "etcd", "a", &[], 3),
        ["SecondApproverNeeded: the plan grants 3 HIGH rights and InstallPolicy p1 requires 2 different \
                approvers (spec.approvals.high)"]
    );
}

#[test]
fn only_an_entry_that_names_catalogs_and_packages_lends_rights() {
    let entry = |entry: Value| held(&[json!({ "allow": [entry] })]);
    let catalogs = json!([{ "namespace": "olm", "name": "community" }]);
    let lends =
        |policies: &Policies| !policies.lending(&CatalogRef::new("olm", "community"), "etcd", "a").is_empty();
    assert!(lends(&entry(json!({ "catalogs": catalogs, "packages": ["etcd"], "authority": "Policy" }))));
    assert!(!lends(&entry(json!({ "catalogs": catalogs, "packages": ["etcd"] }))));
    assert!(!lends(&entry(json!({ "packages": ["etcd"], "authority": "Policy" }))));
    assert!(!lends(&entry(json!({ "catalogs": catalogs, "authority": "Policy" }))));
    // without known labels, a policy selects no namespace to lend to
    let spec = json!({ "allow": [{ "catalogs": catalogs, "packages": ["etcd"], "authority": "Policy" }] });
    assert!(!lends(&Policies::of([policy("p", spec)], None)));
}

#[test]
fn a_version_that_was_written_by_hand_is_on_no_list() {
    let secrets = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"] });
    let rights = rights_of([&role("Role", json!([secrets]))]);
    assert_eq!(held(&[json!({ "allow": [{ "packages": ["*"] }] })]).by_hand(&[]).len(), 1);
    assert_eq!(held(&[json!({ "deny": { "rights": [secrets] } })]).by_hand(&rights).len(), 1);
    assert_eq!(held(&[json!({ "approvals": { "high": 2 } })]).by_hand(&rights).len(), 0);
}

fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(of, 1..=of.len().min(2))
}

fn rules() -> impl Strategy<Value = Value> {
    (
        words(&["get", "list", "*"]),
        words(&["", "apps", "*"]),
        words(&["pods", "pods/exec", "*/exec", "secrets", "*"]),
        any::<bool>(),
    )
        .prop_map(|(verbs, groups, resources, named)| {
            let mut rule = json!({ "verbs": verbs, "apiGroups": groups, "resources": resources });
            if named {
                rule["resourceNames"] = json!(["a"]);
            }
            rule
        })
}

fn specs() -> impl Strategy<Value = Value> {
    let entry = (words(&["etcd", "e*", "kafka"]), prop::option::of(words(&["stable", "alpha"]))).prop_map(
        |(packages, channels)| match channels {
            Some(channels) => json!({ "packages": packages, "channels": channels }),
            None => json!({ "packages": packages }),
        },
    );
    prop_oneof![
        prop::collection::vec(entry, 1..3).prop_map(|allow| json!({ "allow": allow })),
        prop::collection::vec(rules(), 1..3).prop_map(|rights| json!({ "deny": { "rights": rights } })),
        (1..3).prop_map(|high| json!({ "approvals": { "high": high } })),
    ]
}

proptest! {
    /// Policies restrict: with one more, all previous findings remain.
    #[test]
    fn another_policy_never_allows_more(
        policies in prop::collection::vec(specs(), 0..3),
        other in specs(),
        granted in rules(),
        high in 0usize..3,
    ) {
        let rights = rights_of([&role("ClusterRole", json!([granted]))]);
        let denials = |specs: &[Value]| {
            let found = judge(&held(specs), "etcd", "stable", &rights, high);
            (found.iter().filter(|text| text.starts_with("PolicyDenies")).count(), found.len())
        };
        let (denied, found) = denials(&policies);
        let more = [policies, vec![other]].concat();
        let (denied_too, found_too) = denials(&more);
        prop_assert!(denied_too >= denied && found_too >= found);
        prop_assert!(held(&more).lending(&CatalogRef::new("olm", "community"), "etcd", "stable").is_empty());
    }

    /// A rule that covers a part of a denied right, or is covered by it, overlaps it; overlap is symmetric.
    #[test]
    fn what_one_rule_covers_of_another_is_common_to_both(one in rules(), other in rules()) {
        let (one, other) = (Rule::of(&one), Rule::of(&other));
        prop_assert_eq!(one.overlaps(&other), other.overlaps(&one));
        prop_assert!(one.overlaps(&one));
        for (own, parts) in [(&one, other.parts()), (&other, one.parts())] {
            let access = Access::unknown().with_cluster(vec![own.clone()]);
            let covers = parts.iter().any(|part| access.lacks(std::slice::from_ref(part), None).unwrap().is_empty());
            prop_assert!(!covers || one.overlaps(&other), "{} {}", one, other);
        }
    }
}
