//! Adoption of clusters of coreos/etcd-operator: pods and a status as it wrote them.

use serde_json::{Value, json};

use super::super::*;
use crate::crd::{EtcdClusterStatus, MembersStatus};
use crate::observed::{Endpoint, Member, Observed, PodView, Serving, Start};
use crate::validate::{Validated, tests::cluster, validate};

/// A pod of coreos/etcd-operator: restart policy Never, probes by etcdctl, no annotation but the version.
fn pod(name: &str, phase: &str) -> PodView {
    let pod: Value = json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": "etcd", "etcd_cluster": "orders", "etcd_node": name },
            "annotations": { "etcd.version": "3.4.23" },
            "ownerReferences": [{ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
                                  "name": "orders", "uid": "u-1", "controller": true }]
        },
        "spec": {
            "restartPolicy": "Never", "hostname": name, "subdomain": "orders",
            "initContainers": [{ "name": "check-dns", "image": "busybox:1.28.0-glibc" }],
            "containers": [{ "name": "etcd", "image": "quay.io/coreos/etcd:v3.4.23" }],
            "volumes": [{ "name": "etcd-data", "emptyDir": {} }]
        },
        "status": { "phase": phase, "podIP": "10.0.0.1",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z" }],
            "containerStatuses": [{ "name": "etcd", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
                                    "state": { "running": { "startedAt": "2026-01-01T00:00:09Z" } } }] }
    });
    crate::observe::view(&serde_json::from_value(pod).unwrap())
}

const NAMES: [&str; 3] = ["orders-4hkhz6bx2r", "orders-bcdfghjklm", "orders-zzzzzzzzzz"];

/// A status of coreos/etcd-operator: no id of the etcd cluster, times as text.
fn status() -> EtcdClusterStatus {
    serde_json::from_value(json!({
        "phase": "Running", "controlPaused": false, "size": 3, "serviceName": "orders-client", "clientPort": 2379,
        "currentVersion": "3.4.23", "targetVersion": "",
        "members": { "ready": NAMES },
        "conditions": [{ "type": "Available", "status": "True", "reason": "Cluster available",
                         "lastUpdateTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z" }]
    }))
    .unwrap()
}

fn valid() -> Validated {
    validate(&cluster(json!({ "size": 3, "version": "3.4.23" }))).unwrap()
}

fn observed(pods: Vec<PodView>) -> Observed {
    let members: Vec<Member> = (1..)
        .zip(NAMES)
        .map(|(id, name)| Member {
            id,
            pod: Some(name.into()),
            peer_url: format!("http://{name}.orders.shop.svc:2380"),
            started: true,
            is_learner: false,
        })
        .collect();
    let serving = pods.iter().filter(|pod| !pod.ended);
    let endpoints = serving
        .map(|pod| {
            let id = members.iter().find(|m| m.pod.as_ref() == Some(&pod.name)).unwrap().id;
            let endpoint = Endpoint {
                member_id: id,
                cluster_id: 0xabc,
                leader: 2,
                raft_index: 9,
                applied: 9,
                version: "3.4.23".into(),
                linearizable: true,
                members: members.clone(),
                ..Endpoint::default()
            };
            (pod.name.clone(), endpoint)
        })
        .collect();
    Observed {
        now: "2026-01-01T01:00:00Z".parse().unwrap(),
        pods,
        endpoints,
        fresh_name: "orders-dddddddddd".into(),
        ..Observed::default()
    }
}

#[test]
fn its_running_cluster_is_taken_over_without_touching_a_member() {
    let (cluster, old) = (valid(), status());
    let observed = observed(NAMES.iter().map(|name| pod(name, "Running")).collect());
    assert!(observed.pods.iter().all(|pod| pod.start == Start::Fixed && pod.ever_started));
    let memory = crate::status::memory(&old);
    assert!(memory.taken_over);
    let decision = plan(&cluster.goal, &memory, &observed);
    let Some(Action::Remember(noted)) = &decision.action else { panic!("{decision:?}") };
    assert_eq!(noted.cluster_id.as_deref(), Some("abc"));
    let new = crate::status::status(&old, &cluster, &observed, &decision);
    assert_eq!((new.cluster_id.as_deref(), new.size, new.phase.as_str()), (Some("abc"), 3, "Running"));

    // Its pods get the label of the client Service, one by one, and nothing else is changed.
    let (memory, mut observed) = (crate::status::memory(&new), observed);
    for name in NAMES {
        let next = plan(&cluster.goal, &memory, &observed);
        let uid = observed.pod(name).unwrap().uid.clone();
        let joins = Action::JoinService { name: name.into(), uid };
        assert_eq!((next.progress, next.action), (Progress::Steady, Some(joins)));
        observed.pods.iter_mut().filter(|pod| pod.name == name).for_each(|pod| pod.serving = Serving::In);
    }
    let next = plan(&cluster.goal, &memory, &observed);
    assert_eq!((next.progress, next.action), (Progress::Steady, None));
}

#[test]
fn its_failed_pod_is_a_lost_member_and_is_replaced() {
    let (cluster, old) = (valid(), status());
    let mut observed = observed(
        (0..).zip(NAMES).map(|(n, name)| pod(name, if n == 0 { "Failed" } else { "Running" })).collect(),
    );
    let first = plan(&cluster.goal, &crate::status::memory(&old), &observed);
    let new = crate::status::status(&old, &cluster, &observed, &first);
    let memory = crate::status::memory(&new);
    observed.pods.iter_mut().for_each(|pod| pod.serving = Serving::In);
    assert!(
        plan(&cluster.goal, &memory, &observed).compare,
        "its members are compared before one is removed"
    );
    let next = plan(&cluster.goal, &memory, &Observed { compared_now: true, ..observed });
    assert!(matches!(&next.action, Some(Action::RemoveMember { name, .. }) if name == NAMES[0]), "{next:?}");
}

#[test]
fn of_its_cluster_without_pods_no_empty_one_is_made() {
    let (cluster, old) = (valid(), status());
    let decision = plan(&cluster.goal, &crate::status::memory(&old), &observed(Vec::new()));
    assert_eq!((decision.progress, decision.action), (Progress::DataLost, None));
}

/// The same observation with another version and these log positions: the last entry, and the last applied
/// one. Before 3.4 the second is not reported.
fn older(mut observed: Observed, version: &str, (index, applied): (u64, u64)) -> Observed {
    for pod in &mut observed.pods {
        pod.version = version.into();
    }
    for endpoint in observed.endpoints.values_mut() {
        (endpoint.version, endpoint.raft_index, endpoint.applied) = (version.into(), index, applied);
    }
    observed
}

/// An observation of a single-member cluster.
fn alone() -> Observed {
    let mut observed = observed(vec![pod(NAMES[0], "Running")]);
    for endpoint in observed.endpoints.values_mut() {
        endpoint.leader = 1;
        endpoint.members.truncate(1);
    }
    observed
}

/// Its status as coreos/etcd-operator left it.
fn status_of_one(version: &str) -> EtcdClusterStatus {
    let members = MembersStatus { ready: vec![NAMES[0].into()], unready: Vec::new() };
    EtcdClusterStatus { size: 1, current_version: version.into(), members, ..status() }
}

#[test]
fn to_a_cluster_without_learners_no_member_is_added_and_it_is_reported() {
    // given a manifest without a version, and members older than the default version
    let wanted = validate(&cluster(json!({ "size": 3 }))).unwrap();
    for log in [(9, 9), (9, 0), (20_000, 0)] {
        let observed = older(alone(), "3.2.13", log);
        let mut status = status_of_one("3.2.13");
        // when it is reconciled repeatedly
        let decisions: Vec<Decision> = (0..20)
            .map(|_| {
                let decision = plan(&wanted.goal, &crate::status::memory(&status), &observed);
                status = crate::status::status(&status, &wanted, &observed, &decision);
                decision
            })
            .collect();
        // then the only action records its id, where that can be proved
        let harmless = |d: &&Decision| matches!(d.action, None | Some(Action::Remember(_)));
        assert_eq!(decisions.iter().filter(harmless).count(), decisions.len(), "{log:?}: {decisions:?}");
        assert_eq!((status.pending_member.as_deref(), status.size), (None, 1));
        assert_eq!(status.cluster_id.as_deref(), (log.0 < 5000).then_some("abc"));
        // and the required steps are reported
        let last = decisions.last().unwrap();
        assert_eq!((last.progress, last.blocked), (Progress::Stuck, Some("UnsupportedVersion")));
        let reason = |type_: &str| status.condition(type_).map(|c| c.reason.clone()).unwrap_or_default();
        assert_eq!(reason("Degraded"), "UnsupportedVersion");
        assert_eq!(reason("Upgrading"), "UnsupportedVersion");
        assert!(status.condition("Degraded").unwrap().message.contains("to 3.3, then to 3.4"));
        assert_eq!(status.phase, "Running");
    }
}

#[test]
fn a_cluster_that_was_brought_to_3_4_meanwhile_grows() {
    let wanted = validate(&cluster(json!({ "size": 3 }))).unwrap();
    let status = EtcdClusterStatus { cluster_id: Some("abc".into()), ..status_of_one("3.2.13") };
    let mut observed = older(alone(), "3.4.23", (9, 9));
    observed.pods.iter_mut().for_each(|pod| pod.serving = Serving::In);
    let decision = plan(&wanted.goal, &crate::status::memory(&status), &observed);
    let Some(Action::Remember(noted)) = &decision.action else { panic!("{decision:?}") };
    assert_eq!(noted.pending.as_deref(), Some("orders-dddddddddd"));
}

#[test]
fn of_members_without_learners_none_is_replaced_and_none_is_upgraded() {
    let wanted = validate(&cluster(json!({ "size": 3 }))).unwrap();
    let status =
        EtcdClusterStatus { cluster_id: Some("abc".into()), current_version: "3.3.27".into(), ..status() };
    for first in ["Running", "Failed"] {
        let pods = NAMES.iter().map(|name| pod(name, if *name == NAMES[0] { first } else { "Running" }));
        let observed = older(observed(pods.collect()), "3.3.27", (9, 9));
        let decision = plan(&wanted.goal, &crate::status::memory(&status), &observed);
        assert_eq!((decision.action, decision.blocked), (None, Some("UnsupportedVersion")), "{first}");
    }
}

#[test]
fn a_cluster_without_learners_is_left_alone_also_when_no_member_answers() {
    let wanted = validate(&cluster(json!({ "size": 3 }))).unwrap();
    let status =
        EtcdClusterStatus { cluster_id: Some("abc".into()), current_version: "3.3.27".into(), ..status() };
    let claim = |name: &str, version: &str| crate::observed::ClaimView {
        name: name.into(),
        version: version.into(),
        ..Default::default()
    };
    // given terminated pods with volumes, or volumes alone, some without a recorded version
    for (phase, noted) in [(Some("Failed"), ""), (None, ""), (None, "3.3.27"), (Some("Running"), "")] {
        let pods = NAMES.iter().filter_map(|name| Some(pod(name, phase?))).collect();
        let mut observed = older(observed(pods), "3.3.27", (9, 9));
        observed.endpoints.clear();
        observed.claims = NAMES.iter().map(|name| claim(name, noted)).collect();
        // then none is started with unsupported arguments
        let memory = crate::status::memory(&status);
        let decision = plan(&wanted.goal, &memory, &observed);
        assert_eq!(
            (&decision.action, decision.blocked),
            (&None, Some("UnsupportedVersion")),
            "{phase:?} {noted:?}"
        );
        let reported = crate::status::status(&status, &wanted, &observed, &decision);
        let reason =
            |type_: &str| reported.condition(type_).map(|c| (c.status.clone(), c.reason.clone())).unwrap();
        assert_eq!(reason("Available"), ("False".into(), "QuorumLost".into()));
        assert_eq!(reason("Degraded"), ("True".into(), "UnsupportedVersion".into()));
        // but where pods were already upgraded, the old record does not count
        for pod in &mut observed.pods {
            pod.version = "3.4.23".into();
        }
        let decision = plan(&wanted.goal, &memory, &observed);
        assert_eq!(decision.blocked == Some("UnsupportedVersion"), observed.pods.is_empty(), "{decision:?}");
    }
    // Without pods and claims no restriction applies.
    let gone = plan(&wanted.goal, &crate::status::memory(&status), &observed(Vec::new()));
    assert_eq!((gone.progress, gone.action), (Progress::DataLost, None));
}
