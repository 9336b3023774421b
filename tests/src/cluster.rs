//! The cluster of the scenarios.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

use crate::{bin_dir, program};

/// A cluster with the manager and the console, accessed by a kubeconfig.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub kubeconfig: PathBuf,
    /// Base URL of the console, where known.
    pub console: Option<String>,
    /// Data directory of the dev cluster.
    pub data_dir: Option<PathBuf>,
}

/// The dev cluster shared by all tests of this process. It ends with this process, because its standard input
/// closes.
static SHARED: Mutex<Option<Result<Arc<DevCluster>, String>>> = Mutex::new(None);

impl Cluster {
    /// The cluster of `KUBECONFIG`, otherwise a dev cluster that is started once for all tests. `None` (and a
    /// printed reason) when there is neither.
    pub fn get(test: &str) -> Option<Self> {
        if let Some(path) = std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty()) {
            return Some(Self {
                kubeconfig: path.into(),
                console: std::env::var("OLM_TEST_CONSOLE").ok(),
                data_dir: None,
            });
        }
        let mut shared = SHARED.lock().unwrap_or_else(|e| e.into_inner());
        let cluster = shared.get_or_insert_with(|| {
            // The dev cluster searches for etcds at its start: scenarios of an upgrade need a newer one by
            // then.
            let _ = crate::etcd_stage::newer();
            DevCluster::start_in_temp(&[]).map(Arc::new).map_err(|error| format!("{error:#}"))
        });
        match cluster {
            Ok(cluster) => Some(cluster.cluster()),
            Err(why) => {
                if let Some(why) = why.strip_prefix("unavailable: ") {
                    crate::skipped(test, why);
                    return None;
                }
                panic_with(why)
            }
        }
    }

    /// The dev cluster; skips the test on another one.
    pub fn dev_only(test: &str) -> Option<Self> {
        let cluster = Self::get(test)?;
        if cluster.data_dir.is_none() {
            crate::skipped(test, "concerns the dev cluster, and KUBECONFIG names another one");
            return None;
        }
        Some(cluster)
    }

    /// A client for the calling test's own runtime.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Runs kubectl; fails when it fails.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_in(args, None)
    }

    /// Runs kubectl with a manifest on its standard input.
    pub fn kubectl_in(&self, args: &[&str], stdin: Option<&str>) -> Result<String> {
        let out = self.try_kubectl(args, stdin)?;
        if !out.status.success() {
            bail!("kubectl {} failed: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(String::from_utf8(out.stdout)?)
    }

    /// Runs kubectl and returns its output in any case.
    pub fn try_kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<Output> {
        let kubectl = program("kubectl").context("kubectl is not installed")?;
        let mut command = Command::new(kubectl);
        command.env("KUBECONFIG", &self.kubeconfig).args(args);
        run(command, stdin)
    }

    /// Runs `olm` for this cluster and returns its output in any case.
    pub fn olm(&self, args: &[&str]) -> Result<Output> {
        let mut command = olm();
        command.env("KUBECONFIG", &self.kubeconfig).args(args);
        run(command, None)
    }

    /// Runs `olm`; fails when it fails.
    pub fn olm_ok(&self, args: &[&str]) -> Result<String> {
        let out = self.olm(args)?;
        if !out.status.success() {
            bail!(
                "olm {} ended with {}: {}{}",
                args.join(" "),
                out.status,
                String::from_utf8_lossy(&out.stdout),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(String::from_utf8(out.stdout)?)
    }
}

fn panic_with(why: &str) -> ! {
    #[allow(clippy::panic)]
    {
        panic!("the dev cluster did not start: {why}")
    }
}

/// The command `olm`, as cargo built it.
pub fn olm() -> Command {
    let mut command = Command::new(bin_dir().join("olm"));
    command.env_remove("KUBECONFIG").env_remove("OLM_LOG");
    command
}

/// Runs a command with an optional text on its standard input.
pub fn run(mut command: Command, stdin: Option<&str>) -> Result<Output> {
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {command:?}"))?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        use std::io::Write as _;
        // A program that fails before reading is judged by its exit code, not by the broken pipe.
        let _ = pipe.write_all(text.as_bytes());
    }
    Ok(child.wait_with_output()?)
}

/// `OLM_ETCD_DIRS` with the directory in which `scripts/etcd-newer.sh` stores etcds.
fn etcd_dirs() -> Result<std::ffi::OsString> {
    let given = std::env::var_os("OLM_ETCD_DIRS").unwrap_or_default();
    let given = std::env::split_paths(&given).filter(|path| !path.as_os_str().is_empty());
    Ok(std::env::join_paths(given.chain([crate::etcd_stage::target()]))?)
}

/// A running `olm up`.
#[derive(Debug)]
pub struct DevCluster {
    child: Mutex<Child>,
    _stdin: Option<ChildStdin>,
    /// Its data directory.
    pub data_dir: PathBuf,
    pub printed: Arc<Mutex<Vec<String>>>,
    _temp: Option<tempfile::TempDir>,
}

impl DevCluster {
    /// Starts `olm up` with its own data directory.
    pub fn start_in_temp(args: &[&str]) -> Result<Self> {
        let temp = tempfile::Builder::new().prefix("olm-e2e-").tempdir()?;
        let dir = temp.path().join("data");
        let mut cluster = Self::start(&dir, args)?;
        cluster._temp = Some(temp);
        Ok(cluster)
    }

    /// Starts `olm up` on a data directory and waits until it is ready.
    pub fn start(data_dir: &Path, args: &[&str]) -> Result<Self> {
        let cluster = Self::launch(data_dir, args)?;
        cluster.wait_for_line("Ctrl-C", Duration::from_secs(120))?;
        Ok(cluster)
    }

    /// Starts `olm up` without waiting.
    pub fn launch(data_dir: &Path, args: &[&str]) -> Result<Self> {
        let mut command = olm();
        command
            .env("OLM_ETCD_DIRS", etcd_dirs()?)
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--console",
                "127.0.0.1:0",
                "--until-stdin-closes",
                "--data-dir",
            ])
            .arg(data_dir)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("failed to start olm up (are the binaries built?)")?;
        let printed = Arc::new(Mutex::new(Vec::new()));
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().context("stdout")?),
            Box::new(child.stderr.take().context("stderr")?),
        ];
        for stream in streams {
            let printed = Arc::clone(&printed);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(std::io::Result::ok) {
                    printed.lock().unwrap_or_else(|e| e.into_inner()).push(line);
                }
            });
        }
        let stdin = child.stdin.take();
        Ok(Self {
            child: Mutex::new(child),
            _stdin: stdin,
            data_dir: data_dir.to_path_buf(),
            printed,
            _temp: None,
        })
    }

    /// Everything printed so far.
    pub fn output(&self) -> String {
        self.printed.lock().unwrap_or_else(|e| e.into_inner()).join("\n")
    }

    /// Waits for a line that contains `text`.
    pub fn wait_for_line(&self, text: &str, limit: Duration) -> Result<String> {
        let start = Instant::now();
        loop {
            let found = self
                .printed
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .iter()
                .find(|l| l.contains(text))
                .cloned();
            if let Some(line) = found {
                return Ok(line);
            }
            if let Some(status) = self.child.lock().map_err(|_| anyhow!("poisoned"))?.try_wait()? {
                bail!("olm up ended with {status}:\n{}", self.output());
            }
            if start.elapsed() > limit {
                bail!("olm up did not print `{text}` in {}s:\n{}", limit.as_secs(), self.output());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The handle for scenarios.
    pub fn cluster(&self) -> Cluster {
        let state = std::fs::read(self.data_dir.join("state.json")).ok();
        let state: Value = state.and_then(|s| serde_json::from_slice(&s).ok()).unwrap_or_default();
        Cluster {
            kubeconfig: self.data_dir.join("kubeconfig"),
            console: state["console"].as_str().map(str::to_string),
            data_dir: Some(self.data_dir.clone()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap_or_else(|e| e.into_inner()).id()
    }

    /// Sends a signal with kill(1).
    pub fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status()?;
        if !status.success() {
            bail!("kill -{name} failed");
        }
        Ok(())
    }

    /// Waits for its end.
    pub fn wait(&self, limit: Duration) -> Result<std::process::ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.lock().map_err(|_| anyhow!("poisoned"))?.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                bail!("olm up did not end in {}s:\n{}", limit.as_secs(), self.output());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ctrl-C, and wait.
    pub fn stop(&self) -> Result<std::process::ExitStatus> {
        self.signal("INT")?;
        self.wait(Duration::from_secs(30))
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        if let Ok(mut child) = self.child.lock()
            && matches!(child.try_wait(), Ok(None))
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
