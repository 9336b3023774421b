//! Reasons of events, which other programs may rely on. `docs/monitoring.md` has the same table; a test holds the two together, and
//! another looks that nothing else is told.

/// What is told about a kind of object.
pub(crate) struct Reason {
    pub(crate) kind: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) warning: bool,
    pub(crate) says: &'static str,
}

const fn normal(kind: &'static str, reason: &'static str, says: &'static str) -> Reason {
    Reason { kind, reason, warning: false, says }
}

const fn warning(kind: &'static str, reason: &'static str, says: &'static str) -> Reason {
    Reason { kind, reason, warning: true, says }
}

/// All of them. Where the words are upstream's, so is the meaning.
pub(crate) const REASONS: &[Reason] = &[
    warning("CatalogSource", "SpecInvalidError", "The spec cannot be meant like that."),
    warning(
        "CatalogSource",
        "InvalidIntervalError",
        "The polling interval is no duration; the usual one is used.",
    ),
    warning(
        "CatalogSource",
        "RegistryServerError",
        "The source cannot be read; the last good content is served.",
    ),
    warning("CatalogSource", "ConfigMapError", "The ConfigMap is not there or is no catalog."),
    normal("Subscription", "InstallPlanCreated", "There is a plan; the text sums it up."),
    warning("Subscription", "ResolutionFailed", "No version satisfies the request; the text says why not."),
    warning(
        "Subscription",
        "CatalogSourcesUnhealthy",
        "The catalog that it names cannot be read, or is not for its namespace.",
    ),
    warning("Subscription", "InstallPlanFailed", "Its plan failed; it is tried again or made anew."),
    warning("Subscription", "BundleUnpackFailed", "The bundle cannot be read."),
    warning("Subscription", "DeletionHeld", "It is deleted and waits; the text says for what."),
    normal("InstallPlan", "InstallPlanComplete", "Everything of it is applied."),
    normal("InstallPlan", "AppliedWithWarnings", "The API server remarked something on what was applied."),
    warning("InstallPlan", "InstallComponentFailed", "An object could not be applied; it is tried again."),
    warning(
        "InstallPlan",
        "InstallCheckFailed",
        "The ServiceAccount of the OperatorGroup is not there or may not do it.",
    ),
    warning(
        "InstallPlan",
        "ApproverLacksRights",
        "The approval is taken back: the approver does not hold rights that the plan uses or grants.",
    ),
    warning("InstallPlan", "PolicyDenies", "An InstallPolicy does not allow it; an approval is taken back."),
    warning(
        "InstallPlan",
        "SecondApproverNeeded",
        "The approval is recorded as the first of two; another user has to approve.",
    ),
    warning("InstallPlan", "PlanUnknown", "No Subscription of ours made it, so it is not carried out."),
    warning(
        "InstallPlan",
        "PlanChanged",
        "It is not what was approved any more; the Subscription makes another.",
    ),
    warning("InstallPlan", "Paused", "Its Subscription is paused."),
    warning(
        "InstallPlan",
        "SubscriptionDeleted",
        "Its Subscription is being deleted, so it is not carried out.",
    ),
    warning(
        "InstallPlan",
        "OperatorConditionNotUpgradeable",
        "The operator says that it must not be replaced now.",
    ),
    warning(
        "InstallPlan",
        "BLOCKED",
        "The code of the finding that blocks it; `olm explain CODE` has a page for each.",
    ),
    warning("OperatorGroup", "InvalidSelector", "The selector of namespaces cannot be read."),
    warning(
        "OperatorGroup",
        "MultipleOperatorGroupsFound",
        "There are several in the namespace; operators there do not go on.",
    ),
    warning(
        "OperatorGroup",
        "TooManyNamespaces",
        "It chooses more than an operator can be told; so it chooses none.",
    ),
    normal(
        "ClusterServiceVersion",
        "Adopted",
        "It was installed by another OLM and is looked after from now on.",
    ),
    warning(
        "ClusterServiceVersion",
        "AuthorLacksRights",
        "Its rights do not follow the OperatorGroup: its author, or that of the group, does not hold them.",
    ),
    warning(
        "ClusterServiceVersion",
        "PolicyDenies",
        "Its rights do not follow the OperatorGroup: an InstallPolicy denies them.",
    ),
    normal("ClusterServiceVersion", "RequirementsUnknown", "Requirements are about to be looked at."),
    normal(
        "ClusterServiceVersion",
        "RequirementsNotMet",
        "Something that it needs is not there; the text names it.",
    ),
    normal(
        "ClusterServiceVersion",
        "AllRequirementsMet",
        "It is being installed; its Deployments are not available yet.",
    ),
    normal("ClusterServiceVersion", "InstallSucceeded", "It runs."),
    normal(
        "ClusterServiceVersion",
        "NeedsReinstall",
        "Something of it was changed or removed; it is put right.",
    ),
    normal("ClusterServiceVersion", "NeedsCertRotation", "Its certificate is renewed."),
    normal("ClusterServiceVersion", "BeingReplaced", "A newer version takes over."),
    normal("ClusterServiceVersion", "Replaced", "A newer version has taken over."),
    normal(
        "ClusterServiceVersion",
        "OperatorConditionNotUpgradeable",
        "The version before says that it must not be replaced now.",
    ),
    normal("ClusterServiceVersion", "PhaseChanged", "The phase changed, and there is no better word for it."),
    warning(
        "ClusterServiceVersion",
        "ComponentUnhealthy",
        "A Deployment of it does not become available, or is not any more.",
    ),
    warning(
        "ClusterServiceVersion",
        "InstallComponentFailed",
        "An object of it could not be applied; it is tried again.",
    ),
    warning(
        "ClusterServiceVersion",
        "InstallComponentFailedNoRetry",
        "An object of it cannot be applied until somebody changes something.",
    ),
    warning("ClusterServiceVersion", "InstallCheckFailed", "Whether it runs could not be found out."),
    warning("ClusterServiceVersion", "InvalidStrategy", "How it is installed cannot be read."),
    warning(
        "ClusterServiceVersion",
        "InvalidWebhookDescription",
        "A webhook of it is not described so that it can be called.",
    ),
    warning("ClusterServiceVersion", "InvalidInstallModes", "Its install modes cannot be read."),
    warning("ClusterServiceVersion", "NoOperatorGroup", "There is none in the namespace."),
    warning("ClusterServiceVersion", "TooManyOperatorGroups", "There are several in the namespace."),
    warning(
        "ClusterServiceVersion",
        "UnsupportedOperatorGroup",
        "It cannot watch the namespaces that the OperatorGroup chooses.",
    ),
    warning("ClusterServiceVersion", "NoTargetNamespaces", "The OperatorGroup chooses no namespace."),
    warning(
        "ClusterServiceVersion",
        "InterOperatorGroupOwnerConflict",
        "Another operator provides the same API to the same namespaces.",
    ),
    warning(
        "ClusterServiceVersion",
        "CannotModifyStaticOperatorGroupProvidedAPIs",
        "The OperatorGroup provides other APIs and may not be changed.",
    ),
    warning("ClusterServiceVersion", "OwnerConflict", "An object of that name belongs to somebody else."),
    warning("ClusterServiceVersion", "ReservedObject", "An object of it belongs to olm or to Kubernetes."),
    warning(
        "ClusterServiceVersion",
        "APIServiceResourceIssue",
        "An aggregated API of it does not answer or has no valid certificate.",
    ),
    warning(
        "ClusterServiceVersion",
        "APIServiceResourcesNeedReinstall",
        "What an aggregated API of it needs is put right.",
    ),
    warning(
        "ClusterServiceVersion",
        "APIServiceInstallFailed",
        "An aggregated API of it cannot be switched on.",
    ),
    warning(
        "ClusterServiceVersion",
        "CertificateReplaced",
        "The certificate of its webhooks or APIs was not usable; there is a new one.",
    ),
    normal(
        "ClusterServiceVersion",
        "CertificateRenewed",
        "The certificate of its webhooks or APIs was renewed in time.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Text in quotes that stands where an event's reason stands, in all sources of controllers.
    fn told() -> Vec<(std::path::PathBuf, String)> {
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
    fn nothing_is_told_that_the_table_does_not_have() {
        let told = told();
        assert!(told.len() >= 4, "the scan finds no calls: {told:?}");
        for (path, reason) in told {
            assert!(REASONS.iter().any(|known| known.reason == reason), "{}: {reason}", path.display());
        }
    }

    #[test]
    fn the_documentation_has_every_reason() {
        let rows = REASONS.iter().map(|r| {
            let type_ = if r.warning { "Warning" } else { "Normal" };
            format!("| {} | `{}` | {type_} | {} |\n", r.kind, r.reason, r.says)
        });
        let table = format!(
            "| object | reason | type | what it says |\n| --- | --- | --- | --- |\n{}",
            rows.collect::<String>()
        );
        crate::testing::documented("monitoring.md", "events", &table);
    }
}
