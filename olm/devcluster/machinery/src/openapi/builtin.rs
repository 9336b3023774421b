//! The schemas of built-in kinds.

use std::collections::HashMap;

use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1 as meta};
use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration, apps::v1 as apps,
        authentication::v1 as authentication, authorization::v1 as authorization,
        autoscaling::v1 as autoscaling, batch::v1 as batch, certificates::v1 as certificates,
        coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
        networking::v1 as networking, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
        scheduling::v1 as scheduling, storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::layout::{self, Merge};

/// Prefix of `$ref`s.
pub(super) const REF_PREFIX: &str = "#/components/schemas/";

/// A built-in kind with its schema.
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    /// Name of the schema, for example `io.k8s.api.apps.v1.Deployment`.
    pub(super) schema: fn() -> String,
    generate: fn(&mut SchemaGenerator),
}

const fn kind<T: Resource + JsonSchema>() -> Kind {
    Kind {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        schema: || T::schema_name().into_owned(),
        generate: |generator| {
            generator.subschema_for::<T>();
        },
    }
}

pub(super) const KINDS: &[Kind] = &[
    kind::<core::ConfigMap>(),
    kind::<core::Endpoints>(),
    kind::<core::Event>(),
    kind::<core::LimitRange>(),
    kind::<core::Namespace>(),
    kind::<core::Node>(),
    kind::<core::PersistentVolume>(),
    kind::<core::PersistentVolumeClaim>(),
    kind::<core::Pod>(),
    kind::<core::PodTemplate>(),
    kind::<core::ReplicationController>(),
    kind::<core::ResourceQuota>(),
    kind::<core::Secret>(),
    kind::<core::Service>(),
    kind::<core::ServiceAccount>(),
    kind::<core::Binding>(),
    kind::<apps::ControllerRevision>(),
    kind::<apps::DaemonSet>(),
    kind::<apps::Deployment>(),
    kind::<apps::ReplicaSet>(),
    kind::<apps::StatefulSet>(),
    kind::<batch::CronJob>(),
    kind::<batch::Job>(),
    kind::<rbac::ClusterRole>(),
    kind::<rbac::ClusterRoleBinding>(),
    kind::<rbac::Role>(),
    kind::<rbac::RoleBinding>(),
    kind::<authentication::TokenRequest>(),
    kind::<authentication::TokenReview>(),
    kind::<authentication::SelfSubjectReview>(),
    kind::<authorization::LocalSubjectAccessReview>(),
    kind::<authorization::SelfSubjectAccessReview>(),
    kind::<authorization::SelfSubjectRulesReview>(),
    kind::<authorization::SubjectAccessReview>(),
    kind::<autoscaling::HorizontalPodAutoscaler>(),
    kind::<autoscaling::Scale>(),
    kind::<coordination::Lease>(),
    kind::<discovery::EndpointSlice>(),
    kind::<events::Event>(),
    kind::<certificates::CertificateSigningRequest>(),
    kind::<networking::Ingress>(),
    kind::<networking::IngressClass>(),
    kind::<networking::NetworkPolicy>(),
    kind::<node::RuntimeClass>(),
    kind::<policy::Eviction>(),
    kind::<policy::PodDisruptionBudget>(),
    kind::<scheduling::PriorityClass>(),
    kind::<storage::CSIDriver>(),
    kind::<storage::StorageClass>(),
    kind::<storage::VolumeAttachment>(),
    kind::<admissionregistration::MutatingWebhookConfiguration>(),
    kind::<admissionregistration::ValidatingWebhookConfiguration>(),
    kind::<admissionregistration::MutatingAdmissionPolicy>(),
    kind::<admissionregistration::MutatingAdmissionPolicyBinding>(),
    kind::<admissionregistration::ValidatingAdmissionPolicy>(),
    kind::<admissionregistration::ValidatingAdmissionPolicyBinding>(),
    kind::<apiextensions::CustomResourceDefinition>(),
    kind::<apiregistration::APIService>(),
];

pub(super) fn find(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.group == group && k.version == version && k.kind == kind)
}

/// The schemas of these kinds and of all referenced types.
pub(super) fn schemas<'a>(kinds: impl IntoIterator<Item = &'a Kind>) -> Map<String, Value> {
    let settings = SchemaSettings::openapi3().with(|settings| settings.meta_schema = None);
    let mut generator = SchemaGenerator::new(settings);
    generator.subschema_for::<meta::ObjectMeta>();
    generator.subschema_for::<meta::ListMeta>();
    for kind in kinds {
        (kind.generate)(&mut generator);
    }
    generator.take_definitions(false)
}

/// Adds the extensions that kubectl needs.
pub(super) fn annotate(schemas: &mut Map<String, Value>) {
    let kinds: HashMap<String, &Kind> = KINDS.iter().map(|kind| ((kind.schema)(), kind)).collect();
    for (name, schema) in schemas.iter_mut() {
        wrap_refs(schema);
        if let Some(kind) = kinds.get(name) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{ "group": kind.group, "version": kind.version, "kind": kind.kind }]);
        }
        let short = short_name(name);
        // `enum` and `default` of a CustomResourceDefinition hold any JSON; the generated type is `object`.
        if short == "apiextensions.v1.JSON"
            && let Some(schema) = schema.as_object_mut()
        {
            schema.shift_remove("type");
        }
        for extension in layout::extensions(&short) {
            let Some(field) = schema["properties"].get_mut(extension.field).and_then(Value::as_object_mut)
            else {
                continue;
            };
            let mut set = |key: &str, value: Value| {
                field.insert(key.to_owned(), value);
            };
            if extension.set {
                set("x-kubernetes-list-type", "set".into());
            } else if !extension.keys.is_empty() {
                set("x-kubernetes-list-type", "map".into());
                set("x-kubernetes-list-map-keys", extension.keys.into());
            } else if extension.atomic {
                set("x-kubernetes-map-type", "atomic".into());
            }
            let strategy = match (extension.merge.is_some(), extension.retain_keys) {
                (true, true) => Some("merge,retainKeys"),
                (true, false) => Some("merge"),
                (false, true) => Some("retainKeys"),
                (false, false) => None,
            };
            if let Some(strategy) = strategy {
                set("x-kubernetes-patch-strategy", strategy.into());
            }
            if let Some(Merge::ByKey(key)) = extension.merge {
                set("x-kubernetes-patch-merge-key", key.into());
            }
        }
    }
}

/// `io.k8s.api.core.v1.PodSpec` as the table names it: `core.v1.PodSpec`.
fn short_name(name: &str) -> String {
    let parts: Vec<&str> = name.rsplitn(4, '.').collect();
    match parts.as_slice() {
        [ty, version, group, ..] => format!("{group}.{version}.{ty}"),
        _ => name.to_owned(),
    }
}

/// OpenAPI 3.0 does not allow a `$ref` next to other keywords: it is moved into an `allOf`, as in Kubernetes.
fn wrap_refs(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A string is a reference; `JSONSchemaProps` has a *property* of that name, which is a schema.
            if map.len() > 1
                && map.get("$ref").is_some_and(Value::is_string)
                && let Some(target) = map.shift_remove("$ref")
            {
                map.insert("allOf".to_owned(), json!([{ "$ref": target }]));
            }
            map.values_mut().for_each(wrap_refs);
        }
        Value::Array(list) => list.iter_mut().for_each(wrap_refs),
        _ => {}
    }
}
