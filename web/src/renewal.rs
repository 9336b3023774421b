//! The state that renews the session of an OpenID Connect provider.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Instant,
};

use olm_oidc::{Clock, Tokens};

use crate::error::WebError;

/// An ID token is renewed this many seconds before it expires, or after half of its lifetime where that is
/// shorter.
const BEFORE: i64 = 60;

/// The state that renews a session of a provider. It is sent to the provider only.
pub(crate) struct Renewal {
    pub(crate) clock: Clock,
    pub(crate) subject: String,
    expires: AtomicI64,
    due: AtomicI64,
    /// Locked during a renewal: a refresh token may be valid once.
    pub(crate) state: tokio::sync::Mutex<RenewalState>,
}

pub(crate) struct RenewalState {
    pub(crate) refresh_token: Option<String>,
    /// Until when the provider is not contacted again, and why.
    pub(crate) failed: Option<(Instant, WebError)>,
}

impl Renewal {
    pub(crate) fn new(tokens: &Tokens, clock: &Clock) -> Self {
        let out = Self {
            clock: clock.clone(),
            subject: tokens.claims.sub.clone(),
            expires: AtomicI64::default(),
            due: AtomicI64::default(),
            state: tokio::sync::Mutex::new(RenewalState {
                refresh_token: tokens.refresh_token.clone(),
                failed: None,
            }),
        };
        out.expires_at(tokens.claims.exp);
        out
    }

    pub(crate) fn expires_at(&self, expires: i64) {
        let before = BEFORE.min(expires.saturating_sub(self.clock.now()) / 2);
        self.expires.store(expires, Ordering::Relaxed);
        self.due.store(expires.saturating_sub(before), Ordering::Relaxed);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.clock.now() >= self.due.load(Ordering::Relaxed)
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.clock.now() >= self.expires.load(Ordering::Relaxed)
    }

    /// Takes the refresh token of an ended session.
    pub(crate) async fn take_refresh_token(&self) -> Option<String> {
        self.state.lock().await.refresh_token.take()
    }
}
