//! Whether the kinds of the API are there, and as this version of the program knows them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::ResourceExt;

use super::{
    ailment::{Ailment, Code},
    facts::Facts,
};

/// Fields that are named; the rest is counted.
const NAMED: usize = 3;

pub(super) fn check(facts: &Facts) -> Vec<Ailment> {
    let ours = olm_api::crds();
    ours.iter().filter_map(|ours| one(ours, facts.crds.get(&ours.name_any())?.as_ref())).collect()
}

fn one(ours: &CustomResourceDefinition, live: Option<&CustomResourceDefinition>) -> Option<Ailment> {
    let object = Some(format!("CustomResourceDefinition {}", ours.name_any()));
    let fix = "olm self upgrade, which applies the CustomResourceDefinitions of this version";
    let Some(live) = live else {
        return Some(
            Ailment::new(Code::CrdMissing, object, "it is not on the cluster").fix("olm self install"),
        );
    };
    let conditions = live.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    if let Some(bad) = conditions
        .iter()
        .find(|c| ["Established", "NamesAccepted"].contains(&c.type_.as_str()) && c.status != "True")
    {
        let why = format!("{} is {}: {}", bad.type_, bad.status, bad.message.as_deref().unwrap_or_default());
        return Some(
            Ailment::new(Code::CrdMissing, object, why)
                .fix(format!("kubectl describe crd {}", ours.name_any())),
        );
    }
    let mut missing = Vec::new();
    for version in &ours.spec.versions {
        let there = live.spec.versions.iter().find(|v| v.name == version.name && v.served);
        let Some(there) = there else {
            missing.push(format!("version {}", version.name));
            continue;
        };
        let schema = |s: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion| {
            s.schema.as_ref().and_then(|s| s.open_api_v3_schema.clone())
        };
        if let (Some(ours), Some(live)) = (schema(version), schema(there)) {
            fields(&ours, &live, &version.name, &mut missing);
        }
    }
    if missing.is_empty() {
        return None;
    }
    let more = missing.len().saturating_sub(NAMED);
    missing.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let why = format!("it does not know {}{more}: what is written there is lost", missing.join(", "));
    Some(Ailment::new(Code::CrdOutdated, object, why).fix(fix))
}

/// Fields of ours that the live schema would prune. Both schemas are ours, and no deeper than we wrote them.
fn fields(ours: &JSONSchemaProps, live: &JSONSchemaProps, path: &str, missing: &mut Vec<String>) {
    if live.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    let there = live.properties.as_ref();
    for (name, below) in ours.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        match there.and_then(|p| p.get(name)) {
            Some(live) => fields(below, live, &path, missing),
            None if live.additional_properties.is_some() => {}
            None => missing.push(path),
        }
    }
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrArray::Schema;
    if let (Some(Schema(ours)), Some(Schema(live))) = (&ours.items, &live.items) {
        fields(ours, live, &format!("{path}[]"), missing);
    }
}
