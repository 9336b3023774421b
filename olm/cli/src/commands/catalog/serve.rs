//! `olm catalog serve`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use olm_catalog::{Catalog, Store};
use olm_catalog_serve::{Addresses, ServeError, Server};
use olm_catalog_sources::{Options, Revision};
use olm_plan::shell_word;
use tempfile::TempDir;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};

use super::read::report_problems;
use crate::{
    args::ServeArgs,
    exit::{Code, Failure},
    output::{count, print_line},
    prose::printable,
    signals::terminated,
    source::{self, Named, Opened, blocking},
};

/// Polling interval for names and times of local files with `--watch`.
const LOCAL_INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(args: ServeArgs) -> Result<(), Failure> {
    let mut stop = Box::pin(terminated());
    let prepared = async {
        let mut reader = Reader::new(&args)?;
        let catalog = reader.read().await?;
        let Some(catalog) = catalog.filter(|catalog| !catalog.is_empty()) else {
            let text = format!("{} contains no readable package", args.source);
            return Err(Failure::new(Code::NotFound, text)
                .hint(format!("olm catalog validate {}", shell_word(&args.source))));
        };
        Ok((reader, catalog))
    };
    let (mut reader, catalog) = tokio::select! {
        prepared = prepared => prepared?,
        () = &mut stop => return Ok(()),
    };
    let wanted = Addresses { http: Some(args.address), grpc: Some(args.grpc) };
    let server = Server::bind(Arc::clone(&catalog), &args.name, wanted).await.map_err(refused)?;
    let bound = server.addresses();
    // Installed before the usage message mentions the signal, which by default ends the program.
    let mut hangups = signal(SignalKind::hangup())?;
    print_line(&usage(&catalog, &args.name, bound))?;
    let current = server.current();
    let mut serving = Serving::start(server);
    loop {
        let changed = tokio::select! {
            () = &mut stop => return serving.stop().await,
            ended = &mut serving.task => return Serving::ended(ended),
            _ = hangups.recv() => reader.read().await,
            changed = reader.changed(), if args.watch => changed,
        };
        match changed {
            Ok(Some(catalog)) if catalog.is_empty() => {
                eprintln!("warning: {} contains no package; still serving the previous content", args.source);
            }
            Ok(Some(catalog)) => {
                let packages = count(catalog.len(), "package");
                let digest = catalog.digest.clone();
                current.set(catalog);
                print_line(&format!("reloaded: {packages}, {digest}"))?;
            }
            Ok(None) => print_line("reloaded: no changes")?,
            Err(failure) => {
                eprintln!("warning: {}; still serving the previous content", printable(&failure.message));
            }
        }
    }
}

fn refused(error: ServeError) -> Failure {
    let code = match error {
        ServeError::Name(_) => Code::Usage,
        _ => Code::Unexpected,
    };
    Failure::new(code, error.to_string())
}

fn usage(catalog: &Catalog, name: &str, bound: Addresses) -> String {
    let text = |address: Option<std::net::SocketAddr>| address.map(|a| a.to_string()).unwrap_or_default();
    let (http, grpc) = (text(bound.http), text(bound.grpc));
    let packages = count(catalog.len(), "package");
    let package = catalog.summaries().next().map(|summary| printable(&summary.name)).unwrap_or_default();
    let origin = printable(&catalog.origin);
    format!(
        "\
serving {packages} of {origin}
  HTTP  curl http://{http}/catalogs/{name}/api/v1/packages
        curl 'http://{http}/catalogs/{name}/api/v1/metas?package={package}'
  gRPC  grpcurl -plaintext {grpc} api.Registry/ListPackages
  as a CatalogSource, if the cluster can reach the address:
        spec: {{sourceType: grpc, address: \"{grpc}\"}}
SIGHUP reloads the source, Ctrl-C stops the server"
    )
}

/// A running server.
struct Serving {
    task: JoinHandle<Result<(), ServeError>>,
    stop: watch::Sender<bool>,
}

impl Serving {
    fn start(server: Server) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let until = async move { _ = stopped.wait_for(|stop| *stop).await };
        Self { task: tokio::spawn(server.run(until)), stop }
    }

    async fn stop(self) -> Result<(), Failure> {
        _ = self.stop.send(true);
        Self::ended(self.task.await)
    }

    fn ended(ended: Result<Result<(), ServeError>, tokio::task::JoinError>) -> Result<(), Failure> {
        match ended {
            Ok(served) => served.map_err(refused),
            Err(error) => {
                Err(Failure::new(Code::Unexpected, format!("the server stopped unexpectedly: {error}")))
            }
        }
    }
}

/// Reads the source into a store, so that memory holds only an index and unchanged packages are not read
/// again.
struct Reader {
    named: Named,
    options: Options,
    /// Interval of requests for the digest of a tag or for an `ETag`.
    interval: Duration,
    store: Store,
    /// State of the source at the last read.
    seen: Seen,
    /// Holds the store and temporary files.
    folder: TempDir,
}

#[derive(Default)]
struct Seen {
    digest: String,
    files: Option<Vec<FileState>>,
    revision: Option<Revision>,
}

type FileState = (PathBuf, u64, Option<SystemTime>);

impl Reader {
    fn new(args: &ServeArgs) -> Result<Self, Failure> {
        let named = Named::parse(&args.source)?;
        let options = source::options(&args.registry)?;
        let folder = tempfile::Builder::new().prefix("olm-serve-").tempdir()?;
        let store = Store::open(&folder.path().join("store"))
            .map_err(|error| Failure::new(Code::Unexpected, error.to_string()))?;
        Ok(Self { named, options, interval: args.interval, store, seen: Seen::default(), folder })
    }

    /// The catalog, if it has changed.
    async fn read(&mut self) -> Result<Option<Arc<Catalog>>, Failure> {
        // Recorded even if reading fails: the same files would fail again.
        self.seen.files = self.files().await?;
        let opened = Opened::open(&self.named, &self.options).await?;
        self.take(opened).await
    }

    async fn take(&mut self, opened: Opened) -> Result<Option<Arc<Catalog>>, Failure> {
        let (store, link) = (self.store.clone(), self.folder.path().join("file"));
        let (origin, path) = (opened.origin.clone(), opened.path.clone());
        let refreshed = blocking(move || refresh(&store, &origin, &path, &link)).await?;
        let catalog = refreshed.map_err(|error| Failure::new(Code::Unexpected, error))?;
        self.seen.revision = opened.revision;
        if catalog.digest == self.seen.digest {
            return Ok(None);
        }
        report_problems(&catalog, None);
        if !catalog.is_empty() {
            self.seen.digest.clone_from(&catalog.digest);
        }
        Ok(Some(catalog))
    }

    /// Waits until the source has changed, and reads it.
    async fn changed(&mut self) -> Result<Option<Arc<Catalog>>, Failure> {
        if let Named::Source(wanted) = &self.named
            && self.seen.files.is_none()
        {
            loop {
                tokio::time::sleep(self.interval).await;
                let found = Opened::fetched(wanted, &self.options, self.seen.revision.as_ref()).await?;
                if let Some(opened) = found {
                    return self.take(opened).await;
                }
            }
        }
        if matches!(self.named, Named::Stdin) {
            return std::future::pending().await;
        }
        let mut before = None;
        loop {
            tokio::time::sleep(LOCAL_INTERVAL).await;
            let now = self.files().await?;
            // Wait for a pending write to finish.
            if now != self.seen.files && before.as_ref() == Some(&now) {
                return self.read().await;
            }
            before = Some(now);
        }
    }

    /// Names, sizes and times of the source's files; `None` for a remote source.
    async fn files(&self) -> Result<Option<Vec<FileState>>, Failure> {
        use olm_catalog_sources::Source;
        let path = match &self.named {
            Named::Folder(path) | Named::File(path) => path.clone(),
            Named::Source(Source::Tarball { path }) => path.clone(),
            Named::Source(Source::OciLayout { path, .. }) => path.join("index.json"),
            Named::Source(_) | Named::Stdin => return Ok(None),
        };
        blocking(move || {
            let mut files = Vec::new();
            list(&path, &mut files, 0);
            files.sort();
            Some(files)
        })
        .await
    }
}

/// A deeper nesting is a loop of links.
const DEEPEST: usize = 32;

/// Errors are ignored here: reading the source reports them.
fn list(path: &Path, files: &mut Vec<FileState>, depth: usize) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if !metadata.is_dir() {
        files.push((path.to_owned(), metadata.len(), metadata.modified().ok()));
        return;
    }
    if depth < DEEPEST {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| list(&entry.path(), files, depth + 1));
    }
}

fn refresh(store: &Store, origin: &str, path: &Path, link: &Path) -> Result<Arc<Catalog>, String> {
    let dir = if path.is_dir() {
        path.to_owned()
    } else {
        // The store reads folders, so a single file is linked into one.
        _ = std::fs::remove_dir_all(link);
        let name = path.file_name().unwrap_or_default();
        let whole =
            path.canonicalize().map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        let linked =
            std::fs::create_dir_all(link).and_then(|()| std::os::unix::fs::symlink(whole, link.join(name)));
        linked.map_err(|error| format!("failed to create {}: {error}", link.display()))?;
        link.to_owned()
    };
    let refreshed = store.refresh_dir("catalog", origin, &dir).map_err(|error| error.to_string())?;
    Ok(refreshed.catalog)
}
