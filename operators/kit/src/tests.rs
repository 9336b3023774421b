//! Reconciliations against a service that answers as prepared, and records the requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use kube::client::Body;
use kube::runtime::controller::Action;
use kube::{Client, CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::controller::{Context, Running, reconcile};
use crate::failure::Failure;
use crate::kind::Resourced;
use crate::lease::{Elector, Fence};
use crate::watches::Watched;
use crate::{Observed, Operator, Plan, kind};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
struct SiteSpec {
    text: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SiteStatus {
    #[serde(default)]
    found: bool,
    #[serde(default)]
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// One ConfigMap; with the text `secret` a Secret, which is not an owned kind.
fn plan(site: &Site, observed: &Observed) -> Plan<SiteStatus> {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(site.name_any());
    config.data = Some([("text".to_owned(), site.spec.text.clone())].into());
    let found = observed.get(&config).is_some();
    let plan = match site.spec.text.as_str() {
        "nothing" => Plan::new(),
        "secret" => Plan::new().apply(Secret { metadata: config.metadata.clone(), ..Secret::default() }),
        _ => Plan::new().apply(config),
    };
    plan.status(SiteStatus { found, ..SiteStatus::default() }).ready_when(found, "the ConfigMap exists")
}

fn site(text: &str) -> DynamicObject {
    parsed(json!({
        "apiVersion": "example.com/v1", "kind": "Site", "spec": { "text": text },
        "metadata": { "name": "a", "namespace": "shop", "uid": "s1", "generation": 1, "resourceVersion": "10" },
    }))
}

fn parsed(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

/// The ConfigMap `name` with the controller `owner`, a uid.
fn config(name: &str, owner: Option<&str>, version: u64) -> DynamicObject {
    let owners: Vec<Value> = owner
        .map(|uid| json!({ "apiVersion": "example.com/v1", "kind": "Site", "name": "a", "uid": uid, "controller": true }))
        .into_iter()
        .collect();
    parsed(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "text": "hello" },
        "metadata": { "name": name, "namespace": "shop", "uid": format!("c-{name}"), "ownerReferences": owners,
            "resourceVersion": version.to_string(), "labels": { "app.kubernetes.io/managed-by": "sites" } },
    }))
}

/// A request: method, path and body.
type Asked = (String, String, Value);

#[derive(Clone, Default)]
struct Server {
    /// Codes of the next requests for other things than events; then all succeed.
    codes: Arc<Mutex<VecDeque<u16>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn answering(codes: &[u16]) -> Self {
        let server = Self::default();
        server.codes.lock().unwrap().extend(codes);
        server
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "shop")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let body = request.into_body().collect_bytes().await.unwrap_or_default();
        let mut body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = if path.ends_with("/events") {
            self.events.lock().unwrap().push(body["reason"].as_str().unwrap_or_default().to_owned());
            200
        } else {
            self.asked.lock().unwrap().push((method, path.clone(), body.clone()));
            self.codes.lock().unwrap().pop_front().unwrap_or(200)
        };
        let answer = if code == 200 {
            body["metadata"]["resourceVersion"] = "50".into();
            if path.contains("/configmaps/") {
                body["metadata"]["uid"] = "c-a".into();
            }
            body
        } else {
            let reason = match code {
                404 => "NotFound",
                409 => "Conflict",
                410 => "Expired",
                _ => "Forbidden",
            };
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
                "message": format!("refused: {reason}"), "code": code })
        };
        let body = Body::from(answer.to_string().into_bytes());
        Response::builder().status(code).body(body).expect("a response")
    }

    /// The requests since the last call, without their bodies.
    fn requests(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.into_iter().map(|(method, path, _)| format!("{method} {path}")).collect()
    }

    /// The last written status.
    fn status(&self) -> Value {
        let asked = self.asked.lock().unwrap();
        let written = asked.iter().rev().find(|(_, path, _)| path.ends_with("/status"));
        written.map(|(_, _, body)| body["status"].clone()).unwrap_or_default()
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }
}

const APPLY: &str = "PATCH /api/v1/namespaces/shop/configmaps/a";
const STATUS: &str = "PATCH /apis/example.com/v1/namespaces/shop/sites/a/status";

fn context(server: &Server, owned: Vec<DynamicObject>, fence: Arc<Fence>) -> Arc<Context> {
    let client = server.client();
    let elector = Elector::new(client.clone(), "shop", "sites", "me", fence);
    let running = Running {
        client,
        operator: "sites".to_owned(),
        identity: "me".to_owned(),
        namespaces: Vec::new(),
        elector,
        metrics: Arc::default(),
    };
    let owned = vec![Watched::of(Resourced::of::<ConfigMap>(), owned)];
    Arc::new(Context::new(running, kind::<Site>().owns::<ConfigMap>().plan(plan), owned))
}

fn leading() -> Arc<Fence> {
    let fence = Arc::new(Fence::default());
    fence.open();
    fence
}

async fn pass(context: &Arc<Context>, site: &DynamicObject) -> Result<Action, Failure> {
    reconcile(Arc::new(site.clone()), Arc::clone(context)).await
}

#[tokio::test]
async fn a_new_object_gets_its_objects_a_status_and_events() {
    let server = Server::default();
    let context = context(&server, Vec::new(), leading());
    assert_eq!(pass(&context, &site("hello")).await.expect("a pass"), Action::await_change());
    let status = server.status();
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["found"], false);
    assert_eq!(status["conditions"][0]["type"], "Ready");
    assert_eq!(status["conditions"][0]["reason"], "InProgress");
    assert_eq!(status["conditions"][1]["type"], "Stalled");
    let applied = server.asked.lock().unwrap()[0].2.clone();
    assert_eq!(applied["metadata"]["ownerReferences"][0]["uid"], "s1");
    assert_eq!(applied["metadata"]["ownerReferences"][0].get("blockOwnerDeletion"), None);
    assert_eq!(applied["metadata"]["namespace"], "shop");
    assert_eq!(applied["metadata"]["labels"]["app.kubernetes.io/managed-by"], "sites");
    assert_eq!(server.requests(), [APPLY, STATUS]);
    assert_eq!(server.events(), ["Created", "InProgress"]);
}

#[tokio::test]
async fn a_second_pass_writes_nothing() {
    let server = Server::default();
    let context = context(&server, vec![config("a", Some("s1"), 20)], leading());
    // A new process does not know what was applied before: the API server changes nothing then.
    pass(&context, &site("hello")).await.expect("a pass");
    assert_eq!(server.requests(), [APPLY, STATUS]);
    for _ in 0..3 {
        pass(&context, &site("hello")).await.expect("a pass");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
    server.events();
    // A watch that is behind the written status does not write it again either.
    let mut changed = site("hello");
    changed.metadata.resource_version = Some("49".to_owned());
    pass(&context, &changed).await.expect("a pass");
    assert_eq!(server.requests(), Vec::<String>::new());
    assert_eq!(server.events(), Vec::<String>::new());
}

#[tokio::test]
async fn a_foreign_object_of_the_name_is_not_touched() {
    let server = Server::default();
    let context = context(&server, vec![config("a", None, 20)], leading());
    let failure = pass(&context, &site("hello")).await.expect_err("the name is taken");
    assert!(matches!(failure, Failure::NameTaken { .. }), "{failure}");
    let status = server.status();
    assert_eq!(status["conditions"][0]["status"], "False");
    assert_eq!(status["conditions"][0]["reason"], "NameTaken");
    assert_eq!(status["conditions"][1]["status"], "True");
    assert_eq!(server.requests(), [STATUS]);
    assert_eq!(server.events(), ["NameTaken"]);
    pass(&context, &site("hello")).await.expect_err("the name is still taken");
    assert_eq!((server.requests(), server.events()), (Vec::new(), Vec::new()), "it is reported once");
}

#[tokio::test]
async fn objects_of_an_earlier_owner_are_waited_for() {
    let server = Server::default();
    let context = context(&server, vec![config("a", Some("s0"), 20)], leading());
    let failure = pass(&context, &site("hello")).await.expect_err("it is being deleted");
    assert!(matches!(failure, Failure::Terminating { .. }), "{failure}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn owned_objects_that_are_not_planned_are_deleted_and_others_are_not() {
    let server = Server::default();
    let owned = vec![config("a", Some("s1"), 20), config("b", Some("s1"), 21), config("c", None, 22)];
    let context = context(&server, owned, leading());
    pass(&context, &site("hello")).await.expect("a pass");
    let deleted = "DELETE /api/v1/namespaces/shop/configmaps/b";
    let preconditions = server.asked.lock().unwrap()[1].2["preconditions"].clone();
    assert_eq!(preconditions, json!({ "uid": "c-b" }));
    assert_eq!(server.requests(), [APPLY, deleted, STATUS]);
    assert!(server.events().contains(&"Deleted".to_owned()));
}

#[tokio::test]
async fn a_conflict_is_retried_and_not_reported_and_a_refusal_is() {
    let server = Server::answering(&[409]);
    let context = context(&server, Vec::new(), leading());
    pass(&context, &site("hello")).await.expect_err("a conflict");
    assert_eq!(server.requests(), [APPLY]);
    pass(&context, &site("hello")).await.expect("the next pass");
    assert_eq!(server.requests(), [APPLY, STATUS]);

    let server = Server::answering(&[403]);
    let context = self::context(&server, Vec::new(), leading());
    pass(&context, &site("hello")).await.expect_err("a refusal");
    assert_eq!(server.status()["conditions"][0]["reason"], "ApplyFailed");
    assert_eq!(
        server.status()["conditions"][0]["message"],
        "failed to apply ConfigMap a: refused: Forbidden"
    );
}

#[tokio::test]
async fn an_object_that_is_gone_or_expired_fails_a_pass_alone() {
    // The status of a deleted object is not written, which is no failure.
    let server = Server::answering(&[200, 404]);
    let context = context(&server, Vec::new(), leading());
    pass(&context, &site("hello")).await.expect("a pass");
    let server = Server::answering(&[410]);
    let context = self::context(&server, Vec::new(), leading());
    pass(&context, &site("hello")).await.expect_err("expired");
    assert_eq!(server.requests(), [APPLY], "it is not reported");
}

#[tokio::test]
async fn without_the_lease_nothing_is_written() {
    let server = Server::default();
    let fence = leading();
    let context = context(&server, vec![config("b", Some("s1"), 20)], Arc::clone(&fence));
    fence.close();
    let failure = pass(&context, &site("hello")).await.expect_err("the lease is lost");
    assert!(matches!(failure, Failure::Unled), "{failure}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_plan_with_a_kind_that_is_not_owned_and_an_unreadable_object_are_reported() {
    let server = Server::default();
    let context = context(&server, Vec::new(), leading());
    pass(&context, &site("secret")).await.expect_err("Secrets are not owned");
    let message = server.status()["conditions"][0]["message"].clone();
    assert!(message.as_str().is_some_and(|text| text.contains(".owns::<Secret>()")), "{message}");
    assert_eq!(server.requests(), [STATUS]);
    let mut broken = site("hello");
    broken.data["spec"] = json!({});
    pass(&context, &broken).await.expect_err("the text is missing");
    assert_eq!(server.status()["conditions"][0]["reason"], "InvalidObject");
}

#[tokio::test]
async fn a_later_object_of_the_name_begins_anew() {
    let server = Server::default();
    let context = context(&server, Vec::new(), leading());
    pass(&context, &site("hello")).await.expect("a pass");
    server.requests();
    let mut later = site("hello");
    later.metadata.uid = Some("s2".to_owned());
    pass(&context, &later).await.expect("a pass");
    assert_eq!(server.requests(), [APPLY, STATUS]);
}

#[test]
fn rights_are_the_sum_of_the_registrations() {
    let sites = kind::<Site>().owns::<ConfigMap>().owns::<ConfigMap>().plan(plan);
    let operator = Operator::new("sites", "0.1.0").kind(sites);
    let rights: Vec<String> = operator
        .rights()
        .iter()
        .map(|right| format!("{} {} {}", right.group, right.resource, right.verbs.join(",")))
        .collect();
    let wanted = [
        " configmaps create,delete,list,patch,watch",
        "coordination.k8s.io leases create,get,update",
        "events.k8s.io events create,patch",
        "example.com sites list,watch",
        "example.com sites/status patch",
    ];
    assert_eq!(rights, wanted);
    let described = operator.describe();
    assert_eq!(described["schema"], "olm.dev/describe/v1");
    assert_eq!(described["kinds"][0]["crd"]["metadata"]["name"], "sites.example.com");
    let owned = json!([{ "group": "", "version": "v1", "kind": "ConfigMap" }]);
    assert_eq!(described["kinds"][0]["owns"], owned);
    assert_eq!(described["ports"]["http"], 8080);
}

#[test]
fn an_empty_list_of_namespaces_means_all() {
    assert_eq!(crate::operator::namespaces(""), Vec::<String>::new());
    assert_eq!(crate::operator::namespaces("b, a,,b"), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_run() {
    // Another process takes the lease as soon as this one has it.
    let taken = Arc::new(Mutex::new(0_u32));
    let counted = Arc::clone(&taken);
    let service = tower::service_fn(move |request: Request<Body>| {
        let counted = Arc::clone(&counted);
        async move {
            let (code, answer) = lease(&request, &mut counted.lock().unwrap());
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).expect("a response"))
        }
    });
    let options = crate::Options {
        namespaces: Vec::new(),
        listen: None,
        leader_election: true,
        identity: "me".to_owned(),
    };
    let run = Operator::new("sites", "0.1.0").run(Client::new(service, "shop"), options, Default::default());
    assert!(matches!(run.await, Err(crate::Error::LeaseLost)));
    assert!(*taken.lock().unwrap() > 0);
}

/// Answers of an API server with a lease that is created, and then held by another.
fn lease(request: &Request<Body>, reads: &mut u32) -> (u16, Value) {
    let refused = |code: u16, reason: &str| {
        (
            code,
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code }),
        )
    };
    let held = |by: &str| {
        json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": { "name": "sites", "namespace": "shop", "resourceVersion": "1" },
            "spec": { "holderIdentity": by, "leaseDurationSeconds": 15 } })
    };
    match (request.method().as_str(), request.uri().path()) {
        (_, "/version") => (
            200,
            json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "" }),
        ),
        ("GET", _) => {
            *reads += 1;
            if *reads == 1 { refused(404, "NotFound") } else { (200, held("another")) }
        }
        ("POST", _) => (200, held("me")),
        _ => refused(409, "Conflict"),
    }
}
