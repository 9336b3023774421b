//! Package names for shell completion: every command that reads the cluster's catalogs caches them in the
//! user's cache folder, and completion refreshes an old cache. Errors are ignored and time is limited,
//! because a shell is waiting.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use clap::Parser as _;
use olm_engine::catalogs::{Fetcher, LoadedCatalog};
use serde::{Deserialize, Serialize};

use crate::{
    args::{Args, Global},
    context,
    prose::printable,
};

/// Names older than this are fetched again.
const FRESH: Duration = Duration::from_secs(600);

/// A longer delay is noticeable in a shell.
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    pub name: String,
    /// A description for shells that show one.
    pub description: String,
}

/// The packages of the cluster that the partial command line selects.
pub fn known() -> Vec<Known> {
    let global = global();
    let Some(path) = cache_file(&global) else { return Vec::new() };
    let age = std::fs::metadata(&path).and_then(|file| file.modified());
    let age = age.ok().and_then(|then| SystemTime::now().duration_since(then).ok());
    if age.is_none_or(|age| age > FRESH) {
        // Old names are better than none when the cluster does not answer in time.
        fetch_names(&global);
    }
    read(&path)
}

/// Caches the names of catalogs that a command has read.
pub fn keep(global: &Global, catalogs: &[LoadedCatalog]) {
    let Some(path) = cache_file(global) else { return };
    let summaries = catalogs.iter().flat_map(|catalog| catalog.catalog.summaries());
    let mut names: Vec<Known> = summaries
        .map(|summary| Known { name: summary.name.clone(), description: printable(&summary.display_name) })
        .filter(|known| is_plain(&known.name))
        .collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    names.dedup_by(|a, b| a.name == b.name);
    // Completion works without the cache, only slower.
    _ = write(&path, &names);
}

/// Names with special characters of shells are not offered.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

fn read(path: &Path) -> Vec<Known> {
    let text = std::fs::read(path).unwrap_or_default();
    let names: Vec<Known> = serde_json::from_slice(&text).unwrap_or_default();
    names.into_iter().filter(|known| is_plain(&known.name)).collect()
}

fn write(path: &Path, names: &[Known]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // Concurrent completions write separate files.
    let partial = path.with_extension(format!("{}", std::process::id()));
    std::fs::write(&partial, serde_json::to_vec(names)?)?;
    std::fs::rename(&partial, path)
}

/// Fetches the names from the cluster, within the time limit.
fn fetch_names(global: &Global) {
    _ = rustls::crypto::ring::default_provider().install_default();
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
    else {
        return;
    };
    runtime.block_on(async {
        let fetched = tokio::time::timeout(PATIENCE, async {
            let client = context::connect(global).await.ok()?;
            Fetcher::service_proxy(client).fetch().await.ok()
        });
        if let Ok(Some(catalogs)) = fetched.await {
            keep(global, &catalogs);
        }
    });
    runtime.shutdown_background();
}

/// `$XDG_CACHE_HOME/olm/names/HASH.json`, per cluster and user.
fn cache_file(global: &Global) -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let root = match (var("XDG_CACHE_HOME"), var("HOME")) {
        (Some(root), _) => PathBuf::from(root),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => return None,
    };
    let mut hasher = DefaultHasher::new();
    (var("KUBECONFIG"), &global.kubeconfig, &global.context, &global.impersonate).hash(&mut hasher);
    Some(root.join("olm/names").join(format!("{:016x}.json", hasher.finish())))
}

/// The flags that select a cluster, parsed from the longest valid prefix of the command line (`olm -- olm
/// show --context x et`).
fn global() -> Global {
    let words: Vec<_> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    for end in (1..=words.len()).rev() {
        if let Ok(args) = Args::try_parse_from(&words[..end]) {
            return args.global;
        }
    }
    Global::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_and_nothing_else_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/names.json");
        assert_eq!(read(&path), []);
        let names = [Known { name: "etcd".into(), description: "etcd".into() }];
        write(&path, &names).unwrap();
        assert_eq!(read(&path), names);
        std::fs::write(&path, "[{").unwrap();
        assert_eq!(read(&path), []);
        std::fs::write(
            &path,
            r#"[{"name":"$(rm -rf x)","description":""},{"name":"a-b.c_1","description":""}]"#,
        )
        .unwrap();
        assert_eq!(read(&path).len(), 1);
    }
}
