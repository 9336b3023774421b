//! One face for all stores: whole objects, uploads in parts with an id that can be written down, metadata, pages.

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
use super::key;
use super::keys::{Key, Keys};
use super::local::Folder;
use super::reading;
use super::seal::Sealer;
use super::target::{Kind, Target};
use super::upload::Failure;
use super::words::words;

/// Metadata of an object. Names are letters alone: Azure takes no hyphens, proxies drop underscores.
pub type Labels = BTreeMap<String, String>;

/// Uid of the EtcdBackup or EtcdRestore that wrote it.
pub(crate) const LABEL_OWNER: &str = "backupuid";
/// Namespace and name of it.
pub(crate) const LABEL_NAME: &str = "backupname";
/// Revision that it holds at least.
pub(crate) const LABEL_REVISION: &str = "etcdrevision";
/// etcd version of the member it is from.
pub(crate) const LABEL_VERSION: &str = "etcdversion";
/// Name of the key that it is encrypted with.
pub(crate) const LABEL_KEY: &str = "backupkey";
/// Id of the etcd cluster it is from.
pub(crate) const LABEL_CLUSTER: &str = "etcdclusterid";

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Size in bytes.
    pub size: u64,
    /// Metadata.
    pub labels: Labels,
}

/// An object that is being read.
pub struct Found {
    pub stored: Stored,
    /// Its bytes, decrypted where they are encrypted. The end comes after all of it came.
    pub pieces: BoxStream<'static, Result<Bytes, Failure>>,
}

/// A store that is open.
#[derive(Clone)]
pub struct Store {
    inner: Inner,
    /// Where in words.
    place: String,
    /// No server was named, so it is that of AWS.
    aws: bool,
    /// What is written is encrypted, and what is read must be.
    keys: Option<Arc<Keys>>,
}

#[derive(Clone)]
enum Inner {
    Cloud {
        objects: Arc<dyn ObjectStore>,
        /// For uploads that have an id; Azure's have none.
        parts: Option<Arc<dyn MultipartStore>>,
    },
    Local(Folder),
}

fn cloud<S: ObjectStore + MultipartStore>(store: S) -> Inner {
    let store = Arc::new(store);
    Inner::Cloud { objects: store.clone(), parts: Some(store) }
}

/// An upload in parts that was begun.
pub(super) enum Upload {
    /// With an id, by which whoever comes after a crash takes it back.
    Parts { store: Arc<dyn MultipartStore>, id: String },
    /// Azure's: blocks of which nobody knows but who sends them. Those that are never put together Azure drops a week
    /// after the last that was sent under the name.
    Blocks(Box<dyn MultipartUpload>),
    /// A file under another name, which is the id.
    File { folder: Folder, id: String },
}

impl Upload {
    /// By what it can be taken back; none where nothing can.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Parts { id, .. } | Self::File { id, .. } => Some(id),
            Self::Blocks(_) => None,
        }
    }
}

/// Size of a part. S3 takes no smaller ones than 5 MiB and at most 10,000 of them: enough for 78 GiB, ten times etcd's largest.
const PART: usize = 8 << 20;
/// The same in a file: what is written while it is in the processor's cache is written faster, but each part is a call of its own. Between
/// 64 KiB and 1 MiB this is the fastest.
const PART_OF_FILE: usize = 512 << 10;
/// So many parts are on their way at the same time: with the one that is being filled 40 MiB of memory.
const AT_ONCE: usize = 4;

/// What to do where the server of AWS answers that it knows no such key or bucket, or cannot be reached.
const OTHER_SERVER: &str = ". hint: without s3.endpoint the operator uses AWS S3; for another server set \
 s3.endpoint to its URL, and s3.forcePathStyle to true for path-style buckets";

fn is_of_another_server(words: &str) -> bool {
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "NoSuchBucket", "error sending request"]
        .iter()
        .any(|sign| words.contains(sign))
}

impl Store {
    /// How many parts may be on their way at the same time. Those of one file would wait for each other.
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
    ///
    /// # Errors
    /// What is wrong with the credentials or the settings.
    pub fn open(
        target: &Target,
        secret: Option<&SecretData>,
        folder: Option<&FilePath>,
    ) -> Result<Self, String> {
        let given = Given::new(target, secret);
        let settings = |error: object_store::Error| words(&error);
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

    /// The same, with encryption.
    #[must_use]
    pub fn with_keys(self, keys: Keys) -> Self {
        Self { keys: Some(Arc::new(keys)), ..self }
    }

    /// Name of the key that is encrypted with; empty without encryption.
    #[must_use]
    pub fn key_name(&self) -> String {
        self.keys.as_ref().and_then(|keys| keys.current()).map(Key::name).unwrap_or_default()
    }

    /// What encrypts an object; none without encryption.
    pub(super) fn sealer(&self) -> Result<Option<Sealer>, Failure> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let key =
            keys.current().ok_or_else(|| Failure::Sealed(format!("the key is missing: {}", keys.list())))?;
        Sealer::new(key).map(Some)
    }

    fn failed<E: Into<Said>>(&self, verb: &'static str, key: &str) -> impl FnOnce(E) -> Failure + use<E> {
        let what = format!("{}/{key}", self.place);
        let aws = self.aws;
        move |error| {
            let Said { mut words, missing } = error.into();
            if aws && is_of_another_server(&words) {
                words.push_str(OTHER_SERVER);
            }
            Failure::Store { verb, what, words, missing }
        }
    }

    /// Writes an object in one piece.
    ///
    /// # Errors
    /// What the store said.
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

    /// Begins an upload in parts.
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

    /// Sends a part. Parts are asked for in their order, and may then be on their way side by side.
    pub(super) fn put_part(
        &self,
        key: &str,
        upload: &mut Upload,
        index: usize,
        offset: u64,
        bytes: Bytes,
    ) -> BoxFuture<'static, Result<PartId, Failure>> {
        const VERB: &str = "write a part of";
        // Blocks and files know their parts themselves.
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

    /// The parts become an object.
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

    /// Takes an upload back. One that is gone already is as good as taken back.
    ///
    /// # Errors
    /// What the store said.
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

    /// Size and metadata; none when there is no such object.
    ///
    /// # Errors
    /// What the store said.
    pub async fn head(&self, key: &str) -> Result<Option<Stored>, Failure> {
        match &self.inner {
            Inner::Cloud { objects, .. } => {
                let options = GetOptions { head: true, ..GetOptions::default() };
                match objects.get_opts(&path(key)?, options).await {
                    Ok(found) => {
                        Ok(Some(Stored { size: found.meta.size, labels: labels(&found.attributes) }))
                    }
                    // A bucket that does not exist answers the same; who writes or reads next is told.
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(self.failed("inspect", key)(error)),
                }
            }
            Inner::Local(folder) => folder.head(key).await.map_err(self.failed("inspect", key)),
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// What the store said.
    pub async fn get(&self, key: &str) -> Result<Found, Failure> {
        let (stored, pieces) = match &self.inner {
            Inner::Cloud { objects, .. } => {
                let found = objects.get(&path(key)?).await.map_err(self.failed("read", key))?;
                let stored = Stored { size: found.meta.size, labels: labels(&found.attributes) };
                (stored, found.into_stream().map_err(|error| words(&error)).boxed())
            }
            Inner::Local(folder) => {
                let stored = folder.head(key).await.map_err(self.failed("inspect", key))?;
                let missing = || {
                    let words = "file not found";
                    self.failed("read", key)(std::io::Error::new(std::io::ErrorKind::NotFound, words))
                };
                let stored = stored.ok_or_else(missing)?;
                let pieces = folder.get(key).await.map_err(self.failed("read", key))?;
                (stored, pieces.map_err(|error| error.to_string()).boxed())
            }
        };
        Ok(Found { pieces: reading::whole(pieces, stored.size, self.keys.clone()), stored })
    }

    /// Keys of all periodic backups of a path, and of whatever else is named like them.
    ///
    /// # Errors
    /// What the store said.
    pub async fn list(&self, path_: &str) -> Result<Vec<String>, Failure> {
        let begin = key::prefix(path_);
        match &self.inner {
            Inner::Cloud { objects, .. } => {
                let folder = begin.rsplit_once('/').map(|(folder, _)| path(folder)).transpose()?;
                // Stores list in the order of keys, a page at a time: begin where ours do and end where they end.
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

    /// Deletes an object; one that is gone already is fine.
    ///
    /// # Errors
    /// What the store said.
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

/// What a store said of a failure.
struct Said {
    words: String,
    missing: bool,
}

impl From<object_store::Error> for Said {
    fn from(error: object_store::Error) -> Self {
        Self { missing: matches!(error, object_store::Error::NotFound { .. }), words: words(&error) }
    }
}

impl From<std::io::Error> for Said {
    fn from(error: std::io::Error) -> Self {
        Self { missing: error.kind() == std::io::ErrorKind::NotFound, words: error.to_string() }
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
        let said = |store: &Store, text: &str| {
            let source = text.to_owned().into();
            store.failed("write", "k")(object_store::Error::Generic { store: "S3", source }).to_string()
        };
        let unknown = "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>";
        let (aws, other) = (store(None), store(Some("https://minio.example.org")));
        assert!(said(&aws, unknown).contains("set s3.endpoint to its URL"), "{}", said(&aws, unknown));
        assert!(said(&aws, "error sending request").contains("s3.forcePathStyle"));
        assert!(!said(&other, unknown).contains("hint"));
        let refused = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
        assert!(!said(&aws, refused).contains("hint"));
    }
}
