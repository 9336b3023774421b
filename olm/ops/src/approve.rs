//! Approval of plans, and upgrades by approval.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, ResourceExt, api::PostParams};
use olm_api::{Condition, InstallPlan, Subscription, condition, names, subscription::SubscriptionState};
use olm_engine::catalogs::LoadedCatalog;
use olm_plan::{Plan, shell_word};
use serde::Serialize;

use crate::{
    error::Error,
    list::{Installed, World, version_in},
    settings::unmanaged,
    status::{Status, View, plan_summary},
    write::{ATTEMPTS, is_conflict, patch_subscription, write},
};

/// The refusal code when the plan differs from the reviewed one.
pub const PLAN_CHANGED: &str = "plan-changed";

/// Time limit for the manager to make a plan for a new Subscription, or for another version.
const PLANNING: Duration = Duration::from_secs(10);
/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A plan that is approved now.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approved {
    pub namespace: String,
    pub plan: String,
    pub package: String,
    /// The ClusterServiceVersion that the plan installs.
    pub csv: String,
    pub digest: String,
    /// What the plan does, in one line.
    pub summary: String,
    /// Whether it was approved before this call.
    pub already: bool,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase", tag = "result")]
pub enum Upgraded {
    Approved(Approved),
    /// A plan is being applied already.
    InProgress {
        plan: String,
        /// The ClusterServiceVersion that the plan installs.
        csv: String,
    },
    /// No newer version is available.
    Latest {
        version: String,
    },
    /// No upgrade is planned, although a newer version may be available.
    Held {
        version: String,
        reason: String,
        fix: String,
    },
}

/// Approves a plan by its name, or the pending plan of a Subscription or package. For a new Subscription, the
/// call waits until its plan exists.
///
/// With a `digest`, exactly that content is approved. Approving an approved plan is no error.
///
/// # Errors
/// [`Error::NotFound`] when no plan is pending; [`Error::Refused`] with code `plan-changed` when the digest
/// is not the plan's, or when the plan changed concurrently.
pub async fn approve(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    digest: Option<&str>,
) -> Result<Approved, Error> {
    let deadline = tokio::time::Instant::now() + PLANNING;
    let mut world = World::read(client, namespace).await?;
    while is_being_planned(&world, target) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(POLL_INTERVAL).await;
        world = World::read(client, namespace).await?;
    }
    let by_name: Vec<&InstallPlan> = world.plans.iter().filter(|p| p.name_any() == target).collect();
    let plan = match by_name.as_slice() {
        [plan] => (*plan).clone(),
        [] => waiting_plan(&world, target, digest)?,
        several => {
            let places: Vec<String> = several.iter().filter_map(|p| p.namespace()).collect();
            return Err(Error::Refused {
                code: "Ambiguous".into(),
                text: format!("InstallPlan {target} is in namespaces {}", places.join(", ")),
                fix: Some("choose one with --namespace".into()),
            });
        }
    };
    approve_plan(client, &world, &plan, digest).await
}

/// Approves the plan with a reviewed digest, once the manager has made it. `false` where it is not made in time
/// or replaced by another one, and where the caller may not approve it: it waits then.
pub(super) async fn approve_reviewed(client: &Client, namespace: &str, digest: &str) -> Result<bool, Error> {
    let deadline = tokio::time::Instant::now() + PLANNING;
    loop {
        let world = World::read(client, Some(namespace)).await?;
        let reviewed =
            |plan: &&InstallPlan| plan.spec.plan_digest.as_deref() == Some(digest) && !plan.is_over();
        if let Some(plan) = world.plans.iter().find(reviewed) {
            return match approve_plan(client, &world, plan, Some(digest)).await {
                Ok(_) => Ok(true),
                Err(Error::Forbidden { .. }) => Ok(false),
                Err(error) if error.is_plan_changed() => Ok(false),
                Err(error) => Err(error),
            };
        }
        if tokio::time::Instant::now() > deadline {
            return Ok(false);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether it is a Subscription for which the manager has chosen no version yet.
fn is_being_planned(world: &World, target: &str) -> bool {
    let new = |view: View| view.plan.is_none() && view.csv.is_none() && view.status().0 == Status::Installing;
    world.find(target).is_ok_and(new)
}

fn waiting_plan(world: &World, target: &str, digest: Option<&str>) -> Result<InstallPlan, Error> {
    let view = match world.find(target) {
        // A plan that is gone, and no package of that name.
        Err(_) if target.starts_with("install-") => {
            let names: Vec<String> =
                world.plans.iter().filter(|p| !p.spec.approved).map(ResourceExt::name_any).collect();
            return Err(match digest {
                // Another plan replaced the reviewed one.
                Some(_) => changed(target, "superseded"),
                None => Error::NotFound {
                    what: "plan",
                    name: target.to_owned(),
                    within: None,
                    nearest: olm_version::suggest(target, &names, 3),
                },
            });
        }
        found => found?,
    };
    view.plan.ok_or_else(|| Error::NotFound {
        what: "plan",
        name: target.to_owned(),
        within: Some("the plans that are waiting for approval".into()),
        nearest: Vec::new(),
    })
}

async fn approve_plan(
    client: &Client,
    world: &World,
    plan: &InstallPlan,
    digest: Option<&str>,
) -> Result<Approved, Error> {
    let name = plan.name_any();
    let namespace = plan.namespace().unwrap_or_default();
    let has = plan.spec.plan_digest.clone().unwrap_or_default();
    if let Some(reviewed) = digest
        && !same_digest(reviewed, &has)
    {
        return Err(changed(&name, &format!("reviewed {reviewed}, now {has}")));
    }
    let already = plan.spec.approved;
    if !already {
        patch_approval(client, plan).await?;
    }
    let owner = plan.owner_references().first().map(|o| o.name.clone()).unwrap_or_default();
    let subscription = world
        .subscriptions
        .iter()
        .find(|s| s.name_any() == owner && s.namespace().as_deref() == Some(&namespace));
    Ok(Approved {
        namespace,
        plan: name,
        package: subscription.map(|s| s.spec.name.clone()).unwrap_or_default(),
        csv: plan.spec.cluster_service_version_names.first().cloned().unwrap_or_default(),
        digest: has,
        summary: plan_summary(plan),
        already,
    })
}

/// Approves the plan that was read: each attempt names the resourceVersion of a plan with the same digest.
async fn patch_approval(client: &Client, plan: &InstallPlan) -> Result<(), Error> {
    let (name, namespace) = (plan.name_any(), plan.namespace().unwrap_or_default());
    let mut patch = serde_json::json!({ "spec": { "approved": true } });
    if let Some((user, groups)) = whoami(client).await {
        patch["metadata"]["annotations"] = serde_json::json!({
            names::ANNOTATION_APPROVED_BY: user,
            names::ANNOTATION_APPROVED_BY_GROUPS: groups.join("\n"),
        });
    }
    let mut read = plan.clone();
    for _ in 0..ATTEMPTS {
        match write(client, &read, "approve", patch.clone()).await {
            Err(error) if is_conflict(&error) => {
                let api = Api::<InstallPlan>::namespaced(client.clone(), &namespace);
                let now = api.get(&name).await;
                read = now.map_err(Error::kube(format!("get InstallPlan {namespace}/{name}")))?;
                if read.spec.plan_digest != plan.spec.plan_digest {
                    break;
                }
            }
            Err(Error::Kube { source, .. }) if is_gone(&source) => return Err(changed(&name, "superseded")),
            written => return written,
        }
    }
    Err(changed(&name, "it changed concurrently"))
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// The user and the groups as which the API server authenticates the caller; `None` where it does not report
/// them. A value written from it is a claim; the admission policies of [`crate::authority::policies`] refuse
/// any other.
async fn whoami(client: &Client) -> Option<(String, Vec<String>)> {
    let api = Api::<SelfSubjectReview>::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok()?;
    let user = review.status?.user_info?;
    Some((user.username?, user.groups.unwrap_or_default()))
}

/// Compares a digest with or without its algorithm, in full or by the first twelve or more digits.
pub(super) fn same_digest(reviewed: &str, has: &str) -> bool {
    let bare = |text: &str| text.trim().trim_start_matches("sha256:").to_ascii_lowercase();
    let (reviewed, has) = (bare(reviewed), bare(has));
    reviewed.len() >= 12 && has.starts_with(&reviewed)
}

pub(super) fn changed(plan: &str, how: &str) -> Error {
    Error::Refused {
        code: PLAN_CHANGED.into(),
        text: format!("plan {plan} changed since it was reviewed: {how}"),
        fix: Some("review and approve the new plan".into()),
    }
}

/// Upgrades an installed operator to the next version by approving its pending plan. A pin (`spec.version`)
/// is moved to `to`, because a request for another version implies that.
///
/// # Errors
/// As [`approve`]; [`Error::Refused`] when `to` is not the pending version, or when a pin holds the operator
/// at its version.
pub async fn upgrade(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    to: Option<&str>,
) -> Result<Upgraded, Error> {
    let mut world = World::read(client, namespace).await?;
    let mut view = world.find(target)?;
    let pin = view.subscription.as_ref().and_then(|s| s.spec.version.clone());
    match (pin, to) {
        (Some(pin), Some(to)) if pin != to => {
            let installed = world.describe(&view);
            let pin = serde_json::json!({ "spec": { "version": to } });
            patch_subscription(client, &installed.namespace, &installed.name, &pin).await?;
            (world, view) = planned(client, namespace, target, to).await?;
        }
        (Some(pin), None) if view.plan.is_none() => {
            return Err(Error::Refused {
                code: "Pinned".into(),
                text: format!("{target} is pinned to {pin} (spec.version of its Subscription)"),
                fix: Some(format!(
                    "run `olm upgrade {} --to VERSION` to move the pin",
                    world.describe(&view).arguments()
                )),
            });
        }
        _ => {}
    }
    let installed = world.describe(&view);
    let View { plan: Some(plan), .. } = &view else {
        let version = installed.version.clone().unwrap_or_default();
        if let Some(to) = to.filter(|to| to.trim_start_matches('v') != version) {
            return Err(Error::Refused {
                code: "NoUpgradePath".into(),
                text: format!(
                    "{} {version} has no plan for the upgrade to {to} ({})",
                    installed.package, installed.reason
                ),
                fix: Some(format!("run `olm status {}` to show the blocker", installed.arguments())),
            });
        }
        return Ok(match hold(&view, &installed) {
            Some((reason, fix)) => Upgraded::Held { version, reason, fix },
            None => Upgraded::Latest { version },
        });
    };
    let csv = plan.spec.cluster_service_version_names.first().cloned().unwrap_or_default();
    if let Some(to) = to
        && to != csv
        && to.trim_start_matches('v') != version_in(&csv)
    {
        return Err(Error::Refused {
            code: "NoUpgradePath".into(),
            text: format!("the next version of {} is {}, not {to}", installed.package, version_in(&csv)),
            fix: Some(format!("upgrade to {} first", version_in(&csv))),
        });
    }
    if plan.spec.approved {
        return Ok(Upgraded::InProgress { plan: plan.name_any(), csv });
    }
    approve_plan(client, &world, plan, None).await.map(Upgraded::Approved)
}

/// Why the controllers plan no upgrade of an operator, and the fix; `None` where they find no newer version.
fn hold(view: &View, installed: &Installed) -> Option<(String, String)> {
    let Some(subscription) = &view.subscription else {
        let fix = format!(
            "run `olm install {} -n {}` to create one",
            shell_word(&installed.package),
            installed.namespace
        );
        return Some((installed.reason.clone(), fix));
    };
    if subscription.spec.paused {
        let reason = format!("Subscription {} is paused", installed.name);
        return Some((reason, format!("resume it with `olm resume {}`", installed.arguments())));
    }
    let held = match installed.status {
        Status::Healthy => false,
        // A failed workload does not hold an upgrade.
        Status::Failed | Status::Degraded => !is_at_latest(subscription),
        _ => true,
    };
    held.then(|| {
        let reason =
            if installed.reason.is_empty() { installed.status.to_string() } else { installed.reason.clone() };
        (reason, format!("run `olm status {}`", installed.arguments()))
    })
}

/// Whether the last resolution found no newer version. A failed resolution keeps the state of the one before.
fn is_at_latest(subscription: &Subscription) -> bool {
    subscription.status.as_ref().is_some_and(|status| {
        let failed = condition::find(&status.conditions, names::CONDITION_RESOLUTION_FAILED)
            .is_some_and(Condition::is_true);
        status.state == SubscriptionState::AtLatestKnown && !failed
    })
}

/// Previews the next action of the controllers for an installed operator: the pending plan if there is one,
/// unless its inputs changed since, which the digest reveals.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Refused`] for an operator without a Subscription; [`Error::Unresolvable`],
/// [`Error::Forbidden`].
pub async fn preview_upgrade(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
) -> Result<Plan, Error> {
    let world = World::read(client, namespace).await?;
    let view = world.find(target)?;
    let installed = world.describe(&view);
    let subscription = view.subscription.ok_or_else(|| unmanaged(target, &installed))?;
    Ok(olm_engine::preview(client, catalogs, &subscription).await?)
}

/// The state once the manager has processed the new pin: a plan for that version or, when it is unreachable,
/// none after [`PLANNING`].
async fn planned(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    to: &str,
) -> Result<(World, View), Error> {
    let deadline = tokio::time::Instant::now() + PLANNING;
    let wanted = to.trim_start_matches('v');
    loop {
        let world = World::read(client, namespace).await?;
        let view = world.find(target)?;
        let csv = view.plan.as_ref().and_then(|p| p.spec.cluster_service_version_names.first());
        let there = csv.is_some_and(|csv| csv == to || version_in(csv) == wanted)
            || world.describe(&view).version.as_deref() == Some(wanted);
        if there || tokio::time::Instant::now() > deadline {
            return Ok((world, view));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_digest_may_be_short_but_not_too_short() {
        let full = "sha256:0123456789abcdef0123456789abcdef";
        assert!(same_digest(full, full));
        assert!(same_digest("0123456789ab", full));
        assert!(!same_digest("0123", full));
        assert!(!same_digest("fff456789abc", full));
    }

    /// An API server with one pending plan. It serves no PATCH: an attempt gets a 404.
    fn cluster(digest: &str) -> Client {
        let list =
            |items: Vec<Value>| json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
        let plan = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": { "name": "install-a", "namespace": "ns", "resourceVersion": "1" },
            "spec": { "approval": "Manual", "approved": false, "clusterServiceVersionNames": ["a.v1"], "planDigest": digest },
        });
        olm_testing::client(vec![
            ("/subscriptions", list(vec![])),
            ("/clusterserviceversions", list(vec![])),
            ("/installplans", list(vec![plan])),
            ("/operatorgroups", list(vec![])),
        ])
    }

    /// An API server with one Subscription and no plans.
    fn without_plans(subscription: Value, csvs: Vec<Value>) -> Client {
        let list = |items: Vec<Value>| json!({ "kind": "List", "metadata": {}, "items": items });
        olm_testing::client(vec![
            ("/subscriptions", list(vec![subscription])),
            ("/clusterserviceversions", list(csvs)),
            ("/installplans", list(vec![])),
            ("/operatorgroups", list(vec![])),
        ])
    }

    #[tokio::test]
    async fn the_plan_of_a_new_subscription_is_waited_for_and_that_of_one_that_cannot_be_installed_is_not() {
        let new = json!({
            "metadata": { "name": "a", "namespace": "ns" }, "spec": { "name": "a", "source": "c", "sourceNamespace": "olm" },
        });
        let mut refused = new.clone();
        refused["status"] =
            json!({ "conditions": [{ "type": "ResolutionFailed", "status": "True", "reason": "no" }] });
        for (subscription, waits) in [(new, true), (refused, false)] {
            let world = World::read(&without_plans(subscription, vec![]), Some("ns")).await.unwrap();
            assert_eq!((is_being_planned(&world, "a"), is_being_planned(&world, "b")), (waits, false));
        }
    }

    #[tokio::test]
    async fn only_an_operator_that_is_upgraded_is_at_the_newest_version() {
        let subscription = |spec: Value, state: &str| {
            let mut subscription = json!({
                "metadata": { "name": "a", "namespace": "ns", "uid": "s" },
                "spec": { "name": "a", "source": "c", "sourceNamespace": "olm" },
                "status": { "state": state, "installedCSV": "a.v1.0.0", "currentCSV": "a.v1.0.0" },
            });
            for (key, value) in spec.as_object().unwrap() {
                subscription["spec"][key] = value.clone();
            }
            subscription
        };
        let csv = json!({
            "metadata": { "name": "a.v1.0.0", "namespace": "ns", "uid": "c" },
            "spec": { "version": "1.0.0" }, "status": { "phase": "Succeeded" },
        });
        let upgraded_from = async |subscription: Value, csv: &Value| {
            let client = without_plans(subscription, vec![csv.clone()]);
            serde_json::to_value(upgrade(&client, Some("ns"), "a", None).await.unwrap()).unwrap()
        };
        let upgraded = async |subscription: Value| upgraded_from(subscription, &csv).await;
        // given one that is up to date, one that is paused, and one whose upgrade is snoozed
        let latest = upgraded(subscription(json!({}), "AtLatestKnown")).await;
        assert_eq!(latest, json!({ "result": "latest", "version": "1.0.0" }));
        let paused = upgraded(subscription(json!({ "paused": true }), "AtLatestKnown")).await;
        let fix = "resume it with `olm resume a -n ns`";
        assert_eq!(
            paused,
            json!({ "result": "held", "version": "1.0.0", "reason": "Subscription a is paused", "fix": fix })
        );
        let spec = json!({ "snooze": { "newest": "a.v2.0.0" } });
        let snoozed = upgraded(subscription(spec, "UpgradeAvailable")).await;
        assert_eq!(snoozed["result"], "held");
        assert_eq!(snoozed["reason"], "snoozed until a version newer than a.v2.0.0 is available");
        // given a failed version without a message, the newest one, then with a resolution that failed since
        let mut failed = csv.clone();
        failed["status"]["phase"] = json!("Failed");
        let newest = subscription(json!({}), "AtLatestKnown");
        assert_eq!(upgraded_from(newest.clone(), &failed).await["result"], "latest");
        let mut unresolved = newest;
        unresolved["status"]["conditions"] =
            json!([{ "type": "ResolutionFailed", "status": "True", "reason": "no" }]);
        let held = upgraded_from(unresolved, &failed).await;
        assert_eq!((&held["result"], held["reason"] == ""), (&json!("held"), false));
    }

    async fn refused(target: &str, digest: &str) -> (String, String) {
        let error =
            approve(&cluster("sha256:aaaaaaaaaaaaaaaa"), Some("ns"), target, Some(digest)).await.unwrap_err();
        let Error::Refused { code, text, .. } = error else { panic!("{error:?}") };
        (code, text)
    }

    #[tokio::test]
    async fn a_package_may_be_named_like_a_plan() {
        let subscription = json!({
            "metadata": { "name": "install-a", "namespace": "ns" },
            "spec": { "name": "install-a", "source": "c", "sourceNamespace": "olm" },
        });
        let world = World::read(&without_plans(subscription, vec![]), Some("ns")).await.unwrap();
        let error = waiting_plan(&world, "install-a", None).unwrap_err().to_string();
        assert!(error.contains("waiting for approval"), "{error}");
        let error = waiting_plan(&world, "install-b", None).unwrap_err().to_string();
        assert!(!error.contains("waiting for approval"), "{error}");
    }

    #[tokio::test]
    async fn another_plan_than_the_one_that_was_reviewed_is_refused() {
        let (code, text) = refused("install-a", "sha256:bbbbbbbbbbbbbbbb").await;
        assert_eq!(code, PLAN_CHANGED);
        assert!(text.contains("reviewed sha256:bbbb") && text.contains("now sha256:aaaa"), "{text}");
        // one that was superseded since
        assert_eq!(refused("install-b", "sha256:bbbbbbbbbbbbbbbb").await.0, PLAN_CHANGED);
        // and one that is deleted concurrently
        let (code, text) = refused("install-a", "sha256:aaaaaaaaaaaaaaaa").await;
        assert_eq!((code.as_str(), text.contains("superseded")), (PLAN_CHANGED, true), "{text}");
    }

    /// An API server whose plan changes at every approval: `digests` are those of the reads in between. Returns the
    /// error and the resourceVersions of the approvals.
    async fn contested(digests: &[&'static str]) -> (Error, Vec<Value>) {
        use std::sync::{Arc, Mutex};
        let plan = |version: usize, digest: &str| {
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
                "metadata": { "name": "install-a", "namespace": "ns", "resourceVersion": version.to_string() },
                "spec": { "approval": "Manual", "approved": false, "clusterServiceVersionNames": ["a.v1"],
                    "planDigest": digest },
            })
        };
        let first: InstallPlan = serde_json::from_value(plan(0, digests[0])).unwrap();
        let versions = Arc::new(Mutex::new(Vec::new()));
        let (log, digests) = (Arc::clone(&versions), digests.to_vec());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (log, digests) = (Arc::clone(&log), digests.clone());
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let body = request.into_body().collect_bytes().await.unwrap();
                let (status, body) = if path.ends_with("selfsubjectreviews") {
                    (404, json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 }))
                } else if method == http::Method::PATCH {
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    log.lock().unwrap().push(body["metadata"]["resourceVersion"].clone());
                    (409, json!({ "kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409 }))
                } else {
                    let version = log.lock().unwrap().len();
                    (200, plan(version, digests[version.min(digests.len() - 1)]))
                };
                let body = kube::client::Body::from(body.to_string().into_bytes());
                Ok::<_, std::io::Error>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let error = patch_approval(&Client::new(service, "ns"), &first).await.unwrap_err();
        let versions = versions.lock().unwrap().clone();
        (error, versions)
    }

    #[tokio::test]
    async fn every_attempt_approves_only_the_plan_that_was_read_last() {
        // given a plan whose status changes, when it is approved
        let (error, versions) = contested(&["sha256:a", "sha256:a"]).await;
        // then each attempt names the version that was read before it
        assert_eq!(versions, ["0", "1", "2", "3", "4"]);
        assert!(error.to_string().contains("changed concurrently"), "{error}");
        // and a plan whose content changes is not approved again
        let (error, versions) = contested(&["sha256:a", "sha256:a", "sha256:b"]).await;
        assert_eq!(versions, ["0", "1"]);
        assert!(matches!(error, Error::Refused { ref code, .. } if code == PLAN_CHANGED), "{error}");
    }
}
