//! The rights required to apply a plan, for the authority in whose name it is applied.
//!
//! Kubernetes authorizes writes of objects by verb and resource, and writes of roles and bindings by its
//! escalation check: the granted rules must be held, or the verb `escalate` or `bind` on the role.
//! [`Demands`] states both for a plan as [`AccessRequest`]s, each of which a SubjectAccessReview can answer.
//! A rule is split into requests of one verb on one resource, as in Kubernetes' own check, so that the
//! answers add up to the same verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::facts::Identity;
use crate::finding::{Finding, FindingCode, MOST_NAMED};
use crate::json::{plural, some_of};
use crate::object::{ObjectRef, RBAC};
use crate::preflight::{Access, Rule, add};

/// One request to an authorizer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessRequest {
    Resource {
        /// The verb, or `*`.
        verb: String,
        /// The API group, or `*`.
        group: String,
        /// The resource with its subresource (`pods/exec`), or `*`.
        resource: String,
        /// One object; `None` for all of them.
        name: Option<String>,
        /// One namespace; `None` for cluster-scoped objects, and for all namespaces.
        namespace: Option<String>,
    },
    /// Access to a non-resource path.
    Path {
        /// The verb, or `*`.
        verb: String,
        /// The path, `*` at its end included.
        path: String,
    },
}

impl AccessRequest {
    /// Ways to use the rights of a ServiceAccount: impersonation, a token, or a pod.
    pub fn to_use_account(namespace: &str, name: &str) -> [Self; 3] {
        let namespace = Some(namespace);
        [
            Self::resource("create", "", "pods", None, namespace),
            Self::resource("create", "", "serviceaccounts/token", Some(name), namespace),
            Self::resource("impersonate", "", "serviceaccounts", Some(name), namespace),
        ]
    }

    fn resource(
        verb: &str,
        group: &str,
        resource: &str,
        name: Option<&str>,
        namespace: Option<&str>,
    ) -> Self {
        Self::Resource {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
        }
    }

    /// The request for a part of a rule (one verb on one resource, object or path).
    fn of_part(part: &Rule, namespace: Option<&str>) -> Self {
        let first = |list: &[String]| list.first().cloned().unwrap_or_default();
        match part.urls.first() {
            Some(url) => Self::Path { verb: first(&part.verbs), path: url.clone() },
            None => Self::resource(
                &first(&part.verbs),
                &first(&part.groups),
                &first(&part.resources),
                part.names.first().map(String::as_str),
                namespace,
            ),
        }
    }

    /// The same for every object.
    fn unnamed(&self) -> Self {
        let mut all = self.clone();
        if let Self::Resource { name, .. } = &mut all {
            *name = None;
        }
        all
    }

    /// The answer by known rules; `None` where they are unknown.
    pub(crate) fn by(&self, access: &Access) -> Option<bool> {
        match self {
            Self::Resource { verb, group, resource, name, namespace } => {
                access.allows(verb, group, resource, None, name.as_deref(), namespace.as_deref())
            }
            Self::Path { verb, path } => {
                let rule = Rule { verbs: vec![verb.clone()], urls: vec![path.clone()], ..Rule::default() };
                access.lacks(&[rule], None).map(|missing| missing.is_empty())
            }
        }
    }
}

pub type Answers = BTreeMap<AccessRequest, bool>;

/// A write of a role or a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The written role or binding.
    pub by: ObjectRef,
    /// The verb that allows it without holding the rules: `escalate` or `bind`.
    pub verb: &'static str,
    /// The written or bound role; a Role is in the namespace of [`Self::by`].
    pub role: ObjectRef,
    /// The granted rules; `None` where the role is neither in the plan nor known.
    pub rules: Option<Vec<Rule>>,
}

impl Grant {
    fn scope(&self) -> Option<&str> {
        self.by.namespace.as_deref()
    }

    /// The permission to do it regardless of the rules.
    pub(crate) fn verb_request(&self) -> AccessRequest {
        let resource = if self.role.kind == "Role" { "roles" } else { "clusterroles" };
        AccessRequest::resource(self.verb, RBAC, resource, Some(&self.role.name), self.scope())
    }
}

/// A required write, and the object that needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) request: AccessRequest,
    pub(crate) object: ObjectRef,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    pub(crate) writes: Vec<Write>,
    /// The written roles and bindings.
    pub grants: Vec<Grant>,
}

/// Result of the answers so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These requests must be answered before a verdict.
    Undecided(BTreeSet<AccessRequest>),
    Covered,
    Lacking(Vec<Missing>),
}

/// Missing rights in one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The namespace; `None` is the cluster.
    pub namespace: Option<String>,
    pub rules: Vec<Rule>,
    /// What needs them: `create roles etcd`, `Role db/etcd grants get secrets`.
    pub needed_for: Vec<String>,
}

/// These two include all rights: two requests identify cluster administrators.
fn everything() -> [AccessRequest; 2] {
    [
        AccessRequest::resource("*", "*", "*", None, None),
        AccessRequest::Path { verb: "*".to_owned(), path: "*".to_owned() },
    ]
}

impl Demands {
    /// Adds the demands of a manifest outside of the plan. The rules of a role that it binds are unknown
    /// here.
    pub fn apply(&mut self, manifest: &Value, exists: bool) {
        let Some(reference) = ObjectRef::of(manifest) else { return };
        self.write(&reference, if exists { "patch" } else { "create" });
        if reference.group() != RBAC {
            return;
        }
        if reference.kind.ends_with("Binding") {
            let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let kind = text("/roleRef/kind");
            let namespace = reference.namespace.as_deref().filter(|_| kind == "Role");
            let role = ObjectRef::new(&reference.api_version, kind, namespace, text("/roleRef/name"));
            self.grants.push(Grant { by: reference, verb: "bind", role, rules: None });
        } else {
            let rules = Some(Rule::of_role(manifest));
            self.grants.push(Grant { by: reference.clone(), verb: "escalate", role: reference, rules });
        }
    }

    /// Adds a write of an object.
    pub(crate) fn write(&mut self, object: &ObjectRef, verb: &'static str) {
        let resource = plural(&object.kind);
        // The authorizer does not see the name of an object on creation.
        let name = (verb != "create").then_some(object.name.as_str());
        let request =
            AccessRequest::resource(verb, object.group(), &resource, name, object.namespace.as_deref());
        self.writes.push(Write { request, object: object.clone() });
    }

    /// Fills in the rules of roles that are written together with their bindings.
    #[must_use]
    pub fn resolved(mut self) -> Self {
        let written: Vec<(ObjectRef, Option<Vec<Rule>>)> = self
            .grants
            .iter()
            .filter(|g| g.verb == "escalate")
            .map(|g| (g.by.clone(), g.rules.clone()))
            .collect();
        for grant in self.grants.iter_mut().filter(|grant| grant.rules.is_none()) {
            let role = written.iter().find(|(role, _)| role.same_object(&grant.role));
            grant.rules = role.and_then(|(_, rules)| rules.clone());
        }
        self
    }

    /// Adds the demands of another plan applied with this one.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.writes.extend(other.writes.iter().cloned());
        self.grants.extend(other.grants.iter().cloned());
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.grants.is_empty()
    }

    /// The verdict by answers, or the open requests where they do not suffice. The caller repeats it with
    /// further answers until no request is open: at most five rounds.
    pub fn verdict(&self, answers: &Answers) -> Verdict {
        if self.is_empty() {
            return Verdict::Covered;
        }
        let mut evaluation = Evaluation { answers, open: BTreeSet::new() };
        let all = everything().map(|request| evaluation.answer(request));
        if !evaluation.open.is_empty() {
            return Verdict::Undecided(evaluation.open);
        }
        if all == [Some(true), Some(true)] {
            return Verdict::Covered;
        }
        let mut missing: BTreeMap<Option<String>, Missing> = BTreeMap::new();
        for write in &self.writes {
            if evaluation.allows(&write.request) == Some(false) {
                missing_in(&mut missing, write.object.namespace.as_deref()).write(write);
            }
        }
        for grant in &self.grants {
            if evaluation.allows(&grant.verb_request()) != Some(false) {
                continue;
            }
            let scope = grant.scope();
            let Some(rules) = &grant.rules else {
                missing_in(&mut missing, scope).unknown(grant);
                continue;
            };
            let parts = rules.iter().flat_map(Rule::parts);
            // Every part is evaluated, so that all open requests are returned at once.
            let lacking: Vec<Rule> = parts
                .filter(|part| evaluation.allows(&AccessRequest::of_part(part, scope)) == Some(false))
                .collect();
            if !lacking.is_empty() {
                missing_in(&mut missing, scope).grant(grant, lacking);
            }
        }
        match (evaluation.open.is_empty(), missing.is_empty()) {
            (false, _) => Verdict::Undecided(evaluation.open),
            (true, true) => Verdict::Covered,
            (true, false) => Verdict::Lacking(missing.into_values().collect()),
        }
    }

    /// The verdict by known rules; `None` where they do not suffice.
    pub(crate) fn judge(&self, access: &Access) -> Option<Verdict> {
        let mut answers = Answers::new();
        loop {
            match self.verdict(&answers) {
                Verdict::Undecided(requests) => {
                    for request in requests {
                        let answer = request.by(access)?;
                        answers.insert(request, answer);
                    }
                }
                verdict => return Some(verdict),
            }
        }
    }
}

fn missing_in<'m>(all: &'m mut BTreeMap<Option<String>, Missing>, scope: Option<&str>) -> &'m mut Missing {
    let namespace = scope.map(str::to_owned);
    all.entry(namespace.clone()).or_insert_with(|| Missing {
        namespace,
        rules: Vec::new(),
        needed_for: Vec::new(),
    })
}

struct Evaluation<'a> {
    answers: &'a Answers,
    open: BTreeSet<AccessRequest>,
}

impl Evaluation<'_> {
    fn answer(&mut self, request: AccessRequest) -> Option<bool> {
        let known = self.answers.get(&request).copied();
        if known.is_none() {
            self.open.insert(request);
        }
        known
    }

    /// First for all objects, which is one request for many writes, and then for the single one.
    fn allows(&mut self, request: &AccessRequest) -> Option<bool> {
        let all = request.unnamed();
        match self.answer(all.clone()) {
            Some(false) if all != *request => self.answer(request.clone()),
            answer => answer,
        }
    }
}

impl Missing {
    fn write(&mut self, write: &Write) {
        let AccessRequest::Resource { verb, group, resource, .. } = &write.request else { return };
        let rule = Rule {
            verbs: vec![verb.clone()],
            groups: vec![group.clone()],
            resources: vec![resource.clone()],
            ..Rule::default()
        };
        add(&mut self.rules, rule);
        self.needed_for.push(format!("{verb} {resource} {}", write.object.name));
    }

    fn grant(&mut self, grant: &Grant, lacking: Vec<Rule>) {
        let mut rules = Vec::new();
        lacking.into_iter().for_each(|part| add(&mut rules, part));
        let words: Vec<String> = rules.iter().map(ToString::to_string).collect();
        self.needed_for.push(format!("{} grants {}", grant.by, some_of(&words, MOST_NAMED)));
        for rule in rules {
            if !self.rules.contains(&rule) {
                self.rules.push(rule);
            }
        }
    }

    fn unknown(&mut self, grant: &Grant) {
        let AccessRequest::Resource { verb, group, resource, name, .. } = grant.verb_request() else {
            return;
        };
        self.needed_for.push(format!("{} binds {}, whose rules are unknown", grant.by, grant.role));
        self.rules.push(Rule {
            verbs: vec![verb],
            groups: vec![group],
            resources: vec![resource],
            names: name.into_iter().collect(),
            urls: Vec::new(),
        });
    }

    /// Description for users.
    pub fn describe(&self, who: &Identity) -> String {
        let rules: Vec<String> = self.rules.iter().map(ToString::to_string).collect();
        let place = self
            .namespace
            .as_deref()
            .map_or_else(|| "cluster-wide".to_owned(), |namespace| format!("in namespace {namespace}"));
        format!(
            "{who} {} not hold these permissions {place}: {} (required for: {})",
            if *who == Identity::Caller { "do" } else { "does" },
            some_of(&rules, MOST_NAMED),
            some_of(&self.needed_for, MOST_NAMED)
        )
    }

    /// The finding that the plan needs an approver with these rights; `approve` is the command.
    pub(crate) fn finding(&self, who: &Identity, approve: &str) -> Finding {
        let text =
            format!("{}; the plan requires approval by a user with these permissions", self.describe(who));
        Finding::new(FindingCode::ApproverLacksRights, who, text).fix(approve)
    }
}

#[cfg(test)]
mod tests;
