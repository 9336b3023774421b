//! Finds orphaned and unused objects.

use kube::{Resource, ResourceExt};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_engine::ownership::OwnerKey;
use olm_plan::OPERATOR_GROUP_NAME;

use super::{
    facts::Facts,
    installation::named,
    problem::{Code, Problem},
    safe_fix::SafeFix,
};

pub(super) fn check(facts: &Facts) -> Vec<Problem> {
    let mut out = Vec::new();
    for orphan in &facts.orphans {
        let Some(owner) = OwnerKey::of(&orphan.metadata) else { continue };
        let why = format!("its owner {} {}/{} does not exist", owner.kind, owner.namespace, owner.name);
        let fix = SafeFix {
            api_version: orphan.resource.api_version.clone(),
            kind: orphan.resource.kind.clone(),
            namespace: orphan.metadata.namespace.clone(),
            name: orphan.metadata.name.clone().unwrap_or_default(),
            uid: orphan.metadata.uid.clone().unwrap_or_default(),
        };
        out.push(
            Problem::new(Code::Orphan, Some(orphan.to_string()), why).fix("olm doctor --fix").safe_fix(fix),
        );
    }
    for csv in &facts.csvs {
        let Some(from) = csv.labels().get(names::LABEL_COPIED_FROM) else { continue };
        let why = format!(
            "a copy by OLM from namespace {from} that is no longer used; `olm list` shows the operators that \
                watch a namespace"
        );
        out.push(
            Problem::new(Code::CopiedCsv, named("ClusterServiceVersion", csv), why)
                .fix("olm doctor --fix")
                .safe_fix(fix_of("ClusterServiceVersion", csv)),
        );
    }
    let listed = facts.listed("subscriptions") && facts.listed("clusterserviceversions");
    for group in facts.groups.iter().filter(|g| listed && unused(g, facts)) {
        let why = "created by a plan, and its namespace no longer has an operator";
        out.push(
            Problem::new(Code::UnusedOperatorGroup, named("OperatorGroup", group), why)
                .fix("olm doctor --fix")
                .safe_fix(fix_of("OperatorGroup", group)),
        );
    }
    out
}

/// One that a plan made: a group that a user made belongs to the user, whatever is in its namespace.
fn unused(group: &OperatorGroup, facts: &Facts) -> bool {
    let here = |namespace: Option<String>| namespace == group.namespace();
    let copied = |csv: &ClusterServiceVersion| csv.labels().contains_key(names::LABEL_COPIED_FROM);
    group.name_any() == OPERATOR_GROUP_NAME
        && group.metadata.deletion_timestamp.is_none()
        && !facts.subscriptions.iter().any(|s| here(s.namespace()))
        && !facts.csvs.iter().any(|csv| here(csv.namespace()) && !copied(csv))
}

fn fix_of<K: Resource<DynamicType = ()>>(kind: &str, object: &K) -> SafeFix {
    SafeFix {
        api_version: K::api_version(&()).into_owned(),
        kind: kind.to_owned(),
        namespace: object.namespace(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
    }
}
