//! OLMConfig: reports the effect of upstream's switches. They control copied ClusterServiceVersions and a
//! package server that polls; this manager has neither.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use olm_api::{Condition, OLMConfig, OLMConfigStatus, condition};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::KindCache,
    context::{Ctx, Error, drive},
    runner::Action,
};

const DISABLED_COPIED_CSVS: &str = "DisabledCopiedCSVs";

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let configs = KindCache::<OLMConfig>::new(watcher::Config::default(), |_| {}, |_| Vec::new());
    let api = Api::all(ctx.client.clone());
    tokio::select! {
        () = drive("olm_config", configs.controller(), ctx, shutdown, reconcile) => {}
        () = configs.follow(api) => {}
    }
}

async fn reconcile(config: Arc<OLMConfig>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let new = status(&config, Timestamp::now());
    // Upstream's singleton; others have no effect.
    if config.name_any() == "cluster" && config.status.as_ref() != Some(&new) {
        let api = Api::<OLMConfig>::all(ctx.client.clone());
        let patch = json!({ "status": new });
        let written = api.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(Error::kube("write the status of OLMConfig cluster"))?;
    }
    Ok(Action::await_change())
}

/// Pure.
fn status(config: &OLMConfig, now: Timestamp) -> OLMConfigStatus {
    let mut conditions = config.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
    let message = "ClusterServiceVersions are never copied; spec.features has no effect";
    let mut disabled = Condition::new(DISABLED_COPIED_CSVS, true, "CopiedCSVsDisabled", message);
    disabled.observed_generation = config.metadata.generation;
    condition::set(&mut conditions, disabled, now);
    OLMConfigStatus { conditions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_there_are_no_copies() {
        let mut config = OLMConfig::default();
        let first = status(&config, Timestamp::from_second(1).unwrap());
        assert_eq!(first.conditions[0].reason.as_deref(), Some("CopiedCSVsDisabled"));
        config.status = Some(first.clone());
        assert_eq!(status(&config, Timestamp::from_second(2).unwrap()), first);
    }
}
