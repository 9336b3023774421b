//! Upgrade settings of an installed operator: fields of its Subscription.

use kube::{Client, ResourceExt};
use olm_api::{Subscription, names};
use olm_engine::catalogs::LoadedCatalog;
use olm_plan::{Plan, shell_word};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::Error,
    install::has_channel,
    list::{Installed, World},
    write::{ATTEMPTS, is_conflict, merged, write},
};

/// The setting after the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub namespace: String,
    pub subscription: String,
    pub package: String,
    pub changed: bool,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingChange {
    /// Never install these versions (`spec.skipVersions`); the available one when none is named.
    Skip(Vec<String>),
    /// Allow these versions again.
    Unskip(Vec<String>),
    /// Hide the available upgrade until a newer one appears (`spec.snooze`).
    Snooze,
    /// Show upgrades again.
    Unsnooze,
    /// Pause the operator (`spec.paused`).
    Pause,
    /// Resume the operator.
    Resume,
    /// Remove the pin and the permission to leave the catalog's edges (`spec.version`,
    /// `spec.upgradeConstraintPolicy`).
    Unpin,
    /// Follow another channel of the package (`spec.channel`). Whether an upgrade path from the installed
    /// version exists is decided by the resolver: in the next plan, or in the Subscription's conditions.
    Channel(String),
}

/// The patch of a change, and its message.
struct SettingPatch {
    /// A merge patch; `None` when the Subscription has the setting already.
    patch: Option<Value>,
    text: String,
}

/// Applies a change. Catalogs are needed for `Snooze` and `Channel` only.
///
/// # Errors
/// [`Error::NotFound`], also for a channel that the package does not have; [`Error::Refused`] for an operator
/// without a Subscription, and when there is no available upgrade to skip or snooze; [`Error::Unresolvable`]
/// when the newest version is unknown; [`Error::Forbidden`].
pub async fn set(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    change: &SettingChange,
) -> Result<Setting, Error> {
    let newest = check_catalogs(client, catalogs, namespace, target, change).await?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let (subscription, installed) = read_subscription(client, namespace, target).await?;
        let SettingPatch { patch, text } =
            setting_patch(change, &subscription, &installed, newest.as_deref())?;
        let changed = patch.is_some();
        if let Some(patch) = patch {
            match write(client, &subscription, "change", patch).await {
                Err(error) if is_conflict(&error) && attempt < ATTEMPTS => continue,
                other => other?,
            }
        }
        return Ok(setting(installed, changed, text));
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingPreview {
    /// The setting of the Subscription after the change.
    #[serde(flatten)]
    pub setting: Setting,
    /// The next plan of the controllers; absent for a change that pauses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Why a plan is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether the plan is not applied because the Subscription is paused.
    pub paused: bool,
}

/// Previews [`set`]. Read-only.
///
/// # Errors
/// As [`set`]. That no version can be chosen afterwards is no error.
pub async fn preview_set(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    change: &SettingChange,
) -> Result<SettingPreview, Error> {
    let newest = check_catalogs(client, catalogs, namespace, target, change).await?;
    let (subscription, installed) = read_subscription(client, namespace, target).await?;
    let SettingPatch { patch, text } = setting_patch(change, &subscription, &installed, newest.as_deref())?;
    let changed = patch.is_some();
    let after = match &patch {
        Some(patch) => merged(&subscription, patch)?,
        None => subscription,
    };
    let quiet = matches!(change, SettingChange::Pause | SettingChange::Snooze);
    let (plan, problem) = match quiet {
        true => (None, None),
        false => match olm_engine::preview(client, catalogs, &after).await {
            Ok(plan) => (Some(plan), None),
            Err(refusal) => (None, Some(Error::from(refusal).to_string())),
        },
    };
    Ok(SettingPreview {
        setting: setting(installed, changed, text),
        plan,
        problem,
        paused: after.spec.paused,
    })
}

/// The patch of a change to a Subscription, and its message. Pure.
fn setting_patch(
    change: &SettingChange,
    subscription: &Subscription,
    installed: &Installed,
    newest: Option<&str>,
) -> Result<SettingPatch, Error> {
    match change {
        SettingChange::Skip(versions) => skip(subscription, installed, versions, true),
        SettingChange::Unskip(versions) => skip(subscription, installed, versions, false),
        SettingChange::Snooze | SettingChange::Unsnooze => Ok(snooze(subscription, installed, newest)),
        SettingChange::Pause => Ok(pause(subscription, installed, true)),
        SettingChange::Resume => Ok(pause(subscription, installed, false)),
        SettingChange::Unpin => Ok(unpin(subscription, installed)),
        SettingChange::Channel(channel) => Ok(follow(subscription, installed, channel)),
    }
}

fn skip(
    subscription: &Subscription,
    installed: &Installed,
    versions: &[String],
    skipped: bool,
) -> Result<SettingPatch, Error> {
    let offered = || installed.next.clone().ok_or_else(|| nothing_offered(installed));
    let versions = if versions.is_empty() { vec![offered()?] } else { versions.to_vec() };
    let before = &subscription.spec.skip_versions;
    let bare = |text: &str| text.trim_start_matches('v').to_owned();
    let mut after = before.clone();
    for version in &versions {
        after.retain(|known| bare(known) != bare(version));
        if skipped {
            after.push(bare(version));
        }
    }
    let list = versions.join(", ");
    let text = match skipped {
        true => format!("{} skips {list}", installed.package),
        false => format!("{} no longer skips {list}", installed.package),
    };
    let patch = (after != *before).then(|| json!({ "spec": { "skipVersions": after } }));
    Ok(SettingPatch { patch, text })
}

fn pause(subscription: &Subscription, installed: &Installed, paused: bool) -> SettingPatch {
    let pin = subscription.spec.version.as_deref().filter(|_| !paused);
    let text = match (paused, pin) {
        (true, _) => {
            format!("{} is paused; resume it with `olm resume {}`", installed.package, installed.arguments())
        }
        (false, None) => format!("{} is resumed", installed.package),
        (false, Some(pin)) => format!(
            "{} is resumed and pinned to {pin} (spec.version); unpin it with `olm unpin {}`",
            installed.package,
            installed.arguments()
        ),
    };
    let marked = subscription.annotations().contains_key(names::ANNOTATION_ROLLBACK_TO);
    let patch = (subscription.spec.paused != paused || (!paused && marked)).then(|| {
        json!({
            "metadata": { "annotations": { names::ANNOTATION_ROLLBACK_TO: null } },
            "spec": { "paused": if paused { json!(true) } else { Value::Null } },
        })
    });
    SettingPatch { patch, text }
}

fn unpin(subscription: &Subscription, installed: &Installed) -> SettingPatch {
    let spec = &subscription.spec;
    let is_pinned = spec.version.is_some() || spec.upgrade_constraint_policy.is_some();
    let patch = is_pinned.then(|| json!({ "spec": { "version": null, "upgradeConstraintPolicy": null } }));
    let but = match spec.paused {
        true => format!(" after `olm resume {}`", installed.arguments()),
        false => String::new(),
    };
    SettingPatch { patch, text: format!("{} follows its channel{but}", installed.package) }
}

/// Without a `newest`, upgrades are shown again.
fn snooze(subscription: &Subscription, installed: &Installed, newest: Option<&str>) -> SettingPatch {
    let before = subscription.spec.snooze.as_ref().map(|snooze| snooze.newest.as_str());
    let text = match newest {
        Some(newest) => {
            format!(
                "upgrades of {} are hidden until a version newer than {newest} appears",
                installed.package
            )
        }
        None => format!("upgrades of {} are shown again", installed.package),
    };
    let snooze = newest.map(|newest| json!({ "newest": newest }));
    let patch = (before != newest).then(|| json!({ "spec": { "snooze": snooze } }));
    SettingPatch { patch, text }
}

fn follow(subscription: &Subscription, installed: &Installed, channel: &str) -> SettingPatch {
    let patch = (subscription.spec.channel.as_deref() != Some(channel))
        .then(|| json!({ "spec": { "channel": channel } }));
    SettingPatch { patch, text: format!("{} follows channel {channel}", installed.package) }
}

/// Validates a channel, because one that does not exist leaves the operator without upgrades; returns the newest
/// reachable bundle for a change that records it.
async fn check_catalogs(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    change: &SettingChange,
) -> Result<Option<String>, Error> {
    if !matches!(change, SettingChange::Snooze | SettingChange::Channel(_)) {
        return Ok(None);
    }
    let (subscription, installed) = read_subscription(client, namespace, target).await?;
    if let SettingChange::Channel(channel) = change {
        let catalog = &olm_engine::source_of(catalogs, &subscription)?.reference;
        has_channel(catalogs, catalog, &subscription.spec.name, channel)?;
        return Ok(None);
    }
    let resolved = olm_engine::resolve(client, catalogs, &subscription).await?;
    if resolved.action != olm_resolver::Action::Upgrade {
        return Err(nothing_offered(&installed));
    }
    Ok(Some(resolved.path.last().map_or(resolved.chosen.name, |hop| hop.name.clone())))
}

fn nothing_offered(installed: &Installed) -> Error {
    Error::Refused {
        code: "NothingOffered".into(),
        text: format!("{} has no available upgrade", installed.package),
        fix: Some(format!("run `olm why {}`, or specify a version", installed.arguments())),
    }
}

pub(super) fn unmanaged(target: &str, installed: &Installed) -> Error {
    Error::Refused {
        code: "Unmanaged".into(),
        text: format!("{target} has no Subscription, which stores this setting"),
        fix: Some(format!(
            "run `olm install {} -n {}` to create one",
            shell_word(&installed.package),
            installed.namespace
        )),
    }
}

/// The live Subscription, as the base of a change that fails on concurrent writes.
async fn read_subscription(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
) -> Result<(Subscription, Installed), Error> {
    let world = World::read(client, namespace).await?;
    let view = world.find(target)?;
    let installed = world.describe(&view);
    let subscription = view.subscription.ok_or_else(|| unmanaged(target, &installed))?;
    Ok((subscription, installed))
}

fn setting(installed: Installed, changed: bool, text: String) -> Setting {
    Setting {
        namespace: installed.namespace,
        subscription: installed.name,
        package: installed.package,
        changed,
        text,
    }
}

#[cfg(test)]
mod tests;
