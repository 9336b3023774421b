//! Commands of the operator's image in the first member's pod: fetch the snapshot and move the restored data
//! into place.
//!
//! A restarted node runs these containers again although etcd has data by then. So the data of etcd is only
//! written where none exists, and the snapshot stays next to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt;
use tokio::io::AsyncWriteExt;

use crate::storage::{STALL, Snapshot};

pub const TOKEN: &str = "ETCD_RESTORE_TOKEN";
/// Exit code of the fetch command for a temporary failure: the operator or its store is unreachable.
/// (EX_TEMPFAIL)
pub const NOT_NOW: u8 = 75;
/// Subdirectory that marks a data directory of etcd.
const MEMBER: &str = "member";

/// The operator's answer in place of a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("the operator rejected the request for the snapshot: {status}: {words}")]
struct Refused {
    status: reqwest::StatusCode,
    words: String,
}

/// Whether an error of [`fetch`] is temporary: of the network or of the store.
#[must_use]
pub fn may_pass(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Refused>().is_some_and(|refused| refused.status.is_server_error());
    refused || error.chain().any(|cause| cause.is::<reqwest::Error>())
}

/// Fetches a snapshot from the operator.
#[derive(Debug, clap::Args)]
pub struct FetchArgs {
    /// URL of the snapshot on the operator.
    #[arg(long)]
    pub url: String,
    /// Expected SHA-256 of its database.
    #[arg(long)]
    pub sha256: String,
    /// Output file.
    #[arg(long)]
    pub to: PathBuf,
    /// Directory of an earlier attempt, removed first.
    #[arg(long)]
    pub clear: Option<PathBuf>,
}

/// Moves restored data into place.
#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// Directory of the restored data.
    #[arg(long)]
    pub from: PathBuf,
    /// Data directory of etcd.
    #[arg(long)]
    pub to: PathBuf,
}

/// Copies the etcd data.
#[derive(Debug, clap::Args)]
pub struct CopyArgs {
    /// Source directory, mounted read-only.
    #[arg(long)]
    pub from: PathBuf,
    /// Target directory.
    #[arg(long)]
    pub to: PathBuf,
    /// Directory of an earlier attempt, removed first.
    #[arg(long)]
    pub clear: Option<PathBuf>,
}

/// Fetches the snapshot, unless a complete one already exists.
/// # Errors
/// When it does not arrive completely.
pub async fn fetch(args: &FetchArgs, token: Option<String>) -> anyhow::Result<()> {
    args.clear.as_deref().map_or(Ok(()), remove)?;
    if check(&args.to, &args.sha256).await.is_ok() {
        tracing::info!("snapshot already present");
        return Ok(());
    }
    let token = token.with_context(|| format!("the environment variable {TOKEN} is missing"))?;
    // The operator serves plain HTTP: an image without certificate authorities is sufficient.
    let client = reqwest::Client::builder()
        .tls_certs_only([])
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(STALL)
        .build()
        .context("failed to create an HTTP client")?;
    let answer = client.get(&args.url).bearer_auth(token).send().await;
    let answer = answer.with_context(|| format!("failed to connect to the operator at {}", args.url))?;
    if !answer.status().is_success() {
        let (status, words) = (answer.status(), answer.text().await.unwrap_or_default());
        bail!(Refused { status, words: words.chars().take(500).collect() });
    }
    let folder = args.to.parent().unwrap_or(Path::new("/"));
    tokio::fs::create_dir_all(folder)
        .await
        .with_context(|| format!("failed to create {}", folder.display()))?;
    let partial = args.to.with_extension("partial");
    let written =
        write(&partial, answer).await.with_context(|| format!("failed to write {}", partial.display()))?;
    tracing::info!(bytes = written, "fetched");
    check(&partial, &args.sha256).await?;
    tokio::fs::rename(&partial, &args.to).await.context("failed to move the snapshot into place")?;
    Ok(())
}

async fn write(path: &Path, answer: reqwest::Response) -> anyhow::Result<u64> {
    let mut file = tokio::fs::File::create(path).await?;
    let mut pieces = answer.bytes_stream();
    let mut written = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.context("the connection to the operator was interrupted")?;
        file.write_all(&piece).await?;
        written += piece.len() as u64;
    }
    file.sync_all().await?;
    Ok(written)
}

/// Verifies the file as written to disk.
async fn check(path: &Path, sha256: &str) -> anyhow::Result<()> {
    let file =
        tokio::fs::File::open(path).await.with_context(|| format!("failed to open {}", path.display()))?;
    let mut pieces = tokio_util::io::ReaderStream::with_capacity(file, 1 << 20);
    let mut snapshot = Snapshot::default();
    while let Some(piece) = pieces.next().await {
        snapshot.push(&piece.with_context(|| format!("failed to read {}", path.display()))?);
    }
    let whole = snapshot.finish().context("the snapshot is damaged")?;
    if whole.sha256 != sha256 {
        bail!("the snapshot differs from the verified one: SHA-256 {}, expected {sha256}", whole.sha256);
    }
    Ok(())
}

/// Copies the data. An existing copy stays unchanged: etcd may have completed it.
/// # Errors
/// When the source is missing; on file system errors.
pub fn copy(args: &CopyArgs) -> anyhow::Result<()> {
    args.clear.as_deref().map_or(Ok(()), remove)?;
    if has_data(&args.to)? {
        tracing::info!("copy already present");
        return Ok(());
    }
    if !has_data(&args.from)? {
        bail!("{} contains no etcd data", args.from.display());
    }
    let partial = args.to.with_extension("partial");
    remove(&partial)?;
    std::fs::create_dir_all(&partial).with_context(|| format!("failed to create {}", partial.display()))?;
    let bytes = copy_folder(&args.from.join(MEMBER), &partial.join(MEMBER))?;
    absent_is_fine(std::fs::remove_dir(&args.to))
        .with_context(|| format!("{} is not empty", args.to.display()))?;
    std::fs::rename(&partial, &args.to)
        .with_context(|| format!("failed to move the copy to {}", args.to.display()))?;
    tracing::info!(bytes, "copied");
    Ok(())
}

/// Copies a directory with its permissions; etcd has only files and directories.
fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<u64> {
    let failed = || format!("failed to copy {}", from.display());
    std::fs::create_dir(to).with_context(failed)?;
    let mut bytes = 0;
    for entry in std::fs::read_dir(from).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let (kind, target) = (entry.file_type().with_context(failed)?, to.join(entry.file_name()));
        if kind.is_dir() {
            bytes += copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            let failed = || format!("failed to copy {}", entry.path().display());
            bytes += std::fs::copy(entry.path(), &target).with_context(failed)?;
            std::fs::File::open(&target).and_then(|file| file.sync_all()).with_context(failed)?;
        } else {
            bail!("{} is neither a file nor a directory", entry.path().display());
        }
    }
    let permissions = std::fs::metadata(from).with_context(failed)?.permissions();
    std::fs::set_permissions(to, permissions).with_context(failed)?;
    Ok(bytes)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    absent_is_fine(std::fs::remove_dir_all(folder))
        .with_context(|| format!("failed to remove {}", folder.display()))
}

/// Moves restored data into place, unless etcd has data.
/// # Errors
/// On file system errors.
pub fn install(args: &InstallArgs) -> anyhow::Result<()> {
    if has_data(&args.to)? {
        tracing::info!("etcd already has data; keeping it");
        return remove(&args.from);
    }
    if !has_data(&args.from)? {
        bail!("{} contains no etcd data", args.from.display());
    }
    // An empty directory, of a volume or an interrupted attempt, is not data.
    absent_is_fine(std::fs::remove_dir(&args.to))
        .with_context(|| format!("{} is not empty", args.to.display()))?;
    std::fs::rename(&args.from, &args.to)
        .with_context(|| format!("failed to move the data to {}", args.to.display()))
}

fn has_data(folder: &Path) -> anyhow::Result<bool> {
    let member = folder.join(MEMBER);
    member.try_exists().with_context(|| format!("failed to inspect {}", member.display()))
}

fn absent_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn transient_failures_are_distinguished_from_permanent_ones() {
        let dir = tempfile::tempdir().unwrap();
        let get = async |url: String, token: Option<&str>| {
            let args =
                FetchArgs { url, sha256: "ab".into(), to: dir.path().join("snapshot.db"), clear: None };
            fetch(&args, token.map(str::to_owned)).await.unwrap_err()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let answer = async |axum::extract::Path(code): axum::extract::Path<u16>| {
            (axum::http::StatusCode::from_u16(code).unwrap(), "its words")
        };
        let app = axum::Router::new().route("/{code}", axum::routing::get(answer));
        tokio::spawn(axum::serve(listener, app).into_future());
        for (code, passes) in [(502, true), (503, true), (404, false), (401, false), (200, false)] {
            let error = get(format!("{base}/{code}"), Some("t")).await;
            assert_eq!(may_pass(&error), passes, "{error:#}");
            assert!(code == 200 || error.to_string().contains("its words"), "{error:#}");
        }
        // no listener
        assert!(may_pass(&get("http://127.0.0.1:1/".into(), Some("t")).await));
        assert!(!may_pass(&get(base, None).await));
    }

    #[test]
    fn the_data_of_a_survivor_is_copied_whole_and_left_as_it_is() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("survivor"), dir.path().join("restore/copy"));
        let (clear, snap) = (dir.path().join("restore/data"), from.join("member/snap"));
        let args = CopyArgs { from: from.clone(), to: to.clone(), clear: Some(clear.clone()) };
        assert!(copy(&args).unwrap_err().to_string().contains("contains no etcd data"));
        std::fs::create_dir_all(&snap).unwrap();
        std::fs::set_permissions(&snap, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(snap.join("db"), "written").unwrap();
        // an interrupted attempt, and the leftovers of the next container
        std::fs::create_dir_all(to.with_extension("partial").join("member/old")).unwrap();
        std::fs::create_dir_all(&clear).unwrap();
        copy(&args).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("member/snap/db")).unwrap(), "written");
        assert_eq!(std::fs::metadata(to.join("member/snap")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!to.join("member/old").exists() && !clear.exists());
        assert_eq!(std::fs::read_to_string(snap.join("db")).unwrap(), "written");
        // The node restarts: etcd completed the copy, and the claim is not mounted.
        std::fs::write(to.join("member/snap/db"), "completed").unwrap();
        std::fs::remove_dir_all(&from).unwrap();
        copy(&args).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("member/snap/db")).unwrap(), "completed");
        // A link might point outside of the directory.
        let (from, to) = (dir.path().join("linked"), dir.path().join("other"));
        std::fs::create_dir_all(from.join("member")).unwrap();
        symlink("/etc/passwd", from.join("member/db")).unwrap();
        let refused = copy(&CopyArgs { from, to: to.clone(), clear: None }).unwrap_err();
        assert!(refused.to_string().contains("neither a file nor a directory"), "{refused:#}");
        assert!(!to.exists());
    }

    #[test]
    fn data_of_etcd_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("restore"), dir.path().join("data"));
        let args = InstallArgs { from: from.clone(), to: to.clone() };
        assert!(install(&args).unwrap_err().to_string().contains("contains no etcd data"));
        std::fs::create_dir_all(from.join("member/snap")).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        install(&args).unwrap();
        assert!(to.join("member/snap").exists() && !from.exists());
        // The node restarts.
        std::fs::write(to.join("member/written"), "since").unwrap();
        std::fs::create_dir_all(from.join("member/snap")).unwrap();
        install(&args).unwrap();
        assert!(to.join("member/written").exists() && !from.exists());
    }
}
