//! `olm manager`: the controllers, in their pod.

use olm_engine::catalogs::Registries;
use olm_manager::Options;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Global, ManagerArgs},
    context,
    exit::{Code, Failure},
};

pub async fn run(global: &Global, args: ManagerArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let identity = std::env::var("POD_NAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("olm-manager-{}", std::process::id()));
    let mut options = Options {
        listen: Some(args.listen),
        cache_dir: args.cache_dir,
        registries: Registries { file: args.registries, authorities: args.pull_cas_dir },
        secure_listen: args.secure_listen,
        ..Options::new(identity)
    };
    if let Ok(namespace) = std::env::var("POD_NAMESPACE") {
        options.namespace = namespace;
    }
    let shutdown = on_termination();
    olm_manager::run(client, options, shutdown)
        .await
        .map_err(|e| Failure::new(Code::Unexpected, e.to_string()))
}

/// A token that is cancelled by Ctrl-C or SIGTERM.
pub fn on_termination() -> CancellationToken {
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        super::terminated().await;
        cancel.cancel();
    });
    token
}
