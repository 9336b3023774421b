//! The status of a Subscription: its content (pure), and one write.

use jiff::SignedDuration;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Resource, ResourceExt};
use olm_api::{
    Condition, InstallPlan, Subscription, SubscriptionStatus, condition,
    csv::CsvPhase,
    install_plan::InstallPlanPhase,
    names,
    subscription::{CatalogHealth, InstallPlanReference, SubscriptionState},
};
use olm_engine::{
    CATALOG_OUT_OF_SIGHT,
    limits::{TEXT, truncate},
};

use super::decide::{self, Catalog, HoldReason, Next, Observed};
use crate::{
    context::{Ctx, Error},
    controllers::health::{self, Health},
};

/// The result of reporting a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reported {
    Written,
    Unchanged,
    /// The status is about to change.
    Deferred,
}

/// Writes the status, unless it is unchanged or about to change.
pub(super) async fn report(
    observed: &Observed<'_>,
    next: &Next,
    current: Option<&InstallPlan>,
    ctx: &Ctx,
) -> Result<Reported, Error> {
    let new = status(observed, next, current);
    if is_passing(observed, next, &new, current) {
        return Ok(Reported::Deferred);
    }
    let written = write(observed.subscription, &new, ctx).await?;
    Ok(if written { Reported::Written } else { Reported::Unchanged })
}

/// Writes the status if it changed; returns whether it did.
async fn write(subscription: &Subscription, new: &SubscriptionStatus, ctx: &Ctx) -> Result<bool, Error> {
    let old = subscription.status.as_ref();
    if !ctx.write_status(subscription, old, new).await? {
        return Ok(false);
    }
    for type_ in [
        names::CONDITION_RESOLUTION_FAILED,
        names::CONDITION_CATALOG_SOURCES_UNHEALTHY,
        names::CONDITION_INSTALL_PLAN_FAILED,
    ] {
        let find = |status: &SubscriptionStatus| {
            condition::find(&status.conditions, type_).filter(|c| c.is_true()).cloned()
        };
        let before = old.and_then(find);
        if let Some(now) = find(new)
            && before.as_ref().map(|c| (&c.reason, &c.message)) != Some((&now.reason, &now.message))
        {
            ctx.event(subscription, true, type_, now.message.as_deref().unwrap_or_default()).await;
        }
    }
    Ok(true)
}

/// `current` is the plan that waits for approval or is being applied, otherwise the last applied one.
fn status(observed: &Observed<'_>, next: &Next, current: Option<&InstallPlan>) -> SubscriptionStatus {
    let old = observed.subscription.status.clone().unwrap_or_default();
    let mut status = old.clone();

    status.installed_csv = observed.installed.map(ResourceExt::name_any);
    let pending = current.filter(|plan| !plan.is_over());
    let target = pending.and_then(decide::csv_of).map(str::to_owned);
    status.current_csv = match next {
        Next::NotUpgradeable { to, .. } | Next::Snoozed { to } => Some(to.clone()),
        _ => target.or_else(|| status.installed_csv.clone()),
    };
    if let Some(plan) = current {
        status.install_plan_ref = Some(reference(plan));
        status.install_plan = Some(InstallPlanReference {
            api_version: InstallPlan::api_version(&()).into_owned(),
            kind: InstallPlan::kind(&()).into_owned(),
            name: plan.name_any(),
            uuid: plan.uid().unwrap_or_default(),
        });
        status.install_plan_generation = plan.spec.generation;
    }
    status.state = state(observed, next, pending, old.state);
    status.reason = match next {
        Next::Hold(HoldReason::Paused) => Some("Paused".into()),
        Next::Snoozed { .. } => Some("Snoozed".into()),
        _ => None,
    };
    status.catalog_health = catalog_health(observed, &old);
    conditions(&mut status.conditions, observed, next, current);
    let generation = observed.subscription.metadata.generation;
    status.observed_generation = generation;
    health::conditions(&mut status.conditions, &health(observed, next, current), generation, observed.now);
    if status != old {
        status.last_updated = Some(Time(observed.now));
    }
    status
}

/// How long the steps of a starting plan are not reported: most are done by then, and every report is a
/// write.
pub(super) const PASSING: SignedDuration = SignedDuration::from_secs(2);

/// Whether a status is about to change: only messages and versions differ while a plan is starting, or its
/// version exists and is starting.
fn is_passing(
    observed: &Observed<'_>,
    next: &Next,
    new: &SubscriptionStatus,
    current: Option<&InstallPlan>,
) -> bool {
    let (Some(old), now) = (observed.subscription.status.as_ref(), observed.now) else { return false };
    let made = observed.installed.and_then(|csv| csv.metadata.creation_timestamp.as_ref());
    if let (Next::Hold(HoldReason::Starting { .. }), Some(made)) = (next, made)
        && old.state == SubscriptionState::UpgradePending
    {
        return now.duration_since(made.0) < PASSING;
    }
    let begun = current.filter(|plan| !plan.is_over()).and_then(|plan| plan.status.as_ref());
    let begun = begun.and_then(|status| status.start_time.as_ref());
    if begun.is_none_or(|begun| now.duration_since(begun.0) >= PASSING) || old == new {
        return false;
    }
    // The installed version is reported when the plan is complete: for readers both are one step.
    let facts = |status: &SubscriptionStatus| {
        let conditions: Vec<_> = status.conditions.iter().map(|c| (c.type_.clone(), c.status)).collect();
        (status.state, status.current_csv.clone(), status.install_plan_ref.clone(), conditions)
    };
    facts(old) == facts(new)
}

/// State of the request, for tools that read only the common conditions.
fn health(observed: &Observed<'_>, next: &Next, current: Option<&InstallPlan>) -> Health {
    let working = |reason: &str, message: &str| Health::Working(reason.to_owned(), message.to_owned());
    if let Next::Refused(refused) = next {
        return Health::Stalled(refused.reason.clone(), refused.message.clone());
    }
    if let Some(plan) = current.filter(|plan| !plan.is_over()) {
        let message = plan.status.as_ref().and_then(|s| s.message.clone()).unwrap_or_default();
        return match decide::is_stalled(plan) {
            true => Health::Stalled("InstallPlanFailed".into(), message),
            false if !plan.spec.approved => working("RequiresApproval", &message),
            false => working("Installing", &format!("InstallPlan {} is being applied", plan.name_any())),
        };
    }
    let Some(csv) = observed.installed else {
        return match (&observed.catalog, next) {
            (_, Next::Hold(HoldReason::Paused)) => working("Paused", "spec.paused is true"),
            (Catalog::Missing(why) | Catalog::OutOfSight(why) | Catalog::Unreadable(why), _) => {
                Health::Stalled("CatalogSourcesUnhealthy".into(), why.clone())
            }
            _ => working("Resolving", "resolving the version"),
        };
    };
    // A running version is healthy, even while the next one is held back.
    let status = csv.status.clone().unwrap_or_default();
    let message = status.message.unwrap_or_default();
    match status.phase {
        CsvPhase::Succeeded => Health::Ready,
        CsvPhase::Failed => Health::Stalled(status.reason.unwrap_or_else(|| "Failed".into()), message),
        // Its own status reports the details; here each would be a write.
        _ => working("Installing", &format!("ClusterServiceVersion {} is not running yet", csv.name_any())),
    }
}

fn state(
    observed: &Observed<'_>,
    next: &Next,
    pending: Option<&InstallPlan>,
    old: SubscriptionState,
) -> SubscriptionState {
    if pending.is_some() {
        return SubscriptionState::UpgradePending;
    }
    let last = observed.plans.last();
    if last.is_some_and(|plan| plan.phase() == InstallPlanPhase::Failed)
        && matches!(next, Next::Hold(_) | Next::Refused(_))
    {
        return SubscriptionState::UpgradeFailed;
    }
    match next {
        Next::UpToDate { .. } => SubscriptionState::AtLatestKnown,
        Next::NotUpgradeable { .. } | Next::Snoozed { .. } => SubscriptionState::UpgradeAvailable,
        Next::Plan(_) | Next::Keep { .. } => SubscriptionState::UpgradePending,
        // Upstream's word for "currentCSV is on the cluster": the CSV reports whether it runs.
        Next::Hold(HoldReason::Starting { .. }) => SubscriptionState::AtLatestKnown,
        Next::Hold(_) | Next::Refused(_) if observed.installed.is_none() => SubscriptionState::None,
        Next::Hold(_) | Next::Refused(_) => match old {
            SubscriptionState::None | SubscriptionState::UpgradePending => SubscriptionState::AtLatestKnown,
            old => old,
        },
    }
}

fn reference(plan: &InstallPlan) -> ObjectReference {
    // Without the resourceVersion, which changes with every step of the plan.
    ObjectReference { resource_version: None, ..plan.object_ref(&()) }
}

fn catalog_health(observed: &Observed<'_>, old: &SubscriptionStatus) -> Vec<CatalogHealth> {
    let spec = &observed.subscription.spec;
    let healthy = observed.catalog == Catalog::Ready;
    let before = old.catalog_health.first().filter(|h| {
        h.healthy == healthy
            && h.catalog_source_ref.as_ref().and_then(|r| r.name.as_deref()) == Some(&spec.source)
            && h.catalog_source_ref.as_ref().and_then(|r| r.namespace.as_deref())
                == Some(&spec.source_namespace)
    });
    if let Some(before) = before {
        return vec![before.clone()];
    }
    vec![CatalogHealth {
        catalog_source_ref: Some(ObjectReference {
            api_version: Some(olm_api::CatalogSource::api_version(&()).into_owned()),
            kind: Some(olm_api::CatalogSource::kind(&()).into_owned()),
            name: Some(spec.source.clone()),
            namespace: Some(spec.source_namespace.clone()),
            ..ObjectReference::default()
        }),
        last_updated: Some(Time(observed.now)),
        healthy,
    }]
}

/// The conditions of deprecation, and the prefixes of the catalog's messages for each. The first summarises
/// all.
const DEPRECATIONS: &[(&str, &str)] = &[
    (names::CONDITION_DEPRECATED, "olm."),
    (names::CONDITION_PACKAGE_DEPRECATED, "olm.package/"),
    (names::CONDITION_CHANNEL_DEPRECATED, "olm.channel/"),
    (names::CONDITION_BUNDLE_DEPRECATED, "olm.bundle/"),
];

fn conditions(
    conditions: &mut Vec<Condition>,
    observed: &Observed<'_>,
    next: &Next,
    current: Option<&InstallPlan>,
) {
    let generation = observed.subscription.metadata.generation;
    let mut set = |type_: &str, wanted: Option<(bool, String, String)>| match wanted {
        Some((status, reason, message)) => {
            let mut new = Condition::new(type_, status, reason, truncate(&message, TEXT));
            new.observed_generation = generation;
            condition::set(conditions, new, observed.now);
        }
        None => drop(condition::remove(conditions, type_)),
    };

    set(
        names::CONDITION_CATALOG_SOURCES_UNHEALTHY,
        Some(match &observed.catalog {
            Catalog::Ready => {
                (false, "AllCatalogSourcesHealthy".into(), "all available catalogsources are healthy".into())
            }
            Catalog::Loading => {
                (false, "CatalogSourcesAdded".into(), "the targeted catalogsource is being loaded".into())
            }
            Catalog::Unreadable(text) => (true, "UnhealthyCatalogSourceFound".into(), text.clone()),
            Catalog::Missing(text) => (true, "NoCatalogSourcesFound".into(), text.clone()),
            Catalog::OutOfSight(text) => (true, CATALOG_OUT_OF_SIGHT.into(), text.clone()),
        }),
    );
    // A hold has no resolution; the last result stays.
    if !matches!(next, Next::Hold(_)) {
        set(
            names::CONDITION_RESOLUTION_FAILED,
            match next {
                Next::Refused(refused) => Some((true, refused.reason.clone(), refused.message.clone())),
                _ => None,
            },
        );
    }
    let deprecations = match next {
        Next::UpToDate { deprecations } => Some(deprecations),
        Next::Plan(change) => Some(&change.resolved.deprecations),
        // No other result contains them; the last ones stay.
        _ => None,
    };
    for (type_, schema) in DEPRECATIONS.iter().filter(|_| deprecations.is_some()) {
        let texts = deprecations.into_iter().flatten().filter(|text| text.starts_with(schema));
        let texts: Vec<&str> = texts.map(String::as_str).collect();
        let wanted = (!texts.is_empty()).then(|| (true, "Deprecated".to_owned(), texts.join("; ")));
        set(type_, wanted);
    }
    let refers = observed.subscription.status.as_ref().and_then(|s| s.install_plan_ref.as_ref());
    let lost = refers
        .and_then(|r| r.name.as_ref())
        .filter(|name| !observed.plans.iter().any(|plan| plan.metadata.name.as_ref() == Some(name)));
    set(
        names::CONDITION_INSTALL_PLAN_MISSING,
        // The plan that replaces it is named in the same write.
        lost.filter(|_| current.is_none()).map(|name| {
            let message = format!("the referenced InstallPlan {name} does not exist");
            (true, "ReferencedInstallPlanNotFound".to_owned(), message)
        }),
    );
    let pending = current.filter(|plan| !plan.is_over());
    set(
        names::CONDITION_INSTALL_PLAN_PENDING,
        match (next, pending) {
            (Next::NotUpgradeable { to, why }, _) => {
                Some((true, "OperatorConditionNotUpgradeable".into(), format!("{to} is waiting: {why}")))
            }
            (_, Some(plan)) => {
                let name = plan.name_any();
                Some(match plan.phase() {
                    _ if !plan.spec.approved => {
                        let needed = plan.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
                        let needed = needed.map(|needed| format!(": {needed}")).unwrap_or_default();
                        let message = format!(
                            "InstallPlan {name} is waiting for approval (spec.approved: true){needed}"
                        );
                        (true, "RequiresApproval".into(), message)
                    }
                    // A status that is older than the approval still asks for it.
                    InstallPlanPhase::None | InstallPlanPhase::RequiresApproval => (
                        true,
                        "InstallPlanNotYetReconciled".into(),
                        format!("InstallPlan {name} is starting"),
                    ),
                    phase => {
                        let message = plan.status.as_ref().and_then(|s| s.message.clone());
                        let message =
                            message.unwrap_or_else(|| format!("InstallPlan {name} is being applied"));
                        (true, phase.to_string(), message)
                    }
                })
            }
            _ => None,
        },
    );
    let fails = |plan: &&InstallPlan| {
        plan.phase() == InstallPlanPhase::Failed || (!plan.is_over() && decide::is_stalled(plan))
    };
    let failed = current.filter(fails);
    set(
        names::CONDITION_INSTALL_PLAN_FAILED,
        failed.map(|plan| {
            let installed =
                plan.status.as_ref().and_then(|s| condition::find(&s.conditions, names::CONDITION_INSTALLED));
            let reason =
                installed.and_then(|c| c.reason.clone()).unwrap_or_else(|| "InstallPlanFailed".into());
            let message = installed.and_then(|c| c.message.clone()).unwrap_or_default();
            (true, reason, message)
        }),
    );
}

#[cfg(test)]
mod tests;
