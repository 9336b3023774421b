//! Sessions, held in memory and lost on restart.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::HeaderMap;
use kube::Client;
pub(crate) use olm_catalog::hex;
use sha2::{Digest as _, Sha256};

use crate::{api_server::Identity, error::WebError, renewal::Renewal};

pub(crate) const COOKIE: &str = "olm_session";
/// Idle timeout.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// Maximum lifetime.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum number of sessions of one user; a further one ends the longest idle one.
const MAX_OF_USER: usize = 50;
/// Maximum number of sessions, far beyond the intended use; a further one ends the longest idle one.
const MAX: usize = 1000;

/// A number for the navigation, as of the last page that read it.
#[derive(Clone)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    const UNKNOWN: usize = usize::MAX;

    fn unknown() -> Self {
        Self(Arc::new(AtomicUsize::new(Self::UNKNOWN)))
    }

    pub(crate) fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|count| *count != Self::UNKNOWN)
    }

    pub(crate) fn set(&self, count: usize) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// The present number, which does not change.
    fn fixed(&self) -> Self {
        Self(Arc::new(AtomicUsize::new(self.0.load(Ordering::Relaxed))))
    }
}

/// The session of a user. The client carries the user's token.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) identity: Identity,
    pub(crate) client: Client,
    /// CSRF token, part of every form.
    pub(crate) csrf: Arc<str>,
    /// Hash of the cookie value.
    pub(crate) key: [u8; 32],
    /// Present for a session of an OpenID Connect provider.
    pub(crate) renewal: Option<Arc<Renewal>>,
    pub(crate) installed: Count,
    /// Pending plans and available upgrades.
    pub(crate) updates: Count,
    created: Instant,
    used: Instant,
    /// When the API server last accepted the token.
    validated: Instant,
}

/// All sessions by hash of the cookie value, so that a memory dump contains no usable cookie.
#[derive(Default)]
pub(crate) struct Sessions {
    by_hash: Mutex<HashMap<[u8; 32], Session>>,
}

impl Sessions {
    /// Starts a session; returns the value for the cookie.
    pub(crate) fn start(&self, client: Client, identity: Identity, renewal: Option<Arc<Renewal>>) -> String {
        self.start_at(client, identity, renewal, Instant::now())
    }

    fn start_at(
        &self,
        client: Client,
        identity: Identity,
        renewal: Option<Arc<Renewal>>,
        now: Instant,
    ) -> String {
        let id = random_text();
        let key = hash(&id);
        let mut sessions = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, s| !s.is_over(now));
        let of_user = |session: &Session| session.identity.name == identity.name;
        let only_own = sessions.values().filter(|s| of_user(s)).count() >= MAX_OF_USER;
        if sessions.len() >= MAX || only_own {
            let candidates = sessions.iter().filter(|(_, s)| !only_own || of_user(s));
            if let Some(oldest) = candidates.min_by_key(|(_, s)| s.used).map(|(hash, _)| *hash) {
                sessions.remove(&oldest);
            }
        }
        let csrf = random_text().into();
        let (installed, updates) = (Count::unknown(), Count::unknown());
        let (created, used, validated) = (now, now, now);
        let session =
            Session { identity, client, csrf, key, renewal, installed, updates, created, used, validated };
        sessions.insert(key, session);
        id
    }

    /// The session of a cookie; the lookup resets the idle timeout.
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
        self.end_key(&hash(id));
    }

    pub(crate) fn end_key(&self, key: &[u8; 32]) {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Whether a session has neither ended nor been replaced. This does not reset the idle timeout.
    pub(crate) fn is_alive(&self, key: &[u8; 32]) -> bool {
        let sessions = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(key).is_some_and(|session| !session.is_over(Instant::now()))
    }

    /// Records that the API server accepted the token again; groups may have changed.
    pub(crate) fn validated(&self, key: &[u8; 32], identity: Identity) {
        let mut sessions = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get_mut(key) {
            session.identity = identity;
            session.validated = Instant::now();
        }
    }
}

impl Session {
    /// A changing request carries the CSRF token of the session, in a field or a header.
    pub(crate) fn check_csrf(&self, field: Option<&str>, headers: &HeaderMap) -> Result<(), WebError> {
        let given = field.or_else(|| headers.get("x-csrf-token")?.to_str().ok());
        if given.is_some_and(|given| same(given, &self.csrf)) {
            return Ok(());
        }
        Err(WebError::forbidden("the form belongs to another session")
            .hint("reload the page and submit the form again"))
    }

    /// The session with its present counts, which other requests do not change.
    pub(crate) fn fixed(self) -> Self {
        Self { installed: self.installed.fixed(), updates: self.updates.fixed(), ..self }
    }

    pub(crate) fn validated_ago(&self) -> Duration {
        self.validated.elapsed()
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) > IDLE || now.duration_since(self.created) > LIFETIME
    }
}

/// The name of the cookie of a console on a user's machine: browsers share the cookies of 127.0.0.1 between ports.
pub(crate) fn cookie_of_port(port: u16) -> String {
    format!("{COOKIE}_{port}")
}

/// 256 random bits, safe in a cookie, a URL and a form.
pub(crate) fn random_text() -> String {
    let bytes: [u8; 32] = rand::random();
    hex(&bytes)
}

/// Whether a text has the form of [`random_text`].
pub(crate) fn is_random(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Compares in a time that does not depend on where the texts differ.
pub(crate) fn same(a: &str, b: &str) -> bool {
    // Equal digests mean equal texts, and the position of a difference between digests reveals nothing about
    // the texts.
    hash(a) == hash(b)
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
        let who = Identity { name: "ada".into(), groups: vec![], token: crate::api_server::Token::new("") };
        let id = sessions.start_at(unreachable_client(), who, None, start);

        // when a request arrives every 50 minutes, then the session continues
        assert!(sessions.find_at(&id, start + Duration::from_secs(50 * 60)).is_some());
        assert!(sessions.find_at(&id, start + Duration::from_secs(100 * 60)).is_some());
        // when none arrives for more than an hour, then the session is over for good
        assert!(sessions.find_at(&id, start + Duration::from_secs(161 * 60)).is_none());
        assert!(sessions.find_at(&id, start + Duration::from_secs(100 * 60)).is_none());
        assert!(sessions.find("unknown").is_none());
    }

    #[tokio::test]
    async fn t15_sessions_of_one_user_do_not_end_those_of_another() {
        let sessions = Sessions::default();
        let who = |name: &str| Identity {
            name: name.into(),
            groups: vec![],
            token: crate::api_server::Token::new(""),
        };
        let bob = sessions.start(unreachable_client(), who("bob"), None);
        for _ in 0..2 * MAX {
            sessions.start(unreachable_client(), who("ada"), None);
        }
        assert!(sessions.find(&bob).is_some());
        assert_eq!(sessions.by_hash.lock().unwrap().len(), MAX_OF_USER + 1);
    }
}
