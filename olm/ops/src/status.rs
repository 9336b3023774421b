//! One status word for an installed operator. Pure.

use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion, InstallPlan, Subscription, condition, csv::CsvPhase,
    install_plan::InstallPlanPhase, names, subscription::SubscriptionState,
};
use serde::{Deserialize, Serialize};

/// Worst first: lists are sorted by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It is not installable, or its installation failed.
    Failed,
    /// It is installed, and its workload is not available, or it blocks its own update.
    Degraded,
    /// A plan waits for approval.
    NeedsApproval,
    /// It cannot be kept up to date.
    CannotUpdate,
    /// Its removal is in progress.
    Uninstalling,
    /// The first version is being installed.
    Installing,
    /// Another version is being installed.
    Updating,
    /// Paused on request.
    Paused,
    /// A newer version is reachable.
    UpdateAvailable,
    /// It runs without a Subscription and gets no updates.
    Unmanaged,
    Healthy,
}

impl Status {
    /// The word for display.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::Degraded => "Degraded",
            Self::NeedsApproval => "Needs approval",
            Self::CannotUpdate => "Cannot update",
            Self::Uninstalling => "Uninstalling",
            Self::Installing => "Installing",
            Self::Updating => "Updating",
            Self::Paused => "Paused",
            Self::UpdateAvailable => "Update available",
            Self::Unmanaged => "Unmanaged",
            Self::Healthy => "Healthy",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// The objects of one installed operator.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) subscription: Option<Subscription>,
    /// The newest version on the cluster.
    pub(super) csv: Option<ClusterServiceVersion>,
    /// The version that it replaces.
    pub(super) old: Option<ClusterServiceVersion>,
    /// The pending or current plan.
    pub(super) plan: Option<InstallPlan>,
}

impl View {
    /// The status and its reason; the first match wins.
    pub(super) fn status(&self) -> (Status, String) {
        let Some(subscription) = &self.subscription else { return self.unmanaged() };
        let csv_status = self.csv.as_ref().and_then(|c| c.status.clone()).unwrap_or_default();
        let csv_message = csv_status.message.clone().unwrap_or_default();
        let csv_reason = csv_status.reason.as_deref().unwrap_or_default();
        let csv_deleted = self.csv.as_ref().is_some_and(|c| c.metadata.deletion_timestamp.is_some());
        if subscription.metadata.deletion_timestamp.is_some() || csv_deleted {
            let held = self.failing(names::CONDITION_DELETION_HELD);
            return (Status::Uninstalling, held.unwrap_or_else(|| "being removed".into()));
        }
        let unhealthy = csv_reason == "ComponentUnhealthy";
        if csv_status.phase == CsvPhase::Failed && !unhealthy {
            return (Status::Failed, csv_message);
        }
        if let Some(why) = self.failing(names::CONDITION_RESOLUTION_FAILED)
            && self.csv.is_none()
        {
            return (Status::Failed, why);
        }
        if csv_status.phase == CsvPhase::Failed {
            return (Status::Degraded, csv_message);
        }
        let plan_phase = self.plan.as_ref().map(InstallPlan::phase).unwrap_or_default();
        let pending = condition_of(subscription, names::CONDITION_INSTALL_PLAN_PENDING);
        if let Some((reason, message)) = &pending
            && reason == "OperatorConditionNotUpgradeable"
        {
            return (Status::Degraded, message.clone());
        }
        if let Some(plan) = &self.plan
            && !plan.spec.approved
            && (!subscription.spec.paused || is_pending_rollback(subscription, plan))
        {
            let needed = plan.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
            let needed = needed.map(|needed| format!("; {needed}")).unwrap_or_default();
            return (Status::NeedsApproval, format!("{}{needed}", plan_summary(plan)));
        }
        let approved = self.plan.as_ref().filter(|plan| plan.spec.approved);
        if let Some(plan) = approved.filter(|_| plan_phase != InstallPlanPhase::Complete) {
            // Until the manager observes the approval, the message is the request for it.
            let status = plan.status.as_ref().filter(|_| plan_phase != InstallPlanPhase::RequiresApproval);
            let why = status.and_then(|s| s.message.clone());
            return (self.moving(), why.unwrap_or_else(|| plan_summary(plan)));
        }
        if self.csv.is_some() && csv_status.phase != CsvPhase::Succeeded {
            return (self.moving(), csv_message);
        }
        if subscription.spec.paused {
            return (Status::Paused, "paused (spec.paused)".into());
        }
        let catalog = self.failing(names::CONDITION_CATALOG_SOURCES_UNHEALTHY);
        if self.csv.is_none() {
            return match catalog {
                Some(why) => (Status::Failed, why),
                None => (Status::Installing, "resolving the version".into()),
            };
        }
        if let Some(why) = self.failing(names::CONDITION_RESOLUTION_FAILED).or(catalog) {
            return (Status::CannotUpdate, why);
        }
        let state = subscription.status.as_ref().map(|s| s.state).unwrap_or_default();
        if matches!(state, SubscriptionState::UpgradeAvailable | SubscriptionState::UpgradePending) {
            if let Some(snooze) = &subscription.spec.snooze {
                let text = format!("snoozed until a version newer than {} is available", snooze.newest);
                return (Status::UpdateAvailable, text);
            }
            return (Status::UpdateAvailable, "a newer version is available".into());
        }
        (Status::Healthy, String::new())
    }

    fn moving(&self) -> Status {
        let replacing = self.old.is_some()
            || self.plan.as_ref().is_some_and(|plan| {
                let wanted = plan.spec.cluster_service_version_names.first();
                self.csv.as_ref().is_some_and(|csv| wanted != Some(&csv.name_any()))
            });
        if replacing { Status::Updating } else { Status::Installing }
    }

    fn unmanaged(&self) -> (Status, String) {
        let deleted = self.csv.as_ref().is_some_and(|c| c.metadata.deletion_timestamp.is_some());
        if deleted {
            return (Status::Uninstalling, "being removed".into());
        }
        (Status::Unmanaged, "no Subscription: no updates".into())
    }

    fn failing(&self, type_: &str) -> Option<String> {
        self.subscription.as_ref().and_then(|s| condition_of(s, type_)).map(|(_, message)| message)
    }
}

/// Reason and message of a condition that is true.
pub(super) fn condition_of(subscription: &Subscription, type_: &str) -> Option<(String, String)> {
    let conditions = &subscription.status.as_ref()?.conditions;
    let found = condition::find(conditions, type_).filter(|c| c.is_true())?;
    Some((found.reason.clone().unwrap_or_default(), found.message.clone().unwrap_or_default()))
}

pub(super) fn plan_summary(plan: &InstallPlan) -> String {
    let annotated = plan.annotations().get(names::ANNOTATION_PLAN_SUMMARY).cloned();
    annotated.unwrap_or_else(|| plan.spec.cluster_service_version_names.join(", "))
}

/// Whether a plan is the rollback that a paused operator waits for.
fn is_pending_rollback(subscription: &Subscription, plan: &InstallPlan) -> bool {
    plan.spec.cluster_service_version_names.iter().any(|csv| rolls_back_to(subscription, csv))
}

/// Whether a paused Subscription is rolled back to a version first: the pause applies from that version on.
pub fn rolls_back_to(subscription: &Subscription, csv: &str) -> bool {
    subscription.annotations().get(names::ANNOTATION_ROLLBACK_TO).is_some_and(|to| to == csv)
}

#[cfg(test)]
mod tests {
    use olm_api::{
        ClusterServiceVersionSpec, ClusterServiceVersionStatus, Condition, InstallPlanSpec,
        InstallPlanStatus, SubscriptionSpec, SubscriptionStatus,
    };

    use super::*;

    fn subscription() -> Subscription {
        let spec = SubscriptionSpec { name: "etcd".into(), ..SubscriptionSpec::default() };
        let mut subscription = Subscription::new("etcd", spec);
        subscription.status =
            Some(SubscriptionStatus { state: SubscriptionState::AtLatestKnown, ..Default::default() });
        subscription
    }

    fn csv(phase: CsvPhase, reason: &str) -> ClusterServiceVersion {
        let mut csv = ClusterServiceVersion::new("etcd.v1", ClusterServiceVersionSpec::default());
        csv.status = Some(ClusterServiceVersionStatus {
            phase,
            reason: Some(reason.into()),
            message: Some("because".into()),
            ..Default::default()
        });
        csv
    }

    fn plan(csv: &str, approved: bool) -> InstallPlan {
        let spec = InstallPlanSpec {
            cluster_service_version_names: vec![csv.into()],
            approved,
            ..InstallPlanSpec::default()
        };
        InstallPlan::new("install-a", spec)
    }

    fn view() -> View {
        View {
            subscription: Some(subscription()),
            csv: Some(csv(CsvPhase::Succeeded, "InstallSucceeded")),
            ..View::default()
        }
    }

    #[test]
    fn all_well_is_healthy() {
        assert_eq!(view().status().0, Status::Healthy);
    }

    #[test]
    fn a_plan_that_waits_for_a_human_is_never_called_updating() {
        let mut view = View { plan: Some(plan("etcd.v2", false)), ..view() };
        assert_eq!(view.status(), (Status::NeedsApproval, "etcd.v2".into()));
        // and for which rights, where its author does not hold them
        let needed =
            (names::ANNOTATION_APPROVAL_NEEDED.to_owned(), "user jane does not hold these".to_owned());
        view.plan.as_mut().unwrap().annotations_mut().extend([needed]);
        assert_eq!(view.status(), (Status::NeedsApproval, "etcd.v2; user jane does not hold these".into()));
    }

    #[test]
    fn a_paused_operator_is_paused_unless_its_way_back_waits() {
        // given
        let mut paused = View { plan: Some(plan("etcd.v0", false)), ..view() };
        let subscription = paused.subscription.as_mut().unwrap();
        subscription.spec.paused = true;
        assert_eq!(paused.status().0, Status::Paused);

        // when it is rolled back
        let back = (names::ANNOTATION_ROLLBACK_TO.to_owned(), "etcd.v0".to_owned());
        paused.subscription.as_mut().unwrap().annotations_mut().extend([back]);

        // then the plan needs an approval
        assert_eq!(paused.status().0, Status::NeedsApproval);
    }

    #[test]
    fn a_plan_at_work_is_updating_when_something_is_installed() {
        let view = View { plan: Some(plan("etcd.v2", true)), ..view() };
        assert_eq!(view.status().0, Status::Updating);
        let view = View { csv: None, ..view };
        assert_eq!(view.status().0, Status::Installing);
    }

    #[test]
    fn after_the_approval_of_a_plan_the_reason_is_not_the_request_for_it() {
        // given a plan whose status is older than its approval
        let mut view = View { plan: Some(plan("etcd.v2", true)), ..view() };
        view.plan.as_mut().unwrap().status = Some(InstallPlanStatus {
            phase: InstallPlanPhase::RequiresApproval,
            message: Some("approve with `olm approve install-a -n etcd`".into()),
            ..Default::default()
        });
        // then
        assert_eq!(view.status(), (Status::Updating, "etcd.v2".into()));
        // when the manager reports its progress
        let status = view.plan.as_mut().unwrap().status.as_mut().unwrap();
        status.phase = InstallPlanPhase::Installing;
        status.message = Some("1 of 2 objects applied".into());
        // then
        assert_eq!(view.status(), (Status::Updating, "1 of 2 objects applied".into()));
    }

    #[test]
    fn an_unhealthy_workload_is_degraded_and_a_failed_install_failed() {
        let unhealthy = View { csv: Some(csv(CsvPhase::Failed, "ComponentUnhealthy")), ..view() };
        assert_eq!(unhealthy.status(), (Status::Degraded, "because".into()));
        let failed = View { csv: Some(csv(CsvPhase::Failed, "InstallCheckFailed")), ..view() };
        assert_eq!(failed.status().0, Status::Failed);
    }

    #[test]
    fn a_healthy_operator_without_its_catalog_cannot_update() {
        let mut view = view();
        let missing = Condition::new(names::CONDITION_CATALOG_SOURCES_UNHEALTHY, true, "x", "catalog gone");
        let subscription = view.subscription.as_mut().unwrap();
        subscription.status.as_mut().unwrap().conditions.push(missing);
        assert_eq!(view.status(), (Status::CannotUpdate, "catalog gone".into()));
    }

    #[test]
    fn without_a_subscription_it_is_unmanaged() {
        let view = View { subscription: None, ..view() };
        assert_eq!(view.status().0, Status::Unmanaged);
    }
}
