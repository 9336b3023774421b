//! The installed operator that a command names.

use kube::Client;
use olm_ops::Installed;

use crate::{
    args::Global,
    context,
    exit::{Code, Failure},
};

/// Finds an operator by its package, Subscription or ClusterServiceVersion.
pub async fn find(global: &Global, name: &str) -> Result<(Client, Installed), Failure> {
    let client = context::connect(global).await?;
    let found = olm_ops::find_installed(&client, global.namespace.as_deref(), name).await;
    let installed = found.map_err(|error| in_one_namespace(global, error.into()))?;
    Ok((client, installed))
}

/// A caller with rights in single namespaces has to name one of them.
pub fn in_one_namespace(global: &Global, failure: Failure) -> Failure {
    if failure.code == Code::Forbidden && global.namespace.is_none() {
        return Failure { hints: Vec::new(), ..failure }
            .hint("choose one of your namespaces with -n NAMESPACE")
            .hint("or ask an administrator for this permission in all namespaces");
    }
    failure
}

/// Adds the people who can grant a missing permission.
pub async fn whom_to_ask(client: &Client, namespace: &str, failure: Failure) -> Failure {
    match olm_ops::administrators(client, namespace).await {
        people if people.is_empty() => {
            failure.hint("ask an administrator of the cluster for this permission")
        }
        people => failure.hint(format!("ask an administrator for this permission: {}", people.join(", "))),
    }
}
