//! An API server for tests: objects in a map, with only the rules that the tests need.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Query, State},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use kube::{Client, client::Body};
use olm_oidc::Clock;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::api_server::ApiServer;

/// The token of user ada.
pub(crate) const TOKEN: &str = "good-token";

#[derive(Clone)]
pub(crate) struct Fake {
    /// User by token.
    users: Arc<Mutex<HashMap<String, String>>>,
    /// Issuer of accepted ID tokens; their users are named after claim `sub`. Signatures are not validated.
    issuer: Arc<Mutex<Option<String>>>,
    /// Clock for the expiry of ID tokens, here and in the console.
    pub(crate) clock: Clock,
    /// Number of reviewed tokens.
    reviews: Arc<AtomicUsize>,
    /// Number of access reviews.
    access_reviews: Arc<AtomicUsize>,
    /// By path.
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Resources for which access reviews are denied, by plural.
    denied: Arc<Mutex<Vec<String>>>,
    /// Paths whose requests are refused.
    refused: Arc<Mutex<Vec<String>>>,
    /// The field manager of the last write, by path of the request.
    writers: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            users: Arc::new(Mutex::new([(TOKEN.to_owned(), "ada".to_owned())].into())),
            issuer: Arc::default(),
            clock: Clock::default(),
            reviews: Arc::default(),
            access_reviews: Arc::default(),
            objects: Arc::default(),
            denied: Arc::default(),
            refused: Arc::default(),
            writers: Arc::default(),
        }
    }
}

impl Fake {
    pub(crate) fn user(&self, token: &str, name: &str) {
        self.users.lock().unwrap().insert(token.to_owned(), name.to_owned());
    }

    /// Accepts the tokens of an issuer until they expire.
    pub(crate) fn trust(&self, issuer: Option<&str>) {
        *self.issuer.lock().unwrap() = issuer.map(str::to_owned);
    }

    fn user_of(&self, token: &str) -> Option<String> {
        if let Some(user) = self.users.lock().unwrap().get(token) {
            return Some(user.clone());
        }
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let trusted = claims["iss"].as_str() == self.issuer.lock().unwrap().as_deref();
        let valid = claims["exp"].as_i64()? > self.clock.now();
        (trusted && valid).then(|| claims["sub"].as_str().map(str::to_owned))?
    }

    /// Deletes the account of a token.
    pub(crate) fn revoke(&self, token: &str) {
        self.users.lock().unwrap().remove(token);
    }

    /// Number of token reviews.
    pub(crate) fn reviews(&self) -> usize {
        self.reviews.load(Ordering::Relaxed)
    }

    /// Number of access reviews.
    pub(crate) fn access_reviews(&self) -> usize {
        self.access_reviews.load(Ordering::Relaxed)
    }

    pub(crate) fn api_server(&self) -> ApiServer {
        let router = Router::new().fallback(answer).with_state(self.clone());
        ApiServer::from_fn(move |token| {
            let token = token.clone();
            let router = router.clone();
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let mut request = request.map(axum::body::Body::new);
                let bearer = format!("Bearer {}", token.get());
                request.headers_mut().insert(header::AUTHORIZATION, bearer.parse().unwrap());
                router.clone().oneshot(request)
            });
            Ok(Client::new(service, "default"))
        })
    }

    pub(crate) fn insert(&self, path: &str, object: Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.objects.lock().unwrap().get(path).cloned()
    }

    /// Denies access reviews for a resource.
    pub(crate) fn deny(&self, plural: &str) {
        self.denied.lock().unwrap().push(plural.to_owned());
    }

    /// Refuses requests for a path, or those of one method (`DELETE /path`), as an API server whose access reviews
    /// are older.
    pub(crate) fn refuse(&self, path: &str) {
        self.refused.lock().unwrap().push(path.to_owned());
    }

    /// Allows all resources again.
    pub(crate) fn allow(&self) {
        self.denied.lock().unwrap().clear();
    }

    /// The field manager of the last request that wrote to a path.
    pub(crate) fn writer(&self, path: &str) -> Option<String> {
        self.writers.lock().unwrap().get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) -> Value {
        self.objects.lock().unwrap().remove(path).unwrap()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }
}

fn status(code: u16, reason: &str, message: &str, details: Value) -> Response {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        "details": details,
    });
    (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
}

async fn answer(
    State(fake): State<Fake>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    if path.ends_with("/selfsubjectreviews") {
        fake.reviews.fetch_add(1, Ordering::Relaxed);
    }
    let token = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()?.strip_prefix("Bearer "));
    let user = token.and_then(|token| fake.user_of(token));
    let Some(user) = user else {
        return status(401, "Unauthorized", "Unauthorized", json!({}));
    };
    if path.ends_with("/selfsubjectreviews") {
        let user = json!({ "username": user, "groups": ["system:masters", "system:authenticated"] });
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
            "status": { "userInfo": user },
        });
        return (StatusCode::CREATED, Json(review)).into_response();
    }
    // every token has all rights except the denied ones
    let everything = match path.rsplit('/').next() {
        Some("selfsubjectaccessreviews") => Some(json!({ "allowed": true })),
        Some("selfsubjectrulesreviews") => Some(json!({
            "incomplete": false, "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
        })),
        _ => None,
    };
    if let Some(answer) = everything {
        fake.access_reviews.fetch_add(1, Ordering::Relaxed);
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        review["status"] = answer;
        let asked = review.pointer("/spec/resourceAttributes/resource").and_then(Value::as_str);
        if asked.is_some_and(|plural| fake.denied.lock().unwrap().iter().any(|denied| denied == plural)) {
            review["status"]["allowed"] = false.into();
        }
        return (StatusCode::CREATED, Json(review)).into_response();
    }
    if path == "/version" {
        return Json(
            json!({ "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "" }),
        )
        .into_response();
    }
    let is_refused = |what: &String| *what == path || *what == format!("{method} {path}");
    if fake.refused.lock().unwrap().iter().any(is_refused) {
        let message = format!("{path} is forbidden: User \"{user}\" cannot do this <b>");
        return status(403, "Forbidden", &message, json!({}));
    }
    if query.contains_key("watch") {
        return status(405, "MethodNotAllowed", "no watches here", json!({}));
    }
    if let Some(writer) = query.get("fieldManager") {
        fake.writers.lock().unwrap().insert(path.clone(), writer.clone());
    }
    let dry_run = query.contains_key("dryRun");
    let mut objects = fake.objects.lock().unwrap();
    match method {
        Method::GET => match objects.get(&path) {
            Some(object) => Json(object.clone()).into_response(),
            None if is_collection(&path) => Json(list(&objects, &path)).into_response(),
            None => status(
                404,
                "NotFound",
                &format!("\"{}\" not found", path.rsplit('/').next().unwrap()),
                json!({}),
            ),
        },
        Method::POST => {
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let to = format!("{path}/{name}");
            let namespace = path.strip_suffix("/catalogsources").and_then(|path| path.rsplit('/').next());
            if let Some(namespace) = namespace
                && !objects.contains_key(&format!("/api/v1/namespaces/{namespace}"))
            {
                let message = format!("namespaces \"{namespace}\" not found");
                return status(404, "NotFound", &message, json!({ "name": namespace, "kind": "namespaces" }));
            }
            if path.ends_with("/catalogsources") && object["spec"]["image"] == "quay.io/acme/refused:v1" {
                let cause = json!({ "reason": "FieldValueInvalid", "field": "spec.image", "message": "is not allowed here" });
                return status(422, "Invalid", "is invalid", json!({ "causes": [cause] }));
            }
            if objects.contains_key(&to) {
                return status(409, "AlreadyExists", &format!("\"{name}\" already exists"), json!({}));
            }
            if let Some(invalid) = invalid(&name, &object) {
                return invalid;
            }
            object["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z".into();
            if !dry_run {
                objects.insert(to, object.clone());
            }
            (StatusCode::CREATED, Json(object)).into_response()
        }
        Method::PUT if objects.get(&path).is_some_and(|o| o["metadata"]["resourceVersion"].is_string()) => {
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            let (old, new) =
                (&objects[&path]["metadata"]["resourceVersion"], &object["metadata"]["resourceVersion"]);
            if old != new {
                let message = "the object has been modified; please apply your changes to the latest version";
                return status(409, "Conflict", message, json!({}));
            }
            if let Some(invalid) = invalid(object["metadata"]["name"].as_str().unwrap(), &object) {
                return invalid;
            }
            if !dry_run {
                let next = old.as_str().unwrap().parse::<u64>().unwrap() + 1;
                object["metadata"]["resourceVersion"] = next.to_string().into();
                objects.insert(path, object.clone());
            }
            Json(object).into_response()
        }
        Method::PATCH | Method::PUT => {
            let change: Value = serde_json::from_slice(&body).unwrap();
            let merging = headers[header::CONTENT_TYPE] == "application/merge-patch+json";
            let Some(object) = objects.get_mut(&path).filter(|_| merging) else {
                if !dry_run {
                    objects.insert(path, change.clone());
                }
                return Json(change).into_response();
            };
            merge(object, &change);
            Json(object.clone()).into_response()
        }
        Method::DELETE
            if objects.get(&path).is_some_and(|object| {
                let options: Value = serde_json::from_slice(&body).unwrap_or_default();
                let uid = &options["preconditions"]["uid"];
                !uid.is_null() && *uid != object["metadata"]["uid"]
            }) =>
        {
            status(409, "Conflict", "the UID in the precondition does not match", json!({}))
        }
        Method::DELETE
            if objects.get(&path).is_some_and(|object| {
                object["kind"] == "EtcdCluster" && object["metadata"]["finalizers"].is_array()
            }) =>
        {
            let object = objects.get_mut(&path).unwrap();
            object["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z".into();
            Json(object.clone()).into_response()
        }
        Method::DELETE => match objects.remove(&path) {
            Some(object) => Json(object).into_response(),
            None => status(404, "NotFound", "not found", json!({})),
        },
        _ => status(405, "MethodNotAllowed", "no", json!({})),
    }
}

/// The answer to an EtcdCluster that is too large, or has an invalid environment variable.
fn invalid(name: &str, object: &Value) -> Option<Response> {
    let variable = &object["spec"]["pod"]["etcdEnv"][0]["value"];
    if variable.as_str().is_some_and(|value| value.starts_with("invalid-")) {
        let message = format!("must not be {variable}");
        let cause = json!({ "reason": "FieldValueInvalid", "field": "spec.pod.etcdEnv[0].value", "message": message });
        return Some(status(422, "Invalid", &message, json!({ "causes": [cause] })));
    }
    object["spec"]["size"].as_i64().filter(|size| *size > 7)?;
    let text = "should be less than or equal to 7";
    let cause = json!({ "reason": "FieldValueInvalid", "field": "spec.size", "message": text });
    let message = format!("EtcdCluster \"{name}\" is invalid: spec.size: {text}");
    Some(status(422, "Invalid", &message, json!({ "causes": [cause] })))
}

/// `/api/v1/namespaces/x/pods` is a collection, `/api/v1/namespaces/x` is not.
fn is_collection(path: &str) -> bool {
    rest(path).is_some_and(|(_, rest)| matches!(rest.as_slice(), [_] | ["namespaces", _, _]))
}

fn rest(path: &str) -> Option<(String, Vec<&str>)> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api", version, rest @ ..] => Some((format!("/api/{version}"), rest.to_vec())),
        ["apis", group, version, rest @ ..] => Some((format!("/apis/{group}/{version}"), rest.to_vec())),
        _ => None,
    }
}

fn list(objects: &BTreeMap<String, Value>, path: &str) -> Value {
    let (base, wanted) = rest(path).unwrap();
    let items: Vec<Value> = objects
        .iter()
        .filter(|(key, _)| {
            let Some((of, parts)) = rest(key) else { return false };
            of == base
                && match (wanted.as_slice(), parts.as_slice()) {
                    ([plural], [p, _] | ["namespaces", _, p, _]) => p == plural,
                    (["namespaces", ns, plural], ["namespaces", n, p, _]) => n == ns && p == plural,
                    _ => false,
                }
        })
        .map(|(_, object)| object.clone())
        .collect();
    json!({ "apiVersion": base.trim_start_matches("/apis/").trim_start_matches("/api/"), "kind": "List",
        "metadata": { "resourceVersion": "1" }, "items": items })
}

fn merge(into: &mut Value, change: &Value) {
    if change.is_object() && !into.is_object() {
        *into = json!({});
    }
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    into.shift_remove(key);
                } else {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) => *into = change.clone(),
    }
}
