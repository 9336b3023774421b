//! Changes of membership, and the classification of etcd's rejections.

use etcd_client::MemberAddOptions;

use super::{Etcd, TIMEOUT, permission_denied};
use crate::observed::LOG_IN;

/// Result of an accepted change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Now,
    /// The state was already reached: an earlier answer was lost.
    Before,
}

/// A change that etcd did not make.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A temporary rejection.
    #[error("etcd does not accept the change yet: {0}")]
    NotYet(String),
    /// Unreachable, or another error.
    #[error("failed to {verb}: {source}")]
    Failed { verb: &'static str, source: Box<etcd_client::Error> },
    /// etcd requires authentication, and no user is configured.
    #[error("failed to {verb}: {}", LOG_IN)]
    Unauthenticated { verb: &'static str },
    #[error("failed to {verb}: request to {endpoint} timed out")]
    TimedOut { verb: &'static str, endpoint: String },
}

impl Etcd {
    /// Adds a member as a learner.
    /// # Errors
    /// See [`ChangeError`].
    pub async fn add_learner(&self, endpoint: &str, peer_url: &str) -> Result<Changed, ChangeError> {
        self.change("add a member", endpoint, async |client| {
            let options = MemberAddOptions::new().with_is_learner();
            client.cluster_client().member_add(&[peer_url.to_owned()][..], Some(options)).await.map(drop)
        })
        .await
    }

    /// Promotes a learner.
    /// # Errors
    /// See [`ChangeError`].
    pub async fn promote(&self, endpoint: &str, id: u64) -> Result<Changed, ChangeError> {
        self.change("promote a member", endpoint, async |client| {
            client.cluster_client().member_promote(id).await.map(drop)
        })
        .await
    }

    /// Transfers leadership; `endpoint` is that of the leader.
    /// # Errors
    /// See [`ChangeError`].
    pub async fn move_leader(&self, endpoint: &str, to: u64) -> Result<Changed, ChangeError> {
        self.change("move the leader", endpoint, async |client| {
            client.maintenance_client().move_leader(to).await.map(drop)
        })
        .await
    }

    /// Removes a member.
    /// # Errors
    /// See [`ChangeError`].
    pub async fn remove(&self, endpoint: &str, id: u64) -> Result<Changed, ChangeError> {
        self.change("remove a member", endpoint, async |client| {
            client.cluster_client().member_remove(id).await.map(drop)
        })
        .await
    }

    pub(super) async fn change(
        &self,
        verb: &'static str,
        endpoint: &str,
        call: impl AsyncFnOnce(etcd_client::Client) -> Result<(), etcd_client::Error>,
    ) -> Result<Changed, ChangeError> {
        let failed = |source| ChangeError::Failed { verb, source: Box::new(source) };
        let client = self.client(endpoint).await.map_err(failed)?;
        let Ok(answer) = tokio::time::timeout(TIMEOUT * 3, call(client)).await else {
            self.forget(endpoint);
            return Err(ChangeError::TimedOut { verb, endpoint: endpoint.to_owned() });
        };
        let Err(error) = answer else { return Ok(Changed::Now) };
        match meaning(&error.to_string()) {
            Meaning::Done => Ok(Changed::Before),
            Meaning::NotYet => Err(ChangeError::NotYet(reason(&error))),
            Meaning::Other => {
                self.forget(endpoint);
                if !self.access().has_user() && permission_denied(&error.to_string()) {
                    return Err(ChangeError::Unauthenticated { verb });
                }
                Err(failed(error))
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Done,
    NotYet,
    Other,
}

/// etcd's messages are the same in all versions since 3.4; its codes are not.
fn meaning(text: &str) -> Meaning {
    let any = |needles: &[&str]| needles.iter().any(|needle| text.contains(needle));
    if any(&["Peer URLs already exists", "member ID already exist", "member not found", "has been compacted"])
    {
        Meaning::Done
    } else if any(&[
        "which is in sync with leader",
        "unhealthy cluster",
        "not enough started members",
        "too many learner members",
    ]) {
        Meaning::NotYet
    } else if any(&["can only promote a learner member"]) {
        Meaning::Done
    } else {
        Meaning::Other
    }
}

fn reason(error: &etcd_client::Error) -> String {
    let text = error.to_string();
    text.split("message: \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_distinguished_by_their_messages() {
        assert_eq!(meaning("etcdserver: unhealthy cluster"), Meaning::NotYet);
        assert_eq!(meaning("etcdserver: too many learner members in cluster"), Meaning::NotYet);
        assert_eq!(
            meaning("etcdserver: can only promote a learner member which is in sync with leader"),
            Meaning::NotYet
        );
        assert_eq!(meaning("etcdserver: can only promote a learner member"), Meaning::Done);
        assert_eq!(meaning("etcdserver: member not found"), Meaning::Done);
        assert_eq!(meaning("etcdserver: Peer URLs already exists"), Meaning::Done);
        assert_eq!(meaning("etcdserver: no leader"), Meaning::Other);
    }
}
