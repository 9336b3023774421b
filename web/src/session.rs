//! Sessions: held in memory, gone with the process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use kube::Client;
pub(crate) use olm_catalog::hex;
use sha2::{Digest as _, Sha256};

use crate::api_server::Identity;

/// Name of the cookie.
pub(crate) const COOKIE: &str = "olm_session";
/// A session ends after this long without a request.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// And in any case after this long.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// More than this many people at once is not what a console is for; the longest idle one has to sign in again.
const MAX: usize = 1000;

/// Somebody who is signed in. The client carries their token.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) identity: Identity,
    pub(crate) client: Client,
    /// Goes into every form.
    pub(crate) csrf: Arc<str>,
    created: Instant,
    used: Instant,
}

/// All sessions, by the hash of what is in the cookie: whoever reads this memory in a dump cannot use it as a cookie.
#[derive(Default)]
pub(crate) struct Sessions {
    by_hash: Mutex<HashMap<[u8; 32], Session>>,
}

impl Sessions {
    /// Starts a session; returns the value for the cookie.
    pub(crate) fn start(&self, client: Client, identity: Identity) -> String {
        self.start_at(client, identity, Instant::now())
    }

    fn start_at(&self, client: Client, identity: Identity, now: Instant) -> String {
        let id = random_text();
        let session = Session { identity, client, csrf: random_text().into(), created: now, used: now };
        let mut sessions = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, s| !s.is_over(now));
        if sessions.len() >= MAX
            && let Some(oldest) = sessions.iter().min_by_key(|(_, s)| s.used).map(|(hash, _)| *hash)
        {
            sessions.remove(&oldest);
        }
        sessions.insert(hash(&id), session);
        id
    }

    /// The session of a cookie; looking keeps it alive.
    pub(crate) fn find(&self, id: &str) -> Option<Session> {
        self.find_at(id, Instant::now())
    }

    fn find_at(&self, id: &str, now: Instant) -> Option<Session> {
        let mut sessions = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(id);
        let session = sessions.get_mut(&key)?;
        if session.is_over(now) {
            sessions.remove(&key);
            return None;
        }
        session.used = now;
        Some(session.clone())
    }

    pub(crate) fn end(&self, id: &str) {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(id));
    }
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) > IDLE || now.duration_since(self.created) > LIFETIME
    }
}

/// 256 random bits, fit for a cookie, a URL and a form.
pub(crate) fn random_text() -> String {
    let bytes: [u8; 32] = rand::random();
    hex(&bytes)
}

pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::unreachable_client;

    #[tokio::test]
    async fn a_session_ends_after_an_hour_without_a_request() {
        // given
        let sessions = Sessions::default();
        let start = Instant::now();
        let who = Identity { name: "ada".into(), groups: vec![], token: crate::api_server::Token::default() };
        let id = sessions.start_at(unreachable_client(), who, start);

        // when a request comes every 50 minutes, then it lives
        assert!(sessions.find_at(&id, start + Duration::from_secs(50 * 60)).is_some());
        assert!(sessions.find_at(&id, start + Duration::from_secs(100 * 60)).is_some());
        // when none comes for more than an hour, then it is over, for good
        assert!(sessions.find_at(&id, start + Duration::from_secs(161 * 60)).is_none());
        assert!(sessions.find_at(&id, start + Duration::from_secs(100 * 60)).is_none());
        assert!(sessions.find("somebody else's").is_none());
    }
}
