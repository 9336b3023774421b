//! `olm manager`: the controllers, in their pod. `olm manifests`: what puts them there.

use olm_manager::{
    Options,
    catalogs::Registries,
    manifests::{ManifestOptions, manifests as objects},
};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Global, ManagerArgs, ManifestsArgs},
    context,
    exit::{Code, Failure},
    output::say,
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

pub fn manifests(args: &ManifestsArgs) -> Result<(), Failure> {
    let mut options = ManifestOptions::default();
    if let Some(image) = &args.image {
        options.image.clone_from(image);
        options.console_image = Some(image.clone());
    }
    for object in objects(&options) {
        let text = serde_yaml::to_string(&object).map_err(anyhow::Error::from)?;
        say(&format!("---\n{text}"))?;
    }
    Ok(())
}
