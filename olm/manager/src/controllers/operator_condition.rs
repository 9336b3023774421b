//! OperatorCondition: copies the conditions in the spec, which the operator writes, to the status, where
//! others read them.
//!
//! The object itself, and the operator's right to write it, are made with the operator's Deployments.

use std::sync::Arc;

use jiff::Timestamp;
use olm_api::{OperatorCondition, OperatorConditionStatus, condition};
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error, drive},
    runner::Action,
};

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let controller = ctx.cache.conditions.controller();
    drive("operator_condition", controller, ctx, shutdown, reconcile).await;
}

async fn reconcile(object: Arc<OperatorCondition>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if object.metadata.deletion_timestamp.is_none() {
        let new = status(&object, Timestamp::now());
        ctx.write_status(object.as_ref(), Some(&object.status.clone().unwrap_or_default()), &new).await?;
    }
    Ok(Action::await_change())
}

/// Pure.
fn status(object: &OperatorCondition, now: Timestamp) -> OperatorConditionStatus {
    let mut conditions = object.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
    conditions.retain(|old| object.spec.conditions.iter().any(|new| new.type_ == old.type_));
    for condition in &object.spec.conditions {
        let mut condition = condition.clone();
        condition.observed_generation = object.metadata.generation;
        condition::set(&mut conditions, condition, now);
    }
    // An object without conditions gets no status.
    let observed_generation = object.metadata.generation.filter(|_| !conditions.is_empty());
    OperatorConditionStatus { observed_generation, conditions }
}

#[cfg(test)]
mod tests {
    use olm_api::{Condition, OperatorConditionSpec};

    use super::*;

    #[test]
    fn conditions_of_the_operator_are_mirrored_and_removed_with_it() {
        let condition = Condition::new("Upgradeable", false, "Busy", "compacting");
        let spec = OperatorConditionSpec { conditions: vec![condition], ..OperatorConditionSpec::default() };
        let mut object = OperatorCondition::new("etcd.v1", spec);
        object.metadata.generation = Some(3);
        let first = status(&object, Timestamp::now());
        assert_eq!(first.observed_generation, Some(3));
        assert_eq!(first.conditions[0].reason.as_deref(), Some("Busy"));
        object.status = Some(first);
        object.spec.conditions.clear();
        assert!(status(&object, Timestamp::now()).conditions.is_empty());
    }
}
