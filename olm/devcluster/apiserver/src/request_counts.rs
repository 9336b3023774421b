//! `/dev/rights`: recorded requests of ServiceAccounts.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use axum::response::Response;
use http::Method;

use super::{
    authn::Identity,
    authz::Attributes,
    rights::{List, PATH, Right, Used},
    status::{ApiError, ApiResult, json_response},
};

/// Limit of counted permissions of all accounts: a hundred operators with a hundred each. Further ones are
/// not counted.
const MOST: usize = 10_000;

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    allowed: u64,
    forbidden: u64,
}

/// Number of requests by account and permission, since the start.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts(Mutex<BTreeMap<(String, Right), Count>>);

impl RequestCounts {
    /// Counts a request of a ServiceAccount for a resource.
    pub(crate) fn note(&self, caller: &Identity, wanted: &Attributes, allowed: bool) {
        let Some(account) = caller.user.strip_prefix("system:serviceaccount:") else { return };
        if wanted.resource.is_empty() {
            return;
        }
        let right = Right {
            group: wanted.group.clone(),
            resource: wanted.resource.clone(),
            verb: wanted.verb.clone(),
            cluster_wide: wanted.namespace.is_empty(),
        };
        let key = (account.to_owned(), right);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST && !seen.contains_key(&key) {
            return;
        }
        let count = seen.entry(key).or_default();
        if allowed {
            count.allowed += 1;
        } else {
            count.forbidden += 1;
        }
    }

    /// Serves GET of `/dev/rights/NAMESPACE/ACCOUNT`.
    pub(crate) fn serve(&self, method: &Method, path: &str) -> ApiResult<Response> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        let rest = path.strip_prefix(PATH).unwrap_or_default().trim_start_matches('/');
        let Some((namespace, account)) = rest.split_once('/') else {
            return Err(ApiError::bad_request(format!(
                "invalid path, expected {PATH}/NAMESPACE/SERVICEACCOUNT"
            )));
        };
        let wanted = format!("{namespace}:{account}");
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = seen.iter().filter(|((account, _), _)| *account == wanted);
        let used = |((_, right), count): (&(String, Right), &Count)| Used {
            right: right.clone(),
            allowed: count.allowed,
            forbidden: count.forbidden,
        };
        let items: Vec<Used> = of_it.map(used).collect();
        Ok(json_response(200, &serde_json::to_value(List { items }).unwrap_or_default()))
    }
}
