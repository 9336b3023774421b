use olm_api::{
    ClusterServiceVersionSpec,
    csv::{CrdDescription, CustomResourceDefinitions},
};

use super::*;

fn csv(namespace: &str, name: &str, targets: &str, second: i64) -> ClusterServiceVersion {
    let crd = CrdDescription {
        name: "as.example.com".into(),
        version: "v1".into(),
        kind: "A".into(),
        ..Default::default()
    };
    let definitions = CustomResourceDefinitions { owned: vec![crd], required: Vec::new() };
    let spec = ClusterServiceVersionSpec {
        custom_resource_definitions: Some(definitions.into()),
        ..Default::default()
    };
    let mut csv = ClusterServiceVersion::new(name, spec);
    csv.metadata.namespace = Some(namespace.into());
    csv.metadata.uid = Some(format!("{namespace}/{name}"));
    let created = jiff::Timestamp::from_second(second).unwrap();
    csv.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
    let targets = (names::ANNOTATION_TARGET_NAMESPACES.to_owned(), targets.to_owned());
    csv.metadata.annotations = Some(BTreeMap::from([targets]));
    csv
}

fn all(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

#[test]
fn of_two_providers_with_a_common_target_the_second_has_a_conflict() {
    let (first, second) = (csv("a", "x", "a,shared", 1), csv("b", "x", "shared", 2));
    let mut providers = Providers::default();
    assert!(providers.note(&first).is_empty());
    // the other is reconciled: it may have a conflict now
    assert_eq!(providers.note(&second), [("a".to_owned(), "x".to_owned())]);
    let owner_conflicts = providers.owner_conflicts(&second, &all("shared"));
    assert_eq!(
        (owner_conflicts[0].namespace.as_str(), owner_conflicts[0].api.as_str()),
        ("a", "A.v1.example.com")
    );
    assert!(providers.owner_conflicts(&first, &all("a,shared")).is_empty());
    // all namespaces overlap with any
    assert_eq!(providers.owner_conflicts(&second, &all("")).len(), 1);
    assert!(providers.owner_conflicts(&second, &all("c")).is_empty());
    // a deleted one provides nothing, and the other is woken
    let mut leaving = first.clone();
    leaving.metadata.deletion_timestamp = leaving.metadata.creation_timestamp.clone();
    assert_eq!(providers.note(&leaving), [("b".to_owned(), "x".to_owned())]);
    assert!(providers.owner_conflicts(&second, &all("shared")).is_empty());
}

#[test]
fn versions_of_one_chain_do_not_conflict() {
    let (old, mut new) = (csv("a", "v1", "", 1), csv("a", "v2", "", 2));
    assert_eq!(owned_beside(&new, &[old.clone(), new.clone()]).len(), 1);
    assert!(owned_beside(&old, &[old.clone(), new.clone()]).is_empty(), "who was there first keeps it");
    new.spec.replaces = Some("v1".into());
    assert!(owned_beside(&new, &[old.clone(), new.clone()]).is_empty());
    let mut third = csv("a", "v3", "", 3);
    third.spec.replaces = Some("v2".into());
    assert!(owned_beside(&third, &[old, new, third.clone()]).is_empty());
}

#[test]
fn a_group_lists_what_its_live_members_provide() {
    let mut member = csv("a", "v1", "a", 1);
    assert_eq!(of_members([&member]).into_iter().collect::<Vec<_>>(), ["A.v1.example.com"]);
    assert_eq!(parse("A.v1.example.com").map(|gvk| text(&gvk)).as_deref(), Some("A.v1.example.com"));
    member.metadata.labels = Some(BTreeMap::from([(names::LABEL_COPIED_FROM.to_owned(), "b".to_owned())]));
    assert!(of_members([&member]).is_empty());
}

#[test]
fn labels_list_provided_and_required_apis() {
    let mut csv = csv("a", "v1", "a", 1);
    let definitions = csv.spec.custom_resource_definitions.as_mut().unwrap();
    let b = CrdDescription {
        name: "bs.example.com".into(),
        version: "v1".into(),
        kind: "B".into(),
        ..Default::default()
    };
    definitions.required = vec![b];
    let labels = labels(&csv);
    let values: Vec<&str> = labels.values().copied().collect();
    assert_eq!(labels.len(), 2);
    assert!(values.contains(&"provided") && values.contains(&"required"));
    assert!(labels.keys().all(|key| key.starts_with("olm.api.")));
}
