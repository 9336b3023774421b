//! Rights of callers and of the manager.

use olm_plan::{Access, Fact, FindingCode, Identity, Op, Principal, Rule, Severity, namespaces_to_review};
use serde_json::{Value, json};

use crate::world::{World, allow, config, everything, manager, principal};

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Rule {
    Rule::of(&json!({ "verbs": verbs, "apiGroups": groups, "resources": resources }))
}

const KINDS: &[(&str, &[&str])] = &[
    ("", &["configmaps", "secrets", "serviceaccounts", "services"]),
    ("apps", &["deployments"]),
    ("operators.coreos.com", &["clusterserviceversions", "operatorgroups"]),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("rbac.authorization.k8s.io", &["roles", "clusterroles", "rolebindings", "clusterrolebindings"]),
];

fn writing(left_out: &[(&str, &str)]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (group, resources) in KINDS {
        let kept: Vec<&str> =
            resources.iter().copied().filter(|r| !left_out.contains(&(*group, *r))).collect();
        rules.push(rule(&["create", "patch", "delete"], &[group], &kept));
    }
    rules
}

/// The manager's rights, without one resource.
pub(crate) fn all_but(group: &str, resource: &str) -> Vec<Rule> {
    let mut rules = writing(&[(group, resource)]);
    rules.push(rule(&["escalate", "bind"], &["rbac.authorization.k8s.io"], &["roles", "clusterroles"]));
    rules
}

/// The manager's rights, without the permission to grant rights that it lacks.
pub(crate) fn all_but_granting() -> Vec<Rule> {
    writing(&[])
}

#[test]
fn what_the_installer_lacks_is_named_with_the_role_that_gives_it() {
    let mut world = World::install(vec![config("1")], |_| {});
    let access = Access::unknown().with_cluster(all_but("", "configmaps"));
    world.facts.installer = Fact::Known(Principal { who: manager(), access, exact: true });
    // rights of the namespace are unknown: nothing is reported for them
    assert_eq!(
        world.only().text,
        "not checked: the permissions of ServiceAccount olm/olm-manager in namespace ns (the permissions are unknown)"
    );
    // once known, missing ones are reported
    let access = Access::unknown().with_cluster(all_but("", "configmaps")).with_namespace(
        "ns",
        [all_but("", "configmaps"), vec![rule(&["create"], &[""], &["configmaps"])]].concat(),
    );
    world.facts.installer = Fact::Known(Principal { who: manager(), access: access.clone(), exact: true });
    let finding = world.only();
    assert_eq!((finding.code, finding.severity), (FindingCode::InstallerLacksRights, Severity::Block));
    assert_eq!(
        finding.text,
        "ServiceAccount olm/olm-manager may not patch configmaps in namespace ns, which the plan requires to \
            patch configmaps settings"
    );
    let fix = finding.fix.unwrap();
    let manifest =
        fix.strip_prefix("echo '").and_then(|rest| rest.strip_suffix("' | kubectl apply -f -")).unwrap();
    let list: Value = serde_json::from_str(manifest).unwrap();
    let [role, binding] = list["items"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&role["kind"], &role["metadata"]["namespace"]), (&json!("Role"), &json!("ns")));
    let rules = json!([{ "verbs": ["patch"], "apiGroups": [""], "resources": ["configmaps"] }]);
    assert_eq!(role["rules"], rules);
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(
        binding["subjects"],
        json!([{ "kind": "ServiceAccount", "namespace": "olm", "name": "olm-manager" }])
    );
    // derived from a role, the same does not block
    world.facts.installer = Fact::Known(Principal { who: manager(), access, exact: false });
    assert_eq!(world.codes(), [(FindingCode::InstallerLacksRights, Severity::Warn)]);
}

#[test]
fn what_is_there_already_needs_no_right_to_create() {
    let mut world = World::install(vec![config("1")], |_| {});
    world.live = world.applied();
    world.facts.installer = principal(manager(), vec![]);
    assert_eq!(world.findings(), []);
    // an upgrade creates the new version and deletes the old one
    let mut world = world.upgrade("1.0.1", vec![config("1")], |_| {});
    let mut rules = all_but("operators.coreos.com", "clusterserviceversions");
    rules.push(rule(&["create", "patch"], &["operators.coreos.com"], &["clusterserviceversions"]));
    world.facts.installer = principal(manager(), rules);
    let finding = world.only();
    assert!(
        finding.text.contains("may not delete clusterserviceversions.operators.coreos.com in namespace ns"),
        "{}",
        finding.text
    );
}

fn patch_nodes(csv: &mut Value) {
    allow(csv, json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }));
}

/// An operator that may patch nodes.
pub(crate) fn patching_nodes() -> World {
    World::install(vec![], patch_nodes)
}

#[test]
fn new_permissions_of_level_high_are_the_first_finding() {
    let high = |world: &World| {
        let findings = world.plan().findings;
        findings
            .iter()
            .position(|f| f.code == FindingCode::HighRightsAdded)
            .map(|at| (at, findings[at].text.clone()))
    };
    // given an upgrade to a version with two of them, of a deprecated package
    let secrets = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] });
    let mut world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |csv| {
        patch_nodes(csv);
        allow(csv, secrets);
    });
    world.resolved.deprecations = vec!["olm.package/thing: not maintained any more".to_owned()];
    // then they are the first finding, and the next one is the deprecation
    let text = "the plan grants 2 new permissions of level HIGH: ";
    assert!(high(&world).is_some_and(|(at, found)| at == 0 && found.starts_with(text)), "{:?}", high(&world));
    assert_eq!(world.codes(), [(FindingCode::DeprecatedPackage, Severity::Warn)]);
    // and an upgrade that keeps them has no such finding
    let kept = patching_nodes().upgrade("1.0.1", vec![], patch_nodes);
    assert_eq!(high(&kept), None);
    // nor has one that leaves them as they are, where more are of a lower level
    let config = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] });
    let more = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |csv| allow(csv, config));
    assert_eq!(high(&more), None);
}

#[test]
fn an_installer_grants_only_permissions_that_it_holds() {
    let mut world = patching_nodes();
    world.facts.installer = principal(manager(), all_but_granting());
    // the role and its binding grant the same, and one command helps with both
    let finding = world.only();
    assert_eq!(finding.code, FindingCode::InstallerCannotGrant);
    let fix = finding.fix.unwrap();
    assert!(fix.contains(r#""verbs":["escalate"]"#) && fix.contains(r#""verbs":["bind"]"#), "{fix}");
    // an account with the rights may grant them
    let mut rules = all_but_granting();
    // users get roles over the kinds of the bundle
    rules.push(rule(&["*"], &["example.com"], &["things"]));
    rules.push(rule(&["get"], &["apiextensions.k8s.io"], &["customresourcedefinitions"]));
    rules.push(rule(&["patch"], &[""], &["nodes"]));
    world.facts.installer = principal(manager(), rules.clone());
    assert_eq!(world.findings(), []);
    // and one that lacks a right gets a finding for that one
    rules.pop();
    world.facts.installer = principal(manager(), rules);
    let text = world.only().text;
    assert!(
        text.starts_with(
            "ServiceAccount olm/olm-manager would grant permissions that it does not hold: \
        patch nodes (by ClusterRole "
        ),
        "{text}"
    );
}

#[test]
fn a_user_needs_the_subscription_and_the_namespace_alone() {
    let mut world = World::install(vec![], |_| {});
    let subscriptions = |verb: &str| rule(&[verb], &["operators.coreos.com"], &["subscriptions"]);
    world.facts.user = principal(Identity::Caller, vec![subscriptions("create")]);
    // the plan waits for an approver who may write its objects
    assert!(world.codes().iter().all(|code| *code == (FindingCode::ApproverLacksRights, Severity::Warn)));
    // a new namespace is the user's to create
    world.live.clear();
    let codes: Vec<_> = world.codes().into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes.first(), Some(&FindingCode::UserLacksRights));
    assert_eq!(codes.last(), Some(&FindingCode::NamespaceMissing));
    // an upgrade changes a Subscription
    let mut world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |_| {});
    world.facts.user = principal(Identity::Caller, vec![subscriptions("patch")]);
    assert_eq!(world.findings(), []);
}

#[test]
fn rights_in_a_namespace_are_asked_for_where_those_of_the_cluster_do_not_suffice() {
    let ask = |rules: Vec<Rule>| {
        let world = World::install(vec![config("1")], |_| {});
        world.with_input(|input| namespaces_to_review(input, &Access::unknown().with_cluster(rules)))
    };
    assert!(ask(everything()).is_empty());
    assert!(ask(all_but("", "services")).is_empty());
    assert_eq!(ask(all_but("", "configmaps")).into_iter().collect::<Vec<_>>(), ["ns"]);
}

#[test]
fn t04_an_upgrade_that_adopts_a_role_demands_its_rules() {
    let mut world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |_| {});
    let plan = world.plan();
    assert!(plan.demands.is_empty(), "{:?}", plan.demands);
    // a role of that name exists before, and other subjects may be bound to it
    let role = plan.objects.iter().find(|o| o.gvk.starts_with("ClusterRole.") && o.op == Op::Create).unwrap();
    world.insert(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": role.name },
    }));
    let demands = world.plan().demands;
    assert!(demands.grants.iter().any(|grant| grant.by.name == role.name), "{demands:?}");
}
