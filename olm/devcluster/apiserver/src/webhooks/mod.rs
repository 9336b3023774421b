//! Dynamic admission: webhooks that are called before a request is executed.
//!
//! * [`hook`]: a compiled webhook; [`matching`]: its match rules; [`conditions`]: its `matchConditions`
//! * [`review`]: its request and response
//! * [`mutate`](mod@mutate) and [`validate`](mod@validate): the two rounds; [`update`]: both, for an update
//!   of an object; [`subresource`]: both, for a POST to a subresource
//! * [`rules`]: validation of webhook configurations

mod conditions;
mod connect;
mod hook;
mod matching;
mod mutate;
mod review;
mod rules;
mod subresource;
mod update;
mod validate;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;

use self::hook::Hook;
pub(crate) use self::{
    conditions::{Conditions, VARIABLES, check as check_conditions},
    connect::connect,
    hook::Matching,
    matching::{Equivalents, Kind, by_rules, by_selectors},
    mutate::mutate,
    review::{Question, request},
    rules::{
        check_rule, check_selector, defaults_mutating, defaults_validating, mutating_rules, one_of,
        validating_rules,
    },
    subresource::posted,
    update::UpdateAdmission,
    validate::{to_version, validate},
};
use super::{
    authn::Identity,
    registry::Resource,
    server::{Call, Server},
    status::ApiResult,
    store::Store,
};

/// Group of webhook configurations, which are exempt from webhooks so that a faulty one can be removed.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The active webhooks, compiled; requests share them and a changed configuration replaces them.
#[derive(Default)]
pub(crate) struct Webhooks {
    mutating: RwLock<Arc<[Hook]>>,
    validating: RwLock<Arc<[Hook]>>,
}

impl Webhooks {
    /// Reloads the webhooks from the store.
    pub(crate) fn reload(&self, store: &Store) {
        for (hooks, plural) in [(&self.mutating, MUTATING), (&self.validating, VALIDATING)] {
            // The lock is held during the read: of two concurrent reloads, the last to read is the last to
            // write.
            let mut hooks = hooks.write().unwrap_or_else(PoisonError::into_inner);
            *hooks = compile(store, plural);
        }
    }

    fn mutating(&self) -> Arc<[Hook]> {
        self.mutating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn validating(&self) -> Arc<[Hook]> {
        self.validating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The webhooks of all configurations: by name of the configuration, then as written.
fn compile(store: &Store, plural: &str) -> Arc<[Hook]> {
    let configurations = store.list(&format!("{GROUP}/{plural}"), "").items;
    configurations.iter().flat_map(|configuration| Hook::all_of(configuration)).collect()
}

/// Whether a write affects the active webhooks.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.group == GROUP && matches!(resource.plural.as_str(), MUTATING | VALIDATING)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A request subject to admission.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionRequest<'a> {
    pub server: &'a Arc<Server>,
    pub resource: &'a Arc<Resource>,
    pub subresource: &'a str,
    pub who: &'a Identity,
    pub operation: Operation,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The old object, in the version of the request.
    pub old: Option<&'a Arc<Value>>,
    pub dry_run: bool,
    /// `CreateOptions` and the like; created only when a webhook is called.
    pub options: &'a (dyn Fn() -> Value + Sync),
    pub warnings: &'a Mutex<Vec<String>>,
}

impl AdmissionRequest<'_> {
    pub(crate) fn warn(&self, text: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.iter().any(|w| w == text) {
            warnings.push(text.to_owned());
        }
    }

    /// Configurations of webhooks and policies are exempt.
    fn is_exempt(&self) -> bool {
        self.resource.group == GROUP
    }

    /// Whether any policy or webhook has a rule for it. Cheap, because most requests match none.
    pub(crate) fn matches_any(&self) -> bool {
        self.concerns(&self.server.webhooks.mutating())
            || self.concerns(&self.server.webhooks.validating())
            || (!self.is_exempt() && self.server.policies.concern(self))
    }

    /// Whether any validating policy or webhook has a rule for it.
    pub(crate) fn concerns_validating(&self) -> bool {
        self.concerns(&self.server.webhooks.validating())
            || (!self.is_exempt() && self.server.policies.concern_validating(self))
    }

    fn concerns(&self, hooks: &[Hook]) -> bool {
        if hooks.is_empty() || self.is_exempt() {
            return false;
        }
        let others = matching::Equivalents::default();
        hooks.iter().any(|hook| matching::by_rules(&hook.matching, self, &others).is_some())
    }
}

/// The options of a request in the form of `meta.k8s.io/v1`.
pub(crate) fn options(call: &Call<'_>, kind: &str) -> Value {
    let mut options = serde_json::json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    for key in ["fieldManager", "fieldValidation"] {
        let value = call.query.get(key);
        if !value.is_empty() {
            options[key] = value.into();
        }
    }
    if call.query.get("dryRun") == "All" {
        options["dryRun"] = serde_json::json!(["All"]);
    }
    options
}

/// Calls both kinds of webhooks for a request that stores no object: a delete, a connection.
pub(crate) async fn admit_request(admission: &AdmissionRequest<'_>, object: Option<&Value>) -> ApiResult<()> {
    let mut copy = object.cloned();
    mutate(admission, copy.as_mut(), &mut |_| Ok(())).await?;
    validate(admission, copy.as_ref()).await
}
