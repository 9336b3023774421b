//! `olm version`.

use serde::Serialize;

use crate::{
    args::{Global, OutputArgs},
    context,
    exit::Failure,
    output,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
}

pub async fn run(global: &Global, out: OutputArgs) -> Result<(), Failure> {
    // The cluster's version is optional: without a cluster it is omitted.
    let kubernetes = async {
        let client = context::connect(global).await.ok()?;
        let asked = tokio::time::timeout(std::time::Duration::from_secs(3), client.apiserver_version());
        Some(asked.await.ok()?.ok()?.git_version)
    }
    .await;
    let version = Version { version: env!("CARGO_PKG_VERSION"), kubernetes };
    output::print_one(&version, &out.output, version.version, || {
        let kubernetes = version.kubernetes.as_deref().unwrap_or("cluster not reachable");
        format!("olm        {}\nkubernetes {kubernetes}", version.version)
    })
}
