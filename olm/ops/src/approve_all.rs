//! Approval of all pending plans that need no review.

use kube::Client;
use olm_engine::catalogs::LoadedCatalog;
use olm_plan::{Finding, FindingCode, Plan, PlanAction, Severity};
use serde::Serialize;

use crate::{
    approve::{approve, preview_upgrade, same_digest},
    error::Error,
    list::{Installed, list_installed},
    status::Status,
};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkApproval {
    pub namespace: String,
    /// Name of the Subscription.
    pub name: String,
    pub package: String,
    /// The installed version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub plan: String,
    pub outcome: BulkOutcome,
    /// Why it was not approved.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The ClusterServiceVersion that the approved plan installs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkOutcome {
    Approved,
    /// A person has to review the plan.
    Review,
    Failed,
}

/// Approves each plan of a namespace, or of all, that waits for approval and needs no review: it has no
/// [review points](Plan::review_points), and, because its approver does not see it, installs no other operator,
/// has no warning and is an installation or upgrade. Exactly the examined content is approved. With
/// `upgrades_only`, plans of new installations are left out.
///
/// # Errors
/// [`Error::Forbidden`] when the operators may not be listed. The failure of one plan is part of the result.
pub async fn approve_all(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    upgrades_only: bool,
) -> Result<Vec<BulkApproval>, Error> {
    let mut out = Vec::new();
    for installed in list_installed(client, namespace).await? {
        let Some(plan) = installed.plan.clone().filter(|_| is_pending(&installed, upgrades_only)) else {
            continue;
        };
        let (outcome, reason, csv) = match approve_one(client, catalogs, &installed).await {
            Ok(Ok(csv)) => (BulkOutcome::Approved, String::new(), Some(csv)),
            Ok(Err(reason)) => (BulkOutcome::Review, reason, None),
            Err(error) => (BulkOutcome::Failed, error.to_string(), None),
        };
        out.push(BulkApproval {
            namespace: installed.namespace,
            name: installed.name,
            package: installed.package,
            from: installed.version,
            to: installed.next,
            plan,
            outcome,
            reason,
            csv,
        });
    }
    Ok(out)
}

fn is_pending(installed: &Installed, upgrades_only: bool) -> bool {
    installed.status == Status::NeedsApproval && (installed.version.is_some() || !upgrades_only)
}

/// The ClusterServiceVersion of the approved plan, or why the plan needs a review.
async fn approve_one(
    client: &Client,
    catalogs: &[LoadedCatalog],
    installed: &Installed,
) -> Result<Result<String, String>, Error> {
    let namespace = Some(installed.namespace.as_str());
    let planned = preview_upgrade(client, catalogs, namespace, &installed.name).await?;
    let digest = installed.plan_digest.clone().unwrap_or_default();
    if !same_digest(&planned.digest, &digest) {
        return Ok(Err("the cluster or the catalog changed since the plan was made".to_owned()));
    }
    if let Some(reason) = needs_review(&planned) {
        return Ok(Err(reason));
    }
    let plan = installed.plan.as_deref().unwrap_or_default();
    approve(client, namespace, plan, Some(&digest)).await.map(|approved| Ok(approved.csv))
}

/// What a person has to see before the approval, in one line.
fn needs_review(plan: &Plan) -> Option<String> {
    let mut points = plan.review_points();
    let covered = |finding: &&Finding| finding.code != FindingCode::HighRightsAdded;
    let findings = plan.findings.iter().filter(|finding| finding.severity != Severity::Info).filter(covered);
    let counts = [(plan.along.len(), "other operator", " installed"), (findings.count(), "finding", "")];
    for (n, what, done) in counts.into_iter().filter(|(n, ..)| *n > 0) {
        points.push(format!("{n} {what}{}{done}", if n == 1 { "" } else { "s" }));
    }
    if !matches!(plan.action, PlanAction::Install | PlanAction::Upgrade) {
        points.push("not an upgrade".to_owned());
    }
    (!points.is_empty()).then(|| points.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(field: &str, value: Value) -> Option<String> {
        let mut plan = json!({
            "apiVersion": olm_plan::API_VERSION, "digest": "sha256:0", "action": "upgrade", "namespace": "ns",
            "subscription": "a", "package": "a", "bundle": "a.v2", "path": [], "dependencies": [], "objects": [],
            "why": { "chosen": "", "text": "", "rejected": [] }, "findings": [], "requiresApproval": true,
            "permissions": { "added": [], "removed": [], "summary": {} }, "reversible": { "possible": true },
        });
        plan[field] = value;
        needs_review(&serde_json::from_value(plan).unwrap())
    }

    #[test]
    fn new_high_permissions_deletions_and_rollbacks_need_a_review() {
        let found = |code: &str, severity: &str| json!([{ "code": code, "severity": severity, "subject": "a", "text": "" }]);
        assert_eq!(
            reason("findings", found("HighRightsAdded", "warn")).as_deref(),
            Some("new permissions of level HIGH")
        );
        assert_eq!(reason("findings", found("NotChecked", "info")), None);
        assert_eq!(reason("findings", found("ImageNotPullable", "warn")).as_deref(), Some("1 finding"));
        let object = |gvk: &str, op: &str| json!([{ "gvk": gvk, "ns": "ns", "name": "a", "op": op }]);
        assert_eq!(reason("objects", object("ConfigMap.v1", "update")), None);
        assert_eq!(reason("objects", object("ConfigMap.v1", "delete")).as_deref(), Some("1 object deleted"));
        // The permissions show the difference of the replaced roles.
        assert_eq!(reason("objects", object("Role.v1.rbac.authorization.k8s.io", "delete")), None);
        assert_eq!(reason("action", json!("rollback")).as_deref(), Some("not an upgrade"));
    }
}
