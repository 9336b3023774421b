//! Grading, differences and score, as a table and over real bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::Bundle;

fn objects(cluster: bool, rules: Value) -> Vec<Value> {
    let (role, binding) =
        if cluster { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
    vec![
        json!({ "kind": role, "metadata": { "name": "r", "namespace": "ns" }, "rules": rules }),
        json!({ "kind": binding, "metadata": { "name": "b", "namespace": "ns" }, "roleRef": { "kind": role, "name": "r" } }),
        // a harmless role without bindings
        json!({ "kind": "ClusterRole", "metadata": { "name": "for-people" },
                "rules": [{ "apiGroups": ["other.example.com"], "resources": ["others"], "verbs": ["get"] }] }),
        json!({ "kind": "CustomResourceDefinition", "metadata": { "name": "mine.example.com" } }),
    ]
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

fn only(cluster: bool, rule: Value) -> PermissionRule {
    let objects = objects(cluster, json!([rule]));
    let rules = Rights::of(&objects).rules();
    rules.into_iter().next().unwrap()
}

#[test]
fn every_grade_of_the_table() {
    use Level::{High, Low, Med};
    const RBAC: &str = "rbac.authorization.k8s.io";
    const WEBHOOKS: &str = "admissionregistration.k8s.io";
    const CRDS: &str = "apiextensions.k8s.io";
    // group, resource, verb, over the cluster, over a namespace
    let table = [
        ("*", "*", "*", High, Med),
        (RBAC, "clusterroles", "escalate", High, High),
        (RBAC, "roles", "bind", High, High),
        ("", "users", "impersonate", High, High),
        ("", "nodes", "patch", High, Low),
        ("", "nodes/status", "update", High, Low),
        ("", "nodes/proxy", "get", High, Low),
        ("", "nodes", "list", Low, Low),
        (WEBHOOKS, "mutatingwebhookconfigurations", "update", High, Low),
        (WEBHOOKS, "validatingwebhookconfigurations", "create", High, Low),
        (WEBHOOKS, "validatingwebhookconfigurations", "get", Low, Low),
        (CRDS, "customresourcedefinitions", "update", High, Low),
        (CRDS, "customresourcedefinitions", "list", Low, Low),
        ("", "pods/exec", "create", High, Med),
        ("", "pods/attach", "create", High, Med),
        ("", "pods/portforward", "create", High, Med),
        ("", "pods/exec", "get", High, Med),
        ("", "serviceaccounts/token", "create", High, Med),
        (RBAC, "clusterroles", "create", High, Low),
        (RBAC, "clusterrolebindings", "delete", High, Low),
        (RBAC, "clusterroles", "get", Low, Low),
        (RBAC, "rolebindings", "create", Med, Med),
        (RBAC, "roles", "*", High, Med),
        (RBAC, "clusterroles", "*", High, Med),
        ("", "serviceaccounts", "*", High, Med),
        ("", "secrets", "get", High, Low),
        ("", "secrets", "list", High, Low),
        ("", "secrets", "patch", High, Low),
        ("", "secrets", "create", Low, Low),
        ("apps", "deployments", "create", Med, Low),
        ("apps", "deployments", "update", Low, Low),
        ("batch", "jobs", "create", Med, Low),
        ("", "pods", "create", Med, Low),
        ("batch", "pods", "create", Low, Low),
        ("example.com", "things", "*", Med, Med),
        ("example.com", "*", "get", Med, Med),
        ("example.com", "things", "get", Low, Low),
    ];
    for (group, resource, verb, over_cluster, over_namespace) in table {
        for (cluster, wanted) in [(true, over_cluster), (false, over_namespace)] {
            let found = only(cluster, rule(group, resource, &[verb]));
            assert_eq!(found.level, wanted, "{verb} {resource}.{group}, cluster {cluster}: {found:?}");
            assert_eq!(found.scope, if cluster { "cluster" } else { "ns" });
            // every level above LOW has a reason
            assert!(found.level == Low || found.reason.is_some(), "{found:?}");
        }
    }
}

#[test]
fn names_limit_some_rights_and_not_others() {
    let named = |group: &str, resource: &str, verb: &str, name: &str| {
        let mut rule = rule(group, resource, &[verb]);
        rule["resourceNames"] = json!([name]);
        let found = only(true, rule);
        (found.rule, found.level)
    };
    let crds = "customresourcedefinitions";
    assert_eq!(named("apiextensions.k8s.io", crds, "update", "mine.example.com").1, Level::Low);
    assert_eq!(named("apiextensions.k8s.io", crds, "update", "others.example.com").1, Level::High);
    assert_eq!(named("", "secrets", "get", "one"), ("get secrets \"one\"".to_owned(), Level::Low));
    // the single named webhook can be changed to receive everything
    let webhooks = "mutatingwebhookconfigurations";
    assert_eq!(named("admissionregistration.k8s.io", webhooks, "update", "w").1, Level::High);
}

#[test]
fn words_are_short() {
    assert_eq!(only(true, rule("*", "*", &["*"])).rule, "* everything");
    assert_eq!(only(true, rule("", "nodes", &["list", "get"])).rule, "get,list nodes");
    assert_eq!(only(true, rule("apps", "deployments", &["create"])).rule, "create deployments.apps");
    let url = json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] });
    assert_eq!(only(true, url).rule, "get /metrics");
}

fn reported(objects: &[Value]) -> Vec<(String, Level)> {
    Rights::of(objects).rules().into_iter().map(|r| (r.rule, r.level)).collect()
}

/// A role aggregated into `view` grants its rules to all subjects of `view`, bound or not.
#[test]
fn t06_roles_that_add_to_others_are_high() {
    let role = |labels: Value, rules: Value| json!({ "kind": "ClusterRole", "metadata": { "name": "r", "labels": labels }, "rules": rules });
    let to_view = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let found = reported(&[role(to_view.clone(), everything)]);
    assert_eq!(found, [("* everything, for all subjects of ClusterRole view".to_owned(), Level::High)]);
    let found = reported(&[role(to_view.clone(), json!([rule("", "configmaps", &["get"])]))]);
    assert_eq!(found, [("get configmaps, for all subjects of ClusterRole view".to_owned(), Level::High)]);
    // the bundle's own kinds are for its users
    let crd = json!({ "kind": "CustomResourceDefinition", "metadata": { "name": "mine.example.com" } });
    let own = role(
        to_view.clone(),
        json!([rule("example.com", "mine", &["get"]), rule("example.com", "mine/status", &["get"])]),
    );
    assert_eq!(reported(&[own, crd.clone()]), []);
    // a role that resembles one over a kind and grants more does not count as one
    let mut disguised =
        role(to_view, json!([rule("example.com", "mine", &["get"]), rule("", "secrets", &["get"])]));
    disguised["metadata"]["name"] = json!("mine.example.com-v1-view");
    disguised["metadata"]["labels"]["olm.opgroup.permissions/aggregate-to-1-view"] = json!("true");
    assert_eq!(reported(&[disguised, crd])[0].1, Level::High);
}

/// A role that aggregates others has rights that no plan shows.
#[test]
fn t06_roles_that_others_add_to_are_high() {
    let role = json!({ "kind": "ClusterRole", "metadata": { "name": "r" },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "a": "b" } }] } });
    let binding = json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "b" }, "roleRef": { "kind": "ClusterRole", "name": "r" } });
    for objects in [vec![role.clone()], vec![role, binding]] {
        assert_eq!(
            reported(&objects),
            [("all that other roles add to ClusterRole r".to_owned(), Level::High)]
        );
    }
}

/// An unbound role is graded as if it was bound; harmless rules are not reported.
#[test]
fn t06_roles_that_nothing_binds_are_graded() {
    let role = |rules: Value| [json!({ "kind": "ClusterRole", "metadata": { "name": "r" }, "rules": rules })];
    let found = reported(&role(json!([rule("", "secrets", &["get"]), rule("", "pods", &["get"])])));
    assert_eq!(found, [("get secrets, by ClusterRole r, which has no binding".to_owned(), Level::High)]);
    assert_eq!(reported(&role(json!([rule("", "pods", &["get"])]))), []);
}

/// Webhooks on everything, or on resources that grant rights, are HIGH unless they select.
#[test]
fn t06_webhooks_on_requests_of_others_are_high() {
    use Level::{High, Med};
    let level = |group: &str, resource: &str, namespaces: Value, objects: Value| {
        let rules = json!([{ "apiGroups": [group], "resources": [resource], "operations": ["CREATE"], "apiVersions": ["*"] }]);
        let webhook = json!({ "rules": rules, "namespaceSelector": namespaces, "objectSelector": objects });
        let objects = [
            json!({ "kind": "MutatingWebhookConfiguration", "metadata": { "name": "w" }, "webhooks": [webhook] }),
            json!({ "kind": "CustomResourceDefinition", "metadata": { "name": "mine.example.com" } }),
        ];
        reported(&objects).first().map(|(_, level)| *level)
    };
    const RBAC: &str = "rbac.authorization.k8s.io";
    let some = json!({ "matchLabels": { "a": "b" } });
    for (group, resource) in [
        ("*", "*"),
        ("", "*"),
        ("apps", "*/*"),
        ("", "pods"),
        ("", "namespaces"),
        (RBAC, "rolebindings"),
        (RBAC, "clusterrolebindings"),
    ] {
        assert_eq!(level(group, resource, json!(null), json!({})), Some(High), "{group} {resource}");
        assert_eq!(level(group, resource, json!(null), some.clone()), Some(Med), "{group} {resource}");
    }
    // cluster-scoped objects have no namespace
    assert_eq!(level(RBAC, "clusterrolebindings", some.clone(), json!({})), Some(High));
    assert_eq!(level("", "pods", some, json!({})), Some(Med));
    assert_eq!(level("apps", "deployments", json!({}), json!({})), Some(Med));
    assert_eq!(level("example.com", "mine", json!({}), json!({})), None);
}

#[test]
fn pods_that_reach_the_node_are_high() {
    let deployment = |pod: Value| {
        json!({ "kind": "Deployment", "metadata": { "name": "d", "namespace": "ns" },
                                          "spec": { "template": { "spec": pod } } })
    };
    let table = [
        (json!({ "hostNetwork": true }), "Deployment d uses hostNetwork"),
        (json!({ "hostPID": true }), "Deployment d uses hostPID"),
        (
            json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/etc" } }] }),
            "Deployment d mounts hostPath /etc",
        ),
        (
            json!({ "containers": [{ "securityContext": { "privileged": true } }] }),
            "Deployment d runs privileged",
        ),
        (
            json!({ "initContainers": [{ "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } } }] }),
            "Deployment d runs with capability SYS_ADMIN",
        ),
    ];
    for (pod, wanted) in table {
        let objects = [deployment(pod)];
        let rules = Rights::of(&objects).rules();
        assert_eq!(
            rules.iter().map(|r| (r.rule.as_str(), r.level)).collect::<Vec<_>>(),
            [(wanted, Level::High)]
        );
    }
    let harmless = [deployment(json!({ "hostNetwork": false, "containers": [{ "securityContext": {
        "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] } } }] }))];
    assert_eq!(Rights::of(&harmless).rules(), []);
}

#[test]
fn a_role_of_the_cluster_that_is_bound_counts() {
    let binding = |kind: &str, role: &str| {
        [json!({ "kind": kind, "metadata": { "name": "b", "namespace": "ns" },
                 "roleRef": { "kind": "ClusterRole", "name": role } })]
    };
    let level = |kind: &str, role: &str| Rights::of(&binding(kind, role)).rules()[0].level;
    assert_eq!(level("ClusterRoleBinding", "cluster-admin"), Level::High);
    assert_eq!(level("RoleBinding", "cluster-admin"), Level::Med);
    assert_eq!(level("ClusterRoleBinding", "system:auth-delegator"), Level::Low);
    assert_eq!(level("ClusterRoleBinding", "another"), Level::Med);
}

#[test]
fn what_a_wildcard_covered_before_is_not_new() {
    let old = objects(true, json!([rule("", "pods", &["*"]), rule("example.com", "*", &["get"])]));
    let new = objects(
        true,
        json!([
            rule("", "pods", &["get", "list"]),
            rule("example.com", "things", &["get"]),
            rule("", "nodes", &["patch"]),
        ]),
    );
    let (old, new) = (Rights::of(&old), Rights::of(&new));
    let texts = |list: Vec<PermissionRule>| list.into_iter().map(|r| r.rule).collect::<Vec<_>>();
    assert_eq!(texts(new.beyond(&old)), ["patch nodes"]);
    assert_eq!(texts(old.beyond(&new)), ["* pods", "get *.example.com"]);
    assert_eq!(texts(new.shared(&old)), ["get things.example.com", "get,list pods"]);
    // and a right over the cluster covers the same in a namespace
    let namespaced = objects(false, json!([rule("", "pods", &["get"])]));
    assert_eq!(texts(Rights::of(&namespaced).beyond(&old)), Vec::<String>::new());
}

#[test]
fn more_rights_than_the_limit_become_one_rule_of_level_high() {
    let many: Vec<String> = (0..200).map(|n| format!("x{n}")).collect();
    let huge = json!([{ "apiGroups": many, "resources": many, "verbs": many }]);
    let objects = objects(true, huge);
    let rules = Rights::of(&objects).rules();
    assert_eq!((rules[0].rule.as_str(), rules[0].level), ("more than 100000 rights", Level::High));
}

#[test]
fn a_higher_level_outweighs_any_number_of_lower_ones() {
    let of = |level: Level, reason: &str, n: usize| -> Vec<PermissionRule> {
        (0..n)
            .map(|i| PermissionRule {
                rule: format!("r{i}"),
                level,
                reason: Some(reason.to_owned()),
                scope: "cluster".into(),
            })
            .collect()
    };
    assert_eq!(score(&[]), 0);
    assert!(score(&of(Level::Med, "a", 1)) > score(&of(Level::Low, "", 5_000)));
    assert!(score(&of(Level::High, "a", 1)) > score(&of(Level::Med, "a", 5_000)));
    // repetitions do not change the score
    assert_eq!(score(&of(Level::High, "a", 1)), score(&of(Level::High, "a", 7)));
}

#[test]
fn a_percentile_is_the_share_below() {
    assert_eq!(percentile(5, &[]), None);
    assert_eq!(percentile(5, &[1, 2, 5, 9]), Some(50));
    assert_eq!(percentile(0, &[0, 0]), Some(0));
    assert_eq!(percentile(10, &[1, 2, 3]), Some(100));
}

fn strategy() -> impl Strategy<Value = Vec<Value>> {
    let verb = prop::sample::subsequence(vec!["*", "get", "list", "create", "patch", "bind"], 1..4);
    let group = prop::sample::subsequence(vec!["*", "", "apps", "example.com"], 1..3);
    let resource =
        prop::sample::subsequence(vec!["*", "pods", "pods/exec", "secrets", "nodes", "*/exec"], 1..4);
    let one = (verb, group, resource).prop_map(
        |(verbs, groups, resources)| json!({ "verbs": verbs, "apiGroups": groups, "resources": resources }),
    );
    (any::<bool>(), prop::collection::vec(one, 0..4))
        .prop_map(|(cluster, rules)| objects(cluster, json!(rules)))
}

proptest! {
    #[test]
    fn differences_add_up(old in strategy(), new in strategy()) {
        let (old, new) = (Rights::of(&old), Rights::of(&new));
        // the difference to itself is empty
        prop_assert_eq!(new.beyond(&new), vec![]);
        // new and shared rights together are complete: every level of the whole is in one of the two
        let parts: Vec<PermissionRule> = new.beyond(&old).into_iter().chain(new.shared(&old)).collect();
        prop_assert_eq!(score_of_levels(&parts), score_of_levels(&new.rules()));
        // a subset of the old rights is never an increase
        prop_assert!(new.beyond(&old).is_empty() || new.rules() != old.rules());
    }
}

/// The occurring reasons.
fn score_of_levels(rules: &[PermissionRule]) -> BTreeSet<(Level, Option<String>)> {
    rules.iter().map(|rule| (rule.level, rule.reason.clone())).collect()
}

/// How many of the newest real bundles have each reason, over all bundles of the shared data: a change of the
/// grading shows here.
#[test]
fn real_bundles_are_graded_as_counted() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var("OLM_SHARED_DATA").unwrap_or_else(|_| default.to_owned());
    let root = Path::new(&root).join("bundles/operators");
    if !root.exists() {
        println!(
            "skipped: grades of real bundles: {} is not there (OLM_SHARED_DATA names the folder)",
            root.display()
        );
        return;
    }
    let mut counts: BTreeMap<(Level, String), usize> = BTreeMap::new();
    let mut bundles = 0;
    for package in std::fs::read_dir(&root).unwrap() {
        for version in std::fs::read_dir(package.unwrap().path()).into_iter().flatten() {
            let Ok(bundle) = Bundle::from_dir(&version.unwrap().path()) else { continue };
            // cluster-wide where supported, so that no right is limited by a namespace
            let all = bundle.install_modes().supports(crate::InstallMode::AllNamespaces);
            let targets = if all { vec![] } else { vec!["operators".to_owned()] };
            let Some(objects) = super::score::grantors(&bundle, "operators", targets) else { continue };
            bundles += 1;
            let rules = Rights::of(&objects).rules();
            let reasons: BTreeSet<(Level, String)> =
                rules.into_iter().map(|r| (r.level, r.reason.unwrap_or_default())).collect();
            for reason in reasons {
                *counts.entry(reason).or_default() += 1;
            }
        }
    }
    let mut text = format!("{bundles} bundles\n");
    for ((level, reason), count) in &counts {
        text.push_str(&format!("{} {count} {reason}\n", level.as_str()));
    }
    assert_eq!(text.trim_end(), include_str!("tests/counts.txt").trim_end(), "{text}");
}
