//! `olm dev rights`: the permissions that a ServiceAccount used in the dev cluster.

use olm_devcluster::rights::{Rights, Used};

use super::elsewhere;
use crate::{
    args::{Global, OutputArgs},
    context,
    exit::Failure,
    output::Listing,
};

pub async fn run(global: &Global, account: &str, out: &OutputArgs) -> Result<(), Failure> {
    let config = context::config(global).await?;
    let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let rights = Rights::new(context::connect(global).await?);
    let used = rights.of(&namespace, account).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => elsewhere("permissions are recorded only on"),
        other => other.into(),
    })?;
    Listing {
        items: &used,
        columns: &[
            ("GROUP", |used| used.right.group.clone()),
            ("RESOURCE", |used| used.right.resource.clone()),
            ("VERB", |used| used.right.verb.clone()),
            ("WHERE", |used| if used.right.cluster_wide { "cluster" } else { "namespace" }.to_owned()),
            ("ALLOWED", |used| used.allowed.to_string()),
            ("FORBIDDEN", |used| used.forbidden.to_string()),
        ],
        wide: &[],
        name: |used: &Used| format!("{}.{}:{}", used.right.resource, used.right.group, used.right.verb),
        empty: "No requests recorded.",
    }
    .print(out)
}
