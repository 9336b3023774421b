//! Whether CatalogSources exist that are not read yet: either they will be in a moment, or the name is wrong.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use kube::Api;
use olm_api::CatalogSource;
use tokio::sync::Mutex;

use crate::context::{Ctx, Error};

/// How long a result is cached: at the start thousands of Subscriptions name the same few sources. The first
/// read of a new one wakes them.
const GOOD_FOR: Duration = Duration::from_secs(2);

/// The latest results, by namespace and name.
#[derive(Default)]
pub(super) struct Sources(Mutex<HashMap<(String, String), (Instant, bool)>>);

impl Sources {
    pub(super) async fn exists(&self, namespace: &str, name: &str, ctx: &Ctx) -> Result<bool, Error> {
        // Held during the request: concurrent callers share one.
        let mut answers = self.0.lock().await;
        answers.retain(|_, (asked, _)| asked.elapsed() < GOOD_FOR);
        let key = (namespace.to_owned(), name.to_owned());
        if let Some((_, exists)) = answers.get(&key) {
            return Ok(*exists);
        }
        let api = Api::<CatalogSource>::namespaced(ctx.client.clone(), namespace);
        let found = api.get_metadata_opt(name).await;
        let exists = found.map_err(Error::kube(format!("get CatalogSource {namespace}/{name}")))?.is_some();
        answers.insert(key, (Instant::now(), exists));
        Ok(exists)
    }
}
