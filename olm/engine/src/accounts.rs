//! Requests with the rights of a ServiceAccount: `OperatorGroup.spec.serviceAccountName`.
//!
//! Requests impersonate the account (`Impersonate-User`), which needs the verb `impersonate` on
//! ServiceAccounts. Upstream uses a token of the account. Impersonation grants the same rights, has no token
//! that expires or leaks, and the audit log of the API server names both the account and the manager.

use http::HeaderValue;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, ResourceExt};
use olm_api::OperatorGroup;
use olm_plan::Identity;
use serde::Deserialize as _;

use crate::resources::short;

const IMPERSONATE: &str = "impersonate-user";

/// The ServiceAccount of an OperatorGroup is unusable.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error(
        "ServiceAccount {namespace}/{name} (spec.serviceAccountName of OperatorGroup {namespace}/{group}) \
            does not exist; create it or remove the field"
    )]
    Missing { namespace: String, name: String, group: String },
    #[error(
        "spec.serviceAccountName of OperatorGroup {namespace}/{group}: `{name}` is not a valid \
            ServiceAccount name"
    )]
    Invalid { namespace: String, name: String, group: String },
    #[error("failed to read ServiceAccount {namespace}/{name}: {}", short(.source))]
    Unread { namespace: String, name: String, source: Box<kube::Error> },
}

impl AccountError {
    /// Whether only the user can fix the error, as opposed to an API server that did not answer.
    pub fn is_users(&self) -> bool {
        !matches!(self, Self::Unread { .. })
    }
}

/// The ServiceAccount that applies the plans of a namespace with these OperatorGroups, with a client that
/// impersonates it. `None` when the manager applies them.
pub async fn installer(
    groups: &[serde_json::Value],
    client: &Client,
) -> Result<Option<(Identity, Client)>, AccountError> {
    let group = groups.first().and_then(|group| OperatorGroup::deserialize(group).ok());
    let Some(user) = account(group.as_ref(), client).await? else { return Ok(None) };
    Ok(named(groups).map(|who| (who, acting_as(client.clone(), user))))
}

/// The ServiceAccount that the first of these OperatorGroups names.
pub fn named(groups: &[serde_json::Value]) -> Option<Identity> {
    let text = |pointer: &str| groups.first()?.pointer(pointer)?.as_str().map(str::to_owned);
    Some(Identity::ServiceAccount {
        namespace: text("/metadata/namespace")?,
        name: text("/spec/serviceAccountName")?,
    })
}

/// The ServiceAccount of a group as a user of the API; `None` when the group names none.
pub async fn account(
    group: Option<&OperatorGroup>,
    client: &Client,
) -> Result<Option<HeaderValue>, AccountError> {
    let Some((group, name)) = group.and_then(|g| Some((g, g.spec.service_account_name.clone()?))) else {
        return Ok(None);
    };
    let namespace = group.namespace().unwrap_or_default();
    let api = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
    // The name goes into a URL and a header.
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let user = HeaderValue::from_str(&format!("system:serviceaccount:{namespace}:{name}"));
    let (Ok(user), true) = (user, name.chars().all(plain)) else {
        return Err(AccountError::Invalid { namespace, name, group: group.name_any() });
    };
    match api.get_metadata_opt(&name).await {
        Ok(Some(_)) => Ok(Some(user)),
        Ok(None) => Err(AccountError::Missing { namespace, name, group: group.name_any() }),
        Err(source) => Err(AccountError::Unread { namespace, name, source: Box::new(source) }),
    }
}

/// The same connection, impersonating another user.
pub fn acting_as(client: Client, user: HeaderValue) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let client = client.clone();
        request.headers_mut().insert(IMPERSONATE, user.clone());
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use olm_api::OperatorGroupSpec;
    use serde_json::json;

    use super::*;

    fn group(account: &str) -> OperatorGroup {
        let spec =
            OperatorGroupSpec { service_account_name: Some(account.into()), ..OperatorGroupSpec::default() };
        let mut group = OperatorGroup::new("og", spec);
        group.metadata.namespace = Some("db".into());
        group
    }

    #[tokio::test]
    async fn a_missing_account_is_named_with_the_group_and_the_fix() {
        let client = olm_testing::client(Vec::new());
        let error = account(Some(&group("robot")), &client).await.unwrap_err();
        assert!(error.is_users());
        assert_eq!(
            error.to_string(),
            "ServiceAccount db/robot (spec.serviceAccountName of OperatorGroup db/og) does not exist; create \
                it or remove the field"
        );
        let error = account(Some(&group("../robot")), &client).await.unwrap_err();
        assert!(error.to_string().contains("is not a valid ServiceAccount name"), "{error}");
    }

    #[tokio::test]
    async fn without_an_account_it_is_the_manager_itself() {
        let client = olm_testing::client(Vec::new());
        assert!(account(Some(&OperatorGroup::default()), &client).await.unwrap().is_none());
        assert!(account(None, &client).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn requests_are_made_in_the_name_of_the_account() {
        // given an API server that records the impersonated user
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let user = request.headers().get(IMPERSONATE).map(|v| v.to_str().unwrap().to_owned());
            log.lock().unwrap().push(user);
            let account =
                json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
            let body = kube::client::Body::from(account.to_string().into_bytes());
            async move { Ok::<_, std::io::Error>(http::Response::new(body)) }
        });
        let client = Client::new(service, "default");
        // when the account is read and then used
        let user = account(Some(&group("robot")), &client).await.unwrap().unwrap();
        let acting = acting_as(client, user);
        Api::<ServiceAccount>::namespaced(acting, "db").get("robot").await.unwrap();
        // then only the second request impersonates it
        assert_eq!(*seen.lock().unwrap(), [None, Some("system:serviceaccount:db:robot".to_owned())]);
    }
}
