//! OperatorGroup: which namespaces it means, into its status.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::{PartialObjectMeta, Selector},
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use olm_api::{Condition, OperatorGroup, OperatorGroupStatus, condition, names};
use tokio_util::sync::CancellationToken;

use crate::context::{Ctx, Error, SAFETY_NET, drive};

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let client = ctx.client.clone();
    let any = watcher::Config::default;
    let controller = Controller::new(Api::<OperatorGroup>::all(client.clone()), any());
    let store = controller.store();
    // Another group in the namespace makes both wrong; when it goes, the other is right again.
    let controller = controller.watches(Api::<OperatorGroup>::all(client), any(), move |group| {
        let others = store.state().into_iter().filter(|o| o.namespace() == group.namespace());
        others.map(|o| ObjectRef::from_obj(o.as_ref())).collect::<Vec<_>>()
    });
    drive("operator_group", controller, ctx, shutdown, reconcile).await;
}

async fn reconcile(group: Arc<OperatorGroup>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if group.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let namespace = group.namespace().unwrap_or_default();
    let selector = group.spec.selector.clone().filter(|_| group.spec.target_namespaces.is_empty());
    let (selected, requeue) = match selector.filter(|_| !group.spec.is_global()) {
        None => (None, Action::requeue(SAFETY_NET)),
        Some(selector) => {
            let selector: Result<Selector, _> = selector.try_into();
            let Ok(selector) = selector else {
                let message = "spec.selector is not a valid label selector";
                ctx.event(group.as_ref(), true, "InvalidSelector", message).await;
                return Ok(Action::await_change());
            };
            let api = Api::<PartialObjectMeta<Namespace>>::all(ctx.client.clone());
            let found = api
                .list(&ListParams::default().labels_from(&selector))
                .await
                .map_err(Error::kube("list namespaces"))?;
            // Namespaces are not watched for the few groups that select by label; a minute is soon enough.
            let again = Action::requeue(std::time::Duration::from_secs(60));
            (Some(found.items.iter().map(ResourceExt::name_any).collect()), again)
        }
    };
    let groups = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace)
        .list(&ListParams::default())
        .await
        .map_err(Error::kube(format!("list OperatorGroups in {namespace}")))?;
    let new = status(&group, selected, groups.items.len(), Timestamp::now());
    ctx.write_status(group.as_ref(), group.status.as_ref(), &new).await?;
    Ok(requeue)
}

/// Pure. `selected` are the namespaces that match the selector, where that is what counts.
fn status(
    group: &OperatorGroup,
    selected: Option<BTreeSet<String>>,
    groups: usize,
    now: Timestamp,
) -> OperatorGroupStatus {
    let old = group.status.clone().unwrap_or_default();
    let mut new = old.clone();
    new.namespaces = match selected {
        Some(selected) => selected.into_iter().collect(),
        None if group.spec.target_namespaces.is_empty() => vec![String::new()],
        None => group.spec.target_namespaces.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
    };
    if groups > 1 {
        let message = format!("{groups} OperatorGroups are in the namespace; delete all but one");
        let several = Condition::new(
            names::CONDITION_MULTIPLE_OPERATOR_GROUPS,
            true,
            "MultipleOperatorGroupsFound",
            message,
        );
        condition::set(&mut new.conditions, several, now);
    } else {
        condition::remove(&mut new.conditions, names::CONDITION_MULTIPLE_OPERATOR_GROUPS);
    }
    if new != old {
        new.last_updated = Some(Time(now));
    }
    new
}

#[cfg(test)]
mod tests {
    use olm_api::OperatorGroupSpec;

    use super::*;

    fn group(targets: &[&str]) -> OperatorGroup {
        let target_namespaces = targets.iter().map(|t| (*t).to_owned()).collect();
        OperatorGroup::new("og", OperatorGroupSpec { target_namespaces, ..OperatorGroupSpec::default() })
    }

    #[test]
    fn targets_are_sorted_and_without_targets_it_is_every_namespace() {
        assert_eq!(status(&group(&["b", "a", "b"]), None, 1, Timestamp::now()).namespaces, ["a", "b"]);
        assert_eq!(status(&group(&[]), None, 1, Timestamp::now()).namespaces, [""]);
    }

    #[test]
    fn a_second_group_is_a_condition_that_goes_with_it() {
        let mut group = group(&["a"]);
        group.status = Some(status(&group, None, 2, Timestamp::now()));
        assert_eq!(group.status.as_ref().unwrap().conditions.len(), 1);
        assert!(status(&group, None, 1, Timestamp::now()).conditions.is_empty());
    }
}
