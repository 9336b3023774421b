//! One backup: choose a member that is up to date, upload its snapshot, delete old ones beyond the limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

use super::source::{MemberClients, VoterStatus, rank};
use crate::storage::{
    Failure, LABEL_CLUSTER, LABEL_KEY, LABEL_NAME, LABEL_OWNER, LABEL_REVISION, LABEL_VERSION, Labels,
    OnUploadStart, Periodic, Store, Stored, Target, UploadNotes, VerifiedSnapshot, store_snapshot, surplus,
};

/// Names tried for one periodic backup: as many EtcdBackups may write to one path at the same time.
const NAMES: i64 = 16;
/// Objects read concurrently when old ones are counted.
const LOOKS: usize = 8;

/// Identity of a backup, recorded on the object; retention selects by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) name: String,
}

/// Inputs of one backup.
pub(crate) struct Attempt<'a> {
    pub(crate) store: &'a Store,
    pub(crate) target: &'a Target,
    pub(crate) owner: &'a Owner,
    /// Keys carry revision and time.
    pub(crate) periodic: bool,
    /// Retained periodic backups; 0 for all.
    pub(crate) keep: usize,
    pub(crate) notes: &'a UploadNotes,
}

/// A successful backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedBackup {
    pub(crate) uri: String,
    pub(crate) whole: VerifiedSnapshot,
    pub(crate) revision: i64,
    pub(crate) version: String,
    pub(crate) cluster_id: String,
    pub(crate) endpoint: String,
    pub(crate) skipped: Vec<String>,
    /// Name of the encryption key; empty without encryption.
    pub(crate) key: String,
    /// Why old backups could not be deleted.
    pub(crate) retention: String,
}

impl Attempt<'_> {
    /// Runs the backup with the members behind `endpoints`.
    pub(crate) async fn run(
        &self,
        members_client: &MemberClients<'_>,
        endpoints: &BTreeSet<String>,
        on_start: OnUploadStart<'_>,
    ) -> Result<CompletedBackup, String> {
        let answers = members_client.survey(endpoints).await;
        self.run_with(members_client, &answers, on_start).await
    }

    /// Runs the backup with the answers of an earlier survey.
    pub(crate) async fn run_with(
        &self,
        members_client: &MemberClients<'_>,
        answers: &BTreeMap<String, Result<VoterStatus, String>>,
        on_start: OnUploadStart<'_>,
    ) -> Result<CompletedBackup, String> {
        let candidates = rank(answers)?;
        let mut skipped = candidates.skipped;
        for (endpoint, answer) in candidates.best {
            match self.with_member(members_client, &endpoint, &answer, on_start).await {
                Ok(mut good) => {
                    good.skipped = skipped;
                    return Ok(good);
                }
                // Another member can avoid an error of a member, but not an error of the store.
                Err(FailedSide::Member(why)) => skipped.push(format!("{endpoint}: {why}")),
                Err(FailedSide::Other(failure)) => return Err(failure.to_string()),
            }
        }
        Err(format!("no member is suitable for a backup: {}", skipped.join("; ")))
    }

    async fn with_member(
        &self,
        members_client: &MemberClients<'_>,
        endpoint: &str,
        answer: &VoterStatus,
        on_start: OnUploadStart<'_>,
    ) -> Result<CompletedBackup, FailedSide> {
        let revision = members_client.fresh(endpoint).await.map_err(FailedSide::Member)?;
        // Held until the object exists.
        let (target, _claim) = match self.periodic {
            true => self.free_target(revision).await.map_err(FailedSide::Other)?,
            false => (self.target.clone(), None),
        };
        let key = target.key.clone();
        let cluster_id = format!("{:x}", answer.cluster_id);
        let labels: Labels = [
            (LABEL_OWNER, self.owner.uid.clone()),
            (LABEL_NAME, self.owner.name.clone()),
            (LABEL_REVISION, revision.to_string()),
            (LABEL_VERSION, answer.version.clone()),
            (LABEL_CLUSTER, cluster_id.clone()),
        ]
        .into_iter()
        .chain(Some((LABEL_KEY, self.store.key_name())).filter(|(_, name)| !name.is_empty()))
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let pieces = members_client.snapshot(endpoint).await.map_err(FailedSide::Member)?;
        let whole = match store_snapshot(self.store, &key, &labels, pieces, self.notes, on_start).await {
            Ok(whole) => whole,
            Err(
                failure @ (Failure::Source(_)
                | Failure::Damaged(_)
                | Failure::Stalled { what: "the snapshot", .. }),
            ) => {
                return Err(FailedSide::Member(failure.to_string()));
            }
            Err(failure) => return Err(FailedSide::Other(failure)),
        };
        let retention = if self.periodic {
            retain(self.store, &self.target.key, &self.owner.uid, &key, self.keep).await
        } else {
            Ok(())
        };
        Ok(CompletedBackup {
            uri: target.uri(),
            whole,
            revision,
            version: answer.version.clone(),
            cluster_id,
            endpoint: endpoint.to_owned(),
            skipped: Vec::new(),
            key: self.store.key_name(),
            retention: retention.err().map(|failure| failure.to_string()).unwrap_or_default(),
        })
    }

    /// A key for a periodic backup that starts now. Names have whole seconds, and another EtcdBackup, also of
    /// another cluster, may write to the same path: an object that exists or is being written is not
    /// overwritten, and the name uses a later second.
    async fn free_target(&self, revision: i64) -> Result<(Target, Option<Claim>), Failure> {
        let now = Timestamp::now();
        let mut key = String::new();
        for later in 0..NAMES {
            key = Periodic::new(revision, now + SignedDuration::from_secs(later)).key(&self.target.key);
            let target = self.target.at(key.clone());
            let Some(claim) = Claim::of(&target) else { continue };
            let there = self.store.head(&key).await?;
            let ours = |stored: &Stored| stored.labels.get(LABEL_OWNER) == Some(&self.owner.uid);
            if there.as_ref().is_none_or(ours) {
                return Ok((target, Some(claim)));
            }
        }
        let why = "the object belongs to another owner, as do those named after the seconds before it; use \
         a separate path for each EtcdBackup";
        Err(Failure::Key { key, why: why.into() })
    }
}

/// Names being written by this operator: an object exists only once it is complete, so a check of the store
/// alone would give one name to two backups.
static WRITING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reserves a name within this process until it is dropped. Stores that differ only in their endpoint share
/// names; a collision costs one second.
struct Claim {
    uri: String,
}

impl Claim {
    fn of(target: &Target) -> Option<Self> {
        let uri = target.uri();
        let new = WRITING.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.clone());
        // Constructed only for a new name: dropping it releases the name.
        new.then(|| Self { uri })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        WRITING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uri);
    }
}

/// The side that caused a failure.
enum FailedSide {
    Member(String),
    Other(Failure),
}

/// Deletes this object's periodic backups beyond the limit. Objects of other owners are never deleted, even
/// under the same path: each object records its owner.
pub(crate) async fn retain(
    store: &Store,
    path: &str,
    uid: &str,
    written: &str,
    keep: usize,
) -> Result<(), Failure> {
    if keep == 0 {
        return Ok(());
    }
    let keys = store.list(path).await?;
    let named_like_ours: Vec<String> =
        keys.into_iter().filter(|key| Periodic::read(path, key).is_some()).collect();
    let mut own = Vec::new();
    for some in named_like_ours.chunks(LOOKS) {
        let looks = join_all(some.iter().map(|key| store.head(key))).await;
        for (key, stored) in some.iter().zip(looks) {
            if stored?.is_some_and(|s| s.labels.get(LABEL_OWNER).is_some_and(|owner| owner == uid)) {
                own.push(key.clone());
            }
        }
    }
    for key in surplus(path, &own, written, keep) {
        store.delete(&key).await?;
        tracing::info!(key, "deleted an old backup");
    }
    Ok(())
}
