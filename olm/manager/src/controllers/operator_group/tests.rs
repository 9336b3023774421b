use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use olm_api::{OperatorGroupSpec, OperatorGroupStatus, condition, names};

use super::{status::*, *};

fn group(targets: &[&str]) -> OperatorGroup {
    let target_namespaces = targets.iter().map(|t| (*t).to_owned()).collect();
    OperatorGroup::new("og", OperatorGroupSpec { target_namespaces, ..OperatorGroupSpec::default() })
}

fn selecting(key: &str) -> OperatorGroup {
    let labels = BTreeMap::from([(key.to_owned(), "yes".to_owned())]);
    let selector = LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    OperatorGroup::new("og", OperatorGroupSpec { selector: Some(selector), ..OperatorGroupSpec::default() })
}

fn namespace(name: &str, label: Option<&str>) -> ObjectMeta {
    let labels = label.map(|key| BTreeMap::from([(key.to_owned(), "yes".to_owned())]));
    ObjectMeta { name: Some(name.into()), labels, ..ObjectMeta::default() }
}

fn now() -> Timestamp {
    Timestamp::from_second(1).unwrap()
}

#[test]
fn targets_are_sorted_and_without_targets_it_is_every_namespace() {
    let namespaces = |group: OperatorGroup| status(&group, None, 1, &Account::NotChecked, now()).namespaces;
    assert_eq!(namespaces(group(&["b", "a", "b"])), ["a", "b"]);
    assert_eq!(namespaces(group(&[])), [""]);
}

// upstream: TestOperatorGroupConditions

#[test]
fn valid_operator_group_no_service_account() {
    let status = status(&group(&["a"]), None, 1, &Account::NotChecked, now());
    assert!(status.conditions.is_empty() && status.service_account_ref.is_none());
}

#[test]
fn valid_operator_group_valid_service_account() {
    let mut group = group(&["a"]);
    group.spec.service_account_name = Some("robot".into());
    let status = status(&group, None, 1, &Account::Found, now());
    assert!(status.conditions.is_empty());
    assert_eq!(status.service_account_ref.unwrap().name.as_deref(), Some("robot"));
}

#[test]
fn bad_operator_group_missing_service_account_is_reported_until_it_exists() {
    let mut group = group(&["a"]);
    let missing = Account::Unusable("ServiceAccount db/robot does not exist".into());
    let first = status(&group, None, 1, &missing, now());
    let found = condition::find(&first.conditions, names::CONDITION_OPERATOR_GROUP_SERVICE_ACCOUNT).unwrap();
    assert_eq!(found.reason.as_deref(), Some("ServiceAccountNotFound"));
    // reported once
    assert_eq!(new_problems(None, &first).len(), 1);
    assert!(new_problems(Some(&first), &first).is_empty());
    group.status = Some(first);
    assert!(status(&group, None, 1, &Account::Found, now()).conditions.is_empty());
}

#[test]
fn bad_operator_group_multiple_operator_groups_is_reported_until_one_is_left() {
    let mut group = group(&["a"]);
    group.status = Some(status(&group, None, 2, &Account::NotChecked, now()));
    assert_eq!(group.status.as_ref().unwrap().conditions[0].type_, "MultipleOperatorGroup");
    assert!(status(&group, None, 1, &Account::NotChecked, now()).conditions.is_empty());
}

/// Thousands of namespaces are supported, until their names exceed an environment variable.
#[test]
fn a_group_of_too_many_namespaces_selects_none_and_reports_it() {
    let names = |count: usize| (0..count).map(|number| format!("team-{number:05}")).collect();
    let chosen = |count| status(&selecting("team"), Some(names(count)), 1, &Account::NotChecked, now());
    assert_eq!(chosen(10_000).namespaces.len(), 10_000);
    let many = chosen(11_000);
    assert!(many.namespaces.is_empty());
    let too_many = condition::find(&many.conditions, names::CONDITION_TOO_MANY_NAMESPACES).unwrap();
    assert_eq!(
        too_many.message.as_deref(),
        Some(
            "spec.selector of OperatorGroup og selects 11000 namespaces, whose names exceed the 120 KB limit \
                of an environment variable, so none is selected; select fewer, or unset \
                spec.targetNamespaces and spec.selector for all namespaces"
        )
    );
    assert_eq!(new_problems(None, &many).len(), 1);
    let mut group = selecting("team");
    group.status = Some(many);
    assert!(status(&group, Some(names(9)), 1, &Account::NotChecked, now()).conditions.is_empty());
    // the same for a group that lists them
    let mut listing = super::tests::group(&[]);
    listing.spec.target_namespaces = names(11_000).into_iter().collect();
    assert!(olm_engine::targets::of_group(&listing).is_empty());
}

/// The health that Flux and Argo CD derive from a group.
#[test]
fn tools_that_know_only_the_usual_conditions_see_how_a_group_stands() {
    use crate::controllers::health::judges::{Argo, Kstatus, argo_with_our_check, kstatus, object};
    let missing = Account::Unusable("ServiceAccount db/robot does not exist".into());
    let mut group = group(&["a"]);
    for (groups, account, expected) in [
        (1, Account::NotChecked, (Kstatus::Current, Argo::Healthy)),
        (2, Account::NotChecked, (Kstatus::Failed, Argo::Degraded)),
        (1, missing, (Kstatus::Failed, Argo::Degraded)),
        (1, Account::Found, (Kstatus::Current, Argo::Healthy)),
    ] {
        group.metadata.generation = group.metadata.generation.map_or(Some(1), |g| Some(g + 1));
        let new = status(&group, None, groups, &account, now());
        let seen = object(&group, &new);
        assert_eq!((kstatus(&seen), argo_with_our_check(&seen)), expected, "{seen}");
        group.status = Some(new);
    }
    group.metadata.generation = Some(99);
    assert_eq!(kstatus(&object(&group, &group.status)), Kstatus::InProgress);
}

#[test]
fn only_groups_for_which_a_namespace_is_news_are_woken() {
    let mut by_label = selecting("team");
    // matches and is not listed
    assert!(affects(&by_label, &namespace("a", Some("team"))));
    assert!(!affects(&by_label, &namespace("a", None)));
    by_label.status =
        Some(OperatorGroupStatus { namespaces: vec!["a".into()], ..OperatorGroupStatus::default() });
    assert!(!affects(&by_label, &namespace("a", Some("team"))));
    // listed and no longer matches
    assert!(affects(&by_label, &namespace("a", None)));
    // a target that lacks the label of the group
    let mut by_name = group(&["a"]);
    by_name.metadata.uid = Some("u".into());
    assert!(affects(&by_name, &namespace("a", None)));
    assert!(!affects(&by_name, &namespace("a", Some("olm.operatorgroup.uid/u"))));
    assert!(!affects(&by_name, &namespace("b", None)));
    // no namespace affects a group of all
    assert!(!affects(&group(&[]), &namespace("a", None)));
}
