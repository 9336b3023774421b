//! Score of all rights, and its percentile.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::grade::{Level, PermissionRule};
use super::rights::Rights;
use crate::csv::InstallMode;
use crate::model::{Bundle, kind};
use crate::render::{RenderOptions, Target, rbac, switches};

/// Maximum count of reasons per level, so that no number of lower ones outweighs a higher one.
const MOST: usize = 99;

/// Risk score of an operator: first the number of different reasons of level HIGH, then of level MED, then of
/// rules of level LOW. Repetitions of a reason do not count.
#[must_use]
pub fn score(rules: &[PermissionRule]) -> u32 {
    let reasons = |level: Level| {
        let of_level = rules.iter().filter(|rule| rule.level == level);
        of_level.map(|rule| rule.reason.as_deref()).collect::<BTreeSet<_>>().len()
    };
    let low = rules.iter().filter(|rule| rule.level == Level::Low).count();
    let digits = [reasons(Level::High), reasons(Level::Med), low];
    digits
        .into_iter()
        .fold(0, |score, digit| score * 100 + u32::try_from(digit.min(MOST)).unwrap_or_default())
}

/// Percentage of the others with a lower score; `None` without others.
#[must_use]
pub fn percentile(score: u32, others: &[u32]) -> Option<u8> {
    let lower = others.iter().filter(|other| **other < score).count();
    u8::try_from((lower * 100).checked_div(others.len())?).ok()
}

/// The score of [`default_rules`].
#[must_use]
pub fn risk(bundle: &Bundle) -> Option<u32> {
    Some(score(&default_rules(bundle, "operators")?))
}

/// The rights of a bundle in its default installation, the most dangerous first: it watches its own namespace,
/// or all where that is unsupported. `None` for a bundle that supports neither.
#[must_use]
pub fn default_rules(bundle: &Bundle, namespace: &str) -> Option<Vec<PermissionRule>> {
    let own = bundle.install_modes().supports(InstallMode::OwnNamespace);
    let targets = if own { vec![namespace.to_owned()] } else { Vec::new() };
    rules(bundle, namespace, targets)
}

/// The objects that grant a bundle its rights. Unlike a rendering it ignores errors unrelated to rights.
pub(super) fn grantors(
    bundle: &Bundle,
    namespace: &str,
    target_namespaces: Vec<String>,
) -> Option<Vec<Value>> {
    let options = RenderOptions {
        install_namespace: namespace.to_owned(),
        target_namespaces,
        ..RenderOptions::default()
    };
    let target = Target::of(bundle, &options).ok()?;
    let mut list = rbac::objects(&target, &BTreeSet::new());
    list.extend(switches(&target));
    list.extend(bundle.deployments().iter().map(|one| deployment(one, namespace)));
    list.extend(bundle.crds().map(
        |crd| json!({ "kind": "CustomResourceDefinition", "metadata": { "name": crd["metadata"]["name"] } }),
    ));
    let rbac = |object: &&Value| {
        ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"].contains(&kind(object))
    };
    list.extend(bundle.objects.iter().filter(rbac).map(|object| target.adopt(object.clone())));
    Some(list)
}

fn deployment(deployment: &Value, namespace: &str) -> Value {
    json!({
        "kind": "Deployment",
        "metadata": { "name": deployment["name"], "namespace": namespace },
        "spec": deployment["spec"],
    })
}

/// The rights of a bundle that is installed in a namespace and watches the target namespaces, the most
/// dangerous first; an empty list of targets means all. `None` where the bundle does not support them.
#[must_use]
pub fn rules(
    bundle: &Bundle,
    namespace: &str,
    target_namespaces: Vec<String>,
) -> Option<Vec<PermissionRule>> {
    Some(Rights::of(&grantors(bundle, namespace, target_namespaces)?).rules())
}
