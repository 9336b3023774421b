//! Operators installed along as dependencies.
//!
//! Each gets its own Subscription, with OLM's name for a generated one, and its own plan. The plan of the
//! dependent operator shows these plans, and its digest covers theirs: one approval covers all.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::names;
use olm_api::subscription::Approval;
use olm_resolver::{Action, ChosenBundle, Dependency, Hop, HopVia, Resolved, SatisfiedBy};
use olm_version::shell_word;
use serde_json::{Value, json};

use crate::digest;
use crate::finding::{Finding, FindingCode, Severity};
use crate::object::ObjectRef;
use crate::plan::{Along, AlongRef, Plan};
use crate::planned::{Op, PlannedObject};
use olm_bundle::Phase;

/// Maximum length of an object name.
const LONGEST_NAME: usize = 253;
/// Maximum number of operators installed along: more indicate a broken catalog, and their record must fit
/// into an annotation.
const MOST_ALONG: usize = 50;
/// Number of digest digits that make a truncated name unique.
const DIGEST_DIGITS: usize = 10;

/// An operator to install along, before it has a plan.
#[derive(Clone, Debug)]
pub struct DependencyInstall {
    pub subscription: String,
    /// Subscriptions of the namespace that require it.
    pub required_by: Vec<String>,
    /// Subscriptions whose operators must run before its own is started.
    pub after: Vec<String>,
    /// The choice, as the resolver repeats it for its own Subscription.
    pub resolved: Resolved,
}

impl Along {
    pub fn new(install: &DependencyInstall, plan: Plan) -> Self {
        let entry = AlongRef {
            subscription: install.subscription.clone(),
            bundle: install.resolved.chosen.clone(),
            required_by: install.required_by.clone(),
            after: install.after.clone(),
            digest: plan.digest.clone(),
        };
        Self { entry, plan }
    }
}

/// The operators that a choice brings along, in the order of their dependencies.
/// Bundles may need each other; then neither can run before the other, and the wait that would close the
/// cycle is omitted.
pub fn dependency_installs(resolved: &Resolved) -> Vec<DependencyInstall> {
    let namespace = resolved.subscription.split('/').next().unwrap_or_default();
    let (_, requester) = resolved.subscription.split_once('/').unwrap_or(("", &resolved.subscription));
    let mut bundles: BTreeMap<&str, &ChosenBundle> = BTreeMap::new();
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut needed_by: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for dependency in &resolved.dependencies {
        let SatisfiedBy::Install(bundle) = &dependency.satisfied_by else { continue };
        bundles.insert(&bundle.name, bundle);
        needs.entry(&dependency.required_by).or_default().insert(&bundle.name);
        needed_by.entry(&bundle.name).or_default().insert(&dependency.required_by);
    }
    let name_of = |bundle: &str| match bundles.get(bundle) {
        Some(bundle) => subscription_name(bundle),
        None => requester.to_owned(),
    };
    let (order, waits) = order(&resolved.chosen.name, &needs);
    let one = |bundle: &&str| {
        let chosen = *bundles.get(bundle)?;
        let by = needed_by.get(bundle).into_iter().flatten().filter(|by| *by != bundle).map(|by| name_of(by));
        let after = waits.get(bundle).into_iter().flatten().map(|other| name_of(other));
        Some(DependencyInstall {
            subscription: subscription_name(chosen),
            required_by: by.collect(),
            after: after.collect(),
            resolved: choice(resolved, chosen, namespace),
        })
    };
    order.iter().filter_map(one).collect()
}

/// The bundles reachable from `root`, each after those that it waits for, with the waits of each.
fn order<'a>(
    root: &'a str,
    needs: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> (Vec<&'a str>, BTreeMap<&'a str, Vec<&'a str>>) {
    let (mut done, mut waits) = (Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    let mut seen = BTreeSet::from([root]);
    // The current path, each with its unvisited dependencies.
    let open = |at: &'a str| (at, needs.get(at).into_iter().flatten().copied().collect::<Vec<_>>());
    let (mut path, mut on_path) = (vec![open(root)], BTreeSet::from([root]));
    while let Some((at, left)) = path.last_mut() {
        let at = *at;
        let Some(next) = left.pop() else {
            done.push(at);
            path.pop();
            on_path.remove(at);
            continue;
        };
        // A bundle that waits for this one cannot be waited for.
        if on_path.contains(next) {
            continue;
        }
        waits.entry(at).or_default().push(next);
        if seen.insert(next) {
            path.push(open(next));
            on_path.insert(next);
        }
    }
    for list in waits.values_mut() {
        list.sort_unstable();
    }
    (done, waits)
}

/// The resolver's future result for its Subscription: bundles installed along are requests of others then.
fn choice(resolved: &Resolved, chosen: &ChosenBundle, namespace: &str) -> Resolved {
    let as_asked = |dependency: &Dependency| {
        let satisfied_by = match &dependency.satisfied_by {
            SatisfiedBy::Install(bundle) => SatisfiedBy::Request {
                subscription: format!("{namespace}/{}", subscription_name(bundle)),
                name: bundle.name.clone(),
            },
            other => other.clone(),
        };
        Dependency { satisfied_by, ..dependency.clone() }
    };
    let own = resolved.dependencies.iter().filter(|d| d.required_by == chosen.name);
    Resolved {
        subscription: format!("{namespace}/{}", subscription_name(chosen)),
        action: Action::Install,
        chosen: chosen.clone(),
        from: None,
        path: vec![Hop {
            name: chosen.name.clone(),
            version: chosen.version.clone(),
            channel: chosen.channel.clone(),
            via: HopVia::Install,
        }],
        why: format!("required by {}", resolved.chosen.name),
        rejected: Vec::new(),
        dependencies: own.map(as_asked).collect(),
        deprecations: Vec::new(),
    }
}

/// Name of the Subscription for a bundle: `<package>-<channel>-<catalog>-<namespace of the catalog>`, as in
/// OLM. Invalid characters become dashes; a name that is too long ends with digits of its digest.
pub fn subscription_name(bundle: &ChosenBundle) -> String {
    let catalog = &bundle.catalog;
    let plain = format!("{}-{}-{}-{}", bundle.package, bundle.channel, catalog.name, catalog.namespace);
    let name: String = plain
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '-' })
        .collect();
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let digest = digest::of([&Value::from(plain)]);
    let digits = digest.get(..DIGEST_DIGITS).unwrap_or_default();
    format!("{}-{digits}", name.get(..LONGEST_NAME - DIGEST_DIGITS - 1).unwrap_or_default())
}

/// The generated Subscription. `approval` is that of the Subscription that brings it along.
pub fn subscription(entry: &AlongRef, namespace: &str, approval: Approval) -> Value {
    let bundle = &entry.bundle;
    let mut annotations = json!({
        names::ANNOTATION_REQUIRED_BY: entry.required_by.join(","),
        names::ANNOTATION_APPROVED_PLAN: entry.digest,
    });
    if !entry.after.is_empty() {
        annotations[names::ANNOTATION_INSTALL_AFTER] = entry.after.join(",").into();
    }
    let mut spec = json!({
        "name": bundle.package,
        "source": bundle.catalog.name,
        "sourceNamespace": bundle.catalog.namespace,
        "startingCSV": bundle.name,
        "installPlanApproval": approval.as_str(),
    });
    if !bundle.channel.is_empty() {
        spec["channel"] = bundle.channel.clone().into();
    }
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {
            "name": entry.subscription,
            "namespace": namespace,
            "labels": {
                names::LABEL_MANAGED: "true",
                names::component_label(&bundle.package, namespace): "",
            },
            "annotations": annotations,
        },
        "spec": spec,
    })
}

/// A digest that also covers the operators installed along.
fn joined(own: &str, along: &[AlongRef]) -> String {
    let mut along: Vec<&AlongRef> = along.iter().collect();
    along.sort_by(|a, b| a.subscription.cmp(&b.subscription));
    let entry = |entry: &AlongRef| {
        json!([
            entry.subscription,
            entry.bundle.catalog.to_string(),
            entry.bundle.package,
            entry.bundle.channel,
            entry.bundle.name,
            entry.digest,
        ])
    };
    let lines: Vec<Value> = std::iter::once(Value::from(own)).chain(along.into_iter().map(entry)).collect();
    format!("sha256:{}", digest::of(&lines))
}

impl Plan {
    /// The plan with the operators that are installed along: their Subscriptions are among its objects, and
    /// its digest covers their plans. A blocked one blocks the whole plan. `taken` are the names of existing
    /// Subscriptions.
    pub fn with_along(mut self, along: Vec<Along>, approval: Approval, taken: &BTreeSet<String>) -> Self {
        let covered: BTreeSet<&str> = along.iter().map(|a| a.entry.bundle.name.as_str()).collect();
        self.findings.retain(|finding| {
            finding.code != FindingCode::DependencyMissing || !covered.contains(finding.subject.as_str())
        });
        for one in &along {
            self.findings.extend(subscription_conflict(one, &self.namespace, taken));
        }
        if along.len() > MOST_ALONG {
            let text =
                format!("the plan installs {} dependencies, expected at most {MOST_ALONG}", along.len());
            let finding = Finding::new(FindingCode::DependencyMissing, &self.bundle, text);
            self.findings.push(finding.fix(format!(
                "olm why {} -n {}",
                shell_word(&self.package),
                self.namespace
            )));
        }
        let approve = format!("olm approve {} -n {}", shell_word(&self.package), self.namespace);
        for one in &along {
            // One approval covers all.
            let subject = || one.entry.bundle.name.clone();
            self.findings.extend(one.plan.findings.iter().filter_map(|finding| match finding.code {
                FindingCode::SecondApproverNeeded => {
                    Some(Finding { subject: subject(), ..finding.clone() }.fix(&approve))
                }
                FindingCode::HighRightsAdded => Some(Finding { subject: subject(), ..finding.clone() }),
                _ => None,
            }));
            self.lending.retain(|policy| one.plan.lending.contains(policy));
        }
        self.findings.sort_by_key(|finding| (finding.severity, finding.code != FindingCode::HighRightsAdded));
        let entries: Vec<AlongRef> = along.iter().map(|a| a.entry.clone()).collect();
        self.subscribe(&entries, approval);
        self.along = along;
        self
    }

    /// The plan in progress: `entries` comes from its InstallPlan.
    pub fn resumed(mut self, entries: &[AlongRef], approval: Approval) -> Self {
        let covered: BTreeSet<&str> = entries.iter().map(|e| e.bundle.name.as_str()).collect();
        self.findings.retain(|finding| {
            finding.code != FindingCode::DependencyMissing || !covered.contains(finding.subject.as_str())
        });
        self.subscribe(entries, approval);
        self
    }

    /// The record of the operators installed along, for an InstallPlan.
    pub fn entries(&self) -> Vec<AlongRef> {
        self.along.iter().map(|a| a.entry.clone()).collect()
    }

    fn subscribe(&mut self, entries: &[AlongRef], approval: Approval) {
        if entries.is_empty() {
            return;
        }
        self.digest = joined(&self.digest, entries);
        self.content = joined(&self.content, entries);
        let mut made = Vec::with_capacity(entries.len());
        for entry in entries {
            let manifest = subscription(entry, &self.namespace, approval);
            let Some(reference) = ObjectRef::of(&manifest) else { continue };
            let note = format!("for {}, required by {}", entry.bundle.name, entry.required_by.join(", "));
            made.push(PlannedObject {
                note: Some(note),
                ..PlannedObject::new(&reference, Op::Create, Some(Phase::Prerequisites))
            });
            self.parts.insert(format!("install {} {}", entry.bundle.catalog, entry.bundle.name), {
                let mut digits = entry.digest.trim_start_matches("sha256:").to_owned();
                digits.truncate(digest::PART);
                digits
            });
            self.manifests.insert(reference, manifest.into());
        }
        // After the prerequisites of the namespace, before everything else.
        let first = |o: &PlannedObject| matches!(o.reference.kind.as_str(), "Namespace" | "OperatorGroup");
        let at = self.objects.iter().take_while(|o| first(o)).count();
        self.objects.splice(at..at, made);
    }
}

fn subscription_conflict(one: &Along, namespace: &str, taken: &BTreeSet<String>) -> Option<Finding> {
    let bundle = &one.entry.bundle;
    let by = one.entry.required_by.join(", ");
    if taken.contains(&one.entry.subscription) {
        let text = format!(
            "{} is required by {by}, and Subscription {} for this dependency already exists with a different \
                spec",
            bundle.name, one.entry.subscription
        );
        let fix = format!(
            "olm install {} -n {namespace} --channel {}  # with another Subscription name",
            shell_word(&bundle.package),
            shell_word(&bundle.channel)
        );
        return Some(Finding::new(FindingCode::DependencyMissing, &bundle.name, text).fix(fix));
    }
    if let Some(denied) = one.plan.findings.iter().find(|f| f.code.is_denial()) {
        let text = format!("{} is required by {by}: {}", bundle.name, denied.text);
        return Some(Finding { text, ..denied.clone() });
    }
    let blocking = one.plan.findings.iter().find(|f| f.severity == Severity::Block)?;
    let text = format!(
        "{} is required by {by}, and its installation is blocked: {}: {}",
        bundle.name, blocking.code, blocking.text
    );
    let finding = Finding::new(FindingCode::DependencyMissing, &bundle.name, text);
    Some(match &blocking.fix {
        Some(fix) => finding.fix(fix.clone()),
        None => finding.fix(format!("olm plan install {} -n {namespace}", shell_word(&bundle.package))),
    })
}
