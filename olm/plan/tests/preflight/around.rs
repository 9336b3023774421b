//! The environment of a plan's objects: the namespace, quotas, webhooks, other users.

use olm_plan::{Fact, FactsNeeded, FindingCode, RoleName, Severity, roles_needed, services_needed};
use serde_json::{Value, json};

use crate::world::{World, allow, config, namespace, pod};

pub(crate) fn quota(hard: Value, used: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "compute", "namespace": "ns" },
            "spec": { "hard": hard }, "status": { "hard": hard, "used": used } })
}

/// A mandatory webhook for every Deployment, without endpoints.
pub(crate) fn webhook(change: Value) -> World {
    let mut hook = json!({
        "name": "check.policy.example.com", "failurePolicy": "Fail",
        "clientConfig": { "service": { "namespace": "policy", "name": "check" } },
        "rules": [{ "operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"] }],
    });
    for (key, value) in change.as_object().unwrap() {
        hook[key] = value.clone();
    }
    let mut world = World::install(vec![], |_| {});
    world.facts.webhooks = Fact::Known(vec![json!({
        "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "policy" }, "webhooks": [hook] })]);
    world.facts.ready_services = [(("policy".to_owned(), "check".to_owned()), Fact::Known(false))].into();
    world
}

/// A namespace with a subject that has the rights of `edit`, and an operator that may patch nodes.
pub(crate) fn trap(subject: Value) -> World {
    let mut world = World::install(vec![], |csv| {
        allow(csv, json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"] }));
    });
    world.facts.role_bindings = Fact::Known(vec![json!({
        "metadata": { "name": "dev-edit", "namespace": "ns" }, "subjects": [subject],
        "roleRef": { "kind": "ClusterRole", "name": "edit" } })]);
    let edit = json!({ "rules": [
        { "apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["create", "get"] },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] } ] });
    world.facts.roles = [(RoleName { cluster: true, name: "edit".into() }, Fact::Known(edit))].into();
    world
}

#[test]
fn subjects_that_can_act_as_the_operator_are_named() {
    let finding = trap(json!({ "kind": "User", "name": "eve" })).only();
    assert_eq!((finding.code, finding.severity), (FindingCode::NamespaceTrap, Severity::Warn));
    assert_eq!(
        finding.text,
        "in the operator's namespace, these subjects can act as the operator, which may patch nodes: User eve \
            can create pods, read Secrets, run commands in pods (RoleBinding dev-edit)"
    );
    // the operator itself and parts of Kubernetes are not traps
    assert_eq!(trap(json!({ "kind": "ServiceAccount", "name": "thing", "namespace": "ns" })).findings(), []);
    assert_eq!(trap(json!({ "kind": "User", "name": "system:kube-scheduler" })).findings(), []);
    // an account of another namespace is
    let other = trap(json!({ "kind": "ServiceAccount", "name": "ci", "namespace": "build" })).only();
    assert!(other.text.contains("ServiceAccount build/ci"), "{}", other.text);
    // a role without access is not
    let mut world = trap(json!({ "kind": "User", "name": "eve" }));
    for role in world.facts.roles.values_mut() {
        *role = Fact::Known(
            json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["list"] }] }),
        );
    }
    assert_eq!(world.findings(), []);
    // and an operator without far-reaching rights is not a target
    let mut world = World::install(vec![], |_| {});
    let trapped = trap(json!({ "kind": "User", "name": "eve" }));
    (world.facts.role_bindings, world.facts.roles) = (trapped.facts.role_bindings, trapped.facts.roles);
    assert_eq!(world.findings(), []);
}

#[test]
fn a_role_that_may_not_be_read_is_not_checked() {
    let mut world = trap(json!({ "kind": "User", "name": "eve" }));
    for role in world.facts.roles.values_mut() {
        *role = Fact::Unknown("no right to get ClusterRole edit".into());
    }
    let finding = world.only();
    assert_eq!(finding.text, "not checked: the rules of ClusterRole edit (no right to get ClusterRole edit)");
}

#[test]
fn levels_of_the_namespace_act_by_their_mode() {
    let with = |labels: Value| {
        let mut world = World::install(vec![], |csv| pod(csv)["hostNetwork"] = json!(true));
        world.insert(namespace(labels));
        // a pod in the host network makes the operator's rights far-reaching, which is irrelevant here
        let findings = world.findings();
        findings.into_iter().filter(|f| f.code == FindingCode::PodSecurityViolation).collect::<Vec<_>>()
    };
    let label = |mode: &str| format!("pod-security.kubernetes.io/{mode}");
    assert_eq!(with(json!({})), []);
    let enforced = with(json!({ label("enforce"): "baseline", label("warn"): "baseline" }));
    assert_eq!(enforced.len(), 1, "{enforced:#?}");
    assert_eq!(enforced[0].severity, Severity::Block);
    assert!(
        enforced[0].text.ends_with("the namespace rejects them: hostNetwork: true"),
        "{}",
        enforced[0].text
    );
    assert_eq!(
        enforced[0].fix.as_deref(),
        Some("kubectl label namespace ns pod-security.kubernetes.io/enforce=privileged --overwrite")
    );
    assert_eq!(with(json!({ label("warn"): "restricted" }))[0].severity, Severity::Warn);
    assert_eq!(with(json!({ label("audit"): "baseline" }))[0].severity, Severity::Info);
    assert_eq!(with(json!({ label("enforce"): "privileged" })), []);
}

#[test]
fn quotas_count_what_the_plan_adds() {
    let with = |world: &mut World, hard: Value, used: Value| {
        world.facts.quotas = Fact::Known(vec![quota(hard, used)]);
        world.findings()
    };
    let mut world = World::install(vec![config("1")], |_| {});
    assert_eq!(
        with(
            &mut world,
            json!({ "pods": "1", "requests.cpu": "100m" }),
            json!({ "pods": "0", "requests.cpu": "0" })
        ),
        []
    );
    let short = with(
        &mut world,
        json!({ "requests.cpu": "150m", "count/configmaps": "3" }),
        json!({ "requests.cpu": "100m", "count/configmaps": "3" }),
    );
    assert_eq!(
        short[0].text,
        "the plan exceeds the quota: count/configmaps: 3 of 3 used, 1 needed; requests.cpu: 100m of 150m \
            used, 100m needed"
    );
    // the usage is not known yet
    assert_eq!(with(&mut world, json!({ "pods": "0" }), json!({})), []);
    // an upgrade runs one pod besides the old one for a while
    let mut world = World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |_| {});
    let short = with(&mut world, json!({ "pods": "1" }), json!({ "pods": "1" }));
    assert!(short[0].text.ends_with("pods: 1 of 1 used, 1 needed"), "{}", short[0].text);
    // and no new one without a change
    world.live = world.applied();
    assert_eq!(with(&mut world, json!({ "pods": "1" }), json!({ "pods": "1" })), []);
}

#[test]
fn quotas_are_held_to_their_scope_and_demand_amounts() {
    let mut world = World::install(vec![], |csv| drop(pod(csv)["containers"][0]["resources"].take()));
    let full = quota(json!({ "pods": "0", "cpu": "1" }), json!({ "pods": "0", "cpu": "0" }));
    let scoped = |scope: Value| {
        let mut quota = full.clone();
        quota["spec"]["scopes"] = scope;
        Fact::Known(vec![quota])
    };
    // nothing is specified, so these are BestEffort pods
    world.facts.quotas = scoped(json!(["NotBestEffort"]));
    assert_eq!(world.findings(), []);
    world.facts.quotas = scoped(json!(["BestEffort"]));
    let codes = world.codes();
    assert_eq!(
        codes,
        [(FindingCode::QuotaExceeded, Severity::Block), (FindingCode::QuotaExceeded, Severity::Warn)]
    );
    assert!(
        world.findings()[1].text.contains("container thing has no requests.cpu"),
        "{:#?}",
        world.findings()
    );
    // an unknown scope
    world.facts.quotas = scoped(json!(["Weekend"]));
    assert_eq!(world.codes(), [(FindingCode::NotChecked, Severity::Info)]);
}

#[test]
fn webhooks_matter_where_they_must_answer_for_the_plan() {
    let codes = |change: Value| webhook(change).codes();
    let blocked = [(FindingCode::WebhookUnavailable, Severity::Block)];
    assert_eq!(codes(json!({})), blocked);
    assert_eq!(codes(json!({ "failurePolicy": "Ignore" })), []);
    assert_eq!(
        codes(json!({ "matchConditions": [{ "name": "x", "expression": "false" }] })),
        [(FindingCode::WebhookUnavailable, Severity::Warn)]
    );
    let rules = |group: &str, resource: &str| json!({ "rules": [{ "operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource] }] });
    assert_eq!(codes(rules("apps", "statefulsets")), []);
    assert_eq!(codes(rules("apps", "deployments/scale")), []);
    // the Deployment creates the pods
    assert_eq!(codes(rules("", "pods")), blocked);
    assert_eq!(codes(rules("*", "*")), blocked);
    let selector = |key: &str, operator: &str| json!({ "namespaceSelector": { "matchExpressions": [{ "key": key, "operator": operator }] } });
    assert_eq!(codes(selector("policy", "Exists")), []);
    assert_eq!(codes(selector("kubernetes.io/metadata.name", "Exists")), blocked);
    assert_eq!(codes(json!({ "objectSelector": { "matchLabels": { "app": "other" } } })), []);
    // one that answers, and one in an unknown state
    let service = || ("policy".to_owned(), "check".to_owned());
    let mut world = webhook(json!({}));
    world.facts.ready_services = [(service(), Fact::Known(true))].into();
    assert_eq!(world.findings(), []);
    world.facts.ready_services =
        [(service(), Fact::Unknown("no right to list EndpointSlices in namespace policy".into()))].into();
    assert_eq!(world.codes(), [(FindingCode::NotChecked, Severity::Info)]);
    // once everything exists unchanged, nothing is written
    let mut world = webhook(json!({}));
    world.live = world.applied();
    assert_eq!(world.findings(), []);
}

/// An operator that runs these images, of which nodes have none.
fn running(images: &[&str]) -> World {
    let mut world = World::install(vec![], |csv| {
        let container = pod(csv)["containers"][0].clone();
        let containers = images.iter().enumerate().map(|(n, image)| {
            let mut container = container.clone();
            container["name"] = json!(format!("c{n}"));
            container["image"] = json!(image);
            container
        });
        pod(csv)["containers"] = containers.collect();
    });
    let needed = world.with_input(FactsNeeded::of).images;
    world.facts.images_on_nodes = needed.into_iter().map(|image| (image, Fact::Known(false))).collect();
    world
}

#[test]
fn images_that_no_registry_serves_are_warned_about_unless_a_node_has_them() {
    let images =
        ["localhost/a:1", "a:1", "acme/a", "quay.io/acme/a:1", "registry:5000/a", "localhost:5000/a:1"];
    let mut world = running(&images);
    // then those without a registry are findings, each with the image
    let findings = world.findings();
    let texts: Vec<&str> = findings.iter().map(|f| f.text.as_str()).collect();
    assert!(findings.iter().all(|f| f.code == FindingCode::ImageNotPullable), "{findings:#?}");
    assert!(findings.iter().all(|f| f.severity == Severity::Warn && f.subject == "Deployment ns/thing"));
    assert_eq!(texts.len(), 3, "{texts:#?}");
    assert!(texts[0].starts_with("image a:1 names no registry"), "{texts:#?}");
    assert!(texts[1].starts_with("image acme/a names no registry"), "{texts:#?}");
    assert!(texts[2].starts_with("no node can pull image localhost/a:1: localhost/ is not a registry"));
    // when nodes have them, there is none
    world.facts.images_on_nodes.values_mut().for_each(|fact| *fact = Fact::Known(true));
    assert_eq!(world.findings(), []);
    // when nodes may not be listed, the plan names what it did not check
    world.facts.images_on_nodes =
        [("a:1".into(), Fact::Unknown("no permission to list nodes".into()))].into();
    assert_eq!(world.only().text, "not checked: whether a node has image a:1 (no permission to list nodes)");
    // and a Deployment that exists unchanged starts no pods
    let mut world = running(&images);
    world.live = world.applied();
    assert_eq!(world.findings(), []);
}

#[test]
fn only_what_matters_is_asked_for() {
    let needed = |world: &World| world.with_input(FactsNeeded::of);
    let plain = World::install(vec![], |_| {});
    let facts = needed(&plain);
    assert!(!facts.role_bindings && facts.quotas && facts.webhooks && facts.priority_classes.is_empty());
    assert_eq!(facts.images.into_iter().collect::<Vec<_>>(), ["localhost/thing:1.0.0"]);
    assert!(needed(&running(&["quay.io/acme/thing:1"])).images.is_empty());
    let class = World::install(vec![], |csv| pod(csv)["priorityClassName"] = json!("important"));
    assert_eq!(needed(&class).priority_classes.into_iter().collect::<Vec<_>>(), ["important"]);
    let built_in =
        World::install(vec![], |csv| pod(csv)["priorityClassName"] = json!("system-cluster-critical"));
    assert!(needed(&built_in).priority_classes.is_empty());
    // other subjects of the namespace are relevant where the operator is dangerous
    let trap = trap(json!({ "kind": "User", "name": "eve" }));
    assert!(needed(&trap).role_bindings);
    let roles = roles_needed(trap.facts.role_bindings.known().unwrap());
    assert_eq!(roles.into_iter().collect::<Vec<_>>(), [RoleName { cluster: true, name: "edit".into() }]);
    // Services are queried where their webhook receives a write of the plan
    let services = |change: Value| {
        let world = webhook(change);
        world
            .with_input(|input| services_needed(input, &world.live, world.facts.webhooks.known().unwrap()))
            .len()
    };
    assert_eq!(
        (
            services(json!({})),
            services(json!({ "rules": [] })),
            services(json!({ "failurePolicy": "Ignore" }))
        ),
        (1, 0, 0)
    );
    // a plan that cannot be made needs nothing
    let mut broken = World::install(vec![], |_| {});
    broken.watch(&["a", "b"]);
    assert_eq!(needed(&broken), FactsNeeded::default());
}
