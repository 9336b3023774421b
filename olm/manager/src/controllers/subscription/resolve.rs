//! Resolves the request of a Subscription with the engine. Read-only.

use std::time::Instant;

use olm_engine::Outcome;
use olm_resolver::Action;

use super::{
    decide::{InProgress, Observed, Resolution},
    observe::Inputs,
};
use crate::context::{Ctx, Error};

/// A change that is in progress already is not computed again. A temporary failure is an error.
pub(super) async fn resolve(
    observed: &Observed<'_>,
    inputs: &Inputs,
    in_progress: InProgress,
    ctx: &Ctx,
) -> Result<Resolution, Error> {
    let (subscription, catalogs, snapshot) = (observed.subscription, &inputs.catalogs, &inputs.snapshot);
    let InProgress { plan, unfinished } = in_progress;
    let started = Instant::now();
    let answer = match olm_engine::choose(&ctx.resources, catalogs, subscription, snapshot).await {
        Ok(resolved) => {
            let same = plan.filter(|plan| plan.csv == resolved.chosen.name);
            if let Some(plan) = same.filter(|_| resolved.action != Action::None) {
                return Ok(Resolution::InProgress { plan: plan.plan });
            }
            olm_engine::build_outcome(&ctx.resources, catalogs, subscription, snapshot, resolved).await
        }
        Err(refusal) => Err(refusal),
    };
    let outcome = if answer.is_ok() { "succeeded" } else { "failed" };
    ctx.metrics.resolved(outcome, started.elapsed());
    Ok(Resolution::Answer(match answer {
        Err(refusal) if refusal.is_transient() => return Err(refusal.into()),
        // Its plan did not complete, so it is resumed.
        Ok(Outcome::UpToDate(resolved)) if unfinished.as_ref() == Some(&resolved.chosen.name) => {
            let name = &resolved.chosen.name;
            olm_engine::resume_change(&ctx.resources, catalogs, subscription, snapshot, name, Vec::new())
                .await
                .map(|change| Outcome::Change(Box::new(change)))
        }
        answer => answer,
    }))
}
