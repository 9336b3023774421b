//! Access to the console: `olm token` on the dev cluster, `kubectl port-forward` and a ServiceAccount's token
//! elsewhere.

use std::sync::Mutex;

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use serde_json::Value;

use crate::{Cluster, forward::PortForward};

/// The account for sign-in where there is no `olm token`: a user with all rights. It is kept for the next
/// run.
const USER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: olm-e2e, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: olm-e2e}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: olm-e2e, namespace: default}]
"#;

/// The single port-forward of this process to the console.
static FORWARDED: Mutex<Option<PortForward>> = Mutex::new(None);

impl Cluster {
    /// A one-time sign-in link to the console; `None` without a console.
    pub async fn login_link(&self) -> Result<Option<String>> {
        if let Some(data_dir) = &self.data_dir {
            let out = self.olm_ok(&["token", "--data-dir", &data_dir.display().to_string()])?;
            return Ok(out.split_whitespace().find(|word| word.starts_with("http")).map(str::to_string));
        }
        let base = match &self.console {
            Some(base) => base.trim_end_matches('/').to_string(),
            None if self.kubectl(&["get", "service", "olm-console", "-n", "olm"]).is_err() => {
                return Ok(None);
            }
            None => self.forwarded_console()?,
        };
        self.kubectl_in(&["apply", "-f", "-"], Some(USER))?;
        let token = self.kubectl(&["create", "token", "olm-e2e", "-n", "default"])?;
        let mut config = Config::new(base.parse()?);
        // Plain HTTP: no certificate authority is needed.
        config.root_cert = Some(Vec::new());
        let request = http::Request::post("/api/v1/login-codes")
            .header(http::header::AUTHORIZATION, format!("Bearer {}", token.trim()))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(b"{}".to_vec())?;
        let answer: Value = Client::try_from(config)?.request(request).await?;
        let code = answer["code"].as_str().context("no code in the console's answer")?;
        Ok(Some(format!("{base}/login?code={code}")))
    }

    fn forwarded_console(&self) -> Result<String> {
        let mut forwarded = FORWARDED.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(forward) = forwarded.as_mut()
            && forward.is_running()?
        {
            return Ok(format!("http://{}", forward.address));
        }
        let forward = PortForward::start(self, "olm", "service/olm-console", 8080)?;
        let base = format!("http://{}", forward.address);
        *forwarded = Some(forward);
        Ok(base)
    }
}
