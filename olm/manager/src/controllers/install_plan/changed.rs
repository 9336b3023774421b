//! A plan that differs from the reviewed one. Pure.

use kube::ResourceExt;
use olm_api::{InstallPlan, install_plan::InstallPlanPhase, names};
use olm_ops::PLAN_CHANGED;
use olm_plan::{Parts, Plan, what_changed};

/// Reason of the condition and of the event; [`PLAN_CHANGED`] is the code for programs.
pub(super) const REASON: &str = "PlanChanged";

/// The differences, as far as the InstallPlan records its parts.
pub(super) fn how(plan: &InstallPlan, digest: &str, now: &Plan) -> String {
    let digests = format!("planned {digest}, now {}", now.digest);
    let annotation = plan.annotations().get(names::ANNOTATION_PLAN_PARTS);
    match annotation.and_then(|text| serde_json::from_str::<Parts>(text).ok()) {
        Some(reviewed) => format!("{}; {digests}", what_changed(&reviewed, now.parts())),
        None => digests,
    }
}

/// The differences from a plan in progress. Deleted objects and the OperatorGroup can no longer be compared.
pub(super) fn how_since_begun(plan: &InstallPlan, now: &Plan) -> String {
    let compared = |parts: Parts| -> Parts {
        let kept = |key: &String| !key.starts_with("delete ") && !key.contains(" OperatorGroup ");
        parts.into_iter().filter(|(key, _)| kept(key)).collect()
    };
    let annotation = plan.annotations().get(names::ANNOTATION_PLAN_PARTS);
    match annotation.and_then(|text| serde_json::from_str::<Parts>(text).ok()) {
        Some(reviewed) => what_changed(&compared(reviewed), &compared(now.parts().clone())),
        None => "its objects changed".to_owned(),
    }
}

/// The message of the condition.
pub(super) fn message(plan: &InstallPlan, how: &str) -> String {
    let approved = if plan.spec.approved { "approved" } else { "created" };
    let begun = plan.phase() == InstallPlanPhase::Installing;
    let (not, done) = match begun {
        true => ("continued", "Applied objects are retained"),
        false => ("applied", "No changes were made"),
    };
    format!(
        "{PLAN_CHANGED}: InstallPlan {} is not {not}, because it changed since it was {approved}: {how}. \
            {done}; a new plan replaces it",
        plan.name_any()
    )
}

#[cfg(test)]
mod tests {
    use olm_api::InstallPlanSpec;
    use olm_bundle::{Bundle, RenderOptions};
    use olm_plan::{ClusterFacts, Live, PlanInput, make_plan};
    use olm_resolver::{Action, CatalogRef, ChosenBundle, Resolved};
    use serde_json::json;

    use super::*;

    /// The plan of an operator that runs an image.
    fn planned(image: &str) -> Plan {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": { "name": "a.v1" },
            "spec": { "installModes": [{ "type": "OwnNamespace", "supported": true }],
                "install": { "strategy": "deployment", "spec": { "deployments": [{ "name": "a", "spec": {
                    "selector": { "matchLabels": { "app": "a" } },
                    "template": { "metadata": { "labels": { "app": "a" } },
                                  "spec": { "containers": [{ "name": "a", "image": image }] } } } }] } } }
        });
        let bundle = Bundle::from_objects(vec![csv]).unwrap();
        let options = RenderOptions {
            install_namespace: "ns".into(),
            target_namespaces: vec!["ns".into()],
            ..RenderOptions::default()
        };
        let resolved = Resolved {
            subscription: "ns/a".into(),
            action: Action::Install,
            chosen: ChosenBundle {
                catalog: CatalogRef::new("olm", "c"),
                package: "a".into(),
                channel: "stable".into(),
                name: "a.v1".into(),
                version: None,
            },
            from: None,
            path: vec![],
            why: String::new(),
            rejected: vec![],
            dependencies: vec![],
            deprecations: vec![],
        };
        let rendered = olm_bundle::render(&bundle, &options);
        let input = PlanInput {
            namespace: "ns",
            subscription: "a",
            approval: olm_api::subscription::Approval::Manual,
            resolved: &resolved,
            catalog_digest: "",
            bundle: &bundle,
            rendered: rendered.as_ref(),
            previous: None,
            operator_groups: &[],
            target_namespaces: &options.target_namespaces,
            facts: &ClusterFacts::default(),
        };
        make_plan(&input, &Live::new())
    }

    #[test]
    fn a_changed_plan_lists_its_differences() {
        // given a plan that was approved, and a catalog that now has another image under the same name
        let (reviewed, now) = (planned("localhost/a:1"), planned("localhost/evil:1"));
        let spec = InstallPlanSpec {
            approved: true,
            plan_digest: Some(reviewed.digest.clone()),
            ..Default::default()
        };
        let mut plan = InstallPlan::new("install-a", spec);
        let parts = crate::controllers::subscription::parts(&reviewed).unwrap();
        plan.annotations_mut().insert(names::ANNOTATION_PLAN_PARTS.into(), parts);
        // then the refusal has its code, names the objects, and both digests
        assert_ne!(reviewed.digest, now.digest);
        let text = message(&plan, &how(&plan, &reviewed.digest, &now));
        assert!(text.starts_with("plan-changed: InstallPlan install-a is not applied"), "{text}");
        assert!(text.contains("`apply apps/v1 Deployment ns/a` changed"), "{text}");
        assert!(text.contains(&reviewed.digest) && text.contains(&now.digest), "{text}");
        // one of an older manager only reports that it changed
        plan.annotations_mut().clear();
        assert!(how(&plan, &reviewed.digest, &now).starts_with("planned sha256:"));
    }
}
