//! Isolation of containers from the machine (T17 of the threat model).

use super::*;

/// A pod that sleeps; its container has this security context.
async fn waiting(rig: &Rig, name: &str, context: Value) {
    let container = json!({
        "name": "c", "image": "test/host:1", "securityContext": context,
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"],
    });
    rig.create(name, json!({"containers": [container]})).await;
    rig.wait_ready(name).await;
}

/// A line of `/proc/self/status` of a command in the pod.
async fn status(rig: &Rig, pod: &str, key: &str) -> String {
    let (code, out, err) =
        rig.exec(pod, &format!("sed -n 's/^{key}:[[:space:]]*//p' /proc/self/status"), None).await;
    assert_eq!(code, 0, "{err}");
    out.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t17_containers_have_few_capabilities() {
    let data = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(data.path()).await else { return };
    let cases = [
        ("plain", json!({}), "00000000a80425fb", "00000000a80425fb", "0"),
        ("dropped", json!({"capabilities": {"drop": ["ALL"]}}), "0000000000000000", "0000000000000000", "0"),
        (
            "added",
            json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
            "0000000000000400",
            "0000000000000400",
            "0",
        ),
        (
            "user",
            json!({"runAsUser": 1000, "allowPrivilegeEscalation": false}),
            "0000000000000000",
            "00000000a80425fb",
            "1",
        ),
    ];
    for (name, context, effective, bounding, no_new_privileges) in cases {
        waiting(&rig, name, context).await;
        assert_eq!(status(&rig, name, "CapEff").await, effective, "{name}");
        assert_eq!(status(&rig, name, "CapPrm").await, effective, "{name}");
        assert_eq!(status(&rig, name, "CapBnd").await, bounding, "{name}");
        assert_eq!(status(&rig, name, "CapInh").await, "0000000000000000", "{name}");
        assert_eq!(status(&rig, name, "CapAmb").await, "0000000000000000", "{name}");
        assert_eq!(status(&rig, name, "NoNewPrivs").await, no_new_privileges, "{name}");
        // The container's processes have no more capabilities than commands in it. Process 1 is the pod's
        // init, outside of the container.
        let all = "for p in /proc/[0-9]*; do [ $p = /proc/1 ] || sed -n 's/^CapEff:[[:space:]]*//p' $p/status; done";
        let (_, own, _) = rig.exec(name, &format!("{all} | sort -u"), None).await;
        assert_eq!(own.trim(), effective, "{name}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t17_root_in_a_container_does_not_reach_the_machine() {
    let data = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::start(data.path()).await else { return };
    waiting(&rig, "root", json!({"runAsUser": 0})).await;
    // Commands that would have no effect if they were not refused.
    let refused = [
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
        "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness",
        "echo h > /proc/sysrq-trigger",
        "ls /proc/1/root/",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw,bind /proc/sys",
        "umount /proc/sys",
        "hostname other",
        "nsenter --mount=/proc/1/ns/mnt true",
    ];
    for script in refused {
        let (code, out, err) = rig.exec("root", script, None).await;
        assert_ne!(code, 0, "{script}: {out} {err}");
    }
    for empty in ["/proc/kcore", "/proc/keys", "/proc/timer_list"] {
        let (_, out, _) =
            rig.exec("root", &format!("[ ! -e {empty} ] || head -c 1 {empty} | wc -c"), None).await;
        assert!(matches!(out.trim(), "" | "0"), "{empty}: {out}");
    }
    // Regular operations of programs work.
    let (code, _, err) =
        rig.exec("root", "cat /proc/self/stat /proc/sys/kernel/osrelease /proc/meminfo", None).await;
    assert_eq!(code, 0, "{err}");
    rig.stop().await;
}
