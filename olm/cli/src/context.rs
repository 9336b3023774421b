//! Selection of the cluster: `--kubeconfig` and `--context`, then `KUBECONFIG`, then `~/.kube/config`, then
//! the pod's ServiceAccount, then a running dev cluster.

use std::path::PathBuf;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{
    args::Global,
    exit::{Code, Failure},
};

/// Default folder for the state of `olm up`: `$XDG_DATA_HOME/olm`, else `~/.local/share/olm`.
pub fn default_data_dir() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into()));
    match std::env::var_os("XDG_DATA_HOME") {
        Some(base) if !base.is_empty() => PathBuf::from(base).join("olm"),
        _ => home().join(".local/share/olm"),
    }
}

/// A client for the cluster that the flags and the environment select.
pub async fn connect(global: &Global) -> Result<Client, Failure> {
    olm_client::connect(config(global).await?).map_err(Failure::from)
}

pub async fn config(global: &Global) -> Result<Config, Failure> {
    let options = KubeConfigOptions { context: global.context.clone(), ..KubeConfigOptions::default() };
    let mut config = if let Some(path) = &global.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path)
            .map_err(|e| Failure::new(Code::Usage, format!("failed to read {}: {e}", path.display())))?;
        from_kubeconfig(kubeconfig, &options).await?
    } else if global.context.is_some() || has_user_kubeconfig() {
        let kubeconfig = Kubeconfig::read()
            .map_err(|e| Failure::new(Code::Usage, format!("failed to read the kubeconfig: {e}")))?;
        from_kubeconfig(kubeconfig, &options).await?
    } else if let Ok(config) = Config::incluster() {
        config
    } else {
        let path = default_data_dir().join("kubeconfig");
        if !path.exists() {
            return Err(Failure::new(Code::Unexpected, "no cluster configured")
                .hint("start a dev cluster with `olm up`")
                .hint("or select a cluster with --kubeconfig, --context or KUBECONFIG"));
        }
        let kubeconfig = Kubeconfig::read_from(&path)
            .map_err(|e| Failure::new(Code::Unexpected, format!("failed to read {}: {e}", path.display())))?;
        from_kubeconfig(kubeconfig, &options).await?
    };
    if let Some(user) = &global.impersonate {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups =
            (!global.impersonate_group.is_empty()).then(|| global.impersonate_group.clone());
    }
    Ok(config)
}

fn has_user_kubeconfig() -> bool {
    match std::env::var_os("KUBECONFIG") {
        Some(value) => !value.is_empty(),
        None => {
            std::env::var_os("HOME").is_some_and(|home| PathBuf::from(home).join(".kube/config").exists())
        }
    }
}

async fn from_kubeconfig(kubeconfig: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, Failure> {
    Config::from_custom_kubeconfig(kubeconfig, options)
        .await
        .map_err(|e| Failure::new(Code::Usage, format!("failed to use the kubeconfig: {e}")))
}
