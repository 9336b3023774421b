//! Selection of the cluster: `--kubeconfig` and `--context`, then `KUBECONFIG`, then `~/.kube/config`, then
//! the pod's ServiceAccount, then a running dev cluster.

use std::path::PathBuf;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
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
        let kubeconfig =
            Kubeconfig::read_from(path).map_err(|error| unreadable(&path.display().to_string(), &error))?;
        from_kubeconfig(kubeconfig, &options).await?
    } else if global.context.is_some() || has_user_kubeconfig() {
        let kubeconfig = Kubeconfig::read().map_err(|error| unreadable("of KUBECONFIG", &error))?;
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
        let kubeconfig =
            Kubeconfig::read_from(&path).map_err(|error| unreadable(&path.display().to_string(), &error))?;
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

/// Only the first line of a cause is shown: the others quote the file, which contains credentials.
fn unreadable(file: &str, error: &KubeconfigError) -> Failure {
    let (verb, file, cause) = match error {
        KubeconfigError::ReadConfig(error, path) => ("read", path.display().to_string(), error.to_string()),
        KubeconfigError::Parse(error) => ("parse", file.to_owned(), error.to_string()),
        error => ("read", file.to_owned(), error.to_string()),
    };
    let cause = cause.lines().next().unwrap_or_default().trim_start_matches("error: ");
    Failure::new(Code::Usage, format!("failed to {verb} kubeconfig {file}: {cause}"))
        .hint("select a cluster with --kubeconfig, --context or KUBECONFIG")
}

async fn from_kubeconfig(kubeconfig: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, Failure> {
    Config::from_custom_kubeconfig(kubeconfig, options)
        .await
        .map_err(|e| Failure::new(Code::Usage, format!("failed to use the kubeconfig: {e}")))
}
