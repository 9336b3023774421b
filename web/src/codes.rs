//! One-time login codes, and a limit on how fast they are asked for.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use kube::Client;

use crate::{
    api_server::Identity,
    session::{hash, random_text},
};

/// A code that nobody uses in this time is worthless.
pub(crate) const VALID: Duration = Duration::from_secs(5 * 60);
const MAX: usize = 1000;

struct Code {
    client: Client,
    identity: Identity,
    expires: Instant,
}

/// Codes that were given out and not used yet, by hash.
#[derive(Default)]
pub(crate) struct LoginCodes {
    by_hash: Mutex<HashMap<[u8; 32], Code>>,
}

impl LoginCodes {
    pub(crate) fn issue(&self, client: Client, identity: Identity) -> String {
        self.issue_at(client, identity, Instant::now())
    }

    fn issue_at(&self, client: Client, identity: Identity, now: Instant) -> String {
        let text = random_text();
        let mut codes = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, code| code.expires > now);
        if codes.len() >= MAX
            && let Some(oldest) = codes.iter().min_by_key(|(_, code)| code.expires).map(|(hash, _)| *hash)
        {
            codes.remove(&oldest);
        }
        codes.insert(hash(&text), Code { client, identity, expires: now + VALID });
        text
    }

    /// Takes a code out: the second time there is none.
    pub(crate) fn redeem(&self, text: &str) -> Option<(Client, Identity)> {
        self.redeem_at(text, Instant::now())
    }

    fn redeem_at(&self, text: &str, now: Instant) -> Option<(Client, Identity)> {
        let code = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(text))?;
        (code.expires > now).then_some((code.client, code.identity))
    }
}

/// A bucket of tokens: so many at once, then one per interval.
pub(crate) struct RateLimit {
    burst: f64,
    per_second: f64,
    state: Mutex<(f64, Instant)>,
}

impl RateLimit {
    pub(crate) fn new(burst: u32, interval: Duration) -> Self {
        let burst = f64::from(burst);
        Self { burst, per_second: 1.0 / interval.as_secs_f64(), state: Mutex::new((burst, Instant::now())) }
    }

    pub(crate) fn allow(&self) -> bool {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(state.1).as_secs_f64();
        state.0 = (state.0 + elapsed * self.per_second).min(self.burst);
        state.1 = now;
        let allowed = state.0 >= 1.0;
        if allowed {
            state.0 -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::unreachable_client;

    fn ada() -> Identity {
        Identity { name: "ada".into(), groups: vec![], token: crate::api_server::Token::default() }
    }

    #[tokio::test]
    async fn a_code_works_once_and_not_after_five_minutes() {
        // given
        let codes = LoginCodes::default();
        let now = Instant::now();
        let first = codes.issue_at(unreachable_client(), ada(), now);
        let second = codes.issue_at(unreachable_client(), ada(), now);

        // then
        assert!(codes.redeem_at(&first, now).is_some());
        assert!(codes.redeem_at(&first, now).is_none(), "the second use");
        assert!(codes.redeem_at(&second, now + VALID).is_none(), "too late");
        assert!(codes.redeem_at("guess", now).is_none());
    }

    #[test]
    fn the_limit_lets_a_burst_through_and_then_one_per_interval() {
        let limit = RateLimit::new(2, Duration::from_secs(6));
        let now = Instant::now();
        assert!(limit.allow_at(now) && limit.allow_at(now));
        assert!(!limit.allow_at(now));
        assert!(!limit.allow_at(now + Duration::from_secs(5)));
        assert!(limit.allow_at(now + Duration::from_secs(12)));
    }
}
