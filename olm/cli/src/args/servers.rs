//! Arguments of the servers in pods.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args as ClapArgs;

/// `olm manager`.
#[derive(Debug, ClapArgs)]
pub struct ManagerArgs {
    /// Address for catalogs, health and metrics (HTTP and HTTPS).
    #[arg(long, default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// Cache directory of catalogs, used after a restart; a temporary folder when absent.
    #[arg(long, env = "OLM_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
    /// YAML file with `mirrors`, `plainHttp`, `skipTlsVerify`, `tokenHosts` and `egress` of registries; reloaded for every fetch.
    #[arg(long, env = "OLM_REGISTRIES")]
    pub registries: Option<PathBuf>,
    /// Folder with additional certificate authorities (*.crt, *.pem).
    #[arg(long, env = "OLM_PULL_CAS_DIR")]
    pub pull_cas_dir: Option<PathBuf>,
    /// Image that operators of the shipped catalog run instead of another; may be repeated.
    #[arg(long, value_name = "FROM=TO", value_parser = image_pair)]
    pub shipped_image: Vec<(String, String)>,
    /// Pull secret for the pods of operators of the shipped catalog, in their namespaces; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub shipped_pull_secret: Vec<String>,
    /// Address of the webhook that records requests and of the PackageManifests API; not served when absent.
    #[arg(long, value_name = "ADDRESS")]
    pub secure_listen: Option<SocketAddr>,
    /// Log format.
    #[arg(long, env = "OLM_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// How servers write their log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line, with its spans.
    #[default]
    Json,
    /// Plain text.
    Text,
}

/// `olm staticweb`.
#[derive(Debug, ClapArgs)]
pub struct StaticwebArgs {
    /// Address to listen on.
    #[arg(long, default_value = "[::]:8080")]
    pub listen: SocketAddr,
    /// Directory to serve; a page with the pod's name when absent.
    #[arg(long)]
    pub root: Option<PathBuf>,
}

fn image_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.to_owned(), to.to_owned())),
        _ => Err("expected FROM=TO with two images".to_owned()),
    }
}
