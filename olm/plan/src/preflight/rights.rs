//! The rights that a plan requires: of the manager that applies it, of the caller that requests it, and of
//! the authority in whose name it is applied.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::names;
use olm_version::shell_word;
use serde_json::{Value, json};

use super::access::{Access, Rule, add};
use super::{Context, Report};
use crate::demands::{Demands, Grant, Verdict};
use crate::digest;
use crate::facts::{Identity, Principal};
use crate::finding::{Finding, FindingCode, MOST_NAMED, Severity};
use crate::json::{list, plural, some_of, text};
use crate::object::{ObjectRef, RBAC};
use crate::plan::{Op, PlanAction, PlannedObject};

const OLM: &str = "operators.coreos.com";

/// A required permission.
struct Need<'a> {
    verb: &'static str,
    group: &'a str,
    resource: String,
    name: Option<&'a str>,
    namespace: Option<&'a str>,
}

impl<'a> Need<'a> {
    fn of(reference: &'a ObjectRef, verb: &'static str) -> Self {
        Self {
            verb,
            group: reference.group(),
            resource: plural(&reference.kind),
            name: Some(&reference.name),
            namespace: reference.namespace.as_deref(),
        }
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let facts = &context.input.facts;
    if context.objects.is_empty() {
        return;
    }
    if let Some(installer) =
        report.known_or_record(&facts.installer, "the permissions of the account that applies the plan")
    {
        let needs = installer_needs(context);
        report_lacking(context, FindingCode::InstallerLacksRights, installer, &needs, report);
        grants(context, installer, report);
    }
    if let Some(user) = report.known_or_record(&facts.user, "your permissions") {
        let subscription = subscription(context);
        let namespace = crate::desired::namespace_ref(context.input.namespace);
        let needs = user_needs(context, &subscription, &namespace);
        report_lacking(context, FindingCode::UserLacksRights, user, &needs, report);
        approver(context, user, report);
    }
}

/// Whether the plan would need another approver if the caller requested it.
fn approver(context: &Context<'_>, user: &Principal, report: &mut Report) {
    let lending = super::lending(context);
    match demands(context).judge(&user.access) {
        Some(Verdict::Lacking(_)) if !lending.is_empty() => {
            let policies: Vec<&str> = lending.iter().map(String::as_str).collect();
            let what = format!(
                "whether the author of InstallPolicy {} holds the permissions that you lack",
                policies.join(" or ")
            );
            report.not_checked(what, "the manager checks this when it creates the plan");
        }
        Some(Verdict::Lacking(missing)) => {
            let approve = format!(
                "olm approve {} -n {}",
                shell_word(&context.input.resolved.chosen.package),
                context.input.namespace
            );
            report.extend(missing.iter().map(|missing| missing.finding(&user.who, &approve)));
        }
        Some(Verdict::Covered | Verdict::Undecided(_)) => {}
        None => report.not_checked("whether you may approve it", "the permissions are unknown"),
    }
}

/// Server-side apply needs `patch`, and `create` for a new object.
fn installer_needs<'a>(context: &Context<'a>) -> Vec<Need<'a>> {
    let mut needs = Vec::new();
    for object in context.objects {
        let reference = &object.reference;
        // The creator of the Subscription creates the namespace.
        if reference.kind == "Namespace" {
            continue;
        }
        let verbs: &[&'static str] = match object.op {
            Op::Create => &["create", "patch"],
            Op::Update | Op::Adopt => &["patch"],
            Op::Delete => &["delete"],
            Op::Unchanged | Op::Noop => &[],
        };
        needs.extend(verbs.iter().map(|verb| Need::of(reference, verb)));
    }
    needs
}

fn subscription(context: &Context<'_>) -> ObjectRef {
    let input = context.input;
    ObjectRef::new("operators.coreos.com/v1alpha1", "Subscription", Some(input.namespace), input.subscription)
}

fn user_needs<'a>(
    context: &Context<'_>,
    subscription: &'a ObjectRef,
    namespace: &'a ObjectRef,
) -> Vec<Need<'a>> {
    let verb = if context.action == PlanAction::Install { "create" } else { "patch" };
    let mut needs = vec![Need::of(subscription, verb)];
    let makes = context.objects.iter().any(|o| o.reference == *namespace && o.op == Op::Create);
    needs.extend(makes.then(|| Need::of(namespace, "create")));
    needs
}

/// One finding for each scope with missing rights.
fn report_lacking(
    context: &Context<'_>,
    code: FindingCode,
    principal: &Principal,
    needs: &[Need<'_>],
    report: &mut Report,
) {
    let mut missing: BTreeMap<Option<&str>, (Vec<Rule>, Vec<String>)> = BTreeMap::new();
    let mut open: BTreeSet<Option<&str>> = BTreeSet::new();
    for need in needs {
        let may =
            principal.access.allows(need.verb, need.group, &need.resource, None, need.name, need.namespace);
        match may {
            Some(true) => {}
            Some(false) => {
                let (rules, what) = missing.entry(need.namespace).or_default();
                let group = need.group.to_owned();
                let rule = Rule {
                    verbs: vec![need.verb.to_owned()],
                    groups: vec![group],
                    resources: vec![need.resource.clone()],
                    ..Rule::default()
                };
                add(rules, rule);
                let line = format!("{} {} {}", need.verb, need.resource, need.name.unwrap_or("*"));
                what.push(line);
            }
            None => drop(open.insert(need.namespace)),
        }
    }
    for scope in open {
        report.not_checked(
            format!("the permissions of {} {}", principal.who, place(scope)),
            "the permissions are unknown",
        );
    }
    for (scope, (rules, what)) in missing {
        let rules_text: Vec<String> = rules.iter().map(ToString::to_string).collect();
        let text = format!(
            "{} may not {} {}, which the plan requires to {}",
            principal.who,
            some_of(&rules_text, MOST_NAMED),
            place(scope),
            some_of(&what, MOST_NAMED)
        );
        report.push(lacking(context, code, principal, text, scope, &rules));
    }
}

fn place(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "in the cluster".to_owned(), |name| format!("in namespace {name}"))
}

fn lacking(
    context: &Context<'_>,
    code: FindingCode,
    principal: &Principal,
    text: String,
    scope: Option<&str>,
    rules: &[Rule],
) -> Finding {
    let chosen = &context.input.resolved.chosen;
    let base = format!("olm-{}-{}", chosen.package, context.input.namespace);
    let finding = Finding::new(code, &principal.who, text).fix(grant(&base, &principal.who, scope, rules));
    if principal.exact { finding } else { finding.severity(Severity::Warn) }
}

/// The command that grants rights: a role and its binding, ready to apply, on one line.
fn grant(base: &str, who: &Identity, namespace: Option<&str>, rules: &[Rule]) -> String {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let rules: Vec<Value> = rules.iter().map(manifest).collect();
    // Other rights get another role: grants for other reasons stay.
    let hash = digest::of([&json!(rules)]);
    let hash = hash.get(..8).unwrap_or_default();
    let mut metadata = json!({ "name": format!("{base}-{hash}") });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let subject = match who {
        Identity::Caller => json!({ "apiGroup": RBAC, "kind": "User", "name": "YOUR-NAME" }),
        Identity::User(name) => json!({ "apiGroup": RBAC, "kind": "User", "name": name }),
        Identity::ServiceAccount { namespace, name } => {
            json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
        }
    };
    let api_version = format!("{RBAC}/v1");
    let role = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules });
    let binding = json!({
        "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": { "apiGroup": RBAC, "kind": kind, "name": metadata["name"] }, "subjects": [subject],
    });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [role, binding] });
    format!("echo {} | kubectl apply -f -", shell_word(&list.to_string()))
}

/// A rule in the format of roles.
fn manifest(rule: &Rule) -> Value {
    let mut out = json!({ "verbs": rule.verbs });
    for (key, items) in [
        ("apiGroups", &rule.groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.names),
        ("nonResourceURLs", &rule.urls),
    ] {
        if !items.is_empty() {
            out[key] = json!(items);
        }
    }
    out
}

/// Rights that would be granted without permission in one scope.
#[derive(Default)]
struct Escalation {
    /// The rights that would allow it.
    help: Vec<Rule>,
    /// Right as text → the objects that grant it.
    by: BTreeMap<String, Vec<String>>,
}

/// Kubernetes' escalation check, for the manager. One finding for each scope.
fn grants(context: &Context<'_>, installer: &Principal, report: &mut Report) {
    let mut found: BTreeMap<Option<String>, Escalation> = BTreeMap::new();
    for grant in written_grants(context) {
        let Some(rules) = &grant.rules else { continue };
        if grant.verb_request().by(&installer.access) != Some(false) {
            continue;
        }
        let scope = grant.by.namespace.as_deref();
        let missing = installer.access.lacks(rules, scope).unwrap_or_default();
        if missing.is_empty() {
            continue;
        }
        let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let entry = found.entry(grant.by.namespace.clone()).or_default();
        entry.by.entry(some_of(&words, MOST_NAMED)).or_default().push(grant.by.to_string());
        add_name(&mut entry.help, grant.verb, &plural(&grant.role.kind), grant.role.name);
    }
    for (scope, Escalation { help, by }) in found {
        let given: Vec<String> =
            by.iter().map(|(rights, by)| format!("{rights} (by {})", some_of(by, MOST_NAMED))).collect();
        let text = format!(
            "{} would grant permissions that it does not hold: {}",
            installer.who,
            some_of(&given, MOST_NAMED)
        );
        let scope = scope.as_deref();
        report.push(lacking(context, FindingCode::InstallerCannotGrant, installer, text, scope, &help));
    }
}

/// The roles and bindings that the plan writes, with their granted rules.
fn written_grants(context: &Context<'_>) -> Vec<Grant> {
    let written = context
        .objects
        .iter()
        .filter(|o| matches!(o.op, Op::Create | Op::Update | Op::Adopt) && o.reference.group() == RBAC);
    let grant = |object: &PlannedObject| {
        let reference = &object.reference;
        let (.., manifest) = context.wanted.iter().find(|(_, r, _)| r == reference)?;
        let live = context.live.get(reference);
        if reference.kind.ends_with("Binding") {
            bound(context, reference, manifest, live)
        } else {
            written_rules(reference, manifest, live)
        }
    };
    written.filter_map(grant).collect()
}

fn add_name(rules: &mut Vec<Rule>, verb: &str, resource: &str, name: String) {
    match rules.iter_mut().find(|r| r.verbs == [verb] && r.resources == [resource]) {
        Some(rule) if rule.names.contains(&name) => {}
        Some(rule) => rule.names.push(name),
        None => rules.push(Rule {
            verbs: vec![verb.to_owned()],
            groups: vec![RBAC.to_owned()],
            resources: vec![resource.to_owned()],
            names: vec![name],
            urls: Vec::new(),
        }),
    }
}

fn written_rules(reference: &ObjectRef, role: &Value, live: Option<&Value>) -> Option<Grant> {
    let same = |l: &Value, key: &str| l.get(key) == role.get(key);
    if live.is_some_and(|l| same(l, "rules") && same(l, "aggregationRule") && !aggregates_into_others(role)) {
        return None;
    }
    // Future aggregated rules are unknown: only an account with all rights may write such a role.
    let aggregates = role.get("aggregationRule").is_some_and(|a| !a.is_null());
    let all = |text: &str| vec![text.to_owned()];
    let everything = Rule { verbs: all("*"), groups: all("*"), resources: all("*"), ..Rule::default() };
    Some(Grant {
        by: reference.clone(),
        verb: "escalate",
        role: reference.clone(),
        rules: Some(if aggregates { vec![everything] } else { Rule::of_role(role) }),
    })
}

/// Whether a ClusterRole is aggregated into other roles, which others are bound to.
fn aggregates_into_others(role: &Value) -> bool {
    let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().any(|(key, value)| key.contains("/aggregate-to-") && value == "true")
}

fn bound(
    context: &Context<'_>,
    reference: &ObjectRef,
    binding: &Value,
    live: Option<&Value>,
) -> Option<Grant> {
    let same = |l: &Value| {
        l.get("roleRef") == binding.get("roleRef") && list(l, "/subjects") == list(binding, "/subjects")
    };
    if live.is_some_and(same) {
        return None;
    }
    let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    let namespace = reference.namespace.as_deref().filter(|_| kind == "Role");
    let role = ObjectRef::new(&reference.api_version, kind, namespace, name);
    // A role of the plan or, as far as it was read, of the cluster.
    let planned = context.wanted.iter().find(|(_, r, _)| r.same_object(&role)).map(|(.., m)| &**m);
    let known = planned.or_else(|| context.live.iter().find(|(r, _)| r.same_object(&role)).map(|(_, m)| m));
    Some(Grant { by: reference.clone(), verb: "bind", rules: known.map(Rule::of_role), role })
}

/// What the plan demands of the authority in whose name it is applied.
/// OLM's own namespaced objects are excluded: they contain no more than what is demanded for their parts. An
/// upgrade that grants nothing new and adds no cluster-scoped object demands nothing.
pub(crate) fn demands(context: &Context<'_>) -> Demands {
    let mut demands = Demands { grants: written_grants(context), ..Demands::default() };
    let before = PreviousRights::of(context);
    if let Some(before) = &before {
        demands.grants.iter_mut().for_each(|grant| before.subtract(grant, context));
        demands.grants.retain(|grant| grant.rules.as_ref().is_none_or(|rules| !rules.is_empty()));
    }
    let granting: BTreeSet<&ObjectRef> = demands.grants.iter().map(|grant| &grant.by).collect();
    let mut writes = Demands::default();
    for object in context.objects {
        let reference = &object.reference;
        let verb = match object.op {
            Op::Create => "create",
            Op::Update | Op::Adopt => "patch",
            Op::Delete => "delete",
            Op::Unchanged | Op::Noop => continue,
        };
        let own = reference.group() == OLM && reference.namespace.is_some();
        if own || reference.kind == "Namespace" {
            continue;
        }
        let outside = reference.namespace.as_deref() != Some(context.input.namespace);
        let intercepts =
            ["admissionregistration.k8s.io", "apiregistration.k8s.io"].contains(&reference.group());
        let demanded = match (before.is_some(), reference.group() == RBAC) {
            (false, _) => true,
            (true, true) => granting.contains(reference),
            (true, false) => match object.op {
                Op::Create | Op::Adopt => outside,
                _ => intercepts && object.op == Op::Update,
            },
        };
        if demanded {
            writes.write(reference, verb);
        }
    }
    demands.extend(&writes);
    demands
}

/// Rights granted to the replaced version by its approved plan.
struct PreviousRights {
    /// Rules by scope.
    rules: BTreeMap<Option<String>, Vec<Rule>>,
    subjects: Vec<Value>,
}

impl PreviousRights {
    /// `None` for the first version, and where the replaced one was edited manually: the rights in it were
    /// never approved.
    fn of(context: &Context<'_>) -> Option<Self> {
        let previous = context.input.previous?;
        let key = format!("/metadata/annotations/{}", names::ANNOTATION_REQUESTED_BY.replace('/', "~1"));
        if context.replaced()?.pointer(&key).is_some() {
            return None;
        }
        let mut before = Self { rules: BTreeMap::new(), subjects: Vec::new() };
        let objects: Vec<(ObjectRef, &Value)> =
            previous.objects().filter_map(|(_, object)| Some((ObjectRef::of(object)?, object))).collect();
        for (reference, binding) in objects.iter().filter(|(r, _)| r.kind.ends_with("Binding")) {
            before.subjects.extend(list(binding, "/subjects").iter().cloned());
            let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
            let is_role = |r: &ObjectRef| {
                r.kind == kind
                    && r.name == name
                    && (kind == "ClusterRole" || r.namespace == reference.namespace)
            };
            let role = objects.iter().find(|(r, _)| is_role(r));
            let rules = role.map(|(_, role)| Rule::of_role(role)).unwrap_or_default();
            before.rules.entry(reference.namespace.clone()).or_default().extend(rules);
        }
        Some(before)
    }

    /// Subtracts the rules that the same accounts had in the same scope.
    fn subtract(&self, grant: &mut Grant, context: &Context<'_>) {
        // Others may be bound to an adopted role: they would get its rules.
        if context.objects.iter().any(|o| o.reference == grant.by && o.op == Op::Adopt) {
            return;
        }
        let manifest = context.wanted.iter().find(|(_, r, _)| *r == grant.by).map(|(.., m)| &**m);
        let Some(manifest) = manifest else { return };
        let others = list(manifest, "/subjects").iter().any(|subject| !self.subjects.contains(subject));
        if others || aggregates_into_others(manifest) {
            return;
        }
        let own = self.rules.get(&grant.by.namespace).cloned().unwrap_or_default();
        let access = Access::unknown().with_cluster(own);
        if let Some(rules) = &mut grant.rules {
            *rules = access.lacks(rules, None).unwrap_or_default();
        }
    }
}
