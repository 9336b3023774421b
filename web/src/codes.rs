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

/// Lifetime of an unused code.
pub(crate) const VALID: Duration = Duration::from_secs(5 * 60);
const MAX: usize = 1000;
/// Maximum number of unused codes per user; a further one replaces the oldest.
const MAX_OF_USER: usize = 20;

struct Code {
    client: Client,
    identity: Identity,
    expires: Instant,
}

/// Unused codes, by hash.
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
        let of_user = |code: &Code| code.identity.name == identity.name;
        let only_own = codes.values().filter(|code| of_user(code)).count() >= MAX_OF_USER;
        if codes.len() >= MAX || only_own {
            let candidates = codes.iter().filter(|(_, code)| !only_own || of_user(code));
            if let Some(oldest) = candidates.min_by_key(|(_, code)| code.expires).map(|(hash, _)| *hash) {
                codes.remove(&oldest);
            }
        }
        codes.insert(hash(&text), Code { client, identity, expires: now + VALID });
        text
    }

    /// The user of a code, which stays valid.
    pub(crate) fn user(&self, text: &str) -> Option<Identity> {
        let codes = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let code = codes.get(&hash(text)).filter(|code| code.expires > Instant::now())?;
        Some(code.identity.clone())
    }

    /// Redeems a code; it works once.
    pub(crate) fn redeem(&self, text: &str) -> Option<(Client, Identity)> {
        self.redeem_at(text, Instant::now())
    }

    fn redeem_at(&self, text: &str, now: Instant) -> Option<(Client, Identity)> {
        let code = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(text))?;
        (code.expires > now).then_some((code.client, code.identity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::unreachable_client;

    fn ada() -> Identity {
        Identity { name: "ada".into(), groups: vec![], token: crate::api_server::Token::new("") }
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

    #[tokio::test]
    async fn t15_codes_of_one_user_do_not_replace_those_of_another() {
        let codes = LoginCodes::default();
        let now = Instant::now();
        let bob = codes.issue_at(
            unreachable_client(),
            Identity { name: "bob".into(), groups: vec![], token: crate::api_server::Token::new("") },
            now,
        );
        let first = codes.issue_at(unreachable_client(), ada(), now);
        for second in 1..=2 * MAX {
            let now = now + Duration::from_millis(u64::try_from(second).unwrap());
            codes.issue_at(unreachable_client(), ada(), now);
        }
        assert!(codes.redeem_at(&bob, now).is_some());
        assert!(codes.redeem_at(&first, now).is_none(), "replaced by the same user's newer codes");
    }
}
