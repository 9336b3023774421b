//! Clusters with TLS and users: their backups, the users in a restored backup, and wrong passwords.

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Handle, Stage};
use serde_json::{Value, json};

use crate::{
    judge::is_observation,
    restores::{followed, released, restoring, with_backup},
    secured::{SERVICE, addresses},
    spec,
    tasks::{Task, get, put},
};

const PASSWORD: &str = "s3cret";

/// The Secret with the password of the user root.
async fn apply_password(stage: &Stage, password: &str) -> Result<()> {
    let metadata = json!({ "name": "root", "namespace": "ns" });
    stage
        .apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": { "password": password } }))
        .await
}

/// TLS with certificates issued by the operator, and authentication.
fn guarded(stage: &Stage) -> Value {
    let names: Vec<String> = addresses(stage).iter().map(ToString::to_string).collect();
    json!({ "TLS": { "auto": { "serverNames": names } }, "auth": { "rootSecret": "root" } })
}

/// A cluster with both, accessed as root.
async fn cluster<'a>(stage: &'a Stage, size: usize) -> Result<Handle<'a>> {
    apply_password(stage, PASSWORD).await?;
    let both = guarded(stage);
    let mut spec = spec(size);
    (spec["auth"], spec["TLS"]) = (both["auth"].clone(), both["TLS"].clone());
    // Authentication is enabled once it is complete: newer etcds then require a login for status requests.
    stage.enter_through("c-client-tls", SERVICE);
    stage.enter_as_root(PASSWORD);
    let cluster = stage.create("c", spec).await?;
    cluster.steady(size).await?;
    cluster.until("authentication", |object| object["status"]["authEnabled"] == true).await?;
    Ok(cluster)
}

/// Unauthenticated requests are rejected.
async fn logins_are_required(cluster: &Handle<'_>) -> Result<()> {
    let stage = cluster.stage;
    stage.enter_as_root("a guess");
    let member = cluster.names().await?.into_iter().next().context("a member")?;
    let ip = stage.net.inside(&member);
    let refused = stage.entry.client(ip, olm_tests::etcd_stage::PATIENCE).await?.get("precious", None).await;
    stage.enter_as_root(PASSWORD);
    let words = refused.err().map(|error| error.to_string()).unwrap_or_default();
    let asked = ["permission denied", "user name is empty", "user name not found"];
    ensure!(asked.iter().any(|asks| words.contains(asks)), "{words:?}");
    Ok(())
}

/// A user disables authentication, for an upgrade perhaps, the operator makes new connections, and it is
/// enabled again.
async fn switched_off_and_on(cluster: &Handle<'_>) -> Result<()> {
    let stage = cluster.stage;
    let (leader, follower) = (cluster.leader().await?, cluster.followers().await?.remove(0));
    // An earlier login is invalid afterwards.
    let client =
        async || stage.entry.client(stage.net.inside(&leader), olm_tests::etcd_stage::PATIENCE).await;
    client().await?.auth_client().auth_disable().await?;
    let starts = stage.kubelet.starts().len();
    stage.kubelet.kill(&follower)?;
    let again = async || {
        ensure!(stage.kubelet.starts().len() > starts, "it is not");
        Ok(())
    };
    stage.eventually("the member to be started again", again).await?;
    // The second observation begins when the first, with a new connection, is complete.
    let observations = || {
        let calls = stage.faults.iter().flat_map(olm_tests::inprocess::Faults::calls);
        calls.filter(|call| is_observation(call) && call.query.contains(&cluster.name)).count()
    };
    let before = observations();
    let twice = async || {
        ensure!(observations() >= before + 2, "{} of 2", observations() - before);
        Ok(())
    };
    stage.eventually("two observations of the operator", twice).await?;
    client().await?.auth_client().auth_enable().await?;
    Ok(())
}

/// S21 and S23, of a cluster with TLS and users: its backup contains the users, and restores them.
#[test]
fn s23_a_cluster_with_tls_and_users_goes_back_to_its_backup() {
    restoring("S23 users", async |stage| {
        let _operator = stage.operator()?;
        let cluster = cluster(stage, 3).await?;
        logins_are_required(&cluster).await?;
        switched_off_and_on(&cluster).await?;
        let revision = with_backup(&cluster, json!({})).await?;
        // By URL, with the application certificate issued by the operator: etcd only lets root read
        // snapshots.
        let urls: Vec<String> =
            cluster.names().await?.iter().map(|n| format!("https://{}:2379", stage.net.outside(n))).collect();
        let by_url = json!({ "clusterName": null, "etcdEndpoints": urls, "clientTLSSecret": "c-client-tls" });
        let by_url = Task::backup(&cluster, "by-url", "bucket/by-url", by_url).await?;
        by_url.failed("authentication is enabled in etcd").await?;
        by_url.delete().await?;

        let former = cluster.names().await?;
        let restore = Task::restore(stage, "c", "back", "bucket/etcd", json!({})).await?;
        let status = followed(&cluster, &restore, &former).await?;
        ensure!(status["snapshot"]["revision"] == revision, "{status}");
        let safety = status["safetyBackup"].as_str().unwrap_or_default();
        ensure!(safety.starts_with("s3://bucket/etcd_before-restore_"), "{status}");
        cluster.steady(3).await?;
        ensure!(get(&cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        ensure!(get(&cluster, "late").await?.is_none(), "what came after the backup is still there");
        released(&cluster, &restore).await?;
        cluster.until("authentication", |object| object["status"]["authEnabled"] == true).await?;
        logins_are_required(&cluster).await
    });
}

/// The password of the Secret and that of etcd differ: that is reported, no member is touched, and work
/// continues when they are equal. Also when the other password came with a backup.
#[test]
fn s23_a_password_that_is_refused_is_reported_and_nothing_is_changed() {
    restoring("S23 passwords", async |stage| {
        let _operator = stage.operator()?;
        let cluster = cluster(stage, 1).await?;
        with_backup(&cluster, json!({})).await?;
        let starts = stage.kubelet.starts().len();

        apply_password(stage, "changed").await?;
        let reported = cluster.condition("TLSReady", "False", "PasswordRefused").await?;
        let message = reported["message"].as_str().unwrap_or_default();
        ensure!(
            message.contains("Secret root, key password: etcd rejects this password for user root"),
            "{reported}"
        );
        cluster.spec(json!({ "size": 2 })).await?;
        let seen =
            |object: &Value| object["status"]["observedGeneration"] == object["metadata"]["generation"];
        let object = cluster.until("the new size to be seen", seen).await?;
        ensure!(object["status"]["conditions"].to_string().contains("PasswordRefused"), "{object}");
        ensure!(
            stage.kubelet.starts().len() == starts && cluster.names().await?.len() == 1,
            "something was done with a password that is refused"
        );
        // As in the message.
        let leader = stage.net.inside(&cluster.leader().await?);
        let client = stage.entry.client(leader, olm_tests::etcd_stage::PATIENCE).await?;
        client.auth_client().user_change_password("root", "changed").await?;
        stage.enter_as_root("changed");
        cluster.condition("TLSReady", "True", "").await?;
        cluster.steady(2).await?;
        put(&cluster, "precious", b"later").await?;

        // In the backup the password is the original one.
        let restore = Task::restore(stage, "c", "back", "bucket/etcd", json!({})).await?;
        cluster.condition("TLSReady", "False", "PasswordRefused").await?;
        stage.enter_as_root(PASSWORD);
        apply_password(stage, PASSWORD).await?;
        restore.succeeded().await?;
        cluster.steady(2).await?;
        ensure!(get(&cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        Ok(())
    });
}

/// A backup with users, in a new cluster without configured authentication: the first member has the data,
/// and what the others wait for is reported.
#[test]
fn s23_users_of_a_backup_are_reported_to_a_cluster_without_users() {
    restoring("S23 users of another", async |stage| {
        let _operator = stage.operator()?;
        let cluster = cluster(stage, 1).await?;
        with_backup(&cluster, json!({})).await?;
        let both = guarded(stage);
        let mut template = spec(2);
        template["TLS"] = both["TLS"].clone();
        let more = json!({ "clusterTemplate": template });
        let restore = Task::restore(stage, "d", "other", "bucket/etcd", more).await?;
        let other = Handle { stage, name: "d".to_owned() };
        let reported = |object: &Value| {
            object["status"]["conditions"]
                .to_string()
                .contains("set spec.auth.rootSecret to the Secret with the password of user root")
        };
        other.until("the user to be asked for", reported).await?;
        other.spec(json!({ "auth": both["auth"] })).await?;
        restore.succeeded().await?;
        let whole =
            |object: &Value| object["status"]["authEnabled"] == true && object["status"]["readyMembers"] == 2;
        other.until("all to be well", whole).await.map(drop)
    });
}
