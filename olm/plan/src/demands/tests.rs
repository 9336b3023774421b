//! The verdict, compared with Kubernetes' escalation check: granted rules must be covered by held rules.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// `RuleAllows` of Kubernetes' RBAC authorizer.
fn allows(rule: &Rule, request: &AccessRequest) -> bool {
    let any = |list: &[String], wanted: &str| list.iter().any(|own| own == "*" || own == wanted);
    match request {
        AccessRequest::Path { verb, path } => {
            let matches =
                |own: &String| own == path || own.strip_suffix('*').is_some_and(|p| path.starts_with(p));
            any(&rule.verbs, verb) && rule.urls.iter().any(matches)
        }
        AccessRequest::Resource { verb, group, resource, name, .. } => {
            let sub = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
            let resources = &rule.resources;
            any(&rule.verbs, verb)
                && any(&rule.groups, group)
                && resources.iter().any(|own| own == "*" || own == resource || Some(own) == sub.as_ref())
                && (rule.names.is_empty() || name.as_ref().is_some_and(|name| rule.names.contains(name)))
        }
    }
}

/// `ruleCovers` of Kubernetes' escalation check, for a rule that was not split.
fn covers(own: &Rule, granted: &Rule) -> bool {
    let all = |own: &[String], granted: &[String]| {
        own.iter().any(|o| o == "*") || granted.iter().all(|g| own.contains(g))
    };
    let resource = |granted: &String| {
        own.resources.iter().any(|o| o == "*")
            || own.resources.contains(granted)
            || granted.split_once('/').is_some_and(|(_, sub)| own.resources.contains(&format!("*/{sub}")))
    };
    let url = |granted: &String| {
        own.urls.iter().any(|o| o == granted || o.strip_suffix('*').is_some_and(|p| granted.starts_with(p)))
    };
    let names = match granted.names.is_empty() {
        true => own.names.is_empty(),
        false => own.names.is_empty() || granted.names.iter().all(|name| own.names.contains(name)),
    };
    all(&own.verbs, &granted.verbs)
        && all(&own.groups, &granted.groups)
        && granted.resources.iter().all(resource)
        && granted.urls.iter().all(url)
        && names
}

fn judged(demands: &Demands, held: &[Rule]) -> Verdict {
    let mut answers = Answers::new();
    for _ in 0..6 {
        match demands.verdict(&answers) {
            Verdict::Undecided(requests) => {
                assert!(requests.iter().all(|request| !answers.contains_key(request)), "asked twice");
                answers.extend(requests.into_iter().map(|request| {
                    let allowed = held.iter().any(|rule| allows(rule, &request));
                    (request, allowed)
                }));
            }
            verdict => return verdict,
        }
    }
    panic!("it asks on");
}

fn words(all: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    proptest::sample::subsequence(all, 0..=most)
        .prop_map(|list| list.into_iter().map(str::to_owned).collect())
}

fn rule() -> impl Strategy<Value = Rule> {
    let resources = (
        words(&["get", "create", "escalate", "*"], 3),
        words(&["", "apps", RBAC, "*"], 2),
        words(&["pods", "pods/exec", "*/exec", "clusterroles", "*"], 3),
        words(&["a", "b"], 1),
    );
    let resources = resources.prop_map(|(verbs, groups, resources, names)| Rule {
        verbs,
        groups,
        resources,
        names,
        ..Rule::default()
    });
    let paths = (words(&["get", "*"], 1), words(&["/a", "/a/*", "/a/b", "*"], 2));
    let paths = paths.prop_map(|(verbs, urls)| Rule { verbs, urls, ..Rule::default() });
    prop_oneof![4 => resources, 1 => paths]
}

fn role(rules: &[Rule]) -> Value {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({ "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
                    "resourceNames": rule.names, "nonResourceURLs": rule.urls })
        })
        .collect();
    json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": { "name": "r" }, "rules": rules })
}

proptest! {
    /// A role is covered exactly when Kubernetes would let the same user write it.
    #[test]
    fn a_role_is_covered_where_kubernetes_lets_the_user_write_it(
        held in proptest::collection::vec(rule(), 0..4),
        granted in proptest::collection::vec(rule(), 0..3),
    ) {
        let mut demands = Demands::default();
        demands.apply(&role(&granted), false);
        let may = |verb: &str, name: Option<&str>| {
            let request = AccessRequest::resource(verb, RBAC, "clusterroles", name, None);
            held.iter().any(|rule| allows(rule, &request))
        };
        let parts: Vec<Rule> = granted.iter().flat_map(Rule::parts).collect();
        let covered = parts.iter().all(|part| held.iter().any(|own| covers(own, part)));
        let expected = may("create", None) && (may("escalate", Some("r")) || covered);
        let verdict = judged(&demands, &held);
        prop_assert_eq!(verdict == Verdict::Covered, expected, "{:?}", verdict);
    }
}

#[test]
fn a_cluster_administrator_is_recognised_by_two_questions() {
    let mut demands = Demands::default();
    (0..40)
        .for_each(|n| demands.apply(&role(&[Rule { names: vec![n.to_string()], ..Rule::default() }]), false));
    let Verdict::Undecided(asked) = demands.verdict(&Answers::new()) else { panic!("nothing is known yet") };
    assert_eq!(asked.len(), 2);
    let answers = asked.into_iter().map(|request| (request, true)).collect();
    assert_eq!(demands.verdict(&answers), Verdict::Covered);
}

#[test]
fn what_is_missing_is_named_with_what_needs_it() {
    let all = |text: &str| vec![text.to_owned()];
    let secrets = Rule { verbs: all("get"), groups: all(""), resources: all("secrets"), ..Rule::default() };
    let mut demands = Demands::default();
    demands.apply(&role(&[secrets]), false);
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": "b" },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "elsewhere" },
    });
    demands.apply(&binding, true);
    let Verdict::Lacking(missing) = judged(&demands.clone().resolved(), &[]) else { panic!("it is covered") };
    let text = missing[0].describe(&Identity::named("system:serviceaccount:ns:gitops"));
    assert_eq!(
        text,
        "ServiceAccount ns/gitops does not hold these permissions cluster-wide: create \
            clusterroles.rbac.authorization.k8s.io, patch clusterrolebindings.rbac.authorization.k8s.io, get \
            secrets, bind clusterroles.rbac.authorization.k8s.io named elsewhere (required for: create \
            clusterroles r, patch clusterrolebindings b, ClusterRole r grants get secrets, \
            ClusterRoleBinding b binds ClusterRole elsewhere, whose rules are unknown)"
    );
}
