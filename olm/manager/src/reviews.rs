//! Authentication and authorization of requests to the manager, delegated to the API server by TokenReview
//! and SubjectAccessReview. The catalogs' port and the PackageManifests API use the same code.
//!
//! Answers are cached for [`TTL`], as in aggregated API servers and kube-rbac-proxy. Failed reviews are not
//! cached.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
};
use kube::{Api, Client, api::PostParams};
use olm_engine::{catalogs::CatalogRef, site::MANAGER};
use sha2::{Digest as _, Sha256};

/// The default of `k8s.io/apiserver` for delegated authentication and authorization. A deleted account or a
/// revoked role takes effect after this time at the latest.
const TTL: Duration = Duration::from_secs(10);
/// Cached answers of each kind. When the cache is full, the oldest answer is dropped.
const MOST_CACHED: usize = 1024;
/// Longer tokens are not sent to the API server: its own limit for all headers is 1 MiB, real tokens have 1 to
/// 4 KiB.
const LONGEST_TOKEN: usize = 16 << 10;
/// Kubernetes' servers authorize every request of its members without a review.
const MASTERS: &str = "system:masters";

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A request that needs authorization.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// `get` on a path that is not a resource.
    Path(String),
    /// On a resource; no namespace means all namespaces.
    Resource {
        verb: &'static str,
        group: &'static str,
        version: &'static str,
        resource: &'static str,
        subresource: Option<&'static str>,
        namespace: Option<String>,
        name: Option<String>,
    },
}

impl Act {
    /// To read the content of a catalog.
    pub(crate) fn catalog(namespace: &str, name: &str) -> Self {
        Self::Resource {
            verb: "get",
            group: "operators.coreos.com",
            version: "v1alpha1",
            resource: "catalogsources",
            subresource: None,
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The token is not valid.
    Unauthorized,
    /// The user lacks the right.
    Forbidden(String),
    /// The API server did not answer the review.
    Unknown(String),
}

/// Reviews, with their latest answers.
pub(crate) struct Reviews {
    client: Client,
    /// By the hash of the token, so that a memory dump contains no token.
    users: Mutex<Cache<[u8; 32], Option<User>>>,
    /// Why not; none when allowed.
    rights: Mutex<Cache<(User, Act), Option<String>>>,
}

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, users: Mutex::default(), rights: Mutex::default() }
    }

    /// The user of a bearer token. Tokens for the API server and tokens with the audience `olm-manager` are
    /// accepted.
    ///
    /// # Errors
    /// [`Refusal`]
    pub(crate) async fn user(&self, token: &str) -> Result<User, Refusal> {
        if token.is_empty() || token.len() > LONGEST_TOKEN {
            return Err(Refusal::Unauthorized);
        }
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = locked(&self.users).get(&key, Instant::now()) {
            return known.ok_or(Refusal::Unauthorized);
        }
        let mut user = self.review_token(token, None).await?;
        if user.is_none() {
            user = self.review_token(token, Some(vec![MANAGER.to_owned()])).await?;
        }
        locked(&self.users).insert(key, user.clone(), Instant::now());
        user.ok_or(Refusal::Unauthorized)
    }

    async fn review_token(
        &self,
        token: &str,
        audiences: Option<Vec<String>>,
    ) -> Result<Option<User>, Refusal> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: audiences.clone() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = Api::<TokenReview>::all(self.client.clone())
            .create(&PostParams::default(), &review)
            .await
            .map_err(|error| Refusal::Unknown(format!("failed to review the token: {error}")))?;
        let status = review.status.unwrap_or_default();
        // An authenticator without support for audiences returns none: such a token is not bound to this
        // server.
        let bound = audiences.is_none_or(|wanted| {
            status.audiences.unwrap_or_default().iter().any(|audience| wanted.contains(audience))
        });
        let info = status.user.filter(|_| status.authenticated == Some(true) && bound);
        Ok(info.and_then(|info| {
            Some(User {
                name: info.username.filter(|name| !name.is_empty())?,
                uid: info.uid.filter(|uid| !uid.is_empty()),
                groups: info.groups.unwrap_or_default(),
                extra: info.extra.unwrap_or_default(),
            })
        }))
    }

    /// Whether the API server allows a user this act.
    ///
    /// # Errors
    /// [`Refusal`]
    pub(crate) async fn may(&self, user: &User, act: &Act) -> Result<(), Refusal> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let key = (user.clone(), act.clone());
        if let Some(known) = locked(&self.rights).get(&key, Instant::now()) {
            return known.map_or(Ok(()), |why| Err(Refusal::Forbidden(why)));
        }
        let review = Api::<SubjectAccessReview>::all(self.client.clone())
            .create(&PostParams::default(), &review(user, act))
            .await
            .map_err(|error| {
                Refusal::Unknown(format!("failed to review the rights of {}: {error}", user.name))
            })?;
        let status = review.status.unwrap_or_default();
        let denied = (!status.allowed || status.denied == Some(true)).then(|| {
            let reason = status.reason.filter(|reason| !reason.is_empty()).map(|r| format!(": {r}"));
            format!("{}{}", forbidden(user, act), reason.unwrap_or_default())
        });
        locked(&self.rights).insert(key, denied.clone(), Instant::now());
        denied.map_or(Ok(()), |why| Err(Refusal::Forbidden(why)))
    }
}

impl Reviews {
    /// The catalogs that a user may read, in the same order.
    ///
    /// # Errors
    /// [`Refusal::Unknown`]
    pub(crate) async fn readable<T>(
        &self,
        user: &User,
        catalogs: Vec<T>,
        reference: impl Fn(&T) -> &CatalogRef,
    ) -> Result<Vec<T>, Refusal> {
        let mut readable = Vec::with_capacity(catalogs.len());
        for catalog in catalogs {
            let of = reference(&catalog);
            match self.may(user, &Act::catalog(&of.namespace, &of.name)).await {
                Ok(()) => readable.push(catalog),
                Err(Refusal::Forbidden(_)) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(readable)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Cache<K, V>(HashMap<K, (Instant, V)>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (at, value) = self.0.get(key)?;
        (now.duration_since(*at) < TTL).then(|| value.clone())
    }

    fn insert(&mut self, key: K, value: V, now: Instant) {
        if self.0.len() >= MOST_CACHED {
            self.0.retain(|_, (at, _)| now.duration_since(*at) < TTL);
        }
        if self.0.len() >= MOST_CACHED
            && let Some(oldest) = self.0.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(key, (now, value));
    }
}

fn review(user: &User, act: &Act) -> SubjectAccessReview {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match act {
        Act::Path(path) => {
            spec.non_resource_attributes =
                Some(NonResourceAttributes { path: Some(path.clone()), verb: Some("get".into()) });
        }
        Act::Resource { verb, group, version, resource, subresource, namespace, name } => {
            spec.resource_attributes = Some(ResourceAttributes {
                group: Some((*group).into()),
                version: Some((*version).into()),
                resource: Some((*resource).into()),
                verb: Some((*verb).into()),
                namespace: namespace.clone(),
                name: name.clone(),
                subresource: subresource.map(str::to_owned),
                ..ResourceAttributes::default()
            });
        }
    }
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// In the words of the API server.
fn forbidden(user: &User, act: &Act) -> String {
    let user = &user.name;
    match act {
        Act::Path(path) => format!("forbidden: User {user:?} cannot get path {path:?}"),
        Act::Resource { verb, group, resource, subresource, namespace, name, .. } => {
            let shown = subresource.map_or((*resource).to_owned(), |sub| format!("{resource}/{sub}"));
            let name = name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
            let scope = match namespace {
                Some(namespace) => format!("in the namespace {namespace:?}"),
                None => "at the cluster scope".to_owned(),
            };
            format!(
                "{resource}.{group}{name} is forbidden: User {user:?} cannot {verb} resource {shown:?} in API group {group:?} {scope}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_review_has_all_of_the_user_and_the_act() {
        let user = User {
            name: "ann".into(),
            uid: Some("u".into()),
            groups: vec!["team".into()],
            extra: BTreeMap::from([("scope".into(), vec!["a".into()])]),
        };
        let act = Act::catalog("ns", "private");
        let asked = serde_json::to_value(review(&user, &act).spec).unwrap();
        assert_eq!(
            asked,
            json!({
                "user": "ann", "uid": "u", "groups": ["team"], "extra": { "scope": ["a"] },
                "resourceAttributes": { "group": "operators.coreos.com", "version": "v1alpha1", "resource": "catalogsources",
                    "verb": "get", "namespace": "ns", "name": "private" },
            })
        );
        let asked = serde_json::to_value(review(&user, &Act::Path("/metrics".into())).spec).unwrap();
        assert_eq!(asked["nonResourceAttributes"], json!({ "path": "/metrics", "verb": "get" }));
        assert!(forbidden(&user, &act).ends_with(
            r#"cannot get resource "catalogsources" in API group "operators.coreos.com" in the namespace "ns""#
        ));
    }

    /// An API server that has one token for the audience `olm-manager`; counts reviews.
    fn server(asked: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let asked = Arc::clone(&asked);
            async move {
                asked.fetch_add(1, Ordering::SeqCst);
                let body = request.into_body().collect_bytes().await?;
                let review: Value = serde_json::from_slice(&body)?;
                let bound = review["spec"]["audiences"] == json!(["olm-manager"]);
                let status = match review["spec"]["token"].as_str() {
                    Some("bound") if bound => {
                        json!({ "authenticated": true, "user": { "username": "ann" }, "audiences": ["olm-manager"] })
                    }
                    // A webhook authenticator that ignores audiences.
                    Some("ignores") if bound => {
                        json!({ "authenticated": true, "user": { "username": "eve" } })
                    }
                    _ => json!({ "authenticated": false }),
                };
                let answer = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                    "metadata": {}, "spec": {}, "status": status });
                let body = kube::client::Body::from(answer.to_string().into_bytes());
                Ok::<_, tower::BoxError>(http::Response::new(body))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn t11_a_token_is_reviewed_once_and_its_audience_is_checked() {
        let asked = Arc::<AtomicUsize>::default();
        let reviews = Reviews::new(server(Arc::clone(&asked)));
        for _ in 0..3 {
            assert_eq!(reviews.user("bound").await.map(|user| user.name), Ok("ann".into()));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2, "one without and one with the audience");
        assert_eq!(reviews.user("ignores").await, Err(Refusal::Unauthorized));
        assert_eq!(reviews.user("forged").await, Err(Refusal::Unauthorized));
        let before = asked.load(Ordering::SeqCst);
        assert_eq!(reviews.user("").await, Err(Refusal::Unauthorized));
        assert_eq!(reviews.user(&"x".repeat(LONGEST_TOKEN + 1)).await, Err(Refusal::Unauthorized));
        assert_eq!(asked.load(Ordering::SeqCst), before, "no review for what cannot be a token");
    }

    #[test]
    fn t11_cached_answers_end_and_are_bounded() {
        let mut cache = Cache::default();
        let start = Instant::now();
        cache.insert(0, true, start);
        assert_eq!(cache.get(&0, start + TTL / 2), Some(true));
        assert_eq!(cache.get(&0, start + TTL), None);
        for key in 0..MOST_CACHED + 10 {
            cache.insert(key, true, start + TTL / 2);
        }
        assert_eq!(cache.0.len(), MOST_CACHED);
    }
}
