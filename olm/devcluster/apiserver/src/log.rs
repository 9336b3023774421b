//! The log on disk: a redb file, written by one thread that batches pending writes into one transaction.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Mutex, mpsc},
    thread::JoinHandle,
};

use olm_devcluster_machinery::private;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde_json::Value;

use super::store::{Key, Pending};

/// `resource NUL namespace NUL name` to the object as JSON.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const REVISION: &str = "revision";
const FORMAT: &str = "format";
const FORMAT_VERSION: u64 = 1;
/// Large enough to amortize a sync, small enough for short transactions.
const BATCH: usize = 256;
/// redb's default is a gigabyte; all objects are in memory anyway.
const CACHE_BYTES: usize = 4 << 20;

/// A failure to open or write the log.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LogError {
    #[error(
        "{path} is in use by another process: stop the other `olm up` process, or use another data directory"
    )]
    InUse { path: String },
    #[error("{path} was written by a newer version (format {found}, supported format {FORMAT_VERSION})")]
    Format { path: String, found: u64 },
    #[error("no space left on the device of {path}: no changes were made; free space and retry")]
    Full { path: String },
    #[error("failed to use {path}: {reason}")]
    Io { path: String, reason: String },
    #[error("the server is shutting down")]
    Stopped,
}

/// One write for the log.
pub(crate) struct Record<'a> {
    pub key: &'a Key,
    pub rv: u64,
    pub value: Option<&'a Value>,
}

type Loaded = (Database, u64, Vec<(Key, Value)>);

/// Handle of the writer thread.
pub(crate) struct Log {
    sender: Mutex<Option<mpsc::Sender<Pending>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the file and reads its objects.
    pub(crate) fn load(path: &Path) -> Result<Loaded, LogError> {
        let database = open(path)?;
        let fail = |error: redb::Error| failure(path, &error);
        let transaction = database.begin_write().map_err(|e| fail(e.into()))?;
        {
            transaction.open_table(OBJECTS).map_err(|e| fail(e.into()))?;
            let mut meta = transaction.open_table(META).map_err(|e| fail(e.into()))?;
            let found = meta.get(FORMAT).map_err(|e| fail(e.into()))?.map(|v| v.value());
            match found {
                None => {
                    meta.insert(FORMAT, FORMAT_VERSION).map_err(|e| fail(e.into()))?;
                }
                Some(FORMAT_VERSION) => {}
                Some(found) => return Err(LogError::Format { path: path.display().to_string(), found }),
            }
        }
        transaction.commit().map_err(|e| fail(e.into()))?;

        let transaction = database.begin_read().map_err(|e| fail(e.into()))?;
        let meta = transaction.open_table(META).map_err(|e| fail(e.into()))?;
        let revision = meta.get(REVISION).map_err(|e| fail(e.into()))?.map_or(0, |v| v.value());
        let table = transaction.open_table(OBJECTS).map_err(|e| fail(e.into()))?;
        let mut objects = Vec::new();
        for entry in table.iter().map_err(|e| fail(e.into()))? {
            let (key, value) = entry.map_err(|e| fail(e.into()))?;
            let mut parts = key.value().splitn(3, '\0');
            let (Some(resource), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
            else {
                let reason = format!("invalid key {:?}", key.value());
                return Err(LogError::Io { path: path.display().to_string(), reason });
            };
            let object = serde_json::from_slice(value.value()).map_err(|error| LogError::Io {
                path: path.display().to_string(),
                reason: format!("object {name:?} of {resource} is not JSON: {error}"),
            })?;
            objects.push((Key::new(resource, namespace, name), object));
        }
        drop((table, meta));
        transaction.close().map_err(|e| fail(e.into()))?;
        Ok((database, revision, objects))
    }

    /// Starts the writer. `settle` is called for every batch, written or refused, in order.
    pub(crate) fn start(
        path: &Path,
        database: Database,
        settle: impl Fn(Vec<Pending>, Result<(), LogError>) + Send + 'static,
    ) -> Result<Self, LogError> {
        let (sender, receiver) = mpsc::channel::<Pending>();
        let mut writer = Writer { path: path.to_owned(), database: Some(database) };
        let thread = std::thread::Builder::new()
            .name("olm-store".to_owned())
            .spawn(move || {
                while let Ok(first) = receiver.recv() {
                    let mut batch = vec![first];
                    while batch.len() < BATCH
                        && let Ok(next) = receiver.try_recv()
                    {
                        batch.push(next);
                    }
                    let result = writer.write(&batch);
                    settle(batch, result);
                }
            })
            .map_err(|error| LogError::Io { path: path.display().to_string(), reason: error.to_string() })?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn send(&self, pending: Pending) -> Result<(), LogError> {
        let sender = self.sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sender.as_ref().ok_or(LogError::Stopped)?.send(pending).map_err(|_| LogError::Stopped)
    }

    /// Writes pending batches and closes the file.
    pub(crate) fn stop(&self) {
        self.sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the store's writer thread failed");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

fn open(path: &Path) -> Result<Database, LogError> {
    let file = private::open(path).map_err(|error| failure(path, &redb::Error::Io(error)))?;
    Database::builder().set_cache_size(CACHE_BYTES).create_file(file).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => LogError::InUse { path: path.display().to_string() },
        other => failure(path, &other.into()),
    })
}

fn failure(path: &Path, error: &redb::Error) -> LogError {
    let path = path.display().to_string();
    match error {
        redb::Error::Io(error) if is_full(error) => LogError::Full { path },
        redb::Error::DatabaseAlreadyOpen => LogError::InUse { path },
        other => LogError::Io { path, reason: other.to_string() },
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

struct Writer {
    path: PathBuf,
    /// Closed after an error: redb refuses further use of a file handle after a failure.
    database: Option<Database>,
}

impl Writer {
    fn write(&mut self, batch: &[Pending]) -> Result<(), LogError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open(&self.path)?,
        };
        commit(&database, batch).map_err(|error| failure(&self.path, &error))?;
        self.database = Some(database);
        Ok(())
    }
}

fn commit(database: &Database, batch: &[Pending]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut meta = transaction.open_table(META)?;
        for record in batch.iter().map(Pending::record) {
            let key = format!("{}\0{}\0{}", record.key.resource, record.key.namespace, record.key.name);
            match record.value {
                Some(value) => {
                    let bytes = serde_json::to_vec(value)
                        .map_err(|error| redb::Error::Io(io::Error::other(error)))?;
                    objects.insert(key.as_str(), bytes.as_slice())?;
                }
                None => {
                    objects.remove(key.as_str())?;
                }
            }
            meta.insert(REVISION, record.rv)?;
        }
    }
    transaction.commit()?;
    Ok(())
}
