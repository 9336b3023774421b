//! Reasons of events, which other programs may rely on. `docs/monitoring.md` has the same table; one test
//! compares the two, and another verifies that no other reason is emitted.

/// An event reason of a kind of object.
pub(crate) struct Reason {
    pub(crate) kind: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) warning: bool,
    pub(crate) meaning: &'static str,
}

const fn normal(kind: &'static str, reason: &'static str, meaning: &'static str) -> Reason {
    Reason { kind, reason, warning: false, meaning }
}

const fn warning(kind: &'static str, reason: &'static str, meaning: &'static str) -> Reason {
    Reason { kind, reason, warning: true, meaning }
}

/// In place of a reason: the code of a finding.
const FINDING_CODE: &str = "*finding code*";

/// All reasons. Where the names are upstream's, so is the meaning.
pub(crate) const REASONS: &[Reason] = &[
    warning("CatalogSource", "SpecInvalidError", "The spec is not valid."),
    warning(
        "CatalogSource",
        "InvalidIntervalError",
        "The polling interval is not a duration; the default is used.",
    ),
    warning(
        "CatalogSource",
        "RegistryServerError",
        "Reading the source failed; the previous content is served.",
    ),
    warning("CatalogSource", "ConfigMapError", "The ConfigMap does not exist or is not a catalog."),
    normal("Subscription", "InstallPlanCreated", "A plan was created; the message summarizes it."),
    warning(
        "Subscription",
        "ResolutionFailed",
        "No version satisfies the request; the message has the reasons.",
    ),
    warning(
        "Subscription",
        "CatalogSourcesUnhealthy",
        "Its catalog is not readable, or not available in its namespace.",
    ),
    warning("Subscription", "InstallPlanFailed", "Its plan failed and is retried or replaced."),
    warning("Subscription", "BundleUnpackFailed", "Reading the bundle failed."),
    warning("Subscription", "DeletionHeld", "Its deletion is held; the message has the cause."),
    normal("InstallPlan", "InstallPlanComplete", "All its objects are applied."),
    normal("InstallPlan", "AppliedWithWarnings", "The API server returned warnings for applied objects."),
    warning("InstallPlan", "InstallComponentFailed", "Applying an object failed and is retried."),
    warning(
        "InstallPlan",
        "InstallCheckFailed",
        "The ServiceAccount of the OperatorGroup does not exist or lacks permissions.",
    ),
    warning(
        "InstallPlan",
        "ApproverLacksRights",
        "The approval is revoked: the approver does not hold permissions that the plan uses or grants.",
    ),
    warning("InstallPlan", "PolicyDenies", "An InstallPolicy denies it; an approval is revoked."),
    warning(
        "InstallPlan",
        "SecondApproverNeeded",
        "The approval is recorded as the first of two; another user has to approve.",
    ),
    warning("InstallPlan", "PlanUnknown", "It was not created by this manager and is not applied."),
    warning(
        "InstallPlan",
        "PlanChanged",
        "It changed since the approval; the Subscription creates a new plan.",
    ),
    warning("InstallPlan", "Paused", "Its Subscription is paused."),
    warning("InstallPlan", "SubscriptionDeleted", "Its Subscription is being deleted, so it is not applied."),
    warning("InstallPlan", "OperatorConditionNotUpgradeable", "The operator does not allow an upgrade now."),
    warning("InstallPlan", FINDING_CODE, "The finding blocks the plan; see `olm explain CODE`."),
    warning("OperatorGroup", "InvalidSelector", "The namespace selector is not valid."),
    warning(
        "OperatorGroup",
        "MultipleOperatorGroupsFound",
        "The namespace has several OperatorGroups; its operators are not installed or upgraded.",
    ),
    warning(
        "OperatorGroup",
        "TooManyNamespaces",
        "It selects more namespaces than an environment variable can hold; none is selected.",
    ),
    normal("ClusterServiceVersion", "Adopted", "It was installed by another OLM and is managed from now on."),
    warning(
        "ClusterServiceVersion",
        "AuthorLacksRights",
        "Its permissions are not extended to the OperatorGroup: its author, or the author of the group, does \
            not hold them.",
    ),
    warning(
        "ClusterServiceVersion",
        "PolicyDenies",
        "Its permissions are not extended to the OperatorGroup: an InstallPolicy denies them.",
    ),
    normal("ClusterServiceVersion", "RequirementsUnknown", "Its requirements are not yet checked."),
    normal("ClusterServiceVersion", "RequirementsNotMet", "A requirement is missing; the message names it."),
    normal(
        "ClusterServiceVersion",
        "AllRequirementsMet",
        "It is being installed; its Deployments are not available yet.",
    ),
    normal("ClusterServiceVersion", "InstallSucceeded", "It is running."),
    normal(
        "ClusterServiceVersion",
        "NeedsReinstall",
        "One of its objects was changed or removed and is restored.",
    ),
    normal("ClusterServiceVersion", "NeedsCertRotation", "Its certificate is renewed."),
    normal("ClusterServiceVersion", "BeingReplaced", "A newer version is replacing it."),
    normal("ClusterServiceVersion", "Replaced", "A newer version replaced it."),
    normal(
        "ClusterServiceVersion",
        "OperatorConditionNotUpgradeable",
        "The previous version does not allow an upgrade now.",
    ),
    normal("ClusterServiceVersion", "PhaseChanged", "The phase changed for another reason."),
    warning("ClusterServiceVersion", "ComponentUnhealthy", "One of its Deployments is not available."),
    warning(
        "ClusterServiceVersion",
        "InstallComponentFailed",
        "Applying one of its objects failed and is retried.",
    ),
    warning(
        "ClusterServiceVersion",
        "InstallComponentFailedNoRetry",
        "Applying one of its objects failed and is not retried until its spec or the object changes.",
    ),
    warning("ClusterServiceVersion", "InstallCheckFailed", "The check of its Deployments failed."),
    warning("ClusterServiceVersion", "InvalidStrategy", "Its install strategy is not valid."),
    warning(
        "ClusterServiceVersion",
        "InvalidWebhookDescription",
        "The description of one of its webhooks is not valid.",
    ),
    warning("ClusterServiceVersion", "InvalidInstallModes", "Its install modes are not valid."),
    warning("ClusterServiceVersion", "NoOperatorGroup", "The namespace has no OperatorGroup."),
    warning("ClusterServiceVersion", "TooManyOperatorGroups", "The namespace has several OperatorGroups."),
    warning(
        "ClusterServiceVersion",
        "UnsupportedOperatorGroup",
        "It does not support the namespaces of the OperatorGroup.",
    ),
    warning("ClusterServiceVersion", "NoTargetNamespaces", "The OperatorGroup selects no namespace."),
    warning(
        "ClusterServiceVersion",
        "InterOperatorGroupOwnerConflict",
        "Another operator provides the same API to the same namespaces.",
    ),
    warning(
        "ClusterServiceVersion",
        "CannotModifyStaticOperatorGroupProvidedAPIs",
        "The OperatorGroup has static provided APIs that do not include its APIs.",
    ),
    warning("ClusterServiceVersion", "OwnerConflict", "An object of that name has another owner."),
    warning("ClusterServiceVersion", "ReservedObject", "One of its objects belongs to olm or Kubernetes."),
    warning(
        "ClusterServiceVersion",
        "APIServiceResourceIssue",
        "One of its aggregated APIs is not available or has no valid certificate.",
    ),
    warning(
        "ClusterServiceVersion",
        "APIServiceResourcesNeedReinstall",
        "Objects of one of its aggregated APIs are restored.",
    ),
    warning(
        "ClusterServiceVersion",
        "APIServiceInstallFailed",
        "Registering one of its aggregated APIs failed.",
    ),
    warning(
        "ClusterServiceVersion",
        "CertificateReplaced",
        "The certificate of its webhooks or APIs was not valid and was replaced.",
    ),
    normal(
        "ClusterServiceVersion",
        "CertificateRenewed",
        "The certificate of its webhooks or APIs was renewed before its expiry.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// String literals in the position of an event's reason, in all sources of controllers.
    fn emitted() -> Vec<(std::path::PathBuf, String)> {
        let mut out = Vec::new();
        let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("events.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for call in text.split(".event(").skip(1) {
                        let arguments = call.split(").await").next().unwrap_or_default();
                        // object, whether it is a warning, reason
                        let reason = arguments.split(',').nth(2).unwrap_or_default().trim();
                        if let Some(word) = reason.strip_prefix('"').and_then(|r| r.strip_suffix('"')) {
                            out.push((path.clone(), word.to_owned()));
                        }
                    }
                }
            }
        }
        out
    }

    #[test]
    fn every_emitted_reason_is_in_the_table() {
        let emitted = emitted();
        assert!(emitted.len() >= 4, "the scan finds no calls: {emitted:?}");
        for (path, reason) in emitted {
            assert!(REASONS.iter().any(|known| known.reason == reason), "{}: {reason}", path.display());
        }
    }

    #[test]
    fn the_documentation_has_every_reason() {
        let rows = REASONS.iter().map(|r| {
            let type_ = if r.warning { "Warning" } else { "Normal" };
            let reason = match r.reason {
                FINDING_CODE => FINDING_CODE.to_owned(),
                reason => format!("`{reason}`"),
            };
            format!("| {} | {reason} | {type_} | {} |\n", r.kind, r.meaning)
        });
        let table = format!(
            "| object | reason | type | meaning |\n| --- | --- | --- | --- |\n{}",
            rows.collect::<String>()
        );
        olm_testing::documented("monitoring.md", "events", &table);
    }
}
