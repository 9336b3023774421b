//! Admission policies by which the API server records requesters and approvers.
//!
//! * `olm-requests` (mutating): a Subscription, OperatorGroup, ClusterServiceVersion or InstallPolicy carries
//!   the name and the groups of the user who last changed its `spec` or an annotation in [`DECISIONS`]. Any
//!   other change of these annotations records its author too, so that no name can be forged.
//! * `olm-approvals` (validating and mutating): an InstallPlan carries the name and the groups of the user
//!   who approved it, and the annotations in [`CONTENT`] cannot be changed.
//!
//! The manager is exempt: it writes on behalf of others. API servers without these policies call a webhook of
//! the manager that does the same ([`webhook`](super::webhook)).

use olm_api::names;
use serde_json::{Value, json};

use olm_engine::site::manager_user;

/// Name of the policies that record approvals, and of their bindings.
const APPROVALS: &str = "olm-approvals";
/// Name of the policy that records requests, of its binding, and of the webhook where these policies are not
/// served.
pub const REQUESTS: &str = "olm-requests";

/// Annotations on a Subscription that are part of the request in addition to its `spec`.
pub const DECISIONS: [&str; 4] = [
    names::ANNOTATION_REQUESTED_BY,
    names::ANNOTATION_REQUESTED_BY_GROUPS,
    names::ANNOTATION_APPROVED_PLAN,
    names::ANNOTATION_ROLLBACK_TO,
];

/// Annotations of an InstallPlan that only the manager writes: what it applies, and what approvers are shown.
pub const CONTENT: [&str; 8] = [
    names::ANNOTATION_CONTENT_DIGEST,
    names::ANNOTATION_PLAN_ALONG,
    names::ANNOTATION_FIRST_APPROVAL,
    names::ANNOTATION_REQUESTED_BY,
    names::ANNOTATION_PLAN_REVIEW,
    names::ANNOTATION_PLAN_SUMMARY,
    names::ANNOTATION_PLAN_PARTS,
    names::ANNOTATION_APPROVAL_NEEDED,
];

/// The kinds whose authors are recorded.
pub const REQUESTED: [&str; 4] =
    ["subscriptions", "operatorgroups", "clusterserviceversions", "installpolicies"];

/// Whether the request approves the plan.
pub const APPROVES: &str = "object.spec.approved && (oldObject == null || !oldObject.spec.approved)";

/// The groups of the requester, one per line.
const GROUPS: &str =
    r"(has(request.userInfo.groups) ? request.userInfo.groups.filter(g, !g.contains('\n')).join('\n') : '')";

/// An annotation of an object; `none` when absent.
fn annotation(object: &str, key: &str, none: &str) -> String {
    format!(
        "({object} != null && has({object}.metadata.annotations) && '{key}' in {object}.metadata.annotations ? \
         {object}.metadata.annotations['{key}'] : {none})"
    )
}

/// Whether a request leaves an annotation as it is. An empty one differs from an absent one: an empty
/// `olm.planReview` means that there is nothing to review.
fn keeps(key: &str) -> String {
    format!("{} == {}", annotation("object", key, "null"), annotation("oldObject", key, "null"))
}

/// A field of the spec; `none` when absent.
fn field(object: &str, name: &str, none: &str) -> String {
    format!("(has({object}.spec.{name}) ? {object}.spec.{name} : {none})")
}

/// Whether a request changes the `spec` or one of these annotations.
pub fn changes(annotations: &[&str]) -> String {
    let spec = |object: &str| format!("(has({object}.spec) ? {object}.spec : null)");
    let mut terms =
        vec!["oldObject == null".to_owned(), format!("{} != {}", spec("object"), spec("oldObject"))];
    terms.extend(annotations.iter().map(|key| format!("!({})", keeps(key))));
    terms.join(" || ")
}

fn constraints(resources: &[&str]) -> Value {
    json!({ "resourceRules": [{
        "apiGroups": [names::GROUP], "apiVersions": ["*"], "resources": resources,
        "operations": ["CREATE", "UPDATE"],
    }] })
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    })
}

fn mutating(name: &str, resources: &[&str], when: Value, record: [&str; 2]) -> [Value; 2] {
    let [user, groups] = record;
    let stamp = format!(
        "Object{{metadata: Object.metadata{{annotations: {{'{user}': request.userInfo.username, '{groups}': {GROUPS}}}}}}}"
    );
    let spec = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": constraints(resources),
        "matchConditions": when,
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": { "expression": stamp },
        }],
    });
    let binding = json!({ "policyName": name });
    [object("MutatingAdmissionPolicy", name, spec), object("MutatingAdmissionPolicyBinding", name, binding)]
}

/// All policies of an installation in a namespace.
#[must_use]
pub fn objects(namespace: &str) -> Vec<Value> {
    let manager = manager_user(namespace);
    let mut out = Vec::from(approvals(&manager));
    out.extend(mutating(
        APPROVALS,
        &["installplans"],
        json!([{ "name": "approves", "expression": APPROVES }]),
        [names::ANNOTATION_APPROVED_BY, names::ANNOTATION_APPROVED_BY_GROUPS],
    ));
    out.extend(mutating(
        REQUESTS,
        &REQUESTED,
        json!([
            { "name": "by-others", "expression": format!("request.userInfo.username != '{manager}'") },
            { "name": "changes", "expression": changes(&DECISIONS) },
        ]),
        [names::ANNOTATION_REQUESTED_BY, names::ANNOTATION_REQUESTED_BY_GROUPS],
    ));
    out
}

/// The rules for all writes of an InstallPlan: Kubernetes 1.30 and newer.
fn approvals(manager: &str) -> [Value; 2] {
    let (by, groups) = (names::ANNOTATION_APPROVED_BY, names::ANNOTATION_APPROVED_BY_GROUPS);
    let kept = CONTENT.map(keeps);
    let same = [("planDigest", "''"), ("clusterServiceVersionNames", "[]")]
        .map(|(name, none)| format!("{} == {}", field("object", name, none), field("oldObject", name, none)));
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": constraints(&["installplans"]),
        "variables": [
            { "name": "manager", "expression": format!("request.userInfo.username == '{manager}'") },
            { "name": "approves", "expression": APPROVES },
            { "name": "now", "expression": annotation("object", by, "''") },
            { "name": "before", "expression": annotation("oldObject", by, "''") },
            { "name": "nowGroups", "expression": annotation("object", groups, "''") },
            { "name": "beforeGroups", "expression": annotation("oldObject", groups, "''") },
        ],
        "validations": [{
            "expression": "variables.manager || \
                           (variables.approves && variables.now == request.userInfo.username) || \
                           (variables.now == variables.before && (!variables.approves || variables.before == ''))",
            "messageExpression": format!(
                "'annotation {by} records the approver: it can only be ' + request.userInfo.username + ', and only in the \
                 request that sets spec.approved'"
            ),
            "reason": "Forbidden",
        }, {
            "expression": format!(
                "variables.manager || (variables.approves && variables.nowGroups in ['', {GROUPS}]) || \
                 (variables.nowGroups == variables.beforeGroups && !variables.approves)"
            ),
            "messageExpression": format!("'annotation {groups} can only hold the groups of the user who approves'"),
            "reason": "Forbidden",
        }, {
            "expression": format!(
                "variables.manager || ({} && (oldObject == null || ({})))", kept.join(" && "), same.join(" && ")
            ),
            "message": "the content of an InstallPlan is written by the manager: only spec.approved can be changed",
            "reason": "Forbidden",
        }],
    });
    let binding = json!({ "policyName": APPROVALS, "validationActions": ["Deny"] });
    [
        object("ValidatingAdmissionPolicy", APPROVALS, spec),
        object("ValidatingAdmissionPolicyBinding", APPROVALS, binding),
    ]
}
