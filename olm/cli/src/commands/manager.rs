//! `olm manager`: the controllers, in their pod.

use olm_catalog::Relocation;
use olm_engine::catalogs::Registries;
use olm_manager::Options;

use crate::{
    args::{Global, ManagerArgs},
    context,
    exit::{Code, Failure},
    signals::on_termination,
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
        relocation: Relocation {
            images: args.shipped_image.into_iter().collect(),
            pull_secrets: args.shipped_pull_secret,
        },
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
