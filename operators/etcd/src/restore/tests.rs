//! The plan, case by case.

mod model;
mod real;

use super::claim::ObservedClaim;
use super::plan::{ObservedCluster, ObservedPod, RestoreState, Step, next_step};
use crate::crd::restore::{ClaimStatus, EtcdRestoreStatus, SnapshotStatus};

const UID: &str = "r-1";

fn snapshot() -> SnapshotStatus {
    SnapshotStatus {
        size_bytes: 8224,
        sha256: "ab".into(),
        revision: Some(10),
        etcd_version: "3.4.23".into(),
        cluster_id: "aa".into(),
    }
}

/// A healthy cluster of one member, and a verified snapshot.
fn state() -> RestoreState {
    RestoreState {
        status: EtcdRestoreStatus {
            phase: "Verified".into(),
            snapshot: Some(snapshot()),
            ..EtcdRestoreStatus::default()
        },
        uid: UID.into(),
        has_finalizer: true,
        name: "orders".into(),
        fresh_name: "orders-new".into(),
        cluster: Some(ObservedCluster {
            uid: "c-1".into(),
            version: "3.4.23".into(),
            size: 1,
            cluster_id: Some("aa".into()),
            voters: 1,
            ready: 1,
            available: true,
            serves: true,
            pods: vec![ObservedPod {
                name: "orders-old".into(),
                uid: "p-1".into(),
                ..ObservedPod::default()
            }],
            ..ObservedCluster::default()
        }),
        ..RestoreState::default()
    }
}

fn with(change: impl FnOnce(&mut RestoreState, &mut ObservedCluster)) -> RestoreState {
    let mut state = state();
    let mut cluster = state.cluster.take().unwrap();
    change(&mut state, &mut cluster);
    state.cluster = Some(cluster);
    state
}

#[test]
fn nothing_is_decided_before_the_snapshot_was_read_whole() {
    assert_eq!(next_step(&with(|state, _| state.status.snapshot = None)), Step::Verify);
}

#[test]
fn a_snapshot_that_does_not_fit_is_refused_before_anything_is_touched() {
    let newer = with(|state, _| state.status.snapshot.as_mut().unwrap().etcd_version = "3.5.1".into());
    assert!(matches!(next_step(&newer), Step::Fail(why) if why.contains("newer minor")));
    let patch = with(|state, _| state.status.snapshot.as_mut().unwrap().etcd_version = "3.4.99".into());
    assert_eq!(next_step(&patch), Step::SafetyBackup);
    let other = with(|state, _| state.status.snapshot.as_mut().unwrap().cluster_id = "bb".into());
    assert!(matches!(next_step(&other), Step::Fail(why) if why.contains("allowOtherCluster")));
    let meant = with(|state, _| {
        state.status.snapshot.as_mut().unwrap().cluster_id = "bb".into();
        state.allow_other_cluster = true;
    });
    assert_eq!(next_step(&meant), Step::SafetyBackup);
    let former = with(|state, cluster| {
        state.status.snapshot.as_mut().unwrap().cluster_id = "bb".into();
        cluster.former_ids = vec!["bb".into()];
    });
    assert_eq!(next_step(&former), Step::SafetyBackup, "it was this cluster once");
    let upstream = with(|state, _| {
        state.status.snapshot = Some(SnapshotStatus { sha256: "ab".into(), ..SnapshotStatus::default() });
    });
    assert_eq!(next_step(&upstream), Step::SafetyBackup, "backups of coreos/etcd-operator have no metadata");
}

#[test]
fn what_the_cluster_holds_is_backed_up_when_it_can_be_read() {
    assert_eq!(next_step(&state()), Step::SafetyBackup);
    let moment = with(|_, cluster| cluster.serves = false);
    assert!(
        matches!(next_step(&moment), Step::Wait(..)),
        "a single missing response does not change the decision"
    );
    let lost = with(|_, cluster| (cluster.serves, cluster.available) = (false, false));
    assert!(matches!(next_step(&lost), Step::Remember(s) if s.safety_backup.contains("no quorum")));
    // A serving member that requires authentication may hold any data, also one whose id was never recorded.
    for known in [true, false] {
        let silent = with(|_, cluster| {
            (cluster.serves, cluster.available, cluster.silent) = (false, false, true);
            cluster.cluster_id = cluster.cluster_id.take().filter(|_| known);
        });
        let reported = next_step(&silent);
        assert!(
            matches!(&reported, Step::Wait("Verified", text) if text.contains("spec.auth.rootSecret")),
            "{reported:?}"
        );
    }
    let unwanted = with(|state, _| state.skip_safety_backup = true);
    assert!(
        matches!(next_step(&unwanted), Step::Remember(s) if s.safety_backup.contains("skipSafetyBackup"))
    );
}

#[test]
fn a_cluster_that_is_not_there_is_made_or_waited_for() {
    let mut missing = state();
    missing.cluster = None;
    assert!(matches!(next_step(&missing), Step::Wait("Verified", _)));
    missing.template = Some("3.4.23".into());
    assert_eq!(next_step(&missing), Step::CreateCluster);
    missing.template = Some("3.3.27".into());
    assert!(
        matches!(next_step(&missing), Step::Fail(why) if why.contains("newer minor version")),
        "made and given back, it would start empty"
    );
    missing.status.cluster_uid = "c-1".into();
    assert!(matches!(next_step(&missing), Step::Fail(_)), "it was there when the restore began");
    let anew = with(|state, _| state.status.cluster_uid = "c-0".into());
    assert!(matches!(next_step(&anew), Step::Fail(_)));
}

#[test]
fn no_restore_begins_with_a_cluster_that_is_paused() {
    let paused = with(|_, cluster| cluster.paused = true);
    assert!(matches!(next_step(&paused), Step::Wait("Verified", why) if why.contains("spec.paused")));
    assert_eq!(seeding(|_, cluster| (cluster.holder, cluster.paused) = (None, true)), Step::Hold);
}

#[test]
fn two_restores_never_work_on_one_cluster() {
    let other = with(|_, cluster| cluster.holder = Some("r-2".into()));
    assert!(matches!(next_step(&other), Step::Wait("Verified", why) if why.contains("r-2")));
    let late = with(|state, cluster| {
        state.status.cluster_uid = "c-1".into();
        cluster.holder = Some("r-2".into());
    });
    assert!(matches!(next_step(&late), Step::Wait(..)));
}

fn seeding(change: impl FnOnce(&mut RestoreState, &mut ObservedCluster)) -> Step {
    next_step(&with(|state, cluster| {
        state.status.cluster_uid = "c-1".into();
        state.status.safety_backup = "s3://b/k".into();
        state.status.seed_member = "orders-seed".into();
        state.status.phase = "Stopping".into();
        cluster.holder = Some(UID.into());
        change(state, cluster);
    }))
}

fn seed_pod() -> ObservedPod {
    ObservedPod { name: "orders-seed".into(), uid: "p-2".into(), reaches_us: true, ..ObservedPod::default() }
}

#[test]
fn members_stop_their_data_is_set_aside_and_only_then_the_seed_starts() {
    assert_eq!(seeding(|_, c| c.holder = None), Step::Hold);
    assert_eq!(
        seeding(|s, _| s.has_finalizer = false),
        Step::Hold,
        "a cluster of a template is held from its first moment"
    );
    assert!(
        matches!(seeding(|s, _| s.status.seed_member.clear()), Step::Remember(s) if s.seed_member == "orders-new")
    );
    assert_eq!(seeding(|_, _| ()), Step::DeletePod { name: "orders-old".into(), uid: "p-1".into() });
    assert!(matches!(seeding(|_, c| c.pods[0].deleting = true), Step::Wait("Stopping", _)));
    let claims = |c: &mut ObservedCluster| {
        c.claims = vec![("orders-old".into(), "v-1".into()), ("orders-seed".into(), "v-2".into())]
    };
    let aside = seeding(|_, c| {
        c.pods.clear();
        claims(c);
    });
    assert_eq!(aside, Step::SetAside { name: "orders-old".into(), uid: "v-1".into() });
    assert_eq!(seeding(|_, c| c.pods.clear()), Step::CreateSeed { name: "orders-seed".into() });
}

#[test]
fn a_seed_that_fetches_from_an_operator_that_is_gone_is_made_anew_but_never_one_with_data() {
    let gone = |started| {
        seeding(|_, c| c.pods = vec![ObservedPod { reaches_us: false, ever_started: started, ..seed_pod() }])
    };
    assert_eq!(gone(false), Step::DeletePod { name: "orders-seed".into(), uid: "p-2".into() });
    assert!(matches!(gone(true), Step::Wait("Seeding", _)));
}

#[test]
fn a_seed_that_cannot_take_the_snapshot_in_fails_the_restore_with_its_words() {
    let step = seeding(|_, c| {
        c.pods = vec![ObservedPod {
            failures: 5,
            problem: Some("container restore-data ended with 1: no space".into()),
            ..seed_pod()
        }];
    });
    assert!(matches!(step, Step::Fail(why) if why.contains("no space")));
}

#[test]
fn a_cluster_that_was_made_for_a_restore_that_failed_does_not_start_empty() {
    let failed = |change: &dyn Fn(&mut RestoreState, &mut ObservedCluster)| {
        next_step(&with(|state, cluster| {
            (state.status.phase, state.has_finalizer) = ("Failed".into(), true);
            (state.template, cluster.cluster_id) = (Some("3.4.23".into()), None);
            cluster.holder = Some(state.uid.clone());
            change(state, cluster);
        }))
    };
    assert_eq!(failed(&|_, _| ()), Step::Keep);
    assert_eq!(
        failed(&|_, cluster| cluster.cluster_id = Some("aa".into())),
        Step::Release,
        "it held something"
    );
    assert_eq!(failed(&|state, _| state.template = None), Step::Release, "the restore did not create it");
    assert_eq!(
        failed(&|state, _| state.has_finalizer = false),
        Step::Release,
        "nothing would give it back later"
    );
    assert_eq!(failed(&|_, cluster| cluster.holder = None), Step::Done);
}

#[test]
fn the_new_id_is_written_down_before_the_cluster_is_given_back() {
    let step = seeding(|_, c| c.pods = vec![ObservedPod { serves: Some("bb".into()), ..seed_pod() }]);
    assert!(matches!(step, Step::Remember(s) if s.cluster_id == "bb" && s.phase == "Scaling"));
}

fn scaling(change: impl FnOnce(&mut RestoreState, &mut ObservedCluster)) -> Step {
    next_step(&with(|state, cluster| {
        state.status.cluster_uid = "c-1".into();
        state.status.cluster_id = "bb".into();
        state.status.phase = "Scaling".into();
        cluster.cluster_id = Some("bb".into());
        cluster.size = 3;
        (cluster.voters, cluster.ready, cluster.revision) = (3, 3, Some(10));
        change(state, cluster);
    }))
}

#[test]
fn success_is_all_members_and_a_read_that_shows_the_data() {
    assert_eq!(scaling(|_, _| ()), Step::Succeed { revision: 10 });
    assert_eq!(scaling(|_, c| c.holder = Some(UID.into())), Step::HandOver);
    assert_eq!(
        scaling(|_, c| c.cluster_id = Some("aa".into())),
        Step::HandOver,
        "an older look wrote the old id again"
    );
    assert!(matches!(scaling(|_, c| c.ready = 2), Step::Wait("Scaling", _)));
    assert!(matches!(scaling(|_, c| c.voters = 2), Step::Wait("Scaling", _)));
    // the problem of the cluster controller is reported here too
    let stopped = scaling(|_, c| (c.ready, c.problem) = (2, Some("etcd asks who we are".into())));
    let text = "2 of 3 members serve; EtcdCluster orders: etcd asks who we are";
    assert_eq!(stopped, Step::Wait("Scaling", text.into()));
    assert!(matches!(scaling(|_, c| c.revision = None), Step::Wait("Scaling", _)));
    assert!(matches!(scaling(|_, c| c.revision = Some(9)), Step::Fail(_)));
    assert!(matches!(scaling(|_, c| c.lost = true), Step::Fail(_)));
}

/// A cluster with a permanently lost quorum, and the claim of a surviving member.
fn lost(change: impl FnOnce(&mut RestoreState, &mut ObservedCluster)) -> Step {
    next_step(&with(|state, cluster| {
        (state.status, state.claim) = (EtcdRestoreStatus::default(), Some(claim()));
        (cluster.serves, cluster.available, cluster.lost) = (false, false, true);
        cluster.claims = vec![("orders-old".into(), "v-1".into())];
        change(state, cluster);
    }))
}

fn claim() -> ObservedClaim {
    ObservedClaim { name: "orders-old".into(), uid: "v-1".into(), version: "3.4.23".into(), refusal: None }
}

#[test]
fn the_uid_of_a_claim_is_written_down_before_anything_is_changed() {
    let known = ClaimStatus { name: "orders-old".into(), uid: "v-1".into(), revision: None };
    let first = lost(|_, _| ());
    assert!(
        matches!(&first, Step::Remember(s) if s.claim.as_ref() == Some(&known) && s.cluster_uid.is_empty())
    );
    let second = lost(|state, _| state.status.claim = Some(known.clone()));
    assert!(matches!(&second, Step::Remember(s) if s.cluster_uid == "c-1" && s.phase == "Stopping"));
    let replaced =
        lost(|state, _| state.status.claim = Some(ClaimStatus { uid: "v-0".into(), ..known.clone() }));
    assert!(matches!(&replaced, Step::Fail(why) if why.contains("metadata.uid")), "{replaced:?}");
}

#[test]
fn a_claim_that_does_not_fit_is_refused_before_anything_is_touched() {
    let refused = |change: &dyn Fn(&mut RestoreState, &mut ObservedCluster)| match lost(change) {
        Step::Fail(why) => why,
        other => panic!("{other:?}"),
    };
    let why = refused(&|state, _| state.claim.as_mut().unwrap().refusal = Some("it is mounted".into()));
    assert_eq!(why, "it is mounted");
    assert_eq!(refused(&|state, _| state.invalid = Some("two sources".into())), "two sources");
    let why = refused(&|state, _| state.claim.as_mut().unwrap().version = "3.5.1".into());
    assert!(why.contains("claim orders-old is from etcd 3.5.1") && why.contains("newer minor"), "{why}");
    for served in [true, false] {
        let why = refused(&|_, cluster| (cluster.serves, cluster.silent) = (served, !served));
        assert!(why.contains("has a quorum"), "{why}");
    }
    let moment = lost(|_, cluster| cluster.available = true);
    assert!(matches!(moment, Step::Wait("Verified", _)), "a single missing response is not a loss");
    let mut gone = state();
    (gone.status, gone.claim, gone.cluster) = (EtcdRestoreStatus::default(), Some(claim()), None);
    assert!(matches!(next_step(&gone), Step::Fail(why) if why.contains("spec.etcdCluster.name")));
}

/// The members are stopped, and the claim is set aside.
fn copying(revision: Option<i64>, change: impl FnOnce(&mut RestoreState, &mut ObservedCluster)) -> Step {
    seeding(|state, cluster| {
        (state.claim, state.status.snapshot) = (Some(claim()), None);
        state.status.claim = Some(ClaimStatus { name: "orders-old".into(), uid: "v-1".into(), revision });
        cluster.pods.clear();
        change(state, cluster);
    })
}

#[test]
fn etcd_completes_the_copy_and_ends_before_the_first_member_starts() {
    assert_eq!(copying(None, |_, _| ()), Step::Recover { name: "orders-seed".into() });
    let gone = copying(None, |state, _| state.claim.as_mut().unwrap().refusal = Some("not found".into()));
    assert_eq!(gone, Step::Fail("not found".into()));
    let recovering = || ObservedPod { recovers: true, ..seed_pod() };
    assert!(matches!(copying(None, |_, c| c.pods = vec![recovering()]), Step::Wait("Seeding", _)));
    let serves = || ObservedPod { serves: Some("aa".into()), revision: Some(12), ..recovering() };
    let reported = copying(None, |_, c| c.pods = vec![serves()]);
    assert!(
        matches!(&reported, Step::Remember(s) if s.claim.as_ref().unwrap().revision == Some(12) && s.cluster_id.is_empty()),
        "{reported:?}"
    );
    let delete = Step::DeletePod { name: "orders-seed".into(), uid: "p-2".into() };
    assert_eq!(copying(Some(12), |_, c| c.pods = vec![serves()]), delete);
    let ending = copying(Some(12), |_, c| c.pods = vec![ObservedPod { deleting: true, ..serves() }]);
    assert!(matches!(ending, Step::Wait("Seeding", _)));
    // The claim may be deleted by now.
    let next = copying(Some(12), |state, _| state.claim.as_mut().unwrap().refusal = Some("not found".into()));
    assert_eq!(next, Step::CreateSeed { name: "orders-seed".into() });
    let evicted = copying(None, |_, c| c.pods = vec![ObservedPod { ended: true, ..recovering() }]);
    assert_eq!(evicted, delete);
    let broken = copying(None, |_, c| {
        c.pods = vec![ObservedPod { failures: 5, problem: Some("no space".into()), ..recovering() }];
    });
    assert!(matches!(&broken, Step::Fail(why) if why.contains("orders-old") && why.contains("no space")));
}

#[test]
fn data_that_lacks_revisions_of_the_claim_is_found_before_others_copy_it() {
    let first = |revision| {
        copying(Some(12), |_, c| {
            c.pods = vec![ObservedPod { serves: Some("bb".into()), revision: Some(revision), ..seed_pod() }];
        })
    };
    assert!(matches!(first(12), Step::Remember(s) if s.cluster_id == "bb"));
    let text = "the restored cluster is at revision 11, the claim is at 12; create another EtcdRestore";
    assert_eq!(first(11), Step::Fail(text.into()));
}

#[test]
fn what_is_over_gives_the_cluster_back_and_rests() {
    for phase in ["Failed", "Succeeded"] {
        let held = with(|state, cluster| {
            state.status.phase = phase.into();
            cluster.holder = Some(UID.into());
        });
        assert_eq!(next_step(&held), Step::Release);
        assert_eq!(next_step(&with(|state, _| state.status.phase = phase.into())), Step::Done);
    }
}
