//! Whether those who ask and those who carry out may do what the plan does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::access::{Rule, add};
use super::json::{list, plural, some_of, text};
use super::report::MOST_NAMED;
use super::{Context, Report};
use crate::digest;
use crate::facts::{Principal, Who};
use crate::finding::{Finding, FindingCode, Severity};
use crate::object::ObjectRef;
use crate::plan::{Op, PlanAction};

const RBAC: &str = "rbac.authorization.k8s.io";

/// One thing that has to be allowed.
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
    if let Some(installer) = report.know(&facts.installer, "the rights of whoever carries the plan out") {
        let needs = installer_needs(context);
        report_lacking(context, FindingCode::InstallerLacksRights, installer, &needs, report);
        grants(context, installer, report);
    }
    if let Some(user) = report.know(&facts.user, "your rights") {
        let subscription = subscription(context);
        let namespace = crate::desired::namespace_ref(context.input.namespace);
        let needs = user_needs(context, &subscription, &namespace);
        report_lacking(context, FindingCode::UserLacksRights, user, &needs, report);
    }
}

/// Objects are applied on the server, which asks for `patch`, and for `create` where there is none yet.
fn installer_needs<'a>(context: &Context<'a>) -> Vec<Need<'a>> {
    let mut needs = Vec::new();
    for object in context.objects {
        let reference = &object.reference;
        // Whoever makes the Subscription makes the namespace.
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

/// One finding for each scope in which something is missing.
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
            format!("what {} may do {}", principal.who, place(scope)),
            "the rights are not known",
        );
    }
    for (scope, (rules, what)) in missing {
        let rules_text: Vec<String> = rules.iter().map(ToString::to_string).collect();
        let text = format!(
            "{} may not {} {}, and the plan has to {}",
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

/// The command that gives somebody rights: a role and what binds it, ready to apply, on one line.
fn grant(base: &str, who: &Who, namespace: Option<&str>, rules: &[Rule]) -> String {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    let rules: Vec<Value> = rules.iter().map(manifest).collect();
    // Other rights are another role: what was given for another reason stays.
    let hash = digest::of(&json!(rules));
    let hash = hash.get(..8).unwrap_or_default();
    let mut metadata = json!({ "name": format!("{base}-{hash}") });
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let subject = match who {
        Who::You => json!({ "apiGroup": RBAC, "kind": "User", "name": "YOUR-NAME" }),
        Who::ServiceAccount { namespace, name } => {
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
    format!("echo '{list}' | kubectl apply -f -")
}

/// A rule as roles hold it.
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

/// What would be given away in one scope.
#[derive(Default)]
struct GivenAway {
    /// The rights that would allow it.
    help: Vec<Rule>,
    /// Rights in words → the objects that give them.
    by: BTreeMap<String, Vec<String>>,
}

/// Nobody may give away more than they have, unless they are allowed to just that. One finding for each scope.
fn grants(context: &Context<'_>, installer: &Principal, report: &mut Report) {
    let written = context
        .objects
        .iter()
        .filter(|o| matches!(o.op, Op::Create | Op::Update | Op::Adopt) && o.reference.group() == RBAC);
    let mut found: BTreeMap<Option<&str>, GivenAway> = BTreeMap::new();
    for object in written {
        let reference = &object.reference;
        let Some((.., manifest)) = context.wanted.iter().find(|(_, r, _)| r == reference) else { continue };
        let live = context.live.get(reference);
        let granted = if reference.kind.ends_with("Binding") {
            bound(context, manifest, live)
        } else {
            written_rules(manifest, live)
        };
        let Some(Granted { verb, resource, role, rules }) = granted else { continue };
        let scope = reference.namespace.as_deref();
        let by_verb = installer.access.allows(verb, RBAC, resource, None, Some(&role), scope);
        if by_verb != Some(false) {
            continue;
        }
        let missing = installer.access.lacks(&rules, scope).unwrap_or_default();
        if missing.is_empty() {
            continue;
        }
        let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let entry = found.entry(scope).or_default();
        entry.by.entry(some_of(&words, MOST_NAMED)).or_default().push(reference.to_string());
        add_name(&mut entry.help, verb, resource, role);
    }
    for (scope, GivenAway { help, by }) in found {
        let given: Vec<String> =
            by.iter().map(|(rights, by)| format!("{rights} (by {})", some_of(by, MOST_NAMED))).collect();
        let text = format!(
            "{} would give away rights that it does not have: {}",
            installer.who,
            some_of(&given, MOST_NAMED)
        );
        report.push(lacking(context, FindingCode::InstallerCannotGrant, installer, text, scope, &help));
    }
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

/// Rights that an object gives away, and the right that lets somebody do that without having them.
struct Granted {
    verb: &'static str,
    resource: &'static str,
    /// The role that the right is about.
    role: String,
    rules: Vec<Rule>,
}

fn resource_of(kind: &str) -> &'static str {
    if kind == "Role" { "roles" } else { "clusterroles" }
}

fn written_rules(role: &Value, live: Option<&Value>) -> Option<Granted> {
    if live.is_some_and(|l| l.get("rules") == role.get("rules")) {
        return None;
    }
    // Whatever will be aggregated: only somebody who has everything may ask for it.
    let aggregates = role.get("aggregationRule").is_some_and(|a| !a.is_null());
    let all = |text: &str| vec![text.to_owned()];
    let everything = Rule { verbs: all("*"), groups: all("*"), resources: all("*"), ..Rule::default() };
    Some(Granted {
        verb: "escalate",
        resource: resource_of(text(role, "/kind")),
        role: text(role, "/metadata/name").to_owned(),
        rules: if aggregates { vec![everything] } else { Rule::of_role(role) },
    })
}

fn bound(context: &Context<'_>, binding: &Value, live: Option<&Value>) -> Option<Granted> {
    let same = |l: &Value| {
        l.get("roleRef") == binding.get("roleRef") && list(l, "/subjects") == list(binding, "/subjects")
    };
    if live.is_some_and(same) {
        return None;
    }
    let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    let namespace = Some(text(binding, "/metadata/namespace")).filter(|_| kind == "Role");
    let is_it = |r: &ObjectRef| {
        r.kind == kind && r.name == name && (namespace.is_none() || r.namespace.as_deref() == namespace)
    };
    // A role of the plan or, as far as it was read, of the cluster.
    let planned = context.wanted.iter().find(|(_, r, _)| is_it(r)).map(|(.., m)| &**m);
    let role = planned.or_else(|| context.live.iter().find(|(r, _)| is_it(r)).map(|(_, m)| m))?;
    Some(Granted {
        verb: "bind",
        resource: resource_of(kind),
        role: name.to_owned(),
        rules: Rule::of_role(role),
    })
}
