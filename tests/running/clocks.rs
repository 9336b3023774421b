//! The wall clock of the manager's machine jumps by a day, in both directions, under a manager process.
//!
//! Dependent on it: certificates (one outside of its validity is replaced, clients that trusted the previous
//! one still do), deadlines (they only report), times in conditions. Independent: the lease and the polls of
//! catalogs use the monotonic clock, `snooze` uses versions.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use olm_tests::inprocess::{
    Catalog, Endpoint, Fate, Faults, OLM, Operator, PATIENCE, Process, World, crd, replicas::led_by, text,
};
use serde_json::{Value, json};

use super::run;

/// Paths of the clock-faking library in Debian, Fedora and Arch.
const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The clock of one process.
struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    fn of(folder: &Path) -> Result<Option<Self>> {
        let Some(library) = LIBRARIES.iter().map(PathBuf::from).find(|path| path.exists()) else {
            return Ok(None);
        };
        let clock = Self { library, file: folder.join("clock") };
        clock.jump("+0")?;
        Ok(Some(clock))
    }

    /// Sets the difference from the real time.
    fn jump(&self, by: &str) -> Result<()> {
        // Atomically: it is read at any time.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{by}\n"))?;
        std::fs::rename(&new, &self.file).context("the clock's file")
    }

    fn wind(&self, command: &mut std::process::Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            // Setting a clock does not change the monotonic one.
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

/// An operator that checks its objects by a webhook at a port of this process.
fn checked(version: &str, port: u16) -> Operator {
    let rules = json!([{ "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["as"] }]);
    Operator::new("a", version)
        .owns(crd("as", "a.example.com", "A", &["v1"]))
        .image("example.invalid/local:1")
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", rules)
        .csv(|csv| csv["spec"]["webhookdefinitions"][0]["targetPort"] = port.into())
}

/// Whether the API server, whose clock is right, reaches the webhook: it is called and denies.
async fn webhook_answers(world: &World) -> Result<()> {
    let object = json!({ "apiVersion": "a.example.com/v1", "kind": "A", "metadata": { "name": "forbidden", "namespace": "ns" } });
    world
        .eventually("the webhook to be reached", async || {
            let refused = world.apply(&object).await.err().context("it was let in")?;
            ensure!(format!("{refused:#}").contains("the operator forbids it"), "{refused:#}");
            Ok(())
        })
        .await
}

async fn lease(world: &World) -> Result<LeaseSpec> {
    let lease = kube::Api::<Lease>::namespaced(world.client.clone(), OLM).get("olm-manager").await?;
    lease.spec.context("the lease has a spec")
}

/// The clock difference visible in the time of a version's phase.
async fn off(world: &World, namespace: &str, csv: &str) -> Result<SignedDuration> {
    let csv = world.get("ClusterServiceVersion", namespace, csv).await?;
    let written: Timestamp = text(&csv, "/status/lastTransitionTime").parse()?;
    Ok(written.duration_since(Timestamp::now()))
}

fn versions(up_to: usize, port: u16) -> Catalog {
    let all = ["1.0.0", "2.0.0", "3.0.0", "4.0.0"].map(|version| checked(version, port));
    let slow = Operator::new("slow", "1.0.0").image("example.invalid/never-ready:1");
    Catalog::chain(&all.iter().take(up_to).collect::<Vec<_>>()).and_chain(&[&slow])
}

/// Publishes a version beside those before it, once nothing of the previous upgrade is left: a plan that is made during an
/// upgrade is made again when the rest of that upgrade changes it.
async fn publish(world: &World, version: usize, port: u16) -> Result<()> {
    if version > 2 {
        world.gone("ClusterServiceVersion", "ns", &format!("a.v{}.0.0", version - 2)).await?;
    }
    world.publish("catalog", &versions(version, port)).await
}

/// Triggers everything that depends on a clock.
async fn touch_all(world: &World) -> Result<()> {
    for (kind, namespace) in
        [("ClusterServiceVersion", ""), ("Subscription", ""), ("OperatorGroup", ""), ("CatalogSource", "")]
    {
        for object in world.list(kind, namespace).await? {
            let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            // The previous version is deleted when the next one runs.
            if let Err(error) = world.touch(kind, namespace, name).await
                && world.find(kind, namespace, name).await?.is_some()
            {
                return Err(error);
            }
        }
    }
    Ok(())
}

async fn certificate(world: &World) -> Result<Value> {
    Ok(world.get("Secret", "ns", "a-service-cert").await?["data"]["tls.crt"].clone())
}

#[test]
fn a_clock_that_jumps_stops_nothing() {
    const NAME: &str = "a_clock_that_jumps_stops_nothing";
    const HOUR: SignedDuration = SignedDuration::from_hours(1);
    run(async {
        let world = World::bare().await?;
        let Some(clock) = Clock::of(world.folder())? else {
            olm_tests::skipped(NAME, "libfaketime is not installed");
            return Ok(());
        };
        // given a leader with an operator that has a certificate, and one that does not start
        let calls = Faults::new();
        let mut manager = Process::start_with(&world.serve(&calls)?, "first", |command| clock.wind(command))?;
        led_by(&world, "first").await?;
        manager.ready(PATIENCE).await?;
        let port = Endpoint::start(world.client.clone(), "ns", "a-service-cert").await?.port;
        publish(&world, 1, port).await?;
        for (namespace, package) in [("ns", "a"), ("slow", "slow")] {
            world.home(namespace).await?;
            world.subscribe(namespace, package).await?;
        }
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.csv("slow", "slow.v1.0.0", "Installing").await?;
        webhook_answers(&world).await?;
        let (made, held) = (certificate(&world).await?, lease(&world).await?);

        // when the clock is a day ahead
        clock.jump("+1d")?;
        touch_all(&world).await?;
        // then the deadline has passed, and is reported
        let late = world.csv("slow", "slow.v1.0.0", "Failed").await?;
        ensure!(text(&late, "/status/reason") == "InstallCheckFailed", "{}", late["status"]);
        ensure!(off(&world, "slow", "slow.v1.0.0").await? > HOUR, "the clock did not jump");
        // an upgrade works, with the existing certificate
        publish(&world, 2, port).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        webhook_answers(&world).await?;
        ensure!(certificate(&world).await? == made, "a new certificate after a day");
        // and the late one succeeds when it starts
        world.kubelet.set(|_| Fate::Ready);
        world.installed("slow", "slow", "slow.v1.0.0").await?;

        // when a certificate is issued by that clock, it is not valid yet for others
        world.delete("Secret", "ns", "a-service-cert").await?;
        touch_all(&world).await?;
        world.eventually("a certificate", async || certificate(&world).await).await?;
        let ahead = certificate(&world).await?;
        ensure!(ahead != made, "the same certificate");
        // and the clock is corrected
        clock.jump("+0")?;
        touch_all(&world).await?;
        // then it is replaced, and the webhook is reached
        webhook_answers(&world).await?;
        ensure!(certificate(&world).await? != ahead, "a certificate that has not begun is kept");
        publish(&world, 3, port).await?;
        world.installed("ns", "a", "a.v3.0.0").await?;

        // when the clock is a day behind
        clock.jump("-1d")?;
        touch_all(&world).await?;
        publish(&world, 4, port).await?;
        world.installed("ns", "a", "a.v4.0.0").await?;
        ensure!(off(&world, "ns", "a.v4.0.0").await? < -HOUR, "the clock did not jump");
        webhook_answers(&world).await?;

        // and all the time the same process has led
        let now = lease(&world).await?;
        ensure!(manager.runs()?, "{}", manager.log_tail());
        ensure!(
            now.holder_identity == held.holder_identity && now.lease_transitions == held.lease_transitions,
            "{now:?}"
        );
        world.gone("ClusterServiceVersion", "ns", "a.v3.0.0").await?;
        let csvs = world.names("ClusterServiceVersion", "ns").await?;
        ensure!(csvs == ["a.v4.0.0"], "{csvs:?}");
        let plans = world.list("InstallPlan", "ns").await?;
        ensure!(plans.len() == 4, "expected one plan for each version: {plans:#?}");
        Ok(())
    });
}
