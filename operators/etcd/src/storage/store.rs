//! One interface for all stores: whole objects, uploads in parts with a recordable id, metadata, pages.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    PutOptions,
};

use super::credentials::{Given, SecretData};
use super::error_text::error_text;
use super::key;
use super::keys::{Key, Keys};
use super::local::Folder;
use super::reading;
use super::seal::Sealer;
use super::target::{Kind, Target};
use super::upload::Failure;

/// Metadata of an object. Names have only letters: Azure rejects hyphens, proxies drop underscores.
pub type Labels = BTreeMap<String, String>;

/// Uid of the EtcdBackup or EtcdRestore that wrote it.
pub(crate) const LABEL_OWNER: &str = "backupuid";
/// Namespace and name of it.
pub(crate) const LABEL_NAME: &str = "backupname";
/// Minimum revision of the snapshot.
pub(crate) const LABEL_REVISION: &str = "etcdrevision";
/// etcd version of the source member.
pub(crate) const LABEL_VERSION: &str = "etcdversion";
/// Name of the encryption key.
pub(crate) const LABEL_KEY: &str = "backupkey";
/// Id of the source etcd cluster.
pub(crate) const LABEL_CLUSTER: &str = "etcdclusterid";

/// An existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Size in bytes.
    pub size: u64,
    pub labels: Labels,
}

/// An object being read.
pub struct Found {
    pub stored: Stored,
    /// Its bytes, decrypted if it is encrypted. The stream ends only after a complete read.
    pub pieces: BoxStream<'static, Result<Bytes, Failure>>,
}

/// An open store.
#[derive(Clone)]
pub struct Store {
    inner: Inner,
    /// Description for messages.
    place: String,
    /// No endpoint is set: AWS.
    aws: bool,
    /// With keys, writes are encrypted and reads must be.
    keys: Option<Arc<Keys>>,
}

#[derive(Clone)]
enum Inner {
    Cloud {
        objects: Arc<dyn ObjectStore>,
        /// For uploads with an id; Azure has none.
        parts: Option<Arc<dyn MultipartStore>>,
    },
    Local(Folder),
}

fn cloud<S: ObjectStore + MultipartStore>(store: S) -> Inner {
    let store = Arc::new(store);
    Inner::Cloud { objects: store.clone(), parts: Some(store) }
}

/// An upload in progress.
pub(super) enum Upload {
    /// With an id, by which it can be aborted after a crash.
    Parts { store: Arc<dyn MultipartStore>, id: String },
    /// Azure's: blocks known only to their sender. Azure drops uncommitted blocks a week after the last one
    /// was sent under the name.
    Blocks(Box<dyn MultipartUpload>),
    /// A file under a temporary name, which is the id.
    File { folder: Folder, id: String },
}

impl Upload {
    /// The id for an abort; none where that is impossible.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Parts { id, .. } | Self::File { id, .. } => Some(id),
            Self::Blocks(_) => None,
        }
    }
}

/// Size of a part. S3 requires at least 5 MiB and at most 10,000 parts: enough for 78 GiB, ten times etcd's
/// largest.
const PART: usize = 8 << 20;
/// Part size of a file: data in the processor's cache is written faster, but each part is a system call.
/// Between 64 KiB and 1 MiB this is the fastest.
const PART_OF_FILE: usize = 512 << 10;
/// Parts in transfer at the same time: with the one being filled 40 MiB of memory.
const AT_ONCE: usize = 4;

/// Hint where AWS reports an unknown key or bucket, or is unreachable.
const OTHER_SERVER: &str = ". hint: without s3.endpoint the operator uses AWS S3; for another server set \
 s3.endpoint to its URL, and s3.forcePathStyle to true for path-style buckets";

fn is_of_another_server(message: &str) -> bool {
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "error sending request"]
        .iter()
        .any(|sign| message.contains(sign))
}

impl Store {
    /// Parts in transfer at the same time. Those of one file would block each other.
    pub(super) const fn at_once(&self) -> usize {
        match self.inner {
            Inner::Cloud { .. } => AT_ONCE,
            Inner::Local(_) => 1,
        }
    }

    /// Size of all parts but the last.
    pub(super) const fn part(&self) -> usize {
        match self.inner {
            Inner::Cloud { .. } => PART,
            Inner::Local(_) => PART_OF_FILE,
        }
    }

    /// Opens the store of a target. `folder` is that of the object's namespace, for local targets.
    /// # Errors
    /// Invalid credentials or settings.
    pub fn open(
        target: &Target,
        secret: Option<&SecretData>,
        folder: Option<&FilePath>,
    ) -> Result<Self, String> {
        let given = Given::new(target, secret);
        let settings = |error: object_store::Error| error_text(&error);
        let inner = match &target.kind {
            Kind::S3 { endpoint, path_style } => {
                let builder =
                    given.s3(endpoint.as_deref(), *path_style, &target.bucket).map_err(|e| e.to_string())?;
                cloud(builder.build().map_err(settings)?)
            }
            Kind::Gcs { endpoint } => {
                let builder = given.gcs(endpoint.as_deref(), &target.bucket).map_err(|e| e.to_string())?;
                cloud(builder.build().map_err(settings)?)
            }
            Kind::Abs { endpoint } => {
                let builder = given.abs(endpoint.as_deref(), &target.bucket).map_err(|e| e.to_string())?;
                Inner::Cloud { objects: Arc::new(builder.build().map_err(settings)?), parts: None }
            }
            Kind::Local => {
                let folder = folder.ok_or(
                    "storageType Local: this operator has no backup directory; start \
                 it with --backup-dir and a volume mounted there",
                )?;
                Inner::Local(Folder::new(folder.join(&target.bucket)))
            }
        };
        let place = target.at(String::new()).uri();
        let aws = matches!(target.kind, Kind::S3 { endpoint: None, .. });
        Ok(Self { inner, place: place.trim_end_matches('/').to_owned(), aws, keys: None })
    }

    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys: Some(Arc::new(keys)), ..self }
    }

    /// Name of the encryption key; empty without encryption.
    #[must_use]
    pub fn key_name(&self) -> String {
        self.keys.as_ref().and_then(|keys| keys.current()).map(Key::name).unwrap_or_default()
    }

    /// Encryption of an object; none without keys.
    pub(super) fn sealer(&self) -> Result<Option<Sealer>, Failure> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let key =
            keys.current().ok_or_else(|| Failure::Sealed(format!("the key is missing: {}", keys.list())))?;
        Sealer::new(key).map(Some)
    }

    fn failed<E: Into<ErrorText>>(
        &self,
        verb: &'static str,
        key: &str,
    ) -> impl FnOnce(E) -> Failure + use<E> {
        let what = format!("{}/{key}", self.place);
        let aws = self.aws;
        move |error| {
            let ErrorText { mut message, missing } = error.into();
            if aws && is_of_another_server(&message) {
                message.push_str(OTHER_SERVER);
            }
            Failure::Store { verb, what, message, missing }
        }
    }

    /// Writes an object in one request.
    /// # Errors
    /// Errors of the store.
    pub(super) async fn put(&self, key: &str, labels: &Labels, bytes: Bytes) -> Result<(), Failure> {
        match &self.inner {
            Inner::Cloud { objects, .. } => {
                let options = PutOptions { attributes: attributes(labels), ..PutOptions::default() };
                let path = path(key)?;
                let answer = objects.put_opts(&path, bytes.into(), options).await;
                answer.map(drop).map_err(self.failed("write", key))
            }
            Inner::Local(_) => {
                let mut upload = self.begin(key, labels).await?;
                self.put_part(key, &mut upload, 0, 0, bytes).await?;
                self.complete(key, &mut upload, labels, Vec::new()).await
            }
        }
    }

    /// Starts an upload in parts.
    pub(super) async fn begin(&self, key: &str, labels: &Labels) -> Result<Upload, Failure> {
        match &self.inner {
            Inner::Cloud { objects, parts } => {
                let path = path(key)?;
                let options =
                    PutMultipartOptions { attributes: attributes(labels), ..PutMultipartOptions::default() };
                let upload = match parts {
                    Some(store) => store
                        .create_multipart_opts(&path, options)
                        .await
                        .map(|id| Upload::Parts { store: store.clone(), id }),
                    None => objects.put_multipart_opts(&path, options).await.map(Upload::Blocks),
                };
                upload.map_err(self.failed("begin to write", key))
            }
            Inner::Local(folder) => {
                let owner = labels.get(LABEL_OWNER).map_or("", String::as_str);
                let id = folder.begin(key, owner).await.map_err(self.failed("begin to write", key))?;
                Ok(Upload::File { folder: folder.clone(), id })
            }
        }
    }

    /// Sends a part. Parts start in their order and may transfer concurrently.
    pub(super) fn put_part(
        &self,
        key: &str,
        upload: &mut Upload,
        index: usize,
        offset: u64,
        bytes: Bytes,
    ) -> BoxFuture<'static, Result<PartId, Failure>> {
        const VERB: &str = "write a part of";
        // Blocks and files need no part ids.
        let known = |()| PartId { content_id: String::new() };
        match upload {
            Upload::Parts { store, id } => {
                let (store, id, path, failed) =
                    (store.clone(), id.clone(), path(key), self.failed(VERB, key));
                async move { store.put_part(&path?, &id, index, bytes.into()).await.map_err(failed) }.boxed()
            }
            Upload::Blocks(blocks) => {
                let (sent, failed) = (blocks.put_part(bytes.into()), self.failed(VERB, key));
                async move { sent.await.map(known).map_err(failed) }.boxed()
            }
            Upload::File { folder, id } => {
                let (folder, id, failed) = (folder.clone(), id.clone(), self.failed(VERB, key));
                async move { folder.put_part(id, offset, bytes).await.map(known).map_err(failed) }.boxed()
            }
        }
    }

    /// Completes the object from its parts.
    pub(super) async fn complete(
        &self,
        key: &str,
        upload: &mut Upload,
        labels: &Labels,
        done: Vec<PartId>,
    ) -> Result<(), Failure> {
        let failed = self.failed("complete the upload of", key);
        match upload {
            Upload::Parts { store, id } => {
                store.complete_multipart(&path(key)?, id, done).await.map(drop).map_err(failed)
            }
            Upload::Blocks(blocks) => blocks.complete().await.map(drop).map_err(failed),
            Upload::File { folder, id } => {
                folder.complete(key, id.clone(), labels).await.map_err(self.failed("move into place", key))
            }
        }
    }

    /// Aborts an upload. A missing one counts as aborted.
    /// # Errors
    /// Errors of the store.
    pub async fn abort(&self, key: &str, id: &str) -> Result<(), Failure> {
        let result = match &self.inner {
            Inner::Cloud { parts: Some(store), .. } => store
                .abort_multipart(&path(key)?, &id.to_owned())
                .await
                .map_err(self.failed("abort the upload of", key)),
            Inner::Cloud { parts: None, .. } => Ok(()),
            Inner::Local(folder) => {
                folder.abort(id.to_owned()).await.map_err(self.failed("abort the upload of", key))
            }
        };
        match result {
            Err(Failure::Store { missing: true, .. }) => Ok(()),
            other => other,
        }
    }

    /// Size and metadata; none for a missing object.
    /// # Errors
    /// Errors of the store.
    pub async fn head(&self, key: &str) -> Result<Option<Stored>, Failure> {
        match &self.inner {
            Inner::Cloud { objects, .. } => {
                let options = GetOptions { head: true, ..GetOptions::default() };
                match objects.get_opts(&path(key)?, options).await {
                    Ok(found) => {
                        Ok(Some(Stored { size: found.meta.size, labels: labels(&found.attributes) }))
                    }
                    // A missing bucket gives the same answer; the next read or write reports it.
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(self.failed("inspect", key)(error)),
                }
            }
            Inner::Local(folder) => folder.head(key).await.map_err(self.failed("inspect", key)),
        }
    }

    /// Reads an object.
    /// # Errors
    /// Errors of the store.
    pub async fn get(&self, key: &str) -> Result<Found, Failure> {
        let (stored, pieces) = match &self.inner {
            Inner::Cloud { objects, .. } => {
                let found = objects.get(&path(key)?).await.map_err(self.failed("read", key))?;
                let stored = Stored { size: found.meta.size, labels: labels(&found.attributes) };
                (stored, found.into_stream().map_err(|error| error_text(&error)).boxed())
            }
            Inner::Local(folder) => {
                let stored = folder.head(key).await.map_err(self.failed("inspect", key))?;
                let missing = || {
                    let message = "file not found";
                    self.failed("read", key)(std::io::Error::new(std::io::ErrorKind::NotFound, message))
                };
                let stored = stored.ok_or_else(missing)?;
                let pieces = folder.get(key).await.map_err(self.failed("read", key))?;
                (stored, pieces.map_err(|error| error.to_string()).boxed())
            }
        };
        Ok(Found { pieces: reading::whole(pieces, stored.size, self.keys.clone()), stored })
    }

    /// Keys of all periodic backups of a path, and of other objects named like them.
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self, path_: &str) -> Result<Vec<String>, Failure> {
        let begin = key::prefix(path_);
        match &self.inner {
            Inner::Cloud { objects, .. } => {
                let folder = begin.rsplit_once('/').map(|(folder, _)| path(folder)).transpose()?;
                // Stores list in key order, by pages: only the range of this path is read.
                let listed = objects.list_with_offset(folder.as_ref(), &path(&begin)?);
                let mut keys = Vec::new();
                let mut ordered = true;
                futures::pin_mut!(listed);
                while let Some(object) = listed.try_next().await.map_err(self.failed("list", &begin))? {
                    let key = object.location.to_string();
                    ordered &= keys.last().is_none_or(|last: &String| *last < key);
                    if key.starts_with(&begin) {
                        keys.push(key);
                    } else if ordered && key > begin {
                        break;
                    }
                }
                Ok(keys)
            }
            Inner::Local(folder) => folder.list(&begin).await.map_err(self.failed("list", &begin)),
        }
    }

    /// Deletes an object; a missing one is not an error.
    /// # Errors
    /// Errors of the store.
    pub async fn delete(&self, key: &str) -> Result<(), Failure> {
        match &self.inner {
            Inner::Cloud { objects, .. } => match objects.delete(&path(key)?).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.failed("delete", key)(error)),
            },
            Inner::Local(folder) => folder.delete(key).await.map_err(self.failed("delete", key)),
        }
    }
}

/// A store's error message.
struct ErrorText {
    message: String,
    missing: bool,
}

impl From<object_store::Error> for ErrorText {
    fn from(error: object_store::Error) -> Self {
        Self { missing: matches!(error, object_store::Error::NotFound { .. }), message: error_text(&error) }
    }
}

impl From<std::io::Error> for ErrorText {
    fn from(error: std::io::Error) -> Self {
        Self { missing: error.kind() == std::io::ErrorKind::NotFound, message: error.to_string() }
    }
}

fn path(key: &str) -> Result<Path, Failure> {
    Path::parse(key).map_err(|error| Failure::Key { key: key.to_owned(), why: error.to_string() })
}

fn attributes(labels: &Labels) -> Attributes {
    labels.iter().map(|(k, v)| (Attribute::Metadata(k.clone().into()), v.clone())).collect()
}

fn labels(attributes: &Attributes) -> Labels {
    let own = attributes.iter().filter_map(|(attribute, value)| match attribute {
        Attribute::Metadata(name) => Some((name.to_lowercase(), value.to_string())),
        _ => None,
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_server_is_named_a_key_of_another_one_is_explained() {
        let store = |endpoint: Option<&str>| {
            let kind = Kind::S3 { endpoint: endpoint.map(Into::into), path_style: false };
            let target = Target { kind, bucket: "b".into(), key: "k".into(), secret: Some("aws".into()) };
            let credentials = b"[default]\naws_access_key_id = a\naws_secret_access_key = s\n".to_vec();
            let secret = SecretData::from([("credentials".to_owned(), credentials)]);
            Store::open(&target, Some(&secret), None).unwrap()
        };
        let message = |store: &Store, text: &str| {
            let source = text.to_owned().into();
            store.failed("write", "k")(object_store::Error::Generic { store: "S3", source }).to_string()
        };
        let unknown = "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>";
        let (aws, other) = (store(None), store(Some("https://minio.example.org")));
        assert!(message(&aws, unknown).contains("set s3.endpoint to its URL"), "{}", message(&aws, unknown));
        assert!(message(&aws, "error sending request").contains("s3.forcePathStyle"));
        assert!(!message(&other, unknown).contains("hint"));
        let refused = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
        assert!(!message(&aws, refused).contains("hint"));
    }
}
