//! Maintenance: compaction, defragmentation, alarms, users.

use std::time::Duration;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, ConnectOptions};

use super::change::{ChangeError, Changed};
use super::{CONNECT, Etcd};

/// Timeout: a member copies its whole database while it is defragmented, and answers no other request.
const DEFRAGMENTATION: Duration = Duration::from_secs(300);

impl Etcd {
    /// Compacts revisions before this one.
    /// # Errors
    /// See [`ChangeError`].
    pub(crate) async fn compact(&self, endpoint: &str, revision: i64) -> Result<Changed, ChangeError> {
        self.change("compact", endpoint, async |client| {
            client.kv_client().compact(revision, None).await.map(drop)
        })
        .await
    }

    /// Defragments the database of one member and returns when it is done.
    /// # Errors
    /// See [`ChangeError`].
    pub(crate) async fn defragment(&self, endpoint: &str) -> Result<Changed, ChangeError> {
        let failed = |source| ChangeError::Failed { verb: "defragment a member", source: Box::new(source) };
        // A separate connection: the timeout of the shared ones is shorter.
        let options = ConnectOptions::new().with_connect_timeout(CONNECT).with_timeout(DEFRAGMENTATION);
        let url = format!("{}://{endpoint}", self.access().scheme());
        let client = etcd_client::Client::connect([url], Some(self.access().options(options)))
            .await
            .map_err(failed)?;
        client.maintenance_client().defragment().await.map_err(failed)?;
        Ok(Changed::Now)
    }

    /// Disarms every alarm of a kind, or that of one member.
    /// # Errors
    /// See [`ChangeError`].
    pub(crate) async fn disarm(
        &self,
        endpoint: &str,
        kind: AlarmType,
        member: Option<u64>,
    ) -> Result<Changed, ChangeError> {
        self.change("disarm an alarm", endpoint, async |client| {
            let mut maintenance = client.maintenance_client();
            let found = maintenance.alarm(AlarmAction::Get, kind, None).await?;
            let meant = |id: u64| member.is_none_or(|member| member == id);
            for alarm in found.alarms().iter().filter(|it| it.alarm() == kind && meant(it.member_id())) {
                let mut options = AlarmOptions::new();
                options.with_member(alarm.member_id());
                maintenance.alarm(AlarmAction::Deactivate, kind, Some(options)).await?;
            }
            Ok(())
        })
        .await
    }

    /// Creates user root with the configured password, as far as it is missing, and enables authentication.
    /// # Errors
    /// See [`ChangeError`].
    pub(crate) async fn enable_auth(&self, endpoint: &str) -> Result<Changed, ChangeError> {
        const VERB: &str = "enable authentication";
        let Some((user, password)) = self.access().user() else {
            let missing = etcd_client::Error::InvalidArgs("the password of user root is unknown".into());
            return Err(ChangeError::Failed { verb: VERB, source: Box::new(missing) });
        };
        let done = self.change(VERB, endpoint, async |client| {
            let mut auth = client.auth_client();
            let there = |error: &etcd_client::Error, words: &str| error.to_string().contains(words);
            match auth.role_add(user).await {
                Err(error) if !there(&error, "role name already exists") => return Err(error),
                _ => {}
            }
            match auth.user_add(user, password, None).await {
                Err(error) if there(&error, "user name already exists") => {
                    // Left by an interrupted attempt: authentication is off, so no client uses it.
                    auth.user_change_password(user, password).await?;
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            auth.user_grant_role(user, user).await?;
            auth.auth_enable().await.map(drop)
        });
        let done = done.await?;
        // Unauthenticated connections are useless now.
        self.forget_all();
        Ok(done)
    }
}
