//! Which catalogs a user sees: those whose CatalogSource the API server lets them read.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::future::join_all;
use kube::Client;
use olm_manager::catalogs::CatalogRef;

use crate::{app::App, caller::Caller, catalogs::Snapshot, rights};

/// An answer of the API server is not asked for again before this.
const FRESH: Duration = Duration::from_secs(30);
/// Answers that are remembered at once.
const MAX: usize = 10_000;

/// The hash of a user's credentials, and a catalog.
type Key = ([u8; 32], CatalogRef);

/// What the API server has said lately.
#[derive(Default)]
pub(crate) struct Visible(Mutex<HashMap<Key, (bool, Instant)>>);

impl Visible {
    async fn is_visible(&self, key: [u8; 32], client: &Client, catalog: &CatalogRef) -> bool {
        let key = (key, catalog.clone());
        if let Some(known) = self.known(&key) {
            return known;
        }
        match rights::may_read_catalog(client, catalog).await {
            Ok(allowed) => {
                self.remember(key, allowed);
                allowed
            }
            // A catalog whose review failed is not shown.
            Err(error) => {
                tracing::debug!(%error, "failed to review the access to a catalog");
                false
            }
        }
    }

    fn known(&self, key: &Key) -> Option<bool> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).filter(|(_, at)| at.elapsed() < FRESH).map(|(allowed, _)| *allowed)
    }

    fn remember(&self, key: Key, allowed: bool) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX {
            answers.retain(|_, (_, at)| at.elapsed() < FRESH);
        }
        if answers.len() >= MAX {
            answers.clear();
        }
        answers.insert(key, (allowed, Instant::now()));
    }
}

impl App {
    /// The catalogs that the caller may read.
    pub(crate) async fn catalogs_of(&self, caller: &Caller) -> Arc<Snapshot> {
        let all = self.catalogs.read(&caller.identity).await;
        let visible = all
            .loaded
            .iter()
            .map(|loaded| self.visible.is_visible(caller.key, &caller.client, &loaded.reference));
        let visible = join_all(visible).await;
        if visible.iter().all(|visible| *visible) { all } else { Arc::new(all.only(&visible)) }
    }
}
