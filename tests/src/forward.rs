//! `kubectl port-forward`.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::Cluster;

/// Runs kubectl until its standard input closes, which happens with any end of this process.
const SCRIPT: &str = r#"kubectl port-forward -n "$0" "$1" ":$2" & cat >/dev/null; kill $!"#;

/// A running `kubectl port-forward`, stopped on drop.
#[derive(Debug)]
pub struct PortForward {
    child: Child,
    /// kubectl's listen address on this host, such as `127.0.0.1:37383`.
    pub address: String,
}

impl PortForward {
    /// Forwards a free port of this host to a port of a pod, Service or Deployment.
    pub fn start(cluster: &Cluster, namespace: &str, target: &str, port: u16) -> Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, namespace, target, &port.to_string()])
            .env("KUBECONFIG", &cluster.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start kubectl port-forward")?;
        let mut lines = BufReader::new(child.stdout.take().context("stdout")?).lines().map_while(Result::ok);
        // Forwarding from 127.0.0.1:37383 -> 8080
        let address = lines.find_map(|line| {
            let address = line.strip_prefix("Forwarding from ")?.split(' ').next()?;
            address.starts_with("127.").then(|| address.to_string())
        });
        let Some(address) = address else { bail!("kubectl port-forward to {target} ended at once") };
        // It prints one line for every connection, and must not find its pipe full or closed.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    /// Whether kubectl still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }
}

impl Drop for PortForward {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
