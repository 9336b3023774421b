//! Fault injection: the effects of faults, and that they can be reverted.

use olm_devcluster_machinery::fault::{CutFrom, Done, Fault, Faults, Kind, Undo};

use super::*;

/// Counts up in a file, which is complete at any moment; first prints the previous count.
const COUNTER: &str = "cat /data/n 2>/dev/null; n=0; while :; do n=$((n+1)); echo $n > /data/new; mv /data/new /data/n; sleep 0.02; done";

fn counter(policy: &str) -> Value {
    let mut container = shell(COUNTER);
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    json!({
        "terminationGracePeriodSeconds": 1, "restartPolicy": policy, "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}],
    })
}

fn server() -> Value {
    json!({"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "main", "image": "test/host:1", "command": ["helper", "serve", "8080", "hello"]},
    ]})
}

/// The counter of a pod, read from outside, without a process in the pod.
fn count(rig: &Rig, pod: &Value) -> u64 {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let path = rig.data.join("pods").join(uid).join("volumes/data/n");
    std::fs::read_to_string(path).unwrap_or_default().trim().parse().unwrap_or(0)
}

/// Increase of the counter in half a second.
async fn progress(rig: &Rig, pod: &Value) -> u64 {
    let begin = count(rig, pod);
    tokio::time::sleep(Duration::from_millis(500)).await;
    count(rig, pod).saturating_sub(begin)
}

async fn counts(rig: &Rig, pod: &Value) {
    let begin = Instant::now();
    while progress(rig, pod).await == 0 {
        assert!(begin.elapsed() < PATIENCE, "it does not count");
    }
}

fn faults(rig: &Rig) -> Faults {
    Faults::new(rig.server.client(Identity::admin()))
}

fn what(all: &[Done]) -> Vec<(&str, &str)> {
    all.iter().map(|done| (done.pod.as_str(), done.fault.kind().name())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_paused_and_slowed_and_runs_again() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let faults = faults(&rig);
    rig.create("busy", counter("Always")).await;
    let pod = rig.wait_ready("busy").await;
    counts(&rig, &pod).await;
    // when it is paused, then it makes no progress
    faults.put("default", "busy", Fault::Pause).await.unwrap();
    assert_eq!(progress(&rig, &pod).await, 0);
    assert_eq!(what(&faults.list().await.unwrap()), [("busy", "pause")]);
    // also not when `slow` is applied meanwhile
    let slow = Fault::Slow { stop_milliseconds: 100, run_milliseconds: 5 };
    faults.put("default", "busy", slow).await.unwrap();
    assert_eq!(progress(&rig, &pod).await, 0);
    assert_eq!(what(&faults.list().await.unwrap()), [("busy", "pause"), ("busy", "slow")]);
    // when the pause is reverted, then it is slow
    let undone = faults.undo(&Undo { kind: Some(Kind::Pause), ..Undo::default() }).await.unwrap();
    assert_eq!(what(&undone), [("busy", "pause")]);
    counts(&rig, &pod).await;
    let slowly = progress(&rig, &pod).await;
    // when all faults are reverted, then it runs as before
    assert_eq!(what(&faults.undo(&Undo::default()).await.unwrap()), [("busy", "slow")]);
    counts(&rig, &pod).await;
    let freely = progress(&rig, &pod).await;
    assert!(freely > slowly, "{slowly} while slow, {freely} afterwards");
    assert!(
        faults.list().await.unwrap().is_empty() && faults.undo(&Undo::default()).await.unwrap().is_empty()
    );
    let events = rig.reasons("busy").await;
    assert!(events.iter().any(|event| event.starts_with("Fault: pause")), "{events:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_killed_and_its_volume_is_wiped_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let faults = faults(&rig);
    rig.create("busy", counter("Always")).await;
    let pod = rig.wait_ready("busy").await;
    counts(&rig, &pod).await;
    // when it is killed, then it starts again with its data
    faults.put("default", "busy", Fault::Kill { wipe: false }).await.unwrap();
    let restarted = |times: i64| {
        move |pod: &Value| {
            pod["status"]["containerStatuses"][0]["restartCount"] == times
                && state(pod)["running"].is_object()
        }
    };
    let killed = rig.wait("busy", "a restart", restarted(1)).await;
    let last = &killed["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["signal"]), (&json!(137), &json!(9)));
    let begin = Instant::now();
    loop {
        let log = rig.logs("busy", LogOptions::default()).await;
        if log.trim().parse::<u64>().is_ok() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "the file was gone: {log:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // when its volume is wiped as well, then it starts from zero (the second restart waits for its back-off,
    // so a pod without restarts shows the volume)
    rig.create("once", counter("Never")).await;
    let once = rig.wait_ready("once").await;
    counts(&rig, &once).await;
    faults.put("default", "once", Fault::Kill { wipe: true }).await.unwrap();
    let uid = once["metadata"]["uid"].as_str().unwrap();
    let volume = rig.data.join("pods").join(uid).join("volumes/data");
    assert_eq!(std::fs::read_dir(&volume).unwrap().count(), 0);
    rig.wait("once", "the end", |pod| pod["status"]["phase"] == "Failed").await;
    // and a finished or missing pod cannot be killed
    for (pod, why) in [("once", "not running"), ("missing", "is not on node")] {
        let refused = faults.put("default", pod, Fault::Kill { wipe: false }).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(faults.list().await.unwrap().is_empty());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_cut_off_from_everything_from_pods_and_from_one() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let faults = faults(&rig);
    let mut web = server();
    web["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1});
    rig.create("web", web).await;
    for name in ["a", "b"] {
        rig.create(name, json!({"containers": [shell("while :; do sleep 0.05; done")]})).await;
    }
    let services: Api<Service> = Api::namespaced(rig.client.clone(), "default");
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let web = rig.wait_ready("web").await;
    rig.wait_ready("a").await;
    rig.wait_ready("b").await;
    let ip = web["status"]["podIP"].as_str().unwrap().to_owned();
    let fetch = async |pod: &str, address: &str| {
        let request = r"printf 'GET / HTTP/1.0\r\n\r\n' >&3; tail -n 1 <&3";
        let script = format!("timeout 1 bash -c \"exec 3<>/dev/tcp/{address}; {request}\"");
        rig.exec(pod, &script, None).await.1.trim() == "hello"
    };
    let direct = format!("{ip}/8080");
    let begin = Instant::now();
    while !fetch("a", "web/80").await {
        assert!(begin.elapsed() < PATIENCE, "the service does not answer");
    }
    assert!(fetch("a", &direct).await && fetch("b", &direct).await);
    let put = async |from: CutFrom| faults.put("default", "web", Fault::Cut(from)).await;
    // when it is cut off from one pod, then another one still reaches it
    let refused = match put(CutFrom::Named(vec!["a".to_owned()])).await {
        Err(error) if error.to_string().contains("program nft not found") => {
            println!("skipped: cuts from pods: {error}");
            return rig.stop().await;
        }
        other => other.err(),
    };
    assert!(refused.is_none(), "{refused:?}");
    assert!(!fetch("a", &direct).await && fetch("b", &direct).await);
    // when it is cut off from all pods, then also through its Service; but the node still reaches it, and it
    // the API
    put(CutFrom::Pods).await.unwrap();
    assert!(!fetch("b", &direct).await && !fetch("b", "web/80").await);
    let api = "timeout 2 bash -c 'exec 3<>/dev/tcp/10.96.0.1/443' && \
               getent hosts kubernetes.default.svc.cluster.local >/dev/null && echo there";
    assert_eq!(rig.exec("web", api, None).await.1, "there\n");
    assert_eq!(
        condition(&rig.pods().get("web").await.map(|p| serde_json::to_value(p).unwrap()).unwrap(), "Ready"),
        "True"
    );
    // when it is cut off from everything, then probes fail too
    put(CutFrom::Everything).await.unwrap();
    rig.wait("web", "not ready", |pod| condition(pod, "Ready") == "False").await;
    let all = faults.list().await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].fault, Fault::Cut(CutFrom::Everything));
    // when the cut is reverted, then all connections work as before
    faults.undo(&Undo { pod: Some("web".to_owned()), ..Undo::default() }).await.unwrap();
    rig.wait_ready("web").await;
    assert!(fetch("a", &direct).await && fetch("b", &direct).await);
    // and a fault ends with its pod
    put(CutFrom::Everything).await.unwrap();
    rig.pods().delete("web", &DeleteParams::default()).await.unwrap();
    rig.wait("web", "the end", Value::is_null).await;
    let begin = Instant::now();
    while !faults.list().await.unwrap().is_empty() {
        assert!(begin.elapsed() < PATIENCE, "the fault is still listed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_administrators_inject_faults() {
    let dir = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(dir.path()).await else { return };
    let unprivileged = Faults::new(rig.server.client(Identity {
        user: "visitor".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        ..Identity::default()
    }));
    let refused = unprivileged.put("default", "x", Fault::Pause).await.unwrap_err().to_string();
    assert!(refused.contains("cannot post path"), "{refused}");
    let silly = Fault::Slow { stop_milliseconds: 0, run_milliseconds: 5 };
    let refused = faults(&rig).put("default", "x", silly).await.unwrap_err().to_string();
    assert!(refused.contains("stop: invalid value 0 ms, expected 1 ms to"), "{refused}");
    rig.stop().await;
}
