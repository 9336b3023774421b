use std::sync::{Arc, Mutex, PoisonError};

use olm_api::subscription::Approval;
use olm_bundle::{Bundle, RenderOptions, Rendered, render};
use olm_plan::{FindingCode, ObjectRef, make_plan};
use olm_resolver::{Action, CatalogRef, ChosenBundle, Resolved};

use super::*;

/// The responses of an API server by verb and part of the path.
pub(super) type Answers = Vec<(&'static str, &'static str, u16, Value)>;

/// An API server that gives these responses and serves nothing else, with a log of its requests.
pub(super) fn server(answers: Answers) -> (Resources, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let line = format!("{} {}", request.method(), request.uri());
        log.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        let found = answers.iter().find(|(verb, path, ..)| line.starts_with(verb) && line.contains(path));
        let (status, body) = found.map_or_else(
            || {
                let code = 404;
                (
                    code,
                    json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not \
                    found", "code": code }),
                )
            },
            |(.., status, body)| (*status, body.clone()),
        );
        let body = kube::client::Body::from(body.to_string().into_bytes());
        let response = http::Response::builder().status(status).body(body).expect("a response");
        async move { Ok::<_, std::io::Error>(response) }
    });
    (Resources::new(Client::new(service, "default")), asked)
}

pub(super) fn asked(log: &Mutex<Vec<String>>) -> Vec<String> {
    let mut list = log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    list.sort();
    list
}

fn rules(allowed: &[&str]) -> Value {
    json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "metadata": {}, "spec": {},
            "status": { "incomplete": false, "nonResourceRules": [], "resourceRules": [
                { "verbs": allowed, "apiGroups": ["*"], "resources": ["*"] }] } })
}

pub(super) fn forbidden() -> Value {
    json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403 })
}

const REVIEWS: &str = "selfsubjectrulesreviews";

struct Case {
    bundle: Bundle,
    rendered: Rendered,
    resolved: Resolved,
    facts: ClusterFacts,
}

impl Case {
    fn new() -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bundles/etcd/0.10.1");
        let bundle = Bundle::from_dir(std::path::Path::new(folder)).expect("the shipped bundle");
        let options = RenderOptions {
            install_namespace: "ns".into(),
            target_namespaces: vec!["ns".into()],
            operator_group: Some("og".into()),
            subscription_config: None,
        };
        let mut rendered = render(&bundle, &options).expect("it renders");
        let objects = rendered.phases.iter_mut().flat_map(|(_, objects)| objects);
        // Nodes are read for images without a registry only.
        for object in objects.filter(|o| o["kind"] == "Deployment") {
            object["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!("registry.example.com/etcd-operator:1");
        }
        let chosen = ChosenBundle {
            catalog: CatalogRef::new("olm", "community"),
            package: "etcd".into(),
            channel: "stable".into(),
            name: bundle.name().to_owned(),
            version: bundle.version(),
        };
        let resolved = Resolved {
            subscription: "ns/etcd".into(),
            action: Action::Install,
            chosen,
            from: None,
            path: vec![],
            why: String::new(),
            rejected: vec![],
            dependencies: vec![],
            deprecations: vec![],
        };
        Self { bundle, rendered, resolved, facts: ClusterFacts::default() }
    }

    fn input(&self) -> PlanInput<'_> {
        PlanInput {
            namespace: "ns",
            subscription: "etcd",
            approval: Approval::Automatic,
            resolved: &self.resolved,
            catalog_digest: "",
            bundle: &self.bundle,
            rendered: Ok(&self.rendered),
            previous: None,
            operator_groups: &[],
            target_namespaces: &[],
            facts: &self.facts,
        }
    }
}

fn with_namespace() -> Live {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" } });
    Live::from([(ObjectRef::new("v1", "Namespace", None, "ns"), namespace)])
}

#[tokio::test]
async fn an_ordinary_install_asks_four_questions() {
    // given a cluster without quotas and webhooks, asked by a manager that may do everything
    let case = Case::new();
    let (resources, log) = server(vec![("POST", REVIEWS, 201, rules(&["*"]))]);
    // when
    let mut facts = read(&resources, Caller::Installer, &case.input()).await;
    complete(resources.client(), &mut facts, &case.input(), &with_namespace()).await;
    // then
    let asked = asked(&log);
    let ends = [
        "mutatingwebhookconfigurations?",
        "validatingwebhookconfigurations?",
        "/namespaces/ns/resourcequotas?",
        REVIEWS,
    ];
    assert_eq!(asked.len(), ends.len(), "{asked:#?}");
    for end in ends {
        assert!(asked.iter().any(|line| line.contains(end)), "{end}: {asked:#?}");
    }
    assert!(facts.installer.known().is_some_and(|p| p.exact));
    assert_eq!((facts.quotas, facts.webhooks), (Fact::Known(vec![]), Fact::Known(vec![])));
    assert_eq!(facts.user, Fact::NotRead);
}

#[tokio::test]
async fn a_caller_gets_their_rights_and_those_of_the_manager() {
    // given the manager's role, and a user who may do everything in the namespace
    let case = Case::new();
    let role = json!({ "metadata": { "name": "olm-manager" }, "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }] });
    let (resources, log) =
        server(vec![("POST", REVIEWS, 201, rules(&["*"])), ("GET", "clusterroles/olm-manager", 200, role)]);
    // when there is no such namespace
    let mut facts = read(&resources, Caller::User, &case.input()).await;
    complete(resources.client(), &mut facts, &case.input(), &Live::new()).await;
    // then the rights in it and in the whole cluster are read
    assert_eq!(asked(&log).len(), 6, "{:#?}", asked(&log));
    assert_eq!(asked(&log).iter().filter(|line| line.contains(REVIEWS)).count(), 2);
    let plan = make_plan(&PlanInput { facts: &facts, ..case.input() }, &Live::new());
    assert!(!plan.findings.iter().any(|f| f.code == FindingCode::UserLacksRights), "{:#?}", plan.findings);
    // and what the manager's role lacks is a warning: another one may be bound to it
    let lacking: Vec<_> =
        plan.findings.iter().filter(|f| f.code == FindingCode::InstallerLacksRights).collect();
    assert!(lacking.iter().all(|f| f.severity == olm_plan::Severity::Warn), "{lacking:#?}");
    assert!(!lacking.is_empty());
}

#[test]
fn the_manager_has_the_rights_that_plans_and_their_checks_need() {
    // given the role that the manager is installed with
    let objects = olm_ops::manifests::manifests(&olm_ops::manifests::ManifestOptions::default());
    let role = objects.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == MANAGER);
    let rules = role.and_then(|role| role["rules"].as_array()).expect("rules");
    let access = Access::unknown().with_cluster(rules.iter().map(Rule::of).collect());
    // then it may read what the checks read
    for (group, resource) in [
        ("", "resourcequotas"),
        ("", "nodes"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("discovery.k8s.io", "endpointslices"),
        ("rbac.authorization.k8s.io", "rolebindings"),
    ] {
        assert_eq!(access.allows("list", group, resource, None, None, None), Some(true), "{resource}");
    }
    for resource in ["roles", "clusterroles"] {
        let may = access.allows("get", "rbac.authorization.k8s.io", resource, None, None, None);
        assert_eq!(may, Some(true), "{resource}");
    }
    let may = access.allows("get", "scheduling.k8s.io", "priorityclasses", None, None, None);
    assert_eq!(may, Some(true));
    // and write and grant what the shipped operator needs, without access to namespaces
    let mut case = Case::new();
    assert!(namespaces_to_review(&case.input(), &access).is_empty());
    let who =
        Identity::ServiceAccount { namespace: manager_namespace().to_owned(), name: MANAGER.to_owned() };
    case.facts.installer = Fact::Known(Principal { who, access, exact: true });
    let plan = make_plan(&case.input(), &with_namespace());
    let codes: Vec<_> = plan.findings.iter().map(|f| f.code).collect();
    assert_eq!(codes, [FindingCode::NoOperatorGroup], "{:#?}", plan.findings);
}

#[tokio::test]
async fn what_may_not_be_read_is_not_known_and_no_error() {
    let case = Case::new();
    let (resources, _) = server(vec![
        ("POST", REVIEWS, 403, forbidden()),
        ("GET", "resourcequotas", 403, forbidden()),
        ("GET", "validatingwebhookconfigurations", 403, forbidden()),
    ]);
    let facts = read(&resources, Caller::Installer, &case.input()).await;
    assert_eq!(facts.installer.why_unknown(), Some("no permission to create SelfSubjectRulesReview"));
    assert_eq!(facts.quotas.why_unknown(), Some("no permission to list resourcequotas in namespace ns"));
    assert_eq!(facts.webhooks.why_unknown(), Some("no permission to list validatingwebhookconfigurations"));
    // and rights that are not all listed are unknown
    let mut partly = rules(&["get"]);
    partly["status"]["incomplete"] = json!(true);
    partly["status"]["evaluationError"] = json!("webhook authorizer does not support user rule resolution");
    let (resources, _) = server(vec![("POST", REVIEWS, 201, partly)]);
    let facts = read(&resources, Caller::Installer, &case.input()).await;
    let why = facts.installer.why_unknown().unwrap_or_default();
    assert_eq!(
        why,
        "the API server does not list all permissions: webhook authorizer does not support user rule \
            resolution"
    );
}

#[tokio::test]
async fn rights_of_a_namespace_are_asked_for_when_those_of_the_cluster_do_not_suffice() {
    let case = Case::new();
    let (resources, log) = server(vec![("POST", REVIEWS, 201, rules(&["get"]))]);
    read(&resources, Caller::Installer, &case.input()).await;
    assert_eq!(asked(&log).iter().filter(|line| line.contains(REVIEWS)).count(), 2, "{:#?}", asked(&log));
}

#[tokio::test]
async fn roles_in_the_namespace_are_read_when_the_operator_can_do_harm() {
    // given an operator that may do everything
    let mut case = Case::new();
    for (_, objects) in &mut case.rendered.phases {
        for object in objects.iter_mut().filter(|o| o["kind"] == "Role" || o["kind"] == "ClusterRole") {
            object["rules"] =
                json!([{ "verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"] }]);
        }
    }
    let binding = json!({ "metadata": { "name": "dev", "namespace": "ns" }, "subjects": [{ "kind": "Group", "name": "dev" }],
                          "roleRef": { "apiGroup": "", "kind": "ClusterRole", "name": "edit" } });
    let edit = json!({ "metadata": { "name": "edit" }, "rules": [{ "verbs": ["create"], "apiGroups": [""], "resources": ["pods"] }] });
    let (resources, _) = server(vec![
        ("POST", REVIEWS, 201, rules(&["*"])),
        ("GET", "/rolebindings", 200, json!({ "metadata": {}, "items": [binding] })),
        ("GET", "clusterroles/edit", 200, edit),
    ]);
    // when
    let facts = read(&resources, Caller::Installer, &case.input()).await;
    // then the plan names the subjects with that role
    let plan = make_plan(&PlanInput { facts: &facts, ..case.input() }, &with_namespace());
    let trap = plan.findings.iter().find(|f| f.code == FindingCode::NamespaceTrap);
    assert!(trap.is_some_and(|f| f.text.contains("Group dev can create pods")), "{:#?}", plan.findings);
}

#[tokio::test]
async fn objects_of_a_kind_that_changes_are_listed_page_by_page() {
    // given a CRD that allows more than the new one
    let case = Case::new();
    let crd = case
        .rendered
        .objects()
        .find(|(_, o)| o["kind"] == "CustomResourceDefinition")
        .expect("a CRD")
        .1
        .clone();
    let mut live = with_namespace();
    let mut wider = crd.clone();
    wider["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    live.insert(ObjectRef::of(&crd).expect("a reference"), wider);
    let page = |token: &str| json!({ "metadata": { "continue": token }, "items": [{ "metadata": { "name": token, "namespace": "ns" } }] });
    let (resources, log) =
        server(vec![("GET", "continue=more", 200, page("")), ("GET", "/etcdclusters?", 200, page("more"))]);
    // when
    let mut facts = ClusterFacts::default();
    complete(resources.client(), &mut facts, &case.input(), &live).await;
    // then both pages are there, with the types that a list leaves out
    let name = crd["metadata"]["name"].as_str().expect("a name");
    let objects = facts.custom_objects[name].known().expect("they may be listed");
    assert_eq!((objects.items.len(), objects.more), (2, false), "{:#?}", asked(&log));
    assert_eq!(objects.items[0]["kind"], crd["spec"]["names"]["kind"]);
    // and nothing is listed for one that does not change
    live.insert(ObjectRef::of(&crd).expect("a reference"), crd.clone());
    let (resources, log) = server(vec![]);
    complete(resources.client(), &mut facts, &case.input(), &live).await;
    assert_eq!(asked(&log), Vec::<String>::new());
}

#[tokio::test]
async fn a_service_without_ready_endpoints_does_not_answer() {
    let slices = |ready: Value| {
        json!({ "metadata": {}, "items": [{ "metadata": { "name": "s" }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } }] }] })
    };
    for (ready, expected) in [(json!(true), true), (json!(null), true), (json!(false), false)] {
        let (resources, _) = server(vec![("GET", "endpointslices", 200, slices(ready))]);
        assert_eq!(answers(resources.client(), "policy", "check").await, Fact::Known(expected));
    }
    let (resources, _) = server(vec![("GET", "endpointslices", 200, json!({ "metadata": {}, "items": [] }))]);
    assert_eq!(answers(resources.client(), "policy", "check").await, Fact::Known(false));
}
