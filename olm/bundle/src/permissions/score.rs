//! One number for all rights, and how it compares.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::grade::{Level, PermissionRule};
use super::rights::Rights;
use crate::csv::InstallMode;
use crate::model::{Bundle, kind};
use crate::render::{RenderOptions, Target, rbac, switches};

/// Reasons of one level count up to this, so that no number of lower ones outweighs a higher one.
const MOST: usize = 99;

/// How much an operator may do, as one number: first the different reasons of level HIGH, then those of level MED, then
/// the rules of level LOW. How many rules say the same does not matter.
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

/// How many in a hundred of the others have a lower score; `None` without others.
#[must_use]
pub fn percentile(score: u32, others: &[u32]) -> Option<u8> {
    let lower = others.iter().filter(|other| **other < score).count();
    u8::try_from((lower * 100).checked_div(others.len())?).ok()
}

/// The score of a bundle that watches its own namespace, or all where it cannot do that: how it is installed when nobody
/// says otherwise. `None` for a bundle that supports neither.
#[must_use]
pub fn risk(bundle: &Bundle) -> Option<u32> {
    let own = bundle.install_modes().supports(InstallMode::OwnNamespace);
    let targets = if own { vec![NAMESPACE.to_owned()] } else { Vec::new() };
    Some(score(&Rights::of(&grantors(bundle, targets)?).rules()))
}

/// Stands for the namespace that an operator is installed in.
const NAMESPACE: &str = "operators";

/// The objects by which a bundle gets its rights. Unlike a rendering it does not fail over what is no matter of rights.
pub(super) fn grantors(bundle: &Bundle, target_namespaces: Vec<String>) -> Option<Vec<Value>> {
    let options = RenderOptions {
        install_namespace: NAMESPACE.to_owned(),
        target_namespaces,
        ..RenderOptions::default()
    };
    let target = Target::of(bundle, &options).ok()?;
    let mut list = rbac::objects(&target, &BTreeSet::new());
    list.extend(switches(&target));
    list.extend(bundle.deployments().iter().map(deployment));
    list.extend(bundle.crds().map(
        |crd| json!({ "kind": "CustomResourceDefinition", "metadata": { "name": crd["metadata"]["name"] } }),
    ));
    let rbac = |object: &&Value| {
        ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"].contains(&kind(object))
    };
    list.extend(bundle.objects.iter().filter(rbac).map(|object| target.adopt(object.clone())));
    Some(list)
}

fn deployment(deployment: &Value) -> Value {
    json!({
        "kind": "Deployment",
        "metadata": { "name": deployment["name"], "namespace": NAMESPACE },
        "spec": deployment["spec"],
    })
}
