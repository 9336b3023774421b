//! The way to the console: `olm token` on the dev cluster, `kubectl port-forward` and a ServiceAccount's token elsewhere.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use anyhow::{Context as _, Result, bail};
use kube::{Client, Config};
use serde_json::Value;

use crate::Cluster;

/// Who signs in where there is no `olm token`: a user that may do everything. It stays there for the next run.
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

/// Forwards a port of this host until its standard input closes, which it does when this process ends in whatever way.
const FORWARD: &str = "kubectl port-forward -n olm service/olm-console :8080 & cat >/dev/null; kill $!";

/// The one port-forward of this process, and the console's address through it.
static FORWARDED: Mutex<Option<(Child, String)>> = Mutex::new(None);

impl Cluster {
    /// A link that signs in to the console, once; `None` where no console is to be found.
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
        if let Some((child, base)) = forwarded.as_mut()
            && child.try_wait()?.is_none()
        {
            return Ok(base.clone());
        }
        let mut child = Command::new("sh")
            .args(["-c", FORWARD])
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start kubectl port-forward")?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout")?).lines().map_while(Result::ok);
        // Forwarding from 127.0.0.1:37383 -> 8080
        let address = lines.find_map(|line| {
            line.strip_prefix("Forwarding from ")?
                .split(' ')
                .next()
                .filter(|a| a.starts_with("127."))
                .map(str::to_string)
        });
        let Some(address) = address else { bail!("kubectl port-forward to the console ended at once") };
        // It says one line for every connection, and must not find its pipe full or closed.
        std::thread::spawn(move || lines.for_each(drop));
        let base = format!("http://{address}");
        *forwarded = Some((child, base.clone()));
        Ok(base)
    }
}
