//! Names for shell completion: packages, channels, versions, installed operators and namespaces.
//!
//! Commands that read the cluster's catalogs cache the names in the user's cache folder. Completion refreshes an
//! old cache in another process, because a shell is waiting. Errors are ignored.

use std::{
    ffi::OsString,
    fs::{File, TryLockError},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use clap::{CommandFactory as _, FromArgMatches as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _, api::ListParams};
use olm_catalog::Package;
use olm_engine::catalogs::{Fetcher, LoadedCatalog};
use serde::{Deserialize, Serialize};

use crate::{
    args::{self, Args, Global},
    context, plugin,
    prose::printable,
    source::cache,
};

/// Names from catalogs older than this are fetched again.
const FRESH: Duration = Duration::from_secs(600);

/// The same for installed operators and namespaces, which change more often.
const RECENT: Duration = Duration::from_secs(60);

/// Longest wait for a refresh; a longer delay is noticeable in a shell.
const PATIENCE: Duration = Duration::from_millis(40);
/// Poll interval of that wait.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Time limit of the process that refreshes the cache.
const REFRESH: Duration = Duration::from_secs(5);
/// Environment variable of the process that refreshes the cache: the file to refresh.
const REFRESHES: &str = "OLM_COMPLETE_REFRESH";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    pub name: String,
    /// A description for shells that show one.
    pub description: String,
    /// The package of an installed operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The channels of a package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
}

/// The partial command line for which a shell requests names.
#[derive(Debug, Default)]
pub struct Line {
    global: Global,
    /// The package or operator that it names already.
    target: Option<String>,
}

impl Line {
    /// The words that the shell passes: `olm -- olm --context x show et`.
    pub fn current() -> Self {
        let words = std::env::args_os();
        match plugin::is_completer() {
            true => Self::of(words),
            false => Self::of(words.skip_while(|word| word != "--").skip(1)),
        }
    }

    fn of(words: impl Iterator<Item = OsString>) -> Self {
        let parsed = Args::command().ignore_errors(true).try_get_matches_from(words);
        let Ok(matches) = parsed else { return Self::default() };
        let mut last = &matches;
        while let Some((_, inner)) = last.subcommand() {
            last = inner;
        }
        let value = |id: &str| last.try_get_one::<String>(id).ok().flatten().cloned();
        Self {
            global: Global::from_arg_matches(&matches).unwrap_or_default(),
            target: value("package").or_else(|| value("name")),
        }
    }

    pub fn packages(&self) -> Vec<Known> {
        self.cached(PACKAGES, FRESH, async {
            let client = context::connect(&self.global).await.ok()?;
            Some(of_catalogs(&Fetcher::service_proxy(client).fetch().await.ok()?))
        })
    }

    /// The channels of the named package.
    pub fn channels(&self) -> Vec<Known> {
        let Some(package) = self.package() else { return Vec::new() };
        let known = self.packages().into_iter().find(|known| known.name == package);
        let channels = known.map(|known| known.channels).unwrap_or_default();
        channels.into_iter().map(|name| Known { name, ..Known::default() }).collect()
    }

    /// The versions of the named package, newest first.
    pub fn versions(&self) -> Vec<Known> {
        let Some(package) = self.package() else { return Vec::new() };
        self.cached(&versions_of(&package), FRESH, async {
            let client = context::connect(&self.global).await.ok()?;
            for catalog in Fetcher::service_proxy(client).fetch().await.ok()? {
                if let Ok(Some(package)) = catalog.package(&package).await {
                    return Some(of_package(&package));
                }
            }
            None
        })
    }

    pub fn installed(&self) -> Vec<Known> {
        self.cached(&installed_in(&self.global), RECENT, async {
            let client = context::connect(&self.global).await.ok()?;
            let installed = olm_ops::list_installed(&client, self.global.namespace.as_deref()).await.ok()?;
            let known = |operator: olm_ops::Installed| Known {
                description: printable(&format!("{} in namespace {}", operator.status, operator.namespace)),
                name: operator.name,
                package: Some(operator.package),
                channels: Vec::new(),
            };
            Some(installed.into_iter().map(known).collect())
        })
    }

    pub fn namespaces(&self) -> Vec<Known> {
        self.cached("namespaces", RECENT, async {
            let client = context::connect(&self.global).await.ok()?;
            let list = Api::<Namespace>::all(client).list_metadata(&ListParams::default()).await.ok()?;
            let known = |name: String| Known { name, ..Known::default() };
            Some(list.items.iter().map(|namespace| known(namespace.name_any())).collect())
        })
    }

    /// The named package; the name may be that of a Subscription of it.
    fn package(&self) -> Option<String> {
        let target = self.target.clone()?;
        // From the cache only: one request per completion.
        let path = cache_file(&self.global, &installed_in(&self.global));
        let names = path.map(|path| read(&path)).unwrap_or_default();
        let installed = names.into_iter().find(|known| known.name == target);
        Some(installed.and_then(|known| known.package).unwrap_or(target))
    }

    /// The names of a file of the cache; an old file is refreshed, for the next completion at the latest.
    fn cached(
        &self,
        file: &str,
        fresh: Duration,
        fetch: impl Future<Output = Option<Vec<Known>>>,
    ) -> Vec<Known> {
        let Some(path) = cache_file(&self.global, file) else { return Vec::new() };
        if is_old(&path, fresh) {
            match std::env::var(REFRESHES) {
                Err(_) => refresh(file),
                Ok(requested) if requested != file => {}
                Ok(_) => refresh_alone(&path, fresh, || wait_for(fetch)),
            }
        }
        read(&path)
    }
}

fn is_old(path: &Path, fresh: Duration) -> bool {
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    let age = written.ok().and_then(|then| SystemTime::now().duration_since(then).ok());
    age.is_none_or(|age| age > fresh)
}

/// Refreshes a file of the cache, unless another process does.
fn refresh_alone(path: &Path, fresh: Duration, fetch: impl FnOnce() -> Option<Vec<Known>>) {
    let Some(_lock) = lock(path) else { return };
    // Another process may have refreshed it before this one held the lock.
    if is_old(path, fresh) {
        _ = fetch().map(|names| write(path, &names));
    }
}

/// The lock of a file of the cache; `None` while another process holds it. The system releases the lock of a
/// process that was killed.
fn lock(path: &Path) -> Option<File> {
    cache::create_folder(path.parent()?).ok()?;
    let name = path.with_extension("lock");
    let file = File::options().create(true).truncate(false).write(true).open(name).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        // Without locks in its file system, several processes refresh it.
        Ok(()) | Err(TryLockError::Error(_)) => Some(file),
    }
}

const PACKAGES: &str = "packages";

fn versions_of(package: &str) -> String {
    format!("versions-{package}")
}

fn installed_in(global: &Global) -> String {
    format!("installed-{}", global.namespace.as_deref().unwrap_or_default())
}

/// Caches the names of catalogs that a command has read.
pub fn keep(global: &Global, catalogs: &[LoadedCatalog]) {
    keep_as(global, PACKAGES, &of_catalogs(catalogs));
}

/// Caches the versions of a package that a command has read.
pub fn keep_versions(global: &Global, package: &Package) {
    keep_as(global, &versions_of(&package.name), &of_package(package));
}

/// Drops the names of installed operators, after a command has changed them.
pub fn forget_installed(global: &Global) {
    let every = Global { namespace: None, ..global.clone() };
    for global in [global, &every] {
        if let Some(path) = cache_file(global, &installed_in(global)) {
            _ = std::fs::remove_file(path);
        }
    }
}

fn keep_as(global: &Global, file: &str, names: &[Known]) {
    if let Some(path) = cache_file(global, file) {
        // Completion works without the cache, only slower.
        _ = write(&path, names);
    }
}

fn of_catalogs(catalogs: &[LoadedCatalog]) -> Vec<Known> {
    let summaries = catalogs.iter().flat_map(|catalog| catalog.catalog.summaries());
    let mut names: Vec<Known> = summaries
        .map(|summary| Known {
            name: summary.name.clone(),
            description: printable(&summary.display_name),
            package: None,
            channels: summary.channels.clone(),
        })
        .collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    names.dedup_by(|a, b| a.name == b.name);
    names
}

fn of_package(package: &Package) -> Vec<Known> {
    let mut versions: Vec<_> =
        package.bundles.values().filter_map(|bundle| bundle.version.as_ref()).collect();
    versions.sort_by(|a, b| olm_version::precedence(b, a));
    versions.dedup();
    versions.into_iter().map(|version| Known { name: version.to_string(), ..Known::default() }).collect()
}

/// Names with special characters of shells are not offered.
fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'+');
    !name.is_empty() && name.bytes().all(plain)
}

fn read(path: &Path) -> Vec<Known> {
    let text = std::fs::read(path).unwrap_or_default();
    let mut names: Vec<Known> = serde_json::from_slice(&text).unwrap_or_default();
    names.retain(|known| is_plain(&known.name));
    for known in &mut names {
        known.channels.retain(|channel| is_plain(channel));
    }
    names
}

fn write(path: &Path, names: &[Known]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    cache::create_folder(folder)?;
    // Concurrent completions write separate files.
    let partial = path.with_extension(format!("{}", std::process::id()));
    std::fs::write(&partial, serde_json::to_vec(names)?)?;
    std::fs::rename(&partial, path)
}

/// Whether this is the process that refreshes the cache, which is done then.
pub fn is_refresh() -> bool {
    if std::env::var_os(REFRESHES).is_none() {
        return false;
    }
    thread::spawn(end_in_time);
    let line = Line::current();
    for names in [Line::packages, Line::versions, Line::installed, Line::namespaces] {
        names(&line);
    }
    true
}

/// Ends the process of a refresh. A timeout of the request would not, as a credential plugin blocks its thread.
fn end_in_time() {
    thread::sleep(REFRESH);
    std::process::exit(0);
}

/// Refreshes a file of the cache in another process, which may outlive this one: clusters answer slowly, and
/// credential plugins block.
fn refresh(file: &str) {
    let mut words = std::env::args_os();
    let (Some(name), Ok(program)) = (words.next(), std::env::current_exe()) else { return };
    let mut command = Command::new(program);
    // clap has removed the variable by which a refresh is recognized as a completion.
    command.arg0(name).args(words).env(REFRESHES, file).env(args::COMPLETE, "");
    // A shell reads the output of a completion to its end.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut refreshing) = command.spawn() else { return };
    let start = Instant::now();
    while start.elapsed() < PATIENCE && matches!(refreshing.try_wait(), Ok(None)) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reads names from the cluster.
fn wait_for(fetch: impl Future<Output = Option<Vec<Known>>>) -> Option<Vec<Known>> {
    _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().ok()?;
    let fetched = runtime.block_on(fetch);
    runtime.shutdown_background();
    fetched
}

/// `$XDG_CACHE_HOME/olm/names/HASH/FILE.json`, per cluster and user.
fn cache_file(global: &Global, file: &str) -> Option<PathBuf> {
    let root = cache::folder()?;
    let mut hasher = DefaultHasher::new();
    let user = (&global.impersonate, &global.impersonate_group);
    let kubeconfig = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    (kubeconfig, &global.kubeconfig, &global.context, user).hash(&mut hasher);
    let folder = root.join("names").join(format!("{:016x}", hasher.finish()));
    is_plain(file).then(|| folder.join(format!("{file}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_and_nothing_else_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/names.json");
        assert_eq!(read(&path), []);
        let channels = vec!["stable".to_owned()];
        let names = [Known { name: "etcd".into(), description: "etcd".into(), package: None, channels }];
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

    #[test]
    fn one_process_at_a_time_refreshes_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hash/packages.json");
        let names = |name: &str| Some(vec![Known { name: name.into(), ..Known::default() }]);
        let name = || read(&path).first().map(|known| known.name.clone());
        // given old names, and a process that refreshes them
        refresh_alone(&path, FRESH, || names("old"));
        let held = lock(&path).unwrap();
        // when another one is started, then it fetches nothing, and the old names remain
        refresh_alone(&path, Duration::ZERO, || panic!("a second refresh"));
        assert_eq!(name().as_deref(), Some("old"));
        // the lock of other names is another one
        assert!(lock(&path.with_file_name("namespaces.json")).is_some());
        // when the process ends, its file does not block the next refresh
        held.unlock().unwrap();
        assert!(path.with_extension("lock").exists());
        refresh_alone(&path, Duration::ZERO, || names("new"));
        assert_eq!(name().as_deref(), Some("new"));
        // a file that was refreshed meanwhile is not fetched again
        refresh_alone(&path, FRESH, || panic!("fresh names"));
    }

    #[test]
    fn an_incomplete_line_names_the_cluster_and_the_package() {
        let line = |text: &str| Line::of(text.split(' ').map(OsString::from));
        let install = line("olm --context prod install etcd -n team-a --channel ");
        assert_eq!(install.global.context.as_deref(), Some("prod"));
        assert_eq!(install.global.namespace.as_deref(), Some("team-a"));
        assert_eq!(install.target.as_deref(), Some("etcd"));
        assert_eq!(line("olm set-channel mine st").target.as_deref(), Some("mine"));
        assert_eq!(line("olm -n a show").global.namespace.as_deref(), Some("a"));
        assert_eq!(line("olm nonsense --what").target, None);
    }

    #[test]
    fn a_name_cannot_leave_the_cache() {
        assert_eq!(cache_file(&Global::default(), "versions-../../x"), None);
    }
}
