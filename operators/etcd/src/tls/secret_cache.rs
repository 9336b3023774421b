//! The Secrets of clusters: rereads them periodically, and issues those of clusters with automatic TLS.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};

use super::access::data;
use super::auto::{self, IssuedSecrets, Started};
use super::material::Data;
use super::{Access, CertificateRole, Fault, Names, TlsGoal, check};
use crate::apply::why;
use crate::names;
use crate::observed::Observed;
use crate::validate::Validated;

/// Maximum age of read Secrets: a renewed certificate is used after this time at most.
const RELOAD: Duration = Duration::from_secs(10);
/// The first issuance takes nine steps; more than this many in a row indicate a loop.
const STEPS: usize = 24;

/// Result of reading the Secrets of a cluster.
#[derive(Clone, Debug)]
pub struct Secured {
    pub access: Access,
    /// Current faults. `access` is then from the last valid Secrets.
    pub faults: Vec<Fault>,
    /// Warnings.
    pub notes: Vec<String>,
    /// Expiry of the first certificate to expire.
    pub expires: Option<Timestamp>,
    /// Members started before this must be restarted: they do not trust a pending authority.
    pub restart_before: Option<Timestamp>,
}

/// No connection is possible.
#[derive(Debug, thiserror::Error)]
pub enum Insecure {
    #[error("failed to {verb} Secret {name}: {}", why(source))]
    Kubernetes { verb: &'static str, name: String, source: Box<kube::Error> },
    /// The Secrets are wrong, and were never valid.
    #[error("{}", describe_faults(.0))]
    Faults(Vec<Fault>),
    /// A Secret of that name has another owner.
    #[error("Secret {0} exists and is not owned by this cluster; rename the cluster or delete the Secret")]
    Foreign(String),
    #[error(transparent)]
    Mint(#[from] auto::MintError),
}

impl Insecure {
    /// Machine-readable reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Kubernetes { .. } => "SecretUnreadable",
            Self::Faults(faults) => faults.first().map_or("SecretWrong", |fault| fault.reason),
            Self::Foreign(_) => "ForeignSecret",
            Self::Mint(_) => "CannotIssue",
        }
    }
}

pub(crate) fn describe_faults(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The user that etcd requires before authentication can be enabled.
const ROOT: &str = "root";
/// The key of its password.
const PASSWORD: &str = "password";

struct Entry {
    read: Instant,
    goal: TlsGoal,
    secured: Option<Arc<Secured>>,
    started: Started,
}

/// The cached Secrets of all clusters.
#[derive(Default)]
pub struct SecretCache {
    known: Mutex<HashMap<String, Entry>>,
}

impl SecretCache {
    /// Access to the members of a cluster by its current Secrets.
    /// # Errors
    /// When no connection is possible; see [`Insecure`].
    pub async fn secure(&self, client: &Client, cluster: &Validated) -> Result<Arc<Secured>, Insecure> {
        let goal = &cluster.tls;
        if !goal.any() && cluster.root_secret.is_none() {
            return Ok(Arc::new(Secured::plain()));
        }
        let (started, last) = {
            let known = self.lock();
            let entry = known.get(&cluster.uid).filter(|entry| entry.goal == *goal);
            if let Some(Entry { secured: Some(secured), read, .. }) = entry
                && read.elapsed() < RELOAD
                && secured.faults.is_empty()
            {
                return Ok(secured.clone());
            }
            (entry.map_or(Started::Unknown, |e| e.started), entry.and_then(|e| e.secured.clone()))
        };
        let found = match &goal.auto {
            None => self.given(client, cluster).await,
            Some(settings) => issue(client, cluster, settings, started).await,
        };
        let (secrets, restart_before) = match (found, &last) {
            (Ok(found), _) => found,
            // When a request to Kubernetes fails or is rejected, the last result is used.
            (Err(error @ Insecure::Kubernetes { .. }), Some(last)) => {
                tracing::warn!(cluster = cluster.name, namespace = cluster.namespace, %error, "using the \
                 last read version of the Secrets");
                return Ok(last.clone());
            }
            (Err(error), _) => return Err(error),
        };
        let now = Timestamp::now();
        let judged = check(goal, &Names::of(cluster), |name| secrets.get(name), now);
        let root = match &cluster.root_secret {
            None => Ok(None),
            Some(name) => password(name, get(&api(client, cluster), name).await?.as_ref()).map(Some),
        };
        let secured = match (judged, last) {
            (Ok(checked), _) => Secured {
                access: checked.access,
                faults: Vec::new(),
                notes: checked.notes,
                expires: checked.expires.and_then(|second| Timestamp::from_second(second).ok()),
                restart_before,
            },
            // Running members are managed with the last valid Secrets.
            (Err(faults), Some(last)) => Secured { faults, ..(*last).clone() },
            (Err(faults), None) => return Err(Insecure::Faults(faults)),
        };
        let secured = Arc::new(match root {
            Ok(None) => secured,
            Ok(Some(password)) => Secured { access: secured.access.with_user(ROOT, &password), ..secured },
            // Observations need no user; what needs one waits.
            Err(fault) => {
                let mut faults = secured.faults.clone();
                faults.push(fault);
                Secured { faults, ..secured }
            }
        });
        let entry =
            Entry { read: Instant::now(), goal: goal.clone(), secured: Some(secured.clone()), started };
        self.lock().insert(cluster.uid.clone(), entry);
        Ok(secured)
    }

    /// Records when the members started: it decides when a new authority may sign.
    pub fn noticed(&self, cluster: &Validated, observed: &Observed) {
        if let Some(entry) = self.lock().get_mut(&cluster.uid) {
            entry.started = started(observed);
        }
    }

    /// Drops the state of a deleted cluster.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// The user's Secrets.
    async fn given(
        &self,
        client: &Client,
        cluster: &Validated,
    ) -> Result<(BTreeMap<String, Data>, Option<Timestamp>), Insecure> {
        let api = api(client, cluster);
        let mut secrets = BTreeMap::new();
        for name in CertificateRole::ALL.into_iter().filter_map(|role| cluster.tls.secret(role)) {
            if !secrets.contains_key(name)
                && let Some(secret) = get(&api, name).await?
            {
                secrets.insert(name.to_owned(), data(&secret));
            }
        }
        Ok((secrets, None))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Entry>> {
        // The map is consistent after every statement, also when a holder of the lock panicked.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Secured {
    /// The state when members reject the password of a Secret. Only a user can decide which of the two is
    /// correct.
    pub(crate) fn refused(&self, secret: &str) -> Self {
        let text = format!(
            "etcd rejects this password for user {ROOT}; store the password of etcd in the Secret, or \
             change the password in etcd with `etcdctl user passwd {ROOT}`"
        );
        let fault = Fault { secret: secret.to_owned(), key: Some(PASSWORD), reason: "PasswordRefused", text };
        let mut refused = self.clone();
        refused.faults.push(fault);
        refused
    }

    pub(crate) fn plain() -> Self {
        Self {
            access: Access::plain(),
            faults: Vec::new(),
            notes: Vec::new(),
            expires: None,
            restart_before: None,
        }
    }
}

fn password(name: &str, secret: Option<&Secret>) -> Result<String, Fault> {
    let fault =
        |key, reason, text: &str| Fault { secret: name.to_owned(), key, reason, text: text.to_owned() };
    let Some(secret) = secret else {
        let text = "does not exist; create it with key password, the password of user root";
        return Err(fault(None, "SecretMissing", text));
    };
    let bytes = data(secret).remove(PASSWORD);
    let bytes = bytes.ok_or_else(|| fault(Some(PASSWORD), "KeyMissing", "is missing"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| fault(Some(PASSWORD), "NotText", "is not valid UTF-8"))?;
    // Editors append a line break.
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(fault(Some(PASSWORD), "KeyMissing", "is empty"));
    }
    Ok(text.to_owned())
}

/// A member whose process is not running starts later than now.
fn started(observed: &Observed) -> Started {
    let begins = observed.pods.iter().filter(|pod| !pod.ended).filter_map(|pod| pod.started);
    match begins.min() {
        Some(first) => Started::Since(first.as_second()),
        None if observed.pods.is_empty() => Started::NoMembers,
        None => Started::Unknown,
    }
}

fn api(client: &Client, cluster: &Validated) -> Api<Secret> {
    Api::namespaced(client.clone(), &cluster.namespace)
}

async fn get(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, Insecure> {
    api.get_opt(name).await.map_err(|source| Insecure::Kubernetes {
        verb: "read",
        name: name.to_owned(),
        source: Box::new(source),
    })
}

/// Whether this operator created a Secret for this cluster.
fn belongs(secret: &Secret, cluster: &Validated) -> bool {
    secret.owner_references().iter().any(|owner| owner.uid == cluster.uid)
}

/// Issues the operator's Secrets until nothing is due, one write at a time.
async fn issue(
    client: &Client,
    cluster: &Validated,
    settings: &auto::Settings,
    started: Started,
) -> Result<(BTreeMap<String, Data>, Option<Timestamp>), Insecure> {
    let api = api(client, cluster);
    let names = Names::of(cluster);
    let authorities = auto::authorities_secret(&cluster.name);
    let mut secrets: BTreeMap<String, Secret> = BTreeMap::new();
    let wanted = CertificateRole::ALL.map(|role| role.issued_secret_name(&cluster.name));
    for name in wanted.iter().chain([&authorities]) {
        if let Some(secret) = get(&api, name).await? {
            if !belongs(&secret, cluster) {
                return Err(Insecure::Foreign(name.clone()));
            }
            secrets.insert(name.clone(), secret);
        }
    }
    for _ in 0..STEPS {
        let now = Timestamp::now();
        let content: BTreeMap<String, Data> =
            secrets.iter().map(|(name, secret)| (name.clone(), data(secret))).collect();
        let issued = IssuedSecrets::read(
            content.get(&authorities),
            |role| content.get(&role.issued_secret_name(&cluster.name)),
            now,
        );
        let step = auto::next(&issued, &names, settings, started, now);
        let Some((target, new)) = auto::write(&step, &issued, &names, settings, now)? else {
            let restart = auto::restart_before(&issued, now).and_then(|s| Timestamp::from_second(s).ok());
            return Ok((content, restart));
        };
        tracing::info!(cluster = cluster.name, namespace = cluster.namespace, ?step, "renewing certificates");
        let name = match target {
            Some(role) => role.issued_secret_name(&cluster.name),
            None => authorities.clone(),
        };
        let written = write_secret(&api, cluster, &name, secrets.get(&name), new).await?;
        secrets.insert(name, written);
    }
    Err(Insecure::Faults(vec![Fault {
        secret: authorities,
        key: None,
        reason: "CannotIssue",
        text: "certificates keep changing; delete the Secret to recreate them".into(),
    }]))
}

async fn write_secret(
    api: &Api<Secret>,
    cluster: &Validated,
    name: &str,
    old: Option<&Secret>,
    data: Data,
) -> Result<Secret, Insecure> {
    let bytes = data.into_iter().map(|(key, value)| (key, ByteString(value))).collect();
    let params = PostParams::default();
    let (verb, written) = if let Some(old) = old {
        // With the resourceVersion that was read: of two writers, the server accepts one.
        let new = Secret { data: Some(bytes), ..old.clone() };
        ("write", api.replace(name, &params, &new).await)
    } else {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(cluster.namespace.clone()),
                labels: Some(names::cluster_labels(&cluster.name)),
                owner_references: Some(vec![cluster.owner.clone()]),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".into()),
            data: Some(bytes),
            ..Secret::default()
        };
        ("create", api.create(&params, &secret).await)
    };
    let refused = match written {
        Ok(written) => return Ok(written),
        Err(refused) => refused,
    };
    // Another controller of this operator may have been faster: its content is used.
    if matches!(&refused, kube::Error::Api(status) if status.is_already_exists() || status.is_conflict())
        && let Some(there) = get(api, name).await?
    {
        return if belongs(&there, cluster) { Ok(there) } else { Err(Insecure::Foreign(name.to_owned())) };
    }
    Err(Insecure::Kubernetes { verb, name: name.to_owned(), source: Box::new(refused) })
}
