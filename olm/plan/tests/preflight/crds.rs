//! Changes of CustomResourceDefinitions, and their objects.

use std::collections::BTreeMap;

use olm_plan::{CustomObjects, Fact, FindingCode, Severity, kinds_needed};
use serde_json::{Value, json};

use crate::world::{World, crd};

pub(crate) fn thing(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": name, "namespace": "shop" }, "spec": spec })
}

pub(crate) fn known(items: Vec<Value>) -> Fact<CustomObjects> {
    Fact::Known(CustomObjects { items, more: false })
}

pub(crate) fn things(items: Vec<Value>) -> BTreeMap<String, Fact<CustomObjects>> {
    [("things.example.com".to_owned(), known(items))].into()
}

fn spec(crd: &mut Value) -> &mut Value {
    crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap()
}

/// An upgrade with a changed CRD.
fn changed(change: impl FnOnce(&mut Value)) -> World {
    let mut new = crd();
    change(&mut new);
    World::install(vec![], |_| {}).upgrade("1.0.1", vec![new], |_| {})
}

/// The size gets a maximum.
pub(crate) fn narrowed() -> World {
    changed(|crd| spec(crd)["size"]["maximum"] = json!(7))
}

/// One field is removed.
pub(crate) fn without_mode() -> World {
    changed(|crd| drop(spec(crd).as_object_mut().unwrap().remove("mode")))
}

/// The next version owns one kind less.
pub(crate) fn given_up() -> World {
    let mut backups = crd();
    backups["metadata"]["name"] = json!("backups.example.com");
    backups["spec"]["names"] =
        json!({ "kind": "Backup", "listKind": "BackupList", "plural": "backups", "singular": "backup" });
    let both = |csv: &mut Value| {
        csv["spec"]["customresourcedefinitions"]["owned"] = json!([
            { "name": "things.example.com", "version": "v1", "kind": "Thing" },
            { "name": "backups.example.com", "version": "v1", "kind": "Backup" } ]);
    };
    let mut installed = World::install(vec![crd(), backups], both);
    installed.watch(&["shop"]);
    installed.upgrade("1.0.1", vec![], |_| {})
}

fn breaking(world: &World) -> Severity {
    let findings = world.findings();
    let finding = findings.iter().find(|f| f.code == FindingCode::CrdBreakingChange);
    finding.unwrap_or_else(|| panic!("{findings:#?}")).severity
}

#[test]
fn a_narrower_schema_blocks_as_long_as_it_may_hurt() {
    let mut world = narrowed();
    // the objects were not read
    assert_eq!(breaking(&world), Severity::Block);
    world.facts.custom_objects =
        [("things.example.com".to_owned(), Fact::Unknown("no right to list things.example.com".to_owned()))]
            .into();
    assert_eq!(breaking(&world), Severity::Block);
    let findings = world.findings();
    let fix = findings[0].fix.as_deref().unwrap();
    assert!(fix.contains("--verb=list --resource=things.example.com"), "{fix}");
    assert!(fix.contains("--serviceaccount=olm:olm-manager"), "{fix}");
    assert!(findings.iter().any(|f| f.code == FindingCode::NotChecked), "{findings:#?}");
    // one of the objects is invalid: it is named with its field
    world.facts.custom_objects =
        things(vec![thing("main", json!({ "size": 9 })), thing("small", json!({ "size": 1 }))]);
    assert_eq!(breaking(&world), Severity::Block);
    let findings = world.findings();
    let invalid = findings.iter().find(|f| f.code == FindingCode::CrdObjectsInvalid).unwrap();
    assert!(
        invalid.text.starts_with("the new schema refuses 1 of 2 objects: shop/main (.spec.size"),
        "{}",
        invalid.text
    );
    assert_eq!(invalid.fix.as_deref(), Some("kubectl edit things.example.com main -n shop"));
    // all are valid, or there are none
    world.facts.custom_objects = things(vec![thing("small", json!({ "size": 1 }))]);
    assert_eq!(world.codes(), [(FindingCode::CrdBreakingChange, Severity::Warn)]);
    world.facts.custom_objects = things(vec![]);
    assert_eq!(world.codes(), [(FindingCode::CrdBreakingChange, Severity::Warn)]);
    // all that were read are valid, but there are more
    world.facts.custom_objects = [(
        "things.example.com".to_owned(),
        Fact::Known(CustomObjects { items: vec![thing("small", json!({ "size": 1 }))], more: true }),
    )]
    .into();
    assert_eq!(breaking(&world), Severity::Block);
}

#[test]
fn fields_that_objects_lose_are_named() {
    let mut world = without_mode();
    world.facts.custom_objects =
        things(vec![thing("main", json!({ "mode": "old" })), thing("other", json!({}))]);
    let findings = world.findings();
    let pruned = findings.iter().find(|f| f.code == FindingCode::CrdFieldsPruned).unwrap();
    assert!(
        pruned
            .text
            .starts_with("1 of 2 objects lose fields that are not in the new schema: shop/main (.spec.mode"),
        "{}",
        pruned.text
    );
}

#[test]
fn a_wider_schema_is_no_finding() {
    let world = changed(|crd| spec(crd)["extra"] = json!({ "type": "string" }));
    assert_eq!(world.findings(), []);
}

#[test]
fn objects_are_listed_only_where_they_matter() {
    let needed = |world: &World| {
        let kinds = world.with_input(|input| kinds_needed(input, &world.live));
        kinds.into_iter().map(|k| format!("{} {} {}", k.crd, k.plural, k.gvk.version)).collect::<Vec<_>>()
    };
    assert_eq!(needed(&World::install(vec![], |_| {})), Vec::<String>::new());
    assert_eq!(
        needed(&World::install(vec![], |_| {}).upgrade("1.0.1", vec![], |_| {})),
        Vec::<String>::new()
    );
    assert_eq!(needed(&narrowed()), ["things.example.com things v1"]);
    assert_eq!(needed(&given_up()), ["backups.example.com backups v1"]);
}

#[test]
fn a_kind_that_is_given_up_matters_while_there_are_objects() {
    let mut world = given_up();
    assert_eq!(world.only().code, FindingCode::CrdRemoved);
    assert!(world.only().text.contains("an unknown number of Backup objects"), "{}", world.only().text);
    world.facts.custom_objects = [("backups.example.com".to_owned(), known(vec![]))].into();
    assert_eq!(world.findings(), []);
    world.facts.custom_objects =
        [("backups.example.com".to_owned(), known(vec![thing("daily", json!({}))]))].into();
    assert!(world.only().text.contains("1 Backup objects (shop/daily) remain"), "{}", world.only().text);
}

#[test]
fn objects_that_another_installation_manages_do_not_lose_their_operator() {
    let mut other = thing("nightly", json!({}));
    other["metadata"]["namespace"] = json!("bank");
    let mut world = given_up();
    let mut among = |objects: Vec<Value>| {
        world.facts.custom_objects = [("backups.example.com".to_owned(), known(objects))].into();
        world.findings()
    };
    assert_eq!(among(vec![other.clone()]), []);
    let both = among(vec![other, thing("daily", json!({}))]);
    assert!(both[0].text.contains("1 Backup objects (shop/daily) remain unmanaged"), "{both:#?}");
}

#[test]
fn a_foreign_conversion_webhook_is_a_warning() {
    let mut new = crd();
    new["spec"]["conversion"] = json!({ "strategy": "Webhook", "webhook": { "clientConfig": {
        "service": { "namespace": "x", "name": "y" } } } });
    let world = World::install(vec![new], |_| {});
    assert_eq!(world.codes(), [(FindingCode::CrdConversionUnsupported, Severity::Warn)]);
}

#[test]
fn a_conversion_by_the_bundles_own_webhook_is_none_of_its_findings() {
    let world = World::install(vec![crd()], |csv| {
        csv["spec"]["installModes"] = json!([{ "type": "AllNamespaces", "supported": true }]);
        csv["spec"]["customresourcedefinitions"] = json!({ "owned": [
            { "name": crd()["metadata"]["name"], "version": "v1", "kind": "Thing" }] });
        csv["spec"]["webhookdefinitions"] = json!([{ "type": "ConversionWebhook", "generateName": "c.example.com",
            "deploymentName": "thing", "admissionReviewVersions": ["v1"],
            "conversionCRDs": [crd()["metadata"]["name"]] }]);
    });
    assert!(
        !world.codes().iter().any(|(code, _)| *code == FindingCode::CrdConversionUnsupported),
        "{:?}",
        world.codes()
    );
}

#[test]
fn the_way_back_is_held_off_by_what_was_written_since() {
    // given an older version with a narrower schema than the objects
    let mut old = crd();
    spec(&mut old)["size"]["maximum"] = json!(7);
    let mut world = World::install(vec![], |_| {}).upgrade("0.9.0", vec![old], |_| {});
    world.facts.custom_objects = things(vec![thing("main", json!({ "size": 9 }))]);
    let findings = world.findings();
    let back = findings.iter().find(|f| f.code == FindingCode::RollbackImpossible).unwrap();
    assert_eq!(back.severity, Severity::Block);
    assert!(
        back.text.contains("1 objects of things.example.com are not valid in its schema"),
        "{}",
        back.text
    );
    // an irreversible upgrade is reported before it is made
    let mut new = crd();
    new["spec"]["versions"][0]["storage"] = json!(false);
    let mut v2 = new["spec"]["versions"][0].clone();
    v2["name"] = json!("v2");
    v2["storage"] = json!(true);
    new["spec"]["versions"].as_array_mut().unwrap().push(v2);
    let mut world = World::install(vec![], |_| {}).upgrade("2.0.0", vec![new], |_| {});
    world.facts.custom_objects = things(vec![]);
    assert_eq!(world.codes(), [(FindingCode::RollbackImpossible, Severity::Warn)]);
}
