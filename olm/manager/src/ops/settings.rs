//! What a user says about upgrades of an installed operator: fields of its Subscription, and nothing else.

use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{Subscription, names};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    error::Error,
    list::{Installed, World},
};
use crate::{catalogs::LoadedCatalog, engine};

/// How often a change is made again over what somebody else wrote at the same moment.
const ATTEMPTS: usize = 3;

/// What a Subscription says now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// Namespace of the Subscription.
    pub namespace: String,
    /// Name of the Subscription.
    pub subscription: String,
    /// The package.
    pub package: String,
    /// Whether that is new.
    pub changed: bool,
    /// What it says, in words.
    pub text: String,
}

/// What to write, and what it means.
struct Wanted {
    /// A merge patch; `None` when it is said already.
    patch: Option<Value>,
    text: String,
}

/// Never installs these versions (`spec.skipVersions`), or does again. Without a version it is the one that is offered.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Refused`] when no version is named and none is offered; [`Error::Forbidden`].
pub async fn skip(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    versions: &[String],
    skipped: bool,
) -> Result<Setting, Error> {
    change(client, namespace, target, |subscription, installed| {
        let offered = || {
            let offered = installed.next.clone().into_iter().collect::<Vec<_>>();
            if offered.is_empty() { Err(nothing_offered(target, &installed.package)) } else { Ok(offered) }
        };
        let versions = if versions.is_empty() { offered()? } else { versions.to_vec() };
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
            true => format!("{} never goes to {list}", installed.package),
            false => format!("{} may go to {list} again", installed.package),
        };
        let patch = (after != *before).then(|| json!({ "spec": { "skipVersions": after } }));
        Ok(Wanted { patch, text })
    })
    .await
}

/// Changes nothing any more (`spec.paused`), or goes on.
///
/// # Errors
/// As [`skip`].
pub async fn pause(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    paused: bool,
) -> Result<Setting, Error> {
    change(client, namespace, target, |subscription, installed| {
        let pin = subscription.spec.version.as_deref().filter(|_| !paused);
        let text = match (paused, pin) {
            (true, _) => format!("nothing of {} is changed until `olm resume {target}`", installed.package),
            (false, None) => format!("{} goes on", installed.package),
            (false, Some(pin)) => format!(
                "{} goes on, and stays at {pin} (spec.version) until `olm unpin {target}`",
                installed.package
            ),
        };
        let marked = subscription.annotations().contains_key(names::ANNOTATION_ROLLBACK_TO);
        let patch = (subscription.spec.paused != paused || (!paused && marked)).then(|| {
            json!({
                "metadata": { "annotations": { names::ANNOTATION_ROLLBACK_TO: null } },
                "spec": { "paused": if paused { json!(true) } else { Value::Null } },
            })
        });
        Ok(Wanted { patch, text })
    })
    .await
}

/// Takes the pin and the leave to go against the catalog's edges away (`spec.version`, `spec.upgradeConstraintPolicy`).
///
/// # Errors
/// As [`skip`].
pub async fn unpin(client: &Client, namespace: Option<&str>, target: &str) -> Result<Setting, Error> {
    change(client, namespace, target, |subscription, installed| {
        let spec = &subscription.spec;
        let said = spec.version.is_some() || spec.upgrade_constraint_policy.is_some();
        let patch = said.then(|| json!({ "spec": { "version": null, "upgradeConstraintPolicy": null } }));
        let but = if spec.paused { format!(" once `olm resume {target}` lets it") } else { String::new() };
        let text = format!("{} follows its channel{but}", installed.package);
        Ok(Wanted { patch, text })
    })
    .await
}

/// Offers no upgrade until something newer can be reached than now (`spec.snooze`), or does again.
///
/// # Errors
/// As [`skip`]; [`Error::Unresolvable`] when nobody can say what is newest.
pub async fn snooze(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
    snoozed: bool,
) -> Result<Setting, Error> {
    let newest = if snoozed { Some(newest(client, catalogs, namespace, target).await?) } else { None };
    change(client, namespace, target, |subscription, installed| {
        let before = subscription.spec.snooze.as_ref().map(|snooze| &snooze.newest);
        let text = match &newest {
            Some(newest) => {
                format!("no upgrade of {} is offered until something newer than {newest}", installed.package)
            }
            None => format!("upgrades of {} are offered again", installed.package),
        };
        let wanted = newest.as_ref().map(|newest| json!({ "newest": newest }));
        let patch = (before != newest.as_ref()).then(|| json!({ "spec": { "snooze": wanted } }));
        Ok(Wanted { patch, text })
    })
    .await
}

/// The newest bundle that can be reached.
async fn newest(
    client: &Client,
    catalogs: &[LoadedCatalog],
    namespace: Option<&str>,
    target: &str,
) -> Result<String, Error> {
    let world = World::read(client, namespace).await?;
    let view = world.find(target)?;
    let package = world.describe(&view).package;
    let subscription = view.subscription.ok_or_else(|| unmanaged(target, &package))?;
    let resolved = engine::explain(client, catalogs, &subscription).await?;
    if resolved.action != olm_resolver::Action::Upgrade {
        return Err(nothing_offered(target, &package));
    }
    Ok(resolved.path.last().map_or(resolved.chosen.name, |hop| hop.name.clone()))
}

fn nothing_offered(target: &str, package: &str) -> Error {
    Error::Refused {
        code: "NothingOffered".into(),
        text: format!("{package} has no newer version to go to"),
        fix: Some(format!("run `olm why {target}`, or name a version")),
    }
}

pub(super) fn unmanaged(target: &str, package: &str) -> Error {
    Error::Refused {
        code: "Unmanaged".into(),
        text: format!("{target} has no Subscription, which is where this is said"),
        fix: Some(format!("run `olm install {package}` to make one")),
    }
}

/// Changes a Subscription as it is: what somebody else writes at the same moment is not written over.
async fn change(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    wanted: impl Fn(&Subscription, &Installed) -> Result<Wanted, Error>,
) -> Result<Setting, Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let world = World::read(client, namespace).await?;
        let view = world.find(target)?;
        let installed = world.describe(&view);
        let subscription = view.subscription.ok_or_else(|| unmanaged(target, &installed.package))?;
        let Wanted { patch, text } = wanted(&subscription, &installed)?;
        let changed = patch.is_some();
        if let Some(patch) = patch {
            match write(client, &subscription, patch).await {
                Err(Error::Kube { source, .. }) if is_conflict(&source) && attempt < ATTEMPTS => continue,
                other => other?,
            }
        }
        return Ok(Setting {
            namespace: installed.namespace,
            subscription: installed.name,
            package: installed.package,
            changed,
            text,
        });
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Writes a merge patch over exactly the Subscription that was read.
pub(super) async fn write(
    client: &Client,
    subscription: &Subscription,
    mut patch: Value,
) -> Result<(), Error> {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    patch["metadata"]["resourceVersion"] = json!(subscription.resource_version());
    let params =
        PatchParams { field_manager: Some(names::FIELD_MANAGER_CLI.into()), ..PatchParams::default() };
    Api::<Subscription>::namespaced(client.clone(), &namespace)
        .patch(&name, &params, &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("change Subscription {namespace}/{name}")))?;
    Ok(())
}

#[cfg(test)]
mod tests;
