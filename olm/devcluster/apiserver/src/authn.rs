//! Authentication: bearer tokens, client certificates, impersonation.

use std::{collections::BTreeMap, path::Path};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use http::HeaderMap;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
    },
};
use serde_json::{Value, json};

use super::{
    authz::{self, Attributes},
    meta,
    status::{ApiError, ApiResult},
    store::{Key, Store},
    tls::FileError,
};

/// Issuer and default audience of ServiceAccount tokens.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// User name, for example `system:serviceaccount:olm:olm-manager`.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Unique id, if known.
    pub uid: String,
    /// Further attributes, for example the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// The cluster administrator: group `system:masters`.
    pub fn admin() -> Self {
        Self::user("kubernetes-admin", [authz::MASTERS])
    }

    /// A user with groups; `system:authenticated` is added.
    pub fn user<'a>(name: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
        groups.push("system:authenticated".to_owned());
        Self { user: name.to_owned(), groups, ..Self::default() }
    }

    /// A component of the cluster itself, for example `system:kube-controller-manager`, with all permissions.
    pub fn system(name: &str) -> Self {
        Self::user(name, [authz::MASTERS])
    }

    /// A ServiceAccount.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        Self::user(&user, ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")])
    }

    /// A request without credentials.
    pub(crate) fn anonymous() -> Self {
        Self {
            user: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// The `UserInfo` in reviews.
    pub(crate) fn to_user_info(&self) -> Value {
        let mut info = json!({ "username": self.user, "groups": self.groups });
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// Claims of a new token.
pub(crate) struct TokenSpec<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub audiences: Vec<String>,
    pub seconds: i64,
    /// kind, name and uid of the object that the token is bound to.
    pub bound: Option<(&'a str, String, String)>,
}

/// Signing keys and tokens of the cluster.
pub(crate) struct Tokens {
    admin: String,
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Tokens {
    /// Reads them from the data directory, or creates them.
    pub(crate) fn open(directory: Option<&Path>) -> Result<Self, FileError> {
        let random = SystemRandom::new();
        let admin = super::tls::read_or_make(directory, "admin.token", || {
            let bytes: [u8; 24] = rand::random();
            Ok(BASE64.encode(bytes).into_bytes())
        })?;
        let document = super::tls::read_or_make(directory, "service-account.key", || {
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
                .map(|document| document.as_ref().to_vec())
                .map_err(|error| error.to_string())
        })?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &document, &random)
            .map_err(|error| FileError::new(directory, "service-account.key", error))?;
        let admin = String::from_utf8(admin).map_err(|e| FileError::new(directory, "admin.token", e))?;
        Ok(Self { admin: admin.trim().to_owned(), key, random })
    }

    pub(crate) fn admin(&self) -> &str {
        &self.admin
    }

    /// A signed ServiceAccount token and the time at which it expires.
    pub(crate) fn issue(&self, spec: &TokenSpec<'_>) -> ApiResult<(String, i64)> {
        let now = meta::now_unix();
        let expires = now + spec.seconds;
        let mut about = json!({
            "namespace": spec.namespace,
            "serviceaccount": { "name": spec.name, "uid": spec.uid },
        });
        if let Some((kind, name, uid)) = &spec.bound {
            about[kind.to_lowercase()] = json!({ "name": name, "uid": uid });
        }
        let claims = json!({
            "aud": spec.audiences,
            "exp": expires,
            "iat": now,
            "iss": ISSUER,
            "jti": meta::new_uid(),
            "kubernetes.io": about,
            "nbf": now,
            "sub": format!("system:serviceaccount:{}:{}", spec.namespace, spec.name),
        });
        let header = json!({ "alg": "ES256", "kid": "olm", "typ": "JWT" });
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self
            .key
            .sign(&self.random, signed.as_bytes())
            .map_err(|_| ApiError::internal("failed to sign the token"))?;
        Ok((format!("{signed}.{}", BASE64.encode(signature.as_ref())), expires))
    }

    /// Identity and audiences of a token; `None` when it is not valid (any more).
    pub(crate) fn verify(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
    ) -> Option<(Identity, Vec<String>)> {
        let same = token.len() == self.admin.len()
            && token.bytes().zip(self.admin.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0;
        if same {
            return Some((Identity::admin(), vec![ISSUER.to_owned()]));
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(signed.as_bytes(), &BASE64.decode(signature).ok()?).ok()?;
        let claims: Value = serde_json::from_slice(&BASE64.decode(signed.split_once('.')?.1).ok()?).ok()?;
        let now = meta::now_unix();
        if claims["iss"] != ISSUER || claims["exp"].as_i64()? <= now {
            return None;
        }
        let have: Vec<String> =
            meta::list(&claims, "/aud").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let matching: Vec<String> = have.into_iter().filter(|a| audiences.contains(a)).collect();
        if matching.is_empty() {
            return None;
        }
        let about = claims.get("kubernetes.io")?;
        let namespace = meta::text(about, "/namespace");
        let (name, uid) =
            (meta::text(about, "/serviceaccount/name"), meta::text(about, "/serviceaccount/uid"));
        // A token is valid as long as its ServiceAccount and the object that it is bound to exist.
        let account = store.get(&Key::new("/serviceaccounts", namespace, name))?;
        if meta::uid(&account) != uid {
            return None;
        }
        let mut identity = Identity { uid: uid.to_owned(), ..Identity::service_account(namespace, name) };
        for (kind, resource) in [("pod", "/pods"), ("secret", "/secrets")] {
            if let Some(bound) = about.get(kind) {
                let (name, uid) = (meta::text(bound, "/name"), meta::text(bound, "/uid"));
                let object = store.get(&Key::new(resource, namespace, name))?;
                if meta::uid(&object) != uid {
                    return None;
                }
                let fact = |what: &str| format!("authentication.kubernetes.io/{kind}-{what}");
                identity.extra.insert(fact("name"), vec![name.to_owned()]);
                identity.extra.insert(fact("uid"), vec![uid.to_owned()]);
            }
        }
        Some((identity, matching))
    }
}

/// Authenticates tokens of an external issuer, as the JWT authenticators of kube-apiserver do.
#[async_trait]
pub trait TokenAuthenticator: Send + Sync {
    /// The user of a token; `None` when it is not valid.
    async fn authenticate(&self, token: &str) -> Option<Identity>;
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get("authorization")?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The caller of a request, from its headers. `known` is the identity from the transport (in-process, client
/// certificate), `external` the user of the token of an external issuer.
pub(crate) fn identify(
    tokens: &Tokens,
    store: &Store,
    headers: &HeaderMap,
    known: Option<Identity>,
    external: Option<Identity>,
) -> ApiResult<Identity> {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let identity = match (header("authorization"), known) {
        (Some(_), _) => {
            let token = bearer(headers).ok_or_else(ApiError::unauthorized)?;
            let audiences = [ISSUER.to_owned()];
            let own = tokens.verify(store, token, &audiences).map(|(identity, _)| identity);
            own.or(external).ok_or_else(ApiError::unauthorized)?
        }
        (None, Some(identity)) => identity,
        (None, None) => Identity::anonymous(),
    };
    impersonate(store, headers, identity)
}

fn impersonate(store: &Store, headers: &HeaderMap, identity: Identity) -> ApiResult<Identity> {
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned).collect()
    };
    let user = all("impersonate-user").into_iter().next();
    let groups = all("impersonate-group");
    let uid = all("impersonate-uid").into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix("impersonate-extra-"), value.to_str()) {
            extra.entry(super::request::percent_decode(key)).or_default().push(value.to_owned());
        }
    }
    let Some(user) = user.filter(|u| !u.is_empty()) else {
        if groups.is_empty() && extra.is_empty() && uid.is_empty() {
            return Ok(identity);
        }
        return Err(ApiError::bad_request(
            "requested to impersonate groups or extra without impersonating a user",
        ));
    };
    let may = |group: &str, resource: &str, namespace: &str, name: &str| {
        let wanted = Attributes {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: String::new(),
        };
        authz::check(store, &identity, &wanted)
    };
    let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => may("", "serviceaccounts", namespace, name)?,
        None => may("", "users", "", &user)?,
    }
    for group in &groups {
        may("", "groups", "", group)?;
    }
    if !uid.is_empty() {
        may("authentication.k8s.io", "uids", "", &uid)?;
    }
    for (key, values) in &extra {
        for value in values {
            may("authentication.k8s.io", &format!("userextras/{key}"), "", value)?;
        }
    }
    let mut acting = match account {
        Some((namespace, name)) if groups.is_empty() => Identity::service_account(namespace, name),
        _ => Identity { user, groups, ..Identity::default() },
    };
    let anonymous = acting.user == "system:anonymous";
    let wanted = if anonymous { "system:unauthenticated" } else { "system:authenticated" };
    if !acting.groups.iter().any(|g| g == wanted) {
        acting.groups.push(wanted.to_owned());
    }
    acting.extra = extra;
    acting.uid = uid;
    Ok(acting)
}
