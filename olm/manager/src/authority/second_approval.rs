//! The second of two approvals that an InstallPolicy requires.
//!
//! The first is recorded in an annotation that only the manager can write, with the approved digest, and
//! `spec.approved` is reset. Another user gives the second. A plan with other content is another InstallPlan,
//! to which neither applies.

use kube::ResourceExt;
use olm_api::{InstallPlan, names};
use olm_engine::recorded_along;
use olm_plan::{FindingCode, Plan};
use serde::{Deserialize, Serialize};

use crate::context::{Ctx, Error};

use super::RecordedAuthority;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirstApproval {
    pub(crate) user: String,
    pub(crate) digest: String,
}

impl FirstApproval {
    /// The recorded approval of a plan, if it applies to its content.
    fn of(plan: &InstallPlan) -> Option<Self> {
        let text = plan.annotations().get(names::ANNOTATION_FIRST_APPROVAL)?;
        let first: Self = serde_json::from_str(text).ok()?;
        (Some(&first.digest) == plan.spec.plan_digest.as_ref()).then_some(first)
    }

    /// The value of the annotation.
    pub(crate) fn annotation(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A second approval is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingApproval {
    /// Why, and who gave the first one.
    pub(crate) why: String,
    /// The first approval, where the user is known.
    pub(crate) first: Option<FirstApproval>,
}

/// The missing approvals of a plan besides that of a user. `plan` is the InstallPlan if it exists.
pub(crate) async fn missing(
    by: &RecordedAuthority,
    plan: Option<&InstallPlan>,
    change: &Plan,
    ctx: &Ctx,
) -> Result<Option<MissingApproval>, Error> {
    let is_needed = |code: &FindingCode| *code == FindingCode::SecondApproverNeeded;
    let Some(finding) = change.findings.iter().find(|finding| is_needed(&finding.code)) else {
        return Ok(None);
    };
    // A plan in progress has fewer objects to delete than the approved one.
    let digest = plan.and_then(|plan| plan.spec.plan_digest.as_ref()).unwrap_or(&change.digest);
    if approved_with_parent(digest, &change.namespace, ctx).await? {
        return Ok(None);
    }
    let RecordedAuthority::By(approver) = by else {
        let why = format!("{}; the approver is not recorded, approve it with `olm approve`", finding.text);
        return Ok(Some(MissingApproval { why, first: None }));
    };
    let first = plan.and_then(FirstApproval::of);
    let user = approver.user();
    if first.is_some_and(|first| first.user != user) {
        return Ok(None);
    }
    let why = format!("{}; approved by {user}, waiting for the approval of another user", finding.text);
    let first = FirstApproval { user: user.to_owned(), digest: digest.clone() };
    Ok(Some(MissingApproval { why, first: Some(first) }))
}

/// Whether two users approved a plan together with the plan that installs it, which is being applied.
async fn approved_with_parent(digest: &str, namespace: &str, ctx: &Ctx) -> Result<bool, Error> {
    let manager = ctx.authorities.own_name().await?;
    let is_parent = |plan: &InstallPlan| {
        plan.spec.approved
            && !plan.is_over()
            && recorded_along(plan).iter().any(|along| along.digest == digest)
            && by_two(plan, manager)
    };
    Ok(ctx.cache.plans.in_namespace(namespace).iter().any(|plan| is_parent(plan)))
}

fn by_two(plan: &InstallPlan, manager: &str) -> bool {
    let second = plan.annotations().get(names::ANNOTATION_APPROVED_BY);
    let Some((first, second)) = FirstApproval::of(plan).zip(second) else { return false };
    first.user != *second && second != manager && !second.is_empty()
}

#[cfg(test)]
mod tests {
    use olm_api::InstallPlanSpec;

    use super::*;

    fn plan(digest: &str, first: Option<(&str, &str)>, second: &str) -> InstallPlan {
        let spec = InstallPlanSpec { plan_digest: Some(digest.to_owned()), ..InstallPlanSpec::default() };
        let mut plan = InstallPlan::new("install-a", spec);
        plan.annotations_mut().insert(names::ANNOTATION_APPROVED_BY.into(), second.into());
        if let Some((user, digest)) = first {
            let first = FirstApproval { user: user.into(), digest: digest.into() };
            plan.annotations_mut().insert(names::ANNOTATION_FIRST_APPROVAL.into(), first.annotation());
        }
        plan
    }

    #[test]
    fn two_approvals_are_of_two_users_and_of_one_content() {
        let two = |plan: &InstallPlan| by_two(plan, "manager");
        assert!(two(&plan("sha256:a", Some(("jane", "sha256:a")), "joe")));
        // the same user twice
        assert!(!two(&plan("sha256:a", Some(("jane", "sha256:a")), "jane")));
        // other content
        assert!(!two(&plan("sha256:b", Some(("jane", "sha256:a")), "joe")));
        assert!(!two(&plan("sha256:a", None, "joe")));
        // the manager approves on behalf of others
        assert!(!two(&plan("sha256:a", Some(("jane", "sha256:a")), "manager")));
        let mut broken = plan("sha256:a", None, "joe");
        broken.annotations_mut().insert(names::ANNOTATION_FIRST_APPROVAL.into(), "jane".into());
        assert!(!two(&broken));
    }
}
