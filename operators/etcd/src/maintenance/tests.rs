//! When maintenance is due, for which members, and when it ends.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::settings::bytes;
use super::{Cause, Due, Facts, MemberFacts, Record, Settings, Step, after, due, settings};

const MI: u64 = 1 << 20;

fn read(policy: serde_json::Value) -> (Settings, Vec<String>) {
    let mut errors = Vec::new();
    let policy = serde_json::from_value(policy).unwrap();
    let settings = settings(Some(&policy), &[], &mut errors, &mut Vec::new());
    (settings, errors)
}

fn nightly() -> Settings {
    read(json!({ "quota": "1Gi", "defragmentation": { "schedule": "0 3 * * *" } })).0
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn member(name: &str, leads: bool, size: u64, used: u64) -> MemberFacts {
    MemberFacts { name: name.into(), leads, size: size * MI, used: used * MI }
}

fn facts(now: &str) -> Facts {
    Facts {
        now: at(now),
        since: Some(at("2026-06-01T12:00:00Z")),
        full: false,
        revision: 77,
        members: vec![
            member("a", true, 500, 100),
            member("b", false, 500, 100),
            member("c", false, 500, 100),
        ],
    }
}

#[test]
fn flags_are_those_of_etcd() {
    let (settings, errors) =
        read(json!({ "quota": "4Gi", "autoCompaction": { "mode": "periodic", "retention": "5m" } }));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        settings.flags(),
        [
            "--quota-backend-bytes=4294967296",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=5m"
        ]
    );
    assert!(Settings::default().flags().is_empty());
}

#[test]
fn impossible_settings_are_reported_with_their_field() {
    for (policy, field) in [
        (json!({ "quota": "4 apples" }), "spec.maintenance.quota"),
        (json!({ "quota": "1k" }), "spec.maintenance.quota"),
        (json!({ "autoCompaction": { "retention": "1000" } }), "spec.maintenance.autoCompaction.retention"),
        (
            json!({ "autoCompaction": { "mode": "revision", "retention": "5m" } }),
            "spec.maintenance.autoCompaction.retention",
        ),
        (
            json!({ "autoCompaction": { "mode": "never", "retention": "5m" } }),
            "spec.maintenance.autoCompaction.mode",
        ),
        (
            json!({ "defragmentation": { "schedule": "at night" } }),
            "spec.maintenance.defragmentation.schedule",
        ),
        (
            json!({ "defragmentation": { "schedule": "0 0 3 * * *" } }),
            "spec.maintenance.defragmentation.schedule",
        ),
        (
            json!({ "defragmentation": { "schedule": "0 3 * * *", "quotaUsageAbove": 0 } }),
            "spec.maintenance.defragmentation.quotaUsageAbove",
        ),
    ] {
        let (_, errors) = read(policy.clone());
        assert!(errors.len() == 1 && errors[0].starts_with(field), "{policy}: {errors:?}");
    }
    assert_eq!((bytes("2Gi"), bytes("16M"), bytes("7")), (Some(2 << 30), Some(16_000_000), Some(7)));
    assert_eq!((bytes("99999999999Ti"), bytes(""), bytes("Gi")), (None, None, None));
    assert_eq!((bytes("1.5Gi"), bytes("2e3"), bytes("-1Gi")), (Some(3 << 29), Some(2000), None));
}

#[test]
fn a_quota_in_the_environment_is_known_and_not_set_twice() {
    let env = vec![
        serde_json::from_value(json!({ "name": "ETCD_QUOTA_BACKEND_BYTES", "value": "1048576" })).unwrap(),
    ];
    let mut errors = Vec::new();
    let from_env = settings(None, &env, &mut errors, &mut Vec::new());
    assert_eq!((from_env.quota(), from_env.flags().len()), (1 << 20, 0));
    let policy = serde_json::from_value(json!({ "quota": "1Gi" })).unwrap();
    settings(Some(&policy), &env, &mut errors, &mut Vec::new());
    assert!(errors[0].contains("remove one of them"), "{errors:?}");
}

#[test]
fn nothing_is_due_before_its_time_and_a_missed_time_is_made_up_for() {
    let none = Record::default();
    assert_eq!(due(&nightly(), &none, &facts("2026-06-02T02:59:59Z")), Due::Nothing);
    let Due::Note(run) = due(&nightly(), &none, &facts("2026-06-02T07:30:00Z")) else { panic!() };
    assert_eq!((run.cause, run.started), (Some(Cause::Schedule), Some(at("2026-06-02T07:30:00Z"))));
    let ran = Record { finished: Some(at("2026-06-02T03:01:00Z")), ..none };
    assert_eq!(due(&nightly(), &ran, &facts("2026-06-02T07:30:00Z")), Due::Nothing);
    assert_eq!(due(&Settings::default(), &ran, &facts("2026-07-02T07:30:00Z")), Due::Nothing);
}

#[test]
fn a_run_whose_members_have_nothing_to_give_back_is_over_at_once() {
    let mut facts = facts("2026-06-02T03:00:01Z");
    // 20 Mi free: not worth it, although usage exceeds the share of the quota.
    facts.members = vec![member("a", true, 900, 880)];
    let Due::Note(record) = due(&nightly(), &Record::default(), &facts) else { panic!() };
    assert_eq!((record.started, record.finished), (None, Some(facts.now)));
    // 40 Mi free is worth it only at this usage of the quota.
    facts.members = vec![member("a", true, 900, 860)];
    let Due::Note(record) = due(&nightly(), &Record::default(), &facts) else { panic!() };
    assert!(record.started.is_some());
    facts.members = vec![member("a", true, 300, 260)];
    let Due::Note(record) = due(&nightly(), &Record::default(), &facts) else { panic!() };
    assert!(record.started.is_none());
}

/// Runs to the end; the steps in order.
fn run(settings: &Settings, facts: &mut Facts, freed: u64, disarms: bool) -> (Vec<String>, Record) {
    let (mut record, mut done) = (Record::default(), Vec::new());
    for _ in 0..30 {
        match due(settings, &record, facts) {
            Due::Nothing | Due::StillFull => return (done, record),
            Due::Note(new) => {
                let over = new.started.is_none();
                record = new;
                if over {
                    return (done, record);
                }
            }
            Due::Compact(revision) => {
                done.push(format!("compact {revision}"));
                record = after(&record, &Step::Compact { revision, via: String::new() });
            }
            Due::Defragment { name, leads } => {
                if leads && facts.members.len() > 1 {
                    done.push(format!("{name} hands over"));
                    let other = facts.members.iter().position(|m| m.name != name).unwrap();
                    for (index, member) in facts.members.iter_mut().enumerate() {
                        member.leads = index == other;
                    }
                    continue;
                }
                done.push(format!("defragment {name}"));
                for member in facts.members.iter_mut().filter(|m| m.name == name) {
                    member.size = member.size.saturating_sub(freed * MI);
                }
                record = after(&record, &Step::Defragment { name });
            }
            Due::Disarm => {
                done.push("disarm".into());
                facts.full = !disarms;
                record = after(&record, &Step::Disarm { via: String::new() });
                if !disarms {
                    return (done, record);
                }
            }
        }
    }
    panic!("no end: {done:?}");
}

#[test]
fn followers_come_first_and_the_leader_hands_over_before_its_turn() {
    let (done, record) = run(&nightly(), &mut facts("2026-06-02T03:00:01Z"), 400, true);
    assert_eq!(done, ["defragment b", "defragment c", "a hands over", "defragment a"]);
    assert_eq!((record.started, record.done.len(), record.cause), (None, 0, Some(Cause::Schedule)));
}

#[test]
fn a_full_database_is_compacted_defragmented_and_disarmed_whatever_the_schedule() {
    let mut full = Facts { full: true, ..facts("2026-06-01T13:00:00Z") };
    let (settings, _) = read(json!({ "quota": "500Mi" }));
    let (done, record) = run(&settings, &mut full, 400, true);
    assert_eq!(
        done,
        ["compact 77", "defragment b", "defragment c", "a hands over", "defragment a", "disarm"]
    );
    assert_eq!(record.cause, Some(Cause::NoSpace));
}

#[test]
fn the_alarm_stays_when_nothing_was_freed_and_the_next_try_waits() {
    let mut full = Facts { full: true, ..facts("2026-06-01T13:00:00Z") };
    let (settings, _) = read(json!({ "quota": "500Mi" }));
    let (done, record) = run(&settings, &mut full, 0, true);
    assert!(!done.contains(&"disarm".to_owned()), "{done:?}");
    full.now += SignedDuration::from_mins(9);
    assert_eq!(due(&settings, &record, &full), Due::StillFull);
    full.now += SignedDuration::from_mins(2);
    assert!(matches!(due(&settings, &record, &full), Due::Note(Record { started: Some(_), .. })));
}

#[test]
fn what_is_remembered_survives_the_status() {
    let record = Record {
        started: Some(at("2026-06-01T13:00:00Z")),
        cause: Some(Cause::NoSpace),
        compacted: Some(7),
        done: vec!["a".into()],
        finished: Some(at("2026-05-01T13:00:00Z")),
    };
    assert_eq!(Record::from(&record.status().unwrap()), record);
    assert!(Record::default().status().is_none());
}

proptest! {
    /// A run ends, touches each member at most once, and the leader only when no other is pending.
    #[test]
    fn runs_end(
        sizes in proptest::collection::vec((0u64..2000, 0u64..2000), 1..7), leader in 0usize..7, full: bool, freed in 0u64..2000,
    ) {
        let count = sizes.len();
        let members = sizes.iter().enumerate().map(|(index, (size, used))| {
            member(&format!("m{index}"), index == leader % count, *size, (*used).min(*size))
        });
        let mut facts = Facts { full, members: members.collect(), ..facts("2026-06-02T03:00:01Z") };
        let (done, _) = run(&nightly(), &mut facts, freed, true);
        let mut defragmented: Vec<&String> = done.iter().filter(|d| d.starts_with("defragment")).collect();
        let all = defragmented.len();
        defragmented.sort();
        defragmented.dedup();
        prop_assert_eq!(defragmented.len(), all);
        if full {
            prop_assert_eq!(all, count);
        }
    }
}
