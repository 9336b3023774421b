//! An S3 server of a stage. Requests of the first slot's operator count among its calls, and faults may be
//! injected as at any other call.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    audit::Audit,
    s3::{ACCESS_KEY, Observer, S3, SECRET_KEY},
    stage::Stage,
};
use crate::inprocess::{Fault, Faults};

/// Prefix of the paths of calls to the store.
const PATH: &str = "/s3";

/// Counts requests.
struct Counted {
    faults: Faults,
    audit: Arc<Audit>,
    /// Calls after which the operator dies.
    last: Mutex<BTreeSet<usize>>,
}

impl Counted {
    fn last(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Counted {
    fn begins(&self, method: &str, path: &str) -> Option<usize> {
        let dead = self.audit.life(0);
        if dead.is_cancelled() {
            return None;
        }
        let (number, fault) = self.faults.begin_other(method, &format!("{PATH}{path}"));
        match fault {
            Some(Fault::KillBefore) => {
                dead.cancel();
                return None;
            }
            Some(Fault::KillAfter) => {
                self.last().insert(number);
            }
            // The store itself injects its own faults.
            _ => {}
        }
        Some(number)
    }

    fn ended(&self, number: usize, status: u16) -> bool {
        self.faults.ended(number, status);
        let dies = self.last().remove(&number);
        if dies {
            self.audit.life(0).cancel();
        }
        !dies
    }
}

impl Stage {
    /// The S3 server of the stage, with the bucket `bucket`, and in namespace `ns` the Secret `aws` with its
    /// credentials.
    /// # Errors
    /// Why it did not start.
    pub async fn s3(&self) -> Result<&S3> {
        self.s3.get_or_try_init(|| self.open_s3()).await
    }

    async fn open_s3(&self) -> Result<S3> {
        let counted = Counted {
            faults: self.faults[0].clone(),
            audit: Arc::clone(&self.audit),
            last: Mutex::default(),
        };
        let s3 = S3::serve(Some(Arc::new(counted))).await?;
        let credentials =
            format!("[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
        self.apply(
            &json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "aws", "namespace": "ns" },
            "stringData": { "credentials": credentials } }),
        )
        .await?;
        Ok(s3)
    }

    /// The block `s3` of an EtcdBackup or EtcdRestore.
    /// # Errors
    /// Why the server did not start.
    pub async fn s3_block(&self, path: &str) -> Result<Value> {
        let url = self.s3().await?.url();
        Ok(json!({ "path": path, "awsSecret": "aws", "endpoint": url, "forcePathStyle": true }))
    }
}
