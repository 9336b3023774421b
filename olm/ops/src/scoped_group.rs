//! The OperatorGroup of an installation that requests the namespaces to watch.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::PostParams};
use olm_api::{OperatorGroup, Subscription, names};
use olm_engine::catalogs::LoadedCatalog;
use olm_plan::{Finding, FindingCode, Plan, watched_namespaces};

use crate::{
    can_i,
    error::Error,
    list::list,
    watch_scope::{GroupDecision, ScopeFacts, WatchScope, decide_group},
    write::field_manager,
};

const READS: usize = 8;

/// The OperatorGroup to create before the Subscription; `None` when no scope is requested or the existing group
/// provides it.
///
/// # Errors
/// [`Error::Refused`] with the next step, [`Error::Unresolvable`], [`Error::Forbidden`].
pub(crate) async fn new_group(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    scope: Option<&WatchScope>,
) -> Result<Option<OperatorGroup>, Error> {
    let Some(scope) = scope else { return Ok(None) };
    let namespace = subscription.namespace().unwrap_or_default();
    let modes = olm_engine::install_modes(client, catalogs, subscription).await?;
    let groups: Vec<OperatorGroup> = list(client, Some(&namespace)).await?;
    let groups: Vec<Arc<OperatorGroup>> = groups.into_iter().map(Arc::new).collect();
    let missing = missing_namespaces(client, &scope.targets(&namespace), &namespace).await;
    let facts = ScopeFacts { namespace: &namespace, groups: &groups, modes: Some(&modes), missing: &missing };
    match decide_group(&facts, scope) {
        GroupDecision::Keep(_) => Ok(None),
        GroupDecision::Create(group) => Ok(Some(*group)),
        GroupDecision::Refuse(refusal) => Err(Error::Refused {
            code: refusal.code.to_owned(),
            text: format!("failed to install {}: {}", subscription.spec.name, refusal.text),
            fix: Some(refusal.fix),
        }),
    }
}

/// The target namespaces that do not exist, apart from the operator's. One that the caller may not read counts
/// as existing.
async fn missing_namespaces(client: &Client, targets: &[String], own: &str) -> Vec<String> {
    let others: Vec<String> =
        targets.iter().filter(|target| !target.is_empty() && *target != own).cloned().collect();
    let api = Api::<Namespace>::all(client.clone());
    let exists = |name: String| {
        let api = api.clone();
        async move {
            let missing = matches!(api.get_metadata_opt(&name).await, Ok(None));
            missing.then_some(name)
        }
    };
    let found = stream::iter(others).map(exists).buffered(READS);
    found.filter_map(|missing| async move { missing }).collect().await
}

/// The plan with the OperatorGroup that is created before the Subscription. Its findings name the group, and the
/// right to create it if the caller lacks it.
pub(crate) async fn preview(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    group: Option<&OperatorGroup>,
) -> Result<Plan, Error> {
    let Some(group) = group else {
        return olm_engine::preview(client, catalogs, subscription).await.map_err(Into::into);
    };
    let namespace = subscription.namespace().unwrap_or_default();
    let (plan, allowed) = tokio::join!(
        olm_engine::preview_in_group(client, catalogs, subscription, group.clone()),
        can_i::is_allowed(client, "create", names::GROUP, "operatorgroups", Some(&namespace)),
    );
    let mut plan = plan?;
    // A failed review blocks nothing: the API server decides on the request.
    if matches!(allowed, Ok(false)) {
        plan.findings.insert(0, lacks_right(group, &namespace));
    }
    plan.findings.push(creates(group, &namespace));
    Ok(plan)
}

fn finding(code: FindingCode, group: &OperatorGroup, namespace: &str, text: String) -> Finding {
    Finding {
        code,
        severity: code.severity(),
        subject: format!("OperatorGroup {namespace}/{}", group.name_any()),
        object: None,
        text,
        fix: None,
    }
}

fn creates(group: &OperatorGroup, namespace: &str) -> Finding {
    let text = format!(
        "the namespace has no OperatorGroup; {} will be created, watching {}",
        group.name_any(),
        watched_namespaces(&group.spec.target_namespaces)
    );
    finding(FindingCode::NoOperatorGroup, group, namespace, text)
}

fn lacks_right(group: &OperatorGroup, namespace: &str) -> Finding {
    let text = format!(
        "you may not create operatorgroups.{} in namespace {namespace}, which the requested namespaces require",
        names::GROUP
    );
    finding(FindingCode::UserLacksRights, group, namespace, text)
}

/// Creates the OperatorGroup. One that another client created meanwhile is left unchanged.
pub(crate) async fn create(
    client: &Client,
    group: &OperatorGroup,
    created: &mut Vec<String>,
) -> Result<(), Error> {
    let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
    let api = Api::<OperatorGroup>::namespaced(client.clone(), &namespace);
    let params = PostParams { field_manager: Some(field_manager()), ..PostParams::default() };
    match api.create(&params, group).await {
        Ok(_) => {
            created.push(format!("OperatorGroup {name}"));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_already_exists() => Err(Error::Refused {
            code: "OperatorGroupExists".into(),
            text: format!("OperatorGroup {namespace}/{name} was created by another client meanwhile"),
            fix: Some("repeat the installation".into()),
        }),
        Err(error) => Err(Error::kube(format!("create OperatorGroup {namespace}/{name}"))(error)),
    }
}

/// Previews a Subscription, with the OperatorGroup that a requested scope needs.
///
/// # Errors
/// [`Error::Refused`] when the OperatorGroup of the namespace or the bundle does not provide the scope;
/// [`Error::Unresolvable`], [`Error::Forbidden`].
pub async fn preview_scoped(
    client: &Client,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    scope: Option<&WatchScope>,
) -> Result<Plan, Error> {
    let group = new_group(client, catalogs, subscription, scope).await?;
    preview(client, catalogs, subscription, group.as_ref()).await
}
