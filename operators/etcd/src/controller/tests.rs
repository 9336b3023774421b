//! Details, and many clusters at once against an API server that does not answer about most of them.

mod many;

use super::*;

#[test]
fn a_failure_is_told_again_after_a_while_only() {
    let told: Timestamp = "2026-11-21T11:00:00Z".parse().unwrap();
    let degraded = |reason: &str| EtcdClusterStatus {
        conditions: vec![crate::crd::Condition {
            type_: "Degraded".into(),
            status: "True".into(),
            reason: reason.into(),
            message: "failed to create pod a: quota".into(),
            last_update_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(told)),
            ..crate::crd::Condition::default()
        }],
        ..EtcdClusterStatus::default()
    };
    let at = |status: &EtcdClusterStatus, seconds: i64| {
        told_lately(status, told + jiff::SignedDuration::from_secs(seconds))
    };
    assert_eq!(at(&degraded("ActionFailed"), 30).as_deref(), Some("failed to create pod a: quota"));
    assert_eq!(at(&degraded("ActionFailed"), 61), None);
    assert_eq!(at(&degraded("NoSpace"), 30), None);
    assert_eq!(at(&EtcdClusterStatus::default(), 30), None);
}

#[test]
fn what_is_gone_from_the_status_is_taken_away_by_the_patch() {
    let old = EtcdClusterStatus {
        pending_member: Some("a".into()),
        members: crate::crd::MembersStatus { ready: vec![], unready: vec!["a".into()] },
        ..EtcdClusterStatus::default()
    };
    let new = EtcdClusterStatus { phase: "Running".into(), ..EtcdClusterStatus::default() };
    let patch = differences(&old, &new);
    assert_eq!(patch["pendingMember"], json!(null));
    assert_eq!(patch["members"]["unready"], json!(null));
    assert_eq!(patch["phase"], "Running");
}

#[test]
fn annotated_clusters_belong_to_the_operator_of_the_whole_cluster() {
    let mut cluster = crate::validate::tests::cluster(json!({ "size": 1 }));
    let namespaced = Scope::Namespaces(vec!["shop".into()]);
    assert!(
        namespaced.includes(&cluster)
            && Scope::All.includes(&cluster)
            && !Scope::Annotated.includes(&cluster)
    );
    cluster.annotations_mut().insert(names::ANNOTATION_SCOPE.into(), "clusterwide".into());
    assert!(
        !namespaced.includes(&cluster)
            && Scope::All.includes(&cluster)
            && Scope::Annotated.includes(&cluster)
    );
}
