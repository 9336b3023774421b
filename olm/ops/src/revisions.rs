//! Revision history and rollback.

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use olm_api::{
    InstallPlan, Subscription, condition,
    install_plan::InstallPlanPhase,
    names,
    subscription::{Approval::Automatic, UpgradeConstraintPolicy},
};
use olm_engine::{
    catalogs::LoadedCatalog,
    site::{manager_namespace, manager_user},
};
use olm_plan::{FindingCode, Plan, PlanAction, Severity, shell_word};
use olm_resolver::Version;
use serde::Serialize;
use serde_json::json;

use crate::{
    approve::{approve_reviewed, changed, same_digest},
    error::Error,
    list::{Installed, World, version_in},
    settings::unmanaged,
    status::plan_summary,
    write::write,
};

/// A plan that was applied.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    pub plan: String,
    /// The ClusterServiceVersion that it installed.
    pub csv: String,
    pub version: String,
    /// Its catalog, as `namespace/name`.
    pub catalog: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What it did, in one line.
    pub summary: String,
    /// When it was applied, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    pub approval: Approval,
    /// Whether it is the installed version.
    pub current: bool,
    /// Whether it is older than the installed version.
    pub older: bool,
}

/// The record of an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// `Automatic`, `Manual`.
    pub policy: String,
    /// The user from the annotation; docs/lifecycle.md describes where the API server guarantees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The client, as it identified itself to the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// When, by the API server's clock, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether the manager approved it, as its request permits.
    pub automatic: bool,
    /// The author of the request that permits an automatic approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
}

impl Approval {
    /// The user if recorded, else the client.
    #[must_use]
    pub fn who(&self) -> String {
        match (&self.by, &self.with) {
            _ if self.automatic => match &self.requested_by {
                Some(author) => format!("automatic, requested by {author}"),
                None => "automatic".to_owned(),
            },
            (Some(user), _) => user.clone(),
            (None, Some(program)) => format!("an unknown user with {program}"),
            (None, None) => "unknown".to_owned(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolledBack {
    pub namespace: String,
    pub subscription: String,
    pub package: String,
    pub from: String,
    /// The version to roll back to.
    pub to: String,
    /// Its ClusterServiceVersion.
    pub csv: String,
    pub changed: bool,
    /// Whether the plan waits for an approval: the caller may not approve it, or it was not made in time.
    pub waits: bool,
    /// The plan that the controllers will apply.
    pub plan: Plan,
}

/// The revisions of an installed operator, newest first.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Refused`] for an operator without a Subscription, [`Error::Forbidden`].
pub async fn history(client: &Client, namespace: Option<&str>, target: &str) -> Result<Vec<Revision>, Error> {
    let world = World::read(client, namespace).await?;
    let view = world.find(target)?;
    let installed = world.describe(&view);
    let subscription = view.subscription.ok_or_else(|| unmanaged(target, &installed))?;
    Ok(revisions(&world.plans, &subscription, installed.csv.as_deref()))
}

/// Pure.
pub(super) fn revisions(
    plans: &[InstallPlan],
    subscription: &Subscription,
    installed: Option<&str>,
) -> Vec<Revision> {
    let uid = subscription.uid();
    let ours = |plan: &&InstallPlan| {
        plan.namespace() == subscription.namespace()
            && plan.owner_references().iter().any(|o| Some(&o.uid) == uid.as_ref())
            && plan.phase() == InstallPlanPhase::Complete
    };
    let mut plans: Vec<&InstallPlan> = plans.iter().filter(ours).collect();
    plans.sort_by_key(|plan| std::cmp::Reverse((plan.spec.generation, plan.creation_timestamp())));
    let mut list: Vec<Revision> = plans.into_iter().map(revision).collect();
    if let Some(current) = list.iter_mut().find(|r| Some(r.csv.as_str()) == installed) {
        current.current = true;
    }
    let parse = |version: &str| olm_version::parse_lenient(version).ok();
    let there = installed.and_then(|csv| parse(&version_in(csv)));
    for revision in &mut list {
        let older = |there| parse(&revision.version).map(|v| olm_version::precedence(&v, there).is_lt());
        revision.older = there.as_ref().and_then(older).unwrap_or(false);
    }
    list
}

fn revision(plan: &InstallPlan) -> Revision {
    let csv = plan.spec.cluster_service_version_names.first().cloned().unwrap_or_default();
    let conditions = plan.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let done = condition::find(conditions, names::CONDITION_INSTALLED).filter(|c| c.is_true());
    let source = |text: &Option<String>| text.clone().unwrap_or_default();
    Revision {
        plan: plan.name_any(),
        version: version_in(&csv),
        csv,
        catalog: format!("{}/{}", source(&plan.spec.source_namespace), source(&plan.spec.source)),
        digest: plan.spec.plan_digest.clone(),
        summary: plan_summary(plan),
        at: done.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0.to_string()),
        approval: approval(plan),
        current: false,
        older: false,
    }
}

/// The approver: from the annotation, and from the field's managed fields, which the API server maintains.
pub fn approval(plan: &InstallPlan) -> Approval {
    let managers = plan.metadata.managed_fields.iter().flatten();
    let wrote = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        entry.subresource.as_deref().unwrap_or_default().is_empty()
            && fields.is_some_and(|f| f.pointer("/f:spec/f:approved").is_some())
    };
    let entry = managers.filter(wrote).max_by_key(|entry| entry.time.as_ref().map(|t| t.0));
    let by = plan.annotations().get(names::ANNOTATION_APPROVED_BY).cloned();
    let requested_by = plan.annotations().get(names::ANNOTATION_REQUESTED_BY).cloned();
    // A user may withdraw the manager's approval and approve the plan again.
    let by_manager = by.as_ref().is_none_or(|by| *by == manager_user(manager_namespace()));
    // Plans of an earlier manager, and of a request without a recorded author, do not name the author.
    let automatic = by_manager && (requested_by.is_some() || plan.spec.approval == Automatic);
    Approval {
        automatic,
        requested_by: requested_by.filter(|_| automatic),
        policy: plan.spec.approval.to_string(),
        by,
        with: entry.and_then(|entry| entry.manager.clone()),
        at: entry.and_then(|entry| entry.time.as_ref()).map(|t| t.0.to_string()),
    }
}

/// Rolls back to an older version: pins it, permits the change against the catalog's edges, and pauses the
/// operator there. The plan is checked first: one that would lose data is refused, and so is one that differs
/// from the `reviewed` digest, if given. Where plans require approval, the request approves this plan, as far
/// as the caller may approve plans.
///
/// Without a version the target is the newest revision older than the installed version, else the version
/// that the installed one replaces in the catalog.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Refused`] with the code of the blocking finding, or `plan-changed`;
/// [`Error::Unresolvable`].
pub async fn rollback(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    to: Option<&str>,
    reviewed: Option<&str>,
) -> Result<RolledBack, Error> {
    let RollbackChange { subscription, wanted, mut back } =
        rollback_change(client, catalogs, namespace, target, to).await?;
    if let Some(reviewed) = reviewed.filter(|reviewed| !same_digest(reviewed, &back.plan.digest)) {
        let how = format!("reviewed {reviewed}, now {}", back.plan.digest);
        return Err(changed(&format!("to roll back to {}", back.csv), &how));
    }
    let blocks = || back.plan.findings.iter().filter(|f| f.severity == Severity::Block);
    // Other findings name further problems of that version; this one states that no rollback is possible.
    let impossible = blocks().find(|f| f.code == FindingCode::RollbackImpossible);
    if let Some(finding) = impossible.or_else(|| blocks().next()) {
        return Err(Error::Refused {
            code: finding.code.to_string(),
            text: format!("failed to roll back to {}: {}", back.csv, finding.text),
            fix: finding.fix.clone(),
        });
    }
    if back.changed {
        let patch = json!({
            "metadata": { "annotations": { names::ANNOTATION_ROLLBACK_TO: back.csv } },
            "spec": {
                "version": wanted.spec.version,
                "upgradeConstraintPolicy": "SelfCertified",
                "paused": true,
                "snooze": null,
            },
        });
        write(client, &subscription, "change", patch).await?;
    }
    if back.plan.requires_approval {
        back.waits = !approve_reviewed(client, &back.namespace, &back.plan.digest).await?;
    }
    Ok(back)
}

/// Previews [`rollback`]. A plan that a finding blocks is returned instead of refused, so that it can be
/// shown.
///
/// # Errors
/// As [`rollback`].
pub async fn preview_rollback(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    to: Option<&str>,
) -> Result<RolledBack, Error> {
    rollback_change(client, catalogs, namespace, target, to).await.map(|rollback_change| rollback_change.back)
}

/// A rollback: the live Subscription, and the changed one.
struct RollbackChange {
    subscription: Subscription,
    wanted: Subscription,
    back: RolledBack,
}

async fn rollback_change(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    to: Option<&str>,
) -> Result<RollbackChange, Error> {
    let world = World::read(client, namespace).await?;
    let view = world.find(target)?;
    let installed = world.describe(&view);
    let subscription = view.subscription.ok_or_else(|| unmanaged(target, &installed))?;
    let csv = installed.csv.clone().ok_or_else(|| Error::Refused {
        code: "NothingInstalled".into(),
        text: format!("{target} is not installed yet, so a rollback is not possible"),
        fix: Some(format!("run `olm status {}`", installed.arguments())),
    })?;
    let package = package(catalogs, &subscription).await?;
    let revisions = revisions(&world.plans, &subscription, Some(&csv));
    let name = goal(&package, &revisions, &csv, to).ok_or_else(|| no_goal(&package, &installed, to))?;
    let version =
        package.bundles.get(&name).and_then(|b| b.version.clone()).ok_or_else(|| Error::Refused {
            code: "BundleGone".into(),
            text: format!(
                "{name} was installed before and is no longer in catalog {}/{}",
                subscription.spec.source_namespace, subscription.spec.source
            ),
            fix: Some(format!(
                "run `olm show {}` to list the versions, or use an older catalog",
                shell_word(&package.name)
            )),
        })?;
    let wanted = with_rollback(&subscription, &version, &name);
    let plan = olm_engine::preview(client, catalogs, &wanted).await?;
    if plan.bundle != name && plan.action != PlanAction::None {
        return Err(Error::Refused {
            code: "NoWayBack".into(),
            text: format!("the rollback to {name} would install {} instead", plan.bundle),
            fix: Some(format!("run `olm show {}` and choose another version", shell_word(&package.name))),
        });
    }
    let changed = wanted.spec != subscription.spec
        || wanted.annotations().get(names::ANNOTATION_ROLLBACK_TO)
            != subscription.annotations().get(names::ANNOTATION_ROLLBACK_TO);
    let back = RolledBack {
        namespace: installed.namespace,
        subscription: installed.name,
        package: installed.package,
        from: installed.version.unwrap_or_default(),
        to: version.to_string(),
        csv: name,
        changed,
        waits: false,
        plan,
    };
    Ok(RollbackChange { subscription, wanted, back })
}

/// The Subscription with the fields of a rollback.
fn with_rollback(subscription: &Subscription, version: &Version, csv: &str) -> Subscription {
    let mut wanted = subscription.clone();
    // Build metadata does not count, and is not allowed in a range.
    let bare = Version { build: Default::default(), ..version.clone() };
    wanted.spec.version = Some(format!("={bare}"));
    wanted.spec.upgrade_constraint_policy = Some(UpgradeConstraintPolicy::SelfCertified);
    wanted.spec.paused = true;
    wanted.spec.snooze = None;
    wanted.annotations_mut().insert(names::ANNOTATION_ROLLBACK_TO.into(), csv.to_owned());
    wanted
}

async fn package(
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
) -> Result<std::sync::Arc<olm_catalog::Package>, Error> {
    let source = olm_engine::source_of(catalogs, subscription)?;
    let name = &subscription.spec.name;
    let found = source.package(name).await.map_err(|error| Error::Other(error.to_string()))?;
    found.ok_or_else(|| Error::NotFound {
        what: "package",
        name: name.clone(),
        within: Some(format!("catalog {}", source.reference)),
        nearest: Vec::new(),
    })
}

/// The bundle to roll back to. Pure.
fn goal(
    package: &olm_catalog::Package,
    revisions: &[Revision],
    installed: &str,
    to: Option<&str>,
) -> Option<String> {
    let version = |name: &str| package.bundles.get(name).and_then(|b| b.version.as_ref());
    if let Some(to) = to {
        let parsed = olm_version::parse_lenient(to.trim_start_matches('v')).ok();
        let fits = |v: &Version| parsed.as_ref().is_some_and(|p| olm_version::precedence(v, p).is_eq());
        let known = package.bundles.values().find(|b| b.name == to || b.version.as_ref().is_some_and(fits));
        let was = || revisions.iter().find(|r| r.csv == to || r.version == to.trim_start_matches('v'));
        return known.map(|b| b.name.clone()).or_else(|| was().map(|r| r.csv.clone()));
    }
    let older = |name: &str| match (version(name), version(installed)) {
        (Some(a), Some(b)) => olm_version::precedence(a, b).is_lt(),
        // A version that the catalog has dropped is reported as such.
        _ => true,
    };
    let before = revisions.iter().map(|r| r.csv.as_str()).find(|csv| *csv != installed && older(csv));
    let entries = || package.channels.values().flat_map(|channel| &channel.entries);
    let replaced = || entries().filter(|e| e.name == installed).find_map(|e| e.replaces.clone());
    before.map(str::to_owned).or_else(replaced)
}

fn no_goal(package: &olm_catalog::Package, installed: &Installed, to: Option<&str>) -> Error {
    match to {
        Some(to) => {
            let versions: Vec<String> = package
                .bundles
                .values()
                .map(|b| b.version.as_ref().map_or_else(|| b.name.clone(), ToString::to_string))
                .collect();
            Error::NotFound {
                what: "version",
                name: to.to_owned(),
                within: Some(format!("package {}", package.name)),
                nearest: olm_version::suggest(to, versions, 3),
            }
        }
        None => Error::Refused {
            code: "NoRevision".into(),
            text: format!("{} has no known version older than the installed version", package.name),
            fix: Some(format!("set a version with `olm rollback {} --to VERSION`", installed.arguments())),
        },
    }
}

/// The time of a revision, for display.
impl Revision {
    #[must_use]
    pub fn done(&self) -> Option<Timestamp> {
        self.at.as_ref().and_then(|at| at.parse().ok())
    }
}

#[cfg(test)]
mod tests;
